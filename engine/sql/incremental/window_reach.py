"""How many rows around each row calls over windows read, where that is a few: then a change is not felt farther away."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.sql.expression.nodes import Call, Expr, Literal
from engine.sql.expression.template import as_columns
from engine.sql.incremental.rules import WindowReach
from engine.sql.incremental.states.partials import GLOBAL_KEY
from engine.sql.plan import Node, Over, Project
from engine.sql.typing.whole_numbers import INTEGRAL
from engine.sql.window_calls import FrameEnd, WindowCall

MOST_ROWS = 16
"""Calls that look farther have their partitions computed as wholes: each row takes a search for each change."""
_ORDERED = (*INTEGRAL, "date", "timestamp", "timestamp_ntz", "string", "decimal")


def measure_reach(node: Over, types: Mapping[str, str]) -> WindowReach | None:
    """Return how far the calls of a node look in their one order, `order` being a column of its input; None if that is far.

    `types` are those of the input. A state is in the order of types whose order in files is Spark's.
    """
    first = node.calls[0].order[:1]
    rows = [_count_rows(call) for call in node.calls]
    if not first or any(call.order != node.calls[0].order for call in node.calls) or None in rows:
        return None
    order, most = first[0], max(number for number in rows if number is not None)
    columns = (*node.partition, *node.key, order.column)
    if order.column in node.partition or not all(_is_ordered(types[column]) for column in columns):
        return None
    if most > MOST_ROWS:
        return None
    return WindowReach(order.column, max(most, 1), order.nulls_first != order.descending)


def put_in_one_partition(node: Over, source: Node) -> tuple[Over, Node]:
    """Return calls without PARTITION BY, and their input, with a constant as the one partition's column."""
    if node.partition:
        return node, source
    whole = Project(source, (*as_columns(source.columns), (GLOBAL_KEY, Literal("0"))))
    return msgspec.structs.replace(node, partition=(GLOBAL_KEY,)), whole


def _is_ordered(kind: str) -> bool:
    return kind.partition("(")[0] in _ORDERED


def _count_rows(call: WindowCall) -> int | None:
    """Return how many rows away the farthest row stands that a call reads, None if that is not limited."""
    expr = call.call
    if isinstance(expr, Call) and expr.function in ("lag", "lead"):
        if expr.ignore_nulls:
            return None
        return _parse_whole(expr.arguments[1]) if len(expr.arguments) > 1 else 1
    if call.frame is None or call.frame.unit != "rows":
        return None
    ends = _measure_distance(call.frame.start), _measure_distance(call.frame.end)
    return None if ends[0] is None or ends[1] is None else max(ends[0], ends[1])


def _measure_distance(end: FrameEnd) -> int | None:
    if end.side == "current row":
        return 0
    return None if end.offset is None else _parse_whole(end.offset)


def _parse_whole(expr: Expr) -> int | None:
    return int(expr.text) if isinstance(expr, Literal) and expr.text.isdigit() else None
