"""Texts of intervals keep months, days and time apart; what is left of a span of them is refused."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.dialects.postgres.datetimes.calendar_spans import parse_span_fields
from engine.sql.dialects.postgres.nested.array_literals import parse_items
from tests.sql.dialects.postgres.test_translate import expression_of

_HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 mon 36 hours", (1, 0, 36 * _HOUR)),
        ("1 day 12:00", (0, 1, 12 * _HOUR)),
        ("2 weeks", (0, 14, 0)),
        ("1 year 2 months -3 days", (14, -3, 0)),
        ("3 04:05:06", (0, 3, 4 * _HOUR + 306_000_000)),
        ("P1Y2M3DT4H", (14, 3, 4 * _HOUR)),
        ("1 day 2 hours ago", (0, -1, -2 * _HOUR)),
        ("many", None),
    ],
)
def test_days_are_not_made_of_hours(text: str, expected: tuple[int, int, int] | None) -> None:
    assert parse_span_fields(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", []),
        ('{a, "b,\\"c" ,NULL,"NULL"}', ["a", 'b,"c', None, "NULL"]),
        ("{{1,2},{3}}", [["1", "2"], ["3"]]),
        ("{a", None),
        ("{a,}", None),
        ("a", None),
        ("{a}b", None),
    ],
)
def test_a_text_is_read_as_an_array(text: str, expected: list[object] | None) -> None:
    assert parse_items(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("age(at, at)", "a span of months and days as a value"),
        ("age(at, at) > 5", "beside something else"),
        ("extract(timezone_hour from age(at, at))", "TIMEZONE_HOUR"),
        ("CAST(at AS bigint)", "a cast of timestamp_ntz to bigint"),
        ("CAST(i AS timestamp)", "a cast of int to"),
        ("CAST(true AS bigint)", "a cast of boolean to bigint"),
        ("CAST('{a' AS text[])", "as an array"),
    ],
)
def test_what_has_no_value_is_refused(text: str, says: str) -> None:
    with pytest.raises(SqlError, match=says):
        expression_of(text, "postgres")
