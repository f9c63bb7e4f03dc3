"""Checks of a materialized view as the catalog holds them, and the names of the hidden views that hold what breaks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

Severity = Literal["error", "warn"]
CheckKind = Literal["rows", "groups", "query", "fall"]
OPTION, PANDERA = "checks", "pandera"
FAILED, ROWS = "_failed", "_rows"
"""The columns of hidden views: which checks of rows a row breaks, as a sum of powers of two, and how many rows there are."""


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """One check of a view: `rows` of it alone, `groups` of them that are to be unique, a `query` without rows, or a `fall`.

    `breaks` is the hidden view of the rows that break it, those with the number `bit` in their sum; "" where none can. `counts`
    is the view that counts them, of a fall the rows of the view itself, of which the share `limit` may go in an epoch.
    """

    name: str
    kind: CheckKind
    text: str
    severity: Severity = "error"
    breaks: str = ""
    counts: str = ""
    bit: int = 0
    limit: float = 0.0

    def rename_views(self, names: Mapping[str, str]) -> Check:
        """Return it with hidden views under other names."""
        breaks, counts = (names.get(name, name) for name in (self.breaks, self.counts))
        return msgspec.structs.replace(self, breaks=breaks, counts=counts)


def violations_view(view: str, number: int) -> str:
    """Return the name of the hidden view of the rows that break checks of a view."""
    return f"_check_{number}_{view}"


def counts_view(view: str, number: int) -> str:
    """Return the name of the hidden view that counts for checks of a view."""
    return f"_count_{number}_{view}"


def list_companions(checks: Iterable[Check]) -> tuple[str, ...]:
    """Return the hidden views of checks, each once and after what it reads."""
    return tuple(dict.fromkeys(name for one in checks for name in (one.breaks, one.counts) if name))
