"""Random conditions over columns of known kinds, in marked text."""

from __future__ import annotations

import random

from tests.oracle.kinds import KINDS

Columns = tuple[tuple[str, str], ...]
"""Names with their kinds."""


def condition(chance: random.Random, columns: Columns) -> str | None:
    """Return a condition over columns."""
    known = [(name, kind) for name, kind in columns if kind in KINDS and KINDS[kind].literals]
    if not known:
        return None
    name, kind = chance.choice(known)
    literals = KINDS[kind].literals
    value = chance.choice(literals)
    return chance.choice(
        (
            f"{name} = {value}",
            f"{name} <> {value}",
            f"{name} > {value}",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name} IN ({', '.join(chance.sample(literals, min(len(literals), 3)))})",
            f"NOT ({name} <= {value})",
            f"({name} < {value} OR {name} IS NULL)",
            f"{name} IS DISTINCT FROM {value}",
        )
    )
