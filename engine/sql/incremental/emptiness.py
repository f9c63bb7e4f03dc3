"""Plans that give no row where their tables have none: nothing has to be computed to know their first content."""

from __future__ import annotations

from engine.sql.incremental.group_keys import is_global
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Scan,
    TemporalFilter,
    TopN,
    UnionAll,
    Unnest,
)


def is_empty_over_nothing(node: Node) -> bool:
    """Tell whether a plan certainly has no row if no table that it reads has one; a sum without GROUP BY has one."""
    match node:
        case Scan():
            return True
        case Filter() | Project() | Unnest() | TopN() | Over() | TemporalFilter() | DynamicFilter():
            return is_empty_over_nothing(node.input)
        case Aggregate():
            return bool(node.keys) and not is_global(node) and is_empty_over_nothing(node.input)
        case Join(kind="inner" | "semi"):
            return is_empty_over_nothing(node.left) or is_empty_over_nothing(node.right)
        case Join(kind="left" | "anti"):
            return is_empty_over_nothing(node.left)
        case Join():
            return is_empty_over_nothing(node.left) and is_empty_over_nothing(node.right)
        case UnionAll():
            return all(is_empty_over_nothing(branch) for branch in node.inputs)
        case _:
            return False
