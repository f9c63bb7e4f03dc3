"""EMIT ON WINDOW CLOSE of CREATE MATERIALIZED VIEW, and the columns of a view that carry a watermark on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from engine.errors import UnsupportedSql
from engine.sql.catalog import Carried, Catalog
from engine.sql.incremental.watermarks.watermark_columns import (
    build_scan_lookup,
    find_progress,
    list_carried_columns,
)
from engine.sql.incremental.watermarks.window_close import emit_on_window_close
from engine.sql.parsing.statement_errors import mask_literals, unsupported_error_at
from engine.sql.plan import Node
from engine.sql.statements.options.view_options import resolve_rules
from engine.sql.statements.statement_types import CreateMaterializedView

_EMIT = re.compile(r"\bEMIT\s+ON\s+WINDOW\s+CLOSE\b", re.IGNORECASE)


def check_emit(statement: CreateMaterializedView) -> None:
    """Raise UnsupportedSql, with the place, where an option computes the view otherwise than row by row."""
    if not statement.on_window_close:
        return
    policy = statement.options.get("refresh_policy", "auto").lower()
    if policy == "full":
        raise _build_error(
            statement, "refresh_policy = 'full' computes all rows again", "leave one of them out"
        )
    if resolve_rules(statement.options) == "reference":
        raise _build_error(statement, "rules = 'reference' keeps whole states", "leave one of them out")


def restrict_to_closed(plan: Node, statement: CreateMaterializedView, catalog: Catalog) -> Node:
    """Return the plan of a view's rows: those that are closed, if it emits on window close."""
    if not statement.on_window_close:
        return plan
    return emit_on_window_close(
        plan, build_scan_lookup(catalog), lambda why, hint: _build_error(statement, why, hint)
    )


def find_carried_watermarks(
    plan: Node, columns: Sequence[tuple[str, str]], catalog: Catalog
) -> tuple[Carried, ...]:
    """Return the columns of a view, (its name, the plan's), that carry a watermark."""
    names: Mapping[str, str] = {internal: name for name, internal in columns}
    return list_carried_columns(find_progress(plan, build_scan_lookup(catalog)), names)


def _build_error(statement: CreateMaterializedView, why: str, hint: str) -> UnsupportedSql:
    found = _EMIT.search(mask_literals(statement.sql))
    start = 0 if found is None else found.start()
    return unsupported_error_at(f"EMIT ON WINDOW CLOSE: {why}", statement.sql, start, hint)
