"""Lines: rows that ask, numbered before they are looked up, so that each of them can be had once of all that it has found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from engine.arrow import make_nulls, to_mask
from engine.operators.arrow.expressions import Inexact
from engine.operators.context import EpochContext
from engine.operators.flow import Batches, Flow, Rows, as_frame, compute
from engine.sql.expression.nodes import NULL, Column
from engine.sql.expression.spark_sql import quote
from engine.sql.expression.template import call

MOST_BYTES = 1 << 29
"""Of lines without a hit no more are held in a task: Spark, which can spill them to disk, computes the epoch then."""


@dataclass(frozen=True)
class NumberLines:
    """A body: each row of a task with a number of its own, from 0 on."""

    line: str

    def __call__(self, batches: Batches) -> Batches:
        start = 0
        for batch in batches:
            numbers = pa.array(np.arange(start, start + batch.num_rows, dtype=np.int64))
            start += batch.num_rows
            yield batch.append_column(self.line, numbers)


@dataclass(frozen=True)
class KeepHits:
    """A body: of each line its hits, or one row if it has none, in which the `nulled` columns are null.

    With `once` just one of the hits. Rows of a line may come in any order and in any batch of the task.
    """

    line: str
    hit: str
    nulled: tuple[str, ...] = ()
    once: bool = False

    def __call__(self, batches: Batches) -> Batches:
        done = np.zeros(0, dtype=bool)
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            lines, hits = batch.column(self.line).to_numpy(), to_mask(batch.column(self.hit))
            done = _extend_mask(done, int(lines.max(initial=-1)) + 1)
            yield batch.filter(pa.array(_choose_first(lines, hits & ~done[lines]) if self.once else hits))
            done[lines[hits]] = True
            missed = batch.filter(pa.array(_choose_first(lines, ~done[lines])))
            if missed.num_rows:
                held.append(missed)
                size += missed.nbytes
            if size > MOST_BYTES:
                held = [self._choose_missed(held, done)]
                size = held[0].nbytes
                if size > MOST_BYTES / 2:
                    raise Inexact(f"lines of {size} bytes, or more, without a hit in one task")
        if held:
            yield self._null_columns(self._choose_missed(held, done))

    def _choose_missed(self, held: list[pa.RecordBatch], done: np.ndarray) -> pa.RecordBatch:
        """Return one row of each line that has no hit."""
        rows = pa.Table.from_batches(held).combine_chunks().to_batches()[0]
        lines = rows.column(self.line).to_numpy()
        return rows.filter(pa.array(_choose_first(lines, ~done[lines])))

    def _null_columns(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            make_nulls(rows.num_rows, field.type) if field.name in self.nulled else column
            for field, column in zip(rows.schema, rows.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, names=rows.schema.names)


def _extend_mask(mask: np.ndarray, length: int) -> np.ndarray:
    """Return a mask of at least some length; what is new is false."""
    more = max(length, 2 * len(mask)) - len(mask) if length > len(mask) else 0
    return np.append(mask, np.zeros(more, dtype=bool))


def _choose_first(lines: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return which rows are the first of their line among some."""
    places = np.flatnonzero(among)
    chosen = np.zeros(len(lines), dtype=bool)
    _, first = np.unique(lines[places], return_index=True)
    chosen[places[first]] = True
    return chosen


def number_lines(rows: Rows, line: str, context: EpochContext) -> Rows:
    """Return each row with a number of its own as the column `line`; a task's lines are numbered by themselves."""
    if not _can_keep_here(context):
        return as_frame(rows).selectExpr("*", f"monotonically_increasing_id() AS {quote(line)}")
    before = Flow.of(rows, exact=context.exact)
    return before.then(NumberLines(line), StructType([*before.schema.fields, StructField(line, LongType())]))


def keep_hits(rows: Rows, line: str, hit: str, nulled: tuple[str, ...], context: EpochContext) -> Rows:
    """Return of each line its hits, or one row if it has none, in which some columns are null."""
    if _can_keep_here(context):
        return _add_keeping(rows, KeepHits(line, hit, nulled), context)
    rank = context.fresh("rank")
    ranked = _rank_hits(rows, line, hit, rank).where(f"{quote(hit)} OR {quote(rank)} = 1")
    named = [call("if", Column(hit), Column(c), NULL) if c in nulled else Column(c) for c in rows.columns]
    return compute(ranked, list(zip(rows.columns, named, strict=True)))


def keep_first_hit(rows: Rows, line: str, hit: str, context: EpochContext) -> Rows:
    """Return one row of each line, a hit if it has one."""
    if _can_keep_here(context):
        return _add_keeping(rows, KeepHits(line, hit, once=True), context)
    rank = context.fresh("rank")
    return _rank_hits(rows, line, hit, rank).where(f"{quote(rank)} = 1")


def _add_keeping(rows: Rows, body: KeepHits, context: EpochContext) -> Flow:
    before = Flow.of(rows, exact=context.exact)
    return before.then(body, before.schema)


def _rank_hits(rows: Rows, line: str, hit: str, rank: str) -> DataFrame:
    """Return each row with its number among those of its line as the column `rank`, hits first."""
    window = f"row_number() OVER (PARTITION BY {quote(line)} ORDER BY {quote(hit)} DESC) AS {quote(rank)}"
    return as_frame(rows).selectExpr("*", window)


def _can_keep_here(context: EpochContext) -> bool:
    """Tell whether tasks know all rows of their lines: no shuffle is between a number and its use."""
    return context.is_small and not context.exact
