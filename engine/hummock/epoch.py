"""Epochs: 64-bit numbers that order commits; milliseconds since 2021-04-01T00:00:00Z shifted left 16 bits,
plus a counter.
"""

from __future__ import annotations

from engine.hummock.clock import Clock, system_clock

__all__ = ["Clock", "epoch_at", "last_epoch_at", "next_epoch", "seconds_of", "system_clock"]

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


def next_epoch(last: int, seconds: float) -> int:
    """Return the epoch of a commit after `last`: the present if the clock has moved on, else the next number."""
    return max(last + 1, epoch_at(seconds))
