"""Aggregates kept by the values of each group: a state counts how often every value stands in its group.

Rule: count(DISTINCT x) over rows = count(x) over the distinct values, and min(x) = the first of them. So the state's own change,
a value that appears in its group or vanishes from it, is all that the aggregate has to follow; where the extreme itself vanishes,
the next one is the first row of the group in the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from engine.sql.expression.nodes import NULL, And, Call, Column, Comparison, Expr, Field, Literal, Not
from engine.sql.expression.template import (
    build_not_null,
    build_null,
    build_struct,
    cast,
    combine_conditions,
    fill_template,
)
from engine.sql.expression.template import call as call_of
from engine.sql.incremental.states.partials import (
    COMES,
    GLOBAL_KEY,
    GOES,
    Partial,
    Partials,
    Seek,
    build_partials,
)
from engine.sql.plan import (
    AggCall,
    Aggregate,
    DynamicFilter,
    Node,
    Project,
    Recompute,
    Scan,
    TemporalFilter,
    UnionAll,
    list_nodes,
)
from engine.sql.rewrites.plans.prune_columns import prune_columns

EXTREMES = {
    "min": ("least", "<="),
    "max": ("greatest", ">="),
    "min_by": ("least", "<="),
    "max_by": ("greatest", ">="),
}
_UNORDERED = ("array", "struct", "map", "variant")
_FLOATING = ("float", "double")
_SIGN = "coalesce(CAST(:x AS STRING) = '-0.0', FALSE)"
"""A key of the state does not keep the sign of a zero, so that of a value which another one stands for is kept beside it."""


class CountedValues(msgspec.Struct, frozen=True):
    """The values that a state counts by group: their expressions and types; `ordered` if its first row will be asked for."""

    expressions: tuple[Expr, ...]
    types: tuple[str, ...]
    ordered: bool

    @property
    def identity(self) -> tuple[Expr, ...]:
        """What tells states apart."""
        return self.expressions


def find_counted_values(call: AggCall, types: Sequence[str]) -> tuple[CountedValues | None, str]:
    """Return the values by which a call can be kept, or None and why not; rows that FILTER leaves out count as null."""
    name = call.function
    if name not in EXTREMES and not call.distinct:
        return None, f"{name} needs the group's rows in an order" if call.whole is not None else ""
    if call.whole is not None and name not in EXTREMES:
        return None, f"{name} needs the group's rows in an order"
    if any(kind.startswith(_UNORDERED) for kind in types):
        return None, f"{name} of {', '.join(types)} needs the group's rows: only plain values are counted"
    arguments = call.arguments
    if name in ("min_by", "max_by"):  # the measure decides, then the value
        arguments, types = arguments[::-1], types[::-1]
    if call.where is not None:
        arguments = tuple(_mask_unless(argument, call.where) for argument in arguments)
    if name in ("min_by", "max_by") and types[1] in _FLOATING:
        arguments, types = (*arguments, fill_template(_SIGN, x=arguments[1])), (*types, "boolean")
    return CountedValues(arguments, tuple(types), name in EXTREMES), ""


def _mask_unless(value: Expr, condition: Expr) -> Expr:
    return call_of("if", condition, value, NULL)


class ValueState:
    """The plan of one state: groups by the aggregate's keys and the values, and the names of its columns."""

    def __init__(self, node: Aggregate, values: CountedValues) -> None:
        self.values = values
        self.by = tuple(f"group_{n}" for n in range(len(node.keys)))
        self.columns = tuple(f"value_{n}" for n in range(len(values.expressions)))
        keys = [(name, expr) for name, (_, expr) in zip(self.by, node.keys, strict=True)]
        for n, (name, expr, kind) in enumerate(
            zip(self.columns, values.expressions, values.types, strict=True)
        ):
            if values.ordered and n == 0:
                keys.append(("present", build_not_null(expr)))
            if values.ordered and kind in _FLOATING:  # files have NaN before the numbers, SQL after them
                keys.append((f"nan_{n}", fill_template("coalesce(isnan(:x), FALSE)", x=expr)))
            keys.append((name, expr))
        self.plan = _drop_unread_columns(Aggregate(node.input, tuple(keys), ()))

    def scan(self, table: str, key: tuple[str, ...], prefix: str) -> Scan:
        """Return a scan of the state's table whose columns are named with a prefix."""
        items = tuple((f"{prefix}{column}", column) for column in key)
        return Scan(table, items, key, self.by if self.values.ordered else key, self.plan.append_only)


def _drop_unread_columns(plan: Aggregate) -> Aggregate:
    """Return the plan of a state without what it does not read of its input: changes that only show there do not concern it."""
    if any(isinstance(part, TemporalFilter | DynamicFilter | Recompute) for part in list_nodes(plan.input)):
        return plan  # these say themselves what they keep
    pruned = prune_columns(plan, set())
    assert isinstance(pruned, Aggregate)
    return pruned


class OverValues(msgspec.Struct, frozen=True):
    """The aggregate that remains above the states, and the partials of its calls."""

    node: Aggregate
    partials: tuple[Partials, ...]


def aggregate_over_values(
    node: Aggregate,
    states: Mapping[int, tuple[ValueState, Scan]],
    argument_types: Sequence[tuple[str, ...]],
    key_types: Sequence[str],
) -> OverValues | str:
    """Return the aggregate over the changes of its states, or why a call has no partials there.

    `states` has, by the number of each call that is kept by values, its state. Calls that need none read the rows themselves:
    the rows and the states' values are branches of one union then, and every call counts those of its own branch.
    """
    scans = list({scan.table: scan for _, scan in states.values()}.values())
    alone = len(states) == len(node.calls) and len(scans) == 1
    keys = [f"key_{n}" for n in range(len(node.keys))]
    calls, partials = [], []
    for i, call in enumerate(node.calls):
        found = states.get(i)
        if found is None:
            over = _aggregate_rows(i, call)
        else:
            state, scan = found
            branch = None if alone else 1 + scans.index(scan)
            over = _aggregate_state(call, state, scan, branch)
            if call.function in EXTREMES:
                partials.append(_seek_extreme(i, over, call.function, state, scan, node))
                calls.append(over)
                continue
        partial, why = build_partials(i, over, argument_types[i], node.input.append_only)
        if partial is None:
            return why
        partials.append(partial)
        calls.append(over)
    if alone:
        state, scan = states[0]
        source: Node = scan
        grouped: tuple[tuple[str, Expr], ...] = tuple(
            (name, Column(f"{scan.table}:{by}")) for (name, _), by in zip(node.keys, state.by, strict=True)
        )
    else:
        source = _build_union(node, keys, states, scans, argument_types, key_types)
        grouped = tuple((name, Column(key)) for (name, _), key in zip(node.keys, keys, strict=True))
    if tuple(name for name, _ in node.keys) == (GLOBAL_KEY,):
        grouped = node.keys
    return OverValues(Aggregate(source, grouped, tuple(calls)), tuple(partials))


def _aggregate_rows(i: int, call: AggCall) -> AggCall:
    where = combine_conditions(_match_branch(0), Column(f"where_{i}") if call.where is not None else None)
    arguments = tuple(Column(f"argument_{i}_{j}") for j in range(len(call.arguments)))
    return msgspec.structs.replace(call, arguments=arguments, where=where)


def _match_branch(branch: int) -> Expr:
    return Comparison("=", Column("_branch"), Literal(str(branch)))


def _aggregate_state(call: AggCall, state: ValueState, scan: Scan, branch: int | None) -> AggCall:
    names = [f"{scan.table}:{column}" for column in state.columns]
    where = None if branch is None else _match_branch(branch)
    arguments: tuple[Expr, ...] = tuple(Column(name) for name in names)
    if call.function == "count" and len(names) > 1:  # of several values all have to be there
        there = And(tuple(build_not_null(argument) for argument in arguments))
        arguments = (call_of("if", there, Literal("1"), NULL),)
    if call.function in EXTREMES:
        arguments = arguments[: len(call.arguments)]  # by these the call has its type
    return AggCall(call.name, call.function, arguments, False, where)


def _seek_extreme(
    i: int, call: AggCall, function: str, state: ValueState, scan: Scan, node: Aggregate
) -> Partials:
    """Return the partial of an extreme that may go: then the state's first or last value takes its place."""
    name, (pick, reaches) = f"_partial_{i}_{function}", EXTREMES[function]
    column, old, gone = Column(name), Column(f"_old_{name}"), f"_gone_{name}"
    arguments = [Column(f"{scan.table}:{found}") for found in state.columns]
    single = len(arguments) == 1
    value, there = _build_struct(arguments), build_not_null(arguments[0])
    fold = "min" if pick == "least" else "max"
    sought = tuple((f"_sought_{name}_{n}", column) for n, column in enumerate(state.columns))
    next_one = _build_struct([Column(found) for found, _ in sought])
    hit = f"_hit_{name}"
    if not single:  # a struct of nulls is a value, too
        next_one = call_of("if", Column(hit), next_one, NULL)
    went = fill_template("coalesce(:reaches, FALSE)", reaches=Comparison(reaches, Column(gone), old))
    came = fill_template("coalesce(:reaches, FALSE)", reaches=Comparison(reaches, column, old))
    seek = Seek(
        table=scan.table,
        pairs=tuple((key, by) for (key, _), by in zip(node.keys, state.by, strict=True)),
        present="present",
        items=sought,
        last=pick == "greatest",
        gone=(gone, Call(fold, (value,), where=combine_conditions(GOES, there, call.where))),
        needed=(f"_needed_{name}", And((went, Not(came)))),
        hit=hit,
    )
    merged = call_of("if", Column(seek.needed[0]), next_one, call_of(pick, old, column))
    partial = Partial(name, Call(fold, (value,), where=combine_conditions(COMES, there, call.where)), merged)
    found: Expr = column if single else Field(column, "v1")
    if len(arguments) > 2:
        zero = cast(Literal("-0.0", "string"), state.values.types[1])
        found = call_of("if", Field(column, "v2"), zero, found)
    return Partials(call.name, (partial,), found, seek)


def _build_struct(values: Sequence[Expr]) -> Expr:
    return (
        values[0] if len(values) == 1 else build_struct([(f"v{n}", value) for n, value in enumerate(values)])
    )


def _build_union(
    node: Aggregate,
    keys: list[str],
    states: Mapping[int, tuple[ValueState, Scan]],
    scans: list[Scan],
    argument_types: Sequence[tuple[str, ...]],
    key_types: Sequence[str],
) -> UnionAll:
    """Return the rows and the states' values as branches with the same columns, null where a branch lacks one."""
    columns: list[tuple[str, str, int, Expr]] = []
    for i, call in enumerate(node.calls):
        if i in states:
            continue
        for j, (argument, kind) in enumerate(zip(call.arguments, argument_types[i], strict=True)):
            columns.append((f"argument_{i}_{j}", kind, 0, argument))
        if call.where is not None:
            columns.append((f"where_{i}", "boolean", 0, call.where))
    by_scan = {scan.table: state for state, scan in states.values()}
    for branch, scan in enumerate(scans, 1):
        state = by_scan[scan.table]
        for column, kind in zip(state.columns, state.values.types, strict=True):
            name = f"{scan.table}:{column}"
            columns.append((name, kind, branch, Column(name)))
    branches = []
    by = next(iter(by_scan.values())).by
    of_rows = [expr for _, expr in node.keys]
    of_states = [
        [cast(Column(f"{scan.table}:{column}"), kind) for column, kind in zip(by, key_types, strict=True)]
        for scan in scans
    ]
    for branch, (source, grouped) in enumerate(zip((node.input, *scans), (of_rows, *of_states), strict=True)):
        items = [(name, expr) for name, expr in zip(keys, grouped, strict=True)]
        items += [
            (name, expr if owner == branch else build_null(kind)) for name, kind, owner, expr in columns
        ]
        branches.append(Project(source, tuple(items)))
    return UnionAll(tuple(branches), (*keys, *(name for name, *_ in columns)))
