"""Rows are identified by values that can be hashed and ordered: arrays, maps and structs are refused, with the place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.catalog import Catalog, RelationColumn
from engine.sql.expression.nodes import Column as Reference
from engine.sql.expression.nodes import Expr
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.parsing.statement_errors import unsupported_error, unsupported_error_at
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
    list_children,
)

NESTED = ("array<", "map<", "struct<", "variant")


def check_key_types(plan: IncrementalPlan, query: exp.Expr, catalog: Catalog, sql: str) -> None:
    """Raise UnsupportedSql if a table of a plan would have a key, or a join a side, whose values are not plain ones."""
    for found in _find_nested_keys(plan, catalog):
        raise _build_error(*found, plan, query, sql)


def check_plain(columns: Iterable[RelationColumn], what: str, hint: str, sql: str) -> None:
    """Raise UnsupportedSql at the last place where the text names a column whose values are not plain; `what` it is meant for."""
    for column in columns:
        if column.type.startswith(NESTED):
            found = [*re.finditer(rf"\b{re.escape(column.name)}\b", sql, re.IGNORECASE)]
            at = found[-1].start() if found else 0
            raise unsupported_error_at(
                f"{column.name} is {_format_type(column.type)}, which cannot be {what}", sql, at, hint
            )


def _format_type(kind: str) -> str:
    short = kind.partition("<")[0]
    return f"{'an' if short == 'array' else 'a'} {short} ({kind})"


def _find_nested_keys(plan: IncrementalPlan, catalog: Catalog) -> Iterator[tuple[Node | None, str, str]]:
    """Yield (node, its column, type) of each column that rows are found by and whose type is not plain; no node: a table's."""
    for fragment in plan.fragments:
        kinds = dict(fragment.columns)
        for name in dict.fromkeys((*fragment.key, *fragment.distribution_key)):
            if kinds[name].startswith(NESTED):
                yield fragment.plan, name, kinds[name]
    for table, by in plan.indexes:
        kinds = _list_types(catalog, table)
        for name in by:
            if kinds.get(name, "").startswith(NESTED):
                yield None, name, kinds[name]
    for fragment in plan.fragments:
        for join in _list_joins(fragment.plan):
            for column in (left for left, _ in join.on):
                kind = _find_type(join.left, column, plan, catalog)
                if kind.startswith(NESTED):
                    yield join.left, column, kind


def _build_error(
    node: Node | None, column: str, kind: str, plan: IncrementalPlan, query: exp.Expr, sql: str
) -> UnsupportedSql:
    names, computed = ({column}, False) if node is None else _trace_origin(node, column, plan)
    found = [
        part for part in _list_comparisons(query) if any(c.name.lower() in names for c in _list_columns(part))
    ]
    found.sort(key=lambda part: computed and isinstance(part, exp.Column))
    at = found[0] if found else next(_list_comparisons(query), query)
    has_text = isinstance(at, exp.Condition) and not isinstance(at, exp.Query)
    text = at.sql("spark") if has_text else next(iter(sorted(names)), column)
    return unsupported_error(
        f"{text} is {_format_type(kind)}: rows cannot be grouped, joined or distinguished by it",
        at,
        sql,
        f"use a plain part of it, or its text: to_json({text})",
    )


def _list_comparisons(query: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the expressions by which a query tells rows apart, in the order of clauses."""
    for select in query.find_all(exp.Select):
        group = select.args.get("group")
        yield from group.expressions if group is not None else ()
        if select.args.get("distinct") is not None:
            yield from (part.unalias() for part in select.expressions)
    for window in query.find_all(exp.Window):
        yield from window.args.get("partition_by") or ()
    for join in query.find_all(exp.Join):
        yield from join.args.get("using") or ()
    for test in query.find_all(exp.EQ, exp.NullSafeEQ, exp.In):
        yield from (part for part in (test.this, test.args.get("expression")) if part is not None)
    for distinct in query.find_all(exp.Distinct):
        yield from distinct.expressions
    yield from query.find_all(exp.SetOperation)


def _list_columns(part: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(part, exp.Identifier):
        yield part
    yield from part.find_all(exp.Column)


def _trace_origin(node: Node, column: str, plan: IncrementalPlan) -> tuple[set[str], bool]:
    """Return the names of the stored columns that a column of a node is made of, and whether it is more than one of them."""
    names, computed = set(), False
    for source, name, made in _trace_sources(node, column):
        state = next((f for f in plan.fragments if f.table == source.table), None)
        below, more = ({name.lower()}, False) if state is None else _trace_origin(state.plan, name, plan)
        names |= below
        computed |= made or more
    return names, computed


def _trace_sources(node: Node, column: str) -> Iterator[tuple[Scan, str, bool]]:
    """Yield (scan, stored column, whether something is computed of it) of all that a column of a node is made of."""
    if isinstance(node, Scan):
        yield from ((node, source, False) for name, source in node.items if name == column)
        return
    if isinstance(node, UnionAll) and column in node.names:
        for child in node.inputs:
            yield from _trace_sources(child, child.columns[node.names.index(column)])
        return
    expr = _list_computed(node).get(column, Reference(column))
    for child in list_children(node):
        for name in expr.columns:
            if name in child.columns:
                below = _trace_sources(child, name)
                yield from ((scan, source, made or expr.column is None) for scan, source, made in below)


def _list_computed(node: Node) -> Mapping[str, Expr]:
    """Return the columns that a node computes of its input's; others it hands on."""
    if isinstance(node, Project):
        return dict(node.items)
    if isinstance(node, Aggregate):
        return dict(node.keys)
    return {node.item: node.array} if isinstance(node, Unnest) else {}


def _find_type(node: Node, column: str, plan: IncrementalPlan, catalog: Catalog) -> str:
    """Return the type of a column that is handed on from a table as it is, nothing if it is computed."""
    while not isinstance(node, Scan):
        if isinstance(node, Project):
            found = dict(node.items)[column].column
            if found is None:
                return ""
            node, column = node.input, found
        elif (
            isinstance(node, Filter | TopN | Over | TemporalFilter | DynamicFilter)
            and column in node.input.columns
        ):
            node = node.input
        elif isinstance(node, Join):
            node = node.left if column in node.left.columns else node.right
        else:
            return ""
    source = dict(node.items)[column]
    state = next((f for f in plan.fragments if f.table == node.table), None)
    return (
        dict(state.columns)[source] if state is not None else _list_types(catalog, node.table).get(source, "")
    )


def _list_types(catalog: Catalog, table: str) -> dict[str, str]:
    return {column.storage_name: column.type for column in catalog.get(table).columns}


def _list_joins(node: Node) -> Iterator[Join]:
    if isinstance(node, Join):
        yield node
    for child in list_children(node):
        yield from _list_joins(child)
