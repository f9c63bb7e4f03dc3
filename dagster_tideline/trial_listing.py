"""What models change in the rows of a store, as columns for people and as numbers for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dagster_tideline.models.branch_trial import TriedRows
from engine.cli.layout import TextColumn
from engine.cli.listings.status import Listing

CHANGES = ("inserted", "deleted", "updated")


def build_trial_listing(tried: Sequence[TriedRows], branch: str) -> Listing:
    """Return a row for each table and view whose rows or columns are others; the footer names the branch that holds them."""
    shown = [one for one in tried if one.differs]
    columns = (
        TextColumn("name", [one.name for one in shown]),
        TextColumn("before", [_format_count(one.before) for one in shown], right=True),
        *(
            TextColumn(name, [_format_count(_get_count(one, name)) for one in shown], right=True)
            for name in CHANGES
        ),
        TextColumn("after", [_format_count(one.after) for one in shown], right=True),
    )
    notes = ["\n".join(_list_notes(one)) for one in shown]
    same = len(tried) - len(shown)
    footer = f"{same} others keep their rows\n" if same else ""
    footer += f"branch {branch} holds this: TIDELINE_BRANCH names it; `tideline branch drop` ends it"
    return Listing(columns, notes, [build_trial_record(one) for one in shown], footer, footer)


def build_trial_record(tried: TriedRows) -> dict[str, Any]:
    """Return what became of a table or view as programs read it."""
    return {
        "rows_before": tried.before,
        "rows_after": tried.after,
        **{name: _get_count(tried, name) for name in CHANGES},
        "changed_columns": dict(tried.columns),
        "not_compared": tried.not_compared,
        "problem": tried.problem or None,
    }


def _list_notes(tried: TriedRows) -> list[str]:
    lines = tried.problem.splitlines()
    if tried.before is None and tried.after is not None:
        lines.append("it is new")
    elif tried.before is None:
        lines.append("it has no rows")
    elif tried.after is None:
        lines.append("it has no rows there")
    elif tried.counts is None:
        lines.append("its key is another: rows are not compared one by one")
    if tried.columns:
        changed = (f"{name} in {rows:,}" for name, rows in tried.columns.items())
        lines.append(f"of the updated rows: {', '.join(changed)}")
    if tried.not_compared and tried.before is not None and tried.after is not None:
        lines.append(f"columns of one side only, or of another type: {', '.join(tried.not_compared)}")
    return lines


def _get_count(tried: TriedRows, name: str) -> int | None:
    return None if tried.counts is None else int(getattr(tried.counts, name))


def _format_count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"
