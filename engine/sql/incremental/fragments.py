"""Fragments: the tables that keep one view up to date, each computed from the changes of others.

A fragment reads nothing but tables: their change logs, and lookups by key at the old or the new epoch. So its epoch is one Spark
action, and the state of a view is the set of its fragments' tables: indexes of its inputs, partial aggregates, arrangements.
"""

from __future__ import annotations

import msgspec

from engine.sql.catalog import Catalog
from engine.sql.incremental.access_paths import build_arrange_key, index_name
from engine.sql.incremental.rules import IndexCopy, Rule
from engine.sql.incremental.watermarks.watermark_columns import build_watermark_bound
from engine.sql.plan import Bound, Node, Scan, list_scans


class StateExpiry(msgspec.Struct, frozen=True):
    """Nobody looks at rows any more whose `column` is below the least of `bounds`, which are watermarks.

    Rows that come `late` are below already: who reads the state's changes sees them, who looks rows up does not.
    """

    column: str
    bounds: tuple[Bound, ...]
    late: bool = False


class Fragment(msgspec.Struct, frozen=True):
    """One table kept up to date: the plan over other tables, the table's key, the rule that is used and why.

    `columns` are the table's columns with their Spark types, hidden ones included. A state with an `expiry` lets go of rows.
    """

    table: str
    rule: Rule
    plan: Node
    key: tuple[str, ...]
    distribution_key: tuple[str, ...]
    why: str
    columns: tuple[tuple[str, str], ...] = ()
    expiry: StateExpiry | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The tables whose changes this fragment follows, each once."""
        return tuple(dict.fromkeys(scan.table for scan in list_scans(self.plan)))


class IncrementalPlan(msgspec.Struct, frozen=True):
    """The fragments of one view in the order in which they run; the last one is the view itself.

    `indexes` names the shared index tables, (table, columns), that lookups need.
    """

    view: str
    fragments: tuple[Fragment, ...]
    indexes: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def list_dependencies(self, fragment: Fragment) -> tuple[str, ...]:
        """Return every table that a fragment reads: its inputs, and the indexes through which they are looked up."""
        if isinstance(fragment.rule, IndexCopy):
            return fragment.inputs
        mine = tuple(index_name(table, by) for table, by in self.indexes if table in fragment.inputs)
        return fragment.inputs + mine


def build_index_fragment(table: str, columns: tuple[str, ...], catalog: Catalog) -> Fragment:
    """Return the fragment of the index of `table` by `columns`: all its rows, distributed by those columns.

    Of a table WITH TTL it lets go of the rows that have left it.
    """
    relation = catalog.get(table)
    scan = Scan(
        table,
        tuple((column.storage_name, column.storage_name) for column in relation.columns),
        relation.primary_key,
        relation.distribution_key,
        relation.append_only,
    )
    name = index_name(table, columns)
    why = f"lookups in {table} by {', '.join(columns)}"
    types = tuple((column.storage_name, column.type) for column in relation.columns)
    key, expiry = build_arrange_key(columns, scan.key), None
    if relation.watermark is not None and relation.watermark.ttl:
        expiry = StateExpiry(relation.watermark.column, (build_watermark_bound(table),))
    return Fragment(name, IndexCopy(), scan, key, columns, why, columns=types, expiry=expiry)
