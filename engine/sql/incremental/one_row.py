"""Views that have one row at most, under a key that never changes: an aggregate without GROUP BY, and what is made of its row."""

from __future__ import annotations

from collections.abc import Mapping

from engine.sql.incremental.fragments import Fragment
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
    Values,
)


def is_one_row(table: str, fragments: Mapping[str, Fragment]) -> bool:
    """Tell whether a view or a state never has more than one row, which is the same one whatever becomes of its values."""
    fragment = fragments.get(table)
    return fragment is not None and _is_one_row(fragment.plan, fragments)


def _is_one_row(node: Node, fragments: Mapping[str, Fragment]) -> bool:
    match node:
        case Scan():
            return not node.changes and is_one_row(node.table, fragments)
        case Values():
            return len(node.rows) <= 1
        case Filter() | Project() | Over() | TemporalFilter() | DynamicFilter() | TopN():
            return _is_one_row(node.input, fragments)
        case Aggregate():
            return not node.keys or is_global(node)
        case Join():
            alone = node.kind in ("semi", "anti") or node.nearest is not None
            return _is_one_row(node.left, fragments) and (alone or _is_one_row(node.right, fragments))
    return False
