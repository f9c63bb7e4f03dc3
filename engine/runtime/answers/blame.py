"""In which epochs a row of a table or view changed, from what to what, and who committed them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NoReturn

import pyarrow as pa

from engine.arrow import as_rows
from engine.errors import SqlError
from engine.hummock import Hummock
from engine.hummock.epoch import format_epoch
from engine.hummock.reads.key_history import Cause, KeyHistory, RowState
from engine.hummock.rows.ordering import identical_values, one_chunk
from engine.meta.domains.creation import list_creations
from engine.meta.epochs.commit_history import CommitRecord, find_commits
from engine.runtime.answers.asked_row import AskedKey, convert_value, describe_asked, find_row, resolve_key
from engine.runtime.answers.stored_rows import StoredRows
from engine.runtime.answers.tables_read import StoreTables
from engine.sql.catalog import Relation, RelationColumn

Operation = Literal["insert", "update", "delete"]


@dataclass(frozen=True)
class RowChange:
    """What an epoch did to a row: the row before and after, None where there was none, and the columns that differ.

    `cause` is "write", or what hides rows by itself: "watermark", "time to live". `commit` is None where no commit made the
    change, or no manifest tells of it any more.
    """

    epoch: int
    operation: Operation
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None
    columns: tuple[str, ...]
    cause: Cause
    commit: CommitRecord | None


@dataclass(frozen=True)
class RowHistory:
    """In which epochs a row changed, newest first, as far as they are kept: from `known_from` on, None if from its creation on.

    `key` are the values that the row was asked for by. `first` is the row at `known_from`, `row` the newest; None where there
    was none.
    """

    view: str
    key: Mapping[str, Any]
    known_from: int | None
    epoch: int
    first: Mapping[str, Any] | None
    row: Mapping[str, Any] | None
    changes: tuple[RowChange, ...]


def list_row_changes(store: Hummock, view: str, key: AskedKey) -> RowHistory:
    """Return in which epochs the row of a table or view with a key changed; the row may be gone by now.

    A row that is named by other columns than the key's is found among the newest rows first, which reads them. Raises SqlError
    for a key that names several rows, or none that ever was as far as is known.
    """
    stored = StoredRows.find(store, view)
    newest = stored.find_newest_epoch()
    asked = resolve_key(stored.relation, key)
    keys = _find_key(stored, key, asked, newest)
    table = stored.table
    since = store.find_first_readable(table)
    history = store.reader.read_key_history(table, keys, (since, newest), columns=stored.shown)
    told = {column.name: value for column, value in asked.items()}
    answer = _Answer(stored, history, newest)
    if not history.rows.num_rows:
        named = describe_asked(asked)
        if answer.knows_all:
            raise SqlError(f"{stored.relation.name} has no row with {named}, and never had one")
        known = format_epoch(history.known_from)
        raise SqlError(
            f"{stored.relation.name} has no row with {named}, and had none from epoch {known} on",
            hint="what was before is not kept",
        )
    return answer.build(told)


def _find_key(
    stored: StoredRows, key: AskedKey, asked: Mapping[RelationColumn, Any], newest: int
) -> pa.Table:
    """Return the whole key of a row as it is stored."""
    relation = stored.relation
    given = {column.storage_name: convert_value(relation, column, value) for column, value in asked.items()}
    if given.keys() == set(relation.primary_key):
        return pa.table({name: given[name] for name in relation.primary_key})
    epochs = {relation.name: newest}
    tables = StoreTables(stored.store, stored.version, stored.stored, epochs, partial(_refuse, relation))
    found = find_row(tables, relation, key, "one that is gone is found by its whole key alone")
    return found.select(list(relation.primary_key))


def _refuse(relation: Relation) -> NoReturn:
    """Refuse to look for a row of which nothing is said in a table that only Spark would read as a whole."""
    names = ", ".join(column.name for column in relation.visible_columns)
    raise SqlError(f"no row of {relation.name} is named", hint=f"name columns as column=value: {names}")


@dataclass(frozen=True)
class _Answer:
    """The states of a row, and what they are told from."""

    stored: StoredRows
    states: KeyHistory
    newest: int

    def build(self, key: Mapping[str, Any]) -> RowHistory:
        """Return the history of the row."""
        rows, states = as_rows(self.stored.show(self.states.rows)), self._fold_creation()
        shown = [None if state.row is None else rows[state.row] for state in states]
        changes: list[RowChange] = []
        for at in range(1, len(states)):
            columns = self._list_changed(states[at - 1].row, states[at].row)
            if not columns and None not in (states[at - 1].row, states[at].row):
                continue
            old, new = shown[at - 1], shown[at]
            operation: Operation = "insert" if old is None else "delete" if new is None else "update"
            changes.append(RowChange(states[at].epoch, operation, old, new, columns, states[at].cause, None))
        known_from = None if self.knows_all else self.states.known_from
        return RowHistory(
            self.stored.relation.name,
            key,
            known_from,
            self.newest,
            shown[0],
            shown[-1],
            self._add_commits(changes),
        )

    @property
    def knows_all(self) -> bool:
        """Whether the history reaches back to when the table was made."""
        return self.states.known_from <= self.stored.relation.since

    def _fold_creation(self) -> list[RowState]:
        """Return the states from the epoch on at which a view had content first: what came before were steps of its backfill."""
        first = max(
            (
                made.epoch
                for made in list_creations(self.stored.version).values()
                if self.stored.relation.name in made.tables
            ),
            default=0,
        )
        states = self.states.states
        before = [state for state in states if state.epoch <= first]
        if len(before) < 2:
            return list(states)
        steps = [states[0], *([replace(before[-1], epoch=first)] if before[-1].row is not None else [])]
        return [*steps, *states[len(before) :]]

    def _list_changed(self, before: int | None, now: int | None) -> tuple[str, ...]:
        """Return the shown columns of which two rows differ; all where there was none, or is none any more."""
        relation, rows = self.stored.relation, self.states.rows
        shown = relation.visible_columns
        if before is None or now is None:
            return tuple(column.name for column in shown)
        values = {column.name: one_chunk(rows.column(column.storage_name)) for column in shown}
        return tuple(
            name
            for name, array in values.items()
            if not identical_values(array.slice(before, 1), array.slice(now, 1))[0]
        )

    def _add_commits(self, changes: list[RowChange]) -> tuple[RowChange, ...]:
        """Return changes, newest first, with who committed them."""
        epochs = {change.epoch for change in changes if change.cause == "write"}
        deltas = self.stored.store.iterate_deltas() if epochs else ()
        commits = find_commits(deltas, self.stored.relation.name, epochs)
        return tuple(replace(change, commit=commits.get(change.epoch)) for change in reversed(changes))
