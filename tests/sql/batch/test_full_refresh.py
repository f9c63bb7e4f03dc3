"""A query that is computed as a whole is a template over its inputs: nothing else in its text is taken for one."""

from __future__ import annotations

import pytest

from engine.sql.batch.full_refresh import build_whole_query
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog


def _text(query: str, null_on_error: bool = False) -> str:
    statement = parse_statement(query, "spark")
    assert isinstance(statement, Select)
    return build_whole_query(statement.query, small_catalog(), "spark", query, null_on_error).text


@pytest.mark.parametrize("null_on_error", [False, True])
def test_texts_that_look_like_an_input_stay_what_they_are(null_on_error: bool) -> None:
    query = "SELECT '{t0}' AS `a{b}` FROM bid WHERE note = '`_input_of_this_query_bid`'"
    expected = "SELECT '{{t0}}' AS `a{{b}}` FROM {t0} AS bid WHERE note = '`_input_of_this_query_bid`'"
    assert _text(query, null_on_error) == expected


def test_each_table_is_one_input_wherever_it_is_read() -> None:
    query = (
        "WITH q AS (SELECT * FROM bid) SELECT a.id FROM bid AS a JOIN q ON q.id = a.id JOIN auction ON TRUE"
    )
    found = _text(query)
    assert found.startswith("WITH q AS (SELECT * FROM {t0} AS bid) SELECT a.id FROM {t0} AS a JOIN q")
    assert "{t1} AS auction" in found
