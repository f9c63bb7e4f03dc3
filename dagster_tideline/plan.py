"""`tideline plan`: what a change of the project's models would do to its store; nothing of it is done there."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_tideline.models.branch_trial import TriedRows, try_models
from dagster_tideline.models.change_plan import ChangePlan, plan_models
from dagster_tideline.models.loader import Model
from dagster_tideline.plan_listing import build_plan_listing, build_record
from dagster_tideline.project_models import load_project_models
from dagster_tideline.settings import Settings, find_project_folder
from dagster_tideline.trial_listing import build_trial_listing, build_trial_record
from engine.cli.connections import find_running_spark, report_progress
from engine.cli.printing import Format, format_json, print_listing, refuse_csv
from engine.cli.quiet_spark import start_spark
from engine.errors import TidelineError, UnknownStore
from engine.hummock import Hummock
from engine.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

NOTHING, WRONG, PLANNED = 0, 1, 2
"""The statuses by which a script knows whether there is nothing to do, something is wrong, or changes are planned."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the plan of the working folder's project; returns 0 without changes, 2 with some, 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="tideline plan")
    parser.add_argument("--format", type=Format, default=Format.table)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--branch", default="")
    given = parser.parse_args(arguments)
    try:
        settings = Settings.of_environment(find_project_folder())
        os.environ.setdefault("TIDELINE_HOME", str(settings.home))  # landing folders are relative to it
        models = load_project_models(settings)
        if given.branch:
            return _try_on_branch(settings, models, given)
        with open_planning_session(settings) as session:
            plan = plan_models(session, models)
    except (TidelineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    print_listing(build_plan_listing(plan), given.format, wide=given.wide)
    return _find_status(plan)


def _find_status(plan: ChangePlan) -> int:
    if plan.refused:
        return WRONG
    return NOTHING if plan.is_empty else PLANNED


def _try_on_branch(settings: Settings, models: Sequence[Model], given: argparse.Namespace) -> int:
    """Print the plan and what its models change in the rows of a new branch, which stays if there is a change."""
    refuse_csv(given.format)
    tried: tuple[TriedRows, ...] = ()
    with _begin_branch(settings, given.branch) as url, _open_session(settings, url) as session:
        plan = plan_models(session, models)
        if given.format is Format.table:
            print_listing(build_plan_listing(plan), given.format, wide=given.wide)
        if not plan.is_empty:
            report_progress(f"branch {given.branch}: views are computed by these models")
            tried = try_models(session, models)
    if plan.is_empty:
        with Hummock.open(settings.store, create=False) as store:
            store.drop_branch(given.branch)
    if given.format is Format.json:
        trials = {one.name: build_trial_record(one) for one in tried}
        print(format_json([build_record(one) | {"trial": trials.get(one.name)} for one in plan.changes]))
    elif tried:
        print()
        print_listing(build_trial_listing(tried, given.branch), given.format, wide=given.wide)
    return WRONG if any(one.problem for one in tried) else _find_status(plan)


@contextmanager
def _begin_branch(settings: Settings, name: str) -> Iterator[str]:
    """Make a branch of a project's store and give its address; it goes again if what is tried on it breaks off."""
    with Hummock.open(settings.store, create=False) as store:
        branch = store.create_branch(name)
        try:
            yield branch.url
        except BaseException:
            store.drop_branch(name)
            raise


@contextmanager
def open_planning_session(settings: Settings) -> Iterator[Session]:
    """Give a session over a project's store, or over an empty one where there is none yet; Spark starts if it is needed.

    Raises UnknownStore for a branch that is not there, and at the end what kept Spark from starting: that is no fault of a model.
    """
    with tempfile.TemporaryDirectory(prefix="tideline-plan-") as folder:
        try:
            with Hummock.open(settings.store, create=False) as found:
                url = found.url
        except UnknownStore:
            if settings.is_of_branch:
                raise  # what a branch that is missing would hold is not known
            report_progress(f"note: there is no store at {settings.store} yet")
            url = Path(folder).as_uri()
        with _open_session(settings, url) as session:
            yield session


def find_refusals(models: Sequence[Model], url: str) -> dict[str, str]:
    """Return why a store would refuse models, by model; nothing of the store is changed."""
    settings = Settings.of_environment(Path.cwd()).replace(store=url)
    with open_planning_session(settings) as session:
        return {change.name: change.error for change in plan_models(session, models).refused}


@contextmanager
def _open_session(settings: Settings, url: str) -> Iterator[Session]:
    """Give a session over a store that starts Spark once it is needed; raises at the end what kept Spark from starting."""
    failures: list[TidelineError] = []
    with Session(url, _start_once(settings, failures)) as session:
        yield session
    if failures:
        raise failures[0]


def _start_once(settings: Settings, failures: list[TidelineError]) -> Callable[[], SparkSession]:
    def open_spark() -> SparkSession:
        if failures:
            raise failures[0]  # not once more for each model
        try:
            return start_spark(settings.spark or find_running_spark(settings.store, report_progress))
        except TidelineError as error:
            failures.append(error)
            raise

    return open_spark


if __name__ == "__main__":
    sys.exit(main())
