"""Tables whose rows change at random, each in the ways that its own rows suggest: keys stay unique, and references hit."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from typing import Any

import pyarrow as pa
from sqlglot import exp

TYPES = {
    "int64": "BIGINT",
    "int32": "INT",
    "double": "DOUBLE",
    "string": "STRING",
    "bool": "BOOLEAN",
    "date32[day]": "DATE",
}


@dataclass
class SourceTable:
    """A table that models read: where dbt finds it, what it is called in Tideline, and its rows, which change."""

    place: tuple[str, str]
    name: str
    schema: pa.Schema
    rows: list[dict[str, Any]]
    key: tuple[str, ...] = ()
    parents: dict[str, tuple[SourceTable, str]] = field(default_factory=dict)
    """The table and its key whose values a column has."""

    def find_key(self) -> None:
        """Find the fewest of the first columns that tell all rows apart; none leaves the table a bag that only grows."""
        names = [name for name in self.schema.names if all(row[name] is not None for row in self.rows)]
        for width in (1, 2, 3):
            for some in combinations(names[:6], width):
                if len({tuple(row[name] for name in some) for row in self.rows}) == len(self.rows):
                    self.key = some
                    return

    def find_parents(self, others: Sequence[SourceTable]) -> None:
        """Find the tables whose keys have all values of a column."""
        for name in self.schema.names:
            own = {row[name] for row in self.rows} - {None}
            for other in others:
                if other is self or len(other.key) != 1 or len(own) < 2:
                    continue
                if own <= {row[other.key[0]] for row in other.rows}:
                    self.parents.setdefault(name, (other, other.key[0]))

    def change(self, draw: random.Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Insert, update and delete rows; returns the rows that are new or other, and those that are gone."""
        count = max(3, len(self.rows) // 100)
        before = {self.take_key(row): row for row in self.rows} if self.key else {}
        draw.shuffle(self.rows)
        gone = [self.rows.pop() for _ in range(min(count, len(self.rows) - 1))] if self.key else []
        upserts = []
        for row in self.rows[: count if self.key else 0]:
            for name in draw.sample(self.schema.names, min(2, len(self.schema.names))):
                row[name] = row[name] if name in self.key else self._draw_value(name, draw)
            upserts.append(row)
        for _ in range(count):
            row = dict(draw.choice(self.rows))
            row |= {name: self._draw_value(name, draw) for name in self.schema.names if draw.random() < 0.5}
            if self.key:
                self._give_key(row, before, draw)
                before[self.take_key(row)] = row
            self.rows.append(row)
            upserts.append(row)
        return upserts, gone

    def take_key(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the values of the key."""
        return tuple(row[name] for name in self.key)

    def _draw_value(self, name: str, draw: random.Random) -> Any:
        if draw.random() < 0.03 and name not in self.key:
            return None
        if name in self.parents and draw.random() < 0.9:
            parent, key = self.parents[name]
            return draw.choice(parent.rows)[key]
        value = draw.choice(self.rows)[name]
        if draw.random() < 0.5 or name in self.key:
            return value
        match value:
            case bool() | str():
                return value
            case int() | Decimal():
                return value + draw.randrange(1, 20)
            case float():
                return round(value * draw.uniform(0.5, 1.5), 2)
            case datetime.date():  # datetimes, too
                return value + datetime.timedelta(days=draw.randrange(-20, 20))
            case _:
                return value

    def _give_key(
        self, row: dict[str, Any], taken: Mapping[tuple[Any, ...], Any], draw: random.Random
    ) -> None:
        for _ in range(20):
            if self.take_key(row) not in taken:
                return
            row |= {name: self._draw_value(name, draw) for name in self.key}
        last = self.key[-1]
        match row[last]:
            case str():
                row[last] = f"{row[last]}-{len(taken)}-{draw.randrange(10**6)}"
            case int() | float() | Decimal():
                row[last] = type(row[last])(max(one[last] for one in self.rows) + 1 + draw.randrange(10**6))
            case value:
                row[last] = value + datetime.timedelta(days=draw.randrange(10**4, 10**5))

    def render_ddl(self) -> str:
        """Return the statement that creates the table in Tideline."""
        columns = [f"`{one.name}` {name_type(one.type)}" for one in self.schema]
        if self.key:
            columns.append(f"PRIMARY KEY ({', '.join(f'`{name}`' for name in self.key)})")
        return f"CREATE TABLE `{self.name}` ({', '.join(columns)})"

    def as_arrow(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Return rows with the types of the table."""
        return pa.Table.from_pylist([dict(row) for row in rows], self.schema)


def name_type(kind: pa.DataType) -> str:
    """Return Spark's word for a type that DuckDB reads from a CSV file."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    return TYPES[str(kind)]


def build_table(place: tuple[str, str], name: str, rows: pa.Table) -> SourceTable:
    """Return a table whose columns have names and types that Tideline has, too."""
    kinds = [
        pa.string() if pa.types.is_time(one.type) or pa.types.is_null(one.type) else one.type
        for one in rows.schema
    ]
    schema = pa.schema(list(zip((one.lower() for one in rows.column_names), kinds, strict=True)))
    table = SourceTable(place, name, schema, rows.rename_columns(schema.names).cast(schema).to_pylist())
    table.find_key()
    return table


def make_rows(
    text: exp.Expression, known: Mapping[str, SourceTable], count: int, draw: random.Random
) -> pa.Table:
    """Return random rows of a CREATE TABLE."""
    columns = {}
    for column in text.find_all(exp.ColumnDef):
        other, kind = column.find(exp.Reference), column.args["kind"]
        if other is not None:
            parent, key = other.find(exp.Table).name, other.this.expressions[0].name  # type: ignore[union-attr]
            values = [draw.choice(known[parent].rows)[key] for _ in range(count)]
        elif column.find(exp.PrimaryKeyColumnConstraint) is not None:
            values = [str(n) if kind.is_type("text") else n for n in range(count)]
        else:
            values = [make_value(kind, draw) for _ in range(count)]
        columns[column.name] = values
    return pa.table(columns)


def make_value(kind: exp.DataType, draw: random.Random) -> Any:
    """Return a random value of a type."""
    if kind.is_type("timestamp", "timestampntz", "datetime"):
        return datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=draw.randrange(500_000))
    if kind.is_type("date"):
        return datetime.date(2024, 1, 1) + datetime.timedelta(days=draw.randrange(400))
    if kind.is_type("boolean"):
        return draw.random() < 0.5
    if kind.is_type(*exp.DataType.INTEGER_TYPES):
        return draw.randrange(1, 5_000)
    return (
        round(draw.uniform(0, 1_000), 2)
        if kind.is_type(*exp.DataType.REAL_TYPES)
        else draw.choice("abcdefgh")
    )
