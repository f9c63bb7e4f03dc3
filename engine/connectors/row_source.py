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
from engine.connectors.contract import Spark, Waiting
from engine.connectors.offset_source import OffsetSource, Taken
from engine.connectors.offsets import Offset
from engine.connectors.signed_rows import SignedRows, known_again, newest_rows, taken_once
from engine.errors import InvalidRow, SourceError
from engine.hummock import Delete, Put, TableVersion, Version
from engine.hummock.batch import Operation, gather
from engine.hummock.driver_traffic import passed
from engine.hummock.version import Run
from engine.meta.dead_letters import DeadLetter
from engine.runtime.rows import completed, stored_names, typed_rows, with_row_ids
from engine.runtime.source_rows import plain_reader
from engine.runtime.writes.conflicts import unchanged
from engine.runtime.writes.watermarks import Arrivals
from engine.sql.catalog import ROW_ID
from engine.sql.column_names import matched
from engine.sql.typing.conversions import refused_part, stays
from engine.sql.typing.converted import convert
from engine.sql.typing.types import to_arrow

MOST_LETTERS = 1_000
MOST_SHOWN = 1 << 30
"""Bytes of rows that a query reads of a source in one process."""


class Stretch(NamedTuple):
    """What one commit takes of a split: what lies between two offsets, from the snapshot on where `after` is None."""

    split: str
    after: str | None
    upto: str


class RowSource(OffsetSource[Stretch]):
    """A source of rows; a subclass gives `newest` and `read`, and `upto` where there may be more than one commit should take.

    What lies between two offsets has to be the same rows whenever it is read. Rows come under the names of the table's columns;
    columns that it lacks are left out. Rows with a null where none may be are set aside, and so are rows of an APPEND ONLY table
    that go, or whose key is known.
    """

    @abstractmethod
    def newest(self, split: str, after: str | None) -> str | None:
        """Return the offset up to which a split can be read now, None if there is nothing behind `after`; cheap."""

    @abstractmethod
    def read(self, split: str, after: str | None, upto: str) -> SignedRows:
        """Return what lies between two offsets, in its order; with `after` None all that there is at `upto`."""

    def upto(self, split: str, after: str | None, newest: str) -> str:
        """Return the offset up to which the next commit goes, on the way to the `newest`."""
        return newest

    def pending(self) -> Sequence[Waiting]:
        """Return the splits with something behind their offset."""
        found = []
        for split in self.splits():
            offset = self.offset(split)
            after = None if offset is None else offset.text
            if self.newest(split, after) is not None:
                found.append(Waiting(split, after or ""))
        return found

    def steps(self, split: str, after: Offset | None) -> Iterator[Stretch]:
        """Yield the stretches up to what is the newest offset when the first is asked for."""
        at = None if after is None else after.text
        newest = self.newest(split, at)
        while newest is not None and at != newest:
            then = self.upto(split, at, newest)
            yield Stretch(split, at, then)
            at = then

    def _read(self, step: Stretch) -> tuple[SignedRows, tuple[str, ...]]:
        """Return what a stretch holds under the names of the table's columns, and the columns that the table lacks."""
        signed = self.read(*step)
        passed(signed.rows.nbytes)
        names = signed.rows.column_names
        match = matched([column.name for column in self.relation.columns], names)
        if match.twice:
            raise SourceError(f"table {self.relation.name}: its source names column {match.told()}")
        rows = signed.rows.select(list(match.found.values())).rename_columns(list(match.found))
        unknown = [name for at, name in enumerate(names) if at not in match.places]
        return replace(signed, rows=rows), tuple(dict.fromkeys(unknown))

    def passed_by(self, step: Stretch, after: Offset | None) -> Taken:
        """Return the offset behind a stretch that nobody follows."""
        return Taken(step.upto)

    def told_again(self, version: Version, epoch: int, spark: Spark) -> Iterator[pa.Table]:
        """Yield the rows that were taken up to an epoch, stretch by stretch, as the store has them."""
        table = self.table(version)
        for split in self.splits():
            offset, at = self.offset_at(version, epoch, split), None
            while offset is not None and at != offset.text:
                step = Stretch(split, at, self.upto(split, at, offset.text))
                signed, _ = self._read(step)
                gone = np.zeros(signed.rows.num_rows, dtype=bool) if signed.gone is None else signed.gone
                fitting = _Fitting(self, step, signed.rows, gone, [])
                arrivals = Arrivals(self.store, version, self.relation)
                for operation in fitting.operations(table, arrivals, spark):
                    assert isinstance(operation, Put)
                    yield operation.rows if isinstance(operation.rows, pa.Table) else pa.table(operation.rows)
                at = step.upto

    def rows_at(self, version: Version, epoch: int, session: SparkSession) -> pa.Table:
        """Return the rows that were taken up to an epoch; raises SourceError for more than this process should hold."""
        held, size = [self.table(version).schema.empty_table()], 0
        for rows in self.told_again(version, epoch, lambda: session):
            held.append(rows.select(held[0].column_names))
            size += rows.nbytes
            if size > MOST_SHOWN:
                raise SourceError(
                    f"source {self.relation.name} has more than {MOST_SHOWN >> 20} MiB of rows, which its connector gives to one "
                    "process: read a materialized view over it, or keep them by CREATE TABLE … WITH (connector = …)"
                )
        return pa.concat_tables(held)

    def runs_at(self, version: Version, epoch: int, spark: Spark) -> tuple[Run, ...]:
        """Write the rows that were taken up to an epoch, a run a stretch."""
        table, reader = self.table(version).table, plain_reader(self.store)
        runs: list[Run] = []
        for rows in self.told_again(version, epoch, spark):
            runs.append(gather(reader, {table.name: table}, {table.name: [Put(rows)]})[table.name])
        return tuple(reversed(runs))

    def taken(self, step: Stretch, after: Offset | None, version: Version, spark: Spark) -> Taken:
        """Read a stretch, and fold what it holds of each key."""
        signed, unknown = self._read(step)
        gone = np.zeros(signed.rows.num_rows, dtype=bool) if signed.gone is None else signed.gone
        fitting = _Fitting(self, step, signed.rows, gone, list(signed.letters))
        warnings = [f"columns that the table lacks were left out: {', '.join(unknown)}"] if unknown else []
        table, arrivals = self.table(version), Arrivals(self.store, version, self.relation)
        operations = fitting.operations(table, arrivals, spark)
        checks = unchanged(table) if fitting.looks_up else None
        return Taken(
            step.upto,
            operations=operations,
            system=arrivals.writes(),
            rows=fitting.taken,
            late=arrivals.late,
            aside=len(fitting.letters),
            letters=fitting.letters[:MOST_LETTERS],
            warnings=warnings,
            precondition=arrivals.unmoved(checks),
            watermarks=arrivals.watermarks(),
        )


@dataclass
class _Fitting:
    """Rows of one stretch on their way into the table."""

    source: RowSource
    step: Stretch
    rows: pa.Table
    gone: np.ndarray
    letters: list[DeadLetter]
    taken: int = 0
    looks_up: bool = False
    """Whether what is written follows from what stands in the table."""

    def operations(self, table: TableVersion, arrivals: Arrivals, spark: Spark) -> list[Operation]:
        """Return what is to be written; what does not fit is among the letters."""
        relation, store = self.source.relation, self.source.store
        has_ids = ROW_ID in table.primary_key
        given_ids = has_ids and ROW_ID in self.rows.column_names
        key = [c.name for c in relation.columns if c.source in table.primary_key]
        if self.gone.any() and has_ids:
            raise SourceError(
                f"table {relation.name}: its source takes rows away, and without a PRIMARY KEY none is found: make the table "
                "again with one"
            )
        if relation.append_only:
            self._without(self.gone, f"table {relation.name} is APPEND ONLY: its rows do not go")
        self._without_misfits(set(key))
        must = [c.name for c in relation.columns if relation.is_never_null(c) and c.name != ROW_ID]
        self._without_nulls(set(key), must)
        typed = self._typed(spark)
        if relation.append_only and not has_ids:
            self.looks_up = True
            again = known_again(store.reader, table, typed.select(list(table.primary_key)))
            typed = typed.filter(pa.array(~again))
            self._without(again, taken_once(relation.name))
        puts, keys = newest_rows(with_row_ids(store, typed), self.gone, tuple(table.primary_key))
        puts = arrivals.take(puts)
        self.taken = typed.num_rows - arrivals.late
        found: list[Operation] = []
        if puts.num_rows:
            found.append(Put(puts, new_keys=self.looks_up or (has_ids and not given_ids)))
        if keys.num_rows:
            found.append(Delete(keys))
        return found

    def _typed(self, spark: Spark) -> pa.Table:
        """Return the rows as they are stored; raises SourceError for a column that is missing, or whose values are no such."""
        relation = self.source.relation
        optional = {ROW_ID, *(c.name for c in relation.columns if c.default is not None)}
        for column in relation.columns:
            if column.name not in self.rows.column_names and column.name not in optional:
                raise SourceError(
                    f"table {relation.name}: its source has no column {column.name}, it has "
                    f"{', '.join(self.rows.column_names)}: ALTER TABLE {relation.name} DROP COLUMN {column.name} lets it go"
                )
        try:
            whole = completed(relation, self.rows, spark)
            return stored_names(relation, typed_rows(relation, whole, [c.name for c in relation.columns]))
        except InvalidRow as error:
            raise SourceError(
                f"table {relation.name}: what its source gives does not fit: {error}"
            ) from error

    def _without_nulls(self, key: set[str], must: Sequence[str]) -> None:
        for name in must:
            if name not in self.rows.column_names:
                continue
            nulls: np.ndarray = np.asarray(self.rows.column(name).is_null())
            if name not in key:  # of a row that goes the key suffices
                nulls = nulls & ~self.gone
            what = "is part of the key and" if name in key else "is NOT NULL, but"
            self._without(nulls, f"column {name} {what} has no value")

    def _without_misfits(self, key: set[str]) -> None:
        """Set rows aside of which a column does not take a value; one that takes none of its type is told by `_typed`."""
        for column in self.source.relation.columns:
            name, kind = column.name, to_arrow(column.type)
            if name not in self.rows.column_names or stays(self.rows.column(name).type, kind):
                continue
            if refused_part(self.rows.column(name).type, kind) is not None:
                continue
            found = convert(self.rows.column(name), kind)
            if found.unknown:
                continue
            counts = np.ones(len(self.gone), dtype=bool) if name in key else ~self.gone
            reasons = [found.faults[row].told(name) for row in sorted(found.faults) if counts[row]]
            aside = np.zeros(len(self.gone), dtype=bool)
            aside[found.bad] = True
            aside &= counts
            self._without(aside, reasons)
            at = self.rows.column_names.index(name)
            self.rows = self.rows.set_column(at, name, found.values.filter(pa.array(~aside)))

    def _without(self, aside: np.ndarray, reason: str | Sequence[str]) -> None:
        """Set rows aside, all for one reason or each for its own."""
        if not aside.any():
            return
        first = len(self.letters)
        place = ", ".join(part for part in (self.step.split, f"up to {self.step.upto}") if part)
        raw = as_rows(self.rows.filter(pa.array(aside)))
        reasons = [reason] * len(raw) if isinstance(reason, str) else reason
        self.letters += [
            DeadLetter(place, first + n, why, _text(row))
            for n, (why, row) in enumerate(zip(reasons, raw, strict=True), 1)
        ]
        self.rows = self.rows.filter(pa.array(~aside))
        self.gone = self.gone[~aside]


def _text(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in row.items())
