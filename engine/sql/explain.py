"""Plans as text: operator, columns, key, and whether it retracts."""

from __future__ import annotations

from engine.sql.plan import Aggregate, Filter, Join, Node, Project, Recompute, Scan, UnionAll, children


def explain(node: Node) -> str:
    """Return a plan as an indented tree, one operator a line."""
    return "\n".join(_lines(node, 0))


def _lines(node: Node, depth: int) -> list[str]:
    nature = "append-only" if node.append_only else "retracting"
    line = f"{'  ' * depth}{_head(node)} key ({', '.join(node.key)}) {nature}"
    return [line, *(line for child in children(node) for line in _lines(child, depth + 1))]


def _head(node: Node) -> str:
    match node:
        case Scan():
            return f"Scan {node.table} [{', '.join(column for _, column in node.items)}]"
        case Filter():
            return f"Filter {node.predicate.sql}"
        case Project():
            return (
                f"Project [{', '.join(e.sql if e.column == n else f'{n} = {e.sql}' for n, e in node.items)}]"
            )
        case Aggregate():
            keys = ", ".join(f"{name} = {expr.sql}" for name, expr in node.keys)
            return f"Aggregate by [{keys}] calls [{', '.join(call.sql for call in node.calls)}]"
        case Join():
            on = " AND ".join(f"{a} = {b}" for a, b in node.on)
            return f"{node.kind.capitalize()}Join on {on}" + (
                f" and {node.residual.sql}" if node.residual else ""
            )
        case Recompute():
            return f"Recompute {node.text}"
        case UnionAll():
            return f"UnionAll of {len(node.inputs)}"
