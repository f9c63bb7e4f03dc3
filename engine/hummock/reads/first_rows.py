"""The first or last row of each key's rows: a few rows from the end of every sorted file, more only where deletions hide them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.errors import InvalidRow
from engine.hummock.reads.look_ahead import LookAhead
from engine.hummock.reads.lookup import (
    LookupKeys,
    Opened,
    build_answer_schema,
    locate_keys,
    open_for_keys,
    take_rows,
)
from engine.hummock.reads.merge import list_newest_first
from engine.hummock.rows.ordering import argsort_stable, equal_to_previous, sort_indices
from engine.hummock.sorted_files.file_set import FileSet
from engine.hummock.version import Run, Table

STEP = 4


@dataclass(frozen=True)
class _Span:
    """The places in one file that may answer: per row the key, the first place and the one after the last."""

    key: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class _EndRows:
    """Rows read from the ends of the spans; `edge` marks the farthest one read of a span that goes on."""

    key: np.ndarray
    source: np.ndarray
    place: np.ndarray
    edge: np.ndarray


def find_first_rows(
    files: FileSet,
    table: Table,
    runs: Sequence[Run],
    lookup_keys: LookupKeys,
    columns: Sequence[str],
    *,
    last: bool = False,
) -> tuple[np.ndarray, pa.Table]:
    """Return (index into the keys that are `wanted`, ascending; `columns` of the row that stands first among those of the key).

    They are leading columns of the primary key, the distribution key among them, and differ from each other or not; null equals
    null. The order is that of the primary key: ascending, nulls first, then NaN; with `last` the last row is found. The cost
    follows the keys, the files and the deletions at the end that is read, not the rows of a key. Of bounds only rows within them
    count. Raises InvalidRow for other columns.
    """
    if len(lookup_keys.leading) != lookup_keys.table.num_columns:
        by = ", ".join(table.primary_key)
        raise InvalidRow(f"table {table.name}: the first row is found by leading columns of the key {by}")
    opened, spans = _find_spans(files, runs, lookup_keys)
    rest = [name for name in table.primary_key if name not in lookup_keys.leading]
    open_, step = np.ones(lookup_keys.table.num_rows, dtype=bool), STEP
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    while spans and open_.any():
        ends = _read_ends(spans, open_, step, last)
        if not len(ends.key):
            break
        best, goes_on = _choose_best(table, opened, ends, rest, last)
        found.append((ends.key[best], ends.source[best], ends.place[best]))
        open_ = np.zeros_like(open_)
        open_[goes_on] = True
        step *= STEP
    if not found:
        return np.empty(0, dtype=np.int64), build_answer_schema(table, columns).empty_table()
    key, source, place = (np.concatenate(part) for part in zip(*found, strict=True))
    order = argsort_stable(key)
    rows = take_rows(opened, source[order], place[order], list(columns), table.schema)
    return key[order], rows.select(list(columns)).cast(build_answer_schema(table, columns))


def _find_spans(
    files: FileSet, runs: Sequence[Run], lookup_keys: LookupKeys
) -> tuple[list[Opened], list[_Span]]:
    opened: list[Opened] = []
    spans: list[_Span] = []
    order = lookup_keys.asking[np.argsort(lookup_keys.hashes[lookup_keys.asking])]
    ssts, ahead = list_newest_first(runs) if len(order) else [], LookAhead(files)
    for at, sst in enumerate(ssts):
        file = open_for_keys(ahead, ssts, at, lookup_keys, order)
        if file is None:
            continue
        key, low, high = locate_keys(file, lookup_keys, order, wide=0)
        some = high > low
        if some.any():
            opened.append((sst, file))
            spans.append(_Span(key[some], low[some], high[some]))
    return opened, spans


def _read_ends(spans: list[_Span], open_: np.ndarray, step: int, last: bool) -> _EndRows:
    """Read up to `step` rows from one end of every span of a key that is still open, newer files first."""
    parts = []
    for source, span in enumerate(spans):
        mine = np.flatnonzero(open_[span.key])
        low, high = span.low[mine], span.high[mine]
        count = np.minimum(high - low, step)
        start = high - count if last else low
        offset = np.cumsum(count) - count
        place = np.arange(int(count.sum())) - np.repeat(offset - start, count)
        far = start if last else start + count - 1
        edge = (place == np.repeat(far, count)) & np.repeat(count < high - low, count)
        parts.append((np.repeat(span.key[mine], count), np.full(len(place), source), place, edge))
    return _EndRows(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _choose_best(
    table: Table, opened: list[Opened], ends: _EndRows, rest: list[str], last: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return (of each key that is settled the row, the keys for which more has to be read).

    A row counts if it stands no farther than every edge of its key: beyond an edge the file may hold rows not yet read.
    """
    order = argsort_stable(ends.key)
    if rest:
        rows = take_rows(opened, ends.source, ends.place, rest, table.schema)
        order = sort_indices(rows, leading=ends.key)
    key = ends.key[order]
    new_key = first = np.concatenate([[True], key[1:] != key[:-1]])
    if rest:  # without more columns in the key all rows of a key are the same one, the newest first
        first = np.concatenate([[True], ~equal_to_previous(rows.take(pa.array(order)))]) | new_key
    place_in_order = np.cumsum(first)
    starts = np.flatnonzero(new_key)
    group = np.cumsum(new_key) - 1
    sign = -1 if last else 1
    rank = sign * place_in_order
    beyond = np.iinfo(np.int64).max
    edges = np.minimum.reduceat(np.where(ends.edge[order], rank, beyond), starts)
    deleted = _mark_deleted(opened, ends)[order]
    good = first & ~deleted & (rank <= edges[group])
    ranks = np.minimum.reduceat(np.where(good, rank, beyond), starts)
    best = np.flatnonzero(good & (rank == ranks[group]))
    return order[best], key[starts][(ranks == beyond) & (edges != beyond)]


def _mark_deleted(opened: list[Opened], ends: _EndRows) -> np.ndarray:
    deleted = np.zeros(len(ends.key), dtype=bool)
    for source, (_, file) in enumerate(opened):
        mine = ends.source == source
        deleted[mine] = file.operations[ends.place[mine]] != 0
    return deleted
