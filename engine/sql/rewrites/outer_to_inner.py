"""A left join whose unmatched rows a filter drops anyway is an inner one.

`Filter x < y` over `LeftJoin` with y of the right side -> `Filter x < y` over `InnerJoin`
"""

from __future__ import annotations

import msgspec

from engine.sql.expression.null_rejection import strict_columns
from engine.sql.plan import Filter, Join, Node, Project


def outer_to_inner(node: Node) -> Node:
    """Return a filter over a left join over an inner one if the filter needs a value of the right side."""
    if not isinstance(node, Filter):
        return node
    columns = strict_columns(node.predicate)
    below, computed = node.input, {}
    if isinstance(below, Project):
        computed = dict(below.items)
        columns = {c for name in columns for c in strict_columns(computed[name], operand=True)}
        below = below.input
    if not isinstance(below, Join) or below.kind != "left" or not columns & set(below.right.columns):
        return node
    inner = msgspec.structs.replace(below, kind="inner")
    return Filter(
        msgspec.structs.replace(node.input, input=inner) if isinstance(node.input, Project) else inner,
        node.predicate,
    )
