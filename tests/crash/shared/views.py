"""The tables and views of a program: templates of queries, some of which a bad row of a table makes fail."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

KEYS = 40
"""So many rows a table may have."""


@dataclass(frozen=True)
class Kind:
    """A kind of column; `expression` fails on the value `bad`, with an error that has one of the `words` in it."""

    type: str
    arrow: pa.DataType
    good: Sequence[Any]
    bad: Any = None
    is_bad: str = "false"
    spark: str = "{c}"
    duck: str = "{c}"
    words: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    "x": Kind("BIGINT", pa.int64(), range(50)),
    "m": Kind("DECIMAL(12, 2)", pa.decimal128(12, 2), [Decimal(n) / 4 for n in range(-40, 40)]),
    "t": Kind(
        "STRING",
        pa.string(),
        [str(n) for n in range(30)],
        "x",
        "{c} = 'x'",
        "CAST({c} AS BIGINT)",
        "CAST({c} AS BIGINT)",
        ("CAST_INVALID_INPUT",),
    ),
    "z": Kind(
        "BIGINT",
        pa.int64(),
        (1, 2, 4, 5, 10, 20, 25, 50),
        0,
        "{c} = 0",
        "100 / {c}",
        "100 / {c}",
        ("DIVIDE_BY_ZERO",),
    ),
    "o": Kind(
        "BIGINT",
        pa.int64(),
        range(99),
        100_000,
        "{c} = 100000",
        "{c} * 100000000000000",
        "{c} * 100000000000000",
        ("ARITHMETIC_OVERFLOW",),
    ),
    "i": Kind(
        "BIGINT",
        pa.int64(),
        (0, 1, 2),
        7,
        "{c} = 7",
        "array(10, 20, 30)[{c}]",
        "[10, 20, 30][{c} + 1]",
        ("INVALID_ARRAY_INDEX",),
    ),
}
FAILING = ("t", "z", "o", "i")


@dataclass(frozen=True)
class Source:
    """What a template reads: a table, or a view with the same columns as one."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """A view, its query for either engine, what it reads, and a query that counts the rows on which column `fails` makes it fail."""

    name: str
    spark: str
    duck: str
    reads: tuple[str, ...]
    fails: str | None = None
    suspects: str = ""
    copies: Source | None = None
    key: str | None = None
    domain: str | None = None

    @property
    def ddl(self) -> str:
        """The statement that creates it."""
        given = f" WITH (domain = '{self.domain}')" if self.domain else ""
        return f"CREATE MATERIALIZED VIEW {self.name}{given} AS {self.spark}"


@dataclass(frozen=True)
class Template:
    """A query over source `s` and table `o`, in which `e` fails on the bad rows `where`; views on top may group it by `key`."""

    text: str
    key: str | None = None
    where: str = "true"


WITH_BAD_ROWS = (
    Template("SELECT id, g, {e} AS e FROM {s}", "g"),
    Template("SELECT id, {e} AS e FROM {s} WHERE {s}.g < 4", "id", "{s}.g < 4"),
    Template("SELECT g, count(*) AS n, sum({e}) AS v FROM {s} GROUP BY g", "n"),
    Template("SELECT count(*) AS n, sum({e}) AS v FROM {s}"),
    Template("SELECT g, min({e}) AS lo, max({e}) AS hi FROM {s} GROUP BY g", "g"),
    Template("SELECT DISTINCT g, {e} AS e FROM {s}", "g"),
    Template("SELECT {s}.id, {e} AS e, {o}.g AS h FROM {s} LEFT JOIN {o} ON {s}.g = {o}.id", "h"),
    Template("SELECT id, {e} AS e FROM {s} ORDER BY {e} DESC NULLS LAST, id LIMIT 4", "id"),
    Template("SELECT e, count(*) AS n FROM (SELECT id, {e} AS e FROM {s}) q GROUP BY e", "n"),
)
PLAIN = (
    Template("SELECT id, g FROM {s} WHERE id % 3 <> 0", "g"),
    Template("SELECT g, count(*) AS n, max(id) AS m FROM {s} GROUP BY g", "n"),
    Template("SELECT {s}.id, {o}.g AS h FROM {s} JOIN {o} ON {s}.g = {o}.id", "h"),
    Template(
        "SELECT {o}.g, count(*) AS n, sum({s}.id) AS v FROM {s} JOIN {o} ON {s}.g = {o}.id GROUP BY {o}.g",
        "n",
    ),
    Template("SELECT DISTINCT g FROM {s}", "g"),
    Template("SELECT g, min({c}) AS lo, max({c}) AS hi, count({c}) AS n FROM {s} GROUP BY g", "n"),
    Template("SELECT id, {c} AS c FROM {s} ORDER BY {c} DESC NULLS LAST, id LIMIT 5", "id"),
    Template("SELECT id, g FROM {s} ORDER BY g NULLS FIRST, id LIMIT 3 OFFSET 1", "g"),
    Template(
        "SELECT id, g, p FROM (SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY id DESC) AS p FROM {s}) q WHERE p <= 2",
        "p",
    ),
    Template("SELECT n, count(*) AS c FROM (SELECT g, count(*) AS n FROM {s} GROUP BY g) q GROUP BY n", "c"),
    Template("SELECT id, g AS k FROM {s} UNION ALL SELECT id, id AS k FROM {o}", "k"),
)
ON_TOP = (
    Template("SELECT {v}.{k} AS k, count(*) AS n FROM {v} GROUP BY {v}.{k}", "n"),
    Template("SELECT count(*) AS n FROM {v}"),
    Template("SELECT DISTINCT {v}.{k} AS k FROM {v}", "k"),
    Template("SELECT {o}.id, {v}.{k} AS k FROM {o} JOIN {v} ON {o}.id = {v}.{k}", "k"),
    Template("SELECT max({v}.{k}) AS hi, min({v}.{k}) AS lo FROM {v}"),
)


@dataclass
class Drawer:
    """Draws the tables and the views of a program."""

    random: random.Random
    tables: list[Source] = field(default_factory=list)
    views: list[View] = field(default_factory=list)

    def draw_tables(self) -> None:
        """Draw two or three tables; some column of the first can make views fail."""
        for number in range(self.random.choice((2, 2, 3))):
            others = self.random.sample(sorted(KINDS), self.random.choice((1, 2, 3, 4)))
            if number == 0 and not set(others) & set(FAILING):
                others.append(self.random.choice(FAILING))
            self.tables.append(Source("abc"[number], ("id", "g", *others)))

    def draw_views(self) -> None:
        """Draw five to nine views, some of which others read."""
        for number in range(self.random.randint(5, 9)):
            self.views.append(self._draw_view(f"v{number + 1}"))

    def _draw_view(self, name: str) -> View:
        copies = [view.copies for view in self.views if view.copies is not None]
        source, other = (
            self.random.choice([*self.tables, *self.tables, *copies]),
            self.random.choice(self.tables),
        )
        while other.name == source.name:
            other = self.random.choice(self.tables)
        domain = self.random.choice((None, None, None, "red", "blue"))
        ways = [self._draw_plain, self._draw_failing, self._draw_failing, self._draw_copy, self._draw_on_top]
        view = self.random.choice(ways)(name, source, other)
        return View(**{**vars(view), "domain": domain})

    def _draw_plain(self, name: str, source: Source, other: Source) -> View:
        template = self.random.choice(PLAIN)
        column = f"{source.name}.{self.random.choice(source.columns[2:])}"
        text = template.text.format(s=source.name, o=other.name, c=column)
        reads = (source.name, *([other.name] if "{o}" in template.text else []))
        return View(name, text, text, reads, key=template.key)

    def _draw_failing(self, name: str, source: Source, other: Source) -> View:
        able = [column for column in source.columns if column in FAILING]
        if not able:
            return self._draw_plain(name, source, other)
        template, column = self.random.choice(WITH_BAD_ROWS), self.random.choice(able)
        kind, place = KINDS[column], f"{source.name}.{column}"
        spark, duck = (
            template.text.format(s=source.name, o=other.name, e=expression.format(c=place))
            for expression in (kind.spark, kind.duck)
        )
        where = f"{template.where.format(s=source.name)} AND {kind.is_bad.format(c=place)}"
        suspects = f"SELECT count(*) FROM {source.name} WHERE {where}"
        reads = (source.name, *([other.name] if "{o}" in template.text else []))
        return View(name, spark, duck, reads, column, suspects, key=template.key)

    def _draw_copy(self, name: str, source: Source, other: Source) -> View:
        text = f"SELECT {', '.join(source.columns)} FROM {source.name} WHERE id % 5 <> 0"
        return View(name, text, text, (source.name,), copies=Source(name, source.columns), key="g")

    def _draw_on_top(self, name: str, source: Source, other: Source) -> View:
        below = [view for view in self.views if view.key is not None]
        if not below:
            return self._draw_plain(name, source, other)
        view, template = self.random.choice(below), self.random.choice(ON_TOP)
        text = template.text.format(v=view.name, k=view.key, o=other.name)
        reads = (view.name, *([other.name] if "{o}" in template.text else []))
        return View(name, text, text, reads, key=template.key)


def draw_row(chance: random.Random, table: Source, number: int) -> dict[str, Any]:
    """Return a good row of a table; now and then a value of it is null."""
    row: dict[str, Any] = {"id": number, "g": chance.choice((None, *range(6), *range(6)))}
    for column in table.columns[2:]:
        kind = KINDS[column]
        row[column] = None if chance.random() < 0.1 else chance.choice(kind.good)
    return row


def build_schema(table: Source) -> pa.Schema:
    """Return the columns of a table."""
    keys = [("id", pa.int64()), ("g", pa.int64())]
    return pa.schema([*keys, *((column, KINDS[column].arrow) for column in table.columns[2:])])


def build_table_ddl(table: Source) -> str:
    """Return the statement that creates a table."""
    others = "".join(f", {column} {KINDS[column].type}" for column in table.columns[2:])
    return f"CREATE TABLE {table.name} (id BIGINT PRIMARY KEY, g BIGINT{others})"
