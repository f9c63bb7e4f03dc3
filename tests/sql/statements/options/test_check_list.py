"""The option `checks`, read: what stands between semicolons, names, severities, and what is refused with its place."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.statements.options.check_list import MOST_CHECKS, locate_in_statement, parse_checks


def statement(text: str) -> str:
    literal = text.replace("'", "''")
    return f"CREATE MATERIALIZED VIEW v\nWITH (checks = '{literal}') AS SELECT 1 AS a"


def test_each_kind_is_read_with_its_name_severity_and_place() -> None:
    text = "not_null(a, \"B\"); accepted(s, 'x;', 'y') warn; n >= 0;\n big: f(a) OR g(b) ERROR; all: SELECT ';' FROM v ;"
    found = parse_checks(text, statement(text))
    assert [(one.name, one.word, one.text, one.severity) for one in found] == [
        ("not_null_a_B", "not_null", 'not_null(a, "B")', "error"),
        ("accepted_s", "accepted", "accepted(s, 'x;', 'y')", "warn"),
        ("check_3", "", "n >= 0", "error"),
        ("big", "", "f(a) OR g(b)", "error"),
        ("all", "select", "SELECT ';' FROM v", "error"),
    ]
    assert found[0].columns == ("a", "B") and found[1].columns == ("s",)
    assert found[1].condition == "'x;', 'y'" and text[found[1].place :].lstrip().startswith("'x;'")
    assert all(text[one.place :].startswith(one.text) for one in found[2:])


def test_what_looks_like_a_name_or_a_severity_and_is_none_is_a_condition() -> None:
    found = parse_checks("a::int > 3; warn > 1; unique(a) = b; (n = warn)", "")
    assert [(one.word, one.condition, one.severity) for one in found] == [
        ("", "a::int > 3", "error"),
        ("", "warn > 1", "error"),
        ("", "unique(a) = b", "error"),
        ("", "(n = warn)", "error"),
    ]


def test_a_place_is_found_behind_doubled_quotes() -> None:
    text = "s IN ('x', 'y'); n >"
    sql = statement(text)
    assert sql[locate_in_statement(text.index("n >"), text, sql) :].startswith("n >")


WRONG = [
    ("", "says no check", 1),
    (" ; ;", "says no check", 1),
    ("a: ", "check a says nothing", 1),
    ("not_nul(a)", "there is no check not_nul", 1),
    ("n > 0; uniqe(a)", "there is no check uniqe", 8),
    ("not_null()", "not_null takes names of columns", 1),
    ("unique(a, 3)", "unique takes names of columns", 1),
    ("unique(a,)", "unique takes names of columns", 1),
    ("accepted(a)", "accepted needs a column and its values", 1),
    ("falls_at_most(2)", r"falls_at_most\(2\) names no share", 15),
    ("falls_at_most(half)", r"falls_at_most\(half\) names no share", 15),
    ("n > 0; (n", "a parenthesis without its end", 8),
    ("n > 0)", "closes a parenthesis that is not open", 6),
    ("s <> 'x", "a quote without its end", 6),
    ("a: n > 0; A: n > 1", "two checks are named A", 11),
    ("unique(a); unique(a)", "two checks are named unique_a", 12),
    ("pandera: n > 0", "cannot be named pandera", 1),
]


@pytest.mark.parametrize(("text", "says", "column"), WRONG)
def test_a_wrong_check_is_refused_with_its_place_and_what_to_do(text: str, says: str, column: int) -> None:
    sql = statement(text)
    with pytest.raises(SqlError, match=says) as error:
        parse_checks(text, sql)
    quotes = text[: column - 1].count("'")
    assert (error.value.line, error.value.column) == (2, len("WITH (checks = '") + column + quotes)
    assert error.value.hint


def test_a_view_has_so_many_checks_at_most() -> None:
    text = "; ".join(f"n > {n}" for n in range(MOST_CHECKS))
    assert len(parse_checks(text, "")) == MOST_CHECKS
    with pytest.raises(SqlError, match="has 60 checks at most, not 61"):
        parse_checks(text + "; n > -1", "")
