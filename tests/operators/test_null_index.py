"""An element at a null index is null, also of an array without nulls, for which Spark promises an element."""

from __future__ import annotations

import pytest

from engine.session import Session

ELEMENTS = {
    "array(10, 20, 30)[i]": (0, [None, 10, 20]),
    "element_at(array(10, 20, 30), i)": (1, [None, 10, 20]),
    "split('a,b,c', ',')[i]": (0, [None, "a", "b"]),
    "array(array(1, 2, 3))[0][i]": (0, [None, 1, 2]),
    "map(0, 'a', 1, 'b', 2, 'c')[i]": (0, [None, "a", "b"]),
}


@pytest.mark.parametrize("element", ELEMENTS)
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
