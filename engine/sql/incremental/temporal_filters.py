"""Filters that ask for the moment: taken apart into bounds, and the state that holds rows in the order of theirs."""

from __future__ import annotations

import msgspec

from engine.sql.expression.clock import (
    TIME_AT,
    TIME_IN,
    TIME_PART,
    TIME_PARTS,
    match_moment_bound,
    reads_clock,
    split_predicate,
)
from engine.sql.expression.nodes import Column, Expr
from engine.sql.expression.template import as_columns, call, fill_template, join_conditions
from engine.sql.plan import Filter, Node, Project, Scan, TemporalFilter

ENTER, LEAVE = "_time_enter", "_time_leave"
RESERVED = (TIME_PART, TIME_AT, TIME_IN, ENTER, LEAVE)


class MomentBounds(msgspec.Struct, frozen=True):
    """A predicate taken apart: its bounds of the moment, from which on and up to which a row is there, and the rest."""

    enter: Expr | None
    leave: Expr | None
    rest: Expr | None


def has_moment_bounds(node: Node) -> bool:
    """Tell whether a node is a filter that asks for the moment."""
    return isinstance(node, Filter) and reads_clock(node.predicate)


def split_bounds(predicate: Expr) -> MomentBounds:
    """Return a predicate taken apart."""
    found: dict[str, Expr] = {}
    rest = []
    for part in split_predicate(predicate):
        bound = match_moment_bound(part)
        if bound is None:
            rest.append(part)
            continue
        operator, value = bound
        known, narrower = found.get(operator), "greatest" if operator == ">=" else "least"
        found[operator] = value if known is None else _narrow_bounds(known, value, narrower)
    return MomentBounds(found.get(">="), found.get("<"), join_conditions(rest))


def build_temporal_filter(source: Node, bounds: MomentBounds, names: dict[str, str]) -> TemporalFilter:
    """Return the plan of the state of a filter over `source`, whose columns it has under `names`."""
    items = tuple((names[column], Column(column)) for column in source.columns)
    enter = ((ENTER, bounds.enter),) if bounds.enter is not None else ()
    leave = ((LEAVE, bounds.leave),) if bounds.leave is not None else ()
    fed = Project(source, (*items, *enter, *leave))
    return TemporalFilter(fed, ENTER if enter else None, LEAVE if leave else None)


def compute_part(key: tuple[str, ...]) -> Expr:
    """Return in which part of a state a row with this key stands."""
    if not key:
        return fill_template("0")
    hashed = call("xxhash64", *(Column(column) for column in key))
    return fill_template(f"CAST(pmod(:hash, {TIME_PARTS}) AS INT)", hash=hashed)


def scan_rows_inside(table: str, node: TemporalFilter, source: Node, names: dict[str, str]) -> Node:
    """Return the rows of a filter's state that are there: the columns of `source`, whose key tells them apart."""
    items = tuple(names.items())
    key = tuple(names[column] for column in source.key)
    if node.enter is None:
        return Scan(table, items, key, ())
    inside = f"{TIME_IN}:{table}"
    filtered = Filter(Scan(table, (*items, (inside, TIME_IN)), key, ()), Column(inside))
    return Project(filtered, as_columns(source.columns))


def _narrow_bounds(one: Expr, other: Expr, narrower: str) -> Expr:
    """Return the narrower of two bounds, null if one of them is."""
    return fill_template(
        "if(:a IS NULL OR :b IS NULL, NULL, :both)", a=one, b=other, both=call(narrower, one, other)
    )
