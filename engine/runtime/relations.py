"""Relations that statements name: which one is meant, where its name stands, and what is computed from it."""

from __future__ import annotations

import re
from typing import Literal

from engine.errors import SqlError
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.catalog.successions import find_succeeded_view, name_successor
from engine.meta.status.sinks import is_delta_copy
from engine.sql.catalog import COMPANIONS, Relation, RelationKind
from engine.sql.parsing.statement_errors import locate_character, mask_literals
from engine.sql.schemas import strip_schema


def resolve_relation(
    stored: StoredCatalog, kind: RelationKind | Literal[""], name: str, sql: str, *, system: bool = False
) -> Relation:
    """Return the relation that a statement names; raises SqlError if there is none, or one of another kind.

    With `system` it may be one of the system's own.
    """
    relation = stored.catalog.relations.get(name)
    if relation is None or (name.startswith("_") and not system):
        message = f"there is no {kind or 'table or view'} {name}"
        raise build_name_error(message, name, sql, stored.catalog.suggest_names(name))
    if kind and relation.kind != kind:
        hint = f"write {relation.kind.upper()} {name}"
        raise build_name_error(f"{name} is a {relation.kind}, not a {kind}", name, sql, hint)
    return relation


def list_readers(stored: StoredCatalog, name: str) -> tuple[str, ...]:
    """Return everything that users made and that is computed from `name`, nearer ones first; indexes and checks are not.

    Neither are the view that a sink AS SELECT has for itself, since the sink is, and the sink that a view's own statement made.
    The hidden view that is to take a view's place is one, and so is what reads that of `name` itself.
    """
    next_ones = stored.catalog.list_dependents(name_successor(name))
    names = dict.fromkeys((*stored.catalog.list_dependents(name), *next_ones))
    found = (stored.catalog.get(other) for other in names)
    return tuple(
        other.name
        for other in found
        if other.kind not in COMPANIONS
        and (not other.name.startswith("_") or find_succeeded_view(other.name) is not None)
        and not is_delta_copy(other)
    )


def locate_name(name: str, sql: str) -> tuple[int, int]:
    """Return line and column of the first place in a statement where a name stands."""
    for spelling in (name, strip_schema(name)):  # with its schema, or called by its last name alone
        found = re.search(rf"\b{re.escape(spelling)}\b", mask_literals(sql), re.IGNORECASE)
        if found is not None:
            return locate_character(sql, found.start())
    return 1, 1


def build_name_error(message: str, name: str, sql: str, hint: str) -> SqlError:
    """Return an error at the place where a statement names something."""
    line, column = locate_name(name, sql)
    return SqlError(message, sql=sql, line=line, column=column, hint=hint)
