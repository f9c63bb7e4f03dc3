"""Names as the catalog knows them."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.catalog import Catalog, Relation
from engine.sql.parsed import any_case
from engine.sql.refusals import mistake
from engine.sql.schemas import OwnName, is_qualified


def identifier(node: exp.Expr) -> str:
    """Return an identifier's name: lower case unless quoted."""
    name = node.name
    return name if isinstance(node, exp.Identifier) and node.args.get("quoted") else name.lower()


def relation_of(table: exp.Table, catalog: Catalog) -> Relation | None:
    """Return the relation that a table of FROM means: the one of its exact name, in Spark's dialect else that in lower case."""
    name = identifier(table.this)
    found = catalog.relations.get(name)
    return catalog.relations.get(name.lower()) if found is None and any_case(table) else found


def item_name(node: exp.Table | exp.CTE) -> str:
    """Return the name by which a WITH item is known, or the one that a table would have as one."""
    this = node.args["alias"].this if isinstance(node, exp.CTE) else node.this
    name = identifier(this)
    return name.lower() if any_case(node) else name


def table_name(node: exp.Expr, sql: str) -> str:
    """Return the name of the relation that a statement is about; raises SqlError for one of another database."""
    table = node.find(exp.Table) if isinstance(node, exp.Expr) else None
    if table is None:
        raise mistake("the statement names no table", None, sql, "name one")
    if table.args.get("db") or table.args.get("catalog"):
        hint = "name a schema and a relation: schema.name"
        raise mistake(f"{table.sql()} is in another database", table, sql, hint)
    name = identifier(table.this)
    if "." in name and not is_qualified(table.this):
        raise mistake(f'"{name}" has a dot in its name', table, sql, 'leave it out, or write "schema"."name"')
    return OwnName(name) if is_qualified(table.this) and "." not in name else name
