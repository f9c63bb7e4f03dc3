"""A table of PostgreSQL as the target of a sink: a range of net changes is one transaction, with the epoch that it ends at.

Method: the rows, and the line of the sink that says up to which epoch they stand, commit together. Who delivers locks the line
first. What the line has is not delivered again; if it is ahead of the acknowledgement, the changes after it are read.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from engine.arrow import as_rows, make_nulls, to_mask
from engine.connectors.postgres.connection import quote_name
from engine.connectors.postgres.settings import parse_address
from engine.connectors.postgres.sink.ledger import (
    LedgerLine,
    ensure_ledger,
    explain_other_sink,
    lock_line,
    move_line,
)
from engine.connectors.postgres.sink.rows import PIECE_ROWS, RefusedValue, TargetColumn, encode_piece
from engine.connectors.postgres.sink.server import RowRefused, TargetServer, TargetTaken, TriedAgain
from engine.connectors.postgres.sink.statements import (
    STAGING,
    NullPattern,
    render_deletion,
    render_replacement,
    render_staging,
    render_upsert,
)
from engine.connectors.postgres.sink.tables import (
    LEDGER,
    NULLS_NOT_DISTINCT,
    SinkShape,
    TargetTable,
    check_target,
    find_index,
    match_columns,
    read_target,
    render_creation,
    render_key,
    render_mark,
)
from engine.connectors.postgres.sink.types import choose_type
from engine.connectors.sinks.contract import DeliveryResult, SinkBatch
from engine.connectors.sinks.known_epochs import require_known_epoch
from engine.connectors.sinks.options import SinkOptions, list_log_columns
from engine.errors import Conflict, SinkError
from engine.hummock import Hummock
from engine.hummock.epoch import format_epoch
from engine.hummock.monitoring.driver_traffic import track_bytes
from engine.log_store.changes import DELETE
from engine.log_store.sink import LogRange, read_changes
from engine.sql.catalog import Relation

APP = "app"
"""The option of a sink's relation that names it in the table of positions, whatever becomes of the store's address."""
TRIES = 5
PAUSE_SECONDS = 0.2
"""How often a transaction is tried that a deadlock has ended, and for how long it rests before, at the most."""
_TAKEN_ALREADY = "23505"
ANALYZED = 1_000
"""From so many rows on PostgreSQL is told how many were staged, so that it plans for them."""


class PostgresSink:
    """Keeps a table of PostgreSQL as its view is; a connection lasts for one delivery."""

    each_epoch = False
    promises = False

    def __init__(self, store: Hummock, relation: Relation, start: int) -> None:
        self.start = start
        self.options = SinkOptions.of(relation.options)
        self._store, self._relation = store, relation
        self._address = parse_address(relation.options)
        self._columns = list_log_columns(relation)
        self._shape = SinkShape.of(relation, relation.options[APP], self.options.upsert)

    def take(self, portion: SinkBatch) -> DeliveryResult:
        """Bring a range to the table, once; durable when it returns. Raises Conflict where the sink began anew meanwhile."""
        for number in range(TRIES):
            try:
                with TargetServer(self._address, self._relation.name) as server:
                    return self._take(server, portion)
            except TriedAgain:
                if number == TRIES - 1:
                    raise
            time.sleep(random.uniform(0, PAUSE_SECONDS * (number + 1)))
        raise AssertionError("unreachable")

    def _take(self, server: TargetServer, portion: SinkBatch) -> DeliveryResult:
        ensure_ledger(server)
        server.begin()
        try:
            line = lock_line(server, self._shape.app)
        except TargetTaken as error:
            server.execute("ROLLBACK")
            message, remedy = explain_other_sink(server, self._shape.app) or (str(error), "deliver again")
            raise SinkError(f"sink {self._relation.name}: {message}: {remedy}") from error
        part = self._find_part(line, portion)
        if part is None:
            server.execute("ROLLBACK")
            return DeliveryResult(0)
        begins = line.start != self.start
        work = _Transaction(server, self._shape, lambda: self._read(portion, part), part.snapshot)
        rows = work.bring(begins)
        move_line(server, self._shape.app, LedgerLine(self.start, part.upto))
        server.execute("SET CONSTRAINTS ALL IMMEDIATE")
        server.commit()
        return DeliveryResult(rows)

    def _find_part(self, line: LedgerLine, portion: SinkBatch) -> LogRange | None:
        """Return what of a range the table lacks, None for nothing; raises SinkError where the two ends do not fit together."""
        part, name = portion.log_range, self._relation.name
        where = f"{self._address.schema}.{LEDGER} in {self._address.address}"
        if line.start > self.start:
            raise Conflict(
                f"sink {name}: {where} says that the sink began anew; if the store was put back, ALTER SINK {name} RESET"
            )
        if line.start < self.start:
            is_first = part.after <= self.start and not self.options.snapshot
            if part.snapshot or is_first:
                return part
            raise SinkError(
                f"sink {name}: {where} has no line of what was delivered before: was the database put back, or the line "
                f"deleted? ALTER SINK {name} RESET brings all rows again"
            )
        if line.epoch == part.upto:
            return None
        if line.epoch < part.after or part.snapshot:
            raise SinkError(
                f"sink {name}: {where} says epoch {format_epoch(line.epoch)}, before {format_epoch(part.after)}, which was "
                f"delivered: was the database put back? ALTER SINK {name} RESET brings all rows again"
            )
        if line.epoch == part.after:
            return part
        require_known_epoch(self._store, self._relation, self._address.path, line.epoch, part.after)
        return None if line.epoch > part.upto else LogRange(line.epoch, part.upto)

    def _read(self, portion: SinkBatch, part: LogRange) -> Iterator[_ChangedRows]:
        hashes = portion.group.hash_range
        for change in read_changes(self._store.reader, portion.table, part, self._columns, hashes):
            track_bytes(change.nbytes)
            renamed = [column.name for column in self._shape.columns]
            yield _ChangedRows(change.operations, change.rows.rename_columns(renamed))


class _ChangedRows(NamedTuple):
    """New rows, or what a deletion takes away, with what became of each."""

    operations: np.ndarray
    rows: pa.Table

    def filter(self, mask: np.ndarray) -> _ChangedRows:
        """Return some of them."""
        return _ChangedRows(self.operations[mask], self.rows.filter(pa.array(mask)))


class _Transaction:
    """Brings changes, or first rows, to the table in a transaction that is open; `read` gives the same again and again."""

    def __init__(
        self,
        server: TargetServer,
        shape: SinkShape,
        read: Callable[[], Iterator[_ChangedRows]],
        snapshot: bool,
    ) -> None:
        self.server, self.shape, self._read, self._snapshot = server, shape, read, snapshot
        self._sql_name = server.address.sql_name
        self._rows_there = f"ONLY {self._sql_name}"  # of tables that inherit from it the rows are not ours
        self._columns: tuple[TargetColumn, ...] = ()
        self._nulls = _KeyNulls(shape.key)

    def bring(self, begins: bool) -> int:
        """Bring all changes; return how many they are. Raises SinkError with the key of a row that is refused."""
        table = self._prepare(begins)
        server, shape = self.server, self.shape
        made = table is None
        if table is not None and table.kind == "p":
            self._rows_there = self._sql_name
        if made:
            server.execute(render_creation(server, shape))
            server.execute(render_mark(server, shape))
            may_have_nulls = server.connection.info.server_version >= NULLS_NOT_DISTINCT
        else:
            index = find_index(table, shape.key) if table is not None else None
            may_have_nulls = index is not None and index.takes_null
        self._columns = match_columns(table, shape, may_have_nulls)
        rows: int | None = None
        if self._snapshot and begins and (made or self._is_empty()):
            rows = self._copy_directly(made)
        if rows is None:
            if made and shape.key:  # only where the rows were refused: what follows finds the one
                server.execute(render_key(server, shape, may_have_nulls))
            return self._merge(self._snapshot and begins and table is not None and table.made_by == shape.app)
        return rows

    def _prepare(self, begins: bool) -> TargetTable | None:
        """Return the table, which stays as it is until the transaction ends, None where it is to be made; raises SinkError."""
        server, shape, address = self.server, self.shape, self.server.address
        table = read_target(server, shape.rights)
        if table is None and not begins:
            raise SinkError(
                f"sink {server.sink}: there is no table {address.path} any more in {address.address}; ALTER SINK {server.sink} "
                "RESET makes it again with the current rows"
            )
        if table is None:
            return None
        if table.kind in ("r", "p") and "INSERT" not in table.lacks:
            server.execute(f"LOCK TABLE {self._sql_name} IN ROW EXCLUSIVE MODE")
            table = read_target(server, shape.rights) or table
        for problem in check_target(server, table, shape):
            raise SinkError(f"sink {server.sink}: {address.address}: {problem.message}: {problem.remedy}")
        missing = [c for c in shape.columns if c.name not in {there.name for there in table.columns}]
        if missing and not begins:
            column = missing[0]
            raise SinkError(
                f"sink {server.sink}: {address.address}: {address.path} has no column {column.name} any more: ALTER TABLE "
                f"{self._sql_name} ADD COLUMN {quote_name(column.name)} {choose_type(column)}, and ALTER SINK {server.sink} "
                "RESET, which brings its values"
            )
        for column in missing:
            server.execute(
                f"ALTER TABLE {self._sql_name} ADD COLUMN {quote_name(column.name)} {choose_type(column)}"
            )
        return read_target(server, shape.rights) if missing else table

    def _is_empty(self) -> bool:
        return not self.server.query(f"SELECT EXISTS (SELECT FROM {self._rows_there})")[0][0]

    def _copy_directly(self, made: bool) -> int | None:
        """Bring first rows by one COPY, the key if `made`; None, with nothing brought, where one is refused: staging tells."""
        names = ", ".join(quote_name(column.name) for column in self.shape.columns)
        count = 0

        def encode() -> Iterator[bytes]:
            nonlocal count
            for change in self._read():
                for piece in _split(change):
                    count += piece.rows.num_rows
                    yield self._encode(piece)

        self.server.execute("SAVEPOINT direct")
        try:
            self.server.copy_in(f"{self._sql_name} ({names})", encode())
            if made and self.shape.key:
                self.server.execute(render_key(self.server, self.shape, self._nulls.are_there))
        except RowRefused:
            self.server.execute("ROLLBACK TO SAVEPOINT direct")
            return None
        self.server.execute("RELEASE SAVEPOINT direct")
        return count

    def _merge(self, replaces: bool) -> int:
        """Bring changes through the staging table; `replaces`: what is not among them goes."""
        server, shape = self.server, self.shape
        count = self._stage()
        if not count and not replaces:
            return 0
        if count >= ANALYZED:
            server.execute(f"ANALYZE {STAGING}")
        patterns = self._nulls.patterns
        statements: list[str] = []
        if replaces or (shape.upsert and not shape.key):
            statements += render_replacement(self._rows_there, self._columns)
        elif shape.upsert:
            statements += [render_deletion(self._rows_there, self._columns, pattern) for pattern in patterns]
        server.execute("SAVEPOINT merged")
        for statement in statements:
            server.execute(statement)
        try:
            server.execute(render_upsert(self._sql_name, self._columns))
        except RowRefused as refused:
            server.execute("ROLLBACK TO SAVEPOINT merged")
            for statement in statements:
                server.execute(statement)
            key = self._find_refused(count)
            raise SinkError(
                f"{refused}; {server.address.path} refuses the row {key}: change what it refuses it by, or the row in the "
                f"view; {_explain_order(refused)}{self._describe_next()}"
            ) from refused
        return count

    def _stage(self) -> int:
        """Bring the changes into a temporary table; return how many they are: of a sink that adds rows deletions are none."""
        self.server.execute(render_staging(self._columns))
        count = 0

        def encode() -> Iterator[bytes]:
            nonlocal count
            for change in self._read():
                gone = change.operations == DELETE
                parts = [change.filter(~gone), change.filter(gone)] if gone.any() else [change]
                for piece in (one for part in parts[: 2 if self.shape.upsert else 1] for one in _split(part)):
                    numbers = pa.array(np.arange(count, count + piece.rows.num_rows), pa.int64())
                    count += piece.rows.num_rows
                    yield self._encode(piece, numbers, pa.array(piece.operations, pa.int8()))

        self.server.copy_in(STAGING, encode())
        return count

    def _encode(self, piece: _ChangedRows, *before: pa.Array[Any]) -> bytes:
        rows, columns = piece.rows, self._columns
        if piece.rows.num_rows and piece.operations[0] == DELETE:  # a key is all that a deletion needs
            columns = tuple(one._replace(takes_null=True) for one in columns)
            nulls = [
                column if one.in_key else make_nulls(piece.rows.num_rows, column.type)
                for one, column in zip(columns, rows.columns, strict=True)
            ]
            rows = pa.Table.from_arrays(nulls, names=rows.column_names)
        try:
            self._nulls.add(rows)
            return encode_piece(rows, columns, before)
        except RefusedValue as refused:
            remedy = refused.remedy
            if refused.why == "is null" and refused.column in self.shape.key:
                names = ", ".join(map(quote_name, self.shape.key))
                remedy = (
                    f"{remedy}, or have {self._sql_name} take nulls as one, from PostgreSQL 15 on: drop its PRIMARY KEY, then "
                    f"ALTER TABLE {self._sql_name} ALTER COLUMN {quote_name(refused.column)} DROP NOT NULL, ADD UNIQUE NULLS NOT "
                    f"DISTINCT ({names})"
                )
            row = as_rows(piece.rows.slice(refused.row, 1))[0]
            key = _format_key({name: row[name] for name in self._names_row})
            raise SinkError(
                f"sink {self.server.sink}: column {refused.column} of the row {key} {refused.why}: {remedy}; "
                f"{self._describe_next()}"
            ) from refused

    def _describe_next(self) -> str:
        """Say what brings a row that has changed since."""
        if self._snapshot:
            return f"ALTER SINK {self.server.sink} RESET begins with the rows as they are by then"
        return "the next delivery brings what the row is by then"

    @property
    def _names_row(self) -> tuple[str, ...]:
        """The columns by which messages name a row."""
        return self.shape.key or tuple(column.name for column in self.shape.columns)

    def _find_refused(self, count: int) -> str:
        """Return the key of the first row with which the rows up to it are refused."""
        server, first, last = self.server, 0, count
        server.execute(f"CREATE INDEX ON {STAGING} (n)")
        while last - first > 1:
            middle = (first + last) // 2
            server.execute("SAVEPOINT half")
            try:
                server.execute(render_upsert(self._sql_name, self._columns, (first, middle)))
                first = middle
            except RowRefused:
                server.execute("ROLLBACK TO SAVEPOINT half")
                last = middle
        places = {column.name: n for n, column in enumerate(self.shape.columns)}
        texts = ", ".join(f"c{places[name]}::text" for name in self._names_row)
        ((*values,),) = server.query(f"SELECT {texts} FROM {STAGING} WHERE n = %s", first)
        return _format_key(dict(zip(self._names_row, values, strict=True)))


def _explain_order(refused: RowRefused) -> str:
    """Return what lets rows exchange values of a unique constraint, "" for another refusal."""
    if getattr(refused.__cause__, "sqlstate", "") != _TAKEN_ALREADY:
        return ""
    return "rows that exchange their values need the constraint to be UNIQUE (…) DEFERRABLE, which is checked after all of them; "


def _format_key(values: Mapping[str, object]) -> str:
    """Return the key of a row, in words."""
    return "(" + ", ".join(f"{name} = {value!r}" for name, value in values.items()) + ")"


class _KeyNulls:
    """Which columns of the key are null together, of all rows that were seen: each such pattern is a statement of its own."""

    def __init__(self, key: tuple[str, ...]) -> None:
        self._key = key
        self._seen = {frozenset[str]()}

    def add(self, rows: pa.Table) -> None:
        """Look at rows."""
        columns = [name for name in self._key if rows.column(name).null_count]
        if not columns:
            return
        masks = np.zeros(rows.num_rows, dtype=object if len(columns) > 62 else np.int64)
        for n, name in enumerate(columns):
            masks += to_mask(rows.column(name).is_null()).astype(masks.dtype) * (1 << n)
        for mask in np.unique(masks).tolist():
            self._seen.add(frozenset(name for n, name in enumerate(columns) if mask >> n & 1))

    @property
    def are_there(self) -> bool:
        """Whether a key has had a null."""
        return len(self._seen) > 1

    @property
    def patterns(self) -> list[NullPattern]:
        """The patterns, the one without nulls first."""
        return sorted(self._seen, key=lambda pattern: (len(pattern), sorted(pattern)))


def _split(change: _ChangedRows) -> Iterator[_ChangedRows]:
    for first in range(0, change.rows.num_rows, PIECE_ROWS):
        yield _ChangedRows(
            change.operations[first : first + PIECE_ROWS], change.rows.slice(first, PIECE_ROWS)
        )
