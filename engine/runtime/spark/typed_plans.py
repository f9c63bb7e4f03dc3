"""Plans whose expressions say the types of all their parts: asked of Spark once, when a view is created.

Spark analyses the parts of one node's expressions together, as columns over its empty input. What stands in a lambda has a type
only where it is called, and gets none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from engine.operators.arrow.compiler import Item
from engine.operators.compile import compute_over
from engine.operators.context import EpochContext
from engine.operators.flow import as_frame, render_item, to_spark_columns
from engine.operators.lookups.scan import read_snapshot
from engine.sql.expression.nodes import (
    Call,
    Expr,
    Lambda,
    Named,
    Variable,
    Word,
    annotate,
    children,
    map_children,
)
from engine.sql.functions import load_spark_functions
from engine.sql.plan import Aggregate, Join, Node, Scan, Values, list_children
from engine.sql.rewrites.binding.free_columns import list_node_expressions, map_expressions, with_inputs

Types = dict[Expr, tuple[str, bool]]
_UNTYPED = (Lambda, Variable, Word, Named)


def annotate_types(node: Node, context: EpochContext) -> Node:
    """Return a plan in which every part of an expression that has a type by itself carries it; `context` has empty tables."""
    return _annotate_node(node, context)[0]


def _annotate_node(node: Node, context: EpochContext) -> tuple[Node, Callable[[], DataFrame]]:
    """Return the typed node, and what makes the frame of its rows for a node above."""
    if isinstance(node, Scan):
        return node, lambda: as_frame(read_snapshot(node, context))
    below = [_annotate_node(child, context) for child in list_children(node)]
    found = with_inputs(node, [child for child, _ in below])
    frames = cache(lambda: [frame() for _, frame in below])
    if list_node_expressions(node):
        types = _infer_types(node, frames(), context)
        found = map_expressions(found, lambda expr: _attach_types(expr, types))
    return found, lambda: compute_over(node, frames(), context)


def _infer_types(node: Node, frames: Sequence[DataFrame], context: EpochContext) -> Types:
    """Return the type of each part of a node's expressions, and whether it can be null."""
    match node:
        case Values():
            frame = context.spark.range(0)
        case Join():
            frame = frames[0].crossJoin(frames[1])
        case _:
            frame = frames[0]
    whole = [*list_node_expressions(node)]
    if isinstance(node, Aggregate):
        whole += [call.expression for call in node.calls]
    parts = dict.fromkeys(part for expr in whole for part in _list_parts(expr))
    plain = [part for part in parts if not _has_aggregate(part)]
    types = _query_types(lambda items: frame.selectExpr(*map(render_item, items)), plain)
    over_groups = [part for part in parts if _has_aggregate(part)]
    if not over_groups:
        return types
    return types | _query_types(lambda items: frame.groupBy().agg(*to_spark_columns(items)), over_groups)


def _query_types(select: Callable[[Sequence[Item]], DataFrame], parts: Sequence[Expr]) -> Types:
    """Return the types of expressions that are selected together; one that cannot stand by itself has none."""
    items = [(f"_part_{n}", part) for n, part in enumerate(parts)]
    if not items:
        return {}
    try:
        fields = select(items).schema.fields
    except AnalysisException:
        middle = len(parts) // 2
        return _query_types(select, parts[:middle]) | _query_types(select, parts[middle:]) if middle else {}
    kinds = ((field.dataType.simpleString(), field.nullable) for field in fields)
    return dict(zip(parts, kinds, strict=True))


def _list_parts(expr: Expr) -> Iterator[Expr]:
    """Yield what has a type by itself: an expression and all below it, but nothing inside a lambda."""
    if isinstance(expr, Lambda | Variable):
        return
    if not isinstance(expr, _UNTYPED) and not _needs_window(expr):
        yield expr
    for child in children(expr):
        yield from _list_parts(child)


def _needs_window(expr: Expr) -> bool:
    return isinstance(expr, Call) and load_spark_functions().get(expr.function) == "window"


def _has_aggregate(expr: Expr) -> bool:
    named = isinstance(expr, Call) and load_spark_functions().get(expr.function) == "aggregate"
    return named or any(_has_aggregate(child) for child in children(expr))


def _attach_types(expr: Expr, types: Types) -> Expr:
    if isinstance(expr, Lambda):
        return expr
    found = map_children(expr, lambda part: _attach_types(part, types))
    if expr not in types:
        return found
    kind, nullable = types[expr]
    return annotate(found, type=kind, nullable=nullable)
