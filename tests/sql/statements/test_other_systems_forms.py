"""Forms that other systems have: refused at their word, with the way that leads to the same."""

from __future__ import annotations

import pytest

from engine.errors import UnsupportedSql
from engine.sql.statements.reader import parse_statement


@pytest.mark.parametrize(
    ("text", "column", "remedy"),
    [
        ("ALTER MATERIALIZED VIEW v ADD COLUMN a INT", 27, "the columns of a view are those of its query"),
    ],
)
def test_what_to_do_instead_is_said_at_the_word(text: str, column: int, remedy: str) -> None:
    with pytest.raises(UnsupportedSql, match="is not offered") as raised:
        parse_statement(text, "risingwave")
    assert (raised.value.line, raised.value.column) == (1, column)
    assert remedy in raised.value.hint


@pytest.mark.parametrize(
    "column", ["id SERIAL PRIMARY KEY", "id INT GENERATED ALWAYS AS IDENTITY", "id BIGSERIAL"]
)
def test_columns_that_count_by_themselves_are_refused_with_what_to_do(column: str) -> None:
    with pytest.raises(UnsupportedSql, match="column id") as raised:
        parse_statement(f"CREATE TABLE t ({column}, v INT)", "postgres")
    assert (raised.value.line, raised.value.column) == (1, 17)
    assert "without a PRIMARY KEY" in raised.value.hint
