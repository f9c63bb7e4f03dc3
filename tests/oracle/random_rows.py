"""Random tables for the oracle: schemas, first rows, and epochs of inserts, updates, deletes and nothing."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from engine.sql.types import to_arrow

KINDS = ("bigint", "int", "decimal(10,2)", "double", "varchar", "boolean", "date")
VALUES: Mapping[str, tuple[Any, ...]] = {
    "bigint": (0, 1, 2, 3, 4, 5, 7),
    "int": (0, 1, 2, 3, 4, -1),
    "decimal(10,2)": tuple(Decimal(text) for text in ("0.00", "0.50", "1.00", "1.25", "99.99", "-2.50")),
    "double": (0.0, 0.5, 1.0, 2.25, -4.5),  # sums of these are exact in any order
    "varchar": ("", "a", "ab", "b", "ä", "B"),
    "boolean": (True, False),
    "date": (date(1999, 12, 31), date(2000, 1, 1), date(2024, 2, 29)),
}
ARROW = {
    "bigint": "bigint",
    "int": "int",
    "decimal(10,2)": "decimal(10,2)",
    "double": "double",
    "varchar": "string",
    "boolean": "boolean",
    "date": "date",
}


@dataclass(frozen=True)
class RandomTable:
    """A table's name and its columns besides the key `id`."""

    name: str
    columns: tuple[tuple[str, str], ...]

    @property
    def all_columns(self) -> tuple[tuple[str, str], ...]:
        """Key and other columns."""
        return (("id", "bigint"), *self.columns)

    @property
    def ddl(self) -> str:
        """The CREATE TABLE statement."""
        listed = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        return f"CREATE TABLE {self.name} (id bigint PRIMARY KEY, {listed})"

    def arrow(self, rows: list[list[Any]]) -> pa.Table:
        """Return rows of all columns as Arrow."""
        columns = list(zip(*rows, strict=True)) if rows else [[] for _ in self.all_columns]
        kinds = [(name, to_arrow(ARROW[kind])) for name, kind in self.all_columns]
        arrays = [pa.array(list(values), kind) for values, (_, kind) in zip(columns, kinds, strict=True)]
        return pa.Table.from_arrays(arrays, schema=pa.schema(kinds))


@dataclass
class Write:
    """One write to one table: rows to put, or keys to delete."""

    table: str
    rows: list[list[Any]] = field(default_factory=list)
    deletes: list[int] = field(default_factory=list)


Epoch = list[Write]


def random_row(chance: random.Random, table: RandomTable, key: int) -> list[Any]:
    """Return a row; one value in five is null, the others come from few, so that there are duplicates."""
    return [key] + [
        None if chance.random() < 0.2 else chance.choice(VALUES[kind]) for _, kind in table.columns
    ]


def random_epochs(chance: random.Random, tables: list[RandomTable], count: int) -> list[Epoch]:
    """Return `count` epochs; some write a table twice, some repeat what is there, some do nothing."""
    epochs: list[Epoch] = []
    here: dict[str, dict[int, list[Any]]] = {table.name: {} for table in tables}
    for number in range(count):
        epoch: Epoch = []
        for table in tables:
            rows = here[table.name]
            for _ in range(chance.choice((0, 1, 1, 2)) if number else 1):
                if rows and chance.random() < 0.4:
                    keys = chance.sample(sorted(rows), min(len(rows), chance.randrange(1, 6)))
                    if chance.random() < 0.1:
                        keys = sorted(rows)  # everything goes
                    epoch.append(Write(table.name, deletes=[*keys, 1_000]))  # and a key that is not there
                    for key in keys:
                        del rows[key]
                elif rows and chance.random() < 0.15:
                    epoch.append(
                        Write(table.name, rows=[list(row) for row in rows.values()])
                    )  # the same again
                else:
                    keys = chance.sample(range(24), chance.randrange(1, 14))
                    fresh = [random_row(chance, table, key) for key in keys]
                    epoch.append(Write(table.name, rows=fresh))
                    rows.update({row[0]: row for row in fresh})
        epochs.append(epoch)
    return epochs
