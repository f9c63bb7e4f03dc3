"""FROM and JOIN: equalities become the joins' keys, one-sided conditions move to their side, the rest stays with the join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec
import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.bind.conditions import ORDERS, Condition
from engine.sql.bind.expressions import ExpressionBinder, Refuse, split_conjuncts
from engine.sql.bind.from_clause.asof_joins import AsofJoinBuilder
from engine.sql.bind.scope import FromSource, Scope
from engine.sql.expression.clock import reads_clock
from engine.sql.expression.nodes import Column, Comparison, Expr, annotate
from engine.sql.expression.template import call as call_of
from engine.sql.parsing.location import locate
from engine.sql.parsing.names import normalize_identifier
from engine.sql.plan import Filter, Join, JoinKind, Node, list_children, list_nodes
from engine.sql.rewrites.binding.build_full_join import build_full_join
from engine.sql.rewrites.binding.decorrelate import decorrelate
from engine.sql.rewrites.binding.equalities import Equalities
from engine.sql.rewrites.binding.free_columns import find_free_columns
from engine.sql.rewrites.binding.join_keys import JoinKeys, Pair, append_columns

StepKind = Literal[JoinKind, "right", "full"]
_SIDES: dict[str, StepKind] = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}
_HALVES: tuple[tuple[str, StepKind], ...] = (("SEMI", "semi"), ("ANTI", "anti"))

MOST_NODES = 300
"""How many nodes the plan of FULL JOINs may have, five of tables in a row: with six Spark plans for a minute."""


@dataclass(frozen=True)
class JoinStep:
    """One JOIN: what is joined, how, and its own conditions."""

    source: FromSource
    kind: StepKind
    conditions: tuple[Condition, ...]
    node: exp.Expr
    apply: Callable[[Node], Node] | None = None
    coalesced: tuple[tuple[str, Expr], ...] = ()
    at_arrival: bool = False
    asof: bool = False

    @property
    def can_wait(self) -> bool:
        """Whether the source may be joined later, when an equality connects it."""
        plain = self.kind == "inner" and self.apply is None and not self.at_arrival and not self.asof
        return plain and not find_free_columns(self.source.plan)


class JoinBuilder:
    """Joins the sources of one SELECT: inner joins in the first order in which each has an equality, the others as written."""

    def __init__(
        self,
        scope: Scope,
        expressions: ExpressionBinder,
        keys: JoinKeys,
        equalities: Equalities,
        refuse: Refuse,
    ) -> None:
        self.scope, self.expressions, self.keys = scope, expressions, keys
        self.equalities, self.refuse = equalities, refuse
        self.deferred: list[exp.Expr] = []

    def add_step(
        self,
        join: exp.Join,
        source: FromSource,
        apply: Callable[[Node], Node] | None = None,
        *,
        at_arrival: bool = False,
    ) -> JoinStep:
        """Add a joined source to the scope and bind its conditions, which see nothing that follows."""
        kind = self._parse_kind(join)
        asof = _is_asof(join)
        if at_arrival or asof:
            self._check_timed(join, kind, at_arrival)
        self.scope.add(source, join.this)
        using = [part for part in join.args.get("using") or ()]
        if str(join.args.get("method") or "").upper() == "NATURAL":
            using = self._list_common_names(source)
        coalesced: list[tuple[str, Expr]] = []
        conditions = [self._bind_using(part, source, kind, coalesced) for part in using]
        shown = [one for one in self.scope.sources if one is not source or kind not in ("semi", "anti")]
        names = map(normalize_identifier, using)
        self.scope.show_first([column for name in names for column in self.scope.find_visible(name, shown)])
        for part in [part for on in _list_on_conditions(join) for part in split_conjuncts(on)]:
            if not self.expressions.has_subquery(part):
                conditions.append(self.bind_condition(part, "ON", ordered=asof))
            elif kind == "inner" and not asof:
                self.deferred.append(part)
            else:
                which = "as-of" if asof else "outer"
                raise self.refuse(f"a subquery in ON of an {which} join", part, "join it in FROM first")
        if kind in ("semi", "anti"):
            self.scope.sources.remove(source)
        return JoinStep(source, kind, tuple(conditions), join.this, apply, tuple(coalesced), at_arrival, asof)

    def _check_timed(self, join: exp.Join, kind: StepKind, at_arrival: bool) -> None:
        """Refuse a temporal or as-of join of another kind, and where left rows do not come by themselves."""
        what = "FOR SYSTEM_TIME AS OF PROCTIME()" if at_arrival else "ASOF JOIN"
        if at_arrival and _is_asof(join):
            raise self.refuse(f"ASOF JOIN with {what}", join.this, "take one of the two")
        if kind not in ("inner", "left"):
            hint = "only rows of the left side come and find what is there then: write JOIN or LEFT JOIN"
            hint = (
                hint if at_arrival else "write ASOF JOIN or ASOF LEFT JOIN, with the other side on the left"
            )
            raise self.refuse(f"{kind.upper()} JOIN with {what}", join.this, hint)
        if self.scope.outer is not None:
            hint = "join in FROM of the query itself, or make a materialized view of the joined rows"
            raise self.refuse(f"{what} in a subquery of an expression", join.this, hint)

    def bind_condition(self, node: exp.Expr, clause: str, *, ordered: bool = False) -> Condition:
        """Bind one conjunct; with `ordered` the sides of one that compares by order, too."""
        expr, order = (
            self.expressions.bind_condition(node, clause),
            ORDERS.get(type(node)) if ordered else None,
        )
        if (not isinstance(node, exp.EQ | exp.NullSafeEQ) and order is None) or reads_clock(expr):
            return Condition(expr, node=node)
        sides = self.expressions.build_tree(node.this), self.expressions.build_tree(node.expression)
        if order is not None:
            return Condition(expr, sides, order=order, node=node)
        if isinstance(node, exp.EQ):
            self.equalities.record(expr, *sides)
        return Condition(expr, sides, isinstance(node, exp.NullSafeEQ), node=node)

    def build(self, first: FromSource, steps: Sequence[JoinStep], where: Sequence[Condition]) -> Node:
        """Return the plan of FROM with WHERE applied as near to the scans as is safe."""
        plan, rest = first.plan, list(where)
        waiting: list[JoinStep] = []
        pool: list[Condition] = []
        for n, step in enumerate(steps):
            # below a RIGHT or FULL JOIN a condition of WHERE would keep rows that it should drop
            later = any(after.kind in ("right", "full") for after in steps[n + 1 :])
            usable = [] if later else rest
            if step.can_wait:
                waiting.append(step)
                pool += step.conditions
                plan = self._attach(plan, waiting, pool, usable)
                continue
            plan = self._join_cross(plan, waiting, pool, [] if step.kind in ("right", "full") else usable)
            if pool and step.kind in ("right", "full"):
                raise self.refuse("a condition on an outer query below an outer join", step.node, "use WHERE")
            if step.at_arrival:
                plan = self._join_at_arrival(plan, step, usable)
            elif step.asof:
                kind: JoinKind = "left" if step.kind == "left" else "inner"
                joined = AsofJoinBuilder(self.keys, self.refuse, step.node)
                plan = joined.build_join(plan, step.source.plan, kind, step.conditions)
            else:
                plan = self._join_in_order(plan, step)
            if step.kind == "full" and _count_nodes(plan) > MOST_NODES:
                raise self._build_size_error(step)
        plan = self._join_cross(plan, waiting, pool, rest)
        for condition in (*pool, *rest):
            plan = Filter(plan, condition.expr)
        return plan

    def _build_size_error(self, step: JoinStep) -> UnsupportedSql:
        what = f"a FULL JOIN of more than {MOST_NODES} steps, as each one doubles what is joined before it,"
        hint = "make a materialized view of the first joins, and join that"
        return self.refuse(what, step.node, hint)

    # ---- inner joins -----------------------------------------------------------------------------------------
    def _attach(
        self, plan: Node, waiting: list[JoinStep], pool: list[Condition], where: list[Condition]
    ) -> Node:
        """Join every waiting source that an equality connects to the plan; conditions that are used leave their list."""
        progress = True
        while progress:
            progress = False
            for step in waiting:
                mine, theirs = set(plan.columns), set(step.source.plan.columns)
                used = [
                    c for c in (*pool, *where) if not c.null_safe and c.match_pair(mine, theirs) is not None
                ]
                if not used:
                    used = [c for c in (*pool, *where) if c.match_pair(mine, theirs) is not None]
                if not used:
                    continue
                pairs = [pair for c in used if (pair := c.match_pair(mine, theirs)) is not None]
                pool[:] = [c for c in pool if c not in used]
                where[:] = [c for c in where if c not in used]
                plan = self._join_inner(plan, step, pairs, pool, used[0].null_safe)
                waiting.remove(step)
                progress = True
                break
        return plan

    def _join_cross(
        self, plan: Node, waiting: list[JoinStep], pool: list[Condition], where: list[Condition]
    ) -> Node:
        """Join what no equality connects: every pair of rows, under the conditions that compare the two sides."""
        while waiting:
            step = waiting.pop(0)
            both = set(plan.columns) | set(step.source.plan.columns)
            sides = (set(plan.columns), set(step.source.plan.columns))
            used = [
                c
                for c in where
                if set(c.expr.columns) <= both and not any(set(c.expr.columns) <= side for side in sides)
            ]
            where[:] = [c for c in where if c not in used]
            pool += used
            plan = self._join_inner(plan, step, [], pool)
            plan = self._attach(plan, waiting, pool, where)
        return plan

    def _join_inner(
        self, left: Node, step: JoinStep, pairs: list[Pair], pool: list[Condition], null_safe: bool = False
    ) -> Node:
        right = step.source.plan
        mine, theirs = set(left.columns), set(right.columns)
        ready = [c for c in pool if set(c.expr.columns) <= mine | theirs]
        pool[:] = [c for c in pool if c not in ready]
        residual: list[Expr] = []
        for expr in (c.expr for c in ready):
            if expr.columns and set(expr.columns) <= theirs:
                right = Filter(right, expr)
            elif expr.columns and set(expr.columns) <= mine:
                left = Filter(left, expr)
            else:
                residual.append(expr)
        return self.keys.join(left, right, "inner", pairs, residual, null_safe)

    # ---- joins in the written order --------------------------------------------------------------------------
    def _join_at_arrival(self, plan: Node, step: JoinStep, where: list[Condition]) -> Node:
        """A temporal join; conditions of WHERE that compare the two sides of an inner one belong to it, and leave their list."""
        filters = [
            part for side in (plan, step.source.plan) for part in list_nodes(side) if isinstance(part, Filter)
        ]
        predicates = [*(part.predicate for part in filters), *(c.expr for c in step.conditions)]
        if any(reads_clock(predicate) for predicate in predicates):
            hint = "write it above the join: in WHERE of the query that joins, or of one around it"
            raise self.refuse("a condition on now() in or below a temporal join", step.node, hint)
        sides = (set(plan.columns), set(step.source.plan.columns))
        both = sides[0] | sides[1]
        used = [
            c
            for c in where
            if step.kind == "inner"
            and set(c.expr.columns) <= both
            and not any(set(c.expr.columns) <= side for side in sides)
            and not reads_clock(c.expr)
        ]
        where[:] = [c for c in where if c not in used]
        joined = self._join_outer(plan, replace(step, conditions=(*step.conditions, *used)))
        return msgspec.structs.replace(joined, at_arrival=True)

    def _join_in_order(self, plan: Node, step: JoinStep) -> Node:
        if step.apply is not None:
            joined = step.apply(plan)
            for condition in step.conditions:
                joined = Filter(joined, condition.expr)
            return joined
        if set(find_free_columns(step.source.plan)) & set(plan.columns):
            return self._join_lateral(plan, step)
        if step.kind == "full":
            pairs, residual, null_safe = self._split_conditions(plan, step.source.plan, step.conditions)
            joined = build_full_join(plan, step.source.plan, pairs, residual, self.keys, null_safe)
            return append_columns(joined, step.coalesced)
        return self._join_outer(plan, step)

    def _join_outer(self, plan: Node, step: JoinStep) -> Join:
        """LEFT JOIN as it is, RIGHT JOIN with its sides exchanged; conditions on the kept side alone stay with the join."""
        left, right = (step.source.plan, plan) if step.kind == "right" else (plan, step.source.plan)
        theirs = set(right.columns)
        rest: list[Condition] = []
        for condition in step.conditions:
            if condition.expr.columns and set(condition.expr.columns) <= theirs:
                right = Filter(right, condition.expr)
            else:
                rest.append(condition)
        pairs, residual, null_safe = self._split_conditions(left, right, rest)
        kinds: dict[str, JoinKind] = {"right": "left", "left": "left", "semi": "semi", "anti": "anti"}
        return self.keys.join(left, right, kinds.get(step.kind, "inner"), pairs, residual, null_safe)

    def _split_conditions(
        self, left: Node, right: Node, conditions: Sequence[Condition]
    ) -> tuple[list[Pair], list[Expr], bool]:
        """Return the conditions as pairs and the rest, and whether the pairs are null-safe: all of them or none."""
        mine, theirs = set(left.columns), set(right.columns)
        found = [(c, c.match_pair(mine, theirs)) for c in conditions]
        plain = any(pair is not None and not c.null_safe for c, pair in found)
        pairs = [pair for c, pair in found if pair is not None and not (plain and c.null_safe)]
        residual = [c.expr for c, pair in found if pair is None or (plain and c.null_safe)]
        return pairs, residual, bool(pairs) and not plain

    def _join_lateral(self, plan: Node, step: JoinStep) -> Node:
        """A source that reads columns of those before it is computed for each row of them."""
        if step.kind not in ("inner", "left"):
            raise self.refuse(f"{step.kind.upper()} JOIN LATERAL", step.node, "write LEFT or INNER JOIN")
        other = decorrelate(plan, step.source.plan, self.equalities, self.keys, residual=True)
        pairs, residual, null_safe = self._split_conditions(plan, other.node, step.conditions)
        if other.null_safe or null_safe:  # the domain's columns match null with null; conditions of ON do not
            pairs, residual = [], [c.expr for c in step.conditions]
        kind: JoinKind = "left" if step.kind == "left" else "inner"
        return self.keys.join(
            plan, other.node, kind, (*other.pairs, *pairs), (*other.residual, *residual), other.null_safe
        )

    # ---- USING -----------------------------------------------------------------------------------------------
    def _parse_kind(self, join: exp.Join) -> StepKind:
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        method = str(join.args.get("method") or "").upper()
        if method not in ("", "NATURAL", "ASOF"):
            raise self.refuse(f"{method} JOIN", join.this, "write JOIN … ON")
        for name, found in _HALVES:
            if name in (kind, side):
                return found
        if kind not in ("", "INNER", "OUTER", "CROSS"):
            raise self.refuse(f"{kind} JOIN", join.this, "write JOIN … ON")
        return _SIDES.get(side, "inner")

    def _list_common_names(self, source: FromSource) -> list[exp.Expr]:
        """Return the names that NATURAL compares: those that both sides have."""
        before = [other for other in self.scope.sources if other is not source]
        return [
            exp.to_identifier(name, quoted=True)
            for name, _ in source.columns
            if self.scope.find_visible(name, before)
        ]

    def _bind_using(
        self, part: exp.Expr, source: FromSource, kind: StepKind, coalesced: list[tuple[str, Expr]]
    ) -> Condition:
        name = normalize_identifier(part)
        left = self.scope.find_visible(name, [other for other in self.scope.sources if other is not source])
        right = self.scope.find_visible(name, [source])
        if len(left) != 1 or len(right) != 1:
            hint = "write ON with the columns' full names"
            raise self.scope.build_error(f"USING ({name}): the column is not once on each side", part, hint)
        if kind == "full":
            either = self.keys.fresh(f"using:{name}")
            self.scope.show_instead(name, either, left[0], right[0])
            kinds = {self.keys.types.get(column) for column in (left[0], right[0])}
            if len(kinds) == 1 and None not in kinds:
                self.keys.types[either] = str(kinds.pop())
            coalesced.append((either, call_of("coalesce", Column(left[0]), Column(right[0]))))
        elif kind not in ("semi", "anti"):
            visible, hidden = (right[0], left[0]) if kind == "right" else (left[0], right[0])
            self.scope.merge_columns(visible, hidden)
        at = locate(part, self.scope.sql)
        sides = (annotate(Column(left[0]), position=at), annotate(Column(right[0]), position=at))
        expr = annotate(Comparison("=", *sides), position=at)
        self.equalities.record(expr, *sides)
        return Condition(expr, sides)


def _count_nodes(node: Node, known: dict[int, int] | None = None) -> int:
    """Return how many nodes a plan has, one that stands in several places counted in each; `known` are counted already."""
    known = {} if known is None else known
    if id(node) not in known:
        known[id(node)] = 1 + sum(_count_nodes(child, known) for child in list_children(node))
    return known[id(node)]


def _is_asof(join: exp.Join) -> bool:
    return str(join.args.get("method") or "").upper() == "ASOF"


def _list_on_conditions(join: exp.Join) -> list[exp.Expr]:
    """Return the conditions of a join: ON, and before it MATCH_CONDITION."""
    return [part for name in ("match_condition", "on") if (part := join.args.get(name)) is not None]
