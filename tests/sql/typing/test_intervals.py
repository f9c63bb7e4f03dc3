"""Texts of intervals as spans."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engine.sql.typing.intervals import parse_calendar_interval, parse_interval


@pytest.mark.parametrize(
    ("text", "postgres", "standard"),
    [
        ("-1 02:00", timedelta(hours=-22), timedelta(hours=-26)),
        ("+1 02:00", timedelta(hours=26), timedelta(hours=26)),
        ("-02:30", timedelta(hours=-2, minutes=-30), timedelta(hours=-2, minutes=-30)),
        ("-1 day 02:00", timedelta(hours=-22), timedelta(hours=-22)),
        ("1 day -02:00", timedelta(hours=22), timedelta(hours=22)),
    ],
)
def test_the_sign_before_days_is_theirs_to_postgresql(
    text: str, postgres: timedelta, standard: timedelta
) -> None:
    assert parse_interval(text) == postgres
    assert parse_interval(text, standard=True) == standard
    assert parse_calendar_interval(text) == (0, postgres)
