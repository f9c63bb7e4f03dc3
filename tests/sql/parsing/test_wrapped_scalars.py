"""`aggregate:f(…)`: a function of an array over the values of a group."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.statements.reader import parse_statement


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        ("aggregate:f(x)", "F(ARRAY_AGG(x))"),
        ("aggregate:f(x ORDER BY y DESC)", "F(ARRAY_AGG(x ORDER BY y DESC))"),
        ("aggregate:f(DISTINCT x) FILTER (WHERE x > (1))", "F(ARRAY_AGG(DISTINCT x) FILTER(WHERE x > (1)))"),
        ("g(aggregate:f(h(x)), aggregate:f(y)) + 1", "G(F(ARRAY_AGG(h(x))), F(ARRAY_AGG(y))) + 1"),
    ],
)
def test_it_is_a_call_with_the_array_of_the_values(call: str, meant: str) -> None:
    found = parse_tree(f"SELECT {call} FROM t", "risingwave").selects[0]
    assert found.sql("postgres").lower() == meant.lower()


def test_without_a_call_it_is_no_statement() -> None:
    with pytest.raises(SqlError, match=":f has no value"):
        parse_statement("SELECT aggregate:f FROM t", "risingwave")
