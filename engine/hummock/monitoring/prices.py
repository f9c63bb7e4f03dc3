"""What requests to an object store cost: the list prices of S3 Standard in us-east-1, which most others stay below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.hummock.epoch import seconds_of
from engine.hummock.manifests.delta import Delta
from engine.hummock.metrics import unpack_requests

DOLLARS_BY_REQUEST = {
    "put": 5e-6,
    "put_if_absent": 5e-6,
    "list": 5e-6,
    "get": 4e-7,
    "get_range": 4e-7,
    "head": 4e-7,
    "delete": 0.0,
}
"""Dollars by kind of request, as of 2026: 5 for a million that write or list, 0.4 for one that reads; deletions are free."""


def calculate_dollars(requests: Mapping[str, int]) -> float:
    """Return the price of requests by kind, in US dollars.

    >>> round(calculate_dollars({"put": 1_000_000, "get": 1_000_000}), 2)
    5.4
    """
    return sum(number * DOLLARS_BY_REQUEST[kind] for kind, number in requests.items())


@dataclass(frozen=True)
class Spending:
    """What the newest commits have asked of a store: their number, the seconds since 1970 of the first and last, and requests.

    `driver_bytes` have passed through the processes that made them, by what they passed for. Those of processes that have
    committed nothing are not among them.
    """

    commits: int
    since: float
    until: float
    requests: Mapping[str, int]
    driver_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def dollars(self) -> float:
        """The price of the requests."""
        return calculate_dollars(self.requests)

    @property
    def dollars_a_month(self) -> float | None:
        """The price of thirty days in which as many commits were made; None where that was too short a time to say."""
        seconds = self.until - self.since
        return self.dollars / seconds * 30 * 86_400 if seconds >= LEAST_SECONDS else None


LEAST_SECONDS = 60.0


def sum_spending(deltas: Sequence[Delta]) -> Spending | None:
    """Return what commits have asked of the store; None of none."""
    if not deltas:
        return None
    requests: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for delta in deltas:
        requests.update(unpack_requests(delta.requests))
        passed.update(delta.passed)
    since, until = seconds_of(deltas[0].epoch), seconds_of(deltas[-1].epoch)
    return Spending(len(deltas), since, until, dict(sorted(requests.items())), dict(sorted(passed.items())))
