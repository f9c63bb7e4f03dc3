"""What a new relation reads must be there when it is committed, with the columns that it had, and these must stay."""

from __future__ import annotations

from collections.abc import Mapping

from engine.hummock import Version
from engine.hummock.manifests.preconditions import Precondition, require, require_all
from engine.meta.catalog.stored_catalog import (
    RELATIONS,
    StoredCatalog,
    load_catalog,
    require_absent_relation,
)
from engine.meta.catalog.successions import list_successions
from engine.runtime.relations import build_name_error
from engine.runtime.statements.create.view_change import list_column_reasons
from engine.sql.catalog import Catalog, Relation
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.schemas import schema_entry, schema_of

GIVE_UP = "read others; or give the next query up: ALTER MATERIALIZED VIEW {} DISCARD"


def require_absent_name(name: str) -> Precondition:
    """Return the precondition that a name is free, and its schema there."""
    if not (schema := schema_of(name)):
        return require_absent_relation(name)
    dropped = f"schema {schema} was dropped by another process at the same time"
    return require_all(
        require_absent_relation(name), RELATIONS.require_present(schema_entry(schema), dropped)
    )


def require_inputs(name: str, inputs: tuple[str, ...], catalog: Catalog) -> Precondition:
    """Return the precondition that a name is free and what it reads is there, with the columns of the catalog."""
    return require_all(
        require_absent_name(name),
        *(
            RELATIONS.require_present(one, f"{one}, which {name} reads, was dropped by another process")
            for one in inputs
        ),
        *(_require_columns(name, catalog.get(one)) for one in inputs),
    )


def _require_columns(name: str, read: Relation) -> Precondition:
    """Return the precondition that what is read has the columns that it had, by these names; others may have come."""
    known = _list_names(read)
    what = "" if read.kind == "function" else "columns of "
    message = (
        f"{what}{read.name}, which {name} reads, was changed by another process at the same time; try again"
    )

    def has_them(version: Version) -> bool:
        now = RELATIONS.read(version, read.name)
        if read.kind == "function":  # what reads it has its text
            return now == read
        return now is not None and known <= _list_names(now)

    return require(has_them, message)


def _list_names(relation: Relation) -> set[tuple[str, str, str]]:
    return {(column.name, column.storage_name, column.type) for column in relation.columns}


def require_columns_stay(
    sql: str,
    relations: Mapping[str, Relation | None],
    plans: Mapping[str, IncrementalPlan | None] | None = None,
) -> Precondition:
    """Return the precondition that nothing new reads a column which its view has no more once its next query takes over.

    It raises SqlError at the place of that view in the text.
    """
    made = StoredCatalog(
        Catalog({name: one for name, one in relations.items() if one is not None}),
        {name: one for name, one in (plans or {}).items() if one is not None},
    )

    def check(version: Version) -> None:
        stored = load_catalog(version)
        for view, succession in list_successions(version).items():
            if view in made.catalog.relations:
                continue
            before, after = (stored.catalog.get(name) for name in (view, succession.successor))
            reason = next(iter(list_column_reasons(made, before, after)), None)
            if reason is not None:
                message = f"the next query of {view} is being built, and once it takes over {reason}"
                raise build_name_error(message, view, sql, GIVE_UP.format(view))

    return check
