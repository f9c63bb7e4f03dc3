"""Views that get other columns while they stay answered: nobody sees half of a change, and what reads them follows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.hummock import Commit, Hummock, Version
from engine.session import Session
from tests.runtime.statements.succession.test_random_changes import change
from tests.runtime.statements.succession.test_take_over import check_nothing_is_left

FIRST = "SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g"
QUERIES = {
    "first": FIRST,
    "added": "SELECT g, sum(n) AS total, count(*) AS c, max(n) AS top FROM t GROUP BY g",
    "added between": "SELECT g, min(n) AS least, sum(n) AS total, count(*) AS c FROM t GROUP BY g",
    "gone": "SELECT g, count(*) AS c FROM t GROUP BY g",
    "another type": "SELECT g, CAST(sum(n) AS DOUBLE) AS total, count(*) AS c FROM t GROUP BY g",
    "another order": "SELECT c, g, total FROM (SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g)",
    "another name": "SELECT g, sum(n) AS summed, count(*) AS c FROM t GROUP BY g",
    "swapped names": "SELECT g, count(*) AS total, sum(n) AS c FROM t GROUP BY g",
    "joined": "SELECT g, sum(n * f) AS total, count(*) AS c, avg(f) AS mean FROM t JOIN u USING (g) GROUP BY g",
    "one row each": "SELECT g, f AS total, f AS c, CAST(f AS STRING) AS text, array(f) AS many FROM u",
    "by one row": "SELECT g, total, c, total AS mean FROM (SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g) "
    "WHERE total > (SELECT avg(n) FROM t)",
}
READER = "SELECT c, count(*) AS k FROM v GROUP BY c"


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
        session.sql("CREATE TABLE u (g BIGINT PRIMARY KEY, f BIGINT)")
        session.write("u", pa.table({"g": [0, 1, 2], "f": [1, 10, 100]}))
        session.write("t", pa.table({"id": range(40), "g": [i % 4 for i in range(40)], "n": range(40)}))
        session.sql(f"CREATE MATERIALIZED VIEW v AS {FIRST}")
        session.flush()
        yield session


def show(session: Session, query: str) -> tuple[list[str], list[str]]:
    """Return the names and types of a query's columns, and its rows as texts in order."""
    found = session.sql(query)
    assert found is not None
    columns = [f"{field.name} {field.type}" for field in found.schema]
    return columns, sorted(repr(tuple(row.values())) for row in found.to_pylist())


@pytest.mark.long
@pytest.mark.parametrize("first", ["first", "joined"])
def test_who_reads_meanwhile_sees_the_old_or_the_new_view(
    shop: Session, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, first: str
) -> None:
    old, seen = QUERIES[first], []
    shop.sql(f"ALTER MATERIALIZED VIEW v AS {old}")
    commit = Hummock.commit
    with Session(shop.url, spark) as other:

        def look(store: Hummock, made: Commit) -> Version:
            version = commit(store, made)
            with monkeypatch.context() as patch:
                patch.setattr(Hummock, "commit", commit)
                seen.append(show(other, "SELECT * FROM v"))
            return version

        for name, query in QUERIES.items():
            before, after = (show(shop, one) for one in (old, query))
            with monkeypatch.context() as patch:
                patch.setattr(Hummock, "commit", look)
                shop.sql(f"ALTER MATERIALIZED VIEW v AS {query}")
            assert seen[:1] + seen[-1:] == ([before, after] if query != old else []), name
            assert all(one in (before, after) for one in seen), name
            assert show(shop, "SELECT * FROM v") == after, name
            check_nothing_is_left(shop)
            stored = shop.store.version.tables["v"].table.schema.names
            assert set(stored) == {column.storage_name for column in shop.catalog.get("v").columns}
            seen.clear()
            old = query


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 8))
def test_a_view_with_readers_follows_one_query_after_the_other(
    shop: Session, tmp_path: Path, seed: int
) -> None:
    rng, query, altered = random.Random(seed), FIRST, 0
    shop.sql(f"CREATE MATERIALIZED VIEW w AS {READER}")
    shop.sql("CREATE TABLE target (g BIGINT PRIMARY KEY, c BIGINT)")
    shop.sql("CREATE SINK s INTO target AS SELECT g, c FROM v WHERE g IS NOT NULL")
    for _ in range(4 if seed == 1 else 20):
        change(shop, rng)
        following = rng.choice(list(QUERIES.values()))
        try:
            shop.sql(f"ALTER MATERIALIZED VIEW v AS {following}", build=rng.random() < 0.5)
        except SqlError as refused:
            assert "would read its column c no more" in str(refused), following
        else:
            altered += following != query
            query = following
        for _ in range(2):
            shop.flush().raise_for_errors()
            expected = show(shop, query)
            assert show(shop, "SELECT * FROM v") == expected, query
            assert show(shop, "SELECT * FROM w") == show(
                shop, READER.replace("FROM v", f"FROM ({query}) AS v")
            )
            rows = f"SELECT g, c FROM ({query}) AS v WHERE g IS NOT NULL"
            assert show(shop, "SELECT g, c FROM target")[1] == show(shop, rows)[1], query
            change(shop, rng)
        shop.flush().raise_for_errors()
    assert altered


@pytest.mark.long
def test_what_stands_beside_a_view_keeps_its_columns(shop: Session, tmp_path: Path) -> None:
    shop.sql("CREATE MATERIALIZED VIEW w AS SELECT g, total FROM v")
    shop.sql(f"CREATE SINK s FROM v WITH (connector = 'file', path = '{tmp_path / 'out'}')")
    shop.sql("CREATE SUBSCRIPTION b FROM v WITH (retention = '1 day')")
    shop.sql("CREATE VIEW plain AS SELECT * FROM v")
    shop.flush()
    for query, reason in (
        (QUERIES["gone"], "w, the sink s, plain would read its column total no more"),
        (QUERIES["another type"], "w, the sink s, plain would read its column total no more"),
    ):
        with pytest.raises(SqlError, match=reason):
            shop.sql(f"ALTER MATERIALIZED VIEW v AS {query}")
    shop.sql("ALTER MATERIALIZED VIEW v AS SELECT g, max(n) AS total, count(*) AS c FROM t GROUP BY g")
    shop.sql(f"ALTER MATERIALIZED VIEW v AS {QUERIES['added']}")  # hidden columns come and go as well
    assert show(shop, "SELECT * FROM plain") == show(shop, QUERIES["added"])
    shop.flush().raise_for_errors()
    change(shop, random.Random(1))
    shop.flush().raise_for_errors()
    assert show(shop, "SELECT * FROM w") == show(shop, f"SELECT g, total FROM ({FIRST}) AS v")
    rows = pq.read_table(tmp_path / "out")
    assert "top" not in rows.column_names
    shop.sql("CREATE MATERIALIZED VIEW x AS SELECT v.g, v.top, t.id FROM t JOIN v ON t.n = v.top")
    shop.flush().raise_for_errors()
    check_nothing_is_left(shop)


def test_a_gate_counts_the_columns_that_both_queries_show(shop: Session) -> None:
    def alter(gate: str, query: str) -> None:
        shop.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v WITH (gate = '{gate}') AS {query}")

    with pytest.raises(SqlError, match="has no column top yet"):
        alter("changed(top) = 0", QUERIES["added"])
    alter("rows_changed = 0", QUERIES["added"])
    assert show(shop, "SELECT * FROM v") == show(shop, QUERIES["added"])
    alter("rows_changed = 0", "SELECT g, sum(n) + 1 AS total, min(n) AS least FROM t GROUP BY g")
    assert "top" in show(shop, "SELECT * FROM v")[0][-1]
    found = shop.diff_pending("v")
    assert (found.updated, dict(found.changed_columns)) == (4, {"g": 0, "total": 4})
    assert found.rows.column_names == ["_op", "g", "total", "_old_g", "_old_total"]
    assert found.not_compared == ("least bigint comes", "c bigint goes", "top bigint goes")
    shop.sql("ALTER MATERIALIZED VIEW v APPROVE")
    shop.flush()
    assert show(shop, "SELECT * FROM v") == show(
        shop, "SELECT g, sum(n) + 1 AS total, min(n) AS least FROM t GROUP BY g"
    )
    check_nothing_is_left(shop)


INDEXED = [
    FIRST,
    "SELECT g, max(n) AS top, sum(n) AS total, count(*) AS c FROM t GROUP BY g",
    "SELECT g, sum(n) AS total, min(n) AS least FROM t GROUP BY g",
    "SELECT g, sum(n * f) AS total, count(*) AS c FROM t JOIN u USING (g) GROUP BY g",
]


def test_a_comment_that_comes_with_the_columns_stays(
    shop: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, said = Hummock.commit, []
    with Session(shop.url, spark) as other:

        def comment(store: Hummock, made: Commit) -> Version:
            if made.writes and "relation/v" in made.catalog and not said:
                said.append(made)
                with monkeypatch.context() as patch:
                    patch.setattr(Hummock, "commit", commit)
                    other.sql("COMMENT ON MATERIALIZED VIEW v IS 'by hand'")
            return commit(store, made)

        monkeypatch.setattr(Hummock, "commit", comment)
        shop.sql(f"ALTER MATERIALIZED VIEW v AS {QUERIES['added']}")
    assert said and shop.catalog.get("v").comment == "by hand"
    assert show(shop, "SELECT * FROM v") == show(shop, QUERIES["added"])
    check_nothing_is_left(shop)


@pytest.mark.long
def test_an_index_is_no_reader_of_hidden_columns(shop: Session) -> None:
    least, top = (f"SELECT g, {one}(n) AS total, count(*) AS c FROM t GROUP BY g" for one in ("min", "max"))
    shop.sql(f"ALTER MATERIALIZED VIEW v AS {top}")
    shop.sql("CREATE INDEX by_total ON v (total)")
    joined = "SELECT t.id, v.g, v.total FROM t JOIN {} AS v ON t.n = v.total"
    shop.sql(f"CREATE MATERIALIZED VIEW x AS {joined.format('v')}")
    shop.flush().raise_for_errors()
    for query in (least, FIRST, top):  # each keeps other hidden columns, for the same ones that are shown
        shop.sql(f"ALTER MATERIALIZED VIEW v AS {query}")
        change(shop, random.Random(7))
        shop.flush().raise_for_errors()
        assert show(shop, "SELECT * FROM v") == show(shop, query)
        assert show(shop, "SELECT * FROM x") == show(shop, joined.format(f"({query})"))
        check_nothing_is_left(shop)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 6))
def test_an_index_follows_its_view(shop: Session, seed: int) -> None:
    rng = random.Random(seed)
    shop.sql("CREATE INDEX by_total ON v (total)")
    joined = "SELECT t.id, v.g, v.total FROM t JOIN {} AS v ON t.n = v.total"
    shop.sql(f"CREATE MATERIALIZED VIEW x AS {joined.format('v')}")
    shop.flush().raise_for_errors()
    ids = {name: table.table_id for name, table in shop.store.version.tables.items() if "_index_v" in name}
    assert len(ids) == 1
    (index,) = ids
    for query in INDEXED[1:3] if seed == 1 else [rng.choice(INDEXED) for _ in range(8)]:
        shop.sql(f"ALTER MATERIALIZED VIEW v AS {query}", build=rng.random() < 0.5)
        for _ in range(3):
            change(shop, rng)
            shop.flush().raise_for_errors()
            assert show(shop, "SELECT * FROM x") == show(shop, joined.format(f"({query})")), query
        assert show(shop, "SELECT * FROM v") == show(shop, query)
        check_nothing_is_left(shop)
        version = shop.store.version
        assert {name: version.tables[name].table_id for name in ids} == ids
        assert {*version.tables[index].table.schema.names} == {*version.tables["v"].table.schema.names}
        rows = [
            sorted(repr(sorted(r.items())) for b in shop.store.iter(n) for r in b.to_pylist())
            for n in ("v", index)
        ]
        assert rows[0] == rows[1]
    with pytest.raises(SqlError, match="x, by_total would read its column total no more"):
        shop.sql("ALTER MATERIALIZED VIEW v AS SELECT g, count(*) AS c FROM t GROUP BY g")
