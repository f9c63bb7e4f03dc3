"""Crossings: when rows of a table that follows the clock come or go next, though nothing that it reads changes.

The moment of an epoch is its time. A filter on now() notes with each commit the first epoch at which it will have other rows, as
an entry of the catalog; up to there it has content for free, as it has where no input changes. An epoch lies in the future until
some commit has passed it, so a store at rest needs one: `advance_version` is the version as it is once the time has been noted
so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from engine.assumptions import NOT_CROSSED
from engine.hummock import Commit, Hummock, Reader, TableVersion, Version
from engine.hummock.epoch import epoch_at, first_epoch_from, micros_of
from engine.hummock.reads.range_scan import estimate_rows_in_ranges, find_first_in_range
from engine.meta.catalog.records import Prefix, Record
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.sql.expression.clock import FOREVER, TIME_AT, TIME_PART, TIME_PARTS
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import TimedRows
from engine.verification import build_assumption_error, should_verify

TIME = "time"
_NEVER = "never"


def _decode(text: str) -> int | None:
    return None if text == _NEVER else int(text)


def _encode(epoch: int | None) -> str:
    return _NEVER if epoch is None else str(epoch)


BOUNDARIES = Record(Prefix.BOUNDARY, _decode, _encode)
"""By table the first epoch at which it has other rows; None: for ever the same."""


def is_timed(fragment: Fragment) -> bool:
    """Tell whether a fragment's table follows the clock."""
    return isinstance(fragment.rule, TimedRows)


def follows_clock(version: Version, table: str) -> bool:
    """Tell whether rows of a table that has content come and go though no input changes, if it has any input at all."""
    return BOUNDARIES.has(version, table)


def find_next_boundary(version: Version, table: str) -> int | None:
    """Return the first epoch at which a table has other rows than now though no input changes, None if there is none."""
    return BOUNDARIES.read(version, table)


def find_boundary_after(version: Version, table: str, label: int) -> int | None:
    """Return an epoch up to which a table has the content of one of its labels, as far as the clock goes; None: for ever.

    Only of its newest label it is known.
    """
    if not BOUNDARIES.has(version, table):
        return None
    own = version.tables.get(table)
    return (
        find_next_boundary(version, table) if own is not None and label >= own.committed_epoch else label + 1
    )


def record_boundaries(
    reader: Reader, tables: Mapping[str, TableVersion], timed: Collection[str]
) -> dict[str, str | None]:
    """Return the catalog entries of tables that follow the clock, from their newest rows: what a commit of these says."""
    found: dict[str, str | None] = {}
    for name in timed:
        at = _read_next_bound(reader, tables[name])
        if should_verify():
            check_not_crossed(reader, tables[name], at)
        found |= BOUNDARIES.record(name, None if at is None else first_epoch_from(at))
    return found


def check_not_crossed(reader: Reader, table: TableVersion, at: int | None) -> None:
    """Check `NOT_CROSSED`: that no row of a table meets a bound between its newest epoch and the moment `at` (None: for ever)."""
    label = table.committed_epoch
    for rows in reader.scan(table, label, columns=[TIME_AT]):
        ahead = pc.greater(rows.column(TIME_AT), pa.scalar(micros_of(label), pa.int64()))
        least = pc.min(rows.column(TIME_AT).filter(ahead)).as_py()
        if least is not None and least < FOREVER and (at is None or least < at):
            raise build_assumption_error(
                NOT_CROSSED, f"{table.name}: a row crosses at {least}, the first was said to at {at}"
            )


def count_crossing_rows(reader: Reader, table: TableVersion, upto: int) -> int:
    """Return an upper bound of the rows of a table that cross a bound up to an epoch; none of them is read."""
    low, high = (micros_of(epoch) + 1 for epoch in (table.committed_epoch, upto))
    ranges = (
        ({TIME_PART: part, TIME_AT: low}, {TIME_PART: part, TIME_AT: high}) for part in range(TIME_PARTS)
    )
    return estimate_rows_in_ranges(reader, table, table.committed_epoch, ranges)


def request_boundaries(tables: Collection[str], epoch: int) -> dict[str, str | None]:
    """Return the entries of tables whose next crossing nobody has looked for yet: the next epoch after `epoch` does."""
    return {BOUNDARIES.key(name): _encode(epoch + 1) for name in tables}


def clear_boundaries(version: Version, tables: Collection[str]) -> dict[str, str | None]:
    """Return the entries of tables that are brought on, while nobody knows yet when rows of them cross a bound next."""
    return {BOUNDARIES.key(name): _NEVER for name in tables if BOUNDARIES.has(version, name)}


def forget_boundaries(version: Version, tables: Collection[str]) -> dict[str, str | None]:
    """Return the entries that go with tables."""
    return BOUNDARIES.remove_existing(version, tables)


def rename_boundaries(version: Version, tables: Mapping[str, str]) -> dict[str, str | None]:
    """Return what other names of tables, by their old ones, do to their entries."""
    return BOUNDARIES.rename(version, tables)


def load_present(store: Hummock, now: float) -> tuple[Version, StoredCatalog]:
    """Return the newest version of a store as it is at a time, and its catalog: rows may have come or gone by now() alone."""
    version = store.refresh()
    stored = load_catalog(version)
    return advance_version(version, stored, now), stored


def advance_version(
    version: Version, stored: StoredCatalog, now: float, among: Collection[str] | None = None
) -> Version:
    """Return a version as one whose newest epoch is the present, if something (of the tables `among`, None: of all) follows
    the clock that has work there.

    That has a table with a crossing that is due, and one of which an input has changed.
    """
    epoch = epoch_at(now)
    names = (name for name in _list_timed_tables(version, stored) if among is None or name in among)
    if epoch <= version.epoch or not any(_is_due(version, stored, name, epoch) for name in names):
        return version
    return replace(version, epoch=epoch)


def record_time(
    store: Hummock, version: Version, stored: StoredCatalog, now: float, among: Collection[str] | None = None
) -> Version:
    """Commit that the time has come to `now`, if something of the tables `among` has work there; return the newest version."""
    ahead = advance_version(version, stored, now, among)
    if ahead is version:
        return version
    return store.commit(Commit(catalog={TIME: str(ahead.epoch)}))


def _list_timed_tables(version: Version, stored: StoredCatalog) -> Sequence[str]:
    return [name for name in stored.order if BOUNDARIES.has(version, name)]


def _is_due(version: Version, stored: StoredCatalog, name: str, epoch: int) -> bool:
    own = version.tables.get(name)
    if own is None:
        return False
    at = find_next_boundary(version, name)
    if at is not None and own.committed_epoch < at <= epoch:
        return True
    inputs = (version.tables.get(upstream) for upstream in stored.inputs[name])
    return any(
        table is not None and table.find_first_change(own.committed_epoch) is not None for table in inputs
    )


def _read_next_bound(reader: Reader, table: TableVersion) -> int | None:
    """Return the first bound, in microseconds since 1970, that a row of a table meets."""
    low, found = micros_of(table.committed_epoch) + 1, []
    for part in range(TIME_PARTS):
        bounds = ({TIME_PART: part, TIME_AT: low}, {TIME_PART: part, TIME_AT: FOREVER})
        row = find_first_in_range(reader, table, table.committed_epoch, bounds, [TIME_AT])
        if row is not None:
            found.append(int(row[TIME_AT]))
    return min(found, default=None)
