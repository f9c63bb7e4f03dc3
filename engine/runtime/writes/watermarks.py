"""The watermark of a table at its writes: rows below it are late and not taken, and what comes in time moves it, in one commit.

What stands in `_watermark_TABLE` at an epoch is the watermark at that epoch: views read it as any table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_rows, to_mask
from engine.errors import Conflict
from engine.hummock import Hummock, Put, Table, Version
from engine.hummock.manifests.preconditions import (
    Precondition,
    require_all,
    require_same_table,
    require_unchanged,
)
from engine.hummock.rows.expiry import to_int64
from engine.hummock.writes.batch import Operation
from engine.meta.epochs.idle_timeout import IDLE_TIMEOUT
from engine.meta.status.dead_letters import DEAD_LETTER, DEAD_LETTER_SCHEMA
from engine.meta.status.watermarks import (
    WatermarkPosition,
    build_watermark_row,
    clamp_watermark,
    format_watermark,
    read_watermark,
)
from engine.sql.catalog import WATERMARK, Relation, Watermark, build_watermark_relation
from engine.sql.typing.types import to_arrow

LATE_ROWS = "late_rows"
"""The option of a table that says what becomes of late rows: they are counted alone, or kept as dead letters."""
OPTIONS = (LATE_ROWS, IDLE_TIMEOUT)
LATE_FILE = "late rows"
"""What stands for the file of a dead letter that is a late row, with the table's number; its line is the row's number."""


class WatermarkMoved(Conflict):
    """The watermark of a table has moved since rows were held against it."""


def build_watermark_table(relation: Relation) -> Table | None:
    """Return the storage table of a relation's watermark, None if it has none."""
    watermark_relation = build_watermark_relation(relation)
    if watermark_relation is None:
        return None
    schema = pa.schema([(column.name, to_arrow(column.type)) for column in watermark_relation.columns])
    return Table(watermark_relation.name, schema, watermark_relation.primary_key, ())


def format_late_notice(relation: Relation, rows: int) -> str:
    """Return the notice of a statement some of whose rows were late, an empty text if none was."""
    if not rows:
        return ""
    keeps_late = relation.options.get(LATE_ROWS) == "keep"
    where = f"; they are in {DEAD_LETTER}" if keeps_late else ", and counted (SHOW WATERMARKS)"
    return f"{rows} rows were below the watermark of {relation.name} and not taken{where}"


class ArrivingRows:
    """The rows that one commit brings to a table: `take` gives those in time, `writes` what else the commit has to write.

    A table without a watermark takes all rows. The commit stands only under the precondition `unmoved`.
    """

    def __init__(self, store: Hummock, version: Version, relation: Relation | None) -> None:
        self.late = 0
        self._late_rows: list[pa.Table] = []
        self._table = None if relation is None else build_watermark_table(relation)
        if self._table is None or relation is None:
            return
        self.relation = relation
        self._base = version.tables.get(self._table.name)
        if self._base is None:
            raise Conflict(f"table {relation.name} was dropped while rows were written to it")
        self._kind = self._table.schema.field(WATERMARK).type
        self.before, self.late_before = read_watermark(store.reader, self._base)
        self._now = self.before

    @property
    def has_watermark(self) -> bool:
        """Whether rows can be late at all."""
        return self._table is not None

    @property
    def watermark(self) -> Watermark:
        """The watermark of the table, which has one."""
        assert self.relation.watermark is not None
        return self.relation.watermark

    def filter_late(self, rows: pa.Table) -> pa.Table:
        """Return the rows, under the names of the store, that are not late; a row without a time never is."""
        if self._table is None or not rows.num_rows:
            return rows
        times = self._read_times(rows)
        if self.before is not None:
            rows, times = self._remove_late(rows, times, _mark_below(times, self.before))
        self.record(pc.max(times).as_py())
        return rows

    def mark_late(self, rows: pa.Table) -> np.ndarray:
        """Tell which rows, under the names of the store, are late."""
        if self._table is None or self.before is None:
            return np.zeros(rows.num_rows, dtype=bool)
        return to_mask(_mark_below(self._read_times(rows), self.before))

    def filter_there(self, keys: pa.Table) -> pa.Table:
        """Return the keys, under the names of the store, that do not tell of a row which has left the table."""
        if self._table is None or not self.watermark.ttl or self.before is None:
            return keys
        if self.watermark.column not in keys.column_names:
            return keys
        return keys.filter(pc.invert(_mark_below(self._read_times(keys), self.before)))

    def record(self, greatest: int | None, late: int = 0, late_rows: pa.Table | None = None) -> None:
        """Take note of rows that were held against the watermark elsewhere: the greatest time, and how many were late."""
        self.late += late
        if late_rows is not None:
            self._late_rows.append(late_rows)
        if greatest is not None:
            reached = clamp_watermark(greatest - self.watermark.delay, self._kind)
            self._now = reached if self._now is None else max(self._now, reached)

    def build_writes(self) -> dict[str, Sequence[Operation]]:
        """Return what the commit writes to tables of the system: where the watermark is now, and late rows that are kept."""
        if self._table is None or (self._now == self.before and not self.late):
            return {}
        row = build_watermark_row(self._table, WatermarkPosition(self._now, self.late_before + self.late))
        found: dict[str, Sequence[Operation]] = {self._table.name: [Put(row)]}
        if self._late_rows:
            found[DEAD_LETTER] = [Put(self._build_dead_letters(pa.concat_tables(self._late_rows)))]
        return found

    def get_ttl_watermarks(self) -> dict[str, int]:
        """Return the watermark below which the commit hides rows of the table, if it is WITH TTL and moves."""
        if self._table is None or not self.watermark.ttl or self._now is None or self._now == self.before:
            return {}
        return {self.relation.name: self._now}

    def require_unmoved(self, further: Precondition | None = None) -> Precondition | None:
        """Return the precondition that the watermark stands where it stood, and the `further` one."""
        if self._table is None:
            return further
        base = self._base
        assert base is not None
        name = self.relation.name
        return require_all(
            require_same_table(base, f"table {name} was dropped while rows were written to it"),
            require_unchanged(base, f"the watermark of {name} has moved in the meantime", WatermarkMoved),
            further,
        )

    @property
    def retains_late(self) -> bool:
        """Whether late rows are kept."""
        return self.relation.options.get(LATE_ROWS) == "keep"

    def _read_times(self, rows: pa.Table) -> pa.Array[Any]:
        """Return the times of rows that the watermark goes by, as numbers."""
        return to_int64(rows.column(self.watermark.column).combine_chunks())

    def _remove_late(
        self, rows: pa.Table, times: pa.Array[Any], late: pa.Array[Any]
    ) -> tuple[pa.Table, pa.Array[Any]]:
        count = int(pc.sum(late).as_py() or 0)
        if not count:
            return rows, times
        self.late += count
        if self.retains_late:
            self._late_rows.append(rows.filter(late))
        in_time = pc.invert(late)
        return rows.filter(in_time), times.filter(in_time)

    def _build_dead_letters(self, rows: pa.Table) -> pa.Table:
        name, before = self.relation.name, self.before
        assert self._base is not None
        visible = self.relation.visible_columns
        column = next(one.name for one in visible if one.storage_name == self.watermark.column)
        rows = rows.select([one.storage_name for one in visible]).rename_columns(
            [one.name for one in visible]
        )
        count = rows.num_rows
        raw = [json.dumps(row, default=str, ensure_ascii=False) for row in as_rows(rows)]
        assert before is not None  # or none of them would be late
        at = format_watermark(before, self._kind)
        numbers: pa.Array[Any] = to_int64(rows.column(column).combine_chunks())
        times = [format_watermark(n, self._kind) for n in numbers.to_pylist() if n is not None]
        reasons = [f"late: {column} = {time} is below the watermark {at}" for time in times]
        return pa.table(
            [
                pa.array([name] * count, pa.string()),
                pa.array([f"{LATE_FILE} {self._base.table_id}"] * count, pa.string()),
                pa.array(np.arange(self.late_before + 1, self.late_before + 1 + count), pa.int64()),
                pa.array(reasons, pa.string()),
                pa.array(raw, pa.string()),
            ],
            schema=DEAD_LETTER_SCHEMA,
        )


def _mark_below(times: pa.Array[Any], watermark: int) -> pa.Array[Any]:
    """Return which times are below a watermark; null is not."""
    below: pa.Array[Any] = pc.less(times, pa.scalar(watermark, pa.int64())).fill_null(False)
    return below
