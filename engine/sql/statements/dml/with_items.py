"""WITH before INSERT, UPDATE and DELETE: each item is written as a subquery where it is named."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.parsing.location import copy_location
from engine.sql.parsing.names import item_name
from engine.sql.parsing.statement_errors import unsupported_error

_WRITES = (exp.Insert, exp.Update, exp.Delete)


def refuse_writes_in_with(tree: exp.Expr, sql: str) -> None:
    """Raise UnsupportedSql, with the place, for a WITH item that writes."""
    for with_ in tree.find_all(exp.With):
        for cte in with_.expressions:
            if isinstance(cte.this, _WRITES):
                hint = "run it as a statement of its own; RETURNING gives its rows"
                raise unsupported_error(
                    f"{cte.this.key.upper()} in WITH is not offered", cte.args["alias"], sql, hint
                )


def inline_with(tree: exp.Expr, sql: str) -> exp.Expr:
    """`WITH x AS (SELECT …) DELETE FROM t USING x` -> `DELETE FROM t USING (SELECT …) AS x`.

    Raises UnsupportedSql with the place for RECURSIVE, whose items cannot be written out.
    """
    with_ = tree.args.get("with_")
    if with_ is None:
        return tree
    if with_.args.get("recursive"):
        hint = "INSERT INTO a table of its own first, by a query that has the WITH inside"
        raise unsupported_error(
            "WITH RECURSIVE before a statement that writes is not offered", with_, sql, hint
        )
    tree.set("with_", None)
    items: dict[str, exp.CTE] = {}
    for cte in with_.expressions:
        _inline_items(cte.this, items)
        items[item_name(cte)] = cte
    _inline_items(tree, items, tree.this.find(exp.Table))
    return tree


def _inline_items(node: exp.Expr, items: dict[str, exp.CTE], target: exp.Table | None = None) -> None:
    """Write items out below a node, but not where a WITH of its own has their names."""
    own = node.args.get("with_")
    if own is not None:  # an item sees those before it; one of a recursive WITH sees all of them
        names = {item_name(cte) for cte in own.expressions} if own.args.get("recursive") else set()
        for cte in own.expressions:
            _inline_items(cte.this, {name: item for name, item in items.items() if name not in names})
            names.add(item_name(cte))
        items = {name: item for name, item in items.items() if name not in names}
    for child in list(node.iter_expressions()):
        if child is own:
            continue
        _inline_items(child, items, target)
        if not isinstance(child, exp.Table) or child is target or child.args.get("db"):
            continue
        if isinstance(child.this, exp.Identifier) and item_name(child) in items:
            child.replace(_build_subquery(child, items[item_name(child)]))


def _build_subquery(table: exp.Table, cte: exp.CTE) -> exp.Subquery:
    alias = (table.args.get("alias") or exp.TableAlias(this=table.this)).copy()
    columns = cte.args["alias"].args.get("columns")
    if columns and not alias.args.get("columns"):
        alias.set("columns", [column.copy() for column in columns])
    clauses = {
        k: v for k, v in table.args.items() if k in exp.Subquery.arg_types and k not in ("this", "alias")
    }
    return copy_location(exp.Subquery(this=cte.this.copy(), alias=alias, **clauses), table)
