"""Views over each other that get other columns together: the old ones answer until all are built, and what reads them follows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.changes import alter_view, commit_together, find_column_obstacles
from engine.errors import EpochFailed, SqlError
from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog.successions import list_successions
from engine.session import Session
from tests.runtime.statements.succession.test_new_columns import show
from tests.runtime.statements.succession.test_random_changes import change
from tests.runtime.statements.succession.test_take_over import Killed, check_nothing_is_left

MV = "CREATE MATERIALIZED VIEW "
Queries = dict[str, str]
"""The queries of views by name, inputs first; each reads others by name."""
FIRST: Queries = {
    "a": "SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g",
    "b": "SELECT g, total + c AS both, total FROM a WHERE g IS NOT NULL",
    "d": "SELECT both, count(*) AS k, max(total) AS total FROM b GROUP BY both",
}
CHANGES: dict[str, Queries] = {
    "added": {
        "a": "SELECT g, sum(n) AS total, count(*) AS c, max(n) AS top FROM t GROUP BY g",
        "b": "SELECT g, total + c AS both, total, top FROM a WHERE g IS NOT NULL",
        "d": "SELECT both, count(*) AS k, max(total) AS total, max(top) AS top FROM b GROUP BY both",
    },
    "gone": {
        "a": "SELECT g, count(*) AS c FROM t GROUP BY g",
        "b": "SELECT g, c + 1 AS both FROM a WHERE g IS NOT NULL",
        "d": "SELECT both, count(*) AS k FROM b GROUP BY both",
    },
    "other name": {
        "a": "SELECT g, sum(n) AS summed, count(*) AS c FROM t GROUP BY g",
        "b": "SELECT g, summed + c AS both, summed FROM a WHERE g IS NOT NULL",
        "d": "SELECT both, count(*) AS k, max(summed) AS summed FROM b GROUP BY both",
    },
    "other type": {
        "a": "SELECT g, CAST(sum(n) AS DECIMAL(30, 2)) AS total, count(*) AS c FROM t GROUP BY g",
        "b": "SELECT g, CAST(total + c AS BIGINT) AS both, total FROM a WHERE g IS NOT NULL",
        "d": "SELECT both, count(*) AS k, max(total) AS total FROM b GROUP BY both",
    },
    "joined": {
        "a": "SELECT g, sum(n * f) AS total, count(*) AS c, avg(f) AS mean FROM t JOIN u USING (g) GROUP BY g",
        "b": "SELECT g, total + c AS both, total, mean FROM a JOIN (SELECT g AS h, f FROM u) ON g = h",
        "d": "SELECT both, count(*) AS k, max(mean) AS total FROM b GROUP BY both",
    },
    "looked up": {
        "a": "SELECT g, sum(n) AS total, count(*) AS c, min(n) AS least FROM t GROUP BY g",
        "b": "SELECT g, x.total + y.c AS both, x.total FROM a AS x JOIN (SELECT least, max(c) AS c FROM a GROUP BY least) AS y "
        "ON x.least = y.least WHERE g IS NOT NULL",
        "d": "SELECT both, count(*) AS k, max(total) AS total FROM (SELECT b.both, b.total FROM b JOIN t ON t.id = b.both) GROUP BY both",
    },
}


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark) as session:
        fill(session)
        yield session


def fill(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
    session.sql("CREATE TABLE u (g BIGINT PRIMARY KEY, f BIGINT)")
    session.write("u", pa.table({"g": [0, 1, 2], "f": [1, 10, 100]}))
    session.write("t", pa.table({"id": range(40), "g": [i % 4 for i in range(40)], "n": range(40)}))
    for name, query in FIRST.items():
        session.sql(f"{MV}{name} AS {query}")
    session.flush().raise_for_errors()


def alter(session: Session, queries: Queries) -> None:
    """Give views other queries in one commit, as a changed project does."""
    with commit_together(session):
        for name, query in queries.items():
            assert alter_view(session, f"{MV}{name} AS {query}", following=queries.keys()).work == "difference", name
        assert not find_column_obstacles(session.store.version)


def show_batch(session: Session, queries: Queries, name: str) -> tuple[list[str], list[str]]:
    """Return what Spark makes of the tables by the queries up to one, names and types of its columns too."""
    parts = []
    for one, query in queries.items():
        parts.append(f"{one} AS ({query})")
        if one == name:
            break
    return show(session, f"WITH {', '.join(parts)} SELECT * FROM {name}")


def show_views(session: Session) -> dict[str, tuple[list[str], list[str]]]:
    return {name: show(session, f"SELECT * FROM {name}") for name in FIRST}


def compute_views(session: Session, queries: Queries) -> dict[str, tuple[list[str], list[str]]]:
    return {name: show_batch(session, queries, name) for name in queries}


@dataclass
class Watch:
    """A second process that reads all views after each commit: each is the old one, or the new one."""

    other: Session
    before: dict[str, tuple[list[str], list[str]]]
    after: dict[str, tuple[list[str], list[str]]]
    commits: int = 0
    swapped: dict[str, int] = field(default_factory=dict)

    def look(self) -> None:
        self.commits += 1
        for name, seen in show_views(self.other).items():
            assert seen in (self.before[name], self.after[name]), (self.commits, name, seen)
            if seen == self.after[name] != self.before[name]:
                self.swapped.setdefault(name, self.commits)
            else:
                assert name not in self.swapped, (self.commits, name)


@pytest.mark.parametrize(
    "kind", ["added", *(pytest.param(kind, marks=pytest.mark.long) for kind in CHANGES if kind != "added")]
)
def test_who_reads_meanwhile_sees_each_view_as_it_was_or_is_to_be(
    shop: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    before = compute_views(shop, FIRST)
    assert show_views(shop) == before
    ids = {name: shop.store.version.tables[name].table_id for name in FIRST}
    commit = Hummock.commit
    with Session(shop.url, spark) as other:
        watch = Watch(other, before, compute_views(shop, CHANGES[kind]))

        def look(store: Hummock, made: Commit) -> Version:
            version = commit(store, made)
            with monkeypatch.context() as inner:
                inner.setattr(Hummock, "commit", commit)
                watch.look()
            return version

        with monkeypatch.context() as patch:
            patch.setattr(Hummock, "commit", look)
            alter(shop, CHANGES[kind])
            for _ in range(3):
                shop.flush().raise_for_errors()
    check_nothing_is_left(shop)
    assert show_views(shop) == watch.after
    assert {name: shop.store.version.tables[name].table_id for name in FIRST} == ids
    labels = {name: shop.catalog.get(name).query_since for name in FIRST}
    change(shop, random.Random(1))
    shop.flush().raise_for_errors()
    assert show_views(shop) == compute_views(shop, CHANGES[kind]), labels
