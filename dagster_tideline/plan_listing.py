"""A plan of changes as columns for people and as numbers for programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from dagster_tideline.models.change_plan import ChangePlan, PlannedChange
from engine.cli.layout import TextColumn, format_duration, format_size
from engine.cli.listings.status import KINDS, Listing

UNKNOWN = "-"
BUILDS = ("create", "difference", "rebuild")
"""The work that computes a view, or fills a table."""
FOLLOWING = ("unchanged", "no model")
"""Classes of what is changed only because of what it reads."""
WORK = {
    "nothing": "",
    "create": "create",
    "text": "note the text",
    "options": "set options",
    "difference": "commit difference",
    "rebuild": "make anew",
    "rename": "rename",
}


def build_plan_listing(plan: ChangePlan) -> Listing:
    """Return a row for each model, and for each relation of the store that no model declares."""
    changes = plan.changes
    columns = (
        TextColumn("name", [change.name for change in changes]),
        TextColumn("kind", [KINDS.get(change.kind, change.kind) for change in changes], rank=3),
        TextColumn("change", [format_class(change) for change in changes]),
        TextColumn("work", [WORK[change.work] for change in changes]),
        TextColumn("rows", [_format_rows(change) for change in changes], right=True, rank=1),
        TextColumn("size", [_format_bytes(change) for change in changes], right=True, rank=2),
        TextColumn("time", [_format_seconds(change) for change in changes], right=True, rank=2),
    )
    notes = ["\n".join(_list_notes(change)) for change in changes]
    records = [build_record(change) for change in changes]
    return Listing(columns, notes, records, "no model, and nothing in the store", format_summary(plan))


def format_class(change: PlannedChange) -> str:
    """Return the class of a change in words: of what is renamed and changed, both."""
    if change.renamed_from and change.change != "renamed":
        return f"renamed + {change.change}"
    return change.change


def format_summary(plan: ChangePlan) -> str:
    """Return what a plan comes to, in a line."""
    planned = [change for change in plan.changes if change.is_planned]
    classes = Counter(format_class(change) for change in planned if change.change not in FOLLOWING)
    followers = sum(change.change in FOLLOWING for change in planned)
    parts = [f"{number} {name}" for name, number in classes.items()]
    parts += [f"{followers} {'reader' if followers == 1 else 'readers'} of them"] if followers else []
    done = f"planned: {', '.join(parts)}" if parts else "nothing to do"
    refused = f"; {len(plan.refused)} refused" if plan.refused else ""
    return done + refused


def build_record(change: PlannedChange) -> dict[str, Any]:
    """Return a change as programs read it."""
    return {
        "name": change.name,
        "kind": change.kind,
        "change": change.change,
        "work": change.work,
        "renamed_from": change.renamed_from or None,
        "reasons": change.reasons,
        "readers": change.readers,
        "made_anew": change.made_anew,
        "columns": msgspec.to_builtins(change.columns),
        "rows": change.build.rows,
        "bytes": change.build.bytes,
        "seconds": change.build.seconds,
        "error": change.error or None,
    }


def _list_notes(change: PlannedChange) -> list[str]:
    if change.error:
        return change.error.splitlines()
    lines = [f"it was {change.renamed_from}"] if change.renamed_from else []
    lines += change.reasons
    marks = (("+", change.columns.added), ("-", change.columns.dropped), ("~", change.columns.retyped))
    lines += [f"  {mark} {column}" for mark, columns in marks for column in columns]
    if change.is_planned and change.work != "create" and change.readers:
        follow = [reader for reader in change.readers if reader not in change.made_anew]
        lines += [f"read by {', '.join(follow)}"] if follow else []
        lines += [f"made anew with it: {', '.join(change.made_anew)}"] if change.made_anew else []
    return lines


def _format_rows(change: PlannedChange) -> str:
    if change.work not in BUILDS:
        return ""
    return UNKNOWN if change.build.rows is None else f"{change.build.rows:,}"


def _format_bytes(change: PlannedChange) -> str:
    if change.work not in BUILDS:
        return ""
    return UNKNOWN if change.build.bytes is None else format_size(change.build.bytes)


def _format_seconds(change: PlannedChange) -> str:
    if change.work not in BUILDS:
        return ""
    return UNKNOWN if change.build.seconds is None else format_duration(change.build.seconds)
