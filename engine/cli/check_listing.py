"""How the checks of views came out, as columns for people, as numbers for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.cli.layout import Column, ago
from engine.cli.standing import Listing
from engine.hummock.epoch import epoch_time, seconds_of
from engine.meta.catalog_store import load
from engine.meta.check_results import CheckResult, checked, names_of

if TYPE_CHECKING:
    from engine.hummock import Version


def checks_listing(version: Version, now: float) -> Listing:
    """Return how each check of each view came out at the view's newest epoch, be it one that a check has stopped."""
    records = []
    for view, relation in sorted(load(version).catalog.relations.items()):
        known, table = checked(version, view), version.tables.get(view)
        committed = table.committed_epoch if table is not None else None
        texts = {check.name: check.text for check in relation.checks}
        for name in names_of(relation):
            found = known.results.get(name) if known is not None else None
            stopped = known.stopped if known is not None else None
            records.append(
                {
                    "view": view,
                    "check": name,
                    "outcome": _outcome(found),
                    "severity": _severity(found),
                    "rows": found.rows if found is not None else None,
                    "epoch": (stopped or committed) if found is not None else None,
                    "stopped": stopped is not None,
                    "text": texts.get(name, relation.options.get(name, "")),
                    "told": found.text if found is not None and not found.passed else "",
                }
            )
    epochs = [epoch if isinstance(epoch := record["epoch"], int) else None for record in records]
    columns = (
        Column("view", [str(record["view"]) for record in records]),
        Column("check", [str(record["check"]) for record in records]),
        Column("outcome", [str(record["outcome"]) for record in records]),
        Column("severity", [str(record["severity"]) for record in records], rank=3),
        Column("rows", ["" if r["rows"] is None else f"{r['rows']:,}" for r in records], right=True, rank=2),
        Column("newest", [ago(now - seconds_of(one)) if one else "" for one in epochs], right=True, rank=1),
        Column("epoch (UTC)", [epoch_time(one) if one else "" for one in epochs], rank=4),
        Column("text", [str(record["text"]) for record in records], rank=5),
    )
    return Listing(columns, [str(record["told"]) for record in records], records, "no view has a check")


def _outcome(found: CheckResult | None) -> str:
    if found is None:
        return "not asked yet"
    return "passed" if found.passed else "failed"


def _severity(found: CheckResult | None) -> str:
    return found.severity if found is not None else ""
