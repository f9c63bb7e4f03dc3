"""Dates and moments as texts on Arrow, by the plain forms of Spark: years of four digits without a sign."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StringType

from engine.arrow import to_mask
from engine.operators.arrow.expressions import Inexact, Kernel, Value
from engine.operators.arrow.times import TIMES, read_whole

_DAY = 86_400_000_000
_FIRST, _END = -719_162 * _DAY, 2_932_897 * _DAY
"""Microseconds of the years whose texts have four digits and no sign."""
_PLACES = {"yyyy": (0, 4), "MM": (5, 7), "dd": (8, 10), "HH": (11, 13), "mm": (14, 16), "ss": (17, 19)}
"""Where a part of a pattern stands in the text of a moment."""


def print_time(times: pa.Array[Any]) -> pa.Array[Any]:
    """Return dates or moments in UTC as texts, fractions of seconds without their last zeros."""
    days, valid = pa.types.is_date32(times.type), to_mask(times.is_valid())
    numbers = read_whole(times)
    first, end = (_FIRST // _DAY, _END // _DAY) if days else (_FIRST, _END)
    if (valid & ((numbers < first) | (numbers >= end))).any():
        raise Inexact("a year of which the text has a sign or more than four digits")
    if days:
        return times.cast(pa.string())
    whole = pa.array(numbers // 1_000_000, pa.int64(), mask=~valid).cast(pa.timestamp("s")).cast(pa.string())
    rest = pa.array(numbers % 1_000_000 + 1_000_000, pa.int64(), mask=~valid).cast(pa.string())
    digits = pc.utf8_rtrim(pc.utf8_slice_codeunits(rest, 1), characters="0")
    point = pc.if_else(pc.equal(digits, pa.scalar("")), "", ".")
    found: pa.Array[Any] = pc.binary_join_element_wise(whole, point, digits, "")
    return found


def _format(times: pa.Array[Any], pieces: tuple[str, ...]) -> pa.Array[Any]:
    whole = print_time(times)
    parts: list[Any] = []
    for piece in pieces:
        if piece not in _PLACES:
            parts.append(pa.scalar(piece))
        elif pa.types.is_date32(times.type) and _PLACES[piece][0] > 10:
            parts.append(pa.scalar("00"))
        else:
            parts.append(pc.utf8_slice_codeunits(whole, *_PLACES[piece]))
    found: pa.Array[Any] = pc.binary_join_element_wise(pc.utf8_slice_codeunits(whole, 0, 0), *parts, "")
    return found


def _compile_format(time: Value, pattern: Value) -> Value | None:
    text = pattern.constant
    if not isinstance(time.kind, TIMES) or not isinstance(text, str):
        return None
    pieces = re.findall(r"([A-Za-z]+|[-/:. _,]+)", text)
    if not pieces or "".join(pieces) != text:
        return None
    if any(piece[0].isalpha() and not _is_known(piece) for piece in pieces):
        return None
    split = [
        part for piece in pieces for part in (re.findall(_RUNS, piece) if piece[0].isalpha() else [piece])
    ]
    return Value(StringType(), "date_format", (time,), kernel=Kernel(_format, (tuple(split),), may_fail=True))


_RUNS = "|".join(_PLACES)


def _is_known(piece: str) -> bool:
    """Tell whether letters are parts of which the text is known, none of them twice in a row."""
    found = re.findall(_RUNS, piece)
    return "".join(found) == piece and all(one != other for one, other in itertools.pairwise(found))


FUNCTIONS: Mapping[str, Callable[..., Value | None]] = {"date_format": _compile_format}
"""By Spark's name of a function, what gives its value of the values of its arguments, or None where Spark has to."""
