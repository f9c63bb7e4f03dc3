"""The Nexmark source: persons, auctions or bids of the generator become rows of a table, each event exactly once.

`CREATE SOURCE bid (…) WITH (connector = 'nexmark', type = 'bid', event_rate = '1000', max_events = '100000', seed = '1')`.
Rows and the number of the next event stand in one commit, which is refused if another poller has gone on meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.connectors.fed_tables import fed_by, polled
from engine.connectors.landing import LandingReport
from engine.connectors.landing_tables import source_options
from engine.connectors.nexmark_events import SIZES, NexmarkEvents
from engine.connectors.same_source import same_source
from engine.errors import Conflict, SourceError, TableExists
from engine.hummock import Commit, Hummock, Put, Table, TableVersion, Version
from engine.hummock.batch import Operation
from engine.hummock.preconditions import Precondition
from engine.meta.catalog_store import entries
from engine.runtime.writes.watermarks import Arrivals
from engine.sql.catalog import Catalog, Column, Relation
from engine.sql.typing.types import to_arrow

CONNECTOR = "nexmark"
OPTIONS: Mapping[str, str] = {
    "connector": "'nexmark': rows are made by a seeded generator",
    "type": "person, auction or bid; without it the name of the source",
    "event_rate": "events a second, of all three types together; without it all are due at once",
    "max_events": "the number of events, of all three types together, after which it ends; without it never",
    "seed": "a number: the same seed makes the same events; 1 without it",
}
"""The options of a source and what they mean, one of event_rate and max_events at least; `docs/reference.md` is made of this."""
OFFSETS = "_nexmark_offsets"
OFFSETS_COLUMNS = {
    "source": "string",
    "table_id": "bigint",
    "next_event": "bigint",
    "started_us": "bigint",
}
OFFSETS_SCHEMA = pa.schema([(name, to_arrow(kind)) for name, kind in OFFSETS_COLUMNS.items()])
ROW_ID = "_row_id"
EVENTS_PER_COMMIT = 500_000
RACE_ATTEMPTS = 50
DEFAULT_RATE = 10_000


@dataclass(frozen=True)
class Offset:
    """How far a source has come: the number of its next event, and the wall clock when it began, in microseconds."""

    next_event: int
    started_us: int


class NexmarkSource:
    """The events of one kind that feed one table; with `event_rate` they come at that many a second of all kinds."""

    def __init__(self, store: Hummock, relation: Relation, clock: Callable[[], float] = time.time) -> None:
        options = source_options(relation.options)
        unknown = [name for name in options if name not in OPTIONS]
        if unknown:
            raise SourceError(
                f"table {relation.name}: option {unknown[0]} is unknown: use {', '.join(OPTIONS)}"
            )
        word = options.get("type", relation.name).lower()
        kind = next((kind for kind in SIZES if kind == word), None)
        if kind is None:
            raise SourceError(f"table {relation.name}: type '{word}' is unknown: use {', '.join(SIZES)}")
        self.kind = kind
        self.rate = _number(relation, options, "event_rate")
        self.limit = _number(relation, options, "max_events")
        if self.rate is None and self.limit is None:
            raise SourceError(
                f"table {relation.name}: the events never end: give event_rate, max_events, or both"
            )
        seed = _number(relation, options, "seed", least=0)
        self._events = NexmarkEvents(1 if seed is None else seed, self.rate or DEFAULT_RATE)
        self.store, self.relation, self._clock = store, relation, clock
        self._check_columns()

    def pending(self) -> tuple[int, int]:
        """Return the next event's number and that of the first which is not due yet."""
        offset = self._offset(self.store.version)
        return (0, 1) if offset is None else (offset.next_event, self._due(offset))

    def poll(self) -> LandingReport:
        """Write all events that are due; raises SourceError if other writers are faster again and again."""
        started = time.perf_counter()
        self.store.refresh()
        _ensure_offsets(self.store)
        same = same_source(self.store.version, self.relation.name, self.relation)
        rows, epoch, target, losses = 0, None, None, 0
        while losses < RACE_ATTEMPTS:
            offset = self._offset(self.store.version)
            begun = offset or Offset(0, int(self._clock() * 1_000_000))
            target = self._due(begun) if target is None else target
            stop = min(target, begun.next_event + EVENTS_PER_COMMIT)
            if offset is not None and stop <= begun.next_event:
                return LandingReport(
                    self.relation.name, rows=rows, seconds=time.perf_counter() - started, epoch=epoch
                )
            try:
                then = Offset(max(stop, begun.next_event), begun.started_us)
                written, epoch = self._commit(offset, then, same)
                rows += written
            except Conflict:
                losses += 1
                self.store.refresh()
        raise SourceError(
            f"table {self.relation.name}: other writers were faster {RACE_ATTEMPTS} times: poll again"
        )

    def _due(self, offset: Offset) -> int:
        """Return the number of the first event that is not due yet."""
        if self.rate is None:
            assert self.limit is not None
            return self.limit
        passed = max(int(self._clock() * 1_000_000) - offset.started_us, 0)
        due = passed * self.rate // 1_000_000
        return max(offset.next_event, due if self.limit is None else min(due, self.limit))

    def _commit(self, seen: Offset | None, then: Offset, same: Precondition) -> tuple[int, int]:
        same(self.store.version)
        table = self._table(self.store.version)
        rows = self._rows(0 if seen is None else seen.next_event, then.next_event)
        record = pa.Table.from_pylist(
            [
                {
                    "source": table.name,
                    "table_id": table.table_id,
                    "next_event": then.next_event,
                    "started_us": then.started_us,
                }
            ],
            OFFSETS_SCHEMA,
        )
        arrivals = Arrivals(self.store, self.store.version, self.relation)
        taken = arrivals.take(rows)
        writes: dict[str, Sequence[Operation]] = {OFFSETS: [Put(record)], **arrivals.writes()}
        if taken.num_rows:
            writes[table.name] = [Put(taken)]

        def unchanged(version: Version) -> None:
            same(version)
            if self._offset(version) != seen:
                raise Conflict(
                    f"events of {self.relation.name} were taken by another process at the same time"
                )

        epoch = self.store.ingest_batch(
            writes, precondition=arrivals.unmoved(unchanged), watermarks=arrivals.watermarks()
        )
        return taken.num_rows, epoch

    def _rows(self, start: int, stop: int) -> pa.Table:
        """Return the events [start, stop) of this kind in the table's columns and types."""
        made = self._events.rows(self.kind, start, stop)
        arrays, names = [], []
        for column in self.relation.columns:
            source = "id" if column.name == ROW_ID else column.name
            kind = to_arrow(column.type)
            try:
                arrays.append(made.column(source).cast(kind))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                raise SourceError(f"table {self.relation.name}: column {column.name}: {error}") from error
            names.append(column.source)
        return pa.Table.from_arrays(arrays, names=names)

    def _check_columns(self) -> None:
        known = self._events.rows(self.kind, 0, 1).column_names
        for column in self.relation.columns:
            if column.name not in known and column.name != ROW_ID:
                raise SourceError(
                    f"table {self.relation.name}: Nexmark's {self.kind}s have no column {column.name}: "
                    f"they have {', '.join(known)}"
                )

    def _table(self, version: Version) -> TableVersion:
        try:
            return version.tables[self.relation.name]
        except KeyError:
            raise SourceError(
                f"table {self.relation.name} was dropped while events were made for it"
            ) from None

    def _offset(self, version: Version) -> Offset | None:
        """Return how far the source has come; None before its first poll, also if a table of its name was dropped."""
        table, records = self._table(version), version.tables.get(OFFSETS)
        if records is None:
            return None
        key = pa.table({"source": [table.name]})
        _, found = self.store.reader.lookup(records, key, records.committed_epoch)
        for row in found.to_pylist():
            if row["table_id"] == table.table_id:
                return Offset(row["next_event"], row["started_us"])
        return None


def poll_nexmark(
    catalog: Catalog, store: Hummock, tables: Collection[str] | None = None
) -> list[LandingReport]:
    """Poll every Nexmark source of the catalog (or of `tables`); one that fails is told in its report."""
    return polled(fed_by(CONNECTOR, catalog, tables), lambda relation: NexmarkSource(store, relation).poll())


def pending_nexmark(
    catalog: Catalog, store: Hummock, tables: Collection[str] | None = None
) -> tuple[tuple[str, int], ...]:
    """Return the sources (or those of `tables`) with events that are due, each with the number of its next event."""
    found = []
    for relation in fed_by(CONNECTOR, catalog, tables):
        try:
            start, stop = NexmarkSource(store, relation).pending()
        except SourceError:
            continue
        if stop > start:
            found.append((relation.name, start))
    return tuple(found)


def _number(relation: Relation, options: Mapping[str, str], name: str, least: int = 1) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < least:
        raise SourceError(f"table {relation.name}: {name} = '{text}' is no whole number of at least {least}")
    return int(text)


def _ensure_offsets(store: Hummock) -> None:
    """Create the table of offsets where it is missing; it can be read by SQL as any table."""
    if OFFSETS in store.version.tables:
        return

    def absent(version: Version) -> None:
        if OFFSETS in version.tables:
            raise Conflict(f"{OFFSETS} was created by another process at the same time")

    columns = tuple(Column(name, kind, name != "source") for name, kind in OFFSETS_COLUMNS.items())
    relation = Relation(name=OFFSETS, kind="table", columns=columns, primary_key=("source",))
    table = Table(OFFSETS, OFFSETS_SCHEMA, ("source",), ())
    try:
        described = entries({OFFSETS: relation}, {})
        store.commit(Commit(create=(table,), catalog=described, precondition=absent))
    except (TableExists, Conflict):
        store.refresh()  # another poller was faster
