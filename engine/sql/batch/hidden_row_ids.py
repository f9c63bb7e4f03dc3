"""`_row_id`, by which the rows of a table without a key are identified, and `_rw_timestamp`, when a row was written.

Named, they are read; `*` does not show them. Rows in the order of when they were written are in that of their keys where that
was together.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.bind.scope import WRITTEN_AT
from engine.sql.catalog import Catalog, Relation
from engine.sql.parsing.names import find_relation, normalize_identifier
from engine.sql.parsing.statement_errors import unsupported_error

_WHOLE = "whole"


def mark_read_whole(table: exp.Table) -> exp.Table:
    """Return a table of FROM, which from now on is read with its hidden columns; other mentions of the table are not."""
    table.meta[_WHOLE] = True
    return table


def is_read_whole(table: exp.Table) -> bool:
    """Tell whether a table of FROM is read with its hidden columns."""
    return bool(table.meta.get(_WHOLE))


def expose_row_ids(tree: exp.Expr, catalog: Catalog, sql: str) -> exp.Expr:
    """Return a query in which tables are read with their row ids where a SELECT names these, in place.

    Raises UnsupportedSql, with the place, for a `*` of several sources beside one, and for NATURAL JOIN between several.
    """
    named = [node for node in tree.find_all(exp.Column) if node.name.startswith("_") and not node.is_star]
    for column in named:
        select = column.find_ancestor(exp.Select)
        while isinstance(select, exp.Select) and not _is_meant(column, select, catalog, sql):
            select = select.find_ancestor(exp.Select)
    return tree


def _is_meant(column: exp.Column, select: exp.Select, catalog: Catalog, sql: str) -> bool:
    """Tell whether a column is the row id of a table of this SELECT, which is then read with it."""
    matches = [
        (table, relation)
        for table, relation in _list_sources(select, catalog)
        if _is_hidden(column, relation) and _can_mean(column, table)
    ]
    for table, relation in matches:
        _order_by_key(column, select, table, relation)
        if not is_read_whole(table):
            mark_read_whole(table)
            _expand_star(select, relation, sql)
            _refuse_natural(select, catalog, sql)
    return bool(matches)


def _is_hidden(column: exp.Column, relation: Relation) -> bool:
    """Tell whether a column is the row id of a table, or tells when a row of a relation was written."""
    name = normalize_identifier(column.this)
    if name == WRITTEN_AT:
        return all(one.name != name for one in relation.columns)
    return relation.kind in ("table", "source") and name in relation.primary_key and _has_hidden(relation)


def _has_hidden(relation: Relation) -> bool:
    return any(column.hidden for column in relation.columns)


def _order_by_key(column: exp.Column, select: exp.Select, table: exp.Table, relation: Relation) -> None:
    """Order rows that were written together by their key, in place."""
    order, ordered = select.args.get("order"), column.parent
    plain = not any(select.args.get(part) for part in ("group", "distinct", "having"))
    if (
        not (isinstance(order, exp.Order) and plain and isinstance(ordered, exp.Ordered))
        or ordered.parent != order
    ):
        return
    if normalize_identifier(column.this) != WRITTEN_AT or ordered is not order.expressions[-1]:
        return
    names = {one.storage_name: one.name for one in relation.columns}
    of = exp.to_identifier(table.alias_or_name, quoted=True)
    for source in relation.primary_key:
        key = exp.column(exp.to_identifier(names[source], quoted=True), table=of.copy())
        order.append("expressions", exp.Ordered(this=key, nulls_first=True))


def _refuse_natural(select: exp.Select, catalog: Catalog, sql: str) -> None:
    """Raise UnsupportedSql where NATURAL JOIN would compare the row ids of two tables."""
    if sum(is_read_whole(table) for table, _ in _list_sources(select, catalog)) < 2:
        return
    for join in select.args.get("joins") or ():
        if str(join.args.get("method")).upper() == "NATURAL":
            what = "NATURAL JOIN beside the row ids of several tables"
            raise unsupported_error(
                f"{what} is not offered", join.this, sql, "name the columns: JOIN … USING (…)"
            )


def _list_sources(select: exp.Select, catalog: Catalog) -> list[tuple[exp.Table, Relation]]:
    """Return the tables and materialized views of a SELECT's FROM."""
    from_ = select.args.get("from_")
    items = [
        from_.this if from_ is not None else None,
        *(join.this for join in select.args.get("joins") or ()),
    ]
    found = []
    for item in items:
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            relation = find_relation(item, catalog)
            if relation is not None and relation.kind in ("table", "materialized view"):
                found.append((item, relation))
    return found


def _can_mean(column: exp.Column, table: exp.Table) -> bool:
    said = column.args.get("table")
    return said is None or normalize_identifier(said) == table.alias_or_name.lower()


def _expand_star(select: exp.Select, relation: Relation, sql: str) -> None:
    stars = [item for item in select.expressions if item.is_star and not isinstance(item, exp.Func)]
    if not stars:
        return
    if select.args.get("joins"):
        what = "* of several tables beside a row id"
        raise unsupported_error(f"{what} is not offered", stars[0], sql, "name the columns")
    visible = [exp.column(exp.to_identifier(c.name, quoted=True)) for c in relation.visible_columns]
    items = [
        part
        for item in select.expressions
        for part in ([c.copy() for c in visible] if item in stars else [item])
    ]
    select.set("expressions", items)
