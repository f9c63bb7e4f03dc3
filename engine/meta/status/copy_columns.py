"""The columns of a view's Delta table: those that it shows, the rest of its key, and what another query makes of them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from engine.sql.catalog import Relation, RelationColumn
from engine.sql.statements.options.option_text import parse_list
from engine.sql.typing.delta_columns import find_unsupported_type, needs_mapping
from engine.sql.typing.types import to_arrow

_OPTION = "evolved"


class Evolution(msgspec.Struct, frozen=True):
    """How a Delta table differs from its view, which has had its columns from the epoch `since` on.

    The range of the log that holds that epoch brings what was `added`, by name. Columns that are `gone` from the view, types by
    name, stay in the table and are null.
    """

    since: int
    added: tuple[str, ...]
    gone: dict[str, str]


def read_evolution(copy: Relation) -> Evolution | None:
    """Return how the columns of a Delta table have changed since it was made, None if they have not."""
    text = copy.options.get(_OPTION)
    return None if text is None else msgspec.json.decode(text, type=Evolution)


def list_hidden_keys(view: Relation) -> tuple[RelationColumn, ...]:
    """Return the key columns that a view does not show, as its Delta table has them: by names that its other columns leave."""
    taken = {column.name.lower() for column in view.visible_columns}
    found = list[RelationColumn]()
    for column in view.columns:
        if column.hidden and column.storage_name in view.primary_key:
            n, name = 1, column.name
            while name.lower() in taken:
                n += 1
                name = f"{column.name}_{n}"
            taken.add(name.lower())
            found.append(RelationColumn(name, column.type, hidden=True, stored=column.storage_name))
    return tuple(found)


def change_copy_columns(copy: Relation, view: Relation) -> Relation:
    """Return the sink of a Delta table whose view shows other columns from the epoch on at which it has its query."""
    shown = (
        RelationColumn(c.name, c.type, stored=c.storage_name, sql_type=c.sql_type)
        for c in view.visible_columns
    )
    columns = (*shown, *_list_own_keys(copy))
    before, old = read_evolution(copy), {column.name for column in copy.columns}
    names = {column.name.lower() for column in columns}
    gone = {column.name: column.type for column in copy.columns} | ({} if before is None else before.gone)
    added = [] if before is None else [*before.added]
    evolution = Evolution(
        view.query_since,
        tuple(dict.fromkeys([*added, *(column.name for column in columns if column.name not in old)])),
        {name: kind for name, kind in gone.items() if name.lower() not in names},
    )
    key = tuple(column.name for column in columns if column.storage_name in view.primary_key)
    options = {**copy.options, _OPTION: msgspec.json.encode(evolution).decode()}
    return msgspec.structs.replace(copy, columns=columns, primary_key=key, options=options)


def _list_own_keys(copy: Relation) -> tuple[RelationColumn, ...]:
    """Return the columns of a Delta table that its view does not show."""
    return tuple(column for column in copy.columns if column.hidden)


def rename_evolved_column(copy: Relation, old: str, new: str) -> Relation:
    """Return the sink of a Delta table that is made anew as a column gets another name, maybe that of one that went."""
    before = read_evolution(copy)
    if before is None:
        return copy
    evolution = Evolution(
        before.since,
        tuple(new if name == old else name for name in before.added),
        {name: kind for name, kind in before.gone.items() if name.lower() != new.lower()},
    )
    options = {**copy.options, _OPTION: msgspec.json.encode(evolution).decode()}
    return msgspec.structs.replace(copy, options=options)


def list_copy_reasons(copy: Relation, view: Relation) -> Iterator[str]:
    """Yield why a Delta table cannot follow a view that shows other columns."""
    evolution = read_evolution(copy)
    known = {one.name.lower(): one.type for one in copy.columns}
    known |= {} if evolution is None else {name.lower(): kind for name, kind in evolution.gone.items()}
    keys = {one.name.lower() for one in _list_own_keys(copy)}
    shown = {column.name for column in view.visible_columns}
    for option in ("partition_by", "cluster_by"):
        for name in parse_list(copy.options.get(option, "")):
            if name not in shown:
                yield f"{option} of its Delta table names its column {name}, which goes"
    for column in view.visible_columns:
        kind = known.get(column.name.lower())
        if column.name.lower() in keys:
            yield f"column {column.name} of its Delta table is a part of its key, which the view does not show"
        elif kind is not None and kind != column.type:
            yield f"column {column.name} of its Delta table is {kind}, and would be {column.type}"
        elif kind is None and (missing := find_unsupported_type(to_arrow(column.type))):
            yield f"column {column.name} is {column.type}, and Delta has no type {missing} for its table"
        elif kind is None and needs_mapping(to_arrow(column.type), column.name):
            yield f"its Delta table has no columns with names like {column.name}"
