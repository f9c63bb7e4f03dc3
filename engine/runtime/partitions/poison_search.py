"""Which partitions fail: sets of them are halved until the ones that fail alone are found, or enough was tried."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from engine.errors import RowFailed
from engine.meta.domains.failures import FailedRow

MOST_PROBES = 128
"""Sets of partitions that are tried at most; with n partitions of which k fail some 2 k log2(n / k) would find them all."""
MOST_NAMED = 4
"""For so many partitions the row that fails is looked for; the others tell what failed."""
MOST_CANDIDATES = 20_000
NAMING_SECONDS = 60.0
Fails = Callable[[Collection[str]], RowFailed | None]


@dataclass
class Poison:
    """The partitions that are to be left behind, each with its failure.

    `suspects` are among them: some of their set fail, and there was no time to tell which.
    """

    failures: dict[str, RowFailed] = field(default_factory=dict)
    suspects: set[str] = field(default_factory=set)


@dataclass
class ProbeBudget:
    """How many more attempts there are."""

    left: int

    def consume(self) -> bool:
        """Take one; False if none was left."""
        self.left -= 1
        return self.left >= 0


def name_rows(failures: Mapping[str, RowFailed], seconds: float = NAMING_SECONDS) -> dict[str, RowFailed]:
    """Return the failures of the first MOST_NAMED partitions with the row on which each fails, as far as one alone does."""
    found: dict[str, RowFailed] = {}
    deadline = time.monotonic() + seconds
    for key, failure in itertools.islice(failures.items(), MOST_NAMED):
        named = search_row(failure, None, max(0.0, deadline - time.monotonic()))
        if named is not None:
            found[key] = named
    return found


def find_poison(
    view: str, touched: Sequence[str], behind: Collection[str], fails: Fails, failure: RowFailed
) -> Poison:
    """Return the partitions among those `touched` that fail, given that all but those `behind` do together.

    `fails` gives the failure of some partitions, None if they can be computed. Any number of partitions may fail: the largest
    sets are halved first, and what is left of them after MOST_PROBES is left behind as a whole. Raises RowFailed if
    MOST_CANDIDATES are touched: too many to look.
    """
    if len(touched) >= MOST_CANDIDATES:
        raise RowFailed(
            f"a row of {view} fails, and more than {MOST_CANDIDATES} partitions have changed, too many to look for it: add "
            f"partitions = 64 to partition_by"
        )
    found, number = Poison(), itertools.count()
    waiting: list[tuple[int, int, Sequence[str], RowFailed | None]] = []
    probes = 0

    def probe(keys: Sequence[str]) -> RowFailed | None:
        nonlocal probes
        probes += 1
        return fails(keys)

    def add(keys: Sequence[str], known: RowFailed | None) -> None:
        if keys:
            heapq.heappush(waiting, (-len(keys), next(number), keys, known))

    add([key for key in touched if key not in behind], None)
    while waiting:
        _, _, keys, known = heapq.heappop(waiting)
        if len(keys) == 1:
            known = known or probe(
                keys
            )  # what was only concluded to fail is tried, so that nothing sound is left behind
            if known is not None:
                found.failures[keys[0]] = known
        elif probes >= MOST_PROBES:
            found.failures |= dict.fromkeys(keys, known or failure)
            found.suspects |= set(keys)
        else:
            middle = len(keys) // 2
            left = probe(keys[:middle])
            if left is not None:
                add(keys[:middle], left)
            right = None if left is None else probe(keys[middle:])
            if left is None or right is not None:
                add(keys[middle:], right)
    return found


def search_row(failure: RowFailed, remembered: FailedRow | None, seconds: float) -> RowFailed | None:
    """Return a failure with its row, None where the search itself cannot be done: what failed is known, and stands without it."""
    try:
        return None if failure.search is None else failure.search.find(remembered, seconds)
    except (
        Exception
    ):  # its history is gone, Spark is, or the store does not answer: no second failure beside the first
        return None
