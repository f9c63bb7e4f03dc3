"""JOIN clauses: equalities become the join's keys, one-sided conditions move to their side, the rest stays with the join."""

from __future__ import annotations

from collections.abc import Callable

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.expressions import Expressions, Refuse, conjuncts
from engine.sql.plan import Expr, Filter, Join, JoinKind, Node, Project
from engine.sql.scope import Scope, Source

_INTEGRAL = ("tinyint", "smallint", "int", "bigint")


class JoinBuilder:
    """Joins the sources of one SELECT from left to right."""

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

    def add(self, left: Node, join: exp.Join, source: Source, pending: list[exp.Expression]) -> Node:
        """Return `left` joined with `source`; equalities of WHERE (`pending`) that an inner join uses are taken out."""
        kind = self._kind(join)
        before = [column for s in self.scope.sources for _, column in s.columns]
        self.scope.add(source, join.this)
        conditions, usable = self._conditions(join, source)
        if kind == "inner":
            usable = [c for c in pending if self._connects(c, before, source)]
            for condition in usable:
                pending.remove(condition)
        pairs: list[tuple[Expr, Expr]] = [(a, b) for a, b in self._using(join, source)]
        residual: list[Expr] = []
        right: Node = source.plan
        mine, theirs = set(left.columns), set(source.plan.columns)
        for condition in [*conditions, *usable]:
            pair = self._pair(condition, mine, theirs)
            if pair is not None:
                pairs.append(pair)
                continue
            expr = self.expressions.scalar(condition, "ON")
            if expr.columns and set(expr.columns) <= theirs and kind != "right":
                right = Filter(right, expr)
            elif expr.columns and set(expr.columns) <= mine and kind != "left":
                left = Filter(left, expr)
            else:
                residual.append(expr)
        if not pairs:
            raise self.refuse(
                "a join without an equality between its two sides",
                join.this,
                "join ON a.x = b.y, further conditions may follow",
            )
        left, right, on = self._keys(left, right, pairs)
        rest = (
            Expr(" AND ".join(f"({e.sql})" for e in residual), tuple(c for e in residual for c in e.columns))
            if residual
            else None
        )
        if kind == "right":
            return Join(right, left, "left", tuple((b, a) for a, b in on), rest)
        joined: JoinKind = "left" if kind == "left" else "inner"
        return Join(left, right, joined, on, rest)

    def _kind(self, join: exp.Join) -> str:
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        method = str(join.args.get("method") or "").upper()
        if method:
            raise self.refuse(f"{method} JOIN", join.this, "write JOIN … ON")
        if side == "FULL":
            raise self.refuse(
                "FULL JOIN", join.this, "UNION ALL a LEFT JOIN and the unmatched rows of the other side"
            )
        if kind in ("SEMI", "ANTI") or side in ("SEMI", "ANTI"):
            raise self.refuse(
                f"{kind or side} JOIN", join.this, "LEFT JOIN the distinct keys and test them for NULL"
            )
        return {"LEFT": "left", "RIGHT": "right"}.get(side, "inner")

    def _conditions(
        self, join: exp.Join, source: Source
    ) -> tuple[list[exp.Expression], list[exp.Expression]]:
        on = join.args.get("on")
        return (conjuncts(on) if on is not None else []), []

    def _using(self, join: exp.Join, source: Source) -> list[tuple[Expr, Expr]]:
        pairs = []
        for part in join.args.get("using") or ():
            name = part.name.lower()
            left = [
                c
                for s in self.scope.sources[:-1]
                for v, c in s.columns
                if v == name and c not in self.scope.merged
            ]
            right = dict(source.columns).get(name)
            if len(left) != 1 or right is None:
                raise self.scope.error(f"USING ({name}): the column is not once on each side", part)
            self.scope.merged.add(right)
            pairs.append((Expr.of(left[0]), Expr.of(right)))
        return pairs

    def _connects(self, condition: exp.Expression, before: list[str], source: Source) -> bool:
        if not isinstance(condition, exp.EQ) or self.expressions.has_aggregate(condition):
            return False
        try:
            return self._pair(condition, set(before), {c for _, c in source.columns}) is not None
        except SqlError:
            return False

    def _pair(self, condition: exp.Expression, mine: set[str], theirs: set[str]) -> tuple[Expr, Expr] | None:
        if not isinstance(condition, exp.EQ):
            return None
        a = self.expressions.scalar(condition.this, "ON")
        b = self.expressions.scalar(condition.expression, "ON")
        if a.columns and b.columns:
            if set(a.columns) <= mine and set(b.columns) <= theirs:
                return a, b
            if set(a.columns) <= theirs and set(b.columns) <= mine:
                return b, a
        return None

    def _keys(
        self, left: Node, right: Node, pairs: list[tuple[Expr, Expr]]
    ) -> tuple[Node, Node, tuple[tuple[str, str], ...]]:
        """Return both sides with every join key as a bare column of one type."""
        added: tuple[list[tuple[str, Expr]], list[tuple[str, Expr]]] = ([], [])
        on = []
        for a, b in pairs:
            a, b = self._one_type(a, b)
            names = []
            for n, expr in enumerate((a, b)):
                if expr.column is None:
                    name = self.fresh("join:key")
                    added[n].append((name, expr))
                    names.append(name)
                else:
                    names.append(expr.column)
            if (names[0], names[1]) not in on:
                on.append((names[0], names[1]))
        return _with_columns(left, added[0]), _with_columns(right, added[1]), tuple(on)

    def _one_type(self, a: Expr, b: Expr) -> tuple[Expr, Expr]:
        one, other = self.types.get(a.column or ""), self.types.get(b.column or "")
        if one is None or other is None or one == other:
            return a, b
        if one in _INTEGRAL and other in _INTEGRAL:
            wider = max(one, other, key=_INTEGRAL.index)
        elif one == "string" or other == "string":
            return self._clash(a, b, one, other)
        else:
            wider = "double" if "double" in (one, other) or "float" in (one, other) else "decimal(38,10)"
            if {one, other} & {"date", "timestamp", "timestamp_ntz"}:
                wider = "timestamp" if "timestamp" in (one, other) else "timestamp_ntz"
        return _cast(a, one, wider), _cast(b, other, wider)

    def _clash(self, a: Expr, b: Expr, one: str, other: str) -> tuple[Expr, Expr]:
        line, column = a.position
        raise SqlError(
            f"a join compares {one} with {other}",
            sql=self.scope.sql,
            line=line,
            column=column,
            hint="CAST one side to the other's type",
        )


def _cast(expr: Expr, kind: str, wider: str) -> Expr:
    return (
        expr if kind == wider else Expr(f"CAST({expr.sql} AS {wider.upper()})", expr.columns, expr.position)
    )


def _with_columns(node: Node, added: list[tuple[str, Expr]]) -> Node:
    if not added:
        return node
    return Project(node, tuple((column, Expr.of(column)) for column in node.columns) + tuple(added))
