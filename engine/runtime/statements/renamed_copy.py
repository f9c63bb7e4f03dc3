"""ALTER … RENAME COLUMN of a view that keeps a Delta table: its sink begins anew, so the table is made anew with the new name."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from engine.errors import Conflict, SqlError
from engine.hummock import Commit, Version
from engine.hummock.preconditions import all_of
from engine.meta.catalog_store import StoredCatalog, catalog_unchanged, entries
from engine.meta.sinks import SinkState, copies_of, released, state_entry, state_of
from engine.runtime.relations import place_of
from engine.sql.catalog import Column, Relation
from engine.sql.statements.option_text import listed
from engine.sql.statements.statement_types import Alter


def renamed_copy(
    version: Version, stored: StoredCatalog, view: Relation, old: Column, new: Column, statement: Alter
) -> Commit:
    """Return the part of a commit by which a view's Delta table follows; raises SqlError if it is laid out by that column."""
    part = Commit(precondition=catalog_unchanged(version))
    for copy in copies_of(stored, view.name):
        _check_layout(copy, old, statement)
        columns = tuple(
            msgspec.structs.replace(c, name=new.name, stored=c.source) if c.source == old.source else c
            for c in copy.columns
        )
        key = tuple(new.name if name == old.name else name for name in copy.primary_key)
        changed = msgspec.structs.replace(copy, columns=columns, primary_key=key)
        acks, pins = released(copy)
        state = SinkState(paused=state_of(version, copy.name).paused)
        part = Commit(
            acks=acks,
            pins=pins,
            catalog=entries({copy.name: changed}, {}) | state_entry(copy.name, state),
            precondition=all_of(catalog_unchanged(version), _as_paused(copy.name, state.paused)),
        )
    return part


def _check_layout(copy: Relation, old: Column, statement: Alter) -> None:
    for option in ("partition_by", "cluster_by"):
        if old.name in listed(copy.options.get(option, "")):
            line, column = place_of(old.name, statement.sql)
            message = f"RENAME COLUMN {old.name}: {option} of the Delta table of {statement.name} names it"
            hint = f"DROP SINK {copy.name} first; CREATE SINK makes the table anew under the new name"
            raise SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)


def _as_paused(name: str, paused: bool) -> Callable[[Version], None]:
    def check(now: Version) -> None:
        if state_of(now, name).paused != paused:
            raise Conflict(f"sink {name} was paused or resumed at the same time; try again")

    return check
