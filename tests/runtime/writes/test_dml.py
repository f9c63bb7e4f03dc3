"""INSERT, UPDATE and DELETE in every form, by the rules of the session's dialect."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import DuplicateKey, InvalidRow, SqlError
from engine.session import Session


def rows(session: Session, text: str) -> list[tuple[object, ...]]:
    """Return what a query gives, a tuple a row."""
    found = session.sql(text)
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.fixture
def stock(session: Session) -> Session:
    session.sql("CREATE TABLE stock (id BIGINT PRIMARY KEY, name STRING, price BIGINT)")
    session.sql("INSERT INTO stock VALUES (1, 'a', 10), (2, 'b', 20), (3, NULL, 30)")
    return session


def test_expressions_of_update_follow_the_dialect(tmp_path: Path, spark: SparkSession) -> None:
    found = {}
    for dialect in ("spark", "postgres"):
        with Session((tmp_path / dialect).as_uri(), spark, dialect) as s:  # type: ignore[arg-type]
            s.sql(
                "CREATE TABLE t (id BIGINT PRIMARY KEY, i INT, d DOUBLE PRECISION)"
                if dialect == "postgres"
                else "CREATE TABLE t (id BIGINT PRIMARY KEY, i INT, d DOUBLE)"
            )
            s.sql("INSERT INTO t VALUES (1, 7, 2.5), (2, 1, 0)")
            s.sql("UPDATE t SET d = i / 2, i = CAST(d AS INT) WHERE i / 2 = 3.5 OR i / 2 = 3")
            found[dialect] = rows(s, "SELECT * FROM t ORDER BY id")
    assert found == {
        "spark": [(1, 2, 3.5), (2, 1, 0.0)],
        "postgres": [(1, 2, 3.0), (2, 1, 0.0)],
    }


def test_where_of_update_and_delete_takes_subqueries(stock: Session) -> None:
    stock.sql("CREATE TABLE gone (id BIGINT PRIMARY KEY)")
    stock.sql("INSERT INTO gone VALUES (2)")
    stock.sql(
        "UPDATE stock SET price = (SELECT max(price) FROM stock) + 1 WHERE EXISTS (SELECT 1 FROM gone g WHERE g.id = stock.id)"
    )
    assert rows(stock, "SELECT price FROM stock WHERE id = 2") == [(31,)]
    stock.sql("DELETE FROM stock AS s WHERE s.id IN (SELECT id FROM gone)")
    assert rows(stock, "SELECT id FROM stock ORDER BY id") == [(1,), (3,)]


def test_update_from_and_delete_using_take_other_tables(stock: Session) -> None:
    stock.sql("CREATE TABLE news (id BIGINT PRIMARY KEY, price BIGINT)")
    stock.sql("INSERT INTO news VALUES (1, 11), (3, 33)")
    changed = stock.sql(
        "UPDATE stock s SET price = n.price FROM news n WHERE n.id = s.id RETURNING id, price"
    )
    assert changed is not None and sorted(changed.to_pydict()["price"]) == [11, 33]
    stock.sql("DELETE FROM stock USING news WHERE news.id = stock.id AND news.price > 20")
    assert rows(stock, "SELECT id, price FROM stock ORDER BY id") == [(1, 11), (2, 20)]


def test_update_from_that_gives_two_new_rows_for_a_key_is_refused(stock: Session) -> None:
    with pytest.raises(DuplicateKey, match="more than one new row"):
        stock.sql("UPDATE stock SET price = o.price FROM stock o WHERE stock.id = 1")


def test_on_conflict_do_nothing_keeps_known_rows(stock: Session) -> None:
    done = stock.sql("INSERT INTO stock VALUES (1, 'z', 0), (4, 'd', 40) ON CONFLICT DO NOTHING RETURNING *")
    assert done is not None and done.to_pylist() == [{"id": 4, "name": "d", "price": 40}]
    assert rows(stock, "SELECT name FROM stock WHERE id = 1") == [("a",)]


def test_on_conflict_do_update_sees_both_rows(stock: Session) -> None:
    text = (
        "INSERT INTO stock VALUES (1, 'z', 5), (2, 'y', 1), (4, 'd', 40) ON CONFLICT (id) "
        "DO UPDATE SET price = price + excluded.price, name = excluded.name WHERE excluded.price > 2 RETURNING id, price + 1 AS p"
    )
    done = stock.sql(text)
    assert done is not None and sorted(map(tuple, (r.values() for r in done.to_pylist()))) == [
        (1, 16),
        (4, 41),
    ]
    assert rows(stock, "SELECT * FROM stock ORDER BY id") == [
        (1, "z", 15), (2, "b", 20), (3, None, 30), (4, "d", 40),
    ]  # fmt: skip


@pytest.mark.parametrize(("dialect", "mark"), [("spark", "`"), ("postgres", '"'), ("risingwave", '"')])
def test_on_conflict_names_a_key_in_quotes(tmp_path: Path, dialect: str, mark: str) -> None:
    order, part = f"{mark}Order{mark}", f"{mark}Part{mark}"
    with Session((tmp_path / "s").as_uri(), dialect=dialect) as s:  # type: ignore[arg-type]
        s.sql(f"CREATE TABLE t ({order} BIGINT PRIMARY KEY, x INT)")
        s.sql(f"CREATE TABLE u ({order} BIGINT, {part} INT, x INT, PRIMARY KEY ({order}, {part}))")
        for x in (1, 2):
            s.sql(f"INSERT INTO t VALUES (1, {x}) ON CONFLICT ({order}) DO NOTHING")
            s.sql(f"INSERT INTO u VALUES (1, 2, {x}) ON CONFLICT ({part}, {order}) DO NOTHING")
        assert rows(s, f"SELECT x FROM t WHERE {order} = 1") == [(1,)]
        assert rows(s, f"SELECT x FROM u WHERE {order} = 1 AND {part} = 2") == [(1,)]
        with pytest.raises(SqlError, match="primary key of t"):
            s.sql(f"INSERT INTO t VALUES (1, 1) ON CONFLICT ({mark}ORDER{mark}) DO NOTHING")


def test_on_conflict_needs_the_key(stock: Session) -> None:
    with pytest.raises(SqlError, match="primary key of stock") as caught:
        stock.sql("INSERT INTO stock VALUES (1, 'z', 5) ON CONFLICT (name) DO UPDATE SET price = 1")
    assert caught.value.line == 1 and "(id)" in caught.value.hint


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("ON CONFLICT OVERWRITE", [(1, None, 9), (2, "n", 2)]),
        ("ON CONFLICT IGNORE", [(1, "a", 1), (2, "n", 2)]),
        ("ON CONFLICT DO UPDATE IF NOT NULL", [(1, "a", 9), (2, "n", 2)]),
    ],
)
def test_a_table_says_what_becomes_of_known_keys(
    session: Session, policy: str, expected: list[object]
) -> None:
    session.sql(f"CREATE TABLE t (id BIGINT PRIMARY KEY, a STRING, b BIGINT) {policy}")
    session.sql("INSERT INTO t VALUES (1, 'a', 1)")
    session.sql("INSERT INTO t VALUES (1, NULL, 9), (2, 'n', 2)")
    assert rows(session, "SELECT * FROM t ORDER BY id") == expected


def test_of_rows_with_one_key_each_column_keeps_its_last_value_of_any_type(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, day DATE, l ARRAY<DATE>, n BIGINT) ON CONFLICT DO UPDATE IF NOT NULL"
    )
    far = "DATE'+12345-01-01'"
    session.sql(
        f"INSERT INTO t VALUES (2, NULL, NULL, 7), (1, {far}, NULL, 1), (1, NULL, array({far}), NULL)"
    )
    session.sql("INSERT INTO t VALUES (1, NULL, NULL, 2), (2, NULL, NULL, NULL)")
    found = rows(session, "SELECT id, CAST(day AS STRING), CAST(l AS STRING), n FROM t ORDER BY id")
    assert found == [(1, "+12345-01-01", "[+12345-01-01]", 2), (2, None, None, 7)]


def test_tables_of_risingwave_take_the_newest_row(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "s").as_uri(), spark, "risingwave") as s:
        s.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a INT)")
        s.sql("INSERT INTO t VALUES (1, 1)")
        s.sql("INSERT INTO t VALUES (1, 2), (1, 3)")
        assert rows(s, "SELECT a FROM t") == [(3,)]


def test_defaults_and_generated_columns_come_with_every_kind_of_write(session: Session) -> None:
    session.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT DEFAULT 5, at TIMESTAMP DEFAULT now(), u STRING DEFAULT upper('x'), "
        "twice BIGINT GENERATED ALWAYS AS (n * 2))"
    )
    session.sql("INSERT INTO t (id) VALUES (1)")
    session.sql("INSERT INTO t VALUES (2, DEFAULT, DEFAULT, 'k'), (3, 7, NULL, DEFAULT)")
    session.write("t", pa.table({"id": [4], "n": [1]}))
    assert rows(session, "SELECT id, n, u, twice, at IS NULL FROM t ORDER BY id") == [
        (1, 5, "X", 10, False), (2, 5, "k", 10, False), (3, 7, "X", 14, True), (4, 1, "X", 2, False),
    ]  # fmt: skip
    session.sql("UPDATE t SET n = DEFAULT, u = 'new' WHERE id >= 3")
    assert rows(session, "SELECT n, u, twice FROM t WHERE id = 4") == [(5, "new", 10)]
    with pytest.raises(InvalidRow, match="twice of t is generated"):
        session.sql("INSERT INTO t (id, twice) VALUES (9, 9)")
    with pytest.raises(SqlError, match="twice of t is generated"):
        session.sql("UPDATE t SET twice = 1")


def test_returning_of_delete_gives_the_old_rows(stock: Session) -> None:
    gone = stock.sql("DELETE FROM stock WHERE price > 15 RETURNING id, upper(name) AS n")
    assert gone is not None
    assert sorted(gone.to_pylist(), key=lambda r: r["id"]) == [{"id": 2, "n": "B"}, {"id": 3, "n": None}]


def test_a_wrong_value_is_told_with_its_place(stock: Session) -> None:
    with pytest.raises(InvalidRow, match="line 1, column 31") as caught:
        stock.sql("UPDATE stock SET price = CAST(name AS BIGINT) WHERE id = 1")
    assert "cannot be cast" in str(caught.value)
    with pytest.raises(SqlError) as refused:
        stock.sql("DELETE FROM stock WHERE prize > 1")
    assert refused.value.column == 25 and "price" in refused.value.hint


@pytest.mark.parametrize("dialect", ["postgres", "risingwave"])
def test_a_text_in_quotes_is_the_bytes_that_postgres_reads_in_it(tmp_path: Path, dialect: str) -> None:
    with Session((tmp_path / "s").as_uri(), dialect=dialect) as s:  # type: ignore[arg-type]
        s.sql(r"CREATE TABLE t (id INT PRIMARY KEY, b BYTEA DEFAULT '\x0F')")
        s.sql(r"INSERT INTO t VALUES (1, '\xAABB'::bytea), (2, '\xaa bb'), (3, 'a\\b\001'), (4, E'\\xAA')")
        s.sql("INSERT INTO t (id) VALUES (5)")
        found = [rows(s, f"SELECT b FROM t WHERE id = {n}")[0][0] for n in range(1, 6)]
        assert found == [b"\xaa\xbb", b"\xaa\xbb", b"a\\b\x01", b"\xaa", b"\x0f"]
        for text in (r"'\xABC'", r"'\xzz'::bytea", r"'a\b'"):
            with pytest.raises(SqlError, match="is no bytea") as caught:
                s.sql(f"INSERT INTO t VALUES (6, {text})")
            assert (caught.value.line, caught.value.column) == (1, 26)


def test_bytes_of_postgres_are_the_same_when_spark_computes_the_row(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Session((tmp_path / "s").as_uri(), spark, "postgres") as s:
        s.sql("CREATE TABLE t (id INT PRIMARY KEY, b BYTEA)")
        s.sql(r"INSERT INTO t VALUES (1 + 0, '\xAABB'), (1 + 1, '\xAA'::bytea)")
        s.sql(r"INSERT INTO t SELECT id + 2, '\xCC' FROM t WHERE b = '\xAA'")
        s.sql(r"UPDATE t SET b = '\xDD' WHERE b IN ('\xAA')")
        assert rows(s, "SELECT id, b FROM t ORDER BY id") == [(1, b"\xaa\xbb"), (2, b"\xdd"), (4, b"\xcc")]


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
def test_plain_updates_and_deletions_of_small_tables_need_no_spark(tmp_path: Path, dialect: str) -> None:
    def no_spark() -> SparkSession:
        raise AssertionError("Spark is not needed")

    with Session((tmp_path / "s").as_uri(), no_spark, dialect) as s:  # type: ignore[arg-type]
        s.sql("CREATE TABLE keyed (id BIGINT PRIMARY KEY, v INT DEFAULT 7, s VARCHAR(3))")
        s.sql("CREATE TABLE bag (k BIGINT, v INT)")
        s.sql("INSERT INTO keyed VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, NULL)")
        s.sql("INSERT INTO bag VALUES (1, 1), (1, 1), (2, 2)")
        s.sql("UPDATE keyed SET v = 5, s = 'x' WHERE id IN (1, 2)")
        s.sql("UPDATE keyed SET id = 4, v = DEFAULT WHERE s IS NULL")
        changed = s.sql("UPDATE bag SET v = NULL WHERE k = 1 AND v < 2 RETURNING *")
        assert changed is not None and changed.to_pylist() == [{"k": 1, "v": None}] * 2
        gone = s.sql("DELETE FROM keyed AS t WHERE t.id = 2 RETURNING s")
        assert gone is not None and gone.to_pylist() == [{"s": "x"}]
        s.sql("DELETE FROM bag WHERE k = 2")
        assert rows(s, "SELECT * FROM keyed ORDER BY id") == [(1, 5, "x"), (4, 7, None)]
        assert rows(s, "SELECT * FROM bag") == [(1, None), (1, None)]
        with pytest.raises(DuplicateKey, match="other rows have"):
            s.sql("UPDATE keyed SET id = 4 WHERE id = 1")
        with pytest.raises(InvalidRow, match="too long"):
            s.sql("UPDATE keyed SET s = 'long' WHERE id = 1")
        s.sql("TRUNCATE TABLE bag")
        assert rows(s, "SELECT * FROM bag") == []
