"""When a view is refreshed: which texts say so, what is wrong with others, and the times of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from engine.errors import SqlError
from engine.sql.statements.options.refresh_schedule import find_next_time
from engine.sql.statements.options.view_options import merge_options
from engine.sql.statements.reader import CreateMaterializedView, parse_statement

WRONG = (
    ("", "cannot be ''"),
    ("daily", "cannot be 'daily'"),
    ("every 0 hours", "cannot be 'every 0 hours'"),
    ("every -1 hour", "cannot be 'every -1 hour'"),
    ("every 1 month", "cannot be 'every 1 month'"),
    ("every fortnight", "cannot be 'every fortnight'"),
    ("* * * *", "cannot be '* * * *'"),
    ("0 0 * * * *", "cannot be '0 0 * * * *'"),
    ("61 * * * *", "bad minute"),
    ("0 24 * * *", "bad hour"),
    ("0 0 32 * *", "bad day-of-month"),
    ("0 0 * 13 *", "bad month"),
    ("0 0 * * 9", "bad day-of-week"),
    ("0 0 31 2 *", "day-of-month"),
)


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def created(options: str) -> CreateMaterializedView:
    statement = parse_statement(
        f"CREATE MATERIALIZED VIEW v\nWITH ({options}) AS SELECT 1 AS x FROM t", "spark"
    )
    assert isinstance(statement, CreateMaterializedView)
    return statement


@pytest.mark.parametrize(("text", "says"), WRONG)
def test_a_text_that_says_no_time_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(SqlError) as caught:
        created(f"refresh = '{text}'")
    assert says in caught.value.message
    assert (caught.value.line, "every 1 hour" in caught.value.hint) == (2, True)


def test_a_view_of_a_domain_has_no_refresh_of_its_own() -> None:
    with pytest.raises(SqlError, match="the views of domain d commit together") as caught:
        created("domain = 'd', refresh = 'manual'")
    assert caught.value.line == 2
    with pytest.raises(SqlError, match="the views of domain d commit together"):
        merge_options(
            {"domain": "d"}, {"refresh": "manual"}, "ALTER MATERIALIZED VIEW v SET (refresh = 'manual')"
        )
    assert merge_options({"refresh": "manual"}, {"refresh": "default"}, "") == {}


@pytest.mark.parametrize(
    ("text", "after", "then"),
    [
        ("every 1 hour", "2026-01-02 03:04:05", "2026-01-02 04:00:00"),
        ("EVERY hour", "2026-01-02 03:00:00", "2026-01-02 04:00:00"),
        ("every 90 seconds", "2026-01-02 00:00:01", "2026-01-02 00:01:30"),
        ("every 1 week", "2026-01-02 00:00:00", "2026-01-08 00:00:00"),
        ("0 6 * * 1-5", "2026-01-02 06:00:00", "2026-01-05 06:00:00"),
        ("*/15 * * * *", "2026-01-02 03:14:59.999", "2026-01-02 03:15:00"),
        ("0 0 29 2 *", "2026-01-02 00:00:00", "2028-02-29 00:00:00"),
    ],
)
def test_the_next_time_lies_behind_the_one_that_is_asked_for(text: str, after: str, then: str) -> None:
    assert find_next_time(text, seconds(after)) == seconds(then)
    assert find_next_time("manual", seconds(after)) is None
