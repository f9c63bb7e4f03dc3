"""What is done with trees: columns replaced, holes filled, errors made null, and which columns must have values."""

from __future__ import annotations

import pytest

from engine.sql.expression.nodes import Column, Literal, annotate
from engine.sql.expression.null_on_error import guard_expression
from engine.sql.expression.null_rejection import find_strict_columns
from engine.sql.expression.parser import parse_expression
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.expression.substitute import substitute
from engine.sql.expression.template import build_struct, combine_conditions, fill_template, join_conditions


def test_a_column_is_replaced_by_what_computes_it_but_not_a_text_nor_a_variable() -> None:
    tree = parse_expression("transform(`xs`, x -> x + `y`) || 'it''s `y`'")
    replaced = substitute(tree, {"x": parse_expression("`b`"), "y": parse_expression("`a` + 1")})
    assert render_spark_sql(replaced) == "transform(`xs`, x -> x + (`a` + 1)) || 'it\\'s `y`'"


def test_replacing_keeps_what_is_known_of_the_whole() -> None:
    tree = annotate(parse_expression("`x` + 1"), type="int", position=(2, 5))
    found = substitute(tree, {"x": Column("y")})
    assert (found.type, found.position) == ("int", (2, 5))


def test_a_constant_put_for_a_column_keeps_the_columns_type_in_arithmetic() -> None:
    tree = parse_expression("`m` * -`x` + `y` / `z` > `x`")
    by = {"x": parse_expression("2"), "y": parse_expression("-2147483648"), "z": parse_expression("1.5")}
    expected = "`m` * -CAST(2 AS INT) + CAST(-2147483648 AS INT) / 1.5 > 2"
    assert render_spark_sql(substitute(tree, by)) == expected
    assert substitute(Column("x"), by) == Literal("2")
    beyond = substitute(parse_expression("`a` < `x`"), {"x": parse_expression("-9223372036854775809")})
    assert render_spark_sql(beyond) == "`a` < CAST(-9223372036854775809 AS DECIMAL(19,0))"


def test_a_template_is_filled_with_trees() -> None:
    found = fill_template(":x * :y > :x", x=parse_expression("`a` + 1"), y=Literal("2"))
    assert render_spark_sql(found) == "(`a` + 1) * 2 > `a` + 1"


def test_a_template_with_a_hole_that_nothing_fills_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        fill_template(":x + :y", x=Column("a"))


def test_conditions_are_joined_to_one() -> None:
    a, b, c = (Column(name) for name in "abc")
    assert join_conditions([]) is None
    assert (
        render_spark_sql(
            combine_conditions(parse_expression("`a` OR `b`"), None, parse_expression("`b` AND `c`"))
        )
        == "(`a` OR `b`) AND `b` AND `c`"
    )
    assert combine_conditions(a, combine_conditions(b, c)) == combine_conditions(a, b, c)
    assert render_spark_sql(build_struct([("v", a)])) == "named_struct('v', `a`)"


FAILING = [
    ("`a` / `b` + 1", "try_add(try_divide(`a`, `b`), 1)"),
    ("CAST(`a` AS INT) % 2", "try_mod(TRY_CAST(`a` AS INT), 2)"),
    ("(`a` - `b`) DIV (`c` + 1)", "try_subtract(`a`, `b`) DIV nullif(try_add(`c`, 1), 0)"),
    (
        "-`a` * -1",
        "try_multiply(CASE WHEN try_multiply(`a`, -1Y) IS NOT NULL THEN -`a` END, -1)",
    ),
    ("`a` + (-INTERVAL '1' DAY)", "try_add(`a`, -INTERVAL '1' DAY)"),
    ("element_at(`xs`, 1)", "try_element_at(`xs`, 1)"),
    ("to_date(`s`) IS NULL", "try_to_date(`s`) IS NULL"),
    ("upper(`s`) || 'a/b'", "upper(`s`) || 'a/b'"),
]


@pytest.mark.parametrize(("text", "safe"), FAILING, ids=[text for text, _ in FAILING])
def test_what_fails_on_a_row_becomes_null_there(text: str, safe: str) -> None:
    assert render_spark_sql(guard_expression(parse_expression(text))) == safe


STRICT = [
    ("`a` < `b` + 1", {"a", "b"}),
    ("coalesce(`a`, 1) < `b`", {"b"}),
    ("`a` <=> `b`", set()),
    ("`a` IS NULL", set()),
    ("`a` < 1 OR `b` < 1", set()),
    ("`a`", {"a"}),
]


@pytest.mark.parametrize(("text", "columns"), STRICT, ids=[text for text, _ in STRICT])
def test_a_comparison_of_plain_values_needs_all_of_them(text: str, columns: set[str]) -> None:
    assert find_strict_columns(parse_expression(text)) == columns


def test_an_operand_needs_the_columns_that_arithmetic_reads() -> None:
    assert find_strict_columns(parse_expression("`a` * (`b` - 1)"), operand=True) == {"a", "b"}
    assert find_strict_columns(parse_expression("`a` + coalesce(`b`, 0)"), operand=True) == set()
