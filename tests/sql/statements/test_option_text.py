"""One option in the text of a statement: written, replaced, taken out."""

from __future__ import annotations

import pytest

from engine.sql.dialect import Dialect
from engine.sql.statements.option_text import with_option
from engine.sql.statements.reader import CreateMaterializedView, parse

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
    written = parse(text, dialect)
    assert isinstance(written, CreateMaterializedView) and written.options == {**others, "checks": value}
    without = parse(with_option(text, dialect, "checks", None), dialect)
    assert isinstance(without, CreateMaterializedView) and without.options == others
    again = with_option(text, dialect, "checks", "n > 0")
    statement = parse(again, dialect)
    assert isinstance(statement, CreateMaterializedView) and statement.options == {
        **others,
        "checks": "n > 0",
    }
    assert statement.sql.endswith(QUERY)
