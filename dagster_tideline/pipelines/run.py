"""`tideline pipelines run`: a store gets the views of a pipeline, and all of them are brought up to date."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dagster_tideline.models.node_listing import build_project_listing
from dagster_tideline.models.node_readings import NodeReading, refuse_nodes
from dagster_tideline.pipelines.plan import (
    REFUSED,
    TAKEN,
    WRONG,
    add_arguments,
    build_project,
)
from dagster_tideline.pipelines.project import list_known_tables, read_pipeline_models
from dagster_tideline.sync import sync_models
from engine.cli.connections import open_session
from engine.cli.layout import TextColumn, format_duration
from engine.cli.printing import print_listing
from engine.errors import TidelineError
from engine.runtime.epoch.report import ViewReport


def main(arguments: Sequence[str] | None = None) -> int:
    """Bring the views of a pipeline up to date and print each; returns 0 if all are, 2 if some are not taken, 1 if one fails."""
    parser = argparse.ArgumentParser(prog="tideline pipelines run")
    add_arguments(parser)
    parser.add_argument("--spark", default="")
    given = parser.parse_args(arguments)
    try:
        with open_session(given.store, given.spark) as session:
            known = list_known_tables(session.catalog.relations)
            reading = read_pipeline_models(build_project(given), known)
            refused = sync_models(session, reading.models).errors
            report = session.flush()
    except (TidelineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    nodes = refuse_nodes(reading.nodes, refused)
    _print_nodes(nodes, {one.view: one for one in report.views}, given)
    names = {node.relation for node in nodes if node.taken}
    if any(view.view in names for view in report.failed):
        return WRONG
    return TAKEN if all(node.taken for node in nodes) else REFUSED


def _print_nodes(
    nodes: Sequence[NodeReading], reports: Mapping[str, ViewReport], given: argparse.Namespace
) -> None:
    """Print what became of each element, and how many rows of its view came, changed and went."""
    listing = build_project_listing(nodes)
    found = [reports.get(node.relation) if node.taken and node.kind != "table" else None for node in nodes]
    columns = (
        TextColumn("new", [_count(one, "inserted") for one in found], right=True),
        TextColumn("changed", [_count(one, "updated") for one in found], right=True),
        TextColumn("gone", [_count(one, "deleted") for one in found], right=True),
        TextColumn(
            "took", ["" if one is None else format_duration(one.seconds) for one in found], right=True, rank=3
        ),
    )
    notes = [
        one.error if one is not None and one.error else note
        for one, note in zip(found, listing.notes, strict=True)
    ]
    records = [{**record, **_count_all(one)} for record, one in zip(listing.records, found, strict=True)]
    listing = replace(listing, columns=(*listing.columns, *columns), notes=notes, records=records)
    print_listing(listing, given.format, wide=given.wide)


def _count(report: ViewReport | None, word: str) -> str:
    return "" if report is None else str(getattr(report, word))


def _count_all(report: ViewReport | None) -> dict[str, object]:
    """Return what a run did for a view as programs read it; null where it had no view."""
    words = ("epoch", "inserted", "updated", "deleted", "seconds", "error")
    return {word: None if report is None else getattr(report, word) for word in words}


if __name__ == "__main__":
    sys.exit(main())
