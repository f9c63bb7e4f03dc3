"""Spark SQL -> tree -> Spark SQL: precedence as Spark has it, and nothing lost."""

from __future__ import annotations

import pytest

from engine.sql.expression.nodes import (
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Comparison,
    IsNull,
    Lambda,
    Literal,
    Not,
    Or,
    Variable,
    Word,
)
from engine.sql.expression.parser import Unreadable, parse_expression
from engine.sql.expression.spark_sql import render_spark_sql

A, B, C = Column("a"), Column("b"), Column("c")

PRINTED = [
    ("`a` + `b` * `c`", "`a` + `b` * `c`"),
    ("(`a` + `b`) * `c`", "(`a` + `b`) * `c`"),
    ("(((`a`)))", "`a`"),
    ("`a` - (`b` - `c`)", "`a` - (`b` - `c`)"),
    ("`a` - `b` - `c`", "`a` - `b` - `c`"),
    ("- (- `a`)", "-(-`a`)"),
    ("-(2147483648) * -2 * (2)", "-(+2147483648) * -2 * 2"),
    ("NOT (`a` AND `b`) OR `c`", "NOT (`a` AND `b`) OR `c`"),
    ("(`a` OR `b`) AND `c`", "(`a` OR `b`) AND `c`"),
    ("NOT `a` IS NULL", "`a` IS NOT NULL"),
    ("`a` IS NOT DISTINCT FROM `b`", "`a` <=> `b`"),
    ("`a` IS DISTINCT FROM `b`", "NOT `a` <=> `b`"),
    ("(`a` = `b`) IS NOT TRUE", "(`a` = `b`) IS NOT TRUE"),
    ("NOT `a` IN (1, 2)", "`a` NOT IN (1, 2)"),
    ("`a` BETWEEN 1 AND 2 AND `b`", "`a` BETWEEN 1 AND 2 AND `b`"),
    ("`a` NOT LIKE 'x!%' ESCAPE '!'", "`a` NOT LIKE 'x!%' ESCAPE '!'"),
    ("`a` LIKE ANY ('x', 'y')", "`a` LIKE ANY ('x', 'y')"),
    ("CASE `a` WHEN 1 THEN 'x' ELSE NULL END", "CASE `a` WHEN 1 THEN 'x' ELSE NULL END"),
    ("CAST(`a` AS DECIMAL(10, 2))", "CAST(`a` AS DECIMAL(10,2))"),
    ("TRY_CAST(`a` AS STRUCT<X: INT, y: ARRAY<INT>>)", "TRY_CAST(`a` AS STRUCT<X:INT,y:ARRAY<INT>>)"),
    ("`a`::bigint", "CAST(`a` AS BIGINT)"),
    ("DATE '2026-01-31'", "CAST('2026-01-31' AS DATE)"),
    ("1L + 2.5 + 1e3 + 1BD + 2S", "1L + 2.5 + 1e3 + 1BD + 2S"),
    ("X'0aff'", "X'0AFF'"),
    ("INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1-2' YEAR TO MONTH"),
    ("`a` + INTERVAL '1' DAY AND `b`", "`a` + INTERVAL '1' DAY AND `b`"),
    ("EXTRACT(YEAR FROM `a`)", "EXTRACT(YEAR FROM `a`)"),
    ("TRIM(LEADING 'x' FROM `a`)", "TRIM(LEADING 'x' FROM `a`)"),
    ("TRIM('x' FROM `a`)", "TRIM(BOTH 'x' FROM `a`)"),
    ("TRIM(`a`)", "trim(`a`)"),
    ("DATEDIFF(DAY, `a`, `b`)", "datediff(DAY, `a`, `b`)"),
    ("COUNT(*) FILTER(WHERE `a`)", "count(*) FILTER (WHERE `a`)"),
    ("count(DISTINCT `a`, `b`)", "count(DISTINCT `a`, `b`)"),
    (
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY `a` DESC)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY `a` DESC)",
    ),
    ("STRUCT(1 AS x, `a` AS `b c`)", "struct(1 AS `x`, `a` AS `b c`)"),
    ("`a`[0].`b`['k']", "`a`[0].`b`['k']"),
    ("(`a` || `b`)[0]", "(`a` || `b`)[0]"),
    ("transform(`xs`, x -> x + `a`)", "transform(`xs`, x -> x + `a`)"),
    (
        "array_sort(`xs`, (_l, _r) -> CASE WHEN _l.`v` < _r.`v` THEN -1 ELSE 1 END)",
        "array_sort(`xs`, (_l, _r) -> CASE WHEN _l.`v` < _r.`v` THEN -1 ELSE 1 END)",
    ),
    ("`a` COLLATE UNICODE", "collate(`a`, 'UNICODE')"),
    ("`a` COLLATE 'UNICODE'", "collate(`a`, 'UNICODE')"),
    ("OVERLAY(`a` PLACING 'x' FROM 2 FOR 1)", "overlay(`a`, 'x', 2, 1)"),
    ("CURRENT_DATE", "current_date()"),
    ("`odd``name`", "`odd``name`"),
    (r"'it\'s' || '\\d' || '\n'", "'it\\'s' || '\\\\d' || '\n'"),
    ("'it''s /* ` */ -- '", "'it\\'s /* ` */ -- '"),
]


@pytest.mark.parametrize(("text", "printed"), PRINTED, ids=[text for text, _ in PRINTED])
def test_an_expression_is_printed_with_the_parentheses_it_needs(text: str, printed: str) -> None:
    assert render_spark_sql(parse_expression(text)) == printed
    assert parse_expression(printed) == parse_expression(text)


def test_the_operators_bind_as_in_sparks_grammar() -> None:
    one = Literal("1")
    assert parse_expression("a + 1 = b AND NOT b IS NULL OR c") == Or(
        (And((Comparison("=", Arithmetic("+", (A, one)), B), Not(IsNull(B)))), C)
    )
    assert parse_expression("a = b IS NULL") == IsNull(Comparison("=", A, B))
    assert parse_expression("a & 1 = b") == Comparison("=", Arithmetic("&", (A, one)), B)


def test_conditions_that_stand_in_one_row_are_one_node() -> None:
    assert parse_expression("a AND (b AND c)") == And((A, B, C)) == parse_expression("(a AND b) AND c")


def test_only_columns_are_read_not_variables_keywords_or_texts() -> None:
    found = parse_expression("transform(`xs`, x -> x + `a` + datediff(DAY, `b`, '`c`'))")
    assert found.columns == ("xs", "a", "b")
    assert Variable("x") not in (A, B)
    assert parse_expression("x -> x") == Lambda(("x",), Variable("x"))
    assert parse_expression("datediff(DAY, a, b)") == Call("datediff", (Word("DAY"), A, B))
    assert parse_expression("datediff(a, b)") == Call("datediff", (A, B))


def test_a_text_in_a_comment_like_shape_stays_a_text() -> None:
    assert parse_expression("'-- no comment'") == Literal("-- no comment", "string")


def test_functions_are_told_apart_without_regard_to_case() -> None:
    assert parse_expression("UPPER(a)") == parse_expression("upper(a)") == Call("upper", (A,))
    assert parse_expression("cast(a AS bigint)") == Cast(A, "bigint")


@pytest.mark.parametrize(
    "text", ["a +", "f(a", "a b", "row_number() OVER (ORDER BY a)", "'open", "", "a IS b"]
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(Unreadable, match="no expression of Spark SQL"):
        parse_expression(text)


@pytest.mark.parametrize(
    "text", ["(" * 500 + "a" + ")" * 500, "-(" * 300 + "a" + ")" * 300, " + a - ".join(["a"] * 300)]
)
def test_what_is_nested_too_deeply_is_refused_before_it_is_stored(text: str) -> None:
    with pytest.raises(RecursionError):
        parse_expression(text)


def test_a_long_condition_or_sum_is_not_nested() -> None:
    for text in (" OR ".join(f"`a` = {n}" for n in range(2000)), " || ".join(["`a`"] * 2000)):
        assert render_spark_sql(parse_expression(text)) == text
