"""Subqueries in expressions: each is bound in the scope around it and attached to the plan as a join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import sqlglot.expressions as exp

from engine.sql.bind.scope import Scope
from engine.sql.expression.nodes import Column, Expr
from engine.sql.expression.template import as_columns
from engine.sql.parsing.location import copy_location
from engine.sql.plan import Node, Project
from engine.sql.rewrites.binding.decorrelate import decorrelate
from engine.sql.rewrites.binding.equalities import Equalities
from engine.sql.rewrites.binding.join_keys import JoinKeys
from engine.sql.rewrites.binding.mark_matches import mark_matches
from engine.sql.rewrites.binding.membership import Membership, filter_exists
from engine.sql.rewrites.binding.rewrite_quantified import rewrite_quantified
from engine.sql.rewrites.binding.scalar_subqueries import ScalarSubqueries

Attach = Callable[[Node], Node]
Bind = Callable[[exp.Expr], Expr]
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


class BoundSubquery(Protocol):
    """A bound query: its plan, and its columns as (output name, the plan's column)."""

    @property
    def plan(self) -> Node: ...

    @property
    def columns(self) -> tuple[tuple[str, str], ...]: ...


def unwrap_query(node: exp.Expr | None) -> exp.Query | exp.Values | None:
    """Return the query that stands in parentheses, or None; one with ORDER BY, LIMIT or WITH after them stays whole."""
    while isinstance(node, exp.Paren | exp.Subquery) and not any(
        node.args.get(part) for part in ("with_", "order", "limit", "offset")
    ):
        node = node.this
    return node if isinstance(node, exp.Query | exp.Values) else None


def is_subquery(node: exp.Expr) -> bool:
    """Tell whether an expression is one that a subquery decides: EXISTS, IN, ANY, ALL, or a query for one value."""
    match node:
        case exp.Exists():
            return unwrap_query(node.this) is not None
        case exp.In():
            return _find_in_query(node) is not None
        case exp.Query():
            return True
    return isinstance(node, _COMPARISONS) and _find_quantified_query(node) is not None


def _find_in_query(node: exp.In) -> exp.Query | exp.Values | None:
    """Return the query in which IN looks, or None if it is a list of values."""
    items = node.expressions
    return unwrap_query(node.args.get("query") or (items[0] if len(items) == 1 else None))


def _find_quantified_query(node: exp.Expr) -> exp.Query | exp.Values | None:
    right = node.expression
    return unwrap_query(right.this) if isinstance(right, exp.Any | exp.All) else None


def _normalize_quantifier(node: exp.Expr) -> exp.Expr:
    """`x = ANY (q)` -> `x IN (q)`, `x <> ALL (q)` -> `NOT x IN (q)`"""
    query = _find_quantified_query(node) if isinstance(node, exp.EQ | exp.NEQ) else None
    if query is None:
        return node
    inside = copy_location(exp.In(this=node.this, query=exp.Subquery(this=query)), node)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        return inside
    return (
        exp.Not(this=inside) if isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All) else node
    )


@dataclass
class ExpressionSubqueries:
    """The subqueries of one SELECT; `pending` are the joins that the plan still needs before their columns can be read."""

    scope: Scope
    keys: JoinKeys
    equalities: Equalities
    known: set[str]
    bind: Callable[[exp.Expr, Scope], BoundSubquery]
    outer: Bind = field(init=False)
    pending: list[Attach] = field(default_factory=list)

    def attach(self, plan: Node) -> Node:
        """Return the plan with everything joined that bound expressions read."""
        waiting, self.pending = self.pending, []
        for step in waiting:
            plan = step(plan)
        return plan

    # ---- conditions of WHERE ---------------------------------------------------------------------------------
    def build_condition(self, node: exp.Expr) -> Attach | None:
        """Return what a conjunct of WHERE does to the plan if it is EXISTS, IN or their negation, else None."""
        node, positive = _normalize_quantifier(node.unnest()), True
        while isinstance(node, exp.Not):
            node, positive = _normalize_quantifier(node.this.unnest()), not positive
        if isinstance(node, exp.Exists) and is_subquery(node):
            inner = self._bind_inner(node.this).plan

            def attach_exists(plan: Node) -> Node:
                other = decorrelate(plan, inner, self.equalities, self.keys, residual=True)
                return filter_exists(plan, other, self.keys, positive)

            return attach_exists
        if isinstance(node, exp.In) and is_subquery(node):
            return self._build_membership(node, positive)
        return None

    def _build_membership(self, node: exp.In, positive: bool) -> Attach:
        inner = self._bind_inner(node)
        members = self._pair_members(node, inner, self.outer)

        def attach_member(plan: Node) -> Node:
            other = decorrelate(plan, inner.plan, self.equalities, self.keys, residual=True)
            rule = Membership(self.keys, self.known)
            if positive:
                return rule.filter_in(plan, other, members)
            if len(members) == 1:
                return rule.filter_not_in(plan, other, *members[0])
            return rule.filter_rows_not_in(plan, other, members)

        before, self.pending = self.pending, []

        def attach_steps(plan: Node) -> Node:
            for step in before:
                plan = step(plan)
            return attach_member(plan)

        return attach_steps

    # ---- subqueries anywhere in an expression ----------------------------------------------------------------
    def add_value_column(
        self,
        node: exp.Expr,
        outer: Bind | None = None,
        rename: Attach | None = None,
        into: list[Attach] | None = None,
    ) -> exp.Expr:
        """Return a reference to the column that will hold the subquery's value.

        `outer` binds expressions of the query around it, `rename` replaces its columns in the subquery's plan; the join goes
        to the list `into`.
        """
        node = _normalize_quantifier(node)
        if isinstance(node, exp.Not):
            return exp.Not(this=self.add_value_column(node.this, outer, rename, into))
        outer, pending = outer or self.outer, self.pending if into is None else into
        out = self.keys.fresh("subquery")
        query = self._normalize_node(node)
        inner = self._bind_inner(query)
        plan = rename(inner.plan) if rename is not None else inner.plan
        if isinstance(node, exp.Exists):
            pending.append(self._build_mark(plan, out))
            kind: str | None = "boolean"
        elif isinstance(node, exp.In):
            members = self._pair_members(node, inner, outer)
            if len(members) != 1:
                hint = "write EXISTS with one equality for each column"
                raise self.scope.build_error("IN with several columns is inside an expression", node, hint)
            pending.append(self._build_member_mark(plan, members[0], out))
            kind = "boolean"
        elif isinstance(node, exp.Query):
            self._check_one_column(inner, query)
            kind = self.keys.types.get(inner.columns[0][1])
            pending.append(self._build_value(plan, inner.columns[0][1], out))
        else:
            self._check_one_column(inner, query)
            y, every = inner.columns[0][1], isinstance(node.expression, exp.All)
            value = rewrite_quantified(plan, type(node), outer(node.this), y, every, self.keys.fresh)
            pending.append(self._build_value(value, value.columns[0], out))
            kind = "boolean"
        if kind is not None:
            self.keys.types[out] = kind
        found = exp.Column(this=exp.Identifier(this=out, quoted=True))
        found.meta["bound"] = True
        return copy_location(found, node)

    def _build_mark(self, inner: Node, out: str) -> Attach:
        def attach_mark(plan: Node) -> Node:
            other = decorrelate(plan, inner, self.equalities, self.keys, residual=False)
            marked, found = mark_matches(plan, other, self.keys)
            return _append_value(plan, marked, found, out)

        return attach_mark

    def _build_member_mark(self, inner: Node, member: tuple[Expr, Expr], out: str) -> Attach:
        def attach_member_mark(plan: Node) -> Node:
            other = decorrelate(plan, inner, self.equalities, self.keys, residual=False)
            rule = Membership(self.keys, self.known)
            marked, value = rule.mark_in(plan, other, *member)
            return _append_value(plan, marked, value, out)

        return attach_member_mark

    def _build_value(self, inner: Node, column: str, out: str) -> Attach:
        rule = ScalarSubqueries(self.keys, self.equalities)
        return lambda plan: rule.attach(plan, inner, column, out)

    def _normalize_node(self, node: exp.Expr) -> exp.Expr:
        match node:
            case exp.Exists():
                found = unwrap_query(node.this)
            case exp.In():
                found = _find_in_query(node)
            case _:
                found = unwrap_query(node) or _find_quantified_query(node)
        assert found is not None
        return found

    def _bind_inner(self, node: exp.Expr) -> BoundSubquery:
        query = _find_in_query(node) if isinstance(node, exp.In) else unwrap_query(node)
        assert query is not None
        return self.bind(query, self.scope)

    def _pair_members(self, node: exp.In, inner: BoundSubquery, outer: Bind) -> tuple[tuple[Expr, Expr], ...]:
        values = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this.unnest()]
        if len(values) != len(inner.columns):
            message = f"IN compares {len(values)} values with {len(inner.columns)} columns"
            raise self.scope.build_error(message, node, "give both sides the same number")
        columns = [Column(internal) for _, internal in inner.columns]
        return tuple((outer(value), column) for value, column in zip(values, columns, strict=True))

    def _check_one_column(self, inner: BoundSubquery, node: exp.Expr) -> None:
        if len(inner.columns) != 1:
            message = f"a subquery used as a value has {len(inner.columns)} columns"
            raise self.scope.build_error(message, node, "select just one")


def _append_value(plan: Node, joined: Node, value: Expr, out: str) -> Node:
    return Project(joined, (*as_columns(plan.columns), (out, value)))
