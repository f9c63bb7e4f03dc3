"""Which partitions fail: those of a set are halved until the ones that fail alone are found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from engine.errors import RowFailed

MOST_POISON = 8
MOST_CANDIDATES = 20_000
Fails = Callable[[Collection[str], bool], str | None]


def poisoned(
    view: str, touched: Sequence[str], behind: Collection[str], fails: Fails, failure: RowFailed
) -> dict[str, str]:
    """Return the partitions among those `touched` that fail, each with its error, given that all but those `behind` do together.

    `fails` gives the error of some partitions, None if they can be computed; its second argument says whether to look for the
    row. Raises RowFailed if more than MOST_POISON fail, or if MOST_CANDIDATES are touched: too many to look.
    """
    if len(touched) >= MOST_CANDIDATES:
        raise RowFailed(
            f"a row of {view} fails, and more than {MOST_CANDIDATES} partitions have changed, too many to look for it: add "
            f"partitions = 64 to partition_by"
        )
    found: dict[str, str] = {}

    def search(keys: Sequence[str]) -> None:
        if len(keys) == 1:
            found[keys[0]] = fails(keys, True) or str(failure)
            if len(found) > MOST_POISON:
                raise RowFailed(
                    f"more than {MOST_POISON} partitions of {view} fail, so the view stays as it is; one of them: {failure}"
                )
            return
        middle = len(keys) // 2
        left = fails(keys[:middle], False) is not None
        if left:
            search(keys[:middle])
        if not left or fails(keys[middle:], False) is not None:
            search(keys[middle:])

    candidates = [key for key in touched if key not in behind]
    if candidates:
        search(candidates)
    return found
