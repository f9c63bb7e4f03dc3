"""Aggregate calls: bound, and said so that their result depends on nothing but the group's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import sqlglot.expressions as exp

from engine.sql.bind.aggregate_calls import ParsedCall, parse_call
from engine.sql.bind.ordering import parse_order_items
from engine.sql.dialects.postgres.numbers.regressions import REGRESSIONS, build_regression
from engine.sql.expression import nodes as tree
from engine.sql.expression.nodes import TRUE, Cast, Column, Expr, IsNull, Literal
from engine.sql.expression.ordered_lists import (
    ONE,
    OrderTerm,
    build_json_list,
    build_json_object,
    build_ordered_list,
    build_sorted_set,
    filter_call,
    join_texts_by_rows,
    null_if_none,
    project_field,
)
from engine.sql.expression.sketches import DEFAULT_ERROR, build_sketch_percentile, is_relative_error
from engine.sql.expression.template import build_not_null, build_null, build_struct, fill_template
from engine.sql.expression.template import call as call_of
from engine.sql.functions import AGGREGATES
from engine.sql.plan import AggCall
from engine.sql.typing.constant_numbers import parse_fractions
from engine.sql.typing.expression_types import get_expr_type
from engine.sql.window_calls import SortKey

if TYPE_CHECKING:
    from engine.sql.bind.expressions import ExpressionBinder

_HINT = "use count, sum, avg, min, max, bool_and, stddev, string_agg, array_agg or another aggregate of the documentation"


POSTGRES_AGGREGATES = frozenset(
    ("jsonb_agg", "json_agg", "json_object_agg", "jsonb_object_agg", "string_agg")
)


class AggregateBinder:
    """Binds aggregate calls of one SELECT; `key` are the columns that tell the input's rows apart.

    `order` is that of the window which they stand over: lists are in it.
    """

    def __init__(
        self, expressions: ExpressionBinder, key: Sequence[str], order: Sequence[SortKey] = ()
    ) -> None:
        self.expressions, self.key, self.order = expressions, tuple(key), tuple(order)

    def bind(self, node: exp.Expr) -> tuple[AggCall, str | None]:
        """Bind a call; its name is empty. Returns also its type if that is certain and no plain aggregate's."""
        call = parse_call(node)
        for argument in (*call.arguments, *([call.where] if call.where is not None else [])):
            if self.expressions.has_aggregate(argument):
                raise self.expressions.scope.build_error(
                    f"aggregate inside {call.name}", argument, "aggregate in a subquery in FROM first"
                )
        where = self.expressions.bind_scalar(call.where, "FILTER") if call.where is not None else None
        rule = _RULES.get(call.name)
        weighted = call.name == "percentile" and len(call.arguments) > 2
        if weighted or (
            call.distinct and rule in (AggregateBinder._bind_mode, AggregateBinder._bind_percentile)
        ):
            raise self._build_unsupported(
                call, f"DISTINCT or a frequency in {call.name}", "take the rows apart in FROM"
            )
        if rule is not None:
            return rule(self, call, where)
        if call.name == "count" and len(call.arguments) == 1 and isinstance(call.arguments[0], exp.Tuple):
            return self._bind_row_count(call, call.arguments[0].expressions, where), "bigint"
        return self._bind_plain(call, where), None

    def _build_unsupported(self, call: ParsedCall, what: str, hint: str) -> Exception:
        return self.expressions.refuse(what, call.node, hint)

    def _bind_arguments(self, call: ParsedCall, count: int | tuple[int, ...]) -> list[Expr]:
        """Bind the arguments; raises SqlError if their number is none of `count`."""
        allowed = (count,) if isinstance(count, int) else count
        if len(call.arguments) not in allowed:
            expected = " or ".join(str(n) for n in allowed)
            message = f"{call.name} takes {expected} arguments, {len(call.arguments)} are given"
            raise self.expressions.scope.build_error(message, call.node, f"write {call.name} with {expected}")
        return [self.expressions.bind_scalar(argument, call.name) for argument in call.arguments]

    def _get_type(self, expr: Expr) -> str | None:
        return get_expr_type(expr, self.expressions.types)

    def _bind_order(self, call: ParsedCall) -> list[OrderTerm]:
        if call.order is None:
            return [OrderTerm(Column(key.column), key.descending, key.nulls_first) for key in self.order]
        items = parse_order_items(call.order, self.expressions.dialect)
        return [
            OrderTerm(self.expressions.bind_scalar(item.node, "ORDER BY"), item.descending, item.nulls_first)
            for item in items
        ]

    def _build_whole_call(self, call: ParsedCall, whole: Expr, *arguments: Expr) -> AggCall:
        return AggCall("", call.name, arguments, call.distinct, whole=whole)

    # ---- aggregates that Spark computes as they are ----------------------------------------------------------
    def _bind_plain(self, call: ParsedCall, where: Expr | None) -> AggCall:
        name, source_name = call.name, self.expressions.get_source_name(call.node)
        if name not in AGGREGATES:
            raise self._build_unsupported(call, f"the aggregate {source_name or name}", _HINT)
        if call.within:
            raise self._build_unsupported(
                call, f"WITHIN GROUP of {name}", "use it with percentile_cont, percentile_disc or mode"
            )
        if name == "count" and not call.distinct and _counts_rows(call.arguments):
            return AggCall("", "count", (), where=where)
        if any(argument.is_star for argument in call.arguments):
            raise self._build_unsupported(call, f"{name} of *", "name a column")
        bound = tuple(self.expressions.bind_scalar(argument, name) for argument in call.arguments)
        self.expressions.operands.check_aggregate(name, bound, call.node)
        return AggCall("", name, bound, call.distinct and name not in ("min", "max"), where)

    def _bind_row_count(self, call: ParsedCall, items: Sequence[exp.Expr], where: Expr | None) -> AggCall:
        """A row is no null, whatever is in it: `count(DISTINCT (a, b))` counts pairs with a null, `count(DISTINCT a, b)` none."""
        fields = [self.expressions.bind_scalar(item, "count") for item in items]
        row = build_struct([(f"f{n}", field) for n, field in enumerate(fields)])
        return self._build_whole_call(
            call, filter_call(tree.Call("count", (row,), call.distinct), where), *fields
        )

    # ---- lists -----------------------------------------------------------------------------------------------
    def _bind_array_agg(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        (value,) = self._bind_arguments(call, 1)
        spark = self.expressions.dialect == "spark"
        values = self._build_list(call, value, where, spark)
        if not spark:  # an array of nothing is null
            values = null_if_none(ONE, values, where)
        kind = self._get_type(value)
        return self._build_whole_call(call, values, value), f"array<{kind}>" if kind else None

    def _build_list(self, call: ParsedCall, value: Expr, where: Expr | None, skip_nulls: bool) -> Expr:
        """Return the array of a call's values in its order."""
        order = self._bind_order(call)
        conditions = (where, build_not_null(value)) if skip_nulls else (where,)
        if not call.distinct:
            return project_field(build_ordered_list([("v", value)], order, self.key, *conditions), "v")
        if order and (len(order) > 1 or order[0].expr != value):
            hint = "order by the argument itself"
            raise self.expressions.scope.build_error(
                f"{call.name} DISTINCT is ordered by another value", call.node, hint
            )
        descending = bool(order) and order[0].descending
        first = order[0].nulls_first if order else False
        values: Expr = build_sorted_set(value, where)
        values = call_of("reverse", values) if descending else values
        if skip_nulls:
            return values
        nulls = filter_call(call_of("count_if", IsNull(value)), where)
        null = build_null(self._get_type(value) or "string")
        one = fill_template("if(:nulls > 0, array(:null), array())", nulls=nulls, null=null)
        return call_of("concat", one, values) if first else call_of("concat", values, one)

    def _bind_collect_set(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        (value,) = self._bind_arguments(call, 1)
        kind = self._get_type(value)
        return self._build_whole_call(
            call, build_sorted_set(value, where), value
        ), f"array<{kind}>" if kind else None

    def _bind_string_agg(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        value, *separators = self._bind_arguments(call, (1, 2))
        if separators and separators[0].columns:
            if call.distinct:
                what = "DISTINCT with a separator that is no constant"
                raise self._build_unsupported(call, what, "write the separator as a literal")
            joined = join_texts_by_rows(value, separators[0], self._bind_order(call), self.key, where)
            return self._build_whole_call(call, joined, value), "string"
        separator = separators[0] if separators else Literal("", "string")
        values = self._build_list(call, value, where, True)
        texts = values if self._get_type(value) == "string" else Cast(values, "array<string>")
        joined = call_of("array_join", texts, separator)
        return self._build_whole_call(call, null_if_none(value, joined, where), value), "string"

    def _bind_json_agg(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        (value,) = self._bind_arguments(call, 1)
        values = self._build_list(call, value, where, False)
        whole, kind = build_json_list(call.name, values, self._get_type(value))
        return self._build_whole_call(call, null_if_none(ONE, whole, where), value), kind

    def _bind_json_object_agg(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        """Of rows with one key the last one in the order counts in jsonb."""
        name, value = self._bind_arguments(call, 2)
        rows = build_ordered_list(
            [("k", Cast(name, "string")), ("v", value)], self._bind_order(call), self.key, where
        )
        whole, kind = build_json_object(call.name, rows, self._get_type(value))
        return self._build_whole_call(call, null_if_none(ONE, whole, where), name, value), kind

    # ---- first, last and extremes ----------------------------------------------------------------------------
    def _bind_first(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        value, *flags = self._bind_arguments(call, (1, 2))
        order = self._bind_order(call)
        if not order:
            hint = f"write {call.name}(x ORDER BY y), or min_by(x, y), max_by(x, y), min(x), max(x)"
            what = (
                f"the aggregate {self.expressions.get_source_name(call.node) or call.name}, whose result depends on "
                f"the order of rows,"
            )
            raise self._build_unsupported(call, what, hint)
        skip = call.ignore_nulls or any(flag == TRUE for flag in flags)
        conditions = (where, build_not_null(value)) if skip else (where,)
        rows = build_ordered_list([("v", value)], order, self.key, *conditions)
        rows = rows if call.name == "first" else call_of("reverse", rows)
        return self._build_whole_call(
            call, fill_template("get(:rows, 0).v", rows=rows), value
        ), self._get_type(value)

    def _bind_any_value(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        """Any value will do, so the least one does."""
        value, *_ = self._bind_arguments(call, (1, 2))
        return AggCall("", "min", (value,), where=where), self._get_type(value)

    def _bind_extreme_by(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        """Of rows with an equal measure the value itself decides."""
        value, measure = self._bind_arguments(call, 2)
        inner = call_of(call.name, value, build_struct([("m", measure), ("v", value)]))
        bound = self._build_whole_call(
            call, filter_call(inner, where, build_not_null(measure)), value, measure
        )
        return msgspec.structs.replace(bound, where=where), self._get_type(value)

    def _bind_regression(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        plain, found = self._bind_plain(call, where), None
        if self.expressions.dialect != "spark" and len(plain.arguments) == 2:
            found = build_regression(call.name, *plain.arguments, plain.distinct, where)
        return (
            (plain, None)
            if found is None
            else (self._build_whole_call(call, found, *plain.arguments), "double")
        )

    # ---- ordered sets ----------------------------------------------------------------------------------------
    def _require_one_order(self, call: ParsedCall) -> OrderTerm:
        order = self._bind_order(call)
        if len(order) != 1:
            message = f"{call.name} needs one expression of ORDER BY"
            hint = f"write {call.name}(…) WITHIN GROUP (ORDER BY x)"
            raise self.expressions.scope.build_error(message, call.node, hint)
        return order[0]

    def _bind_mode(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        """Of values that are equally frequent the first in the order is taken, the least if none is said."""
        value = self._bind_arguments(call, 1)[0] if call.arguments else None
        by = OrderTerm(value) if value is not None else self._require_one_order(call)
        mode = tree.Call("mode", order=((by.expr, by.descending),), where=where)
        return self._build_whole_call(call, mode, by.expr), self._get_type(by.expr)

    def _bind_percentile(self, call: ParsedCall, where: Expr | None) -> tuple[AggCall, str | None]:
        if call.name in ("approx_percentile", "percentile") and not call.within:
            by = OrderTerm(self._bind_argument(call, 0))
            node = call.arguments[1] if len(call.arguments) > 1 else None
        else:
            by, node = self._require_one_order(call), call.arguments[0] if call.arguments else None
        if node is None:
            hint = "a number from 0 to 1"
            raise self.expressions.scope.build_error(f"{call.name} needs a fraction", call.node, hint)
        found = parse_fractions(node, self.expressions.scope.build_error)
        own = call.name == "percentile_disc" and self.expressions.dialect == "spark"  # a double of any number
        spark = "percentile_disc" if own else "percentile_cont"
        plain = own or call.name in ("percentile_cont", "percentile")
        build: Callable[[Literal], Expr] = lambda f: (  # noqa: E731
            self._build_spark_percentile(spark, by, f, where)
            if plain
            else self._build_discrete_percentile(by, f, where)
        )
        if call.name == "approx_percentile" and call.within:
            plain, error = True, call.arguments[1].name if len(call.arguments) > 1 else DEFAULT_ERROR
            if not is_relative_error(error):
                raise self.expressions.scope.build_error(
                    f"{error} is no relative error", node, "0.01, for example"
                )
            build = lambda f: build_sketch_percentile(by.expr, f, error, where, descending=by.descending)  # noqa: E731
        kind = "double" if plain else self._get_type(by.expr)
        no_value = filter_call(call_of("max", build_null(kind)), where)
        values = [no_value if fraction is None else build(Literal(fraction)) for fraction in found]
        several = isinstance(node.this if isinstance(node, exp.Paren) else node, exp.Array)
        if not several:
            return self._build_whole_call(call, values[0], by.expr), kind
        whole = null_if_none(by.expr, call_of("array", *values), where)
        return self._build_whole_call(call, whole, by.expr), f"array<{kind}>" if kind else None

    def _bind_argument(self, call: ParsedCall, n: int) -> Expr:
        if len(call.arguments) <= n:
            message = f"{call.name} needs a value and a fraction"
            raise self.expressions.scope.build_error(message, call.node, f"write {call.name}(x, 0.5)")
        return self.expressions.bind_scalar(call.arguments[n], call.name)

    def _build_spark_percentile(
        self, name: str, by: OrderTerm, fraction: Literal, where: Expr | None
    ) -> Expr:
        return tree.Call(name, (fraction,), order=((by.expr, by.descending),), where=where)

    def _build_discrete_percentile(self, by: OrderTerm, fraction: Literal, where: Expr | None) -> Expr:
        """The first value whose share of the rows up to it reaches the fraction."""
        values: Expr = call_of("array_sort", filter_call(call_of("collect_list", by.expr), where))
        values = call_of("reverse", values) if by.descending else values
        text = "get(:values, CAST(greatest(ceil(:fraction * :count) - 1, 0) AS INT))"
        counted = filter_call(call_of("count", by.expr), where)
        return fill_template(text, values=values, fraction=fraction, count=counted)


_PERCENTILES = ("percentile_cont", "percentile_disc", "approx_percentile", "percentile")
_RULES: dict[str, Callable[[AggregateBinder, ParsedCall, Expr | None], tuple[AggCall, str | None]]] = {
    "array_agg": AggregateBinder._bind_array_agg,
    "collect_set": AggregateBinder._bind_collect_set,
    "string_agg": AggregateBinder._bind_string_agg,
    **dict.fromkeys(("json_agg", "jsonb_agg"), AggregateBinder._bind_json_agg),
    **dict.fromkeys(("json_object_agg", "jsonb_object_agg"), AggregateBinder._bind_json_object_agg),
    **dict.fromkeys(("first", "last"), AggregateBinder._bind_first),
    "any_value": AggregateBinder._bind_any_value,
    **dict.fromkeys(("max_by", "min_by"), AggregateBinder._bind_extreme_by),
    "mode": AggregateBinder._bind_mode,
    **dict.fromkeys(_PERCENTILES, AggregateBinder._bind_percentile),
    **dict.fromkeys(REGRESSIONS, AggregateBinder._bind_regression),
}


def _counts_rows(arguments: list[exp.Expr]) -> bool:
    if not arguments:
        return True
    return len(arguments) == 1 and (
        (isinstance(arguments[0], exp.Star) and not any(arguments[0].args.values()))
        or (isinstance(arguments[0], exp.Literal) and bool(arguments[0].name))
    )
