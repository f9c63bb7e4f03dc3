"""Plans as text: operator, columns, key, and whether it retracts."""

from __future__ import annotations

from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Recompute,
    Scan,
    TemporalFilter,
    TopN,
    UnionAll,
    Unnest,
    Values,
    list_children,
)
from engine.sql.window_calls import FrameEnd, SortKey, WindowCall


def explain(node: Node) -> str:
    """Return a plan as an indented tree, one operator a line."""
    return "\n".join(_render_lines(node, 0))


def _render_lines(node: Node, depth: int) -> list[str]:
    nature = "append-only" if node.append_only else "retracting"
    line = f"{'  ' * depth}{_render_head(node)} key ({', '.join(node.key)}) {nature}"
    return [line, *(line for child in list_children(node) for line in _render_lines(child, depth + 1))]


def _render_head(node: Node) -> str:
    match node:
        case Scan():
            return f"Scan {node.table} [{', '.join(column for _, column in node.items)}]"
        case Filter():
            return f"Filter {render_spark_sql(node.predicate)}"
        case Project():
            return (
                f"Project "
                f"[{', '.join(render_spark_sql(e) if e.column == n else f'{n} = {render_spark_sql(e)}' for n, e in node.items)}]"
            )
        case Aggregate():
            keys = ", ".join(f"{name} = {render_spark_sql(expr)}" for name, expr in node.keys)
            return f"Aggregate by [{keys}] calls [{', '.join(render_spark_sql(call.expression) for call in node.calls)}]"
        case Join():
            return _render_join(node)
        case Recompute():
            return f"Recompute {node.text}"
        case UnionAll():
            return f"UnionAll of {len(node.inputs)}"
        case Unnest():
            outer = " outer" if node.outer else ""
            return f"Unnest{outer} {node.item}, {node.ordinal} = {render_spark_sql(node.array)}"
        case Values():
            return f"Values [{', '.join(node.names)}] of {len(node.rows)} rows"
        case TopN():
            return _render_top_n(node)
        case Over():
            return _render_over(node)
        case DynamicFilter():
            return _render_dynamic(node)
        case TemporalFilter():
            return f"TemporalFilter enter {node.enter or 'always'} leave {node.leave or 'never'}"


def _render_dynamic(node: DynamicFilter) -> str:
    steps = (" ".join(f"{step.kind} {step.by}" for step in bound.steps) for bound in node.bounds)
    tables = (
        f"{bound.scan.table}{f' {text}' if text else ''}"
        for bound, text in zip(node.bounds, steps, strict=True)
    )
    return (
        f"{'WindowClose' if node.closes else 'DynamicFilter'} {node.at} {node.operator} {', '.join(tables)}"
    )


def _render_join(node: Join) -> str:
    equal = "<=>" if node.null_safe else "="
    on = " AND ".join(f"{a} {equal} {b}" for a, b in node.on) or "every pair"
    rest = f" and {render_spark_sql(node.residual)}" if node.residual else ""
    temporal = " at arrival" if node.at_arrival else ""
    if node.nearest is not None:
        rest += f" nearest {node.nearest.left} {node.nearest.operator} {node.nearest.right}"
    return f"{node.kind.capitalize()}Join{temporal} on {on}{rest}"


def _render_top_n(node: TopN) -> str:
    rows = "all" if node.limit is None else str(node.limit)
    skipped = f" after {node.offset}" if node.offset else ""
    each = f" of each [{', '.join(node.partition)}]" if node.partition else ""
    return f"TopN {rows}{skipped}{each} by [{_render_order(node.order)}] then the key"


def _render_order(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(
        f"{key.column}{' desc' if key.descending else ''} nulls {'first' if key.nulls_first else 'last'}"
        for key in keys
    )


def _render_over(node: Over) -> str:
    calls = ", ".join(
        f"{call.name} = {render_spark_sql(call.call)}{_render_window(call)}" for call in node.calls
    )
    return f"Over [{calls}] of each [{', '.join(node.partition)}]"


def _render_window(call: WindowCall) -> str:
    by = f" by [{_render_order(call.order)}]" if call.order else ""
    if call.frame is None or call.frame.is_whole:
        return by
    return f"{by} {call.frame.unit} {_render_end(call.frame.start)} to {_render_end(call.frame.end)}"


def _render_end(end: FrameEnd) -> str:
    if end.side == "current row":
        return end.side
    return f"{'unbounded' if end.offset is None else render_spark_sql(end.offset)} {end.side}"
