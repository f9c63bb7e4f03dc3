"""A plain judge of temporal joins: it goes through the history commit by commit, and joins a left row when it comes or changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from engine.session import Session

Row = tuple[Any, ...]
Tables = dict[str, dict[int, Row]]
"""By table and the number of the row its values; those of a bag have a number that nobody sees."""
AS_OF = "FOR SYSTEM_TIME AS OF PROCTIME()"
TABLES = {
    "s": "id INT PRIMARY KEY, k INT, x INT",
    "b": "id INT, k INT, x INT",
    "a": "id INT PRIMARY KEY, k INT, x INT",
    "v": "id INT PRIMARY KEY, k INT, x INT",
    "w": "id INT PRIMARY KEY, k INT, x INT",
}
APPEND_ONLY = ("a",)


@dataclass(frozen=True)
class View:
    """A view's query, the left rows of it by their key, what a row finds, and what is made of the joined rows in the end."""

    query: str
    left: Callable[[Tables], dict[Any, Row]]
    finds: Callable[[Row, Tables], list[Row]]
    made: Callable[[Iterable[Row]], Iterable[Row]] = list


def _of(table: str) -> Callable[[Tables], dict[Any, Row]]:
    return lambda tables: dict(tables[table])


def _equal(one: Any, other: Any) -> bool:
    return one is not None and one == other


def _above(one: Any, other: Any) -> bool:
    return one is not None and other is not None and one > other


def _inner(found: list[Row], otherwise: list[Row] | None = None) -> list[Row]:
    return found or otherwise or []


def _counted(rows: Iterable[Row]) -> dict[Any, Row]:
    return {k: (k, n) for k, n in Counter(k for _, k, _ in rows).items()}


def _grouped(rows: Iterable[Row]) -> Iterable[Row]:
    groups: dict[Any, list[int]] = {}
    for x, value in rows:
        groups.setdefault(x, []).append(value)
    for x, values in groups.items():
        yield (
            x,
            len(values),
            sum(v for v in values if v is not None) if any(v is not None for v in values) else None,
        )


VIEWS = {
    "matched": View(
        f"SELECT s.id, s.x, v.id AS vid, v.x AS vx FROM s JOIN v {AS_OF} ON s.k = v.k",
        _of("s"),
        lambda s, t: [(s[0], s[2], v[0], v[2]) for v in t["v"].values() if _equal(s[1], v[1])],
    ),
    "by_key": View(
        f"SELECT s.id, v.id AS vid, v.x FROM s LEFT JOIN v {AS_OF} ON s.k = v.id AND s.x > v.x",
        _of("s"),
        lambda s, t: _inner(
            [(s[0], v[0], v[2]) for v in t["v"].values() if _equal(s[1], v[0]) and _above(s[2], v[2])],
            [(s[0], None, None)],
        ),
    ),
    "crossed": View(
        f"SELECT s.id, v.id AS vid, v.k FROM s CROSS JOIN v {AS_OF}",
        lambda t: {n: row[:1] for n, row in t["s"].items()},
        lambda s, t: [(s[0], v[0], v[1]) for v in t["v"].values()],
    ),
    "above": View(
        f"SELECT b.id, b.x, v.id AS vid FROM b LEFT JOIN v {AS_OF} ON b.x > v.x",
        lambda t: {n: (row[0], row[2]) for n, row in t["b"].items()},
        lambda b, t: _inner([(*b, v[0]) for v in t["v"].values() if _above(b[1], v[2])], [(*b, None)]),
    ),
    "two": View(
        f"SELECT b.id, b.k, v.x AS vx, w.id AS wid FROM b LEFT JOIN v {AS_OF} ON b.k = v.id JOIN w {AS_OF} ON b.x = w.k",
        _of("b"),
        lambda b, t: [
            (b[0], b[1], v, w[0])
            for v in _inner([v[2] for v in t["v"].values() if _equal(b[1], v[0])], [None])
            for w in t["w"].values()
            if _equal(b[2], w[1])
        ],
    ),
    "grown": View(
        f"SELECT a.id, v.id AS vid, v.x FROM a LEFT JOIN v {AS_OF} ON a.k = v.k WHERE a.x < 5",
        lambda t: {n: row for n, row in t["a"].items() if _above(5, row[2])},
        lambda a, t: _inner(
            [(a[0], v[0], v[2]) for v in t["v"].values() if _equal(a[1], v[1])], [(a[0], None, None)]
        ),
    ),
    "grouped": View(
        f"SELECT v.x, count(*) AS n, sum(s.x) AS total FROM s JOIN v {AS_OF} ON s.k = v.k WHERE v.x > 0 GROUP BY v.x",
        lambda t: {n: row[1:] for n, row in t["s"].items()},
        lambda s, t: [(v[2], s[1]) for v in t["v"].values() if _equal(s[0], v[1]) and _above(v[2], 0)],
        _grouped,
    ),
    "of_groups": View(
        f"SELECT c.k, c.n, v.x FROM (SELECT k, count(*) AS n FROM s GROUP BY k) AS c LEFT JOIN v {AS_OF} ON c.k = v.id",
        lambda t: _counted(t["s"].values()),
        lambda c, t: _inner([(*c, v[2]) for v in t["v"].values() if _equal(c[0], v[0])], [(*c, None)]),
    ),
    "of_view": View(
        f"SELECT counts.k, counts.n, v.x FROM counts LEFT JOIN v {AS_OF} ON counts.k = v.id",
        lambda t: _counted(t["s"].values()),
        lambda c, t: _inner([(*c, v[2]) for v in t["v"].values() if _equal(c[0], v[0])], [(*c, None)]),
    ),
    "with_view": View(
        f"SELECT a.id, sizes.n FROM a LEFT JOIN sizes {AS_OF} ON a.k = sizes.k",
        _of("a"),
        lambda a, t: _inner(
            [(a[0], n) for k, n in _counted(t["v"].values()).values() if _equal(a[1], k)], [(a[0], None)]
        ),
    ),
    "with_itself": View(
        f"SELECT l.id, r.id AS rid FROM s AS l JOIN s {AS_OF} AS r ON l.k = r.x",
        lambda t: {n: row[:2] for n, row in t["s"].items()},
        lambda s, t: [(s[0], r[0]) for r in t["s"].values() if _equal(s[1], r[2])],
    ),
}
BELOW = {
    "counts": "SELECT k, count(*) AS n FROM s GROUP BY k",
    "sizes": "SELECT k, count(*) AS n FROM v GROUP BY k",
}


def create_tables(session: Session) -> None:
    """Create the tables, and the views that temporal joins read."""
    for name, columns in TABLES.items():
        promise = " APPEND ONLY" if name in APPEND_ONLY else ""
        session.sql(f"CREATE TABLE {name} ({columns}){promise}")
    for name, query in BELOW.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)


@dataclass
class Judge:
    """What the views have to be after the commits that it was told of; `joined` is by view what each left row has found."""

    names: tuple[str, ...]
    tables: Tables = field(default_factory=lambda: {name: {} for name in TABLES})
    joined: dict[str, dict[Any, tuple[Row, list[Row]]]] = field(default_factory=dict)

    def committed(self, table: str, rows: dict[int, Row]) -> None:
        """Take in that a commit has left these rows in a table."""
        self.tables = {**self.tables, table: rows}
        for name in self.names:
            view, before = VIEWS[name], self.joined.get(name, {})
            now = view.left(self.tables)
            self.joined[name] = {
                key: before[key]
                if key in before and before[key][0] == row
                else (row, view.finds(row, self.tables))
                for key, row in now.items()
            }

    def rows(self, name: str) -> list[Row]:
        """Return the rows of a view."""
        found = (row for _, rows in self.joined.get(name, {}).values() for row in rows)
        return sorted(VIEWS[name].made(found), key=repr)


def random_commit(chance: random.Random, judge: Judge) -> str:
    """Return a statement that changes one of the tables, which the judge is told of."""
    table = chance.choice(("s", "s", "b", "b", "a", "v", "v", "v", "w"))
    rows = dict(judge.tables[table])
    kinds = ["insert"] if table in APPEND_ONLY or not rows else ["insert", "update", "delete"]
    kind, k = chance.choice(kinds), chance.randrange(4)
    if kind == "delete":
        text = f"DELETE FROM {table} WHERE k = {k} OR x = {k}"
        rows = {n: row for n, row in rows.items() if k not in (row[1], row[2])}
    elif kind == "update":
        x = chance.choice(("NULL", *map(str, range(6))))
        text = f"UPDATE {table} SET x = {x} WHERE k = {k}"
        value = None if x == "NULL" else int(x)
        rows = {n: (row[0], row[1], value) if row[1] == k else row for n, row in rows.items()}
    else:
        first = max([0, *rows]) + 1 if table not in ("s", "v", "w") else 0
        new = {}
        for n in range(chance.randrange(1, 4)):
            number = first + n if first else chance.randrange(8)
            if number not in rows:
                identifier = number % 5 if table == "b" else number
                new[number] = (identifier, _value(chance, 4), _value(chance, 6))
        if not new:
            return random_commit(chance, judge)
        shown = ", ".join(
            f"({', '.join('NULL' if v is None else str(v) for v in row)})" for row in new.values()
        )
        text, rows = f"INSERT INTO {table} VALUES {shown}", rows | new
    judge.committed(table, rows)
    return text


def _value(chance: random.Random, below: int) -> int | None:
    return None if chance.random() < 0.15 else chance.randrange(below)
