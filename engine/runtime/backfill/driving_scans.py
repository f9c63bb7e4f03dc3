"""Which scans of a fragment can be read in pieces so that the pieces' results add up to the whole.

A fragment's query is linear in a scan that no outer side of a join hides: f(A + B) = f(A) + f(B). Such a scan drives:
each step brings some of its rows, joined with the other inputs as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import IndexCopy, Linear, Lookups, StoredPartials
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Join,
    Node,
    Project,
    Scan,
    UnionAll,
    Values,
    list_children,
)


def find_driving_scans(fragment: Fragment, rows_of: Callable[[str], int]) -> tuple[Scan, ...] | None:
    """Return the scans that drive a backfill, one for each branch of a UNION ALL; None where the rule is not linear.

    Of an inner join the side with the largest table drives, of any other join the left side.
    """
    node: Node = fragment.plan
    if isinstance(fragment.rule, StoredPartials):
        if not isinstance(node, Project) or not isinstance(node.input, Aggregate):
            return None
        node = node.input.input
    elif not isinstance(fragment.rule, Linear | Lookups | IndexCopy):
        return None
    return _find_driving_scans(node, rows_of)


def _find_driving_scans(node: Node, rows_of: Callable[[str], int]) -> tuple[Scan, ...] | None:
    match node:
        case Scan():
            return (node,)
        case Join(kind="inner", nearest=None):
            sides = (node.left, node.right)
            return _find_driving_scans(
                max(sides, key=lambda side: _count_largest_input(side, rows_of)), rows_of
            )
        case Join():
            return _find_driving_scans(node.left, rows_of)
        case UnionAll():
            found = [_find_driving_scans(child, rows_of) for child in node.inputs]
            whole = [scans for scans in found if scans is not None]
            return tuple(scan for scans in whole for scan in scans) if len(whole) == len(found) else None
        case Aggregate() | Values():
            return None
        case DynamicFilter():
            return _find_driving_scans(node.input, rows_of)
        case _:
            (below,) = list_children(node)
            return _find_driving_scans(below, rows_of)


def _count_largest_input(node: Node, rows_of: Callable[[str], int]) -> int:
    if isinstance(node, Scan):
        return rows_of(node.table)
    return max((_count_largest_input(child, rows_of) for child in list_children(node)), default=0)
