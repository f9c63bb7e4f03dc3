"""EMIT ON WINDOW CLOSE of CREATE MATERIALIZED VIEW, and the columns of a view that carry a watermark on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from engine.errors import UnsupportedSql
from engine.sql.catalog import Carried, Catalog
from engine.sql.incremental.progress import carried_columns, of_catalog, progress
from engine.sql.incremental.window_close import on_window_close
from engine.sql.parsing.refusals import refusal, words
from engine.sql.plan import Node
from engine.sql.statements.statement_types import CreateMaterializedView
from engine.sql.statements.view_options import rules

_EMIT = re.compile(r"\bEMIT\s+ON\s+WINDOW\s+CLOSE\b", re.IGNORECASE)


def check_emits(statement: CreateMaterializedView) -> None:
    """Raise UnsupportedSql, with the place, where an option computes the view otherwise than row by row."""
    if not statement.on_window_close:
        return
    policy = statement.options.get("refresh_policy", "auto").lower()
    if policy == "full":
        raise _refused(statement, "refresh_policy = 'full' computes all rows again", "leave one of them out")
    if rules(statement.options) == "reference":
        raise _refused(statement, "rules = 'reference' keeps whole states", "leave one of them out")


def closed_plan(plan: Node, statement: CreateMaterializedView, catalog: Catalog) -> Node:
    """Return the plan of a view's rows: those that are closed, if it emits on window close."""
    if not statement.on_window_close:
        return plan
    return on_window_close(plan, of_catalog(catalog), lambda why, hint: _refused(statement, why, hint))


def carried_by(plan: Node, columns: Sequence[tuple[str, str]], catalog: Catalog) -> tuple[Carried, ...]:
    """Return the columns of a view, (its name, the plan's), that carry a watermark."""
    names: Mapping[str, str] = {internal: name for name, internal in columns}
    return carried_columns(progress(plan, of_catalog(catalog)), names)


def _refused(statement: CreateMaterializedView, why: str, hint: str) -> UnsupportedSql:
    found = _EMIT.search(words(statement.sql))
    start = 0 if found is None else found.start()
    return refusal(f"EMIT ON WINDOW CLOSE: {why}", statement.sql, start, hint)
