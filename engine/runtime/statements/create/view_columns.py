"""The columns of views as SQL sees them: which of the texts that Spark tells are json or jsonb."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot.expressions as exp

from engine.jsonb.kinds import has_documents
from engine.sql.bind.binder import BoundQuery
from engine.sql.catalog import Catalog, RelationColumn
from engine.sql.column_names import to_storage_name
from engine.sql.dialect import Dialect
from engine.sql.rewrites.contract import QueryText
from engine.sql.rewrites.rules import apply_parsed_rules
from engine.sql.typing.query_types import QueryTypes


def find_document_types(bound: BoundQuery, visible: tuple[str, ...]) -> Mapping[str, str]:
    """Return the types of the columns of a bound query that are json or jsonb, by the names under which they are shown."""
    kinds = {
        name: bound.types.get(internal) for name, (_, internal) in zip(visible, bound.columns, strict=True)
    }
    return {name: kind for name, kind in kinds.items() if kind is not None and has_documents(kind)}


def find_query_document_types(
    query: exp.Query, catalog: Catalog, dialect: Dialect, sql: str, visible: tuple[str, ...]
) -> Mapping[str, str]:
    """Return the same of a query that is computed as a whole."""
    if dialect == "spark":
        return {}
    tree = apply_parsed_rules(query.copy(), QueryText(catalog, dialect, sql))
    kinds = QueryTypes(tree, catalog).list_types(tree)
    if kinds is None or len(kinds) != len(visible):
        return {}
    named = zip(visible, kinds, strict=True)
    return {name: kind for name, kind in named if kind is not None and has_documents(kind)}


def build_view_columns(
    columns: Sequence[tuple[str, str]], visible: tuple[str, ...], documents: Mapping[str, str]
) -> tuple[RelationColumn, ...]:
    """Return the columns of a materialized view by those that it keeps, each with its type, and the names of those it shows."""
    names = {to_storage_name(name): name for name in visible}
    found = []
    for stored, kind in columns:
        if stored in names:
            name = names[stored]
            found.append(RelationColumn(name, kind, sql_type=documents.get(name)))
        else:  # a user's column may be named as this one is stored
            name = to_storage_name(stored) if stored in visible else stored
            found.append(RelationColumn(name, kind, hidden=True, stored=stored if name != stored else None))
    return tuple(found)


def build_plain_view_columns(
    names: tuple[str, ...], documents: Mapping[str, str]
) -> tuple[RelationColumn, ...]:
    """Return the columns of a plain view, whose other types are found by whoever reads it."""
    return tuple(RelationColumn(name, "", sql_type=documents.get(name)) for name in names)
