"""Views over a few rows in the place of their tables, and the rows that such a view lacks to decide as the whole one does.

Where a view reads a table twice, the rows behind a row may make others beside it that the whole table would have kept out: a row
alone has no partner, a group of which some rows are there is another one. So what decides is added: the partners of rows of outer
and anti joins, whole groups and partitions, and the first rows of what is ordered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from engine.hummock.rows.key_numbers import deduplicate
from engine.operators.context import EpochContext
from engine.runtime.answers.narrow_evaluation import NarrowEvaluation, NarrowRows
from engine.runtime.answers.tables_read import GivenTables
from engine.runtime.answers.trace import Define, Tracer
from engine.sql.expression.template import as_columns
from engine.sql.plan import Aggregate, Join, Node, Over, Project, TopN, list_nodes, list_scans


@dataclass(frozen=True)
class Replay:
    """Whole rows by table, and the views over them as they are defined."""

    rows: Mapping[str, pa.Table]
    context: EpochContext
    define: Define
    _views: dict[str, NarrowRows] = field(default_factory=dict)

    def compute_view(self, view: str) -> NarrowRows:
        """Return the rows of a view over these rows."""
        if view not in self._views:
            self._views[view] = self.compute(self.define(view))
        return self._views[view]

    def compute(self, node: Node) -> NarrowRows:
        """Return the rows of a plan over these rows."""
        names = {scan.table for scan in list_scans(node)}
        given = {
            name: self.rows[name] if name in self.rows else _get_rows(self.compute_view(name))
            for name in names
            if not name.startswith("_")  # a watermark, which is read where a bound is
        }
        return NarrowEvaluation(GivenTables(given), self.context).evaluate(node, {})

    def list_rows(self, node: Node, columns: Sequence[str]) -> pa.Table:
        """Return some columns of a plan over these rows, each row once; without columns one row."""
        if not columns:
            return pa.table({"_": pa.nulls(1)}).select([])
        return deduplicate(self.compute(node).to_arrow().select(list(columns)))


def _get_rows(computed: NarrowRows) -> pa.Table | DataFrame:
    """Return computed rows as Arrow has them where they are few, else as Spark does."""
    return computed.to_arrow() if computed.few else computed.frame


def add_deciding_rows(tracer: Tracer, replay: Replay, views: Sequence[str]) -> None:
    """Trace the rows that decide, in whole tables, over what some views make of a few rows."""
    for view in views:
        for node in list_nodes(replay.define(view)):
            match node:
                case Join(kind="left" | "anti"):
                    rows = replay.list_rows(node.left, node.left.key)
                    kind = "semi" if node.kind == "anti" else node.kind
                    _trace(tracer, view, msgspec.structs.replace(node, kind=kind), rows)
                case Aggregate() if node.calls:
                    grouped = Project(
                        node.input, tuple((f"why:group:{name}", expr) for name, expr in node.keys)
                    )
                    names = [name for name, _ in grouped.items[: len(node.keys)]]
                    _trace(tracer, view, grouped, replay.list_rows(grouped, names))
                case Over():
                    _trace(tracer, view, node.input, replay.list_rows(node.input, node.partition))
                case TopN():
                    rows = replay.list_rows(node.input, node.partition)
                    last = None if node.limit is None else node.limit + node.offset
                    first = msgspec.structs.replace(node, limit=last, offset=0)
                    _trace(tracer, view, Project(first, as_columns(node.columns)), rows)


def _trace(tracer: Tracer, view: str, node: Node, rows: pa.Table) -> None:
    if rows.num_rows:
        tracer.trace_of(view, node, rows)
