"""Names as the catalog knows them."""

from __future__ import annotations

import re

import sqlglot.expressions as exp

from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.parsing.statement_errors import sql_error
from engine.sql.parsing.tree_parser import is_case_insensitive
from engine.sql.schemas import OwnName, is_qualified, qualify_name

_PART = r'(?:"(?:[^"]|"")+"|`(?:[^`]|``)+`|[^\W\d]\w*)'
NAME = rf"{_PART}(?:\s*\.\s*{_PART})?"
"""A pattern of a relation's name in a statement that sqlglot does not read: with its schema or without, in quotes or not."""


def normalize_identifier(node: exp.Expr) -> str:
    """Return an identifier's name: lower case unless quoted."""
    name = node.name
    return name if isinstance(node, exp.Identifier) and node.args.get("quoted") else name.lower()


def find_relation(table: exp.Table, catalog: Catalog) -> Relation | None:
    """Return the relation that a table of FROM means: the one of its exact name, in Spark's dialect else that in lower case."""
    name = normalize_identifier(table.this)
    found = catalog.relations.get(name)
    return catalog.relations.get(name.lower()) if found is None and is_case_insensitive(table) else found


def item_name(node: exp.Table | exp.CTE) -> str:
    """Return the name by which a WITH item is known, or the one that a table would have as one."""
    this = node.args["alias"].this if isinstance(node, exp.CTE) else node.this
    name = normalize_identifier(this)
    return name.lower() if is_case_insensitive(node) else name


def resolve_table_name(node: exp.Expr, sql: str) -> str:
    """Return the name of the relation that a statement is about; raises SqlError for one of another database."""
    table = node.find(exp.Table) if isinstance(node, exp.Expr) else None
    if table is None:
        raise sql_error("the statement names no table", None, sql, "name one")
    if table.args.get("db") or table.args.get("catalog"):
        hint = "name a schema and a relation: schema.name"
        raise sql_error(f"{table.sql()} is in another database", table, sql, hint)
    name = normalize_identifier(table.this)
    if "." in name and not is_qualified(table.this):
        raise sql_error(
            f'"{name}" has a dot in its name', table, sql, 'leave it out, or write "schema"."name"'
        )
    return OwnName(name) if is_qualified(table.this) and "." not in name else name


def parse_name(text: str, dialect: Dialect) -> str:
    """Return the name of a relation as the catalog knows it, from a text that is a NAME."""
    parts = [_unquote(part) for part in re.findall(_PART, text)]
    return qualify_name(parts[0], parts[1], dialect) if len(parts) == 2 else parts[0]


def _unquote(text: str) -> str:
    mark = text[0]
    return text[1:-1].replace(mark * 2, mark) if mark in '"`' else text.lower()
