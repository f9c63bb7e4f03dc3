"""ALTER … RENAME COLUMN of a view that keeps a Delta table: its sink begins anew, so the table is made anew with the new name."""

from __future__ import annotations

import msgspec

from engine.hummock import Commit, Version
from engine.hummock.manifests.preconditions import Precondition, require, require_all
from engine.meta.catalog.stored_catalog import StoredCatalog, encode_entries, require_same_catalog
from engine.meta.status.copy_columns import rename_evolved_column
from engine.meta.status.sinks import SinkState, encode_sink_state, list_copies, read_sink_state, release_holds
from engine.runtime.relations import build_name_error
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.statements.options.option_text import parse_list
from engine.sql.statements.statement_types import Alter


def rename_copy_column(
    version: Version,
    stored: StoredCatalog,
    view: Relation,
    old: RelationColumn,
    new: RelationColumn,
    statement: Alter,
) -> Commit:
    """Return the part of a commit by which a view's Delta table follows; raises SqlError if it is laid out by that column."""
    part = Commit(precondition=require_same_catalog(version))
    for copy in list_copies(stored, view.name):
        _check_layout(copy, old, statement)
        _check_name(copy, new, statement)
        columns = tuple(
            msgspec.structs.replace(c, name=new.name, stored=c.storage_name)
            if c.storage_name == old.storage_name
            else c
            for c in copy.columns
        )
        key = tuple(new.name if name == old.name else name for name in copy.primary_key)
        changed = rename_evolved_column(copy, old.name, new.name)
        changed = msgspec.structs.replace(changed, columns=columns, primary_key=key)
        acks, pins = release_holds(copy)
        state = SinkState(paused=read_sink_state(version, copy.name).paused)
        part = Commit(
            acks=acks,
            pins=pins,
            catalog=encode_entries({copy.name: changed}, {}) | encode_sink_state(copy.name, state),
            precondition=require_all(
                require_same_catalog(version), _require_same_pause(copy.name, state.paused)
            ),
        )
    return part


def _check_layout(copy: Relation, old: RelationColumn, statement: Alter) -> None:
    for option in ("partition_by", "cluster_by"):
        if old.name in parse_list(copy.options.get(option, "")):
            message = f"RENAME COLUMN {old.name}: {option} of the Delta table of {statement.name} names it"
            hint = f"DROP SINK {copy.name} first; CREATE SINK creates the table again under the new name"
            raise build_name_error(message, old.name, statement.sql, hint)


def _check_name(copy: Relation, new: RelationColumn, statement: Alter) -> None:
    if any(column.hidden and column.name.lower() == new.name.lower() for column in copy.columns):
        message = f"the Delta table of {statement.name} has a part of its key in {new.name}, which the view does not show"
        raise build_name_error(message, new.name, statement.sql, "name the column otherwise")


def _require_same_pause(name: str, paused: bool) -> Precondition:
    message = f"sink {name} was paused or resumed at the same time; try again"
    return require(lambda version: read_sink_state(version, name).paused == paused, message)
