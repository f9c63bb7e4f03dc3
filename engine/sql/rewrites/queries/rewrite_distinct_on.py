"""DISTINCT ON as Spark says it: rows are numbered within each group, and the first of each are ordered and cut outside."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.parsing.names import normalize_identifier

_PLACE = "_on_place"
_KEY = "_on_key"
_OUTSIDE = ("with_", "order", "limit", "offset")


def rewrite_distinct_on(tree: exp.Expr) -> exp.Expr:
    """`SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b LIMIT 2` ->

    `SELECT * EXCEPT (…) FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY a, b) AS _on_place, …) WHERE _on_place = 1
    ORDER BY … LIMIT 2`: sqlglot's own form of it leaves LIMIT inside and forgets ORDER BY.
    """
    for select in reversed(list(tree.find_all(exp.Select, bfs=False))):  # those inside others first
        distinct = select.args.get("distinct")
        if distinct is None or distinct.args.get("on") is None:
            continue
        new = exp.Select()
        if select is not tree:
            select.replace(new)
        _fill(new, select, distinct.args["on"])
        tree = new if select is tree else tree
    return tree


def _fill(outer: exp.Select, inner: exp.Select, on: exp.Expr) -> None:
    outer_clauses = {part: inner.args[part].pop() for part in _OUTSIDE if inner.args.get(part) is not None}
    inner.set("distinct", None)
    groups = [_resolve_item(node, inner) for node in (on.expressions or [on])]
    order = outer_clauses.get("order")
    items = [_make_ordered(item) for item in order.expressions] if order is not None else []
    for item in items:
        item.set("this", _resolve_item(item.this, inner))
    inside = items or [exp.Ordered(this=node.copy()) for node in groups]
    window = exp.Window(
        this=exp.RowNumber(),
        partition_by=[node.copy() for node in groups],
        order=exp.Order(expressions=[item.copy() for item in inside]),
    )
    names = [f"{_KEY}{n}" for n in range(len(items))]
    added = [exp.alias_(window, _PLACE, quoted=True)]
    added += [exp.alias_(item.this, name, quoted=True) for item, name in zip(items, names, strict=True)]
    inner.set("expressions", [*inner.expressions, *added])
    hidden = [exp.to_identifier(name, quoted=True) for name in (_PLACE, *names)]
    outer.set("expressions", [exp.Star(except_=hidden)])
    table = exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier("_first", quoted=True)))
    outer.set("from_", exp.From(this=table))
    outer.set("where", exp.Where(this=exp.column(_PLACE, quoted=True).eq(1)))
    if items:
        for item, name in zip(items, names, strict=True):
            item.set("this", exp.column(name, quoted=True))
        outer_clauses["order"] = exp.Order(expressions=items)
    for part, node in outer_clauses.items():
        outer.set(part, node)


def _make_ordered(item: exp.Expr) -> exp.Ordered:
    return item if isinstance(item, exp.Ordered) else exp.Ordered(this=item)


def _resolve_item(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """Return what an item of DISTINCT ON or ORDER BY means: an output column by its number or name, or itself."""
    items = select.expressions
    found: exp.Expr | None = None
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        at = int(node.name) - 1
        found = items[at] if 0 <= at < len(items) and not items[at].is_star else None
    elif isinstance(node, exp.Column) and not node.args.get("table"):
        name = normalize_identifier(node.this)
        named = (item for item in items if isinstance(item, exp.Alias))
        found = next((item for item in named if normalize_identifier(item.args["alias"]) == name), None)
    if found is None:
        return node.copy()
    return (found.this if isinstance(found, exp.Alias) else found).copy()
