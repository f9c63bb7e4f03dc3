"""SESSION WITH GAP as a window's frame: all rows of a row's session, as a partition that the session's start is a part of.

A session begins with a row whose order value is the gap or more behind that of the row before it; rows without a value are one
session of their own. What is computed is columns: `session:next` is the least value with which a session behind the row may
begin, `session:before` that of the row before, `session:begins` the value of a row that begins one, `session:start` the last of
those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import sqlglot.expressions as exp

from engine.sql.bind.expressions import ExpressionBinder
from engine.sql.bind.over_windows.frames import UP_TO_PEERS
from engine.sql.expression.nodes import Arithmetic, Call, Cast, Column, Expr, Literal, annotate
from engine.sql.expression.template import as_columns, fill_template
from engine.sql.parsing.dialect_readers import SESSION_FRAME
from engine.sql.plan import Node, Over, Project
from engine.sql.rewrites.queries.fixed_windows import build_interval, read_length
from engine.sql.typing.expression_types import is_number
from engine.sql.typing.types import decimal_digits
from engine.sql.typing.whole_numbers import INTEGRAL
from engine.sql.window_calls import SESSION_NEXT as NEXT
from engine.sql.window_calls import SESSION_START as START
from engine.sql.window_calls import SortKey, WindowCall

BEFORE = "session:before"
_FORM = "write ORDER BY column SESSION WITH GAP INTERVAL '10 minutes', or a number beside a number"
_MOST_DIGITS = 37
"""So many digits a value may have of which a sum is exact."""
_DAY = 86_400_000_000


class SessionGap(msgspec.Struct, frozen=True):
    """How far behind a row its session ends: a number in `type`, an interval, or whole days of dates."""

    kind: str
    value: Expr
    type: str

    def add_to(self, column: str) -> Expr:
        """Return the order value of a row that is the gap behind one with that of `column`."""
        if self.kind == "date":
            return annotate(
                fill_template("date_add(:x, :days)", x=Column(column), days=self.value), type="date"
            )
        if not is_number(self.kind):
            return annotate(Arithmetic("+", (Column(column), self.value)), type=self.kind)
        operands = (Cast(Column(column), self.type), Cast(self.value, self.type))
        return annotate(Arithmetic("+", operands), type=None)


def is_session(spec: exp.WindowSpec) -> bool:
    """Tell whether a window's frame is SESSION WITH GAP."""
    return spec.args.get("kind") == SESSION_FRAME


@dataclass
class SessionFrameBinder:
    """Binds the sessions of one SELECT's windows."""

    expressions: ExpressionBinder
    fresh: Callable[[str], str]

    def parse_gap(self, spec: exp.WindowSpec, order: int, kind: str | None) -> SessionGap:
        """Return the gap of a frame; `order` is the number of expressions in ORDER BY, `kind` the type of the first.

        Raises SqlError with the place.
        """
        node = spec.args.get("start")
        if not isinstance(node, exp.Expr) or any(
            spec.args.get(part) for part in ("start_side", "end", "exclude")
        ):
            raise self._build_error(spec, "SESSION WITH GAP takes the gap, and nothing behind it", _FORM)
        if order != 1:
            message = f"SESSION WITH GAP over {order} expressions of ORDER BY"
            raise self._build_error(node, message, "ORDER BY just one: the time, or the number, of the rows")
        while isinstance(node, exp.Paren):
            node = node.this
        if kind in ("date", "timestamp", "timestamp_ntz"):
            micros = read_length(
                node, "the gap of SESSION", lambda m, at, hint: self._build_error(at, m, hint)
            )
            if kind == "date":
                return SessionGap(kind, Literal(str(-(-micros // _DAY))), kind)
            return SessionGap(
                kind, self.expressions.bind_scalar(build_interval(micros), "a window's frame"), kind
            )
        if kind is None or not is_number(kind):
            what = "a value whose type is not known" if kind is None else kind
            raise self._build_error(
                node, f"SESSION WITH GAP over {what}", "order by a number, a date or a timestamp"
            )
        return self._parse_number(node, kind)

    def _parse_number(self, node: exp.Expr, kind: str) -> SessionGap:
        text = node.name if isinstance(node, exp.Literal) and not node.is_string else ""
        whole, _, fraction = text.partition(".")
        if not (whole + fraction).isdigit() or not (whole + fraction).strip("0"):
            message = f"{node.sql()[:60]} as the gap of SESSION over {kind}"
            raise self._build_error(node, message, "write a positive number with all its digits")
        if kind in ("float", "double"):
            return SessionGap(kind, Literal(text), "double")
        precision, scale = (20, 0) if kind in INTEGRAL else decimal_digits(kind) or (38, 0)
        if kind in INTEGRAL and fraction.strip("0"):  # no whole number is between
            text, fraction = str(int(whole or "0") + 1), ""
        elif kind in INTEGRAL:
            text, fraction = whole, ""
        behind = max(scale, len(fraction))
        digits = max(precision - scale, len(whole)) + behind
        if digits > _MOST_DIGITS:
            message = f"a gap whose sum with {kind} has more than {_MOST_DIGITS + 1} digits"
            raise self._build_error(node, message, "CAST the order to a type of fewer digits")
        return SessionGap(kind, Literal(text), f"decimal({digits},{behind})")

    def _build_error(self, node: exp.Expr, message: str, hint: str) -> Exception:
        return self.expressions.scope.build_error(message, node, hint)

    def add_session_starts(
        self, plan: Node, by: tuple[str, ...], column: str, gap: SessionGap
    ) -> tuple[Node, str]:
        """Return the plan with the column of the starts of its rows' sessions, and its name."""
        start = self.fresh(START)
        mark = start.removeprefix(START)
        ends, before, begins = NEXT + mark, BEFORE + mark, f"session:begins{mark}"
        order = (SortKey(column),)
        plan = _append_column(plan, ends, gap.add_to(column))
        plan = Over(plan, by, (WindowCall(before, Call("lag", (Column(ends),)), order),))
        first = fill_template("if(:x < :before, NULL, :x)", x=Column(column), before=Column(before))
        plan = _append_column(plan, begins, first)
        for name in (begins, start):
            self.expressions.types[name] = gap.kind
        return Over(plan, by, (WindowCall(start, Call("max", (Column(begins),)), order, UP_TO_PEERS),)), start


def _append_column(plan: Node, name: str, expr: Expr) -> Node:
    return Project(plan, (*as_columns(plan.columns), (name, expr)))
