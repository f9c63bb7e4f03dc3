"""How the checks of views came out, as columns for people, as numbers for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.cli.layout import TextColumn, format_ago
from engine.cli.listings.status import Listing
from engine.hummock.epoch import format_epoch_time, seconds_of
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.check_results import CheckResult, find_check_results, list_check_names

if TYPE_CHECKING:
    from engine.hummock import Version


def build_checks_listing(version: Version, now: float) -> Listing:
    """Return how each check of each view came out at the view's newest epoch, be it one that a check has stopped."""
    records = []
    for view, relation in sorted(load_catalog(version).catalog.relations.items()):
        known, table = find_check_results(version, view), version.tables.get(view)
        committed = table.committed_epoch if table is not None else None
        texts = {check.name: check.text for check in relation.checks}
        for name in list_check_names(relation):
            found = known.results.get(name) if known is not None else None
            stopped = known.stopped if known is not None else None
            records.append(
                {
                    "view": view,
                    "check": name,
                    "outcome": _format_outcome(found),
                    "severity": _format_severity(found),
                    "rows": found.rows if found is not None else None,
                    "epoch": (stopped or committed) if found is not None else None,
                    "stopped": stopped is not None,
                    "text": texts.get(name, relation.options.get(name, "")),
                    "told": found.text if found is not None and not found.passed else "",
                }
            )
    epochs = [epoch if isinstance(epoch := record["epoch"], int) else None for record in records]
    columns = (
        TextColumn("view", [str(record["view"]) for record in records]),
        TextColumn("check", [str(record["check"]) for record in records]),
        TextColumn("outcome", [str(record["outcome"]) for record in records]),
        TextColumn("severity", [str(record["severity"]) for record in records], rank=3),
        TextColumn(
            "rows", ["" if r["rows"] is None else f"{r['rows']:,}" for r in records], right=True, rank=2
        ),
        TextColumn(
            "newest", [format_ago(now - seconds_of(one)) if one else "" for one in epochs], right=True, rank=1
        ),
        TextColumn("epoch (UTC)", [format_epoch_time(one) if one else "" for one in epochs], rank=4),
        TextColumn("text", [str(record["text"]) for record in records], rank=5),
    )
    return Listing(columns, [str(record["told"]) for record in records], records, "no view has a check")


def _format_outcome(found: CheckResult | None) -> str:
    if found is None:
        return "not asked yet"
    return "passed" if found.passed else "failed"


def _format_severity(found: CheckResult | None) -> str:
    return found.severity if found is not None else ""
