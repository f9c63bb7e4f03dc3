"""Sources that give rows as Arrow: one that says how far it can be read, and reads from offset to offset, is whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from engine.connectors.contract.connector import PendingSplit, Spark
from engine.connectors.contract.offset_source import OffsetSource, StepResult
from engine.connectors.contract.offsets import SourceOffset
from engine.connectors.contract.row_fitting import RowFitter
from engine.connectors.contract.signed_rows import SignedRows
from engine.errors import SourceError
from engine.hummock import Put, Version
from engine.hummock.manifests.preconditions import require_unchanged
from engine.hummock.monitoring.driver_traffic import track_bytes
from engine.hummock.version import Run
from engine.hummock.writes.batch import write_operations
from engine.runtime.source_rows import open_direct_reader
from engine.runtime.writes.watermarks import ArrivingRows
from engine.sql.column_names import match_columns

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
                fitting = RowFitter(self.relation, self.store, _describe_place(step), signed.rows, gone)
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
        fitting = RowFitter(
            self.relation, self.store, _describe_place(step), signed.rows, gone, list(signed.letters)
        )
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


def _describe_place(step: OffsetRange) -> str:
    """Return how letters name a stretch."""
    return ", ".join(part for part in (step.split, f"up to {step.upto}") if part)
