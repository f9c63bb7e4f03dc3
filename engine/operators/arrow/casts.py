"""Casts on Arrow between numbers, truths, texts, dates and moments; a text is read in the plainest form alone.

A value that the other type does not have raises Inexact: Spark has its error, or its null.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from engine.arrow import to_mask
from engine.operators.arrow.expressions import ARROW_TYPES, Inexact, Kernel, Value
from engine.operators.arrow.numbers import cut_to_whole
from engine.operators.arrow.time_texts import print_time
from engine.operators.arrow.times import TIMES, begin_dates, multiply_to_moments, read_whole
from engine.operators.arrow.whole_numbers import WIDTHS

_PLAIN = pa.timestamp("us")
_FORMS: dict[type[DataType], str] = {
    DateType: r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z",
    TimestampType: r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?\z",
    TimestampNTZType: r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?\z",
    BooleanType: r"\A(true|false)\z",
    DoubleType: r"\A-?[0-9]{1,300}([.][0-9]{1,300})?\z",
    **dict.fromkeys(map(type, WIDTHS), r"\A-?[0-9]{1,19}\z"),
}


def _cast_safely(array: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    return array.cast(kind)


def _test_zero(numbers: pa.Array[Any]) -> pa.Array[Any]:
    return pc.not_equal(numbers, pa.scalar(0, numbers.type))


def _read_text(texts: pa.Array[Any], kind: pa.DataType, form: str) -> pa.Array[Any]:
    if not pc.all(pc.match_substring_regex(texts, form), skip_nulls=True, min_count=0).as_py():
        raise Inexact("a text that is no plain one of its type")
    if (pa.types.is_date32(kind) or pa.types.is_timestamp(kind)) and pc.any(
        pc.starts_with(texts, "0000")
    ).as_py():
        raise Inexact("the year 0")
    return texts.cast(_PLAIN).cast(pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else texts.cast(kind)


def _relabel_moments(moments: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    return moments.cast(pa.int64()).cast(kind)


def _count_seconds(moments: pa.Array[Any]) -> pa.Array[Any]:
    return pa.array(read_whole(moments) // 1_000_000, pa.int64(), mask=~to_mask(moments.is_valid()))


def compile_cast(value: Value, kind: DataType) -> Value | None:
    """Return a value of another type, None where Spark has to compute it; the session's time zone is UTC."""
    kernel = _find_kernel(value.kind, kind)
    if kernel is None:
        return None
    found = Value(kind, "cast", (value,), kernel=kernel)
    return _fold(found) if value.function == "constant" else found


def _find_kernel(source: DataType, kind: DataType) -> Kernel | None:
    arrow = ARROW_TYPES[kind]
    if source in WIDTHS and kind in WIDTHS:
        return Kernel(_cast_safely, (arrow,), may_fail=WIDTHS[kind] < WIDTHS[source])
    if isinstance(source, DoubleType) and kind in WIDTHS:
        return Kernel(cut_to_whole, ("trunc", WIDTHS[kind]), may_fail=True)
    if isinstance(source, BooleanType) and (kind in WIDTHS or isinstance(kind, StringType)):
        return Kernel(_cast_safely, (arrow,))
    if source in WIDTHS and isinstance(kind, BooleanType):
        return Kernel(_test_zero)
    if source in WIDTHS and isinstance(kind, StringType):
        return Kernel(_cast_safely, (arrow,))
    if isinstance(source, TIMES):
        return _find_time_kernel(source, kind)
    if source in WIDTHS and isinstance(kind, TimestampType):
        return Kernel(multiply_to_moments, (1_000_000, arrow), may_fail=True)
    if source == StringType() and type(kind) in _FORMS:
        return Kernel(_read_text, (arrow, _FORMS[type(kind)]), may_fail=True)
    return None


def _find_time_kernel(source: DataType, kind: DataType) -> Kernel | None:
    if isinstance(kind, StringType):
        return Kernel(print_time, may_fail=True)
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        if isinstance(source, DateType):
            return Kernel(begin_dates, (ARROW_TYPES[kind],), may_fail=True)
        return Kernel(_relabel_moments, (ARROW_TYPES[kind],))
    return (
        Kernel(_count_seconds) if isinstance(source, TimestampType) and isinstance(kind, LongType) else None
    )


def _fold(value: Value) -> Value | None:
    """Return a value of constants as a constant; None if it has none here."""
    row = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["_"])
    try:
        found = value.evaluate(row)
    except Inexact:
        return None
    stored = found.cast(pa.int32()) if pa.types.is_date32(found.type) else found
    stored = stored.cast(pa.int64()) if pa.types.is_timestamp(found.type) else stored
    return Value(value.kind, "constant", constant=stored[0].as_py())
