"""One conjunct of ON or WHERE, bound: what it reads, and which two sides it compares."""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlglot.expressions as exp

from engine.sql.expression.nearest import Side
from engine.sql.expression.nodes import Expr
from engine.sql.rewrites.binding.join_keys import Pair

ORDERS: dict[type[exp.Expr], Side] = {exp.GTE: ">=", exp.GT: ">", exp.LTE: "<=", exp.LT: "<"}
TURNED: dict[Side, Side] = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}


@dataclass(frozen=True)
class Condition:
    """One conjunct, bound; `sides` are the two sides of an equality, for which null may equal null.

    Of a condition of an as-of join that orders two values `order` says how; `node` is as it was written.
    """

    expr: Expr
    sides: tuple[Expr, Expr] | None = None
    null_safe: bool = False
    order: Side | None = None
    node: exp.Expr | None = field(default=None, compare=False)

    def match_pair(self, left: set[str], right: set[str]) -> Pair | None:
        """Return the sides in the order (left, right) if the equality compares one input with the other."""
        return None if self.order is not None else self._match_sides(left, right)

    def match_order(self, left: set[str], right: set[str]) -> tuple[Side, Pair] | None:
        """Return how the left input's side is ordered against the right one's, if the condition compares one with the other."""
        pair = self._match_sides(left, right)
        if self.order is None or pair is None or self.sides is None:
            return None
        return (self.order if pair == self.sides else TURNED[self.order]), pair

    def _match_sides(self, left: set[str], right: set[str]) -> Pair | None:
        if self.sides is None or not all(side.columns for side in self.sides):
            return None
        for a, b in (self.sides, self.sides[::-1]):
            if set(a.columns) <= left and set(b.columns) <= right:
                return a, b
        return None
