"""ON CONFLICT … WITH VERSION COLUMN: an older row changes nothing, whoever brings it and however many rows there are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import SqlError, UnsupportedSql
from engine.runtime.writes import driver_rows
from engine.session import Session

DIALECTS = ("spark", "postgres", "risingwave")
FULL = "ON CONFLICT DO UPDATE FULL WITH VERSION COLUMN (v)"


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Session]:
    """A session that starts no Spark."""

    def no_spark() -> None:
        raise AssertionError("Spark was started")

    with Session(tmp_path.as_uri(), no_spark, dialect="risingwave") as session:
        yield session


def _rows(session: Session, text: str = "SELECT * FROM t") -> list[tuple]:
    found = session.sql(text)
    assert found is not None
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_a_row_of_a_lesser_version_is_left_out_and_an_equal_one_is_taken(alone: Session) -> None:
    alone.sql(f"CREATE TABLE t (k INT PRIMARY KEY, a TEXT, v INT) {FULL}")
    for a, v in (("first", 2), ("older", 1), ("equal", 2), ("newer", 3), ("none", "NULL")):
        alone.sql(f"INSERT INTO t VALUES (1, '{a}', {v})")
    assert _rows(alone) == [(1, "newer", 3)]


def test_rows_of_one_statement_are_compared_with_each_other(alone: Session) -> None:
    alone.sql(f"CREATE TABLE t (k INT PRIMARY KEY, a TEXT, v INT) {FULL}")
    alone.sql(
        "INSERT INTO t VALUES (1, 'b', 2), (1, 'a', 1), (2, 'c', NULL), (2, 'd', NULL), (3, 'e', 1), (3, 'f', 1)"
    )
    assert _rows(alone) == [(1, "b", 2), (2, "d", None), (3, "f", 1)]


def test_nulls_of_a_newer_row_keep_what_was_there_if_the_table_says_so(alone: Session) -> None:
    alone.sql(
        "CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT, v INT) "
        "ON CONFLICT DO UPDATE IF NOT NULL WITH VERSION COLUMN (v)"
    )
    alone.sql("INSERT INTO t VALUES (1, 5, NULL, 2), (1, NULL, 6, 2), (1, 7, 7, 1)")
    alone.sql("INSERT INTO t VALUES (1, 8, NULL, 3)")
    assert _rows(alone) == [(1, 8, 6, 3)]


ARRIVALS = {
    "an older row of the statement": [(1, None, 1), (1, 6, 3)],
    "older rows alone": [(7, 7, 1), (8, 8, 0)],
    "an equal and an older one": [(None, 6, 2), (9, 9, 1)],
    "no version": [(3, 3, None), (None, 4, 2)],
    "a new key": [(3, None, 1), (None, 4, 0), (None, 5, 1)],
}


@pytest.mark.parametrize("name", ARRIVALS)
@pytest.mark.parametrize("rule", ["FULL", "IF NOT NULL"])
def test_rows_of_one_statement_give_what_they_give_one_by_one(alone: Session, rule: str, name: str) -> None:
    key = 2 if name == "a new key" else 1
    schema = pa.schema({column: pa.int32() for column in ("k", "a", "b", "v")})
    for table in ("t", "u"):
        clause = f"ON CONFLICT DO UPDATE {rule} WITH VERSION COLUMN (v)"
        alone.sql(f"CREATE TABLE {table} (k INT PRIMARY KEY, a INT, b INT, v INT) {clause}")
        alone.sql(f"INSERT INTO {table} VALUES (1, 5, 5, 2)")
    rows = [dict(zip(schema.names, (key, *row), strict=True)) for row in ARRIVALS[name]]
    alone.write("t", pa.Table.from_pylist(rows, schema), mode="insert")
    for row in rows:
        alone.write("u", pa.Table.from_pylist([row], schema), mode="insert")
    assert _rows(alone) == _rows(alone, "SELECT * FROM u")


def test_several_version_columns_are_compared_one_after_the_other(alone: Session) -> None:
    alone.sql(
        "CREATE TABLE t (k INT PRIMARY KEY, at DATE, s TEXT, a INT) "
        "ON CONFLICT DO UPDATE FULL WITH VERSION COLUMN (at, s)"
    )
    for at, s, a in (
        ("2024-01-02", "b", 1),
        ("2024-01-01", "z", 2),
        ("2024-01-02", "a", 3),
        ("2024-01-02", "c", 4),
    ):
        alone.sql("INSERT INTO t VALUES (1, CAST(? AS DATE), ?, ?)", [at, s, a])
    assert [(s, a) for _, _, s, a in _rows(alone)] == [("c", 4)]


@pytest.mark.parametrize("known", [False, True])
def test_versions_may_be_times_that_python_has_not(alone: Session, known: bool) -> None:
    alone.sql(f"CREATE TABLE t (k BIGINT PRIMARY KEY, a TEXT, v DATE) {FULL}")
    days = pa.array([4_000_000, 4_000_002, 4_000_001, 0], pa.int32()).cast(pa.date32())
    rows = pa.table({"k": [1] * 4, "a": ["far", "farthest", "between", "near"], "v": days})
    for start in range(0, 4, 1 if known else 4):
        alone.write("t", rows.slice(start, 1 if known else 4), mode="insert")
    found = alone.sql("SELECT a FROM t")
    assert found is not None and found.to_pylist() == [{"a": "farthest"}]


def test_what_arrow_writes_as_an_insert_is_compared_too(alone: Session) -> None:
    alone.sql(f"CREATE TABLE t (k INT PRIMARY KEY, v INT) {FULL}")
    for v in (3, 2):
        alone.write(
            "t", pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([v], pa.int32())}), mode="insert"
        )
    assert _rows(alone) == [(1, 3)]


def test_rows_of_a_sink_are_compared_too(alone: Session) -> None:
    alone.sql(f"CREATE TABLE t (k INT PRIMARY KEY, v INT) {FULL}; CREATE TABLE s (k INT PRIMARY KEY, v INT)")
    alone.sql("INSERT INTO t VALUES (1, 5), (2, 5); CREATE SINK c INTO t FROM s")
    alone.sql("INSERT INTO s VALUES (1, 4), (2, 6); FLUSH")
    assert _rows(alone) == [(1, 5), (2, 6)]


def test_a_version_column_stays_under_another_name(alone: Session) -> None:
    alone.sql(f"CREATE TABLE t (k INT PRIMARY KEY, v INT) {FULL}; ALTER TABLE t RENAME COLUMN v TO w")
    alone.sql("INSERT INTO t VALUES (1, 5); INSERT INTO t VALUES (1, 4)")
    assert _rows(alone) == [(1, 5)]
    with pytest.raises(SqlError, match="ordered by their version in w"):
        alone.sql("ALTER TABLE t DROP COLUMN w")
    found = alone.sql("SHOW CREATE TABLE t")
    assert found is not None
    assert "ON CONFLICT OVERWRITE WITH VERSION COLUMN (`w`)" in found.to_pylist()[0]["create_statement"]


def test_many_rows_are_compared_by_tasks_as_few_are(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(3)
    rows = [(chance.randrange(40), chance.choice([None, 1, 2, 3]), n) for n in range(300)]
    session.sql("CREATE TABLE source (n BIGINT PRIMARY KEY, k BIGINT, v BIGINT)")
    columns = {"n": [n for *_, n in rows], "k": [k for k, *_ in rows], "v": [v for _, v, _ in rows]}
    session.write("source", pa.table({name: pa.array(given, pa.int64()) for name, given in columns.items()}))
    session.sql(f"CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT, n BIGINT) {FULL}")
    session.sql("INSERT INTO t SELECT k, 2, -1 FROM source WHERE k < 20 GROUP BY k")
    monkeypatch.setenv(driver_rows.SETTING, "0")
    session.sql("INSERT INTO t SELECT k, v, max(n) FROM source GROUP BY k, v")
    groups: dict[int, dict[int, int]] = {k: {2: -1} for k, *_ in rows if k < 20}
    for k, v, n in rows:
        known = groups.setdefault(k, {})
        known[v or 0] = max(n, known.get(v or 0, -1))
    assert _rows(session) == [
        (k, max(found) or None, found[max(found)]) for k, found in sorted(groups.items())
    ]


def test_tasks_hold_each_row_against_the_stored_one(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    clause = "ON CONFLICT DO UPDATE IF NOT NULL WITH VERSION COLUMN (v, w)"
    session.sql(f"CREATE TABLE t (k INT PRIMARY KEY, a INT, v INT, w INT) {clause}")
    session.sql("INSERT INTO t VALUES (1, 5, 4, 9), (2, 5, 4, 9), (3, 5, 4, 9)")
    session.sql("CREATE TABLE source (k INT, a INT, v INT, w INT)")
    session.sql(
        "INSERT INTO source VALUES (1, 6, 3, 0), (1, NULL, 5, NULL), (2, 7, 1, 1), (2, 8, 2, 2), (4, 1, 1, 1)"
    )
    monkeypatch.setenv(driver_rows.SETTING, "0")
    session.sql("INSERT INTO t SELECT * FROM source")
    assert _rows(session) == [(1, 5, 5, 9), (2, 5, 4, 9), (3, 5, 4, 9), (4, 1, 1, 1)]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("columns", "clause", "says", "place"),
    [
        (
            "k INT PRIMARY KEY, v INT",
            "DO UPDATE FULL WITH VERSION COLUMN (w)",
            "there is no column w",
            (2, 49),
        ),
        (
            "k INT PRIMARY KEY, v BOOLEAN",
            "DO UPDATE FULL WITH VERSION COLUMN (v)",
            "column v is boolean, which gives versions no order",
            (2, 49),
        ),
        (
            "k INT PRIMARY KEY, v INT",
            "DO NOTHING WITH VERSION COLUMN (v)",
            "needs no VERSION COLUMN",
            (1, 14),
        ),
        (
            "k INT PRIMARY KEY, v INT",
            "DO UPDATE FULL WITH VERSION COLUMN",
            "needs columns in parentheses",
            (2, 28),
        ),
    ],
)
def test_a_wrong_version_column_is_told_with_its_place(
    alone: Session, dialect: str, columns: str, clause: str, says: str, place: tuple[int, int]
) -> None:
    alone.dialect = dialect  # type: ignore[assignment]
    with pytest.raises((SqlError, UnsupportedSql), match=says) as caught:
        alone.sql(f"CREATE TABLE t ({columns})\nON CONFLICT {clause}")
    assert (caught.value.line, caught.value.column) == place


def test_a_document_is_no_version(alone: Session) -> None:
    with pytest.raises(SqlError, match="column v is a document"):
        alone.sql(f"CREATE TABLE t (k INT PRIMARY KEY, v JSONB) {FULL}")
