"""Sources that give rows as Arrow: one that says how far it can be read, and reads from offset to offset, is whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from engine.arrow import as_rows
from engine.connectors.contract.connector import PendingSplit, Spark
from engine.connectors.contract.offset_source import OffsetSource, StepResult
from engine.connectors.contract.offsets import SourceOffset
from engine.connectors.contract.signed_rows import (
    SignedRows,
    explain_known_key,
    find_known_keys,
    select_newest_rows,
)
from engine.errors import InvalidRow, SourceError
from engine.hummock import Delete, Put, TableVersion, Version
from engine.hummock.manifests.preconditions import require_unchanged
from engine.hummock.monitoring.driver_traffic import track_bytes
from engine.hummock.version import Run
from engine.hummock.writes.batch import Operation, write_operations
from engine.meta.status.dead_letters import DeadLetter
from engine.runtime.rows import assign_row_ids, complete_rows, convert_rows, to_stored_names
from engine.runtime.source_rows import open_direct_reader
from engine.runtime.writes.watermarks import ArrivingRows
from engine.sql.catalog import ROW_ID
from engine.sql.column_names import match_columns
from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.conversions import find_refused_part, is_unchanged
from engine.sql.typing.types import to_arrow

MOST_LETTERS = 1_000
MOST_BYTES = 1 << 30
"""Bytes of rows that a query reads of a source in one process."""


class OffsetRange(NamedTuple):
    """What one commit takes of a split: what lies between two offsets, from the snapshot on where `after` is None."""

    split: str
    after: str | None
    upto: str


class RowSource(OffsetSource[OffsetRange]):
    """A source of rows; a subclass gives `newest` and `read`, and `upto` where there may be more than one commit should take.

    What lies between two offsets has to be the same rows whenever it is read. Rows come under the names of the table's columns;
    columns that it lacks are left out. Rows with a null where none may be are set aside, and so are rows of an APPEND ONLY table
    that go, or whose key is known.
    """

    @abstractmethod
    def find_newest(self, split: str, after: str | None) -> str | None:
        """Return the offset up to which a split can be read now, None if there is nothing behind `after`; cheap."""

    @abstractmethod
    def read(self, split: str, after: str | None, upto: str) -> SignedRows:
        """Return what lies between two offsets, in its order; with `after` None all that there is at `upto`."""

    def choose_end(self, split: str, after: str | None, newest: str) -> str:
        """Return the offset up to which the next commit goes, on the way to the `newest`."""
        return newest

    def list_pending(self) -> Sequence[PendingSplit]:
        """Return the splits with something behind their offset."""
        found = []
        for split in self.list_splits():
            offset = self.find_offset(split)
            after = None if offset is None else offset.text
            if self.find_newest(split, after) is not None:
                found.append(PendingSplit(split, after or ""))
        return found

    def plan_steps(self, split: str, after: SourceOffset | None) -> Iterator[OffsetRange]:
        """Yield the stretches up to what is the newest offset when the first is asked for."""
        at = None if after is None else after.text
        newest = self.find_newest(split, at)
        while newest is not None and at != newest:
            then = self.choose_end(split, at, newest)
            yield OffsetRange(split, at, then)
            at = then

    def _read_range(self, step: OffsetRange) -> tuple[SignedRows, tuple[str, ...]]:
        """Return what a stretch holds under the names of the table's columns, and the columns that the table lacks."""
        signed = self.read(*step)
        track_bytes(signed.rows.nbytes)
        names = signed.rows.column_names
        match = match_columns([column.name for column in self.relation.columns], names)
        if match.twice:
            raise SourceError(
                f"table {self.relation.name}: its source names column {match.describe_ambiguity()}"
            )
        rows = signed.rows.select(list(match.found.values())).rename_columns(list(match.found))
        unknown = [name for at, name in enumerate(names) if at not in match.places]
        return replace(signed, rows=rows), tuple(dict.fromkeys(unknown))

    def skip_step(self, step: OffsetRange, after: SourceOffset | None) -> StepResult:
        """Return the offset behind a stretch that nobody follows."""
        return StepResult(step.upto)

    def replay_rows(self, version: Version, epoch: int, spark: Spark) -> Iterator[pa.Table]:
        """Yield the rows that were taken up to an epoch, stretch by stretch, as the store has them."""
        table = self.find_table(version)
        for split in self.list_splits():
            offset, at = self.find_offset_at(version, epoch, split), None
            while offset is not None and at != offset.text:
                step = OffsetRange(split, at, self.choose_end(split, at, offset.text))
                signed, _ = self._read_range(step)
                gone = np.zeros(signed.rows.num_rows, dtype=bool) if signed.gone is None else signed.gone
                fitting = _RowFitter(self, step, signed.rows, gone, [])
                arrivals = ArrivingRows(self.store, version, self.relation)
                for operation in fitting.build_operations(table, arrivals, spark):
                    assert isinstance(operation, Put)
                    yield operation.rows if isinstance(operation.rows, pa.Table) else pa.table(operation.rows)
                at = step.upto

    def read_rows_at(self, version: Version, epoch: int, session: SparkSession) -> pa.Table:
        """Return the rows that were taken up to an epoch; raises SourceError for more than this process should hold."""
        parts, size = [self.find_table(version).schema.empty_table()], 0
        for rows in self.replay_rows(version, epoch, lambda: session):
            parts.append(rows.select(parts[0].column_names))
            size += rows.nbytes
            if size > MOST_BYTES:
                raise SourceError(
                    f"source {self.relation.name} has more than {MOST_BYTES >> 20} MiB of rows, which its connector gives to one "
                    "process: read a materialized view over it, or keep them by CREATE TABLE … WITH (connector = …)"
                )
        return pa.concat_tables(parts)

    def write_runs_at(self, version: Version, epoch: int, spark: Spark) -> tuple[Run, ...]:
        """Write the rows that were taken up to an epoch, a run a stretch."""
        table, reader = self.find_table(version).table, open_direct_reader(self.store)
        runs: list[Run] = []
        for rows in self.replay_rows(version, epoch, spark):
            runs.append(write_operations(reader, {table.name: table}, {table.name: [Put(rows)]})[table.name])
        return tuple(reversed(runs))

    def ingest_step(
        self, step: OffsetRange, after: SourceOffset | None, version: Version, spark: Spark
    ) -> StepResult:
        """Read a stretch, and fold what it holds of each key."""
        signed, unknown = self._read_range(step)
        gone = np.zeros(signed.rows.num_rows, dtype=bool) if signed.gone is None else signed.gone
        fitting = _RowFitter(self, step, signed.rows, gone, list(signed.letters))
        warnings = [f"columns that the table lacks were left out: {', '.join(unknown)}"] if unknown else []
        table, arrivals = self.find_table(version), ArrivingRows(self.store, version, self.relation)
        operations = fitting.build_operations(table, arrivals, spark)
        checks = require_unchanged(table) if fitting.looks_up else None
        return StepResult(
            step.upto,
            operations=operations,
            system=arrivals.build_writes(),
            rows=fitting.ingested,
            late=arrivals.late,
            aside=len(fitting.letters),
            letters=fitting.letters[:MOST_LETTERS],
            warnings=warnings,
            precondition=arrivals.require_unmoved(checks),
            watermarks=arrivals.get_ttl_watermarks(),
        )


@dataclass
class _RowFitter:
    """Rows of one stretch on their way into the table."""

    source: RowSource
    step: OffsetRange
    rows: pa.Table
    gone: np.ndarray
    letters: list[DeadLetter]
    ingested: int = 0
    looks_up: bool = False
    """Whether what is written follows from what stands in the table."""

    def build_operations(self, table: TableVersion, arrivals: ArrivingRows, spark: Spark) -> list[Operation]:
        """Return what is to be written; what does not fit is among the letters."""
        relation, store = self.source.relation, self.source.store
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
        relation = self.source.relation
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
        for column in self.source.relation.columns:
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

    def _set_aside(self, aside: np.ndarray, reason: str | Sequence[str]) -> None:
        """Set rows aside, all for one reason or each for its own."""
        if not aside.any():
            return
        first = len(self.letters)
        place = ", ".join(part for part in (self.step.split, f"up to {self.step.upto}") if part)
        raw = as_rows(self.rows.filter(pa.array(aside)))
        reasons = [reason] * len(raw) if isinstance(reason, str) else reason
        self.letters += [
            DeadLetter(place, first + n, why, _format_row(row))
            for n, (why, row) in enumerate(zip(reasons, raw, strict=True), 1)
        ]
        self.rows = self.rows.filter(pa.array(~aside))
        self.gone = self.gone[~aside]


def _format_row(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in row.items())
