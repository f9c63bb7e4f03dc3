"""An element at a null index is null, also of an array without nulls, for which Spark promises an element."""

from __future__ import annotations

import pytest

from engine.session import Session
from tests.long_rest import mark_rest_long

ELEMENTS = {
    "array(10, 20, 30)[i]": (0, [None, 10, 20]),
    "element_at(array(10, 20, 30), i)": (1, [None, 10, 20]),
    "split('a,b,c', ',')[i]": (0, [None, "a", "b"]),
    "array(array(1, 2, 3))[0][i]": (0, [None, 1, 2]),
    "map(0, 'a', 1, 'b', 2, 'c')[i]": (0, [None, "a", "b"]),
}


@pytest.mark.parametrize("element", mark_rest_long(ELEMENTS, keep=2))
def test_an_element_at_a_null_index_is_null(session: Session, element: str) -> None:
    first, expected = ELEMENTS[element]
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, i INT)")
    session.sql(f"CREATE MATERIALIZED VIEW plain AS SELECT id, {element} AS e FROM t")
    session.sql(
        f"CREATE MATERIALIZED VIEW grouped AS SELECT e, n FROM (SELECT {element} AS e, count(*) AS n FROM t GROUP BY e)"
    )
    session.sql(
        f"CREATE MATERIALIZED VIEW ends AS SELECT min({element}) AS low, count({element}) AS n FROM t"
    )
    session.sql("INSERT INTO t VALUES (1, NULL)")
    session.flush().raise_for_errors()
    session.sql(f"INSERT INTO t VALUES (2, {first}), (3, {first + 1})")
    session.flush().raise_for_errors()
    read = {name: session.sql(f"SELECT * FROM {name}") for name in ("plain", "grouped", "ends")}
    rows = {name: found.to_pylist() for name, found in read.items() if found is not None}
    assert [row["e"] for row in sorted(rows["plain"], key=lambda row: row["id"])] == expected
    assert sorted(((row["e"], row["n"]) for row in rows["grouped"]), key=str) == sorted(
        ((one, 1) for one in expected), key=str
    )
    assert rows["ends"] == [{"low": expected[1], "n": 2}]


def test_an_index_out_of_bounds_still_fails(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, i INT)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, array(10, 20, 30)[i] AS e FROM t")
    session.sql("INSERT INTO t VALUES (1, 3)")
    assert "INVALID_ARRAY_INDEX" in str(session.flush()["v"].error)


def read(session: Session, query: str) -> list[tuple[object, ...]]:
    found = session.sql(query)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)


@pytest.fixture
def indexes(session: Session) -> Session:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, i INT)")
    session.sql("INSERT INTO t VALUES (1, NULL), (2, 0), (3, 2)")
    return session


QUERIES = {
    "SELECT id, array(10, 20, 30)[i] AS e FROM t": [(1, None), (2, 10), (3, 30)],
    "SELECT id, element_at(split('a,b,c', ','), i + 1) AS e FROM t": [(1, None), (2, "a"), (3, "c")],
    "SELECT id FROM t WHERE array(10, 20, 30)[i] IS NULL": [(1,)],
    "SELECT id FROM t WHERE element_at(array(10, 20, 30), i + 1) IS NULL": [(1,)],
    "SELECT count(array(10, 20, 30)[i]) AS n FROM t": [(2,)],
    "SELECT array(10, 20, 30)[i] AS e, count(*) AS n FROM t GROUP BY array(10, 20, 30)[i]": [
        (10, 1),
        (30, 1),
        (None, 1),
    ],
    "SELECT id FROM (SELECT id, array(array(1, 2, 3))[0][i] AS e FROM t) q WHERE e IS NULL": [(1,)],
    "SELECT id FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE array(7, 8, 9)[a.i] IS NULL AND b.id = a.id)": [
        (1,)
    ],
    "SELECT transform(array(0, NULL), x -> array(5, 6)[x]) AS e FROM t WHERE id = 1": [([5, None],)],
    "SELECT id FROM t WHERE try_element_at(array(10, 20, 30), i + 1) IS NULL": [(1,)],
}


@pytest.mark.parametrize("query", mark_rest_long(QUERIES, keep=4))
def test_a_query_and_a_view_that_is_recomputed_give_null_at_a_null_index(
    indexes: Session, query: str
) -> None:
    expected = sorted(QUERIES[query], key=str)
    assert read(indexes, query) == expected
    indexes.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'full') AS {query}")
    indexes.flush().raise_for_errors()
    assert read(indexes, "SELECT * FROM v") == expected
    indexes.sql(f"CREATE VIEW plain AS {query}")
    assert read(indexes, "SELECT * FROM plain") == expected


def test_statements_meet_null_at_a_null_index(indexes: Session) -> None:
    session = indexes
    session.sql("CREATE TABLE k AS SELECT id, array(10, 20, 30)[i] AS e FROM t")
    assert read(session, "SELECT * FROM k") == [(1, None), (2, 10), (3, 30)]
    session.sql("INSERT INTO k SELECT id + 10, element_at(array(10, 20, 30), i + 1) FROM t")
    assert read(session, "SELECT e FROM k WHERE id > 10") == [(10,), (30,), (None,)]
    session.sql("UPDATE t SET i = array(2, 1, 0)[i] WHERE id < 3")
    assert read(session, "SELECT id, i FROM t") == [(1, None), (2, 2), (3, 2)]
    session.sql("DELETE FROM t WHERE array(10, 20, 30)[i] IS NULL")
    assert read(session, "SELECT id FROM t") == [(2,), (3,)]


def test_a_generated_column_is_null_at_a_null_index(session: Session) -> None:
    session.sql(
        "CREATE TABLE g (id BIGINT PRIMARY KEY, i INT, n INT GENERATED ALWAYS AS (array(11, 22, 33)[i]), "
        "s STRING GENERATED ALWAYS AS (element_at(split('a,b', ','), i)))"
    )
    session.sql("INSERT INTO g (id, i) VALUES (1, NULL), (2, 1)")
    assert read(session, "SELECT * FROM g") == [(1, None, None, None), (2, 1, 22, "a")]


def test_a_column_without_a_name_has_the_one_that_spark_gives_it(indexes: Session) -> None:
    for element in ("array(10, 20, 30)[i]", "element_at(array(10, 20, 30), i)"):
        found = indexes.sql(f"SELECT {element} FROM t WHERE i = 2")
        assert found is not None
        frame = indexes.spark.sql(f"SELECT {element} FROM (SELECT 2 AS i)")
        assert found.column_names == frame.columns


ROWS = {
    "inline(x[i])": (["a", "b"], [(1, 2)]),
    "inline(x[i]) AS (p, q)": (["p", "q"], [(1, 2)]),
    "posexplode(n[i])": (["pos", "col"], [(0, 7), (1, 8)]),
    "explode(n[i])": (["col"], [(7,), (8,)]),
    "explode(n[i]) AS e": (["e"], [(7,), (8,)]),
    "stack(2, n[i], n[0])": (["col0"], [([7, 8],), ([7, 8],)]),
}


@pytest.mark.parametrize("item", ROWS)
def test_functions_that_return_rows_of_an_element_name_their_columns_themselves(
    session: Session, item: str
) -> None:
    session.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, i INT, n ARRAY<ARRAY<INT>>, x ARRAY<ARRAY<STRUCT<a: INT, b: INT>>>)"
    )
    session.sql(
        "INSERT INTO t SELECT 1, 0, array(array(7, 8)), array(array(named_struct('a', 1, 'b', 2))) "
        "UNION ALL SELECT 2, NULL, array(array(7, 8)), array(array(named_struct('a', 1, 'b', 2)))"
    )
    names, expected = ROWS[item]
    found = session.sql(f"SELECT {item} FROM t WHERE id = 1")
    assert found is not None and found.column_names == names
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == expected
