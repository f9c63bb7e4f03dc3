"""CREATE FUNCTION and CREATE AGGREGATE are read in all dialects, with bodies in quotes and in dollars."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import SqlError, UnsupportedSql
from engine.sql.statements.ddl.create_function import build_definition
from engine.sql.statements.reader import Drop, parse_statement, split_statements
from engine.sql.statements.statement_types import CreateFunction

BODY = "\ndef f(a):\n    x = '\\n; it''s' + \"--no comment\"  # /* it's\n    return $5 if False else a\n".replace(
    "$5", "'$5'"
)
DIALECTS = ("spark", "postgres", "risingwave")


def read(text: str, dialect: Any) -> CreateFunction:
    statement = parse_statement(text, dialect)
    assert isinstance(statement, CreateFunction)
    return statement


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_body_in_dollars_is_kept_as_it_is(dialect: Any) -> None:
    text = f"CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python AS $${BODY}$$"
    assert read(text, dialect).body == BODY
    assert split_statements(f"{text};\nSELECT 1", dialect) == [text, "SELECT 1"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("said", "deterministic", "strict"),
    [
        ("", False, False),
        ("DETERMINISTIC", True, False),
        ("NOT DETERMINISTIC", False, False),
        ("IMMUTABLE STRICT", True, True),
        ("STABLE RETURNS NULL ON NULL INPUT", False, True),
        ("VOLATILE CALLED ON NULL INPUT", False, False),
    ],
)
def test_what_is_said_of_a_function(dialect: Any, said: str, deterministic: bool, strict: bool) -> None:
    found = read(
        f"CREATE OR REPLACE FUNCTION f(a INT) RETURNS INT LANGUAGE Python {said} AS 'def f(a): return a'",
        dialect,
    )
    assert (found.language, found.deterministic, found.strict, found.replaces) == (
        "python",
        deterministic,
        strict,
        True,
    )
    assert build_definition(found).body == "def f(a): return a"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_aggregate_is_a_function_of_rows(dialect: Any) -> None:
    body = "def create_state(): return 0\ndef accumulate(s, a): return s + a"
    found = read(
        f"CREATE AGGREGATE IF NOT EXISTS f(a INT) RETURNS INT LANGUAGE python AS $${body}$$", dialect
    )
    assert found.aggregate and found.if_not_exists and build_definition(found).aggregate
    dropped = parse_statement("DROP AGGREGATE IF EXISTS f CASCADE", dialect)
    assert isinstance(dropped, Drop) and (dropped.kind, dropped.cascade) == ("function", True)


def test_documents_and_other_languages_are_refused() -> None:
    for kind in ("JSONB", "JSON", "JSONB[]"):
        with pytest.raises(UnsupportedSql, match="json and jsonb"):
            read(f"CREATE FUNCTION f(a {kind}) RETURNS INT LANGUAGE python AS 'x'", "postgres")
    with pytest.raises(UnsupportedSql, match="STRICT of a function in SQL"):
        read("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE SQL STRICT AS 'SELECT a'", "postgres")


def test_an_error_of_a_body_names_its_line() -> None:
    with pytest.raises(SqlError, match="no Python") as caught:
        build_definition(
            read(
                "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python AS $$\nx = 1\ndef f(a) return 1$$",
                "spark",
            )
        )
    assert "line 2 of the body" in caught.value.hint
    long = "#" * (1 << 18)
    with pytest.raises(SqlError, match="characters"):
        build_definition(
            read(
                f"CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python AS $$def f(a): return 1 {long}$$",
                "spark",
            )
        )
