"""How far the rows of a view have been held against what its query gives, and what differed, as the store remembers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from engine.hummock import Version
from engine.meta.catalog.records import Prefix, Record

MOST_EXAMPLES = 10


class SampledRows(msgspec.Struct, frozen=True, omit_defaults=True):
    """A view's samples: a *pass* holds all its rows, and those of what it reads, against what its query gives of them.

    `positions` says by cursor, "" of the view and "0", "1", … of what it reads in the order of its plan, from which hash on the
    pass goes on, None where it has come round. `rows` and `differing` count those of the pass, and `examples` are the first that
    differ, in words; until its end `last_differing` and `last_examples` are those of the pass before. `complete` is the epoch
    at which the last whole pass began. `tried` is when a sample was taken last, in seconds since 1970, also one that could not be
    computed; `epoch` is the newest at which rows were compared, 0 before.
    """

    began: int
    positions: dict[str, int | None] = {}
    rows: int = 0
    differing: int = 0
    last_differing: int = 0
    examples: tuple[str, ...] = ()
    last_examples: tuple[str, ...] = ()
    seconds: float = 0.0
    complete: int | None = None
    epoch: int = 0
    tried: float = 0.0

    @property
    def differ(self) -> int:
        """How many rows are known to differ: in this pass, or the one before if there were more."""
        return max(self.differing, self.last_differing)

    @property
    def shown_examples(self) -> tuple[str, ...]:
        """The first of these in words."""
        return self.examples if self.differing >= self.last_differing else self.last_examples


class SamplingTime(msgspec.Struct, frozen=True):
    """When samples were taken last, in seconds since 1970, and how many seconds that took."""

    ended: float
    seconds: float

    def find_next_start(self, share: float) -> float:
        """Return from when on the next may be taken, so that they take no larger share of the time."""
        return self.ended + self.seconds * (1 / share - 1)


SAMPLES = Record.of_json(Prefix.SAMPLES, SampledRows)
TIMES = Record.of_json(Prefix.SAMPLING, SamplingTime)
ALL = "time"
"""The name of the one entry of the time that samples take."""


def forget_samples(version: Version, views: Iterable[str]) -> dict[str, str | None]:
    """Return the catalog entries that go with views."""
    return SAMPLES.remove_existing(version, views)


def rename_samples(version: Version, names: Mapping[str, str]) -> dict[str, str | None]:
    """Return the catalog entries of views under their new names."""
    return SAMPLES.rename(version, names)
