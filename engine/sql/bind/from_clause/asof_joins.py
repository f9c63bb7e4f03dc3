"""As-of joins: equalities, and one comparison by whose order the nearest right row is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.bind.conditions import Condition
from engine.sql.bind.expressions import Refuse
from engine.sql.expression.nearest import Nearest, Side
from engine.sql.expression.nodes import Column, Expr, Literal
from engine.sql.expression.template import fill_template
from engine.sql.plan import Filter, Join, JoinKind, Node
from engine.sql.rewrites.binding.join_keys import JoinKeys, Pair
from engine.sql.typing.types import decimal_digits
from engine.sql.typing.whole_numbers import INTEGRAL

_ORDERED = (*INTEGRAL, "string", "date", "timestamp", "timestamp_ntz")
_HINT = "write ASOF [LEFT] JOIN b ON a.key = b.key AND a.time >= b.time"


@dataclass(frozen=True)
class AsofJoinBuilder:
    """An as-of join as it is bound; `node` is where it stands, `refuse` makes the error of what it cannot have."""

    keys: JoinKeys
    refuse: Refuse
    node: exp.Expr

    def build_join(self, left: Node, right: Node, kind: JoinKind, conditions: Sequence[Condition]) -> Join:
        """Return the join of two plans; raises with the place of a condition that it cannot have."""
        mine, theirs = set(left.columns), set(right.columns)
        pairs: list[Pair] = []
        orders: list[tuple[Side, Pair, Condition]] = []
        for condition in conditions:
            pair, ordered = condition.match_pair(mine, theirs), condition.match_order(mine, theirs)
            if pair is not None and not condition.null_safe:
                pairs.append(pair)
            elif ordered is not None:
                orders.append((*ordered, condition))
            elif condition.expr.columns and set(condition.expr.columns) <= theirs:
                right = Filter(right, condition.expr)
            else:
                hint = "filter in WHERE, or in a subquery in FROM; an as-of join has equalities and one comparison"
                raise self._build_error("this condition in ON of an as-of join", condition, hint)
        if len(orders) != 1:
            what = f"an as-of join with {'more than one comparison' if orders else 'no comparison'} by order"
            raise self._build_error(what, orders[1][2] if orders else None, _HINT)
        (operator, order, condition) = orders[0]
        one: Expr = Literal("1", "int")
        joined = self.keys.join(left, right, kind, [*(pairs or [(one, one)]), order])
        if joined.residual is not None or len(joined.on) < 2 or joined.on[-1] in joined.on[:-1]:
            hint = "CAST both sides to one type, and compare by order what is not compared by = already"
            raise self._build_error("an as-of join by these sides", condition, hint)
        *on, (a, b) = joined.on
        for column in (a, b):
            self._check_order(self.keys.types.get(column), condition)
        known = Filter(joined.right, fill_template(":at IS NOT NULL", at=Column(b)))
        nearest = Nearest(a, operator, b)
        return msgspec.structs.replace(joined, right=known, on=tuple(on), nearest=nearest)

    def _check_order(self, kind: str | None, condition: Condition) -> None:
        """Refuse an order that a state does not have as Spark has it."""
        if kind is not None and kind.lower() not in _ORDERED and decimal_digits(kind) is None:
            hint = "compare times, whole numbers, decimals or texts: CAST(x AS DECIMAL(38, 6))"
            raise self._build_error(f"an as-of join in the order of {kind}", condition, hint)

    def _build_error(self, what: str, condition: Condition | None, hint: str) -> UnsupportedSql:
        return self.refuse(what, (condition.node if condition is not None else None) or self.node, hint)
