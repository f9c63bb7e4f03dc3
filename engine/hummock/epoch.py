"""Epochs: 64-bit numbers that order commits; milliseconds since 2021-04-01T00:00:00Z shifted left 16 bits,
plus a counter.
"""

from __future__ import annotations

import time

from engine.hummock.clock import Clock, system_clock

__all__ = [
    "Clock",
    "epoch_at",
    "first_epoch_from",
    "format_epoch",
    "format_epoch_time",
    "last_epoch_at",
    "micros_of",
    "next_epoch",
    "seconds_of",
    "system_clock",
]

ORIGIN_MS = 1_617_235_200_000
COUNTER_BITS = 16


def epoch_at(seconds: float) -> int:
    """Return the first epoch of the millisecond that `seconds` since 1970 falls into."""
    return max(int(seconds * 1000) - ORIGIN_MS, 0) << COUNTER_BITS


def last_epoch_at(seconds: float) -> int:
    """Return the last epoch of the millisecond that `seconds` since 1970 falls into."""
    return epoch_at(seconds) | ((1 << COUNTER_BITS) - 1)


def seconds_of(epoch: int) -> float:
    """Return the wall clock time of an epoch in seconds since 1970."""
    return ((epoch >> COUNTER_BITS) + ORIGIN_MS) / 1000


def micros_of(epoch: int) -> int:
    """Return the wall clock time of an epoch in microseconds since 1970."""
    return ((epoch >> COUNTER_BITS) + ORIGIN_MS) * 1000


def first_epoch_from(micros: int) -> int:
    """Return the first epoch whose time is not before `micros` microseconds since 1970."""
    return max(-(-micros // 1000) - ORIGIN_MS, 0) << COUNTER_BITS


def format_epoch_time(epoch: int) -> str:
    """Return an epoch as its time in UTC, e.g. `2026-11-22 06:59:04.767`, with `+n` where its counter is not 0."""
    seconds, milliseconds = divmod((epoch >> COUNTER_BITS) + ORIGIN_MS, 1000)
    counter = epoch & ((1 << COUNTER_BITS) - 1)
    text = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(seconds))}.{milliseconds:03}"
    return f"{text}+{counter}" if counter else text


def format_epoch(epoch: int) -> str:
    """Return an epoch as messages name it: the time in UTC, and in brackets the number that a query takes."""
    return f"{format_epoch_time(epoch)} UTC ({epoch})"


def next_epoch(last: int, seconds: float) -> int:
    """Return the epoch of a commit after `last`: the present if the clock has moved on, else the next number."""
    return max(last + 1, epoch_at(seconds))
