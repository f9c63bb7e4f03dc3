"""What needs a column of a table or view: it cannot go before that does. A view is listed by its name in the catalog."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.catalog.successions import find_succeeded_view
from engine.meta.status.sinks import is_delta_copy
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.expression.spark_sql import quote
from engine.sql.plan import Scan, list_children
from engine.sql.statements.ddl.sink_statements import find_view_sink


def list_column_users(
    stored: StoredCatalog, relation: Relation, column: RelationColumn, leaving: Collection[str] = ()
) -> list[str]:
    """Return what needs a column: views by plans or texts, indexes by keys, generated columns, sinks from it or into it.

    A view's own Delta table follows it. The plans, and texts, of views that are `leaving` it do not.
    """
    found = [
        f"the generated column {c.name}"
        for c in relation.columns
        if quote(column.name) in (c.generated or "")
    ]
    found += list_plan_users(stored, relation, column, leaving)
    for name, other in stored.catalog.relations.items():
        named = other.kind == "index" and other.sql and other.options.get("on") == relation.name
        if named and column.name in (c.name for c in other.columns):
            found.append(name)
        pattern = rf"\*|\b{re.escape(column.name)}\b"
        reads = other.kind == "view" and name not in leaving and relation.name in other.depends_on
        if reads and re.search(pattern, other.sql, re.IGNORECASE):
            found.append(name)
        if other.kind == "sink" and relation.name in other.depends_on and not is_delta_copy(other):
            read = relation.name == other.depends_on[0]
            needed = (c.storage_name if read else c.name for c in other.columns)
            if (column.storage_name if read else column.name) in needed:
                found.append(f"the sink {name}")
    return list(dict.fromkeys(found))


def list_plan_users(
    stored: StoredCatalog, relation: Relation, column: RelationColumn, leaving: Collection[str] = ()
) -> list[str]:
    """Return the views that read a column by their plans, without those that are `leaving` it."""
    return [
        name
        for name, plan in stored.plans.items()
        if name not in leaving
        and stored.catalog.relations[name].kind != "index"
        and any(_reads(fragment.plan, relation.name, column.storage_name) for fragment in plan.fragments)
    ]


def name_users(users: Collection[str]) -> str:
    """Return how messages name what needs a column: a next query by its view, a sink's own view as the sink."""
    return ", ".join(dict.fromkeys(map(_name_user, users)))


def _name_user(name: str) -> str:
    view = find_succeeded_view(name)
    if view is not None:
        return f"the next query of {view}"
    sink = find_view_sink(name)
    return name if sink is None else f"the sink {sink}"


def _reads(node: Any, table: str, column: str) -> bool:
    if isinstance(node, Scan):
        return node.table == table and column in (source for _, source in node.items)
    return any(_reads(child, table, column) for child in list_children(node))
