"""The kinds of columns of random worlds: how each dialect declares one, its values, and how each engine writes one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from tests.oracle.words import either


class Far(NamedTuple):
    """A date or time of a year that Python has not, as Arrow counts it: `word` says of what it is the number."""

    word: str
    number: int


@dataclass(frozen=True)
class Kind:
    """A kind of column. `words` declare it in spark, postgres and risingwave (None: not to be had); `write` gives a value's literal."""

    name: str
    words: tuple[str, str | None, str]
    arrow: pa.DataType
    values: tuple[Any, ...]
    write: Callable[[Any], str] | None = None
    number: bool = False
    plain: bool = True
    """Whether rows can be told apart by it."""
    compared: bool = True
    """Whether queries compare it with literals."""

    def literal(self, value: Any) -> str | None:
        """Return a value as a marked text; None if it cannot be written in SQL."""
        if value is None:
            return "NULL"
        if self.write is None or isinstance(value, Far) or "\0" in str(value):
            return None
        return self.write(value)

    @property
    def literals(self) -> tuple[str, ...]:
        """The values that queries compare with."""
        return tuple(text for value in self.values if self.compared and (text := self.literal(value)))


LONG = "long " * 2_000


def _cast(spark: str, postgres: str, duckdb: str | None = None) -> Callable[[Any], str]:
    def write(value: Any) -> str:
        text = f"CAST('{value}' AS "
        return text + either(spark, postgres, duckdb) + ")"

    return write


def _text(value: str) -> str:
    if value == LONG:
        return "repeat('long ', 2000)"
    doubled = value.replace("'", "''")
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{value}'" if doubled == escaped == value else either(f"'{escaped}'", f"'{doubled}'")


def _decimal(precision: int, scale: int, *texts: str) -> Kind:
    name = f"decimal({precision},{scale})"
    values = tuple(Decimal(text) for text in texts)
    words = (name, f"numeric({precision},{scale})", name)
    return Kind(name, words, pa.decimal128(precision, scale), values, _cast(name, name, name), number=True)


def _same(word: str) -> tuple[str, str, str]:
    return (word, word, word)


_NAN, _INFINITY = float("nan"), float("inf")
_LARGEST = 1.7976931348623157e308, -1.7976931348623157e308
_ALL = (
    Kind("bigint", _same("bigint"), pa.int64(), (0, 1, 2, 3, 4, 5, 7, 10**15, -(10**15)), str, number=True),
    Kind("int", _same("int"), pa.int32(), (0, 1, 2, 3, 4, -1), str, number=True),
    Kind("smallint", _same("smallint"), pa.int16(), (0, 1, 2, 32767, -32768), str),
    Kind("far", _same("bigint"), pa.int64(), (0, 1, (1 << 63) - 1, -(1 << 63)), str),
    Kind("farint", _same("int"), pa.int32(), (0, 1, 7, (1 << 31) - 1, -(1 << 31)), str),
    _decimal(10, 2, "0.00", "0.50", "1.00", "1.25", "99.99", "-2.50", "99999999.99", "-99999999.99"),
    _decimal(5, 2, "0.00", "0.01", "999.99", "-999.99", "1.10"),
    _decimal(
        38, 18, "0", "1e-18", "3e-18", "1.5", "123456789012.345678901234567891", "-0.000000000000000007"
    ),
    _decimal(38, 0, "0", "1", "2", "1000000000000000000000000000007", "-3"),
    replace(
        _decimal(
            38,
            18,
            *("0", "1", "-0.000000000000000001", "0.000000000000000001"),
            *("99999999999999999999.999999999999999999", "-99999999999999999999.999999999999999999"),
        ),
        name="fardecimal",
        number=False,
    ),
    Kind(
        "numeric",
        ("decimal(38,10)", "numeric", "numeric"),
        pa.decimal128(38, 10),
        tuple(Decimal(text) for text in ("0", "0.0000000001", "2.5", "123456789.1234567891")),
        _cast("decimal(38,10)", "numeric", "decimal(38,10)"),
        number=True,
    ),
    Kind(
        "double",
        ("double", "double precision", "double precision"),
        pa.float64(),
        (0.0, -0.0, 0.5, 1.0, 2.25, -4.5, _NAN, _INFINITY, -_INFINITY, 1e300, 1e-300, 5e-324),
        _cast("double", "double precision", "double"),
        number=True,
    ),
    Kind(
        "fardouble",
        ("double", "double precision", "double precision"),
        pa.float64(),
        (0.0, -0.0, 1.0, _NAN, _INFINITY, -_INFINITY, *_LARGEST, 5e-324, 2.2250738585072014e-308),
        _cast("double", "double precision", "double"),
    ),
    Kind(
        "real",
        ("float", "real", "real"),
        pa.float32(),
        (
            0.0,
            -0.0,
            0.5,
            -2.25,
            1024.0,
            _NAN,
            _INFINITY,
            -_INFINITY,
            3.4028234663852886e38,
            1.401298464324817e-45,
        ),
        _cast("float", "real"),
        number=True,
    ),
    Kind("varchar", ("string", "varchar", "varchar"), pa.string(), ("", "a", "ab", "b", "ä", "B"), _text),
    Kind(
        "text",
        ("string", "text", "varchar"),
        pa.string(),
        (
            "",
            " ",
            "it's",
            'a "b"',
            "back\\slash",
            "`t`",
            "%_",
            "line\nbreak",
            "日本 🌍",
            "null",
            "a\x00b",
            "\u202etxet",
            "e\u0301",
            "\ufeff",
            "\u00a0\u2028",
            LONG,
        ),
        _text,
    ),
    Kind("raw", ("string", "text", "varchar"), pa.string(), ("1", "2", "30", "-4"), _text),
    Kind(
        "when",
        ("string", "text", "varchar"),
        pa.string(),
        (
            "2000-01-01 00:00:00",
            "2016-12-31 23:59:60",
            "2023-02-29 00:00:00",
            "0001-01-01 00:00:00",
            "9999-12-31 23:59:59.999999",
            "",
        ),
        _text,
    ),
    Kind("boolean", _same("boolean"), pa.bool_(), (True, False), lambda value: str(value).lower()),
    Kind(
        "date",
        _same("date"),
        pa.date32(),
        (
            date(1999, 12, 31),
            date(2000, 1, 1),
            date(2024, 2, 29),
            date(1500, 3, 1),
            date(1582, 10, 10),
            date(1, 1, 1),
            date(9999, 12, 31),
        ),
        lambda value: f"date '{value}'",
    ),
    Kind(
        "fardate",
        _same("date"),
        pa.date32(),
        (
            date(2000, 1, 1),
            date(1, 1, 1),
            date(9999, 12, 31),
            *(Far("days", days) for days in (2_932_897, 5_000_000, -719_163, 2_147_483_646, -2_147_483_646)),
        ),
        lambda value: f"date '{value}'",
    ),
    Kind(
        "timestamp",
        ("timestamp_ntz", "timestamp", "timestamp"),
        pa.timestamp("us"),
        (
            datetime(2000, 1, 1),
            datetime(2000, 1, 1, 0, 0, 1),
            datetime(2000, 1, 1, 0, 59, 59, 999999),
            datetime(2024, 3, 31, 2, 30),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(1500, 3, 1, 12),
            datetime(1, 1, 1),
            datetime(9999, 12, 31, 23, 59, 59, 999999),
        ),
        _cast("timestamp_ntz", "timestamp"),
    ),
    Kind(
        "fartime",
        ("timestamp_ntz", "timestamp", "timestamp"),
        pa.timestamp("us"),
        (
            datetime(2000, 1, 1),
            datetime(1, 1, 1),
            datetime(9999, 12, 31, 23, 59, 59, 999999),
            *(Far("micros", micros) for micros in (253_402_300_800_000_000, -62_135_596_800_000_001)),
            *(Far("micros", micros) for micros in ((1 << 63) - 2, -9_223_372_022_400_000_000)),
        ),
        _cast("timestamp_ntz", "timestamp"),
    ),
    Kind(
        "timestamptz",
        ("timestamp", "timestamptz", "timestamptz"),
        pa.timestamp("us", "UTC"),
        (
            datetime(2000, 1, 1, tzinfo=UTC),
            datetime(2000, 1, 1, 1, tzinfo=UTC),
            datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
            datetime(1960, 2, 29, 1, 2, 3, 4, tzinfo=UTC),
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ),
        _cast("timestamp", "timestamptz"),
    ),
    Kind(
        "time",
        _same("time"),
        pa.time64("us"),
        (time(0), time(10, 0, 0, 500000), time(23, 59, 59, 999999)),
        _cast("time(6)", "time"),
    ),
    Kind(
        "binary", ("binary", "bytea", "bytea"), pa.binary(), (b"", b"\x00", b"a", b"\xff\xfe"), compared=False
    ),
    Kind(
        "array",
        ("array<int>", "int[]", "int[]"),
        pa.list_(pa.int32()),
        ([], [1], [1, None, 2], [3, 3], [(1 << 31) - 1, -(1 << 31)]),
        lambda value: either(
            f"CAST(array({_items(value)}) AS array<int>)", f"CAST(ARRAY[{_items(value)}] AS int[])"
        ),
        plain=False,
        compared=False,
    ),
    Kind(
        "struct",
        ("struct<a: int, b: string>", None, "struct<a int, b varchar>"),
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        ({"a": 1, "b": "x"}, {"a": None, "b": ""}),
        plain=False,
        compared=False,
    ),
)
KINDS = {kind.name: kind for kind in _ALL}
NUMBERS = tuple(kind.name for kind in _ALL if kind.number)
WHOLE = ("bigint", "int")
FLOATS = ("double", "real")
EXACT = tuple(name for name in NUMBERS if name not in FLOATS)
KEYS = (
    "bigint",
    "int",
    "far",
    "varchar",
    "text",
    "date",
    "timestamp",
    "timestamptz",
    "decimal(10,2)",
    "decimal(38,18)",
    "boolean",
    "time",
    "double",
    "fardouble",
    "fardate",
    "fartime",
    "fardecimal",
    "farint",
)
CUTS = ("bigint", "int", "varchar", "date", "boolean", "decimal(10,2)")
"""Kinds by which views are cut into partitions."""
POISON = ("x", "", "99999999999", "1e")
"""Values of `raw` that are no whole numbers."""


def values_of(column: pa.ChunkedArray[Any] | pa.Array[Any]) -> list[Any]:
    """Return the values of a column, dates and times that Python has not among them."""
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        return [_value(scalar) for scalar in column]
    return values


def _value(scalar: pa.Scalar[Any]) -> Any:
    try:
        return scalar.as_py()
    except OverflowError:
        if isinstance(scalar, pa.ListScalar):
            return [_value(one) for one in scalar.values]
        if isinstance(scalar, pa.Date32Scalar):
            return Far("days", scalar.value)
        return Far("micros", scalar.cast(pa.timestamp("us", scalar.type.tz)).value)


def _items(value: list[int | None]) -> str:
    return ", ".join("NULL" if item is None else str(item) for item in value)
