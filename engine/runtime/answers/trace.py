"""The rows of tables that rows of a view are made of, through every operator and all views between.

Rule by operator: a projection, a filter and a pair of a join are made of the rows that they are computed from, a row of a semi
join also of all rows that it has found, one of an anti join of itself alone; a group of all its rows; a call over a window of all
rows of the partition; first rows of themselves, and with an OFFSET of those before it; a row of a UNION ALL of those of its
branch; what is computed as a whole of all rows of all that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.hummock.rows.key_numbers import deduplicate, find_members
from engine.operators.context import EpochContext
from engine.runtime.answers.carried_keys import CarryingPlan, KeyCarrier, Part
from engine.runtime.answers.narrow_evaluation import NarrowEvaluation, list_wanted
from engine.runtime.answers.operator_texts import describe_operator, describe_part
from engine.runtime.answers.tables_read import StoreTables
from engine.sql.catalog import watermark_name
from engine.sql.expression.nodes import Expr
from engine.sql.expression.spark_sql import quote
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Node,
    Over,
    Project,
    Recompute,
    Scan,
    TopN,
    UnionAll,
)

Define = Callable[[str], Node]


@dataclass(frozen=True)
class TraceStep:
    """One step from a view's row to its inputs: what `relation` does, in words and as its `text`, and how many rows it met."""

    relation: str
    operator: str
    text: str
    rows: int


@dataclass
class Tracer:
    """Traces rows of views to keys of the tables that they are made of: `found` holds these by table, `steps` how."""

    tables: StoreTables
    context: EpochContext
    define: Define
    found: dict[str, list[pa.Table]] = field(default_factory=dict)
    steps: list[TraceStep] = field(default_factory=list)
    _carrier: KeyCarrier = field(default_factory=KeyCarrier)
    _view: str = ""

    def trace_view(self, view: str, rows: pa.Table) -> None:
        """Trace the rows of a view that have the values of some rows in their columns, stored ones; without columns all rows."""
        node = self.define(view)
        query = self.tables.stored.catalog.get(view).sql
        step = TraceStep(view, "view", query, rows.num_rows)
        self.steps += [step] if step not in self.steps else []
        self.trace_of(view, node, self._select_defined(view, node, rows))

    def trace_of(self, view: str, node: Node, rows: pa.Table) -> None:
        """Trace the rows of a node of a view's plan that have the values of some rows in their columns."""
        before, self._view = self._view, view
        try:
            self.trace(node, rows)
        finally:
            self._view = before

    def _select_defined(self, view: str, node: Node, rows: pa.Table) -> pa.Table:
        """Return stored rows of a view by columns that its definition has too, and that tell them apart."""
        if not rows.num_columns:
            return rows
        if not set(node.key) <= set(rows.column_names):
            key = self.tables.stored.catalog.get(view).primary_key
            rows = self.tables.look_up_rows(view, rows.select(list(key)))
        if set(node.key) <= set(rows.column_names):
            return rows.select(list(node.key))
        kinds = {name: rows.schema.field(name).type for name in node.columns if name in rows.column_names}
        inexact = (pa.types.is_floating, pa.types.is_nested)
        return rows.select([name for name, kind in kinds.items() if not any(test(kind) for test in inexact)])

    def trace(self, node: Node, rows: pa.Table) -> None:
        """Trace the rows of a node that have the values of some rows in their columns."""
        carrying = self._carrier.carry(node)
        made = self._collect(carrying, rows)
        self._note(describe_operator, carrying.operators, made.num_rows)
        for one in carrying.operators:
            if isinstance(one, DynamicFilter):
                for bound in one.bounds:
                    self.trace_bound(bound.scan.table)
        for part in carrying.parts:
            self._trace_part(part.node, _select_part(made, part))

    def trace_bound(self, watermark: str) -> None:
        """Trace the watermark of a table: a row that has brought it to where it stands."""
        for name, relation in self.tables.stored.catalog.relations.items():
            if relation.watermark is None or watermark != watermark_name(name):
                continue
            column = relation.watermark.column
            items = tuple((c, c) for c in dict.fromkeys((*relation.primary_key, column)))
            scan = Scan(name, items, relation.primary_key, relation.distribution_key)
            rows = self.tables.read(scan, {})
            if not isinstance(rows, pa.Table):  # too many to be read as a whole
                rows = rows.orderBy(F.col(quote(column)).desc_nulls_last()).limit(1).toArrow()
            self._add(scan, rows.sort_by([(column, "descending")]).slice(0, 1))

    def _collect(self, carrying: CarryingPlan, rows: pa.Table) -> pa.Table:
        """Return for each row of a plan that is wanted what its parts are found by."""
        copies = carrying.list_copies(rows.column_names)
        if rows.num_columns and copies is not None:  # the wanted rows tell it by themselves
            names = list(copies)
            return (
                pa.Table.from_arrays([rows.column(copies[c]) for c in names], names=names)
                if names
                else rows.select([])
            )
        found = NarrowEvaluation(self.tables, self.context).evaluate(carrying.plan, list_wanted(rows))
        return found.select_equal(rows, carrying.carried)

    def _trace_part(self, node: Node, rows: pa.Table) -> None:
        """Trace rows of a part, of which the columns that they are found by are given."""
        if not rows.num_rows:
            return
        self._note(describe_part, [node], rows.num_rows)
        match node:
            case Scan():
                self._trace_scan(node, rows)
            case Aggregate():
                self._trace_group(node, rows)
            case Over():
                self.trace(node.input, rows)
            case TopN():
                self.trace(node.input, deduplicate(rows.select(list(node.key))))
                if node.offset:
                    self._trace_before(node, rows)
            case UnionAll():
                self._trace_branches(node, rows)
            case Recompute():
                for scan in node.inputs:
                    self._trace_scan(scan, None)

    def _trace_scan(self, node: Scan, rows: pa.Table | None) -> None:
        """Trace scanned rows: those of a table are there, those of a view are of its plan. None stands for all rows."""
        relation = self.tables.stored.catalog.get(node.table)
        if relation.kind == "materialized view":
            stored = pa.table({"_": pa.nulls(1)}).select([]) if rows is None else to_stored(node, rows)
            self.trace_view(relation.name, stored)
            return
        self._add(node, as_arrow(self.tables.read(node, {})) if rows is None else rows)

    def _add(self, node: Scan, rows: pa.Table) -> None:
        self.found.setdefault(node.table, []).append(to_stored(node, rows.select(list(node.key))))

    def _trace_group(self, node: Aggregate, rows: pa.Table) -> None:
        """Trace all rows of groups."""
        names = {name: f"why:group:{name}" for name, _ in node.keys}
        items: tuple[tuple[str, Expr], ...] = tuple((names[name], expr) for name, expr in node.keys)
        self.trace(Project(node.input, items), rows.rename_columns([names[c] for c in rows.column_names]))

    def _trace_before(self, node: TopN, rows: pa.Table) -> None:
        """Trace the rows that an OFFSET goes over."""
        first = msgspec.structs.replace(node, limit=node.offset, offset=0)
        carrying = CarryingPlan(first, (Part(first, tuple((c, c) for c in node.key)),))
        before = self._collect(carrying, deduplicate(rows.select(list(node.partition))))
        self.trace(node.input, before)

    def _trace_branches(self, node: UnionAll, rows: pa.Table) -> None:
        for at, branch in enumerate(node.inputs):
            number = pa.array([at], rows.schema.field("_branch").type)
            mine = rows.filter(
                pa.array(find_members(rows.select(["_branch"]), pa.table({"_branch": number})))
            )
            if mine.num_rows:
                columns = [mine.column(f"_key{at}_{n}") for n in range(len(branch.key))]
                keys = pa.Table.from_arrays(columns, names=list(branch.key)) if columns else mine.select([])
                self.trace(branch, keys)

    def _note(self, describe: Callable[[Node], tuple[str, str]], nodes: Sequence[Node], rows: int) -> None:
        for node in nodes:
            operator, text = describe(node)
            step = TraceStep(self._view, operator, text, rows)
            if operator and step not in self.steps:
                self.steps.append(step)


def _select_part(made: pa.Table, part: Part) -> pa.Table:
    """Return the rows of a part among carried ones, each once."""
    if part.present is not None:
        made = made.filter(made.column(part.present).is_valid())
    names = [name for name, _ in part.carried]
    rows = made.select([column for _, column in part.carried]).rename_columns(names)
    return deduplicate(rows) if names else rows.slice(0, 1)


def to_stored(node: Scan, rows: pa.Table) -> pa.Table:
    """Return scanned rows under the names of the table's columns."""
    stored = dict(node.items)
    return rows.rename_columns([stored[name] for name in rows.column_names])


def as_arrow(rows: pa.Table | DataFrame) -> pa.Table:
    """Return rows as Arrow has them."""
    return rows if isinstance(rows, pa.Table) else rows.toArrow()
