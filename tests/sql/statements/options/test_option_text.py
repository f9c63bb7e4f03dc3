"""Options in the text of a statement: written, replaced, taken out."""

from __future__ import annotations

import pytest

from engine.sql.dialect import Dialect
from engine.sql.statements.options.option_text import parse_list, strip_options, with_option
from engine.sql.statements.reader import CreateMaterializedView, parse_statement

HEAD, QUERY = "CREATE MATERIALIZED VIEW v", " AS WITH x AS (SELECT 1 AS a) SELECT a FROM x"


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
@pytest.mark.parametrize(
    ("options", "others"),
    [
        ("", {}),
        (" (a) WITH (parallelism = '2')", {"parallelism": "2"}),
        (" WITH (checks = 'n IN (1, 2)')", {}),
        (
            " WITH (parallelism = '2', checks = 'x', retention = '2 days')",
            {"parallelism": "2", "retention": "2 days"},
        ),
        ("\nWITH (\n  CHECKS = 'a, b',\n  partition_by = 'a'\n)", {"partition_by": "a"}),
    ],
)
def test_an_option_is_written_read_and_taken_out(
    dialect: Dialect, options: str, others: dict[str, str]
) -> None:
    value = r"s = 'it''s \d', (n)"
    text = with_option(HEAD + options + QUERY, dialect, "checks", value)
    written = parse_statement(text, dialect)
    assert isinstance(written, CreateMaterializedView) and written.options == {**others, "checks": value}
    without = parse_statement(with_option(text, dialect, "checks", None), dialect)
    assert isinstance(without, CreateMaterializedView) and without.options == others
    again = with_option(text, dialect, "checks", "n > 0")
    statement = parse_statement(again, dialect)
    assert isinstance(statement, CreateMaterializedView) and statement.options == {
        **others,
        "checks": "n > 0",
    }
    assert statement.sql.endswith(QUERY)


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_names_with_dots_and_in_quotes_are_taken_out_and_their_likes_stay(dialect: Dialect) -> None:
    options = " WITH (retention = '1 hour', 'connector' = 'delta', delta.retention = '2 days', PATH='a, (b')"
    names = ("delta.retention", "connector", "path", "nothing")
    assert (
        strip_options(HEAD + options + QUERY, dialect, names) == f"{HEAD} WITH (retention = '1 hour'){QUERY}"
    )
    text = with_option(HEAD + options + QUERY, dialect, "delta.retention", "1 day")
    statement = parse_statement(text, dialect)
    assert isinstance(statement, CreateMaterializedView)
    assert statement.copy == {"connector": "delta", "path": "a, (b", "delta.retention": "1 day"}
    assert strip_options(text, dialect, (*names, "retention")) == HEAD + QUERY


def test_a_list_of_names_may_have_quotes() -> None:
    assert (
        parse_list("a,`b, c` , ``") == ("a", "b, c")
        and parse_list("`a``b`") == ("a`b",)
        and parse_list(" ") == ()
    )
