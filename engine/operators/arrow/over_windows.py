"""Calls over windows of whole partitions that stand in one task, computed on Arrow to the bits that Spark would give.

A small subset on purpose: numbers of rows, lag and lead, the values at the ends of frames, and aggregates of whole numbers and
decimals over frames that are counted in rows, end at peers, or end some days away in an order of dates or times. What is outside
of it is left to Spark; what cannot be computed exactly on the values at hand (`arrow_values.Inexact`), or would take too much
memory, makes Spark compute the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from engine.operators.arrow.compiler import Compiler, is_compared
from engine.operators.arrow.decimals import derive_mean_type, derive_sum_type
from engine.operators.arrow.expressions import Inexact, Value
from engine.operators.arrow.ordered_rows import (
    FrameBounds,
    OrderedRows,
    Sorting,
)
from engine.operators.arrow.whole_numbers import WIDTHS
from engine.operators.flow import Flow
from engine.sql.expression.nodes import NULL, Call, Cast, Column, Expr, Interval, Literal
from engine.sql.typing.intervals import parse_interval
from engine.sql.window_calls import Frame, FrameEnd, SortKey, WindowCall

MOST_ROWS = 4_000_000
MOST_BYTES = 1 << 29
"""Of more rows, or more bytes, in one task Spark computes the windows, which can spill them to disk."""
MOST_LOOKED_AT = 64
"""Extremes of frames between two limits are found by looking at each row: of longer ones they are left to Spark."""
_DIGITS_IN_DOUBLE, _MOST_SCALE = 11, 16
_NUMBERS = ("row_number", "rank", "dense_rank")


@dataclass(frozen=True)
class ArrowCall:
    """One call: `function` of `value` over a frame in an order; `offset` is that of lag (negative) and lead."""

    name: str
    function: str
    sorting: Sorting
    kind: DataType
    value: Value | None = None
    bounds: FrameBounds | None = None
    offset: int = 0


@dataclass(frozen=True)
class ComputeWindows:
    """A body: each row of all batches of a task, which hold whole partitions, with the results of the calls."""

    partition: tuple[str, ...]
    calls: tuple[ArrowCall, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gathered, row_count, byte_count = [], 0, 0
        for batch in batches:
            row_count += batch.num_rows
            byte_count += batch.nbytes
            if row_count > MOST_ROWS or byte_count > MOST_BYTES:
                raise Inexact(f"partitions of {row_count} rows and {byte_count} bytes, or more, in one task")
            if batch.num_rows:
                gathered.append(batch)
        if not gathered:
            return
        rows = pa.Table.from_batches(gathered).combine_chunks().to_batches()[0]
        ordered: dict[Sorting, OrderedRows] = {}
        columns, names = list(rows.columns), list(rows.schema.names)
        for call in self.calls:
            if call.sorting not in ordered:
                ordered[call.sorting] = OrderedRows.of(rows, self.partition, call.sorting)
            columns.append(_compute_result(call, rows, ordered[call.sorting]))
            names.append(call.name)
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _compute_result(call: ArrowCall, rows: pa.RecordBatch, ordered: OrderedRows) -> pa.Array[Any]:
    values = None if call.value is None else call.value.evaluate(rows)
    match call.function:
        case "row_number" | "rank" | "dense_rank":
            return ordered.number_rows(call.function)
        case "lag" | "lead":
            assert values is not None
            return ordered.shift_values(values, call.offset)
        case "first_value" | "last_value":
            assert values is not None and call.bounds is not None
            return ordered.pick_frame_end(values, call.bounds, last=call.function == "last_value")
    assert call.bounds is not None
    return ordered.aggregate_frames(call.function, values, call.bounds)


def compute_windows(
    rows: Flow, partition: Sequence[str], key: Sequence[str], calls: Sequence[WindowCall]
) -> Flow | None:
    """Return each row with the calls' results, or None if Spark has to compute one of them.

    The rows of each partition stand in one task: the flow is one task's.
    """
    compiler = rows.compiler
    if not _has_whole_partitions(rows, partition, key):
        return None
    found = [compile_call(call, tuple(key), compiler) for call in calls]
    known = tuple(call for call in found if call is not None)
    if len(known) < len(calls):
        return None
    fields = [*rows.schema.fields, *(StructField(call.name, call.kind) for call in known)]
    return rows.then(ComputeWindows(tuple(partition), known), StructType(fields))


def _has_whole_partitions(rows: Flow, partition: Sequence[str], key: Sequence[str]) -> bool:
    """Tell whether one task has all rows of each partition, and Arrow tells partitions and keys apart."""
    if not rows.single or rows.exact or not rows.bodies or (rows.groups and not partition):
        return False
    kinds = rows.compiler.kinds
    return all(is_compared(kinds.get(column)) for column in (*partition, *key))


def compile_sorting(
    rows: Flow, partition: Sequence[str], key: tuple[str, ...], order: Sequence[SortKey]
) -> Sorting | None:
    """Return the order of rows by some columns and then by their key, None if Spark has to put them in it."""
    known = _has_whole_partitions(rows, partition, key)
    if not known or not all(_can_order_by(rows.compiler.kinds.get(one.column)) for one in order):
        return None
    return _append_key(tuple(order), key)


def _append_key(order: tuple[SortKey, ...], key: tuple[str, ...]) -> Sorting:
    named = {one.column for one in order}
    return Sorting(order, tuple(SortKey(column) for column in key if column not in named))


def _can_order_by(kind: DataType | None) -> bool:
    """Tell whether rows can be put in order by a type; floats that are the same may differ in their bits."""
    return is_compared(kind) or isinstance(kind, DoubleType | FloatType)


def compile_call(call: WindowCall, key: tuple[str, ...], compiler: Compiler) -> ArrowCall | None:
    """Return a call over rows of a key as Arrow computes it, or None if Spark has to."""
    kinds = compiler.kinds
    expr = call.call
    plain = isinstance(expr, Call) and not (expr.ignore_nulls or expr.distinct or expr.order or expr.where)
    if not plain or not all(_can_order_by(kinds.get(one.column)) for one in call.order):
        return None
    assert isinstance(expr, Call)
    sorting = _append_key(call.order, key)
    if expr.function in _NUMBERS:
        return ArrowCall(call.name, expr.function, sorting, IntegerType())
    value = _compile_argument(expr, compiler)
    if expr.function in ("lag", "lead"):
        return _compile_neighbour(call.name, expr, sorting, value)
    bounds = None if call.frame is None else _read_bounds(call.frame, call.order, compiler)
    if bounds is None:
        return None
    if expr.function in ("min", "max") and _count_rows_between(bounds) > MOST_LOOKED_AT:
        return None
    if expr.function in ("min", "max") and bounds.by_value and None not in (bounds.start, bounds.end):
        return None
    kind = _resolve_kind(expr, value, by_rows=bounds.by_rows)
    return None if kind is None else ArrowCall(call.name, expr.function, sorting, kind, value, bounds)


def _compile_argument(expr: Call, compiler: Compiler) -> Value | None:
    """Return the first argument; a column may be of any type."""
    if not expr.arguments:
        return None
    first = expr.arguments[0]
    if isinstance(first, Column) and first.name in compiler.kinds:
        return Value(compiler.kinds[first.name], "column", name=first.name)
    return compiler.compile_value(first)


def _compile_neighbour(name: str, expr: Call, sorting: Sorting, value: Value | None) -> ArrowCall | None:
    far = expr.arguments[1] if len(expr.arguments) > 1 else Literal("1")
    default = expr.arguments[2] if len(expr.arguments) > 2 else NULL
    offset = _read_int(far)
    if value is None or offset is None or default != NULL:
        return None
    return ArrowCall(
        name, expr.function, sorting, value.kind, value, offset=offset if expr.function == "lead" else -offset
    )


def _resolve_kind(expr: Call, value: Value | None, *, by_rows: bool) -> DataType | None:
    """Return the type of a call over a frame, None if Spark has to compute it."""
    match expr.function, len(expr.arguments):
        case "count", 0:
            return LongType()
        case _, n if n != 1 or value is None:
            return None
        case "count", _:
            return LongType()
        case "sum", _:
            return _infer_sum_kind(value.kind)
        case "avg", _:
            return _infer_mean_kind(value.kind)
        case "min" | "max", _:
            return value.kind if is_compared(value.kind) else None
        case "first_value" | "last_value", _:
            return value.kind if by_rows else None  # among peers the place decides, not the order
    return None


def _infer_sum_kind(kind: DataType) -> DataType | None:
    if isinstance(kind, DecimalType):
        return derive_sum_type(kind)
    return LongType() if kind in WIDTHS else None


def _infer_mean_kind(kind: DataType) -> DataType | None:
    """Return the type of an average. Of few digits Spark takes it by DOUBLE, of many after the point it is rounded twice."""
    if isinstance(kind, DecimalType):
        exact = kind.precision > _DIGITS_IN_DOUBLE and kind.scale <= _MOST_SCALE
        return derive_mean_type(kind) if exact else None
    return DoubleType() if kind in WIDTHS else None


def _read_bounds(frame: Frame, order: tuple[SortKey, ...], compiler: Compiler) -> FrameBounds | None:
    if frame.is_whole:
        return FrameBounds(by_rows=True)
    by_rows = frame.unit == "rows"
    read = _read_int if by_rows else _choose_distance(order, compiler)
    ends = [_read_end(end, far, read) for end, far in ((frame.start, "preceding"), (frame.end, "following"))]
    if any(end == "other" for end in ends):
        return None
    start, end = (None if isinstance(one, str) else one for one in ends)
    bounds = FrameBounds(start, end, by_rows=by_rows)
    return None if frame.unit == "groups" and bounds.by_value else bounds


def _choose_distance(order: tuple[SortKey, ...], compiler: Compiler) -> Callable[[Expr], int | None]:
    """Return what reads a distance in the unit of an order of one column."""
    kind = compiler.kinds[order[0].column] if len(order) == 1 else None
    match kind:
        case DateType():
            return _read_int
        case TimestampNTZType():
            return _read_span
        case TimestampType() if compiler.compile_value(Cast(Column(order[0].column), "date")) is not None:
            return _read_span  # days of 24 hours: the session's time zone is UTC
    return lambda _: None


def _read_span(expr: Expr) -> int | None:
    """Return the microseconds of an interval of days or less that one number and its unit say."""
    if not (
        isinstance(expr, Cast) and expr.to == "interval day to second" and isinstance(expr.value, Interval)
    ):
        return None
    amount, unit = expr.value.amount, expr.value.unit
    if not isinstance(amount, Literal) or not amount.text.isdigit() or not unit.isalpha():
        return None
    span = parse_interval(f"{amount.text} {unit}")
    return None if span is None else span // timedelta(microseconds=1)


def _count_rows_between(bounds: FrameBounds) -> int:
    """Return how many rows a frame between two limits has, 0 for others."""
    return 0 if bounds.start is None or bounds.end is None else bounds.end - bounds.start + 1


def _read_end(end: FrameEnd, far: str, read: Callable[[Expr], int | None]) -> int | str:
    """Return how far behind the row a frame ends, `open` if it ends with the partition, `other` if nothing here."""
    if end.side == "current row":
        return 0
    if end.offset is None:
        return "open" if end.side == far else "other"
    distance = read(end.offset)
    if distance is None:
        return "other"
    return distance if end.side == "following" else -distance


def _read_int(expr: Expr) -> int | None:
    return (
        int(expr.text)
        if isinstance(expr, Literal) and expr.kind == "number" and expr.text.isdigit()
        else None
    )
