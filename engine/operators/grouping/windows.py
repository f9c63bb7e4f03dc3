"""Calls over windows: partitions that a change touches are computed again from their rows, without partitions all rows.

>>> change("SELECT id, auction, sum(price) OVER (PARTITION BY auction ORDER BY id) AS total FROM bid")
- id=2 auction=7 total=80
+ id=4 auction=9 total=10
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.operators.arrow.over_windows import compute_windows
from engine.operators.change import Change
from engine.operators.context import EpochContext, select
from engine.operators.flow import COMES, GOES, Flow, Rows, as_frame, compute, keep
from engine.operators.grouping.touched_groups import (
    can_read_group,
    pair_group_keys,
    recompute_groups,
    separate_groups,
)
from engine.operators.linear import filter_rows, project
from engine.operators.lookups.lookup import Probe, lookup
from engine.operators.lookups.neighbours import CHANGED, read_neighbours
from engine.sql.expression.nodes import Call, Column, Expr, map_children
from engine.sql.expression.spark_sql import quote, render_spark_sql
from engine.sql.functions import AMONG_PEERS, VALUES_OF_ROWS, load_spark_functions
from engine.sql.incremental.rules import WindowReach
from engine.sql.plan import Filter, Node, Over, Project, Scan
from engine.sql.window_calls import Frame, FrameEnd, SortKey, WindowCall

_WHOLE = Frame("rows", FrameEnd("preceding"), FrameEnd("following"))


def batch(node: Over, rows: Rows, *carried: str) -> Rows:
    """Return each row of a whole input with what the calls give, computed on Arrow where one task has all rows.

    After the input's columns come the `carried` ones.
    """
    if isinstance(rows, Flow):
        found = compute_windows(rows, node.partition, node.key, node.calls)
        if found is not None:
            return found
    texts = _WindowSql(node)
    results = [(call, texts.render(call)) for call in node.calls]
    frame = as_frame(rows)
    for computed in (
        texts.places,
        texts.windows,
    ):  # those of a step may read what the step before has computed
        items = [f"{text} AS {quote(name)}" for text, name in computed.items()]
        frame = frame.selectExpr("*", *items) if items else frame
    quoted = [quote(column) for column in (*node.input.columns, *carried)]
    return frame.selectExpr(*quoted, *(f"{text} AS {quote(call.name)}" for call, text in results))


def delta(
    top: Project, table: str, change: Change, reach: WindowReach | None, context: EpochContext
) -> Change | None:
    """Return the signed change of the fragment's table: of each touched partition the old rows go and the new ones come.

    With a `reach` these are the rows around those that have changed, where one task has the whole change. None: all rows are one
    partition, and they are too many for one task.
    """
    node, filter_node = find_windows(top.input)
    assert node is not None
    if not node.partition and not can_read_group(node.input, table, change.rows, context):
        return None
    alone = isinstance(node.input, Scan)  # not below a filter that leaves partitions out
    changed = change.rows
    if (
        node.partition
        and reach is not None
        and alone
        and isinstance(changed, Flow)
        and changed.single
        and context.piece is None
    ):
        changed = separate_groups(changed, node.partition, context)
        assert isinstance(changed, Flow)
        return Change(_recompute_around(top, table, changed, reach, context))
    keys = pair_group_keys(node.partition, table, context)

    def recompute(rows: Rows) -> Rows:
        found = batch(node, rows)
        return found if filter_node is None else filter_rows(filter_node, found)

    return recompute_groups(Project(node, top.items), table, keys, changed, recompute, context)


def _recompute_around(
    top: Project, table: str, change: Flow, reach: WindowReach, context: EpochContext
) -> Rows:
    """Return the signed change: rows near one that has changed are computed again, and those that were stored for them go."""
    node, filter_node = find_windows(top.input)
    assert node is not None
    rows = read_neighbours(node, reach, change, context)
    near = keep(rows, Column(CHANGED))
    found = keep(batch(node, rows, CHANGED), Column(CHANGED))
    new = project(top, found if filter_node is None else filter_rows(filter_node, found))
    key = tuple(dict.fromkeys((*node.partition, *node.key)))
    carried = {expr.column: name for name, expr in reversed(top.items) if expr.column is not None}
    names = {column: context.fresh("key") for column in key}
    mine = [(name, Column(column)) for column, name in names.items()]
    keys = context.union([compute(near, mine), compute(change, mine)])
    assert keys is not None
    pairs = tuple((name, carried[column]) for column, name in names.items())
    hit, stored = context.fresh("found"), {column: context.fresh("old") for column in top.columns}
    items = tuple((name, column) for column, name in stored.items())
    looked = lookup(keys.distinct(), context, table, Probe(pairs, "old", null_safe=True), items, hit)
    old = compute(keep(looked, Column(hit)), [*((c, Column(name)) for c, name in stored.items()), GOES])
    merged = context.union([select(new, top.columns, COMES), old])
    assert merged is not None
    return merged


def find_windows(node: Node) -> tuple[Over | None, Filter | None]:
    """Return the calls over windows that a node is, or of which it keeps some rows, and what keeps them."""
    if isinstance(node, Filter) and isinstance(node.input, Over):
        return node.input, node
    return (node, None) if isinstance(node, Over) else (None, None)


@dataclass
class _WindowSql:
    """Spark's words for the calls of a node: windows that the results are made of, and before them places of rows."""

    node: Over
    places: dict[str, str] = field(default_factory=dict)
    windows: dict[str, str] = field(default_factory=dict)

    def render(self, call: WindowCall) -> str:
        """Return the result of a call over the columns that `places` and `windows` name."""
        expr = call.call
        if isinstance(expr, Call) and call.frame is None:
            peers = expr.function in AMONG_PEERS
            return self._register_window(
                render_spark_sql(expr), self._render_over(call.order, total=not peers)
            )
        assert call.frame is not None
        if isinstance(expr, Call) and expr.function in VALUES_OF_ROWS:
            if call.frame.unit == "rows" or call.frame.is_whole:
                return self._register_window(render_spark_sql(expr), self._render_frame(call))
            return self._render_range_value(expr, call)
        return render_spark_sql(self._build_aggregate(expr, call))

    def _build_aggregate(self, expr: Expr, call: WindowCall) -> Expr:
        if isinstance(expr, Call) and load_spark_functions().get(expr.function) == "aggregate":
            assert call.frame is not None
            over = f"OVER ({self._render_partition()})" if call.frame.is_whole else self._render_frame(call)
            return Column(self._register(self.windows, "window", f"{render_spark_sql(expr)} {over}"))
        return map_children(expr, lambda part: self._build_aggregate(part, call))

    def _render_range_value(self, expr: Call, call: WindowCall) -> str:
        """Return first_value and its like over a range: among peers, whose order no window says, the place decides."""
        value, place = render_spark_sql(expr.arguments[0]), quote(self._register_place(call.order))
        ranked = f"if({value} IS NULL, NULL, {place})" if expr.ignore_nulls else place
        over = self._render_frame(call)
        if expr.function != "nth_value":
            by = "min_by" if expr.function == "first_value" else "max_by"
            return self._register_window(f"{by}({value}, {ranked})", over)
        nth = render_spark_sql(expr.arguments[1])
        rows = f"collect_list(if({ranked} IS NULL, NULL, struct({place} AS `n`, {value} AS `v`)))"
        if call.frame is not None and call.frame.start != FrameEnd("preceding"):
            return f"get(array_sort({self._register_window(rows, over)}), {nth} - 1).`v`"
        counted = self._register_window(f"count({ranked})", over)
        alone = WindowCall("", expr, call.order, _WHOLE)
        return f"if({counted} >= {nth}, {self._register_window(render_spark_sql(expr), self._render_frame(alone))}, NULL)"

    def _render_frame(self, call: WindowCall) -> str:
        frame = call.frame
        assert frame is not None
        ends = f"BETWEEN {_render_end(frame.start)} AND {_render_end(frame.end)}"
        if frame.unit == "rows" or frame.is_whole:
            return self._render_over(call.order, f"ROWS {ends}", total=True)
        if frame.unit == "range":
            return self._render_over(call.order, f"RANGE {ends}", total=False)
        peers = self._register(
            self.places, "peers", f"dense_rank() {self._render_over(call.order, total=False)}"
        )
        return self._render_over((SortKey(peers),), f"RANGE {ends}", total=False)

    def _register_place(self, order: Sequence[SortKey]) -> str:
        return self._register(self.places, "place", f"row_number() {self._render_over(order, total=True)}")

    def _render_over(self, order: Sequence[SortKey], frame: str = "", *, total: bool) -> str:
        known = {key.column for key in order}
        last = [SortKey(column) for column in self.node.key if column not in known] if total else []
        by = ", ".join(
            f"{quote(key.column)} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
            for key in (*order, *last)
        )
        parts = (self._render_partition(), f"ORDER BY {by}" if by else "", frame)
        return f"OVER ({' '.join(part for part in parts if part)})"

    def _render_partition(self) -> str:
        columns = ", ".join(quote(column) for column in self.node.partition)
        return f"PARTITION BY {columns}" if columns else ""

    def _register_window(self, call: str, over: str) -> str:
        return quote(self._register(self.windows, "window", f"{call} {over}"))

    def _register(self, names: dict[str, str], what: str, text: str) -> str:
        return names.setdefault(text, f"_{what}_{len(names)}")


def _render_end(end: FrameEnd) -> str:
    if end.side == "current row":
        return "CURRENT ROW"
    return f"{'UNBOUNDED' if end.offset is None else render_spark_sql(end.offset)} {end.side.upper()}"
