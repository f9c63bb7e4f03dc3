"""Relations that statements name: which one is meant, where its name stands, and what is computed from it."""

from __future__ import annotations

import re
from typing import Literal

from engine.errors import SqlError
from engine.meta.catalog_store import StoredCatalog
from engine.meta.sinks import is_copy
from engine.sql.catalog import COMPANIONS, Relation, RelationKind
from engine.sql.parsing.refusals import line_and_column, words
from engine.sql.schemas import last_name


def known(
    stored: StoredCatalog, kind: RelationKind | Literal[""], name: str, sql: str, *, system: bool = False
) -> Relation:
    """Return the relation that a statement names; raises SqlError if there is none, or one of another kind.

    With `system` it may be one of the system's own.
    """
    relation = stored.catalog.relations.get(name)
    if relation is None or (name.startswith("_") and not system):
        line, column = place_of(name, sql)
        message = f"there is no {kind or 'table or view'} {name}"
        raise SqlError(message, sql=sql, line=line, column=column, hint=stored.catalog.near(name))
    if kind and relation.kind != kind:
        hint = f"write {relation.kind.upper()} {name}"
        line, column = place_of(name, sql)
        message = f"{name} is a {relation.kind}, not a {kind}"
        raise SqlError(message, sql=sql, line=line, column=column, hint=hint)
    return relation


def readers(stored: StoredCatalog, name: str) -> tuple[str, ...]:
    """Return everything that users made and that is computed from `name`, nearer ones first; indexes and checks are not.

    Neither are the view that a sink AS SELECT has for itself, since the sink is, and the sink that a view's own statement made.
    """
    found = (stored.catalog.get(other) for other in stored.catalog.dependents(name))
    return tuple(
        other.name
        for other in found
        if other.kind not in COMPANIONS and not other.name.startswith("_") and not is_copy(other)
    )


def place_of(name: str, sql: str) -> tuple[int, int]:
    """Return line and column of the first place in a statement where a name stands."""
    for written in (name, last_name(name)):  # with its schema, or called by its last name alone
        found = re.search(rf"\b{re.escape(written)}\b", words(sql), re.IGNORECASE)
        if found is not None:
            return line_and_column(sql, found.start())
    return 1, 1
