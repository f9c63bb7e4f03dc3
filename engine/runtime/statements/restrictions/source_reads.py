"""How a view may read sources: by their changes alone, since nothing else of them is in the store."""

from __future__ import annotations

from engine.errors import UnsupportedSql
from engine.runtime.relations import locate_name
from engine.sql.catalog import Catalog
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

_FOLLOWED = (Linear, Lookups, StoredPartials, TimedRows, JoinedOnArrival)
"""The rules that read what they compute from by its changes; of joins what is looked up is checked besides."""


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
