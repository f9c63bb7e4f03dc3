"""Whether a column of a plan can hold a null."""

from __future__ import annotations

from engine.sql.plan import Aggregate, Filter, Join, Node, Over, Project, Scan, TopN, UnionAll, Unnest, Values


def is_never_null(node: Node, column: str, known: set[str]) -> bool:
    """Tell whether a column is certainly without nulls; `known` are columns of scans that the catalog says so of."""
    match node:
        case Scan():
            return column in known
        case Filter() | TopN():
            return is_never_null(node.input, column, known)
        case Unnest() | Over():
            return column in node.input.columns and is_never_null(node.input, column, known)
        case Project():
            expr = dict(node.items)[column]
            return expr.column is not None and is_never_null(node.input, expr.column, known)
        case Aggregate():
            group = dict(node.keys).get(column)
            if group is not None:
                return group.column is not None and is_never_null(node.input, group.column, known)
            return next(call.function for call in node.calls if call.name == column) == "count"
        case Join():
            if column in node.left.columns:
                return is_never_null(node.left, column, known)
            return node.kind == "inner" and is_never_null(node.right, column, known)
        case UnionAll():
            if column not in node.names:
                return column == "_branch"
            n = node.names.index(column)
            return all(is_never_null(branch, branch.columns[n], known) for branch in node.inputs)
        case Values():
            return column == node.ordinal
    return False
