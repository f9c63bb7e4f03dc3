"""Rows of a source on their way into a table: in its types, and those that do not fit set aside with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from engine.arrow import as_rows
from engine.connectors.contract.connector import Spark
from engine.connectors.contract.signed_rows import explain_known_key, find_known_keys, select_newest_rows
from engine.errors import InvalidRow, SourceError
from engine.hummock import Delete, Hummock, Put, TableVersion
from engine.hummock.writes.batch import Operation
from engine.meta.status.dead_letters import DeadLetter
from engine.runtime.rows import assign_row_ids, complete_rows, convert_rows, to_stored_names
from engine.runtime.writes.watermarks import ArrivingRows
from engine.sql.catalog import ROW_ID, Relation
from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.conversions import find_refused_part, is_unchanged
from engine.sql.typing.json_documents import is_document, normalize_documents
from engine.sql.typing.types import to_arrow

Fill: TypeAlias = "Callable[[pa.Table, np.ndarray], tuple[pa.Table, np.ndarray]]"
"""Gives rows, with their places, the values that were not repeated, and tells of which rows they are not known."""


@dataclass
class RowFitter:
    """Rows of one stretch on their way into the table; `place` is how letters name the stretch.

    `fill` gives rows the values that their source did not repeat, once the others have the table's types.
    """

    relation: Relation
    store: Hummock
    place: str
    rows: pa.Table
    gone: np.ndarray
    letters: list[DeadLetter] = field(default_factory=list)
    fill: Fill | None = None
    ingested: int = 0
    places: np.ndarray = field(init=False)
    """Where each row stood among those that were given."""
    looks_up: bool = False
    """Whether what is written follows from what stands in the table."""

    def __post_init__(self) -> None:
        self.places = np.arange(self.rows.num_rows)

    def build_operations(self, table: TableVersion, arrivals: ArrivingRows, spark: Spark) -> list[Operation]:
        """Return what is to be written; what does not fit is among the letters."""
        relation, store = self.relation, self.store
        has_ids = ROW_ID in table.primary_key
        brings_ids = has_ids and ROW_ID in self.rows.column_names
        key = [c.name for c in relation.columns if c.storage_name in table.primary_key]
        if self.gone.any() and has_ids:
            raise SourceError(
                f"table {relation.name}: its source takes rows away, and without a PRIMARY KEY none is found: make the table "
                "again with one"
            )
        if relation.append_only:
            self._set_aside(self.gone, f"table {relation.name} is APPEND ONLY: its rows do not go")
        self._set_aside_misfits(set(key))
        self._set_aside_broken_documents(set(key))
        if self.fill is not None:
            self.rows, lacking = self.fill(self.rows, self.places)
            self._set_aside(
                lacking, "a value that did not change was not repeated, and the row before it was set aside"
            )
        must = [c.name for c in relation.columns if relation.is_never_null(c) and c.name != ROW_ID]
        self._set_aside_nulls(set(key), must)
        typed = self._convert_rows(spark)
        if relation.append_only and not has_ids:
            self.looks_up = True
            again = find_known_keys(store.reader, table, typed.select(list(table.primary_key)))
            typed = typed.filter(pa.array(~again))
            self._set_aside(again, explain_known_key(relation.name))
        puts, keys = select_newest_rows(assign_row_ids(store, typed), self.gone, tuple(table.primary_key))
        puts = arrivals.filter_late(puts)
        self.ingested = typed.num_rows - arrivals.late
        found: list[Operation] = []
        if puts.num_rows:
            found.append(Put(puts, new_keys=self.looks_up or (has_ids and not brings_ids)))
        if keys.num_rows:
            found.append(Delete(keys))
        return found

    def _convert_rows(self, spark: Spark) -> pa.Table:
        """Return the rows as they are stored; raises SourceError for a column that is missing, or whose values are no such."""
        relation = self.relation
        optional = {ROW_ID, *(c.name for c in relation.columns if c.default is not None)}
        for column in relation.columns:
            if column.name not in self.rows.column_names and column.name not in optional:
                raise SourceError(
                    f"table {relation.name}: its source has no column {column.name}, it has "
                    f"{', '.join(self.rows.column_names)}: ALTER TABLE {relation.name} DROP COLUMN {column.name} removes it"
                )
        try:
            whole = complete_rows(relation, self.rows, spark)
            return to_stored_names(
                relation, convert_rows(relation, whole, [c.name for c in relation.columns])
            )
        except InvalidRow as error:
            raise SourceError(
                f"table {relation.name}: what its source gives does not fit: {error}"
            ) from error

    def _set_aside_nulls(self, key: set[str], must: Sequence[str]) -> None:
        for name in must:
            if name not in self.rows.column_names:
                continue
            nulls: np.ndarray = np.asarray(self.rows.column(name).is_null())
            if name not in key:  # of a row that goes the key suffices
                nulls = nulls & ~self.gone
            what = "is part of the key and" if name in key else "is NOT NULL, but"
            self._set_aside(nulls, f"column {name} {what} has no value")

    def _set_aside_misfits(self, key: set[str]) -> None:
        """Set rows aside of which a column does not take a value; one that takes none of its type is reported by `_typed`."""
        for column in self.relation.columns:
            name, kind = column.name, to_arrow(column.type)
            if name not in self.rows.column_names or is_unchanged(self.rows.column(name).type, kind):
                continue
            if find_refused_part(self.rows.column(name).type, kind) is not None:
                continue
            found = convert_to_type(self.rows.column(name), kind)
            if found.unknown:
                continue
            counts = np.ones(len(self.gone), dtype=bool) if name in key else ~self.gone
            reasons = [found.faults[row].describe(name) for row in sorted(found.faults) if counts[row]]
            aside = np.zeros(len(self.gone), dtype=bool)
            aside[found.bad] = True
            aside &= counts
            self._set_aside(aside, reasons)
            at = self.rows.column_names.index(name)
            self.rows = self.rows.set_column(at, name, found.values.filter(pa.array(~aside)))

    def _set_aside_broken_documents(self, key: set[str]) -> None:
        """Set rows aside whose texts are no JSON that a column of json or jsonb keeps."""
        for column in self.relation.columns:
            if not is_document(column) or column.name not in self.rows.column_names:
                continue
            if not is_unchanged(self.rows.column(column.name).type, to_arrow(column.type)):
                continue  # it is told of when the rows are converted
            _, wrong = normalize_documents(self.rows.column(column.name), column)
            wrong = {row: why for row, why in wrong.items() if column.name in key or not self.gone[row]}
            aside = np.zeros(len(self.gone), dtype=bool)
            aside[list(wrong)] = True
            what = f"column {column.name} is {column.sql_type}"
            self._set_aside(aside, [f"{what}: {wrong[row]}" for row in sorted(wrong)])

    def _set_aside(self, aside: np.ndarray, reason: str | Sequence[str]) -> None:
        """Set rows aside, all for one reason or each for its own."""
        if not aside.any():
            return
        first = len(self.letters)
        raw = as_rows(self.rows.filter(pa.array(aside)))
        reasons = [reason] * len(raw) if isinstance(reason, str) else reason
        self.letters += [
            DeadLetter(self.place, first + n, why, _format_row(row))
            for n, (why, row) in enumerate(zip(reasons, raw, strict=True), 1)
        ]
        self.rows = self.rows.filter(pa.array(~aside))
        self.gone, self.places = self.gone[~aside], self.places[~aside]


def _format_row(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in row.items())
