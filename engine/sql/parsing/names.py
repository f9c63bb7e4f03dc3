"""Names as the catalog knows them."""

from __future__ import annotations

import re

import sqlglot.expressions as exp

from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.parsing.parsed import any_case
from engine.sql.parsing.refusals import mistake
from engine.sql.schemas import OwnName, is_qualified, within

_PART = r'(?:"(?:[^"]|"")+"|`(?:[^`]|``)+`|[^\W\d]\w*)'
NAME = rf"{_PART}(?:\s*\.\s*{_PART})?"
"""A pattern of a relation's name in a statement that sqlglot does not read: with its schema or without, in quotes or not."""


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


def written_name(text: str, dialect: Dialect) -> str:
    """Return the name of a relation as the catalog knows it, from a text that is a NAME."""
    parts = [_unquoted(part) for part in re.findall(_PART, text)]
    return within(parts[0], parts[1], dialect) if len(parts) == 2 else parts[0]


def _unquoted(text: str) -> str:
    mark = text[0]
    return text[1:-1].replace(mark * 2, mark) if mark in '"`' else text.lower()
