"""The dialects of SQL that are read."""

from __future__ import annotations

from typing import Literal, TypeGuard, get_args

Dialect = Literal["spark", "postgres", "risingwave"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)


def is_dialect(word: str) -> TypeGuard[Dialect]:
    """Tell whether a dialect of this name is known."""
    return word in DIALECTS
