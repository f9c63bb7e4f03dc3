"""Operators over a few rows, computed in this process by the bodies that tasks run: no job of Spark is started for them.

What these do not compute, an expression that only Spark knows or a row that fails, is left to Spark, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from engine.arrow import to_positions
from engine.hummock.rows.key_numbers import number_keys
from engine.hummock.rows.ordering import one_chunk
from engine.operators.arrow.compiler import Item
from engine.operators.arrow.map_in_arrow import make_task_frame, run_alone
from engine.operators.context import EpochContext
from engine.operators.flow import COMES, Batches, Flow, Rows, append_columns, compute, keep
from engine.operators.grouping import top_n, windows
from engine.operators.grouping.aggregate import list_partials
from engine.operators.linear import filter_rows, project
from engine.operators.union_all import list_branch_items, put_together
from engine.runtime.answers.tables_read import as_plain
from engine.spark_internals import derive_arrow_schema, derive_spark_schema
from engine.sql.expression.nodes import Expr, Literal
from engine.sql.expression.template import as_columns
from engine.sql.incremental.group_keys import is_global
from engine.sql.incremental.states.partials import GLOBAL_KEY, Partials, build_partials
from engine.sql.plan import Aggregate, Filter, Join, Node, Over, Project, TopN, UnionAll

MOST_PAIRS = 500_000
"""Rows of two sides that make more pairs are joined by Spark."""
_PAIR = "why:pair"


@dataclass(frozen=True)
class GivenRows:
    """A body: some rows, whatever a task begins with."""

    rows: pa.RecordBatch

    def __call__(self, batches: Batches) -> Batches:
        yield self.rows


@dataclass(frozen=True)
class LocalEvaluation:
    """Computes single operators over rows that are given as Arrow has them."""

    context: EpochContext

    def compute(self, node: Node, inputs: Sequence[pa.Table]) -> pa.Table | None:
        """Return the rows of an operator over those of its inputs, None where Spark has to compute them."""
        if isinstance(node, Join):
            return self._join(node, *inputs)
        flows = [self._make_flow(rows) for rows in inputs]
        match node:
            case Filter():
                return _run(filter_rows(node, flows[0]))
            case Project() if node.items:
                return _run(project(node, flows[0]))
            case TopN():
                return _run(top_n.batch(node, flows[0]))
            case Over():
                return _run(windows.batch(node, flows[0]))
            case Aggregate():
                return _run(_group(node, flows[0]))
            case UnionAll():
                branches = [
                    compute(flow, list_branch_items(at, child, node.names))
                    for at, (child, flow) in enumerate(zip(node.inputs, flows, strict=True))
                ]
                return _run(put_together(node, branches, (), self.context))
        return None

    def _make_flow(self, rows: pa.Table) -> Flow:
        """Return rows as those of a task."""
        columns = [one_chunk(as_plain(column)) for column in rows.columns]
        batch = pa.RecordBatch.from_arrays(columns, names=rows.column_names)
        base = make_task_frame(self.context.spark, 1)
        schema = derive_spark_schema(batch.schema)
        return Flow(base, (GivenRows(batch),), schema, single=True, exact=False)

    def _join(self, node: Join, left: pa.Table, right: pa.Table) -> pa.Table | None:
        places = None if node.nearest is not None else _pair_rows(node, left, right)
        if places is not None and node.residual is not None:
            places = self._keep_pairs(node.residual, (left, right), places)
        if places is None:
            return None
        mine, theirs = places
        met = np.zeros(left.num_rows, dtype=bool)
        met[mine] = True
        if node.kind in ("semi", "anti"):
            return left.filter(pa.array(met if node.kind == "semi" else ~met))
        found = _take_pairs(left, right, mine, theirs)
        if node.kind == "inner":
            return found
        alone = left.filter(pa.array(~met))
        missing = [pa.nulls(alone.num_rows, found.schema.field(name).type) for name in right.column_names]
        columns = [*(as_plain(column) for column in alone.columns), *missing]
        return pa.concat_tables([found, pa.Table.from_arrays(columns, schema=found.schema)])

    def _keep_pairs(
        self, condition: Expr, sides: tuple[pa.Table, pa.Table], places: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the pairs for which a condition is true, None if Spark has to say so."""
        mine, theirs = places
        read = set(condition.columns)
        left, right = (side.select([c for c in side.column_names if c in read]) for side in sides)
        pairs = _take_pairs(left, right, mine, theirs).append_column(_PAIR, pa.array(np.arange(len(mine))))
        kept = _run(keep(self._make_flow(pairs), condition))
        if kept is None:
            return None
        numbers = kept.column(_PAIR).to_numpy()
        return mine[numbers], theirs[numbers]


def _group(node: Aggregate, rows: Flow) -> Rows | None:
    """Return the groups of all rows, None if Spark has to compute an aggregate."""
    keys = () if is_global(node) else node.keys
    calls = [(call.name, call.expression) for call in node.calls]
    if keys and not calls:
        return compute(rows, keys).distinct()
    found = rows.group(keys, calls)
    if found is None:
        found = _group_by_partials(node, keys, append_columns(rows, COMES))
    if found is None or keys:
        return found
    only: list[Item] = [(GLOBAL_KEY, Literal("0"))]
    return compute(found, [*only, *as_columns([name for name, _ in calls])])


def _group_by_partials(node: Aggregate, keys: Sequence[Item], rows: Rows) -> Flow | None:
    """Return the groups of rows with their weight by what is kept of such groups, None where nothing is kept of an aggregate."""
    found: list[Partials] = []
    for position, call in enumerate(node.calls):
        values = (
            [rows.compiler.compile_value(one) for one in call.arguments] if isinstance(rows, Flow) else [None]
        )
        types = [
            value.kind.simpleString() for value in values if value is not None and value.kind is not None
        ]
        partials = (
            build_partials(position, call, tuple(types), True)[0] if len(types) == len(values) else None
        )
        if partials is None:
            return None
        found.append(partials)
    folds = [(partial.name, partial.delta) for partial in list_partials(tuple(found))]
    groups = rows.group(keys, folds) if isinstance(rows, Flow) else None
    results = [(one.call, one.result) for one in found]
    return (
        None if groups is None else groups.compute_items([*as_columns([name for name, _ in keys]), *results])
    )


def _run(rows: Rows | None) -> pa.Table | None:
    """Return what one task makes, None if Spark or several tasks have a part in it, or if it fails."""
    if not isinstance(rows, Flow) or rows.body is None:
        return None
    schema = derive_arrow_schema(rows.schema)
    try:
        batches = [batch for batch in run_alone(rows.body) if batch.num_rows]
        columns = [pa.Table.from_batches([batch]).select(schema.names).cast(schema) for batch in batches]
    except Exception:  # whatever it is, Spark meets it again and says it in its words
        return None
    return pa.concat_tables([schema.empty_table(), *columns])


def _pair_rows(node: Join, left: pa.Table, right: pa.Table) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the places of the pairs of rows with equal keys, None if there are too many, or if types differ."""
    if not node.on:
        if left.num_rows * right.num_rows > MOST_PAIRS:
            return None
        mine = np.repeat(np.arange(left.num_rows), right.num_rows)
        return mine, np.tile(np.arange(right.num_rows), left.num_rows)
    names = [f"{n}" for n in range(len(node.on))]
    keys = [
        pa.Table.from_arrays([as_plain(rows.column(pair[side])) for pair in node.on], names=names)
        for side, rows in enumerate((left, right))
    ]
    if keys[0].schema.types != keys[1].schema.types:
        return None
    numbers = number_keys(pa.concat_tables(keys))
    mine, theirs = numbers[: left.num_rows], numbers[left.num_rows :]
    places, others = np.arange(left.num_rows), np.arange(right.num_rows)
    if not node.null_safe:
        places, others = (side[_find_valid(rows)] for side, rows in zip((places, others), keys, strict=True))
    others = others[np.argsort(theirs[others], kind="stable")]
    first, last = (np.searchsorted(theirs[others], mine[places], side) for side in ("left", "right"))
    counts = last - first
    if counts.sum() > MOST_PAIRS:
        return None
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(places, counts), others[np.repeat(first, counts) + within]


def _find_valid(keys: pa.Table) -> np.ndarray:
    """Tell of each row whether none of its values is null."""
    found = np.ones(keys.num_rows, dtype=bool)
    for column in keys.columns:
        found &= column.is_valid().to_numpy()
    return found


def _take_pairs(left: pa.Table, right: pa.Table, mine: np.ndarray, theirs: np.ndarray) -> pa.Table:
    columns = [as_plain(column).take(to_positions(mine)) for column in left.columns]
    columns += [as_plain(column).take(to_positions(theirs)) for column in right.columns]
    return pa.Table.from_arrays(columns, names=[*left.column_names, *right.column_names])
