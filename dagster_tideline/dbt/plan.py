"""`tideline dbt plan`: what becomes of the nodes of a dbt project; with a store its models are tried there, too."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dagster_tideline.dbt.project import DbtProject, add_refused, read_project
from dagster_tideline.models.node_listing import build_project_listing
from dagster_tideline.plan import find_refusals
from dagster_tideline.settings import read_dbt_sources
from engine.cli.printing import Format, print_listing
from engine.errors import TidelineError

TAKEN, WRONG, REFUSED = 0, 1, 2
"""The statuses by which a script knows whether all models are taken, nothing can be read, or some models are not taken."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what becomes of each node; returns 0 if all models are taken, 2 if some are not, 1 where nothing can be read."""
    parser = argparse.ArgumentParser(prog="tideline dbt plan")
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--select", action="append", default=[])
    parser.add_argument("--exclude", action="append", default=[])
    parser.add_argument("--project", type=Path, default=None)
    parser.add_argument("--store", default="")
    parser.add_argument("--format", type=Format, default=Format.table)
    parser.add_argument("--wide", action="store_true")
    given = parser.parse_args(arguments)
    try:
        project = DbtProject(
            manifest=given.manifest,
            project=given.project,
            sources=read_dbt_sources(),
            select=tuple(given.select),
            exclude=tuple(given.exclude),
        )
        reading = read_project(project)
        if given.store:
            reading = add_refused(reading, find_refusals(reading.models, given.store))
    except (TidelineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    print_listing(build_project_listing(reading.nodes), given.format, wide=given.wide)
    refused = any(node.kind.startswith("model") and not node.taken for node in reading.nodes)
    return REFUSED if refused else TAKEN


if __name__ == "__main__":
    sys.exit(main())
