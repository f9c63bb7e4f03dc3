"""The Nexmark source: persons, auctions or bids of the generator become rows of a table, each event exactly once.

`CREATE SOURCE bid (…) WITH (connector = 'nexmark', type = 'bid', event_rate = '1000', max_events = '100000', seed = '1')`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

import msgspec

from engine.connectors.contract.connector import Connector, Spark, StatementProblem, source_options
from engine.connectors.contract.row_source import RowSource
from engine.connectors.contract.signed_rows import SignedRows
from engine.connectors.nexmark.events import SIZES, EventKind, NexmarkEvents
from engine.errors import SourceError
from engine.hummock import Hummock
from engine.sql.catalog import ROW_ID, Relation
from engine.sql.statements.statement_types import CreateTable
from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.types import from_arrow, to_arrow

CONNECTOR = "nexmark"
OPTIONS: Mapping[str, str] = {
    "connector": "'nexmark': rows are made by a seeded generator",
    "type": "person, auction or bid; without it the name of the source",
    "event_rate": "events a second, of all three types together; without it all are due at once",
    "max_events": "the number of events, of all three types together, after which it ends; without it never",
    "seed": "a number: the same seed makes the same events; 1 without it",
}
"""The options of a source and what they mean, one of event_rate and max_events at least; `docs/reference.md` is made of this."""
EVENTS_PER_COMMIT = 500_000
SAMPLE_EVENTS = 200
"""So many events are made to see whether a table's types can take them."""
DEFAULT_RATE = 10_000
MOST = 10**12
"""The greatest number of an option: microseconds of so many events are still whole numbers of 64 bits."""
_LEAST = {"event_rate": 1, "max_events": 1, "seed": 0}


class NexmarkOffset(msgspec.Struct, frozen=True):
    """How far a source has come: the number of its next event, and the wall clock when it began, in microseconds."""

    next_event: int
    started_us: int


class NexmarkSource(RowSource):
    """The events of one kind that feed one table; with `event_rate` they come at that many a second of all kinds."""

    def __init__(self, store: Hummock, relation: Relation, clock: Callable[[], float] = time.time) -> None:
        super().__init__(store, relation)
        options = source_options(relation)
        wrong = validate_options(relation.name, options)
        if wrong is not None:
            raise SourceError(f"table {relation.name}: {wrong.message}: {wrong.hint}")
        self.kind = _find_kind(relation.name, options)
        self.rate, self.limit = _parse_number(options, "event_rate"), _parse_number(options, "max_events")
        seed = _parse_number(options, "seed")
        self._events = NexmarkEvents(1 if seed is None else seed, self.rate or DEFAULT_RATE)
        self._clock = clock

    def find_newest(self, split: str, after: str | None) -> str | None:
        """Return the offset of the first event that is not due yet."""
        now_us = int(self._clock() * 1_000_000)
        if after is None:
            return _encode_offset(
                NexmarkOffset(0 if self.limit is None or self.rate is not None else self.limit, now_us)
            )
        at = _decode_offset(after)
        due = self._count_due(at, now_us)
        return _encode_offset(NexmarkOffset(due, at.started_us)) if due > at.next_event else None

    def choose_end(self, split: str, after: str | None, newest: str) -> str:
        """Return the offset behind so many events as one commit takes."""
        start, end = 0 if after is None else _decode_offset(after).next_event, _decode_offset(newest)
        return _encode_offset(NexmarkOffset(min(end.next_event, start + EVENTS_PER_COMMIT), end.started_us))

    def read(self, split: str, after: str | None, upto: str) -> SignedRows:
        """Make the events between two offsets."""
        made = self._events.generate_rows(
            self.kind,
            0 if after is None else _decode_offset(after).next_event,
            _decode_offset(upto).next_event,
        )
        known = [column.name for column in self.relation.columns if column.name in made.column_names]
        rows = made.select(known)
        if ROW_ID in {column.name for column in self.relation.columns}:
            rows = rows.append_column(ROW_ID, made.column("id"))
        return SignedRows(rows)

    def _count_due(self, at: NexmarkOffset, now_us: int) -> int:
        if self.rate is None:
            assert self.limit is not None
            return self.limit
        due = max(now_us - at.started_us, 0) * self.rate // 1_000_000
        return max(at.next_event, due if self.limit is None else min(due, self.limit))


class NexmarkConnector(Connector):
    """The seeded generator of the Nexmark benchmark."""

    name = CONNECTOR
    options = OPTIONS
    statement = "CREATE SOURCE bid (…) WITH (connector = 'nexmark', max_events = '100000')"
    pass_through = "rows"

    def validate(self, statement: CreateTable) -> StatementProblem | None:
        """Return which option means nothing, or which column the events have not."""
        options = {name: value for name, value in statement.options.items() if name in OPTIONS}
        wrong = validate_options(statement.name, options)
        if wrong is not None:
            return wrong
        kind = _find_kind(statement.name, options)
        made = NexmarkEvents().generate_rows(kind, 0, SAMPLE_EVENTS)
        for column in statement.columns:
            if column.name not in made.column_names:
                message = f"Nexmark's {kind}s have no column {column.name}"
                return StatementProblem("", message, f"they have {', '.join(made.column_names)}")
            values = made.column(column.name)
            if convert_to_type(values, to_arrow(column.type)).faults:
                message = f"column {column.name} is {column.type}, which values of Nexmark's {kind}s are not"
                return StatementProblem("", message, f"write {column.name} {from_arrow(values.type).upper()}")
        return None

    def open_source(self, store: Hummock, relation: Relation) -> NexmarkSource:
        """Return the source of a table."""
        return NexmarkSource(store, relation)

    def try_source(self, store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
        """Say that the generator makes rows for the table, and with which event it goes on."""
        source = NexmarkSource(store, relation)
        yield "rows are made by a generator in this process"
        made = source.read("", None, _encode_offset(NexmarkOffset(1, 0))).rows.column_names
        lacking = [column.name for column in relation.columns if column.name not in made]
        if lacking:
            raise SourceError(f"table {relation.name}: Nexmark's {source.kind}s have no column {lacking[0]}")
        yield f"its {source.kind}s have the columns of the table"
        if relation.name in store.version.tables:
            offset = source.find_offset()
            yield f"it goes on with event {0 if offset is None else _decode_offset(offset.text).next_event}"
        else:
            yield "it would begin with event 0"


def validate_options(name: str, options: Mapping[str, str]) -> StatementProblem | None:
    """Return the first option of a source of this name that can't be used, or None."""
    word = options.get("type", name).lower()
    if word not in SIZES:
        at = "type" if "type" in options else ""
        return StatementProblem(
            at, f"type '{word}' is unknown", f"write type = '…' with one of {', '.join(SIZES)}"
        )
    for option, least in _LEAST.items():
        text = options.get(option)
        if text is not None and (not text.strip().isdecimal() or not least <= int(text) <= MOST):
            message = f"{option} = '{text}' is no whole number from {least} to {MOST}"
            return StatementProblem(option, message, f"write {option} = '100'")
    if "event_rate" not in options and "max_events" not in options:
        return StatementProblem("", "the events never end", "give event_rate, max_events, or both")
    return None


def _find_kind(name: str, options: Mapping[str, str]) -> EventKind:
    word = options.get("type", name).lower()
    return next(kind for kind in SIZES if kind == word)


def _parse_number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    return None if text is None else int(text)


def _encode_offset(at: NexmarkOffset) -> str:
    return msgspec.json.encode(at).decode()


def _decode_offset(text: str) -> NexmarkOffset:
    return msgspec.json.decode(text, type=NexmarkOffset)
