"""A call over several parts of a frame: the call over each, and the expression that makes one result of them.

>>> from engine.sql.bind.over_windows.frames import WHOLE
>>> from engine.sql.expression.nodes import Column
>>> from engine.sql.expression.spark_sql import render_spark_sql
>>> parts = [FramePart(WHOLE, among_peers=True), FramePart(WHOLE)]
>>> columns = {part: Column(name) for part, name in zip(parts, "ab")}
>>> merged = FramePartMerger("max", parts, lambda call, part: columns[part], lambda expr: "int", (), (), None)
>>> render_spark_sql(merged.merge(Call("max", (Column("x"),))))
'greatest(`a`, `b`)'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.sql.bind.over_windows.frame_exclusion import FramePart, Read, Refuse
from engine.sql.bind.over_windows.window_calls import replace_filters
from engine.sql.expression.limbs import build_decimal_average, build_decimal_sum, split_decimal
from engine.sql.expression.nodes import (
    NULL,
    Arithmetic,
    Call,
    Case,
    Column,
    Expr,
    Field,
    IsNull,
    Literal,
    Unary,
    map_children,
)
from engine.sql.expression.ordered_lists import OrderTerm, build_ordered_list
from engine.sql.expression.template import (
    build_not_null,
    build_struct,
    cast,
    combine_conditions,
    fill_template,
    join_conditions,
)
from engine.sql.expression.template import call as call_of
from engine.sql.functions import VALUES_OF_ROWS, load_spark_functions
from engine.sql.typing.types import decimal_digits
from engine.sql.typing.whole_numbers import INTEGRAL
from engine.sql.window_calls import SortKey

_EXTREMES = {
    **dict.fromkeys(("min", "bool_and", "every"), "least"),
    **dict.fromkeys(("max", "bool_or", "any", "some"), "greatest"),
}
_BITS = {"bit_and": ("&", "-1"), "bit_or": ("|", "0"), "bit_xor": ("^", "0")}
_DECOMPOSE_HINT = "take it apart by count, sum, min, max or array_agg, which can leave rows out"


@dataclass(frozen=True)
class FramePartMerger:
    """Merges calls over the parts of a frame; in the text they are calls of `name`.

    Rows stand in an order and, where they are equal in it, in that of their key.

    `read` gives the column of a call over one part, `kind` the type of an argument if it is certain.
    """

    name: str
    parts: Sequence[FramePart]
    read: Read
    kind: Callable[[Expr], str | None]
    order: tuple[SortKey, ...]
    key: tuple[str, ...]
    refuse: Refuse

    def merge(self, expr: Expr) -> Expr:
        """Return a call, or an expression over aggregates, over the rows of all parts; raises UnsupportedSql."""
        if not isinstance(expr, Call):
            return map_children(expr, self.merge)
        if expr.function in VALUES_OF_ROWS:
            return self._merge_row_value(expr)
        if load_spark_functions().get(expr.function) != "aggregate":
            return map_children(expr, self.merge)
        if len(self.parts) == 1 and self.parts[0].when is None:
            return self.read(expr, self.parts[0])
        return self._merge_aggregate(expr)

    def _call_each_part(self, call: Call) -> list[Expr]:
        """Return the call over each part, null where the part does not count."""
        return [
            column
            if part.when is None
            else fill_template("if(:when, :column, NULL)", when=part.when, column=column)
            for part, column in ((part, self.read(call, part)) for part in self.parts)
        ]

    def _merge_aggregate(self, call: Call) -> Expr:
        name = call.function
        if call.order or call.distinct:
            raise self._build_error()
        match name:
            case "count" | "count_if":
                return self._add_parts(call, Literal("0", "bigint"))
            case "sum":
                return self._merge_sum(call)
            case "avg" | "mean":
                return self._merge_average(call)
            case "collect_list":
                return call_of("concat", *self._collect_lists(call))
            case "collect_set":
                return call_of("array_distinct", call_of("concat", *self._collect_lists(call)))
            case "max_by" | "min_by":
                return self._merge_extreme_by(call)
        if name in _EXTREMES:
            found = self._call_each_part(call)
            return call_of(_EXTREMES[name], *found) if len(found) > 1 else found[0]
        if name in _BITS:
            return self._merge_bits(call)
        raise self._build_error()

    def _build_error(self) -> Exception:
        return self.refuse(f"{self.name} beside EXCLUDE", _DECOMPOSE_HINT)

    # ---- numbers ---------------------------------------------------------------------------------------------
    def _add_parts(self, call: Call, zero: Expr) -> Expr:
        """Return the sum of what the call gives of the parts, which is nothing for a null."""
        found = tuple(call_of("coalesce", each, zero) for each in self._call_each_part(call))
        return found[0] if len(found) == 1 else Arithmetic("+", found)

    def _require_type(self, call: Call) -> str:
        argument = _unwrap_filter(call.arguments[0])
        kind = self.kind(argument)
        if kind is None:
            what = f"{self.name} beside EXCLUDE of a value whose type is not known"
            raise self.refuse(what, "write CAST(… AS type) around it")
        return kind

    def _merge_count(self, argument: Expr) -> Expr:
        return self._add_parts(call_of("count", argument), Literal("0", "bigint"))

    def _merge_sum(self, call: Call) -> Expr:
        kind, (argument, *_) = self._require_type(call), call.arguments
        digits = decimal_digits(kind)
        if digits is None:
            return self._null_if_all_null(call, self._merge_plain_sum(call, kind))
        whole = build_decimal_sum(*self._merge_limbs(argument, digits[1]), digits[1])
        total = cast(whole, f"decimal({min(38, digits[0] + 10)},{digits[1]})")
        return fill_template("if(:n = 0, NULL, :total)", n=self._merge_count(argument), total=total)

    def _null_if_all_null(self, call: Call, whole: Expr) -> Expr:
        """Return a result, or null where the call gives null of each part."""
        none = join_conditions([IsNull(each) for each in self._call_each_part(call)])
        assert none is not None
        return fill_template("if(:none, NULL, :whole)", none=none, whole=whole)

    def _merge_plain_sum(self, call: Call, kind: str) -> Expr:
        if kind in INTEGRAL:
            return self._add_parts(call, Literal("0", "bigint"))
        if kind in ("float", "double"):
            return self._add_parts(call, Literal("0.0", "double"))
        raise self.refuse(f"{self.name} of {kind} beside EXCLUDE", "compute it of numbers")

    def _merge_limbs(self, argument: Expr, scale: int) -> tuple[Expr, Expr]:
        """Return the sum of decimals in two parts, of which none loses a digit."""
        limbs = split_decimal(argument, scale)
        high, low = (
            cast(self._add_parts(call_of("sum", value), limbs.zero), limbs.kind)
            for value in (limbs.high, limbs.low)
        )
        return high, low

    def _merge_average(self, call: Call) -> Expr:
        kind, (argument, *_) = self._require_type(call), call.arguments
        count, digits = self._merge_count(argument), decimal_digits(kind)
        if digits is not None:
            mean = build_decimal_average(*self._merge_limbs(argument, digits[1]), count, *digits)
        else:
            wide = kind == "bigint"  # whose sums need not be one
            total = (
                self._add_parts(
                    call_of("sum", cast(argument, "decimal(38,0)")), cast(Literal("0"), "decimal(38,0)")
                )
                if wide
                else self._merge_plain_sum(call_of("sum", argument), kind)
            )
            mean = fill_template("CAST(:total AS double) / :count", total=total, count=count)
        return fill_template("if(:count = 0, NULL, :mean)", count=count, mean=mean)

    def _merge_bits(self, call: Call) -> Expr:
        operator, nothing = _BITS[call.function]
        kind, found = self._require_type(call), self._call_each_part(call)
        text = Unary("-", Literal(nothing[1:])) if nothing.startswith("-") else Literal(nothing)
        operands = tuple(call_of("coalesce", each, cast(text, kind)) for each in found)
        whole = Arithmetic(operator, operands) if len(operands) > 1 else operands[0]
        return self._null_if_all_null(call, whole)

    # ---- values of rows --------------------------------------------------------------------------------------
    def _collect_lists(self, call: Call) -> list[Expr]:
        """Return the list of each part, without elements where the part does not count."""
        return [
            column
            if part.when is None
            else fill_template("filter(:list, _e -> :when)", list=column, when=part.when)
            for part, column in ((part, self.read(call, part)) for part in self.parts)
        ]

    def _merge_extreme_by(self, call: Call) -> Expr:
        value, measure = call.arguments
        row = build_struct([("m", measure), ("v", value)])
        measured = fill_template("if(:measure IS NULL, NULL, :row)", measure=measure, row=row)
        return Field(self._merge_aggregate(call_of(call.function.removesuffix("_by"), measured)), "v")

    def _merge_row_value(self, call: Call) -> Expr:
        if len(self.parts) == 1 and self.parts[0].when is None:
            return self.read(call, self.parts[0])
        value = call.arguments[0]
        if call.function == "nth_value":
            order = [OrderTerm(Column(key.column), key.descending, key.nulls_first) for key in self.order]
            conditions = (build_not_null(value),) if call.ignore_nulls else ()
            key = [column for column in self.key if column not in {one.column for one in self.order}]
            rows = self.merge(replace_filters(build_ordered_list([("v", value)], order, key, *conditions)))
            return fill_template("get(:rows, :n - 1).v", rows=rows, n=call.arguments[1])
        found, last = self._call_each_part(call), call.function == "last_value"
        if call.ignore_nulls:
            return call_of("coalesce", *(reversed(found) if last else found), NULL)
        branches = []
        for part, result in zip(self.parts, found, strict=True):
            rows = self.read(call_of("count", Literal("1")), part)
            some = fill_template(":rows > 0", rows=rows)
            branches.append((some if part.when is None else combine_conditions(part.when, some), result))
        return Case(tuple(reversed(branches) if last else branches))


def _unwrap_filter(argument: Expr) -> Expr:
    """Return the value of an argument that FILTER makes null for some rows."""
    filtered = isinstance(argument, Call) and argument.function == "if" and argument.arguments[2:] == (NULL,)
    return argument.arguments[1] if filtered and isinstance(argument, Call) else argument
