"""Random tables for the oracle: names, keys of one or several columns, columns of all kinds, and rows with nulls in everything."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.oracle.kinds import CUTS, KEYS, KINDS, Far
from tests.oracle.words import Engine, spelled

TABLE_NAMES = ("order", "Orders", "orders", "Select", "user", "T0", "t1", "Group", "value", "from")
COLUMN_NAMES = (
    "group",
    "Order",
    "Id",
    "select",
    "key",
    "op",
    "hash",
    "epoch",
    "count",
    "Sum",
    "old",
    "tenant",
    "user",
    "c0",
    "Year",
)
Row = tuple[Any, ...]


@dataclass(frozen=True)
class RandomTable:
    """Table `number` of a world: its name, its columns (name, kind), and which of them are its key; none: a bag of rows.

    Those from `shown` on are hidden from queries, so they may be renamed and dropped.
    """

    number: int
    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[int, ...]
    shown: int

    @property
    def mark(self) -> str:
        """The mark of the table in texts."""
        return f"⟪T{self.number}⟫"

    @property
    def judged(self) -> str:
        """The name that judges know it by."""
        return f"t{self.number}"

    def column(self, at: int) -> str:
        """Return the mark of a column."""
        return f"⟪T{self.number}.{at}⟫"

    @property
    def marked(self) -> tuple[tuple[str, str], ...]:
        """The marks and kinds of the columns that queries see."""
        return tuple((self.column(at), kind) for at, (_, kind) in enumerate(self.columns[: self.shown]))

    @property
    def names(self) -> Mapping[str, str]:
        """The session's names by mark."""
        own = {f"T{self.number}": self.name}
        return own | {f"T{self.number}.{at}": name for at, (name, _) in enumerate(self.columns)}

    def ddl(self, engine: Engine) -> str:
        """Return the CREATE TABLE statement in the words of a session's dialect."""
        word = {"spark": 0, "postgres": 1, "risingwave": 2}[engine]
        listed = [f"{self.column(at)} {KINDS[kind].words[word]}" for at, (_, kind) in enumerate(self.columns)]
        if len(self.key) == 1:
            listed[self.key[0]] += " PRIMARY KEY"
        elif self.key:
            listed.append(f"PRIMARY KEY ({', '.join(self.column(at) for at in self.key)})")
        text = f"CREATE TABLE {self.mark} ({', '.join(listed)})" + ("" if self.key else " APPEND ONLY")
        return spelled(text, engine, self.names)

    def arrow(
        self, rows: Iterable[Row], judged: bool = False, only: tuple[int, ...] | None = None
    ) -> pa.Table:
        """Return rows as Arrow, under the session's names or the judges'; `only` these columns, of which the rows are then made."""
        at = range(len(self.columns)) if only is None else only
        listed = list(rows)
        schema = pa.schema(
            [(f"c{n}" if judged else self.columns[n][0], KINDS[self.columns[n][1]].arrow) for n in at]
        )
        columns = [
            [v.number if isinstance(v := row[k], Far) else v for row in listed] for k in range(len(schema))
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def key_of(self, row: Row) -> Row:
        """Return the key of a row, in a form in which equal keys are equal."""
        return tuple(same(row[at]) for at in self.key)


def same(value: Any) -> Any:
    """Return a value in a form in which NaN equals NaN, and -0.0 equals 0.0."""
    return "NaN" if value != value else value + 0.0 if isinstance(value, float) else value


def random_table(chance: random.Random, number: int, dialect: Engine) -> RandomTable:
    """Return a table; table 0 has a column `raw` of numbers as text, and one by whose values views can be cut."""
    word = {"spark": 0, "postgres": 1, "risingwave": 2}[dialect]
    rare = {"time"} if chance.random() < 0.95 else set()
    known = [name for name, kind in KINDS.items() if kind.words[word] is not None and name not in rare]
    key_kinds = [
        chance.choice([kind for kind in KEYS if kind not in rare])
        for _ in range(chance.choice((1, 1, 1, 2, 3)))
    ]
    if all(len(KINDS[kind].values) < 4 for kind in key_kinds):
        key_kinds.append("bigint")
    bag = number > 0 and chance.random() < 0.15
    kinds = [*key_kinds, *(chance.choice(known) for _ in range(chance.randrange(2, 6)))]
    kinds += [chance.choice(CUTS), "raw"] if number == 0 else [chance.choice(KEYS[:4])]
    odd = chance.sample(COLUMN_NAMES, len(COLUMN_NAMES))
    columns = tuple(
        (odd[at % len(odd)] if at < len(odd) and chance.random() < 0.3 else f"c_{at}", kind)
        for at, kind in enumerate(kinds)
    )
    columns = (*columns, ("spare_0", chance.choice(("int", "varchar", "decimal(38,18)"))))
    name = chance.choice(TABLE_NAMES) if chance.random() < 0.5 else f"t_{number}"
    if dialect == "spark":  # which knows no case, not even of quoted names
        name, columns = name.lower(), tuple((column.lower(), kind) for column, kind in columns)
    return RandomTable(number, name, columns, () if bag else tuple(range(len(key_kinds))), len(columns) - 1)


def random_row(chance: random.Random, table: RandomTable) -> Row:
    """Return a row; one value in five is null, the others come from few, so that there are duplicates."""
    return tuple(
        chance.choice(KINDS[kind].values) if at in table.key or chance.random() > 0.2 else None
        for at, (_, kind) in enumerate(table.columns)
    )


def random_rows(chance: random.Random, table: RandomTable, count: int) -> list[Row]:
    """Return at most `count` rows of different keys."""
    rows = [random_row(chance, table) for _ in range(count)]
    if not table.key:
        return rows
    return list({table.key_of(row): row for row in rows}.values())


def large_rows(chance: random.Random, table: RandomTable, count: int) -> list[Row]:
    """Return `count` rows whose first key column is a number of their own; the others are drawn column by column."""
    columns = []
    for at, (_, kind) in enumerate(table.columns):
        if at == 0:
            columns.append(range(1000, 1000 + count))
        else:
            columns.append(
                chance.choices((*KINDS[kind].values, *([] if at in table.key else [None])), k=count)
            )
    return list(zip(*columns, strict=True))
