"""What a new view may not ask for, of what it reads or replaces; each check raises with the place.

- Sources are read by their changes alone: nothing else of them is in the store.
- What temporal joins read must not follow the clock: nobody knows later how it stood when a row came.
- CREATE OR REPLACE VIEW takes the place of a plain view that nothing reads.
- `WITH (backfill_order = FIXED(a -> b, …))` says which inputs are to be read before which others. A view here reads all of its
  inputs at one epoch, so the order says nothing about its rows; that it can be followed is checked.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from engine.errors import SqlError, UnsupportedSql
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.epochs.arrival_stops import collect_ancestors
from engine.meta.epochs.time_boundary import is_timed
from engine.runtime.relations import build_name_error, list_readers, locate_name
from engine.sql.batch.ad_hoc import query_views
from engine.sql.catalog import Catalog, Relation
from engine.sql.incremental.fragments import Fragment, IncrementalPlan
from engine.sql.incremental.rules import (
    FullRefresh,
    IndexCopy,
    JoinedOnArrival,
    Linear,
    Lookups,
    StoredPartials,
    TimedRows,
)
from engine.sql.incremental.states.table_columns import reads_pass_through
from engine.sql.plan import Join, Node, list_children, list_scans
from engine.sql.statements.options.gate_bounds import GATE, parse_gate
from engine.sql.statements.statement_types import CreateMaterializedView, CreateView

_FOLLOWED = (Linear, Lookups, StoredPartials, TimedRows, JoinedOnArrival)
"""The rules that read what they compute from by its changes; of joins what is looked up is checked besides."""


def check_gate(view: Relation, sql: str) -> None:
    """Raise SqlError for a gate that bounds a column which the view has not."""
    names = {column.name.lower() for column in view.visible_columns}
    for bound in parse_gate(view.options[GATE], sql) if GATE in view.options else ():
        if bound.column and bound.column.lower() not in names:
            raise build_name_error(f"{view.name} has no column {bound.column}", bound.column, sql, bound.text)


def check_source_reads(plan: IncrementalPlan, catalog: Catalog, sql: str) -> None:
    """Raise UnsupportedSql, with the place, for a view that would have to read a source's rows in each epoch."""
    for fragment in plan.fragments:
        names = (scan.table for scan in list_scans(fragment.plan))
        found = [
            name for name in names if name in catalog.relations and catalog.relations[name].is_pass_through
        ]
        if found and not _follows_changes(fragment):
            full = isinstance(fragment.rule, FullRefresh)
            what = "refresh_policy = 'full'" if full else f"rule {fragment.rule.word}"
            hint = "leave that option out, " if full or fragment.rule.word == "reference" else ""
            line, column = locate_name(found[0], sql)
            raise UnsupportedSql(
                f"{what} reads all rows again, and the rows of source {found[0]} are not kept",
                sql=sql,
                line=line,
                column=column,
                hint=f"{hint}or CREATE TABLE {found[0]} … WITH (connector = …), which keeps the rows",
            )


def _follows_changes(fragment: Fragment) -> bool:
    if isinstance(fragment.rule, IndexCopy) or not isinstance(fragment.rule, _FOLLOWED):
        return False
    return not _is_looked_up(fragment.plan)


def _is_looked_up(node: Node) -> bool:
    """Tell whether a side of a join that is looked up, or read as a whole, stands on a source."""
    if isinstance(node, Join):
        looked_up = (node.right,) if node.at_arrival else (node.left, node.right)
        if any(reads_pass_through(side) for side in looked_up):
            return True
    return any(_is_looked_up(child) for child in list_children(node))


def check_join_sides(stored: StoredCatalog, view: str, sql: str) -> None:
    """Raise UnsupportedSql if a temporal join of a new view reads a view, through others perhaps, with now() in a condition."""
    for fragment in stored.plans[view].fragments:
        if not isinstance(fragment.rule, JoinedOnArrival):
            continue
        for table in fragment.inputs:
            timed = sorted(t for t in collect_ancestors((table,), stored.inputs) if _follows_clock(t, stored))
            if not timed:
                continue
            read, owner = stored.owners.get(table, table), stored.owners[timed[0]]
            line, column = locate_name(read, sql)
            through = "" if owner == read else f", which reads {owner}"
            message = f"a temporal join with {read}{through}: its rows come and go with now()"
            hint = f"join what {owner} reads, and write the condition on now() above the join"
            raise UnsupportedSql(message, sql=sql, line=line, column=column, hint=hint)


def _follows_clock(table: str, stored: StoredCatalog) -> bool:
    fragment = stored.fragments.get(table)
    return fragment is not None and is_timed(fragment)


def check_replaceable(stored: StoredCatalog, before: Relation, statement: CreateView) -> None:
    """Raise SqlError if a relation cannot be replaced by a plain view: what reads it was planned with its text."""

    def build_error(message: str, hint: str) -> SqlError:
        return build_name_error(message, before.name, statement.sql, hint)

    if before.kind != "view":
        hint = f"DROP {before.kind.upper()} {before.name} first"
        raise build_error(f"{before.name} is a {before.kind}, not a view", hint)
    found = list_readers(stored, before.name)
    if found:
        message = f"{before.name} is read by {', '.join(found)}, which would keep its old text"
        raise build_error(message, f"DROP VIEW {before.name} CASCADE, and make them again")
    if before.name in query_views(statement.query, stored.catalog):
        raise build_error(f"{before.name} would read itself", "read what it reads")


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
            raise _build_order_error(
                statement, f"{_OPTION} cannot read '{pair.strip()}'", "write FIXED(a -> b, …)"
            )
        for name in (first, second):
            if name not in inputs:
                hint = f"the view reads {', '.join(sorted(inputs))}"
                raise _build_order_error(
                    statement, f"{_OPTION} names {name}, which the view does not read", hint, name
                )
        before.setdefault(second, []).append(first)
    for name in before:
        if name in collect_ancestors(before[name], before):
            raise _build_order_error(
                statement, f"{_OPTION} has {name} before itself", "leave one arrow out", name
            )


def _build_order_error(
    statement: CreateMaterializedView, message: str, hint: str, name: str = _OPTION
) -> SqlError:
    return build_name_error(message, name, statement.sql, hint)
