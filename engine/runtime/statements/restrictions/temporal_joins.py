"""What temporal joins read must not follow the clock: nobody knows later how it stood when a row came."""

from __future__ import annotations

from engine.errors import UnsupportedSql
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.epochs.arrival_stops import collect_ancestors
from engine.meta.epochs.time_boundary import is_timed
from engine.runtime.relations import locate_name
from engine.sql.incremental.rules import JoinedOnArrival


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
