"""Aggregate calls: bound, and said so that their result depends on nothing but the group's rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
import sqlglot.expressions as exp

from engine.sql.bind.aggregate_calls import Call, take_apart
from engine.sql.bind.ordering import order_items
from engine.sql.dialects.postgres.regressions import REGRESSIONS, regression
from engine.sql.expression import nodes as tree
from engine.sql.expression.nodes import TRUE, Cast, Column, Expr, IsNull, Literal
from engine.sql.expression.ordered_lists import (
    ONE,
    By,
    field_of,
    filtered,
    joined_by_rows,
    json_list,
    json_object,
    of_some,
    ordered_list,
    sorted_set,
)
from engine.sql.expression.sketches import DEFAULT_ERROR, is_error, sketched
from engine.sql.expression.template import call as call_of
from engine.sql.expression.template import named_struct, null_of, present, template
from engine.sql.functions import AGGREGATES
from engine.sql.plan import AggCall
from engine.sql.typing.constant_numbers import fractions
from engine.sql.typing.expression_types import kind_of
from engine.sql.window_calls import SortKey

if TYPE_CHECKING:
    from engine.sql.bind.expressions import Expressions

_HINT = "use count, sum, avg, min, max, bool_and, stddev, string_agg, array_agg or another aggregate of the documentation"


POSTGRES_AGGREGATES = frozenset(
    ("jsonb_agg", "json_agg", "json_object_agg", "jsonb_object_agg", "string_agg")
)


class Aggregates:
    """Binds aggregate calls of one SELECT; `key` are the columns that tell the input's rows apart.

    `order` is that of the window which they stand over: lists are in it.
    """

    def __init__(self, expressions: Expressions, key: Sequence[str], order: Sequence[SortKey] = ()) -> None:
        self.expressions, self.key, self.order = expressions, tuple(key), tuple(order)

    def bind(self, node: exp.Expr) -> tuple[AggCall, str | None]:
        """Bind a call; its name is empty. Returns also its type if that is certain and no plain aggregate's."""
        call = take_apart(node)
        for argument in (*call.arguments, *([call.where] if call.where is not None else [])):
            if self.expressions.has_aggregate(argument):
                raise self.expressions.scope.error(
                    f"aggregate inside {call.name}", argument, "aggregate in a subquery in FROM first"
                )
        where = self.expressions.scalar(call.where, "FILTER") if call.where is not None else None
        rule = _RULES.get(call.name)
        weighted = call.name == "percentile" and len(call.arguments) > 2
        if weighted or (call.distinct and rule in (Aggregates._mode, Aggregates._percentile)):
            raise self._refuse(call, f"DISTINCT or a frequency in {call.name}", "take the rows apart in FROM")
        if rule is not None:
            return rule(self, call, where)
        if call.name == "count" and len(call.arguments) == 1 and isinstance(call.arguments[0], exp.Tuple):
            return self._count_of_rows(call, call.arguments[0].expressions, where), "bigint"
        return self._plain(call, where), None

    def _refuse(self, call: Call, what: str, hint: str) -> Exception:
        return self.expressions.refuse(what, call.node, hint)

    def _scalars(self, call: Call, count: int | tuple[int, ...]) -> list[Expr]:
        """Bind the arguments; raises SqlError if their number is none of `count`."""
        allowed = (count,) if isinstance(count, int) else count
        if len(call.arguments) not in allowed:
            wanted = " or ".join(str(n) for n in allowed)
            message = f"{call.name} takes {wanted} arguments, {len(call.arguments)} are given"
            raise self.expressions.scope.error(message, call.node, f"write {call.name} with {wanted}")
        return [self.expressions.scalar(argument, call.name) for argument in call.arguments]

    def _kind(self, expr: Expr) -> str | None:
        return kind_of(expr, self.expressions.types)

    def _order(self, call: Call) -> list[By]:
        if call.order is None:
            return [By(Column(key.column), key.descending, key.nulls_first) for key in self.order]
        items = order_items(call.order, self.expressions.dialect)
        return [
            By(self.expressions.scalar(item.node, "ORDER BY"), item.descending, item.nulls_first)
            for item in items
        ]

    def _whole(self, call: Call, whole: Expr, *arguments: Expr) -> AggCall:
        return AggCall("", call.name, arguments, call.distinct, whole=whole)

    # ---- aggregates that Spark computes as they are ----------------------------------------------------------
    def _plain(self, call: Call, where: Expr | None) -> AggCall:
        name, written = call.name, self.expressions.written(call.node)
        if name not in AGGREGATES:
            raise self._refuse(call, f"the aggregate {written or name}", _HINT)
        if call.within:
            raise self._refuse(
                call, f"WITHIN GROUP of {name}", "use it with percentile_cont, percentile_disc or mode"
            )
        if name == "count" and not call.distinct and _counts_rows(call.arguments):
            return AggCall("", "count", (), where=where)
        if any(argument.is_star for argument in call.arguments):
            raise self._refuse(call, f"{name} of *", "name a column")
        bound = tuple(self.expressions.scalar(argument, name) for argument in call.arguments)
        self.expressions.operands.of_aggregate(name, bound, call.node)
        return AggCall("", name, bound, call.distinct and name not in ("min", "max"), where)

    def _count_of_rows(self, call: Call, items: Sequence[exp.Expr], where: Expr | None) -> AggCall:
        """A row is no null, whatever is in it: `count(DISTINCT (a, b))` counts pairs with a null, `count(DISTINCT a, b)` none."""
        fields = [self.expressions.scalar(item, "count") for item in items]
        row = named_struct([(f"f{n}", field) for n, field in enumerate(fields)])
        return self._whole(call, filtered(tree.Call("count", (row,), call.distinct), where), *fields)

    # ---- lists -----------------------------------------------------------------------------------------------
    def _array_agg(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        (value,) = self._scalars(call, 1)
        spark = self.expressions.dialect == "spark"
        values = self._list(call, value, where, spark)
        if not spark:  # an array of nothing is null
            values = of_some(ONE, values, where)
        kind = self._kind(value)
        return self._whole(call, values, value), f"array<{kind}>" if kind else None

    def _list(self, call: Call, value: Expr, where: Expr | None, skip_nulls: bool) -> Expr:
        """Return the array of a call's values in its order."""
        order = self._order(call)
        kept = (where, present(value)) if skip_nulls else (where,)
        if not call.distinct:
            return field_of(ordered_list([("v", value)], order, self.key, *kept), "v")
        if order and (len(order) > 1 or order[0].expr != value):
            hint = "order by the argument itself"
            raise self.expressions.scope.error(
                f"{call.name} DISTINCT is ordered by another value", call.node, hint
            )
        descending = bool(order) and order[0].descending
        first = order[0].nulls_first if order else False
        values: Expr = sorted_set(value, where)
        values = call_of("reverse", values) if descending else values
        if skip_nulls:
            return values
        nulls = filtered(call_of("count_if", IsNull(value)), where)
        null = null_of(self._kind(value) or "string")
        one = template("if(:nulls > 0, array(:null), array())", nulls=nulls, null=null)
        return call_of("concat", one, values) if first else call_of("concat", values, one)

    def _collect_set(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        (value,) = self._scalars(call, 1)
        kind = self._kind(value)
        return self._whole(call, sorted_set(value, where), value), f"array<{kind}>" if kind else None

    def _string_agg(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        value, *separators = self._scalars(call, (1, 2))
        if separators and separators[0].columns:
            if call.distinct:
                what = "DISTINCT with a separator that is no constant"
                raise self._refuse(call, what, "write the separator as a literal")
            joined = joined_by_rows(value, separators[0], self._order(call), self.key, where)
            return self._whole(call, joined, value), "string"
        separator = separators[0] if separators else Literal("", "string")
        values = self._list(call, value, where, True)
        texts = values if self._kind(value) == "string" else Cast(values, "array<string>")
        joined = call_of("array_join", texts, separator)
        return self._whole(call, of_some(value, joined, where), value), "string"

    def _json_agg(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        (value,) = self._scalars(call, 1)
        values = self._list(call, value, where, False)
        whole, kind = json_list(call.name, values, self._kind(value))
        return self._whole(call, of_some(ONE, whole, where), value), kind

    def _json_object_agg(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        """Of rows with one key the last one in the order counts in jsonb."""
        name, value = self._scalars(call, 2)
        rows = ordered_list([("k", Cast(name, "string")), ("v", value)], self._order(call), self.key, where)
        whole, kind = json_object(call.name, rows, self._kind(value))
        return self._whole(call, of_some(ONE, whole, where), name, value), kind

    # ---- first, last and extremes ----------------------------------------------------------------------------
    def _first(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        value, *flags = self._scalars(call, (1, 2))
        order = self._order(call)
        if not order:
            hint = f"write {call.name}(x ORDER BY y), or min_by(x, y), max_by(x, y), min(x), max(x)"
            what = f"the aggregate {self.expressions.written(call.node) or call.name}, whose result depends on the order of rows,"
            raise self._refuse(call, what, hint)
        skip = call.ignore_nulls or any(flag == TRUE for flag in flags)
        conditions = (where, present(value)) if skip else (where,)
        rows = ordered_list([("v", value)], order, self.key, *conditions)
        rows = rows if call.name == "first" else call_of("reverse", rows)
        return self._whole(call, template("get(:rows, 0).v", rows=rows), value), self._kind(value)

    def _any_value(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        """Any value will do, so the least one does."""
        value, *_ = self._scalars(call, (1, 2))
        return AggCall("", "min", (value,), where=where), self._kind(value)

    def _extreme_by(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        """Of rows with an equal measure the value itself decides."""
        value, measure = self._scalars(call, 2)
        inner = call_of(call.name, value, named_struct([("m", measure), ("v", value)]))
        bound = self._whole(call, filtered(inner, where, present(measure)), value, measure)
        return msgspec.structs.replace(bound, where=where), self._kind(value)

    def _regression(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        plain, found = self._plain(call, where), None
        if self.expressions.dialect != "spark" and len(plain.arguments) == 2:
            found = regression(call.name, *plain.arguments, plain.distinct, where)
        return (plain, None) if found is None else (self._whole(call, found, *plain.arguments), "double")

    # ---- ordered sets ----------------------------------------------------------------------------------------
    def _one_order(self, call: Call) -> By:
        order = self._order(call)
        if len(order) != 1:
            message = f"{call.name} needs one expression of ORDER BY"
            hint = f"write {call.name}(…) WITHIN GROUP (ORDER BY x)"
            raise self.expressions.scope.error(message, call.node, hint)
        return order[0]

    def _mode(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        """Of values that are equally frequent the first in the order is taken, the least if none is said."""
        value = self._scalars(call, 1)[0] if call.arguments else None
        by = By(value) if value is not None else self._one_order(call)
        mode = tree.Call("mode", order=((by.expr, by.descending),), where=where)
        return self._whole(call, mode, by.expr), self._kind(by.expr)

    def _percentile(self, call: Call, where: Expr | None) -> tuple[AggCall, str | None]:
        if call.name in ("approx_percentile", "percentile") and not call.within:
            by = By(self._argument(call, 0))
            node = call.arguments[1] if len(call.arguments) > 1 else None
        else:
            by, node = self._one_order(call), call.arguments[0] if call.arguments else None
        if node is None:
            hint = "a number from 0 to 1"
            raise self.expressions.scope.error(f"{call.name} needs a fraction", call.node, hint)
        found = fractions(node, self.expressions.scope.error)
        own = call.name == "percentile_disc" and self.expressions.dialect == "spark"  # a double of any number
        spark = "percentile_disc" if own else "percentile_cont"
        plain = own or call.name in ("percentile_cont", "percentile")
        build: Callable[[Literal], Expr] = lambda f: (  # noqa: E731
            self._by_spark(spark, by, f, where) if plain else self._discrete(by, f, where)
        )
        if call.name == "approx_percentile" and call.within:
            plain, error = True, call.arguments[1].name if len(call.arguments) > 1 else DEFAULT_ERROR
            if not is_error(error):
                raise self.expressions.scope.error(f"{error} is no relative error", node, "0.01, for example")
            build = lambda f: sketched(by.expr, f, error, where, descending=by.descending)  # noqa: E731
        kind = "double" if plain else self._kind(by.expr)
        no_value = filtered(call_of("max", null_of(kind)), where)
        values = [no_value if fraction is None else build(Literal(fraction)) for fraction in found]
        several = isinstance(node.this if isinstance(node, exp.Paren) else node, exp.Array)
        if not several:
            return self._whole(call, values[0], by.expr), kind
        whole = of_some(by.expr, call_of("array", *values), where)
        return self._whole(call, whole, by.expr), f"array<{kind}>" if kind else None

    def _argument(self, call: Call, n: int) -> Expr:
        if len(call.arguments) <= n:
            message = f"{call.name} needs a value and a fraction"
            raise self.expressions.scope.error(message, call.node, f"write {call.name}(x, 0.5)")
        return self.expressions.scalar(call.arguments[n], call.name)

    def _by_spark(self, name: str, by: By, fraction: Literal, where: Expr | None) -> Expr:
        return tree.Call(name, (fraction,), order=((by.expr, by.descending),), where=where)

    def _discrete(self, by: By, fraction: Literal, where: Expr | None) -> Expr:
        """The first value whose share of the rows up to it reaches the fraction."""
        values: Expr = call_of("array_sort", filtered(call_of("collect_list", by.expr), where))
        values = call_of("reverse", values) if by.descending else values
        text = "get(:values, CAST(greatest(ceil(:fraction * :count) - 1, 0) AS INT))"
        counted = filtered(call_of("count", by.expr), where)
        return template(text, values=values, fraction=fraction, count=counted)


_PERCENTILES = ("percentile_cont", "percentile_disc", "approx_percentile", "percentile")
_RULES: dict[str, Callable[[Aggregates, Call, Expr | None], tuple[AggCall, str | None]]] = {
    "array_agg": Aggregates._array_agg,
    "collect_set": Aggregates._collect_set,
    "string_agg": Aggregates._string_agg,
    **dict.fromkeys(("json_agg", "jsonb_agg"), Aggregates._json_agg),
    **dict.fromkeys(("json_object_agg", "jsonb_object_agg"), Aggregates._json_object_agg),
    **dict.fromkeys(("first", "last"), Aggregates._first),
    "any_value": Aggregates._any_value,
    **dict.fromkeys(("max_by", "min_by"), Aggregates._extreme_by),
    "mode": Aggregates._mode,
    **dict.fromkeys(_PERCENTILES, Aggregates._percentile),
    **dict.fromkeys(REGRESSIONS, Aggregates._regression),
}


def _counts_rows(arguments: list[exp.Expr]) -> bool:
    if not arguments:
        return True
    return len(arguments) == 1 and (
        (isinstance(arguments[0], exp.Star) and not any(arguments[0].args.values()))
        or (isinstance(arguments[0], exp.Literal) and bool(arguments[0].name))
    )
