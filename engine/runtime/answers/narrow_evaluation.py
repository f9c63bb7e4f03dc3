"""A plan computed for some of its rows: values that are wanted of its columns go down to the scans, which read only those rows.

What a scan gives may be more than is needed, never less: whoever asks filters the result. Of two joined sides the values that
one of them has are wanted of the other, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from engine.arrow import Column, build_arrow_table
from engine.hummock.rows.key_numbers import deduplicate, find_members
from engine.operators.compile import compute_over
from engine.operators.context import EpochContext
from engine.runtime.answers.local_evaluation import LocalEvaluation
from engine.runtime.answers.tables_read import TablesRead, Wanted, as_plain, make_frame
from engine.sql.expression.spark_sql import quote
from engine.sql.plan import (
    Aggregate,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Over,
    Project,
    Scan,
    TemporalFilter,
    TopN,
    UnionAll,
    Unnest,
    list_children,
)

MOST_VALUES = 20_000
"""More values of a column are not looked for on the other side of a join."""


@dataclass
class NarrowRows:
    """Rows of a node, as Arrow has them where they are `few`; of `known` columns no other value is there."""

    context: EpochContext
    rows: pa.Table | None = None
    made: DataFrame | None = None
    known: Mapping[str, Column] = field(default_factory=dict)
    few: bool = False

    @property
    def frame(self) -> DataFrame:
        """The rows as Spark has them."""
        if self.made is None:
            assert self.rows is not None
            self.made = make_frame(self.context.spark, self.rows)
        return self.made

    def to_arrow(self) -> pa.Table:
        """Return the rows as Arrow has them, computed once."""
        if self.rows is None:
            self.rows = collect_frame(self.frame)
        return self.rows

    def select_equal(
        self, wanted: pa.Table, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> pa.Table:
        """Return some columns, or all, of rows that have the values of some wanted rows, up to a limit; nulls are equal."""
        rows = self.to_arrow() if self.few else self.rows
        if rows is not None and _have_same_types(rows, wanted):
            found = keep_equal(rows, wanted).slice(0, limit)
            return found if columns is None else found.select(list(columns))
        frame = self.frame
        if wanted.num_columns:
            frame = join_equal(frame, make_frame(self.context.spark, wanted))
        frame = frame if columns is None else frame.select(*map(quote, columns))
        return collect_frame(frame if limit is None else frame.limit(limit))

    def list_values(self, column: str) -> Column | None:
        """Return the values that a column has at most, each once; None if they are not known, or too many."""
        found = self.known.get(column)
        if found is None:
            return None
        found = as_plain(found)
        if pa.types.is_nested(found.type):
            return None
        values: Column = deduplicate(build_arrow_table({column: found})).column(0)
        return values if len(values) <= MOST_VALUES else None


@dataclass(frozen=True)
class NarrowEvaluation:
    """Computes plans over tables."""

    tables: TablesRead
    context: EpochContext

    def evaluate(self, node: Node, wanted: Wanted) -> NarrowRows:
        """Return rows of a node, among them all of which the columns have wanted values."""
        match node:
            case Scan():
                return self._read_scan(node, wanted)
            case Project():
                return self._project(node, wanted)
            case Join():
                return self._join(node, wanted)
            case UnionAll():
                inputs = [
                    self.evaluate(child, _rename_wanted(list_branch_columns(node, at), wanted))
                    for at, child in enumerate(node.inputs)
                ]
                return self._compute(node, inputs, {})
            case Aggregate():
                below = self.evaluate(node.input, _rename_wanted(dict(_list_plain(node.keys)), wanted))
                known = {name: below.known[c] for name, c in _list_plain(node.keys) if c in below.known}
                return self._compute(node, [below], known)
            case Over() | TopN():
                below = self.evaluate(node.input, {c: wanted[c] for c in node.partition if c in wanted})
                return self._compute(node, [below], below.known)
            case Filter() | Unnest() | DynamicFilter() | TemporalFilter():
                columns = set(node.input.columns)
                below = self.evaluate(node.input, {c: v for c, v in wanted.items() if c in columns})
                return self._compute(node, [below], below.known)
        return self._compute(node, [self.evaluate(child, {}) for child in list_children(node)], {})

    def _compute(self, node: Node, inputs: list[NarrowRows], known: Mapping[str, Column]) -> NarrowRows:
        few = all(one.few for one in inputs)
        if few and inputs:
            rows = LocalEvaluation(self.context).compute(node, [one.to_arrow() for one in inputs])
            if rows is not None:
                return _hold(self.context, rows)
        frame = compute_over(node, [one.frame for one in inputs], self.context)
        return NarrowRows(self.context, None, frame, known, few and not isinstance(node, Join | Unnest))

    def _read_scan(self, node: Scan, wanted: Wanted) -> NarrowRows:
        stored = dict(node.items)
        rows = self.tables.read(node, {stored[name]: values for name, values in wanted.items()})
        if not isinstance(rows, pa.Table):
            return NarrowRows(self.context, None, rows)
        return _hold(self.context, rows)

    def _project(self, node: Project, wanted: Wanted) -> NarrowRows:
        plain = dict(_list_plain(node.items))
        below = self.evaluate(node.input, _rename_wanted(plain, wanted))
        known = {name: below.known[column] for name, column in plain.items() if column in below.known}
        return self._compute(node, [below], known)

    def _join(self, node: Join, wanted: Wanted) -> NarrowRows:
        """Return the pairs of rows: first those of the side of which more is wanted, then those that may meet them."""
        mine = {c: v for c, v in wanted.items() if c in set(node.left.columns)}
        theirs = {c: v for c, v in wanted.items() if c in set(node.right.columns)}
        if node.kind == "inner" and node.nearest is None and theirs and not mine:
            right = self.evaluate(node.right, theirs)
            met = {a: right.list_values(b) for a, b in node.on}
            left = self.evaluate(node.left, _add_wanted(mine, met))
        else:
            left = self.evaluate(node.left, mine)
            met = {b: left.list_values(a) for a, b in node.on}
            # of other kinds a right row that is left out would leave its left row alone
            pushed = theirs if node.kind == "inner" and node.nearest is None else {}
            right = self.evaluate(node.right, _add_wanted(pushed, met))
        known = {**left.known, **(right.known if node.kind == "inner" else {})}
        return self._compute(node, [left, right], known)


def _hold(context: EpochContext, rows: pa.Table) -> NarrowRows:
    """Return rows that are there, of which all values are known."""
    return NarrowRows(context, rows, None, {name: rows.column(name) for name in rows.column_names}, True)


def collect_frame(frame: DataFrame) -> pa.Table:
    """Return the rows of a frame, those without columns as so many."""
    return frame.toArrow() if frame.columns else pa.table({"_": pa.nulls(frame.count())}).select([])


def keep_equal(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Return the rows that have the values of some of the others in the columns of these; nulls are equal."""
    if not others.num_columns:
        return rows
    names = others.column_names
    keys = pa.Table.from_arrays([as_plain(rows.column(name)) for name in names], names=names)
    return rows.filter(pa.array(find_members(keys, others), pa.bool_()))


def join_equal(frame: DataFrame, others: DataFrame) -> DataFrame:
    """Return the same of frames."""
    names = {column: f"why:wanted:{n}" for n, column in enumerate(others.columns)}
    renamed = others.select(*(F.col(quote(old)).alias(new) for old, new in names.items()))
    test = F.lit(True)
    for old, new in names.items():
        test &= F.col(quote(old)).eqNullSafe(F.col(quote(new)))
    return frame.join(F.broadcast(renamed), test, "left_semi")


def _have_same_types(rows: pa.Table, wanted: pa.Table) -> bool:
    return all(
        as_plain(rows.column(name)).type == wanted.schema.field(name).type for name in wanted.column_names
    )


def _add_wanted(wanted: Wanted, met: Mapping[str, Column | None]) -> Wanted:
    """Return what is wanted of a side, with the values of the other side where nothing is wanted of a column yet."""
    return {**{name: values for name, values in met.items() if values is not None}, **wanted}


def _list_plain(items: tuple[tuple[str, object], ...]) -> list[tuple[str, str]]:
    """Return (name, column) of the items that are columns as they are."""
    found = ((name, getattr(expr, "column", None)) for name, expr in items)
    return [(name, column) for name, column in found if column is not None]


def _rename_wanted(columns: Mapping[str, str], wanted: Wanted) -> Wanted:
    """Return the wanted values by the columns that an input has them in."""
    return {columns[name]: values for name, values in wanted.items() if name in columns}


def list_branch_columns(node: UnionAll, at: int) -> dict[str, str]:
    """Return by column of a union the column of one of its branches that it is."""
    branch = node.inputs[at]
    found = dict(zip(node.names, branch.columns, strict=False))
    return found | {f"_key{at}_{n}": column for n, column in enumerate(branch.key)}


def list_wanted(rows: pa.Table) -> Wanted:
    """Return by column the values of rows, each once."""
    return {name: deduplicate(rows.select([name])).column(0) for name in rows.column_names}
