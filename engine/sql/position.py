"""Where in the text an expression stands."""

from __future__ import annotations

import sqlglot.expressions as exp


def place(node: exp.Expression | None, sql: str) -> tuple[int, int]:
    """Return line and column, both from 1, of the first token of an expression; (1, 1) if it has none."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta] if node is not None else []
    if not starts:
        return 1, 1
    before = sql[: min(starts)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
