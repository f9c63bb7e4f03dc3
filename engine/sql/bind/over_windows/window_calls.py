"""What may be called over a window, and what it is there: a window function, or an aggregate over the rows of a frame."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import sqlglot.expressions as exp

from engine.sql.bind.aggregate_calls import ParsedCall, parse_call, unwrap_call
from engine.sql.bind.aggregates import AggregateBinder
from engine.sql.bind.expressions import ExpressionBinder
from engine.sql.expression import nodes as tree
from engine.sql.expression.nodes import NULL, Expr, map_children
from engine.sql.expression.template import call as call_of
from engine.sql.functions import (
    AMONG_PEERS,
    VALUES_OF_ROWS,
    WINDOW_FUNCTIONS,
    find_function_name,
    is_aggregate,
    load_spark_functions,
)
from engine.sql.parsing.location import copy_location
from engine.sql.typing.constant_numbers import evaluate_constant
from engine.sql.typing.expression_types import get_expr_type, infer_call_type

_ORDERED = AMONG_PEERS | {"row_number", "ntile", "lag", "lead"}
_NAMES = {"first": "first_value", "last": "last_value", "any_value": "any_value"}
_ARGUMENTS = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "percent_rank", "cume_dist"), (0, 0)),
    **dict.fromkeys(("first_value", "last_value", "ntile"), (1, 1)),
    **dict.fromkeys(("lag", "lead"), (1, 3)),
    "nth_value": (2, 2),
}
_NULLS_IGNORED = VALUES_OF_ROWS | {"lag", "lead"}
_OF_WHOLE = frozenset(
    ("mode", "median", "percentile", "percentile_cont", "percentile_disc", "approx_percentile")
)
"""Aggregates that Spark computes over whole partitions only."""
_KINDS = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "ntile"), "int"),
    **dict.fromkeys(("percent_rank", "cume_dist"), "double"),
}


@dataclass
class WindowCallBinder:
    """Checks and binds the calls over windows of one SELECT."""

    expressions: ExpressionBinder

    def check(self, node: exp.Expr, window: exp.Window) -> None:
        """Refuse a call, or its window, that has no meaning; raises SqlError or UnsupportedSql with the place."""
        inner = unwrap_call(node)
        name = _find_name(node)
        if name not in WINDOW_FUNCTIONS and not is_aggregate(inner):
            text = find_function_name(inner) or inner.sql()[:40]
            hint = "OVER belongs to window functions and aggregates: remove it"
            raise self._build_error(inner, f"{text} over a window", hint)
        call = parse_call(node)
        if call.within:
            hint = "compute it by GROUP BY in a subquery, and join it to the rows"
            raise self._build_unsupported(inner, f"WITHIN GROUP of {name} over a window", hint)
        if call.order is not None:
            raise self._build_unsupported(
                inner, f"ORDER BY inside {name} over a window", "put it behind OVER"
            )
        if call.distinct and name not in ("min", "max"):
            hint = "take doubles out in FROM, or write size(collect_set(x)) OVER (…) for a count"
            raise self._build_unsupported(inner, f"DISTINCT in {name} over a window", hint)
        if call.ignore_nulls and name not in _NULLS_IGNORED:
            raise self._build_error(
                inner, f"IGNORE NULLS in {name}", "take it out: only values of rows are ignored"
            )
        if name in WINDOW_FUNCTIONS:
            self._check_function(name, call, window)
        elif name in _OF_WHOLE and (window.args.get("order") or window.args.get("spec")):
            hint = "leave ORDER BY and the frame out"
            raise self._build_unsupported(inner, f"{name} over a part of a partition", hint)

    def _check_function(self, name: str, call: ParsedCall, window: exp.Window) -> None:
        least, most = _ARGUMENTS[name]
        if not least <= len(call.arguments) <= most:
            expected = str(least) if least == most else f"{least} to {most}"
            message = f"{name} takes {expected} arguments, {len(call.arguments)} are given"
            raise self._build_error(call.node, message, "give it those")
        if call.where is not None:
            raise self._build_error(
                call.node, f"FILTER of {name}", "FILTER is for aggregates: use a CASE, or filter in FROM"
            )
        if name in _ORDERED and not window.args.get("order"):
            said = name == "row_number" and not self._is_spark  # any numbers will do, so those by the key do
            if not said:
                raise self._build_error(call.node, f"{name} needs an order", "write ORDER BY in its window")
        spec = window.args.get("spec")
        if name in _ORDERED and spec is not None and self._is_spark:
            raise self._build_error(
                spec, f"a frame for {name}", "leave it out: it looks at the whole partition"
            )
        if name == "ntile":
            self._require_constant(call.arguments[0], name, "number of buckets", 1)
        if name == "nth_value":
            self._require_constant(call.arguments[1], name, "row", 1)
        if name in ("lag", "lead") and len(call.arguments) > 1:
            other = "lead" if name == "lag" else "lag"
            self._require_constant(call.arguments[1], name, "offset", 0, f"; {other} looks the other way")

    def _require_constant(self, node: exp.Expr, name: str, what: str, least: int, more: str = "") -> None:
        number = evaluate_constant(node)
        if number is not None and number == int(number) and least <= number < 1 << 31:
            node.replace(copy_location(exp.Literal.number(int(number)), node))
        else:
            message = f"{node.sql()[:60]} as the {what} of {name}"
            raise self._build_error(node, message, f"write a whole number from {least} on{more}")

    @property
    def _is_spark(self) -> bool:
        return self.expressions.dialect == "spark"

    def _build_error(self, node: exp.Expr, message: str, hint: str) -> Exception:
        return self.expressions.scope.build_error(message, node, hint)

    def _build_unsupported(self, node: exp.Expr, what: str, hint: str) -> Exception:
        return self.expressions.refuse(what, node, hint)

    # ---- binding ---------------------------------------------------------------------------------------------
    def has_frame(self, node: exp.Expr) -> bool:
        """Tell whether a call reads the rows of a frame, not places of rows in the partition."""
        return _find_name(node) not in _ORDERED

    def bind(self, node: exp.Expr, aggregates: AggregateBinder) -> tuple[Expr, str | None]:
        """Return a call over bound columns as an expression, and its type if that is certain."""
        name = _find_name(node)
        if name not in WINDOW_FUNCTIONS:
            call, kind = aggregates.bind(node)
            kinds = [get_expr_type(argument, self.expressions.types) for argument in call.arguments]
            found = replace_filters(call.expression)
            return found, kind if call.whole is not None else infer_call_type(call.function, kinds)
        parts = parse_call(node)
        arguments = tuple(self.expressions.bind_scalar(argument, name) for argument in parts.arguments)
        bound = tree.Call(name, arguments, ignore_nulls=parts.ignore_nulls)
        of_value = (
            get_expr_type(arguments[0], self.expressions.types) if arguments and name not in _KINDS else None
        )
        return bound, _KINDS.get(name, of_value)


def _find_name(node: exp.Expr) -> str:
    name = parse_call(node).name
    return _NAMES.get(name, name)


def replace_filters(expr: Expr) -> Expr:
    """Return aggregates without FILTER, which Spark lacks over windows: they leave nulls out.

    `sum(x) FILTER (WHERE c)` -> `sum(if(c, x, NULL))`
    """
    if not isinstance(expr, tree.Call) or load_spark_functions().get(expr.function) != "aggregate":
        return map_children(expr, replace_filters)
    where = expr.where
    if where is None:
        return expr

    def mask_value(value: Expr) -> Expr:
        return call_of("if", where, value, NULL)

    arguments = expr.arguments or ((tree.Literal("1"),) if expr.function == "count" else ())
    if expr.order:
        order = tuple((mask_value(value), descending) for value, descending in expr.order)
        return msgspec.structs.replace(expr, order=order, where=None)
    return msgspec.structs.replace(
        expr, arguments=tuple(mask_value(value) for value in arguments), where=None
    )
