"""Filters move towards the scans, as far as that changes no row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from engine.sql.plan import Aggregate, Expr, Filter, Join, Node, Project, TopN, UnionAll, Unnest

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`", re.DOTALL)


def conjunction(parts: Sequence[Expr]) -> Expr | None:
    """Return the expression that holds if all parts hold, or None if there are none."""
    if len(parts) < 2:
        return parts[0] if parts else None
    columns = dict.fromkeys(column for part in parts for column in part.columns)
    return Expr(" AND ".join(f"({part.sql})" for part in parts), tuple(columns), parts[0].position)


def substitute(expr: Expr, by: Mapping[str, Expr]) -> Expr:
    """Return the expression with every column replaced by what computes it; others stay."""
    if expr.column is not None:
        return by.get(expr.column, expr)

    def replacement(match: re.Match[str]) -> str:
        token = match[0]
        if token.startswith("'"):
            return token
        found = by.get(token[1:-1].replace("``", "`"))
        if found is None:  # a field of a struct, or a column that stays
            return token
        return found.sql if found.column is not None else f"({found.sql})"

    columns = dict.fromkeys(
        column for name in expr.columns for column in (by[name].columns if name in by else (name,))
    )
    return Expr(_TOKEN.sub(replacement, expr.sql), tuple(columns), expr.position)


def push_filter(node: Node, predicate: Expr) -> Node:
    """Return the node filtered by `predicate`, as near to the scans as is safe.

    A filter passes through projections, to the left of a left join, to either side of an inner one, and below an aggregate
    if it reads nothing but keys; never to the side of a join that may be null.
    """
    columns = set(predicate.columns)
    if not columns <= set(
        node.columns
    ):  # it reads columns of an outer query: its place is where it was written
        return Filter(node, predicate)
    match node:
        case Filter():
            below = push_filter(node.input, predicate)
            plain = set(node.predicate.columns) <= set(node.columns)
            if plain and isinstance(below, Filter) and below.input is node.input:
                both = conjunction((node.predicate, predicate))
                assert both is not None
                return Filter(node.input, both)
            return Filter(below, node.predicate)
        case Project():
            return msgspec.structs.replace(
                node, input=push_filter(node.input, substitute(predicate, dict(node.items)))
            )
        case Aggregate() if columns and columns <= set(node.key):
            return msgspec.structs.replace(
                node, input=push_filter(node.input, substitute(predicate, dict(node.keys)))
            )
        case Join() if columns and columns <= set(node.left.columns):
            return msgspec.structs.replace(node, left=push_filter(node.left, predicate))
        case Join(kind="inner") if columns and columns <= set(node.right.columns):
            return msgspec.structs.replace(node, right=push_filter(node.right, predicate))
        case UnionAll() if columns and columns <= set(node.names):
            inputs = []
            for branch in node.inputs:
                by = {name: Expr.of(below) for name, below in zip(node.names, branch.columns, strict=False)}
                inputs.append(push_filter(branch, substitute(predicate, by)))
            return UnionAll(tuple(inputs), node.names)
        case Unnest(outer=False) if columns and columns <= set(node.input.columns):
            return msgspec.structs.replace(node, input=push_filter(node.input, predicate))
        case TopN() if columns and columns <= set(node.partition):
            return msgspec.structs.replace(node, input=push_filter(node.input, predicate))
    return Filter(node, predicate)
