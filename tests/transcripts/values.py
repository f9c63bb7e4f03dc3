"""Values as PostgreSQL writes them, held against those of an answer."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

_FAMILIES: tuple[tuple[str, Callable[[pa.DataType], bool]], ...] = (
    (r"smallint|integer|bigint|int|tinyint", types.is_integer),
    (r"numeric.*|decimal.*", types.is_decimal),
    (r"real|double precision|double|float", types.is_floating),
    (r"boolean", types.is_boolean),
    (r"text|character.*|name|json|jsonb|string|\"char\"", types.is_string),
    (r"date", types.is_date),
    (r"time without time zone|time", types.is_time),
    (r"timestamp without time zone|timestamp_ntz", lambda t: types.is_timestamp(t) and t.tz is None),
    (r"timestamp with time zone|timestamp", lambda t: types.is_timestamp(t) and t.tz is not None),
    (r"interval", lambda t: types.is_duration(t) or types.is_interval(t)),
    (r"bytea|binary", types.is_binary),
    (r".*\[\]", types.is_list),
    (r"record", types.is_struct),
)
_DIGITS = 15
_NUMBERS = r"smallint|integer|bigint|numeric.*|int|real|double precision|double|float"


def fits(wanted: str, given: pa.DataType) -> bool:
    """Tell whether a column's type is of the family of PostgreSQL's; all numbers are one, as docs/sql.md tells."""
    if re.fullmatch(_NUMBERS, wanted):
        return types.is_integer(given) or types.is_decimal(given) or types.is_floating(given)
    return any(re.fullmatch(words, wanted) and test(given) for words, test in _FAMILIES)


def comparable(value: Any, kind: pa.DataType) -> Any:
    """Return a value of an answer in the form in which values are compared."""
    if value is None:
        return None
    if types.is_integer(kind) or types.is_decimal(kind):
        return Decimal(value).normalize()
    if types.is_list(kind):
        return [comparable(item, kind.value_type) for item in value]
    if types.is_struct(kind):
        return tuple(comparable(value[part.name], part.type) for part in kind)
    if types.is_timestamp(kind) and kind.tz is not None:
        return value.astimezone(datetime.UTC)
    return value


def read_as(text: str | None, kind: pa.DataType, wanted: str) -> Any:
    """Return a text of PostgreSQL's as a value of an answer's type, in the form in which values are compared."""
    if text is None:
        return None
    if types.is_integer(kind) or types.is_decimal(kind):
        return Decimal(text).normalize()
    if types.is_float32(kind):
        return float(np.float32(text))
    if types.is_floating(kind):
        return float(text)
    if types.is_boolean(kind):
        return {"t": True, "f": False, "true": True, "false": False}[text]
    if types.is_date(kind):
        return datetime.date.fromisoformat(text)
    if types.is_time(kind):
        return datetime.time.fromisoformat(text)
    if types.is_timestamp(kind):
        moment = datetime.datetime.fromisoformat(re.sub(r"([+-]\d\d)$", r"\1:00", text))
        return moment if kind.tz is None else moment.astimezone(datetime.UTC)
    if types.is_duration(kind):
        return span(text)
    if types.is_binary(kind):
        return bytes.fromhex(text.removeprefix("\\x"))
    if types.is_list(kind):
        return [read_as(item, kind.value_type, wanted.removesuffix("[]")) for item in items(text, "{}")]
    if types.is_struct(kind):
        pairs = zip(items(text, "()"), kind, strict=True)
        return tuple(read_as(item, part.type, "") for item, part in pairs)
    return text


def equal(one: Any, other: Any) -> bool:
    """Tell whether two values are one; floats may differ by 1e-9 of their value, endless quotients behind 15 digits."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, Decimal) and isinstance(other, Decimal) and len(other.as_tuple().digits) > _DIGITS:
        return abs(one - other) <= abs(other).scaleb(-_DIGITS)  # a quotient that does not end
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def span(text: str) -> datetime.timedelta:
    """Return PostgreSQL's text of an interval without months: `-1 days +02:03:04.5`."""
    found = re.fullmatch(r"(?:(-?\d+) days? ?)?(?:([+-])?(\d+):(\d\d):(\d\d(?:\.\d+)?))?", text)
    assert found is not None, text
    days, sign, hours, minutes, seconds = found.groups()
    rest = datetime.timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    micros = int(Decimal(seconds or 0) * 1_000_000)
    rest += datetime.timedelta(microseconds=micros)
    return datetime.timedelta(days=int(days or 0)) + (-rest if sign == "-" else rest)


def items(text: str, braces: str) -> list[str | None]:
    """Return the items of an array's or a row's text, in which quotes, backslashes and braces may stand."""
    assert text[0] == braces[0] and text[-1] == braces[1], text
    found: list[str | None] = []
    word, quoted, was_quoted, depth, place = "", False, False, 0, 1
    while place < len(text) - 1:
        char = text[place]
        if depth:
            word += char
            depth += {"{": 1, "}": -1}.get(char, 0)
        elif char == "\\":
            place += 1
            word += text[place]
        elif char == '"':
            if quoted and text[place + 1] == '"':
                place += 1
                word += '"'
            else:
                quoted, was_quoted = not quoted, True
        elif quoted:
            word += char
        elif char == "{":
            word, depth = word + char, 1
        elif char == ",":
            found.append(_item(word, was_quoted, braces))
            word, was_quoted = "", False
        else:
            word += char
        place += 1
    if found or word or was_quoted or braces == "()":
        found.append(_item(word, was_quoted, braces))
    return found


def _item(word: str, quoted: bool, braces: str) -> str | None:
    empty = word == "" if braces == "()" else word == "NULL"
    return None if empty and not quoted else word


def same_json(one: str | None, other: str | None) -> bool:
    """Tell whether two documents hold the same; their texts differ in blanks and the order of keys."""
    return (one is None) == (other is None) and (one is None or json.loads(one) == json.loads(other or ""))
