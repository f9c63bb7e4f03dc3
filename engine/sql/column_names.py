"""Names of columns: which column of what comes from outside is meant by which of a table, and how names stand in the store.

One rule holds for every way in: the same name, else the one name that differs in case alone; a name that fits twice is reported.
In the store and in plans the system's own columns begin with `_`. So a column of a table or view that is named so is kept under
another name, which no user can give.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

RESERVED = "tideline__"
"""No column of a user's begins so, whether with underscores before it or without."""
ADDED = f"_{RESERVED}"
"""So begins what is added to the columns of frames, be these under the names of users or of the store."""


def to_storage_name(name: str) -> str:
    """Return the name under which the store keeps a column that has never had another name.

    >>> to_storage_name("_sdc_batched_at"), to_storage_name("id")
    ('tideline__sdc_batched_at', 'id')
    """
    return RESERVED + name[1:] if name.startswith("_") else name


def is_reserved(name: str) -> bool:
    """Tell whether users may not give a name to a column."""
    return name.lower().lstrip("_").startswith(RESERVED)


def is_internal(stored: str) -> bool:
    """Tell whether a column of the store is the system's own."""
    return stored.startswith("_")


@dataclass(frozen=True)
class ColumnMatch:
    """The places among the given names of each wanted one; those that several fit alike are in `twice`, and not found."""

    found: Mapping[str, int] = field(default_factory=dict)
    twice: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def places(self) -> list[int]:
        """The places that were found, in their order."""
        return sorted(set(self.found.values()))

    def describe_ambiguity(self) -> str:
        """Return the first name that fits twice, and by what: `id twice`, or `id as Id and as ID`."""
        name, spellings = next(iter(self.twice.items()))
        others = dict.fromkeys(spellings)
        return f"{spellings[0]} twice" if len(others) == 1 else f"{name} as {' and as '.join(others)}"


def match_columns(columns: Iterable[str], names: Sequence[str]) -> ColumnMatch:
    """Find each wanted column among given names: the same name, else the one that differs in case alone.

    >>> match_columns(["id", "v", "w"], ["ID", "v", "V", "W", "w", "x", "x"])
    ColumnMatch(found={'id': 0, 'v': 1, 'w': 4}, twice={})
    >>> match_columns(["id"], ["Id", "ID"]).describe_ambiguity()
    'id as Id and as ID'
    """
    exact: dict[str, list[int]] = {}
    folded: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        exact.setdefault(name, []).append(at)
        folded.setdefault(name.lower(), []).append(at)
    found: dict[str, int] = {}
    twice: dict[str, tuple[str, ...]] = {}
    for name in columns:
        places = exact.get(name) or folded.get(name.lower(), [])
        if len(places) == 1:
            found[name] = places[0]
        elif places:
            twice[name] = tuple(names[at] for at in places)
    return ColumnMatch(found, twice)
