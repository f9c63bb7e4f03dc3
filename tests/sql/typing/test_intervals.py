"""Texts of intervals as spans."""

from __future__ import annotations

from datetime import timedelta

import pytest

from engine.sql.typing.intervals import calendar_interval, interval_of


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
    assert interval_of(text) == postgres
    assert interval_of(text, standard=True) == standard
    assert calendar_interval(text) == (0, postgres)
