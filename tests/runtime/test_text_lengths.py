"""VARCHAR(n) and CHAR(n) keep their length in every dialect, whoever writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.connectors.landing.source import LandingSource
from engine.errors import InvalidRow, SqlError
from engine.session import DIALECTS, Session


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Session]:
    """A session over an empty store; no Spark is started."""
    with Session((tmp_path / "store").as_uri()) as opened:
        yield opened


TABLE = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(3), c CHAR(3), s VARCHAR(5) DEFAULT 'x')"


def values(session: Session, columns: str = "v, c") -> list[tuple[Any, ...]]:
    found = session.sql(f"SELECT {columns} FROM t ORDER BY id LIMIT 100")
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("row", ["(2, 'abcd', 'a')", "(2, 'a', 'abcd')", "(2, 'äöüß', 'a')"])
def test_too_long_a_literal_is_refused_at_its_place(store: Session, dialect: str, row: str) -> None:
    store.dialect = dialect  # type: ignore[assignment]
    store.sql(TABLE)
    text = f"INSERT INTO t (id, v, c) VALUES (1, 'abc', 'abc'), {row}"
    with pytest.raises(SqlError, match=r"has 4 characters, column . is (var)?char") as refused:
        store.sql(text)
    assert text[refused.value.column - 1 :].startswith(("'abcd'", "'äöüß'"))
    assert values(store) == []


def test_blanks_that_are_too_much_go_and_those_of_char_mean_nothing(store: Session) -> None:
    store.sql(TABLE)
    store.sql(
        "INSERT INTO t (id, v, c) VALUES (1, 'ab   ', 'ab   '), (2, 'a', 'a'), (3, NULL, NULL), (4, '', '  ')"
    )
    assert values(store) == [("ab ", "ab"), ("a", "a"), (None, None), ("", "")]
    store.write("t", pa.table({"id": [5], "v": ["abc  "], "c": ["a  "]}))
    assert values(store)[-1] == ("abc", "a")


def test_a_key_of_char_is_found_with_and_without_its_blanks(store: Session) -> None:
    store.sql("CREATE TABLE k (c CHAR(4) PRIMARY KEY)")
    store.sql("INSERT INTO k VALUES ('ab  ')")
    with pytest.raises(SqlError, match="keys that exist"):
        store.sql("INSERT INTO k VALUES ('ab')")
    store.write("k", pa.table({"c": ["ab "]}), mode="delete")
    assert store.sql("SELECT c FROM k LIMIT 5").num_rows == 0  # type: ignore[union-attr]


def test_rows_of_arrow_that_are_too_long_are_refused(store: Session) -> None:
    store.sql(TABLE)
    with pytest.raises(InvalidRow, match=r"'abcde' has 5 characters, column v is varchar\(3\); 1 rows"):
        store.write("t", pa.table({"id": [1, 2], "v": ["abc", "abcde"]}))
    assert values(store) == []


def test_a_file_s_row_that_is_too_long_is_a_dead_letter(
    store: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    (tmp_path / "in").mkdir()
    store.sql(f"{TABLE} WITH (connector = 'landing', path = 'in')")
    (tmp_path / "in" / "a.csv").write_text("id,v,c\n1,abc,ab  \n2,abcd,a\n3,a,abcd\n4,abc  ,a\n")
    report = LandingSource.of_relation(store.store, store.catalog.get("t")).poll()
    assert (report.rows, report.dead_rows) == (2, 2)
    store.store.refresh()
    assert values(store) == [("abc", "ab"), ("abc", "a")]
    letters = store.sql("SELECT reason FROM _dead_letter LIMIT 5")
    assert letters is not None
    reasons = " ".join(letters.column("reason").to_pylist())
    assert "column v is varchar(3)" in reasons and "column c is char(3)" in reasons


@pytest.mark.parametrize("dialect", DIALECTS)
def test_lengths_are_shown_and_outlive_an_alter(store: Session, dialect: str) -> None:
    store.dialect = dialect  # type: ignore[assignment]
    store.sql(TABLE)
    store.sql("ALTER TABLE t ADD COLUMN z VARCHAR(2) DEFAULT 'zz'")
    shown = store.sql("DESCRIBE t")
    assert shown is not None
    assert shown.column("type").to_pylist() == ["int", "varchar(3)", "char(3)", "varchar(5)", "varchar(2)"]
    made = store.sql("SHOW CREATE TABLE t")
    assert made is not None and "CHAR(3)" in made.column("create_statement")[0].as_py()
    again = made.column("create_statement")[0].as_py().replace("`t`", "u")
    store.dialect = "spark"
    store.sql(again)
    assert [c.length for c in store.catalog.get("u").columns] == [None, 3, 3, 5, 2]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(3) DEFAULT 'abcd')",
        "ALTER TABLE t ADD COLUMN w VARCHAR(3) DEFAULT 'abcd'",
        "CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(0))",
        "CREATE TABLE u (id INT PRIMARY KEY, v ARRAY<VARCHAR(3)>)",
    ],
)
def test_a_length_that_cannot_be_kept_is_refused_with_its_place(store: Session, statement: str) -> None:
    store.sql(TABLE)
    with pytest.raises(SqlError) as refused:
        store.sql(statement)
    assert refused.value.line == 1 and refused.value.column > 1
    assert list(store.catalog.relations) == ["t"]


def test_values_that_spark_computes_are_held_to_the_length_too(session: Session) -> None:
    session.dialect = "postgres"
    session.sql(TABLE.replace("'x'", "concat('x', 'y')"))
    session.sql("INSERT INTO t (id, v) SELECT 1, concat('a', 'b')")
    with pytest.raises(InvalidRow, match="'abcd' has 4 characters"):
        session.sql("INSERT INTO t (id, v) SELECT 2, concat('ab', 'cd')")
    text = "UPDATE t SET v = v || 'cd' WHERE id = 1"
    with pytest.raises(SqlError, match="'abcd' has 4 characters") as refused:
        session.sql(text)
    assert text[refused.value.column - 1 :].startswith("v = ")
    session.sql("UPDATE t SET v = CAST(v || 'cd' AS VARCHAR(3)) WHERE id = 1")
    assert values(session, "v, s") == [("abc", "xy")]
