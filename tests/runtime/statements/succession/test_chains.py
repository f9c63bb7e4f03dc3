"""Views over each other that get other columns together: the old ones answer until all are built, and what reads them follows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from engine.changes import alter_view, commit_together, find_column_obstacles
from engine.errors import SqlError
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
            assert (
                alter_view(session, f"{MV}{name} AS {query}", following=queries.keys()).work == "difference"
            ), name
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


@pytest.mark.long
@pytest.mark.parametrize("kind", CHANGES)
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


READER = "SELECT k, count(*) AS n FROM d GROUP BY k"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 8))
def test_chains_with_readers_follow_one_change_after_the_other(shop: Session, seed: int) -> None:
    """Views are changed together, or one after the other; rows change between all steps."""
    rng, now = random.Random(seed), dict(FIRST)
    shop.sql(f"{MV}w AS {READER}")
    shop.sql("CREATE TABLE target (both BIGINT PRIMARY KEY, k BIGINT)")
    shop.sql("CREATE SINK s INTO target AS SELECT both, k FROM d WHERE both IS NOT NULL")
    for _ in range(2 if seed == 1 else 10):
        change(shop, rng)
        following = rng.choice([FIRST, *CHANGES.values()])
        if following == now:
            continue
        try:
            if rng.random() < 0.3:  # each by a statement of its own, inputs first
                for name, query in following.items():
                    shop.sql(f"ALTER MATERIALIZED VIEW {name} AS {query}", build=False)
            else:
                alter_those(shop, {name: query for name, query in following.items() if query != now[name]})
        except SqlError as refused:
            assert "would read its column" in str(refused), following
            for name in list_successions(shop.store.refresh()):
                if name in list_successions(shop.store.refresh()):
                    shop.sql(f"ALTER MATERIALIZED VIEW {name} DISCARD")
        else:
            now = following
        for _ in range(2):
            if rng.random() < 0.5:
                change(shop, rng)
            flush_all(shop)
            assert show_views(shop) == compute_views(shop, now)
            d, made = f"({now['d']})", ", ".join(f"{name} AS ({now[name]})" for name in ("a", "b"))
            assert show(shop, "SELECT * FROM w") == show(
                shop, f"WITH {made} {READER.replace('FROM d', f'FROM {d} AS d')}"
            )
            rows = f"WITH {made} SELECT both, k FROM {d} AS d WHERE both IS NOT NULL"
            assert show(shop, "SELECT * FROM target")[1] == show(shop, rows)[1]
        shop.flush().raise_for_errors()
        check_nothing_is_left(shop)


def flush_all(session: Session) -> None:
    """Flush until nothing is built any more: a run gives builds beside views some seconds."""
    for _ in range(20):
        session.flush().raise_for_errors()
        if all(one.copied for one in list_successions(session.store.refresh()).values()):
            break
    session.flush().raise_for_errors()


def alter_those(session: Session, queries: Queries) -> None:
    """Give views other queries in one commit, and have those follow that are not among them, but read these."""
    with commit_together(session):
        for name, query in queries.items():
            alter_view(session, f"{MV}{name} AS {query}", following=queries.keys())
        for view, reasons in find_column_obstacles(session.store.version).items():
            raise SqlError(f"{view}: {reasons[0]}")


@pytest.mark.long
def test_sinks_get_the_difference_of_the_last_view_alone(shop: Session, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shop.sql(f"CREATE SINK s FROM d WITH (connector = 'file', path = '{out}')")
    shop.flush()
    files = set(out.rglob("*.parquet"))
    wider = {
        **CHANGES["added"],
        "d": CHANGES["added"]["d"].replace("count(*)", "count(*) + CAST(both > 200 AS INT)"),
    }
    old = {row["both"]: row for row in shop.sql("SELECT both, k, total FROM d").to_pylist()}  # type: ignore[union-attr]
    alter(shop, wider)
    for _ in range(3):
        shop.flush().raise_for_errors()
    new = {row["both"]: row for row in shop.sql("SELECT both, k, total FROM d").to_pylist()}  # type: ignore[union-attr]
    rows = pa.concat_tables(pq.read_table(path) for path in set(out.rglob("*.parquet")) - files).to_pylist()
    assert {row["both"] for row in rows} == {
        one for one in old.keys() | new.keys() if old.get(one) != new.get(one)
    }
    assert len({row["_epoch"] for row in rows}) == 1 and len(rows) == len({row["both"] for row in rows})
    assert 0 < len(rows) < len(new)


@pytest.mark.long
def test_statements_one_after_the_other_are_planned_over_next_queries(shop: Session) -> None:
    """A column may be read as soon as the statement that adds it has been said; one that goes, as long as somebody reads it, stays."""
    for name, query in CHANGES["added"].items():
        shop.sql(f"ALTER MATERIALIZED VIEW {name} AS {query}", build=False)
    assert show_views(shop) == compute_views(shop, FIRST)
    with pytest.raises(SqlError, match="the next query of b, d is computed from that of a"):
        shop.sql(f"ALTER MATERIALIZED VIEW a AS {CHANGES['joined']['a']}")
    with pytest.raises(SqlError, match="_next_b"):
        shop.sql("DROP MATERIALIZED VIEW a")
    while list_successions(shop.store.refresh()):
        shop.flush().raise_for_errors()
    assert show_views(shop) == compute_views(shop, CHANGES["added"])
    with pytest.raises(SqlError, match="b would read its column top no more"):
        shop.sql(f"ALTER MATERIALIZED VIEW a AS {FIRST['a']}")
    for name in ("d", "b", "a"):
        shop.sql(f"ALTER MATERIALIZED VIEW {name} AS {FIRST[name]}", build=False)
    with pytest.raises(SqlError, match="there is no column top"):
        shop.sql(f"ALTER MATERIALIZED VIEW b AS {CHANGES['added']['b']}")
    while list_successions(shop.store.refresh()):
        shop.flush().raise_for_errors()
    assert show_views(shop) == compute_views(shop, FIRST)
    check_nothing_is_left(shop)


@pytest.mark.long
def test_what_is_given_up_takes_with_it_what_cannot_be_without_it(shop: Session) -> None:
    alter(shop, CHANGES["added"])
    shop.sql("ALTER MATERIALIZED VIEW b DISCARD")
    assert "the next query of d is given up, too" in shop.notices[-1]
    assert list_successions(shop.store.refresh()).keys() == {"a"}
    shop.sql("ALTER MATERIALIZED VIEW a DISCARD")
    alter(shop, CHANGES["gone"])
    shop.discard("d")  # b lets go of what d reads, and a of what b reads
    assert not list_successions(shop.store.refresh())
    alter(shop, CHANGES["other name"])
    shop.sql("DROP MATERIALIZED VIEW b CASCADE")
    assert list_successions(shop.store.refresh()).keys() == {"a"}
    shop.flush().raise_for_errors()
    assert show(shop, "SELECT * FROM a") == show_batch(shop, CHANGES["other name"], "a")
    check_nothing_is_left(shop)


def test_a_gate_of_one_holds_all_up(shop: Session) -> None:
    before, gate = compute_views(shop, FIRST), "WITH (gate = 'rows_updated = 0')"
    other = {**CHANGES["added"], "a": CHANGES["added"]["a"].replace("count(*)", "count(*) + 1")}
    with commit_together(shop):
        for name, query in other.items():
            text = f"{MV}{name} {gate if name == 'b' else ''} AS {query}"
            assert alter_view(shop, text, following=other.keys()).work == "difference"
    for _ in range(3):
        shop.flush().raise_for_errors()
    assert show_views(shop) == before
    pending = list_successions(shop.store.refresh())
    assert "the gate is rows_updated = 0" in pending["b"].held and not pending["a"].copied
    assert {row.name: row for row in shop.status()}["a"].rows is not None
    shop.approve("b")
    for _ in range(3):
        shop.flush().raise_for_errors()
    assert show_views(shop) == compute_views(shop, other)
    check_nothing_is_left(shop)


@pytest.mark.long
def test_one_that_fails_leaves_all_as_they_were(shop: Session) -> None:
    before = compute_views(shop, FIRST)
    failing = {
        **CHANGES["added"],
        "d": CHANGES["added"]["d"].replace("max(top)", "CAST(max(top / (k0 - k0)) AS BIGINT)"),
    }
    failing["d"] = failing["d"].replace("FROM b", "FROM (SELECT *, both AS k0 FROM b) AS b")
    alter(shop, failing)
    for _ in range(3):
        shop.flush()
    assert show_views(shop) == before
    assert not any(one.copied for one in list_successions(shop.store.refresh()).values())
    shop.sql(f"ALTER MATERIALIZED VIEW d AS {CHANGES['added']['d']}")
    shop.flush().raise_for_errors()
    assert show_views(shop) == compute_views(shop, CHANGES["added"])
    check_nothing_is_left(shop)


@pytest.mark.parametrize(
    "after", [7, *(pytest.param(n, marks=pytest.mark.long) for n in range(31) if n != 7)]
)
@pytest.mark.parametrize("kind", ["added", pytest.param("looked up", marks=pytest.mark.long)])
def test_a_process_that_is_killed_leaves_what_the_next_one_ends(
    shop: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, after: int, kind: str
) -> None:
    left, commit = after, Hummock.commit

    def count(store: Hummock, made: Commit) -> Version:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1
        return commit(store, made)

    with monkeypatch.context() as patch:
        patch.setattr(Hummock, "commit", count)
        try:
            alter(shop, CHANGES[kind])
            for _ in range(3):
                shop.flush()
        except Killed:
            pass
    with Session(shop.url, spark) as other:
        change(other, random.Random(after))
        for _ in range(3):
            other.flush().raise_for_errors()
        assert show_views(other) == compute_views(other, CHANGES[kind] if after else FIRST)
        check_nothing_is_left(other)
        change(other, random.Random(after + 1))
        other.flush().raise_for_errors()
        assert show_views(other) == compute_views(other, CHANGES[kind] if after else FIRST)


def stop_as_they_take_over(shop: Session) -> None:
    """Flush up to the commit that makes views copies of their successors, as a process does that is killed then."""
    commit = Hummock.commit

    def look(store: Hummock, made: Commit) -> Version:
        version = commit(store, made)
        if any(one.copied for one in list_successions(version).values()):
            raise Killed
        return version

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Hummock, "commit", look)
        with pytest.raises(Killed):
            for _ in range(4):
                shop.flush()


@pytest.mark.long
def test_who_goes_as_all_take_over_holds_no_log(shop: Session) -> None:
    alter(shop, CHANGES["added"])
    stop_as_they_take_over(shop)
    shop.sql("DROP MATERIALIZED VIEW b CASCADE")
    for _ in range(2):
        change(shop, random.Random(3))
        shop.flush().raise_for_errors()
    check_nothing_is_left(shop)
    assert show(shop, "SELECT * FROM a") == show_batch(shop, CHANGES["added"], "a")
