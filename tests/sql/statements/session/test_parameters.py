"""Values for the parameters of a statement: where each goes, what literal it becomes, and which have no place."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import sqlglot.expressions as exp

from engine.errors import SqlError, UnsupportedSql
from engine.sql.statements import reader as st
from engine.sql.statements.session.parameters import build_literal
from engine.sql.statements.statement_types import Insert, Select

DIALECTS = ("spark", "postgres", "risingwave")


def _written(text: str, dialect: str, values: Any) -> str:
    found = st.parse_statement(text, dialect, values)
    assert isinstance(found, Select)
    return found.query.sql(dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_question_marks_take_values_in_the_order_of_the_text(dialect: str) -> None:
    text = "SELECT ? AS a, b FROM t WHERE c IN (?, ?) AND d = ? ORDER BY b LIMIT ? OFFSET ?"
    shown = "SELECT 1 AS a, b FROM t WHERE c IN (2, 3) AND d = 'x' ORDER BY b"
    assert _written(text, dialect, [1, 2, 3, "x", 5, 6]).startswith(shown)
    found = st.parse_statement(text, dialect, [1, 2, 3, "x", 5, 6])
    assert isinstance(found, Select)
    assert [found.query.args[part].expression.name for part in ("limit", "offset")] == ["5", "6"]


def test_an_offset_before_a_limit_takes_the_first_value() -> None:
    found = st.parse_statement("SELECT a FROM t OFFSET ? LIMIT ?", "postgres", [1, 2])
    assert isinstance(found, Select)
    assert [found.query.args[part].expression.name for part in ("limit", "offset")] == ["2", "1"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_numbers_and_names_may_stand_several_times(dialect: str) -> None:
    assert _written("SELECT $2, $1, $2", dialect, [1, 2]) == "SELECT 2, 1, 2"
    assert _written("SELECT :b, :a, :b", dialect, {"a": 1, "b": 2}) == "SELECT 2, 1, 2"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("SELECT a FROM t WHERE b IN ($1,$2)", "SELECT a FROM t WHERE b IN (1, 2)"),
        ("SELECT $1,$2", "SELECT 1, 2"),
        ("SELECT f($1)+g($2)", "SELECT F(1) + G(2)"),
        ("SELECT '$1,$2', $1+$2", "SELECT '$1,$2', 1 + 2"),
        ("SELECT a FROM t WHERE b=$1 AND(c=$2)", "SELECT a FROM t WHERE b = 1 AND (c = 2)"),
        ("SELECT a FROM t WHERE b BETWEEN $1 AND $2", "SELECT a FROM t WHERE b BETWEEN 1 AND 2"),
    ],
)
def test_numbers_may_stand_side_by_side(dialect: str, text: str, written: str) -> None:
    assert _written(text, dialect, [1, 2]) == written
    assert _written(f"{text}\n", dialect, [1, 2]) == written


def test_a_text_in_dollars_keeps_what_looks_like_a_parameter() -> None:
    for dialect in ("postgres", "risingwave"):
        assert _written("SELECT $$ $1,$2 $$, $a$,$1$a$, $1,$2", dialect, [1, 2]) == (
            "SELECT ' $1,$2 ', ',$1', 1, 2"
        )
        assert _written("SELECT a$1,$1", dialect, [7]).endswith(", 7")


def test_a_cast_right_behind_a_question_mark_is_a_cast() -> None:
    assert (
        _written("SELECT ?::int, ?::text", "postgres", ["7", 1]) == "SELECT CAST('7' AS INT), CAST(1 AS TEXT)"
    )


def test_a_question_mark_in_a_text_or_as_an_operator_is_no_parameter() -> None:
    assert _written("SELECT '?', j ? 'k', ?", "postgres", [1]) == "SELECT '?', j ? 'k', 1"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dml_takes_values(dialect: str) -> None:
    found = st.parse_statement("INSERT INTO t VALUES (?, ?), (?, ?)", dialect, [1, "it's; $1", None, True])
    assert isinstance(found, Insert)
    rows = [[part.to_py() for part in row.expressions] for row in found.rows.expressions]
    assert rows == [[1, "it's; $1"], [None, True]]
    st.parse_statement("UPDATE t SET a = $1 WHERE b = $2", dialect, [1, 2])
    st.parse_statement("DELETE FROM t WHERE b = $1", dialect, [1])
    st.parse_statement("EXPLAIN SELECT $1", dialect, [1])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (-5, "(-5)"),
        (2.5, "CAST('2.5' AS DOUBLE PRECISION)"),
        (float("inf"), "CAST('Infinity' AS DOUBLE PRECISION)"),
        (Decimal("1E+3"), "1000"),
        (Decimal("-0.10"), "(-0.10)"),
        ("o'clock \\ ", "'o''clock \\ '"),
        (b"\x00\xff", "x'00FF'"),
        (uuid.UUID(int=1), "'00000000-0000-0000-0000-000000000001'"),
        (datetime.date(2024, 2, 29), "CAST('2024-02-29' AS DATE)"),
        (datetime.datetime(2024, 2, 29, 1, 2, 3, 4), "CAST('2024-02-29 01:02:03.000004' AS TIMESTAMP)"),
        (
            datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
            "CAST('2024-02-28 23:00:00+00:00' AS TIMESTAMPTZ)",
        ),
        (datetime.time(1, 2), "CAST('01:02:00' AS TIME)"),
        (datetime.timedelta(days=1, microseconds=1), "INTERVAL '86400.000001 SECOND'"),
        ([1, None, "x"], "ARRAY[1, NULL, 'x']"),
        (pa.scalar(7), "7"),
    ],
)
def test_each_type_has_its_literal(value: Any, written: str) -> None:
    found = build_literal(value, "postgres")
    assert found is not None
    assert found.sql("postgres").lower() == written.lower()


def test_a_moment_keeps_its_meaning_in_spark() -> None:
    for value, kind in (
        (datetime.datetime(2024, 1, 1), exp.DType.TIMESTAMPNTZ),
        (datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), (exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPTZ)),
    ):
        found = build_literal(value, "spark")
        assert isinstance(found, exp.Cast)
        assert found.to.this in (kind if isinstance(kind, tuple) else (kind,))


@pytest.mark.parametrize(
    ("text", "values", "says", "place"),
    [
        ("SELECT a,\n ? FROM t", None, "? has no value", (2, 2)),
        ("SELECT a FROM t WHERE b = ? AND c = ?", [1], "? has no value", (1, 37)),
        ("SELECT ?", [], "? has no value", (1, 8)),
        ("SELECT ?", [1, 2], "value 2 has no place in the statement", (1, 1)),
        ("SELECT a FROM t", [1], "value 1 has no place in the statement", (1, 1)),
        ("SELECT :a", {"a": 1, "b": 2}, ":b has no place in the statement", (1, 1)),
        ("SELECT :a", [1], ":a and the values are of two kinds", (1, 8)),
        ("SELECT ?", {"a": 1}, "? and the values are of two kinds", (1, 8)),
        ("SELECT ?, ?", [1, object()], "? is of the type object", (1, 11)),
        ("SELECT ?", "x", "the values are neither a list nor a mapping", (1, 1)),
        ("SHOW TABLES", [1], "this statement takes no values", (1, 1)),
        ("CREATE VIEW v AS SELECT ? AS a", [1], "? has no value here", (1, 25)),
    ],
)
def test_what_has_no_place_is_told_at_its_place(
    text: str, values: Any, says: str, place: tuple[int, int]
) -> None:
    for dialect in DIALECTS:
        with pytest.raises(SqlError) as caught:
            st.parse_statement(text, dialect, values)
        assert caught.value.message == says
        assert (caught.value.line, caught.value.column) == place


def test_numbers_that_nobody_gave_are_told() -> None:
    with pytest.raises(SqlError, match=r"\$3 has no value"):
        st.parse_statement("SELECT $1, $3", "postgres", [1, 2])
    with pytest.raises(SqlError, match=r"value 2 has no place"):
        st.parse_statement("SELECT $1, $3", "postgres", [1, 2, 3])
    with pytest.raises(SqlError, match=r"\? and \$1 are used in one statement"):
        st.parse_statement("SELECT ?, $1", "postgres", [1, 2])
    with pytest.raises(UnsupportedSql, match=r"\$1 has no value here"):
        st.parse_statement("CREATE MATERIALIZED VIEW v AS SELECT a FROM t WHERE b = $1", "postgres", [1])
