"""The operators that keep a row out of a view: on the way from the tables the first ones behind which no such row is left.

The method is that of "Why Not?" (Chapman and Jagadish, SIGMOD 2009), from the top down: the wanted values go down through columns
that operators pass on. Where rows with them come into an operator and none comes out of it, it loses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import pyarrow as pa

from engine.arrow import as_values, build_arrow_table, to_positions
from engine.hummock.epoch import micros_of
from engine.hummock.rows.key_numbers import deduplicate
from engine.operators.context import EpochContext
from engine.runtime.answers.narrow_evaluation import NarrowEvaluation, list_branch_columns, list_wanted
from engine.runtime.answers.operator_texts import describe_node, name_compared, name_computed, show_columns
from engine.runtime.answers.pushed_columns import push_column
from engine.runtime.answers.row_texts import (
    MOST_CANDIDATES,
    count_rows,
    describe_mismatch,
    describe_values,
    describe_wanted,
    format_value,
)
from engine.runtime.answers.tables_read import StoreTables
from engine.runtime.answers.trace import Define, TraceStep, to_stored
from engine.runtime.rows import to_visible_names
from engine.sql.column_names import is_internal
from engine.sql.expression.nodes import And, Expr
from engine.sql.expression.null_on_error import guard_expression
from engine.sql.expression.spark_sql import render_spark_sql
from engine.sql.expression.template import as_columns
from engine.sql.plan import (
    Aggregate,
    Bound,
    DynamicFilter,
    Filter,
    Join,
    Node,
    Project,
    Recompute,
    Scan,
    TopN,
    UnionAll,
    Unnest,
    Values,
    list_nodes,
    list_scans,
)

_TEST, _GROUP, _PUSHED = "why:test:", "why:group:", "why:pushed:"


@dataclass(frozen=True, eq=False)
class RowLoss:
    """An operator that loses a row: what it does by its `text`, the `reason` in words, and the `rows` that it decides by.

    These are the rows that come into it; of NOT EXISTS and NOT IN the partners that were found; of first rows those that are
    first; of a computed value the rows with the values that are computed instead.
    """

    relation: str
    operator: str
    text: str
    reason: str
    rows: pa.Table


@dataclass
class LossFinder:
    """Looks for what keeps rows out of views; `steps` are the operators on the way, with how many rows came into each."""

    tables: StoreTables
    context: EpochContext
    define: Define
    steps: list[TraceStep] = field(default_factory=list)
    _view: str = ""
    _names: dict[str, str] = field(default_factory=dict)
    _internal: set[str] = field(default_factory=set)

    def explain_view(self, view: str, wanted: pa.Table) -> list[RowLoss]:
        """Return what keeps rows with the wanted values, by stored column, out of a view: a loss for each way in."""
        node, query = self.define(view), self.tables.stored.catalog.get(view).sql
        wanted = _select(wanted, node.columns)
        found = self._read(node, wanted)
        self.steps.append(TraceStep(view, "view", query, found.num_rows))
        if found.num_rows:
            reason = f"its query gives such a row from its inputs at this epoch, and {view} has not taken it"
            return [RowLoss(view, "view", query, reason, self._show_rows(found))]
        before = self._view, self._names
        self._view = view
        items = (item for scan in list_scans(node) for item in scan.items)
        self._internal |= {name for name, column in items if is_internal(column)}
        self._names = {name: text for part in list_nodes(node) for name, text in name_computed(part).items()}
        try:
            losses = self._explain(node, wanted)
        finally:
            self._view, self._names = before
        different = {
            (loss.relation, loss.operator, loss.text, loss.reason): loss for loss in reversed(losses)
        }
        return sorted(reversed(different.values()), key=lambda loss: not loss.rows.num_rows)

    def _explain(self, node: Node, wanted: pa.Table) -> list[RowLoss]:
        """Return what keeps rows with wanted values out of the rows of a node, of which there are none."""
        match node:
            case Scan():
                return self._explain_scan(node, wanted)
            case Join():
                return self._explain_join(node, wanted)
            case UnionAll():
                self._note(node, 0)
                branches = enumerate(node.inputs)
                return [
                    loss
                    for at, branch in branches
                    for loss in self._explain(branch, _pass_to_branch(node, at, wanted))
                ]
            case Aggregate():
                return self._explain_aggregate(node, wanted)
            case Recompute():
                reason = "it is computed as a whole, by a query that gives no such row"
                return [self._lose(node, reason, _NO_ROWS)]
            case Values():
                return [self._lose(node, "VALUES has no such row", _NO_ROWS)]
        return self._explain_one_input(node, node.input, wanted)

    def _explain_one_input(self, node: Node, below: Node, wanted: pa.Table) -> list[RowLoss]:
        passed = _pass_down(node, below, wanted)
        coming = self._read(below, passed)
        if not isinstance(node, Project):
            self._note(node, coming.num_rows)
        if not coming.num_rows:
            return self._explain(below, passed)
        match node:
            case Project():
                deeper = self._push_wanted(node, wanted)
                if deeper is not None:
                    return self._explain(*deeper)
            case Filter():
                return [self._lose_by_condition(node, node.predicate, wanted)]
            case TopN():
                return [self._lose_behind_others(node, coming)]
            case DynamicFilter():
                at = name_compared(node)
                at = at if at in coming.column_names else node.at
                stands = [describe_values(coming, [at]), *map(self._describe_bound, node.bounds)]
                reason = f"{self._describe(node)[1]} is not true of {count_rows(coming)}: {', '.join(stands)}"
                return [self._lose(node, reason, coming)]
        kept = [name for name in wanted.column_names if name not in _find_computed(node, below, wanted)]
        others = self._read(node, wanted.select(kept))
        return [self._lose_by_value(node, others, wanted)]

    def _push_wanted(self, node: Project, wanted: pa.Table) -> tuple[Node, pa.Table] | None:
        """Return a projection's input with the wanted values that it computes as columns from far down, None where it has them.

        So an operator below is found that loses the rows of which such a value is computed.
        """
        computed = {name: expr for name, expr in node.items if name in wanted.column_names and expr.columns}
        computed = {name: expr for name, expr in computed.items() if expr.column is None}
        below, names, is_pushed = node.input, _find_passed(node, node.input), False
        for name, expr in computed.items():
            names = {**names, name: f"{_PUSHED}{len(self._names)}"}
            self._names[names[name]] = self._show(expr) if name.startswith("why:") else show_columns(name)
            guarded = guard_expression(expr)
            pushed = push_column(below, names[name], guarded)
            is_pushed |= pushed is not None
            below = pushed or Project(below, (*as_columns(below.columns), (names[name], guarded)))
        kept = [name for name in wanted.column_names if name in names]
        if not is_pushed:
            return None
        return below, build_arrow_table({names[name]: wanted.column(name) for name in kept})

    def _explain_scan(self, node: Scan, wanted: pa.Table) -> list[RowLoss]:
        """Say that a table has no such row; a view has none for what keeps it out of that."""
        stored, relation = to_stored(node, wanted), self.tables.stored.catalog.get(node.table)
        if relation.kind == "materialized view":
            self._note(node, 0)
            return self.explain_view(node.table, stored)
        reason = f"{node.table} has no row{describe_wanted(to_visible_names(relation, stored))}"
        key = [name for name, column in node.items if column in node.primary_key]
        others = set(wanted.column_names) - set(key)
        if others and set(key) <= set(wanted.column_names):
            found = self._read(node, wanted.select(key))
            if found.num_rows:
                mismatch = describe_mismatch(found, wanted, sorted(others))
                several = f"in the {found.num_rows:,} rows of {node.table} that are looked for {mismatch}"
                reason = f"{reason}: {mismatch}" if found.num_rows == 1 else several
                return [self._lose(node, reason, found)]
        return [self._lose(node, reason, _NO_ROWS)]

    def _explain_aggregate(self, node: Aggregate, wanted: pa.Table) -> list[RowLoss]:
        """Go on where there is no such group; else the group is there, with other values."""
        keys = [name for name, _ in node.keys if name in wanted.column_names]
        if node.keys:
            items: tuple[tuple[str, Expr], ...] = tuple((_GROUP + name, expr) for name, expr in node.keys)
            grouped = Project(node.input, items)
            passed = wanted.select(keys).rename_columns([_GROUP + name for name in keys])
            coming = self._read(grouped, passed)
            self._note(node, coming.num_rows)
            if not coming.num_rows:
                return self._explain(grouped, passed)
        others = self._read(node, wanted.select(keys))
        if not node.keys:
            self._note(node, others.num_rows)
        return [self._lose_by_value(node, others, wanted)]

    def _explain_join(self, node: Join, wanted: pa.Table) -> list[RowLoss]:
        """Go on below where one side has no such row, or no partner; else the pairs do not fulfil the condition."""
        first, second, on = node.left, node.right, node.on
        wanted = _complete(wanted, node)
        if node.kind == "inner" and node.nearest is None and not _select(wanted, first.columns).num_columns:
            first, second, on = second, first, tuple((b, a) for a, b in on)
        mine = _select(wanted, first.columns)
        theirs = _select(wanted, second.columns) if node.kind in ("inner", "left") else _NO_COLUMNS
        coming = self._read(first, mine)
        self._note(node, coming.num_rows)
        if not coming.num_rows:
            return self._explain(first, mine)
        if node.kind == "anti":
            return [self._lose_by_partner(node, wanted)]
        met = _select_met(coming, on, node.null_safe)
        if coming.num_rows == MOST_CANDIDATES:  # there may be others, so their partners are not all known
            met = theirs if node.kind == "inner" else _NO_COLUMNS
        if not met.num_rows:
            names = " or ".join(show_columns(a) for a, _ in on if coming.column(a).null_count)
            return [
                self._lose(node, f"{names} is null in {count_rows(coming)}, and null equals nothing", coming)
            ]
        given = _multiply(met, theirs) if node.kind == "inner" else met
        partners = self._read(second, given)
        if not partners.num_rows:
            losses = self._explain(second, given)
            return [
                self._lose(node, loss.reason, coming) if loss.operator == "scan" else loss for loss in losses
            ]
        pairs = msgspec.structs.replace(node, kind="inner", residual=None, nearest=None)
        if not self._read(pairs, wanted if node.kind == "inner" else mine).num_rows:
            sides = zip(
                (describe_values(coming, [a]) for a, _ in on),
                (describe_values(partners, [b]) for _, b in on),
                strict=True,
            )
            reason = "no two rows meet: " + "; ".join(f"{a}, {b}" for a, b in sides)
            return [self._lose(node, reason, coming)]
        if node.kind == "left":
            return [self._lose_by_value(node, self._read(node, mine), wanted)]
        if node.residual is not None:
            given = wanted if node.kind == "inner" else mine
            loss = self._lose_by_condition(Filter(pairs, node.residual), node.residual, given)
            operator, text = describe_node(node)
            return [replace(loss, operator=operator, text=text)]
        return [self._lose(node, f"no partner is near enough to {count_rows(coming)}", coming)]

    def _lose_by_condition(self, node: Filter, condition: Expr, wanted: pa.Table) -> RowLoss:
        """Say which parts of a condition are not true of the rows that come."""
        parts = condition.parts if isinstance(condition, And) else (condition,)
        tests = tuple((f"{_TEST}{n}", guard_expression(part)) for n, part in enumerate(parts))
        tested = self._read(Project(node.input, (*as_columns(node.input.columns), *tests)), wanted)
        failing = []
        for (name, _), part in zip(tests, parts, strict=True):
            values = as_values(tested.column(name))
            missed = sum(value is not True for value in values)
            if missed:
                empty = " (null, so neither true nor false)" if None in values else ""
                failing.append((part, missed, empty))
        every = [one for one in failing if one[1] == tested.num_rows]
        reason = " and ".join(
            f"{self._show(part)} is not true of {count_rows(tested, missed)}{empty}{self._describe_read(tested, part)}"
            for part, missed, empty in every[:1] or failing
        )
        loss = self._lose(node, reason, tested.select(list(node.input.columns)))
        return replace(loss, text=" AND ".join(self._show(part) for part, _, _ in failing))

    def _describe_read(self, rows: pa.Table, part: Expr) -> str:
        """Return the values that a condition reads in the rows that come to it."""
        known = [column for column in part.columns if column in rows.column_names]
        return f": {describe_values(rows, known, self._names)}" if known else ""

    def _lose_behind_others(self, node: TopN, coming: pa.Table) -> RowLoss:
        """Say which rows are the first ones instead."""
        if node.limit == 0:
            return self._lose(node, "LIMIT 0 lets no row through", coming)
        own = deduplicate(_select(coming, node.partition))
        first = self._read(node, own)
        of = f" of those{describe_wanted(own)}" if node.partition else ""
        if not first.num_rows:
            return self._lose(
                node,
                f"{count_rows(coming)} is among the {node.offset:,} rows{of} that OFFSET leaves out",
                coming,
            )
        behind = f" after the first {node.offset:,}" if node.offset else ""
        reason = f"it is not among the {first.num_rows:,} first rows{of}{behind}"
        columns = [key.column for key in node.order]
        if columns:
            mine, theirs = (describe_values(rows, columns, self._names) for rows in (coming, first))
            reason += f": {mine}, and they have {theirs}"
        return self._lose(node, reason, first)

    def _lose_by_value(self, node: Node, others: pa.Table, wanted: pa.Table) -> RowLoss:
        """Say which values are computed instead of the wanted ones."""
        names = _name_values(node, self._names)
        others, wanted = (_rename(rows, names) for rows in (others, wanted))
        asked = [name for name in wanted.column_names if name in others.column_names]
        return self._lose(node, describe_mismatch(others, wanted, asked), others)

    def _lose_by_partner(self, node: Join, wanted: pa.Table) -> RowLoss:
        """Say which rows are found that must not be there."""
        pairs = self._read(msgspec.structs.replace(node, kind="inner"), wanted)
        found = deduplicate(pairs.select(list(node.right.columns)))
        by = describe_values(pairs, [b for _, b in node.on], self._names)
        if not node.on:  # one that stands for all of which a condition is true
            source = next(n for n in list_nodes(node.right) if not isinstance(n, Project | TopN | Aggregate))
            found = self._read(source, _NO_COLUMNS)
            by = self._show(source.predicate) if isinstance(source, Filter) else ""
        tables = " and ".join(dict.fromkeys(scan.table for scan in list_scans(node.right)))
        count = "a row" if found.num_rows == 1 else f"{found.num_rows:,} rows"
        verb = "is" if found.num_rows == 1 else "are"
        return self._lose(node, f"{count} of {tables} {verb} found{f' with {by}' if by else ''}", found)

    def _describe_bound(self, bound: Bound) -> str:
        """Return where the number stands that a filter compares with."""
        table = self.context.tables[bound.scan.table]
        batches = self.tables.store.reader.scan(table, self.context.new, columns=[bound.column])
        values = [value for batch in batches for value in as_values(batch.column(0))]
        return f"{bound.scan.table} = {', '.join(map(format_value, values)) or 'not known yet'}"

    def _lose(self, node: Node, reason: str, rows: pa.Table) -> RowLoss:
        operator, text = self._describe(node)
        if isinstance(node, Scan | Project | Recompute | Values):
            self._note(node, rows.num_rows)
        return RowLoss(self._view, operator, text, reason, self._show_rows(rows))

    def _note(self, node: Node, coming: int) -> None:
        step = TraceStep(self._view, *self._describe(node), coming)
        if step not in self.steps:
            self.steps.append(step)

    def _describe(self, node: Node) -> tuple[str, str]:
        """Return the name of an operator, and what it goes by."""
        match node:
            case Filter():
                return "filter", self._show(node.predicate)
            case Project():
                items = ((name, self._show(expr)) for name, expr in node.items if expr.column is None)
                named = ((text, show_columns(name, self._names)) for name, text in items)
                return "projection", ", ".join(
                    text if name in (text, show_columns(f"{_GROUP}{text}")) else f"{text} AS {name}"
                    for text, name in named
                )
            case Values():
                return "values", ", ".join(map(show_columns, node.names))
        return describe_node(node)

    def _show(self, expr: Expr) -> str:
        """Return an expression as people write it."""
        moment = f"CAST({micros_of(self.context.new)} AS BIGINT)"
        return show_columns(render_spark_sql(expr), self._names).replace(moment, "unix_micros(now())")

    def _show_rows(self, rows: pa.Table) -> pa.Table:
        """Return rows of a plan under the names that people know its columns by; what only the plan needs is left out."""
        names: dict[str, str] = {}
        for column in rows.column_names:
            shown = show_columns(column, self._names)
            if not column.startswith(("_", "why:")) and column not in self._internal:
                names[column] = column if shown in names.values() else shown
        return rows.select(list(names)).rename_columns(list(names.values()))

    def _read(self, node: Node, wanted: pa.Table) -> pa.Table:
        """Return rows of a node that have the values of some wanted rows, MOST_CANDIDATES at most."""
        found = NarrowEvaluation(self.tables, self.context).evaluate(node, list_wanted(wanted))
        return found.select_equal(wanted, limit=MOST_CANDIDATES)


_NO_COLUMNS = pa.table({"_": pa.nulls(1)}).select([])
_NO_ROWS = pa.table({})


def _name_values(node: Node, names: Mapping[str, str]) -> dict[str, str]:
    """Return by column of an operator what it computes in it, in words."""
    match node:
        case Project():
            return {
                name: show_columns(render_spark_sql(expr), names)
                for name, expr in node.items
                if name.startswith(_GROUP)
            } | {
                name: text for name, text in names.items() if name.startswith(_PUSHED) or name in node.columns
            }
        case Unnest():
            return {node.item: f"an element of {show_columns(render_spark_sql(node.array))}"}
    return dict(names)


def _rename(rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Return rows with other names for some columns, as far as these are new ones."""
    found: list[str] = []
    for column in rows.column_names:
        name = names.get(column, column)
        found.append(column if name in found or name in rows.column_names else name)
    return rows.rename_columns(found)


def _select(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return rows through those of some columns that they have, each once."""
    found = rows.select([name for name in rows.column_names if name in set(columns)])
    return deduplicate(found) if found.num_columns else _NO_COLUMNS


def _pass_down(node: Node, below: Node, wanted: pa.Table) -> pa.Table:
    """Return wanted rows by the columns of an operator's input, as far as it passes columns on."""
    return _rename_wanted(wanted, _find_passed(node, below))


def _rename_wanted(wanted: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Return wanted rows through the columns that have other names below, under these, each once."""
    kept = [name for name in wanted.column_names if name in names]
    if not kept:
        return _NO_COLUMNS
    return deduplicate(build_arrow_table({names[name]: wanted.column(name) for name in kept}))


def _find_passed(node: Node, below: Node) -> Mapping[str, str]:
    """Return by column of an operator the column of its input that it passes on."""
    if isinstance(node, Project):
        return {name: expr.column for name, expr in node.items if expr.column is not None}
    return {name: name for name in below.columns}


def _find_computed(node: Node, below: Node, wanted: pa.Table) -> set[str]:
    """Return the wanted columns that an operator computes."""
    return set(wanted.column_names) - set(_find_passed(node, below))


def _pass_to_branch(node: UnionAll, at: int, wanted: pa.Table) -> pa.Table:
    """Return wanted rows by the columns of a branch of a union."""
    return _rename_wanted(wanted, list_branch_columns(node, at))


def _complete(wanted: pa.Table, node: Join) -> pa.Table:
    """Return wanted rows of a join with the values of columns that are equal to wanted ones.

    In a left join a right column may also be null because there is no partner: nothing follows from that, nor for it.
    """
    for a, b in node.on:
        for name, same in ((a, b), (b, a)):
            if same not in wanted.column_names or name in wanted.column_names:
                continue
            if node.kind != "left" or (name == a and not wanted.column(same).null_count):
                wanted = wanted.append_column(name, wanted.column(same))
    return wanted


def _select_met(rows: pa.Table, on: Sequence[tuple[str, str]], null_safe: bool) -> pa.Table:
    """Return what partners of rows are found by, under the names of the other side."""
    if not on:
        return _NO_COLUMNS
    found = deduplicate(build_arrow_table({b: rows.column(a) for a, b in on}))
    return found if null_safe else found.drop_null()


def _multiply(rows: pa.Table, others: pa.Table) -> pa.Table:
    """Return each of some rows with each of others, through the columns of both; of a column that both have the first one's."""
    more = [name for name in others.column_names if name not in rows.column_names]
    if not rows.num_columns or not more:
        return others if more else rows
    mine = np.repeat(np.arange(rows.num_rows), others.num_rows)
    theirs = np.tile(np.arange(others.num_rows), rows.num_rows)
    columns = {name: rows.column(name).take(to_positions(mine)) for name in rows.column_names}
    columns |= {name: others.column(name).take(to_positions(theirs)) for name in more}
    return build_arrow_table(columns)
