"""search_path: names without a schema mean relations of the schemas that it lists, new ones are made in its first.

Queries are written out with their schemas, so that a view means the same for whoever reads it later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from engine.sql.catalog import Catalog
from engine.sql.parsing.names import normalize_identifier
from engine.sql.schemas import OwnName, is_qualified, resolve_in_path
from engine.sql.statements.statement_names import Naming, apply_naming
from engine.sql.statements.statement_types import Alter, RenameTo, Statement
from engine.sql.statements.table_references import list_tables


def qualify_text(statement: Statement, path: Sequence[str], catalog: Catalog) -> str:
    """Return the text of a statement, whose queries say the schemas of what they read by `path`."""
    places: dict[int, str] = {}
    for table in list_tables(statement):
        if is_qualified(table.this) or table.args.get("db"):
            continue
        name = normalize_identifier(table.this)
        found = resolve_in_path(path, name, catalog)
        start = table.this.meta.get("start")
        if found != name and start is not None:
            places[int(start)] = found[: -len(name)]
    text = statement.sql
    for start, schema in sorted(places.items(), reverse=True):
        text = text[:start] + schema + text[start:]
    return text


def qualify_names(statement: Statement, path: Sequence[str], catalog: Catalog) -> Statement:
    """Return a statement with the schemas of the relations that it is about; new ones are in the first of `path`."""

    def qualify_known(name: str) -> str:
        return resolve_in_path(path, name, catalog)

    def qualify_new(name: str) -> str:
        here = path and path[0] and "." not in name and not isinstance(name, OwnName)
        return f"{path[0]}.{name}" if here else name

    def qualify_index(name: str, table: str) -> str:
        schema = table.rpartition(".")[0]
        return f"{schema}.{name}" if schema and "." not in name else name

    return apply_naming(statement, Naming(qualify_known, qualify_new, qualify_index, lambda name: name))


def rename_in_schema(statement: Statement) -> Statement:
    """Return ALTER … RENAME TO with a new name in the schema of the old one, unless it says a schema; others as they are."""
    match statement:
        case Alter(action=RenameTo(name)) if "." not in name and not isinstance(name, OwnName):
            schema = statement.name.rpartition(".")[0]
            return dataclasses.replace(statement, action=RenameTo(f"{schema}.{name}" if schema else name))
    return statement


def strip_own_schema(value: Any) -> Any:
    """Return a statement whose names are known by then: no more is said of those that were written with the own schema."""
    if isinstance(value, OwnName):
        return str(value)
    if isinstance(value, tuple):
        return tuple(strip_own_schema(part) for part in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    plain = {
        name: strip_own_schema(part) for name, part in found.items() if isinstance(part, OwnName | tuple)
    }
    plain |= {name: strip_own_schema(part) for name, part in found.items() if dataclasses.is_dataclass(part)}
    return dataclasses.replace(value, **plain) if plain else value
