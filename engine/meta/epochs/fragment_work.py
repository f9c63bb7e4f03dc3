"""How a fragment's table is brought on to an epoch, and how many rows that reads; numbers of one manifest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from engine.hummock import Version
from engine.meta.epochs.frontier import find_expiry_epoch
from engine.sql.incremental.fragments import Fragment

How = Literal["first content", "epoch", "computed whole"]


@dataclass(frozen=True)
class FragmentWork:
    """What brings a fragment's table on: its first content, an epoch by its rule, or its whole content where history was let go.

    `previous` is what the table has (None: there is none yet), `rows` an upper bound of the input rows that are read; `unknown`
    are inputs that come before it in the same run, so that nobody can tell their rows yet.
    """

    table: str
    rule: str
    how: How
    previous: int | None
    rows: int
    unknown: tuple[str, ...] = ()


def plan_fragment_work(
    version: Version,
    fragment: Fragment,
    dependencies: Collection[str],
    upto: int,
    unknown: Collection[str] = (),
) -> FragmentWork:
    """Return how a fragment's table is brought to `upto`; the rows of inputs that are `unknown` are not counted."""
    own = version.tables.get(fragment.table)
    inputs = fragment.inputs
    coming = tuple(name for name in inputs if name in unknown)
    tables = [version.tables[name] for name in inputs if name not in coming]
    if own is None:
        rows = sum(table.row_count for table in tables)
        return FragmentWork(fragment.table, fragment.rule.word, "first content", None, rows, coming)
    previous = own.committed_epoch
    if find_expiry_epoch(version, fragment.table, previous, dependencies) is not None:
        rows = own.row_count + sum(table.row_count for table in tables)
        return FragmentWork(fragment.table, fragment.rule.word, "computed whole", previous, rows, coming)
    rows = sum(table.count_changed_rows(previous, upto) for table in tables)
    return FragmentWork(fragment.table, fragment.rule.word, "epoch", previous, rows, coming)
