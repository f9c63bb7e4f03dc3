"""Rows as PostgreSQL's COPY takes them: CSV made by Arrow, column by column, with what it cannot hold told by row.

Method: a column of numbers or truths goes as it is, any other as its text in PostgreSQL's form. Dates and times never become
Python's, which lacks years that both ends have.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pa_csv

from engine.arrow import format_day, format_moment, has_far_times, join_texts, to_mask
from engine.connectors.postgres.sink.types import JSONB, TargetType, find_family, is_json
from engine.jsonb.values import render_documents
from engine.sql.catalog import RelationColumn
from engine.sql.typing.types import element_type

Values: TypeAlias = Any
"""An Arrow array of any type, which the stubs of Arrow's functions know no name for."""
_compute: Any = pyarrow.compute
PIECE_ROWS = 50_000
"""So many rows become CSV at once."""
_DIRECT = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_TEXTS = ("string", "varchar", "char")
_FIRST_DAY, _END_DAY = -2_440_588, 2_145_042_906
"""PostgreSQL's dates as days since 1970: from 4714-11-24 BC up to 5874897-12-31."""
_DAY = 86_400_000_000
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_UUID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_ZERO = "\\u0000"
_OPTIONS = pa_csv.WriteOptions(include_header=False, batch_size=PIECE_ROWS, quoting_style="needed")


class RefusedValue(Exception):
    """A value that PostgreSQL does not hold: the row's place in its piece, the column, why, and what to do."""

    def __init__(self, row: int, column: str, why: str, remedy: str) -> None:
        super().__init__(f"{column} {why}")
        self.row, self.column, self.why, self.remedy = row, column, why, remedy


class TargetColumn(NamedTuple):
    """A column of a view with the one there that it fills."""

    column: RelationColumn
    type: TargetType
    in_key: bool = False
    takes_null: bool = True


def encode_piece(rows: pa.Table, columns: Sequence[TargetColumn], before: Sequence[Values] = ()) -> bytes:
    """Return rows as CSV, behind columns that are ready; raises RefusedValue for the first value that does not fit."""
    arrays = [encode_column(rows.column(n).combine_chunks(), one) for n, one in enumerate(columns)]
    everything = [*before, *arrays]
    made = pa.RecordBatch.from_arrays(everything, names=[f"c{n}" for n in range(len(everything))])
    sink = io.BytesIO()
    pa_csv.write_csv(made, sink, _OPTIONS)
    return sink.getvalue()


def encode_column(values: Values, target: TargetColumn) -> Values:
    """Return a column as CSV has it; raises RefusedValue."""
    column = target.column
    if not target.takes_null and values.null_count:
        _refuse_first(values.is_null(), target, "is null", "COALESCE it in the view")
    if is_json(column):
        return _encode_json(values, target)
    inner = element_type(column.type)
    if inner is not None:
        return _encode_lists(values, inner, target)
    if find_family(column.type) in _TEXTS:
        _check_texts(values, target)
        return values
    return values if find_family(column.type) in _DIRECT else _format(values, column.type, target)


def _format(values: Values, kind: str, target: TargetColumn) -> Values:
    """Return the texts of values of a scalar type."""
    family = find_family(kind)
    if family in _TEXTS:
        _check_texts(values, target, of_list=True)
        return values
    if family == "binary":
        return _format_bytes(values)
    if family == "date":
        return _format_days(values, target)
    if family in ("timestamp", "timestamp_ntz"):
        return _format_moments(values, target)
    if family == "time":
        return _compute.cast(values, pa.time64("us"), safe=False).cast(pa.string())
    if family == "interval":
        return _format_each(values, pa.int64(), format_interval)
    return values.cast(pa.string())


def _format_each(values: Values, number: pa.DataType, write: Callable[[int], str]) -> Values:
    found = values.cast(number)
    nulls = to_mask(found.is_null())
    numbers = found.fill_null(0).to_numpy(zero_copy_only=False).tolist()
    return pa.array(
        [None if gone else write(one) for one, gone in zip(numbers, nulls, strict=True)], pa.string()
    )


def _format_bytes(values: Values) -> Values:
    whole = pa.concat_arrays([values.cast(pa.large_binary())])
    _, offsets, data = whole.buffers()
    count, start = len(whole), whole.offset
    places = np.frombuffer(offsets, np.int64)[start : start + count + 1] if count else np.zeros(1, np.int64)
    taken = np.frombuffer(data or b"", np.uint8)[places[0] : places[-1]]
    texts = pa.LargeStringArray.from_buffers(
        count, pa.py_buffer((places - places[0]) * 2), pa.py_buffer(_HEX[taken].tobytes())
    )
    marked = _compute.binary_join_element_wise(
        pa.scalar("\\x", pa.large_string()), texts, pa.scalar("", pa.large_string())
    )
    return _compute.if_else(values.is_valid(), marked, pa.scalar(None, pa.large_string()))


def _format_days(values: Values, target: TargetColumn) -> Values:
    if not has_far_times(values):
        return values.cast(pa.string())
    days = values.cast(pa.int32()).cast(pa.int64())
    beyond = _compute.or_(_compute.less(days, _FIRST_DAY), _compute.greater_equal(days, _END_DAY))
    _refuse_beyond(beyond, target)
    return _format_each(days, pa.int64(), lambda day: _to_era(format_day(day)))


def _format_moments(values: Values, target: TargetColumn) -> Values:
    if not has_far_times(values):
        return values.cast(pa.timestamp("us")).cast(pa.string())
    micros = values.cast(pa.int64())
    _refuse_beyond(_compute.less(micros, _FIRST_DAY * _DAY), target)
    return _format_each(micros, pa.int64(), lambda moment: _to_era(format_moment(moment)))


def _refuse_beyond(beyond: Values, target: TargetColumn) -> None:
    if _compute.any(beyond).as_py():
        why = "is a time that PostgreSQL has not, which begins in 4714 BC"
        _refuse_first(beyond, target, why, "filter it, or write NULL in the view")


def _to_era(text: str) -> str:
    """Return a date or time of any year as PostgreSQL reads it.

    >>> _to_era("+10000-01-01"), _to_era("0000-12-31"), _to_era("-0043-03-15 10:00:00")
    ('10000-01-01', '0001-12-31 BC', '0044-03-15 10:00:00 BC')
    """
    if text.startswith("+"):
        return text[1:]
    if text.startswith(("-", "0000")):
        year, _, rest = text.lstrip("-").partition("-")
        return f"{int(year) + 1:04}-{rest} BC"
    return text


def format_interval(micros: int) -> str:
    """Return a span as PostgreSQL reads it: whole days, and a time with the same sign.

    >>> format_interval(90_000_000_001), format_interval(-90_000_500_000)
    ('1 days 01:00:00.000001', '-1 days -01:00:00.500000')
    """
    sign, rest = ("-", -micros) if micros < 0 else ("", micros)
    days, rest = divmod(rest, _DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return f"{sign}{days} days {sign}{clock}"


def _encode_lists(values: Values, inner: str, target: TargetColumn) -> Values:
    """Return lists as array literals: their items are texts, quoted where they are not numbers or truths."""
    flat = values.flatten()
    counts = _compute.fill_null(_compute.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    owner = np.repeat(np.arange(len(values)), counts)
    try:
        texts = _format(flat, inner, target).cast(pa.string())
    except RefusedValue as refused:
        raise RefusedValue(int(owner[refused.row]), refused.column, refused.why, refused.remedy) from None
    if find_family(inner) not in _DIRECT:
        texts = _compute.replace_substring(_compute.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
        mark = pa.scalar('"')
        texts = join_texts(mark, texts, mark, by="")
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), texts.fill_null("NULL"))
    literals = join_texts(pa.scalar("{"), _compute.binary_join(lists, ","), pa.scalar("}"), by="")
    return _compute.if_else(values.is_valid(), literals, pa.scalar(None, pa.string()))


def _encode_json(values: Values, target: TargetColumn) -> Values:
    column = target.column
    if column.sql_type in (JSONB, "json"):
        texts = values
    else:
        texts = pa.array(render_documents(values, column.visible_type, sort=False), pa.string())
    _check_zeros(texts, target)
    if target.type.name == JSONB:
        _check_escaped_zeros(texts, target)
    return texts


def _check_texts(values: Values, target: TargetColumn, *, of_list: bool = False) -> None:
    _check_zeros(values, target)
    its = target.type
    if its.length is not None:
        remedy = "ALTER TABLE there to a longer VARCHAR"
        if not of_list:
            remedy += f", or write left({target.column.name}, {its.length}) in the view"
        _refuse_first(
            _compute.greater(_compute.utf8_length(values), its.length),
            target,
            f"has {'items of ' if of_list else ''}more than {its.length} characters",
            remedy,
        )
    if of_list:
        return
    if its.name == "uuid" and target.in_key:
        strange = _compute.invert(_compute.match_substring_regex(values, _UUID))
        _refuse_first(strange, target, "is no UUID in small letters", "write it so in the view")
    if its.name == JSONB:
        _check_escaped_zeros(values, target)


def _check_zeros(values: Values, target: TargetColumn) -> None:
    """Raise RefusedValue for a text with the character 0, which no text of PostgreSQL has."""
    data = values.buffers()[2]
    if data is None or not (np.frombuffer(data, np.uint8) == 0).any():
        return
    remedy = f"take it out in the view: replace({target.column.name}, chr(0), '')"
    _refuse_first(
        _compute.match_substring(values, "\0"),
        target,
        "holds the character 0, which PostgreSQL does not keep",
        remedy,
    )


def _check_escaped_zeros(values: Values, target: TargetColumn) -> None:
    """Raise RefusedValue for a document with an escaped character 0, which json keeps and jsonb does not."""
    suspect = _compute.fill_null(_compute.match_substring(values, _ZERO), False)
    if not _compute.any(suspect).as_py():
        return
    plain = _compute.replace_substring(values, "\\\\", "")
    remedy = f"take it out in the view: replace({target.column.name}, '{_ZERO}', '')"
    _refuse_first(
        _compute.match_substring(plain, _ZERO),
        target,
        "holds the character 0, which jsonb does not keep",
        remedy,
    )


def _refuse_first(mask: Values, target: TargetColumn, why: str, remedy: str) -> None:
    places = np.flatnonzero(to_mask(mask))
    if len(places):
        raise RefusedValue(int(places[0]), target.column.name, why, remedy)
