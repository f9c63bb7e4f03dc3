"""The columns of a view that gets another query: those that stay keep their place in its table, others come and go."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from engine.hummock import Table
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.expression.nodes import NULL, Cast, Column, Expr
from engine.sql.incremental.fragments import Fragment, IncrementalPlan
from engine.sql.incremental.rules import Linear
from engine.sql.plan import Project, Scan

Columns = tuple[tuple[str, str], ...]


def fit_columns(
    before: Relation, relation: Relation, plan: IncrementalPlan, table: Table
) -> tuple[Relation, IncrementalPlan]:
    """Return a view and its plan so that they go on with the `table` of the view as it was, if they can: by the same key.

    A column that stays, by name and type, has the name in the store that it had. Where another query shows the same columns and
    its rules keep other hidden ones, its rows are a state of the view, which shows a copy of them: its own hidden columns, which
    nobody reads any more, are null. Where it shows others, they are added to the table, and those that are gone leave it.
    """
    names = _name_columns(before, relation, table)
    if not has_same_key(before, _rename_columns(relation, names)):
        return relation, plan
    fitted, last = _rename_columns(relation, names), plan.fragments[-1]
    columns = tuple((names[name], kind) for name, kind in last.columns)
    if shows_the_same(before, fitted):
        kept = {column.storage_name: column.type for column in before.columns}
        stored = tuple((name, kept[name]) for name in table.schema.names if name in kept)
        if set(stored) == set(columns) and not _is_renamed(names):
            return msgspec.structs.replace(fitted, columns=_arrange(before, fitted)), plan
        return msgspec.structs.replace(fitted, columns=before.columns), _show_copy(plan, stored, names)
    return fitted, _show_copy(plan, columns, names) if _is_renamed(names) else plan


def _name_columns(before: Relation, after: Relation, table: Table) -> dict[str, str]:
    """Return by which name of the store each column of a query goes on: that of the same column, or one that never was."""
    known = {
        (column.name, column.type, column.visible_type, column.hidden): column for column in before.columns
    }
    used = {*table.schema.names, *table.options.dropped}
    found: dict[str, str] = {}
    for column in after.columns:
        same = known.get((column.name, column.type, column.visible_type, column.hidden))
        if same is not None:
            found[column.storage_name] = same.storage_name
    for column in after.columns:
        if column.storage_name not in found:
            free = find_free_name(column.storage_name, used | set(found.values()))
            found[column.storage_name] = free
    return found


def find_free_name(name: str, used: Collection[str]) -> str:
    """Return a column's name in the store, with a number where that is, or was, another column's."""
    n, free = 1, name
    while free in used:
        n += 1
        free = f"{name}__{n}"
    return free


def _is_renamed(names: Mapping[str, str]) -> bool:
    return any(old != new for old, new in names.items())


def _rename_columns(relation: Relation, names: Mapping[str, str]) -> Relation:
    """Return a relation whose columns have other names in the store."""

    def rename(column: RelationColumn) -> RelationColumn:
        name = names[column.storage_name]
        return column if name == column.storage_name else msgspec.structs.replace(column, stored=name)

    return msgspec.structs.replace(
        relation,
        columns=tuple(map(rename, relation.columns)),
        primary_key=tuple(names[name] for name in relation.primary_key),
        distribution_key=tuple(names[name] for name in relation.distribution_key),
    )


def has_same_key(before: Relation, after: Relation) -> bool:
    """Tell whether the rows of two forms of a view are told apart, and distributed, by the same columns."""
    keys = [(one.primary_key, one.distribution_key, one.append_only) for one in (before, after)]
    columns = [
        {(c.storage_name, c.type, c.hidden) for c in one.columns if c.storage_name in one.primary_key}
        for one in (before, after)
    ]
    return keys[0] == keys[1] and columns[0] == columns[1]


def shows_the_same(before: Relation, after: Relation) -> bool:
    """Tell whether two forms of a view show the same columns in the same order, whatever their comments are."""
    shown = [
        [msgspec.structs.replace(column, comment=None) for column in one.visible_columns]
        for one in (before, after)
    ]
    return shown[0] == shown[1]


def _arrange(before: Relation, after: Relation) -> tuple[RelationColumn, ...]:
    """Return the columns of the second relation, which are those of the first, in the order of the first."""
    found = {column.storage_name: column for column in after.columns}
    return tuple(found[column.storage_name] for column in before.columns)


def _show_copy(plan: IncrementalPlan, columns: Columns, names: Mapping[str, str]) -> IncrementalPlan:
    """Return a plan that keeps its rows as a state, and shows `columns` of them, by the names that they get."""
    last = plan.fragments[-1]
    state = msgspec.structs.replace(last, table=f"_state_{plan.view}_{len(plan.fragments) + 1}")
    scanned = tuple(name for name, _ in last.columns)
    scan = Scan(state.table, tuple((name, name) for name in scanned), state.key, state.distribution_key)
    source = {names[name]: name for name in scanned}

    def read(name: str, kind: str) -> Expr:
        return Column(source[name]) if name in source else Cast(NULL, kind)

    items = tuple((name, read(name, kind)) for name, kind in columns)
    key, distribution = (tuple(names[name] for name in one) for one in (last.key, last.distribution_key))
    why = "the rows of its query, without what only that keeps"
    copied = Fragment(plan.view, Linear(), Project(scan, items), key, distribution, why, columns=columns)
    return msgspec.structs.replace(plan, fragments=(*plan.fragments[:-1], state, copied))


def list_null_columns(relation: Relation, plan: IncrementalPlan) -> tuple[str, ...]:
    """Return the hidden columns of a view to which its plan gives no values."""
    hidden, last = {c.storage_name for c in relation.columns if c.hidden}, plan.fragments[-1].plan
    items = last.items if isinstance(last, Project) else ()
    nulls = (name for name, item in items if isinstance(item, Cast) and item.value == NULL)
    return tuple(name for name in nulls if name in hidden)
