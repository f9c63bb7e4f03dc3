"""`WITH (backfill_order = FIXED(a -> b, …))`: which inputs of a view are to be read before which others.

A view here reads all of its inputs at one epoch, so the order says nothing about its rows; that it can be followed is checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from engine.errors import SqlError
from engine.meta.epochs.arrival_stops import collect_ancestors
from engine.runtime.relations import locate_name
from engine.sql.statements.statement_types import CreateMaterializedView

_OPTION = "backfill_order"
_FIXED = re.compile(r"\s*fixed\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)


def check_backfill_order(statement: CreateMaterializedView, inputs: Collection[str]) -> None:
    """Raise SqlError for an order that names what the view does not read, or that goes round in a circle."""
    fixed = _FIXED.fullmatch(statement.options.get(_OPTION, ""))
    if fixed is None:
        return
    before: dict[str, list[str]] = {}
    for pair in fixed[1].split(","):
        first, arrow, second = (part.strip().lower() for part in pair.partition("->"))
        if not (first and arrow and second):
            raise _build_error(statement, f"{_OPTION} cannot read '{pair.strip()}'", "write FIXED(a -> b, …)")
        for name in (first, second):
            if name not in inputs:
                hint = f"the view reads {', '.join(sorted(inputs))}"
                raise _build_error(
                    statement, f"{_OPTION} names {name}, which the view does not read", hint, name
                )
        before.setdefault(second, []).append(first)
    for name in before:
        if name in collect_ancestors(before[name], before):
            raise _build_error(statement, f"{_OPTION} has {name} before itself", "leave one arrow out", name)


def _build_error(statement: CreateMaterializedView, message: str, hint: str, name: str = _OPTION) -> SqlError:
    line, column = locate_name(name, statement.sql)
    return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
