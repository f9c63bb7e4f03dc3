"""A null as a value of a key, as RisingWave has it: found by every statement, and by the views over it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.errors import DuplicateKey
from engine.hummock.rows.key_numbers import find_members
from engine.session import Session
from tests.runtime.writes.test_dml import rows

NULLS = "INSERT INTO t VALUES (1, NULL, 10), (NULL, NULL, 5), (2, 2, 7)"
AGAIN = "INSERT INTO t VALUES (1, NULL, 20), (NULL, NULL, 6)"


@pytest.fixture
def keyed(session: Session, request: pytest.FixtureRequest) -> Session:
    """A table of which any part of the key may be null, with a view over it."""
    session.dialect = "risingwave"
    session.sql(f"CREATE TABLE t (a INT, b INT, v INT, PRIMARY KEY (a, b)) {request.param}")
    session.sql("CREATE MATERIALIZED VIEW m AS SELECT a, count(*) AS n, sum(v) AS s FROM t GROUP BY a")
    session.sql(NULLS)
    session.sql("FLUSH")
    return session


def seen(session: Session) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    session.sql("FLUSH")
    return sorted(rows(session, "SELECT * FROM t"), key=str), sorted(
        rows(session, "SELECT * FROM m"), key=str
    )


@pytest.mark.parametrize("keyed", [""], indirect=True)
def test_an_insert_of_a_known_key_with_nulls_takes_the_place_of_the_row(keyed: Session) -> None:
    keyed.sql(AGAIN)
    assert seen(keyed) == ([(1, None, 20), (2, 2, 7), (None, None, 6)], [(1, 1, 20), (2, 1, 7), (None, 1, 6)])


@pytest.mark.parametrize("keyed", ["ON CONFLICT IGNORE"], indirect=True)
def test_it_is_ignored_where_the_table_says_so(keyed: Session) -> None:
    keyed.sql(AGAIN)
    assert seen(keyed) == ([(1, None, 10), (2, 2, 7), (None, None, 5)], [(1, 1, 10), (2, 1, 7), (None, 1, 5)])


@pytest.mark.parametrize("keyed", [""], indirect=True)
def test_on_conflict_do_update_finds_it(keyed: Session) -> None:
    keyed.sql("INSERT INTO t VALUES (1, NULL, 20) ON CONFLICT (a, b) DO UPDATE SET v = t.v + excluded.v")
    assert seen(keyed)[0] == [(1, None, 30), (2, 2, 7), (None, None, 5)]


@pytest.mark.parametrize("keyed", [""], indirect=True)
def test_update_and_delete_follow(keyed: Session) -> None:
    keyed.sql("UPDATE t SET b = 3 WHERE a = 1")
    keyed.sql("UPDATE t SET a = 4 WHERE b IS NULL")
    assert seen(keyed) == ([(1, 3, 10), (2, 2, 7), (4, None, 5)], [(1, 1, 10), (2, 1, 7), (4, 1, 5)])
    with pytest.raises(DuplicateKey):
        keyed.sql("UPDATE t SET a = 4, b = NULL WHERE a = 1")
    keyed.sql("DELETE FROM t WHERE b IS NULL")
    assert seen(keyed)[1] == [(1, 1, 10), (2, 1, 7)]


def test_keys_are_found_among_others_by_their_nulls_too() -> None:
    keys = pa.table({"a": [1, None, 2, None], "b": [None, None, 2, 3]})
    others = pa.table({"a": [None, 1, 7], "b": [3, None, 7]})
    assert find_members(keys, others).tolist() == [True, False, False, True]
    assert find_members(keys, others.slice(0, 0)).tolist() == [False] * 4
    assert find_members(keys.slice(0, 0), others).tolist() == []
