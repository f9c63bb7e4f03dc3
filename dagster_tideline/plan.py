"""`tideline plan`: what a change of the project's models would do to its store; nothing of it is done."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_tideline.models.change_plan import plan_models
from dagster_tideline.models.loader import load_models
from dagster_tideline.plan_listing import build_plan_listing
from dagster_tideline.settings import Settings, find_project_folder
from engine.cli.connections import find_running_spark, report_progress
from engine.cli.printing import Format, print_listing
from engine.cli.quiet_spark import start_spark
from engine.errors import TidelineError, UnknownStore
from engine.hummock import Hummock
from engine.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTHING, WRONG, PLANNED = 0, 1, 2
"""The statuses by which a script knows whether there is nothing to do, something is wrong, or changes are planned."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the plan of the working folder's project; returns 0 without changes, 2 with some, 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="tideline plan")
    parser.add_argument("--format", type=Format, default=Format.table)
    parser.add_argument("--wide", action="store_true")
    given = parser.parse_args(arguments)
    try:
        settings = Settings.of_environment(find_project_folder())
        os.environ.setdefault("TIDELINE_HOME", str(settings.home))  # landing folders are relative to it
        models = load_models(settings.assets)
        with open_planning_session(settings) as session:
            plan = plan_models(session, models)
    except (TidelineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    print_listing(build_plan_listing(plan), given.format, wide=given.wide)
    if plan.refused:
        return WRONG
    return NOTHING if plan.is_empty else PLANNED


@contextmanager
def open_planning_session(settings: Settings) -> Iterator[Session]:
    """Give a session over a project's store, or over an empty one where there is none yet; Spark starts if it is needed.

    Raises UnknownStore for a branch that is not there, and at the end what kept Spark from starting: that is no fault of a model.
    """
    failures: list[TidelineError] = []

    def open_spark() -> SparkSession:
        if failures:
            raise failures[0]  # not once more for each model
        try:
            return start_spark(settings.spark or find_running_spark(settings.store, report_progress))
        except TidelineError as error:
            failures.append(error)
            raise

    with tempfile.TemporaryDirectory(prefix="tideline-plan-") as folder:
        try:
            with Hummock.open(settings.store, create=False) as found:
                url = found.url
        except UnknownStore:
            if settings.is_of_branch:
                raise  # what a branch that is missing would hold is not known
            report_progress(f"note: there is no store at {settings.store} yet")
            url = Path(folder).as_uri()
        with Session(url, open_spark) as session:
            yield session
    if failures:
        raise failures[0]


if __name__ == "__main__":
    sys.exit(main())
