"""FROM and JOIN: equalities become the joins' keys, one-sided conditions move to their side, the rest stays with the join."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.expression_types import wider
from engine.sql.expressions import Expressions, Refuse, conjuncts
from engine.sql.plan import Expr, Join, Node, Project, quote
from engine.sql.position import place
from engine.sql.pushdown import conjunction, push_filter
from engine.sql.scope import Scope, Source


@dataclass(frozen=True)
class Condition:
    """One conjunct, bound; `sides` are the two sides of an equality."""

    expr: Expr
    sides: tuple[Expr, Expr] | None = None

    def pair(self, left: set[str], right: set[str]) -> tuple[Expr, Expr] | None:
        """Return the sides in the order (left, right) if the equality compares one input with the other."""
        if self.sides is None or not all(side.columns for side in self.sides):
            return None
        for a, b in (self.sides, self.sides[::-1]):
            if set(a.columns) <= left and set(b.columns) <= right:
                return a, b
        return None


@dataclass(frozen=True)
class Step:
    """One JOIN: what is joined, how, and its own conditions."""

    source: Source
    kind: str
    conditions: tuple[Condition, ...]
    node: exp.Expression


class JoinBuilder:
    """Joins the sources of one SELECT: inner joins in the first order in which each has an equality, the others as written."""

    def __init__(
        self,
        scope: Scope,
        expressions: Expressions,
        types: dict[str, str],
        fresh: Callable[[str], str],
        refuse: Refuse,
    ) -> None:
        self.scope, self.expressions, self.types = scope, expressions, types
        self.fresh, self.refuse = fresh, refuse

    def step(self, join: exp.Join, source: Source) -> Step:
        """Add a joined source to the scope and bind its conditions, which see nothing that follows."""
        kind = self._kind(join)
        self.scope.add(source, join.this)
        using = [self._using(part, source, kind) for part in join.args.get("using") or ()]
        on = join.args.get("on")
        conditions = [self.condition(part, "ON") for part in conjuncts(on)] if on is not None else []
        return Step(source, kind, (*using, *conditions), join.this)

    def condition(self, node: exp.Expression, clause: str) -> Condition:
        """Bind one conjunct."""
        expr = self.expressions.scalar(node, clause)
        if not isinstance(node, exp.EQ):
            return Condition(expr)
        return Condition(
            expr, (self.expressions.printed(node.this), self.expressions.printed(node.expression))
        )

    def build(self, first: Source, steps: Sequence[Step], where: Sequence[Condition]) -> Node:
        """Return the plan of FROM with WHERE applied as near to the scans as is safe."""
        plan, rest = first.plan, list(where)
        waiting: list[Step] = []
        pool: list[Condition] = []
        for n, step in enumerate(steps):
            if step.kind == "inner":
                waiting.append(step)
                pool += step.conditions
                # below a RIGHT JOIN a condition of WHERE would keep rows that it should drop
                usable = [] if any(later.kind == "right" for later in steps[n + 1 :]) else rest
                plan = self._attach(plan, waiting, pool, usable)
            else:
                self._refuse_waiting(waiting)
                plan = self._outer(plan, step)
        self._refuse_waiting(waiting)
        for condition in rest:
            plan = push_filter(plan, condition.expr)
        return plan

    def _attach(self, plan: Node, waiting: list[Step], pool: list[Condition], where: list[Condition]) -> Node:
        """Join every waiting source that an equality connects to the plan; conditions that are used leave their list."""
        progress = True
        while progress:
            progress = False
            for step in waiting:
                mine, theirs = set(plan.columns), set(step.source.plan.columns)
                used = [c for c in (*pool, *where) if c.pair(mine, theirs) is not None]
                if not used:
                    continue
                pairs = [pair for c in used if (pair := c.pair(mine, theirs)) is not None]
                pool[:] = [c for c in pool if c not in used]
                where[:] = [c for c in where if c not in used]
                plan = self._inner(plan, step, pairs, pool)
                waiting.remove(step)
                progress = True
                break
        return plan

    def _inner(self, left: Node, step: Step, pairs: list[tuple[Expr, Expr]], pool: list[Condition]) -> Node:
        right = step.source.plan
        mine, theirs = set(left.columns), set(right.columns)
        ready = [c for c in pool if set(c.expr.columns) <= mine | theirs]
        pool[:] = [c for c in pool if c not in ready]
        residual: list[Expr] = []
        for expr in (c.expr for c in ready):
            if expr.columns and set(expr.columns) <= theirs:
                right = push_filter(right, expr)
            elif expr.columns and set(expr.columns) <= mine:
                left = push_filter(left, expr)
            else:
                residual.append(expr)
        left, right, on = self._keys(left, right, pairs)
        return Join(left, right, "inner", on, conjunction(residual))

    def _outer(self, plan: Node, step: Step) -> Node:
        """LEFT JOIN as it is, RIGHT JOIN with its sides exchanged; conditions on the kept side alone stay with the join."""
        left, right = (plan, step.source.plan) if step.kind == "left" else (step.source.plan, plan)
        mine, theirs = set(left.columns), set(right.columns)
        pairs: list[tuple[Expr, Expr]] = []
        residual: list[Expr] = []
        for condition in step.conditions:
            pair = condition.pair(mine, theirs)
            if pair is not None:
                pairs.append(pair)
            elif condition.expr.columns and set(condition.expr.columns) <= theirs:
                right = push_filter(right, condition.expr)
            else:
                residual.append(condition.expr)
        if not pairs:
            self._refuse_waiting([step])
        left, right, on = self._keys(left, right, pairs)
        return Join(left, right, "left", on, conjunction(residual))

    def _refuse_waiting(self, waiting: list[Step]) -> None:
        for step in waiting:
            raise self.refuse(
                "a join without an equality between its two sides",
                step.node,
                "join ON a.x = b.y, further conditions may follow",
            )

    def _kind(self, join: exp.Join) -> str:
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        method = str(join.args.get("method") or "").upper()
        if method:
            raise self.refuse(f"{method} JOIN", join.this, "write JOIN … ON")
        if side == "FULL":
            hint = "UNION ALL a LEFT JOIN and the unmatched rows of the other side"
            raise self.refuse("FULL JOIN", join.this, hint)
        if kind in ("SEMI", "ANTI") or side in ("SEMI", "ANTI"):
            hint = "LEFT JOIN the distinct keys and test them for NULL"
            raise self.refuse(f"{kind or side} JOIN", join.this, hint)
        if kind not in ("", "INNER", "OUTER", "CROSS"):
            raise self.refuse(f"{kind} JOIN", join.this, "write JOIN … ON")
        return {"LEFT": "left", "RIGHT": "right"}.get(side, "inner")

    def _using(self, part: exp.Expression, source: Source, kind: str) -> Condition:
        name = part.name.lower()
        left = self.scope.visible(name, self.scope.sources[:-1])
        right = self.scope.visible(name, [source])
        if len(left) != 1 or len(right) != 1:
            hint = "write ON with the columns' full names"
            raise self.scope.error(f"USING ({name}): the column is not once on each side", part, hint)
        kept, hidden = (right[0], left[0]) if kind == "right" else (left[0], right[0])
        self.scope.merge(kept, hidden)
        at = place(part, self.scope.sql)
        sides = (Expr(quote(left[0]), (left[0],), at), Expr(quote(right[0]), (right[0],), at))
        return Condition(Expr(f"{sides[0].sql} = {sides[1].sql}", (left[0], right[0]), at), sides)

    def _keys(
        self, left: Node, right: Node, pairs: list[tuple[Expr, Expr]]
    ) -> tuple[Node, Node, tuple[tuple[str, str], ...]]:
        """Return both sides with every join key as a bare column, of one type on both sides."""
        added: tuple[list[tuple[str, Expr]], list[tuple[str, Expr]]] = ([], [])
        on: list[tuple[str, str]] = []
        for pair in pairs:
            names = []
            for n, expr in enumerate(self._one_type(*pair)):
                name = expr.column or next((known for known, e in added[n] if e.sql == expr.sql), None)
                if name is None:
                    name = self.fresh("join:key")
                    added[n].append((name, expr))
                    if expr.sql in self.types:
                        self.types[quote(name)] = self.types[expr.sql]
                names.append(name)
            if (names[0], names[1]) not in on:
                on.append((names[0], names[1]))
        return _with_columns(left, added[0]), _with_columns(right, added[1]), tuple(on)

    def _one_type(self, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        """Return both sides in the type in which they compare without loss; lookups are by exact type."""
        one, other = self.types.get(a.sql), self.types.get(b.sql)
        for side, kind in ((a, one), (b, other)):
            if kind is None:
                raise self._error(
                    side, "the type of a join's side cannot be told", "write CAST(… AS type) around it"
                )
        assert one is not None and other is not None
        common = wider(one, other)
        if common is None:
            raise self._error(a, f"a join compares {one} with {other}", "CAST one side to the other's type")
        return self._cast(a, one, common), self._cast(b, other, common)

    def _cast(self, expr: Expr, kind: str, common: str) -> Expr:
        if kind == common:
            return expr
        sql = f"CAST({expr.sql} AS {common.upper()})"
        self.types[sql] = common
        return Expr(sql, expr.columns, expr.position)

    def _error(self, expr: Expr, message: str, hint: str) -> SqlError:
        line, column = expr.position
        return SqlError(message, sql=self.scope.sql, line=line, column=column, hint=hint)


def _with_columns(node: Node, added: list[tuple[str, Expr]]) -> Node:
    if not added:
        return node
    return Project(node, tuple((column, Expr.of(column)) for column in node.columns) + tuple(added))
