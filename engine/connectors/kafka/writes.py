"""Rows of messages against their table: typed, in their order, and what of them is written."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.connectors.contract.signed_rows import explain_known_key, find_known_keys, select_newest_rows
from engine.connectors.formats.debezium import CHANGE
from engine.connectors.formats.file_format import BadLine, FileRows, format_raw
from engine.connectors.kafka.settings import KafkaSettings
from engine.connectors.landing.rows import LandedRows, LandingTarget, RowOptions, land_rows
from engine.errors import SourceError
from engine.hummock import Delete, Hummock, Put, TableVersion
from engine.hummock.writes.batch import Operation
from engine.meta.status.dead_letters import DeadLetter
from engine.runtime.rows import assign_row_ids
from engine.runtime.writes.watermarks import ArrivingRows
from engine.sql.catalog import ROW_ID, Relation
from engine.sql.statements.ddl.defaults import compute_local_default, explain_not_fed
from engine.sql.typing.json_documents import is_document


@dataclass
class TypedMessages:
    """Rows in the table's types, in the order of their messages, and the messages that were set aside."""

    rows: pa.Table
    deletes: np.ndarray
    bad: list[BadLine]
    unknown: tuple[str, ...] = ()
    parts: Sequence[LandedRows] = ()


def build_target(relation: Relation, table: TableVersion, settings: KafkaSettings) -> LandingTarget:
    """Return what a table asks of rows; raises SourceError for one that messages cannot feed."""
    reason = explain_not_fed(relation)
    if reason is not None:
        raise SourceError(f"table {relation.name}: {reason.replace('files', 'messages')}")
    now = datetime.datetime.now(datetime.UTC)
    defaults = {
        column.storage_name: pa.scalar(
            compute_local_default(column, now), table.schema.field(column.storage_name).type
        )
        for column in relation.columns
        if column.default is not None
    }
    required = [column.storage_name for column in relation.columns if not column.nullable]
    return LandingTarget(
        relation.name,
        table.schema,
        tuple(table.primary_key),
        frozenset((*table.primary_key, *required)),
        relation.append_only,
        defaults,
        {c.storage_name: c for c in relation.columns if c.length is not None or is_document(c)},
        {column.storage_name: column.name for column in relation.columns},
        RowOptions(operation=CHANGE, formats=settings.formats),
    )


def convert_messages(found: Sequence[FileRows], target: LandingTarget) -> TypedMessages:
    """Return rows in the types of their table."""
    parts = [land_rows(rows, target) for rows in found]
    empty = target.schema.empty_table()
    rows = pa.concat_tables([empty, *(part.rows for part in parts)])
    deletes = np.concatenate([np.zeros(0, dtype=bool), *(part.deletes for part in parts)])
    bad = [line for part in parts for line in part.bad]
    unknown = tuple(dict.fromkeys(name for part in parts for name in part.unknown))
    return TypedMessages(rows, deletes, bad, unknown, parts)


@dataclass
class MessageWriter:
    """Makes operations of typed rows; `place` names the partition in letters."""

    store: Hummock
    relation: Relation
    table: TableVersion
    place: str
    looks_up: bool = False
    """Whether what is written follows from what stands in the table."""
    rows: int = 0

    def build_operations(self, typed: TypedMessages, arrivals: ArrivingRows) -> list[Operation]:
        """Return what is written; rows of an APPEND ONLY table whose key is known are added to those set aside."""
        has_ids = ROW_ID in self.table.primary_key
        if self.relation.append_only and not has_ids:
            self.looks_up = True
            self._reject_known_keys(typed)
        rows = assign_row_ids(self.store, typed.rows)
        puts, keys = select_newest_rows(rows, typed.deletes, tuple(self.table.primary_key))
        puts = arrivals.filter_late(puts)
        self.rows = typed.rows.num_rows - arrivals.late
        found: list[Operation] = []
        if puts.num_rows:
            found.append(Put(puts, new_keys=self.looks_up or has_ids))
        if keys.num_rows:
            found.append(Delete(keys))
        return found

    def build_letters(self, bad: Sequence[BadLine]) -> list[DeadLetter]:
        """Return messages that were set aside, by their offsets, as rows of the table of dead letters."""
        return [DeadLetter(self.place, one.line, format_raw(one.reason), format_raw(one.raw)) for one in bad]

    def _reject_known_keys(self, typed: TypedMessages) -> None:
        again = find_known_keys(
            self.store.reader, self.table, typed.rows.select(list(self.table.primary_key))
        )
        if not again.any():
            return
        reason, start = explain_known_key(self.relation.name), 0
        for part in typed.parts:
            count = part.rows.num_rows
            for at in part.lines[again[start : start + count]].tolist():
                assert part.locate_row is not None, "rows of an APPEND ONLY table keep their places"
                line, raw = part.locate_row(at)
                typed.bad.append(BadLine(line, reason, raw))
            start += count
        typed.rows, typed.deletes = typed.rows.filter(pa.array(~again)), typed.deletes[~again]
