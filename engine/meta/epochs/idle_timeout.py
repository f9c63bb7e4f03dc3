"""idle_timeout: a table that got no row for so long is passed over by those that views combine with it.

A view of several inputs counts with the watermark that is farthest behind. A table at rest is brought to the least of those of
the tables that got rows after it, by a commit that writes its watermark: a change of an input like any other, at an epoch. So it
does not matter who looks, nor when, as long as nothing comes meanwhile; and what comes below it afterwards is late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from engine.errors import GroundLost
from engine.hummock import Hummock, Put, Reader, TableVersion, Version
from engine.hummock.epoch import seconds_of
from engine.hummock.manifests.preconditions import require_all, require_unchanged
from engine.hummock.transact import commit_once
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.epochs.time_boundary import record_time
from engine.meta.status.watermarks import WatermarkPosition, build_watermark_row, read_watermark
from engine.sql.catalog import Relation, watermark_name
from engine.sql.incremental.watermarks.monotone_expressions import DAY, Unit, find_unit
from engine.sql.incremental.watermarks.state_expiry import find_closing_filters
from engine.sql.statements.options.view_options import parse_retention

IDLE_TIMEOUT = "idle_timeout"
"""The option of a table: for how long it may get no row before others pass over its watermark."""
Group = frozenset[str]
"""Tables the least of whose watermarks closes windows of a view."""


def read_idle_timeout(relation: Relation) -> float | None:
    """Return for how long a table may rest before it is passed over, None for ever."""
    text = relation.options.get(IDLE_TIMEOUT) if relation.watermark is not None else None
    return None if text is None else parse_retention(text)


def find_idle_watermarks(
    reader: Reader, version: Version, stored: StoredCatalog, now: float
) -> dict[str, int]:
    """Return the watermarks to which tables at rest are brought now, as numbers in the units of their columns."""
    relations = stored.catalog.relations
    known = {
        name: version.tables[name]
        for name, relation in relations.items()
        if relation.watermark is not None and name in version.tables
    }
    last = {name: max(_find_last_write(table), relations[name].since) for name, table in known.items()}
    resting = [name for name in known if _is_idle(relations[name], last[name], now)]
    if not resting:
        return {}
    groups = [group & known.keys() for group in _list_groups(stored)]
    at = {name: read_watermark(reader, version.tables[watermark_name(name)]).number for name in known}
    found: dict[str, int] = {}
    for name in sorted(
        resting, key=lambda one: (last[one], one), reverse=True
    ):  # those that others wait for first
        candidates = [
            least
            for group in groups
            if name in group and (least := _find_least_watermark(name, group, at, last, stored)) is not None
        ]
        before = at[name]
        if candidates and (before is None or max(candidates) > before):
            at[name] = found[name] = max(candidates)
    return found


def advance_time(
    store: Hummock, version: Version, stored: StoredCatalog, now: float, moving: Collection[str]
) -> Version:
    """Commit that the time has come to `now`, where one of the tables that are `moving` has work there; return the newest
    version.
    """
    return advance_idle_watermarks(store, record_time(store, version, stored, now, moving), stored, now)


def advance_idle_watermarks(store: Hummock, version: Version, stored: StoredCatalog, now: float) -> Version:
    """Commit the watermarks of tables that are passed over now; return the newest version."""
    found = find_idle_watermarks(store.reader, version, stored, now)
    if not found:
        return version
    hidden = {name: version.tables[watermark_name(name)] for name in found}
    rows = {}
    for name, number in found.items():
        late = read_watermark(store.reader, hidden[name]).late
        rows[hidden[name].name] = [
            Put(build_watermark_row(hidden[name].table, WatermarkPosition(number, late)))
        ]
    idle_tables = [version.tables[table] for name in found for table in (name, watermark_name(name))]
    unmoved = require_all(
        *(
            require_unchanged(table, f"{table.name} was written to or dropped at the same time")
            for table in idle_tables
        )
    )
    leaving = {
        name: number for name, number in found.items() if _is_idle_source(stored.catalog.relations[name])
    }
    # where another writer is faster it rests no more, or somebody else was first
    commit_once(store, lambda: store.ingest_batch(rows, precondition=unmoved, watermarks=leaving), GroundLost)
    return store.version


def _is_idle_source(relation: Relation) -> bool:
    return relation.watermark is not None and relation.watermark.ttl


def _find_last_write(table: TableVersion) -> int:
    """Return the epoch of the last rows of a table: its watermark alone may have moved since."""
    return table.log[-1].epoch if table.log else table.generations[-1].upto


def _is_idle(relation: Relation, last: int, now: float) -> bool:
    seconds = read_idle_timeout(relation)
    return seconds is not None and now - seconds_of(last) >= seconds


def _find_least_watermark(
    name: str, group: Group, at: Mapping[str, int | None], last: Mapping[str, int], stored: StoredCatalog
) -> int | None:
    """Return the least watermark of the tables of a group that got rows after one, in its unit; None if one has none."""
    unit = _find_unit(stored.catalog.relations[name])
    least: list[int] = []
    for other in group:
        if (last[other], other) > (last[name], name):
            number = at[other]
            of_unit = (
                None
                if number is None
                else _convert_unit(number, _find_unit(stored.catalog.relations[other]), unit)
            )
            if of_unit is None:
                return None
            least.append(of_unit)
    return min(least, default=None)


def _find_unit(relation: Relation) -> Unit | None:
    assert relation.watermark is not None
    column = relation.watermark.column
    return find_unit(next(one.type for one in relation.columns if one.storage_name == column))


def _convert_unit(number: int, unit: Unit | None, target: Unit | None) -> int | None:
    if unit == target:
        return number
    if (unit, target) == ("micros", "days"):
        return number // DAY
    return number * DAY if (unit, target) == ("days", "micros") else None


def _list_groups(stored: StoredCatalog) -> Iterator[Group]:
    """Yield the tables whose watermarks are compared, by filter."""
    tables = {watermark_name(name): name for name in stored.catalog.relations}
    for fragment in stored.fragments.values():
        for node in find_closing_filters(fragment.plan):
            yield frozenset(tables[b.scan.table] for b in node.bounds if b.scan.table in tables)
