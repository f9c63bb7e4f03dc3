"""Frontiers: up to which epoch each table's content is known, and which views lag; a comparison of numbers in one manifest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.hummock import Version
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.domains.creation import find_computed_table
from engine.meta.epochs.barrier import find_recompute_epochs
from engine.meta.epochs.content import Content
from engine.meta.epochs.time_boundary import find_next_boundary, follows_clock


@dataclass(frozen=True)
class Frontier:
    """Where a table stands.

    `committed` is its newest computed epoch (None: never computed), `frontier` the newest at which it has content, `reach` the
    newest at which all of its inputs have. It is `pending` if a run could bring it on now, `lagging` if it or an input is.
    """

    committed: int | None
    frontier: int | None
    reach: int | None
    pending: bool
    lagging: bool
    oldest_change: int | None = None


def compute_frontiers(
    version: Version, order: Sequence[str], inputs: Mapping[str, Sequence[str]]
) -> dict[str, Frontier]:
    """Return the frontier of every table in `order` (inputs first); a stored table without inputs is a source.

    A source is known up to the store's newest epoch. A view's frontier moves for free over epochs in which none of its inputs
    changed; it is pending if an input changed at or below the newest epoch at which all of its inputs have content, or if a
    recomputation of partitions is under way or was broken off.
    """
    content = Content(version, inputs)
    known: dict[str, Frontier] = {}
    for name in order:
        if not inputs[name] and name in version.tables and not follows_clock(version, name):
            known[name] = Frontier(version.epoch, version.epoch, version.epoch, False, False)
            continue
        known[name] = _compute_frontier(content, name, {i: known[i] for i in inputs[name]})
    return known


def _compute_frontier(content: Content, name: str, inputs: Mapping[str, Frontier]) -> Frontier:
    version = content.version
    table = find_computed_table(version, name)
    committed = table.committed_epoch if table is not None else None
    reach = content.find_common(inputs, version.epoch)
    if reach is None:
        return Frontier(committed, committed, None, False, True)
    if committed is None:
        return Frontier(None, None, reach, True, True)
    expiry_epoch = find_expiry_epoch(version, name, committed, inputs)
    if expiry_epoch is not None:
        return Frontier(committed, committed, reach, expiry_epoch <= reach, True, expiry_epoch)
    changes = [version.tables[upstream].find_first_change(committed) for upstream in inputs]
    changes.append(find_next_boundary(version, name))
    first = min((change for change in changes if change is not None), default=None)
    behind = any(upstream.lagging for upstream in inputs.values())
    is_pending = (first is not None and first <= reach) or name in find_recompute_epochs(version)
    frontier = content.find_newest(name, version.epoch)
    return Frontier(committed, frontier, reach, is_pending, is_pending or behind, first)


def find_expiry_epoch(version: Version, table: str, committed: int, inputs: Iterable[str]) -> int | None:
    """Return from which epoch on a table that is at `committed` could be computed as a whole, if it must be; else None.

    It must be where the change log of an input no longer reaches back to what the table has, or where its query was replaced;
    nothing is known then of its content above `committed`.
    """
    safe = (version.tables[name].safe_epoch for name in inputs if name in version.tables)
    oldest = max(safe, default=0)
    if table in list_replaced_tables(version):
        oldest = max(oldest, committed + 1)
    return oldest if oldest > committed else None


def needs_run(version: Version, table: str, inputs: Sequence[str], reach: int) -> bool:
    """Tell whether bringing `table` to `reach` needs a run: it was never computed, or an input has changed by then."""
    own = find_computed_table(version, table)
    if own is None:
        return True
    expiry_epoch = find_expiry_epoch(version, table, own.committed_epoch, inputs)
    if expiry_epoch is not None:
        return expiry_epoch <= reach
    changes = [version.tables[name].find_first_change(own.committed_epoch) for name in inputs]
    changes.append(find_next_boundary(version, table))
    return any(change is not None and change <= reach for change in changes)
