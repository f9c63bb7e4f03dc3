"""Names as the catalog knows them."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.refusals import mistake


def identifier(node: exp.Expression) -> str:
    """Return an identifier's name: lower case unless quoted."""
    name = node.name
    return name if isinstance(node, exp.Identifier) and node.args.get("quoted") else name.lower()


def table_name(node: exp.Expression, sql: str) -> str:
    """Return the name of the table that a statement is about; raises SqlError if it has a schema."""
    table = node.find(exp.Table) if not isinstance(node, exp.Table) else node
    if table is None:
        raise mistake("the statement names no table", None, sql, "name one")
    if table.args.get("db") or table.args.get("catalog"):
        raise mistake(f"{table.sql()} has a schema", table, sql, "a store has one flat list of names")
    return identifier(table.this)
