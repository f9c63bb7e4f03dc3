"""The changes of a table as rows that stay: each commit's net changes, in the order of commits, numbered one after the other.

Rule: of each commit in (old, new] an inserted row is one row (1), a deleted one (2), an updated one two: as it was (4) and as
it is (3). What is deleted comes first. The number goes on from the last row of the state.

>>> change("WITH c AS CHANGELOG FROM bid SELECT id, changelog_op AS op FROM c")
+ id=2 op=2
+ id=4 op=1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from engine.arrow import to_positions
from engine.hummock import Reader
from engine.hummock.reads.change_log import NAMES
from engine.hummock.rows.expiry import disable_expiry
from engine.operators.arrow.map_in_arrow import make_task_frame
from engine.operators.change import Change
from engine.operators.context import EpochContext
from engine.operators.flow import WEIGHT, Flow
from engine.operators.lookups.table_parameters import TableAt, TableSource
from engine.spark_internals import derive_spark_schema
from engine.sql.expression.change_columns import COMES, DELETED, GOES, INSERTED, OPERATION, PART, ROW
from engine.sql.plan import Over, Project, Scan

_OPERATIONS = {"insert": (0, INSERTED), "update": (GOES, COMES), "delete": (DELETED, 0)}
"""What becomes of the old and of the new row of each kind of change; of 0 nothing."""


@dataclass(frozen=True)
class ExpandChanges:
    """A body: the rows of all changes of a table; `columns` are (column of the state, of the table)."""

    url: str
    options: Mapping[str, Any]
    source: TableSource
    state: TableSource
    columns: tuple[tuple[str, str], ...]
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, table = Reader.open(self.url, self.options), self.source.now()
        number = _find_last_number(reader, self.state.now())
        assert table.old is not None
        for batch in batches:
            if not batch.num_rows:
                continue
            after = table.old
            version = disable_expiry(table.version)
            for entry in version.list_changes(table.old, table.new):
                for log in reader.read_log(version, after, entry.epoch):
                    rows = self._build_rows(_sort_deletes_first(log), number)
                    number += rows.num_rows
                    yield rows
                after = entry.epoch

    def _build_rows(self, log: pa.RecordBatch, number: int) -> pa.RecordBatch:
        """Return the rows of a batch of a log, the old one of an update before the new one."""
        kinds = np.array([NAMES.index(kind) for kind in log.column("_op").to_pylist()], dtype=np.int64)
        of_kind = np.array([_OPERATIONS[name] for name in NAMES], dtype=np.int16)
        operations = of_kind[kinds].reshape(-1)
        present = np.flatnonzero(operations)
        place = to_positions(np.arange(2 * log.num_rows)[present])
        arrays: dict[str, pa.Array[Any]] = {
            PART: pa.array(np.zeros(len(present), dtype=np.int32)),
            ROW: pa.array(np.arange(number + 1, number + 1 + len(present))),
            OPERATION: pa.array(operations[present]),
            WEIGHT: pa.array(np.ones(len(present), dtype=np.int64)),
        }
        for name, column in self.columns:
            both = pa.concat_arrays([log.column(f"_old_{column}"), log.column(column)])
            order = np.arange(2 * log.num_rows).reshape(2, -1).T.reshape(-1)
            arrays[name] = both.take(to_positions(order)).take(place)
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.names], names=list(self.names))


def _sort_deletes_first(log: pa.RecordBatch) -> pa.RecordBatch:
    """Return a log with what is deleted first: a row that takes another place in its table goes before it comes."""
    stays = np.array([kind != "delete" for kind in log.column("_op").to_pylist()], dtype=bool)
    return log.take(to_positions(np.argsort(stays, kind="stable"))) if stays.any() else log


def delta(plan: Project, table: str, context: EpochContext) -> Change | None:
    """Return what the changes of a table add to the state `table` of them, or None if there are none."""
    assert isinstance(plan.input, Over) and isinstance(plan.input.input, Scan)
    scan = plan.input.input
    if not context.may_change(scan.table):
        return None
    stored = dict(scan.items)
    columns = tuple((name, stored[expr.column]) for name, expr in plan.items if expr.column in stored)
    names = (*plan.columns, WEIGHT)
    version = context.tables[table]
    source, state = context.find_source(scan.table), context.find_source(table)
    body = ExpandChanges(context.url, dict(context.options), source, state, columns, names)
    fields = derive_spark_schema(pa.schema([version.schema.field(name) for name in plan.columns])).fields
    schema = StructType([*fields, StructField(WEIGHT, LongType())])
    return Change(Flow(make_task_frame(context.spark, 1), (body,), schema, single=True, exact=context.exact))


def _find_last_number(reader: Reader, state: TableAt) -> int:
    """Return the number of the last row that a state has."""
    assert state.old is not None
    keys = pa.table({PART: pa.array([0], pa.int32())})
    _, rows = reader.find_first_rows(state.version, keys, state.old, columns=[ROW], last=True)
    return int(rows.column(ROW)[0].as_py()) if rows.num_rows else 0
