"""The tables of the crash programs: a program counts in small whole numbers, of which each table makes its own keys and values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from engine.sql.typing.types import to_arrow
from tests.crash import edges
from tests.crash.edges import bag

Row = tuple[Any, ...]
FIRST_DAY = date(1999, 12, 28)


@dataclass(frozen=True)
class CrashTable:
    """A table's columns (name, Spark type), its key, and the row that stands for the numbers (row, group, value)."""

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    row: Callable[[int, int, int], Row]
    number: Callable[[Row], int]
    """The number of a row whose values are as `edges.plain` gives them."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema."""
        return pa.schema([(name, to_arrow(kind)) for name, kind in self.columns])

    @property
    def ddl(self) -> str:
        """The columns and the key, as they stand in CREATE TABLE."""
        listed = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        return f"({listed}, PRIMARY KEY ({', '.join(self.key)}))"

    def rows(self, numbers: Mapping[int, tuple[int, int]]) -> pa.Table:
        """Return rows as Arrow."""
        return self._table(
            [self.row(number, *values) for number, values in numbers.items()], self.schema.names
        )

    def keys(self, numbers: Iterable[int]) -> pa.Table:
        """Return keys as Arrow."""
        at = [self.schema.names.index(name) for name in self.key]
        rows = [self.row(number, 0, 0) for number in numbers]
        return self._table([tuple(row[k] for k in at) for row in rows], list(self.key))

    def is_one_of(self, numbers: Iterable[int]) -> str:
        """Return the condition, in Spark SQL, that a row is one of these."""
        alternatives = []
        for row in self.keys(numbers).to_pylist():
            alternatives.append(" AND ".join(f"{name} = {_literal(value)}" for name, value in row.items()))
        return " OR ".join(f"({text})" for text in alternatives)

    def _table(self, rows: list[Row], names: list[str]) -> pa.Table:
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.Table.from_arrays(
            [pa.array([row[k] for row in rows], f.type) for k, f in enumerate(schema)], schema=schema
        )


def _literal(value: Any) -> str:
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, date):
        return f"date '{value}'"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "\\'") + "'"


def _whole(number: int, group: int, value: int) -> Row:
    return (number, group, value)


def _typed(number: int, group: int, value: int) -> Row:
    """A key of text and a day; a group that may be null; a decimal of which 28 digits are not enough."""
    money = Decimal(value) * Decimal("10000000000.000000000000000001")
    day = FIRST_DAY + timedelta(days=number % 7)
    return (f"it's {number}", day, None if group == 5 else group, None if value == 0 else money)


KEYS = (*edges.DOUBLES, *(0.5 + n for n in range(20 - len(edges.DOUBLES))))
"""The doubles of the keys of `d`: a row's number tells which."""
_PLACES = {"NaN" if key != key else key: at for at, key in enumerate(KEYS)}


def _edged(number: int, group: int, value: int) -> Row:
    """A row with a value at the end of its type now and then, also in its key, whose zero comes with either sign."""

    def some(at: int, ends: Sequence[Any], otherwise: Any) -> Any:
        drawn = (value * 37 + group * 11 + at * 17) % 100
        return None if drawn < 4 else ends[(drawn + value) % len(ends)] if drawn < 16 else otherwise

    block, at = divmod(number, len(KEYS))
    key = KEYS[at]
    if value % 2:
        key = -0.0 if key == 0.0 else edges.OTHER_NAN if key != key else key
    return (
        block,
        key,
        None if group == 5 else group,
        some(1, edges.WHOLE, value),
        some(2, edges.SHORT, value),
        some(3, edges.FLOATS, value / 4),
        some(4, (*edges.DOUBLES, -0.0), value / 8),
        some(5, edges.DECIMALS, Decimal(value)),
        some(6, edges.TEXTS, f"w{value % 7}"),
        some(7, (True, False), value % 3 == 0),
        some(8, edges.DAYS, 10_957 + value),
        some(9, edges.MICROS, 946_684_800_000_000 + value),
        some(10, edges.MICROS, 1_700_000_000_000_000 + value),
        some(11, edges.BYTES, b"b"),
    )


TABLES: dict[str, CrashTable] = {
    "a": CrashTable(
        (("id", "bigint"), ("g", "bigint"), ("x", "bigint")), ("id",), _whole, lambda row: row[0]
    ),
    "b": CrashTable(
        (("id", "bigint"), ("g", "bigint"), ("y", "bigint")), ("id",), _whole, lambda row: row[0]
    ),
    "c": CrashTable(
        (("k", "string"), ("d", "date"), ("g", "bigint"), ("m", "decimal(38,18)")),
        ("k", "d"),
        _typed,
        lambda row: int(row[0].rpartition(" ")[2]),
    ),
    "d": CrashTable(
        (
            ("n", "bigint"),
            ("f", "double"),
            ("g", "bigint"),
            ("x", "bigint"),
            ("s", "smallint"),
            ("r", "float"),
            ("v", "double"),
            ("m", "decimal(38,18)"),
            ("t", "string"),
            ("o", "boolean"),
            ("y", "date"),
            ("w", "timestamp_ntz"),
            ("z", "timestamp"),
            ("b", "binary"),
        ),
        ("n", "f"),
        _edged,
        lambda row: row[0] * len(KEYS) + _PLACES[row[1]],
    ),
}


def bag_of(name: str, rows: dict[int, tuple[int, int]]) -> Counter:
    """Return the rows that a table must hold, of which `rows` are numbers."""
    return bag(TABLES[name].rows(rows))
