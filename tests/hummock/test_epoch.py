"""Epochs as people read them: a time in UTC, and the number that can be pasted into a query."""

from __future__ import annotations

from engine.hummock.epoch import epoch_at, format_epoch, format_epoch_time

AT = epoch_at(1_795_330_744.767)


def test_an_epoch_is_told_as_its_time_to_the_millisecond() -> None:
    assert format_epoch_time(AT) == "2026-11-22 06:59:04.767"


def test_a_counter_is_told_where_it_is_not_zero() -> None:
    assert format_epoch_time(AT + 3) == "2026-11-22 06:59:04.767+3"


def test_messages_name_the_number_too() -> None:
    assert format_epoch(AT) == f"2026-11-22 06:59:04.767 UTC ({AT})"
