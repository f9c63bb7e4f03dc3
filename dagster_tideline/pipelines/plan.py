"""`tideline pipelines plan`: what becomes of the elements of a pipeline; with a store its views are tried there, too."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from dagster_tideline.models.node_listing import build_project_listing
from dagster_tideline.models.node_readings import refuse_nodes
from dagster_tideline.pipelines.project import PipelineProject, list_known_tables, read_pipeline_models
from dagster_tideline.plan import find_refusals
from dagster_tideline.project_models import read_stored_relations
from dagster_tideline.settings import parse_table_pairs, read_left_out_columns, read_pipeline_tables
from engine.cli.printing import Format, print_listing
from engine.errors import TidelineError

TAKEN, WRONG, REFUSED = 0, 1, 2
"""The statuses by which a script knows whether all is taken, nothing can be read, or some of it is not taken."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `plan` and `run` both take."""
    parser.add_argument("spec", type=Path)
    parser.add_argument("--table", action="append", default=[])
    parser.add_argument("--leave-out", action="append", default=[])
    parser.add_argument("--store", default="")
    parser.add_argument("--format", type=Format, default=Format.table)
    parser.add_argument("--wide", action="store_true")


def build_project(given: argparse.Namespace) -> PipelineProject:
    """Return the pipeline that arguments name; tables that these say go before those of the environment."""
    tables = {**read_pipeline_tables(), **parse_table_pairs(given.table)}
    return PipelineProject(
        spec=given.spec, tables=tables, leave_out=(*read_left_out_columns(), *given.leave_out)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what becomes of each element; returns 0 if all are taken, 2 if some are not, 1 where nothing can be read."""
    parser = argparse.ArgumentParser(prog="tideline pipelines plan")
    add_arguments(parser)
    given = parser.parse_args(arguments)
    try:
        known = list_known_tables(read_stored_relations(given.store)) if given.store else []
        reading = read_pipeline_models(build_project(given), known)
        nodes = reading.nodes
        if given.store:
            nodes = refuse_nodes(nodes, find_refusals(reading.models, given.store))
    except (TidelineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    print_listing(build_project_listing(nodes), given.format, wide=given.wide)
    return TAKEN if all(node.taken for node in nodes) else REFUSED


if __name__ == "__main__":
    sys.exit(main())
