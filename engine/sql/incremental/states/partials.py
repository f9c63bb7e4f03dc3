"""Which aggregates can be kept by adding the change to stored partials, and the expressions that do it.

A partial has two expressions: `delta` folds the input's signed rows (`_w` is +1 or -1) into the change of the partial, `merge`
adds that to the stored one (column `_old_<name>`). The call's `result` computes the aggregate from its partials.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.sql.expression.limbs import (
    Limbs,
    build_bigint_sum,
    build_decimal_average,
    build_decimal_sum,
    split_bigint,
    split_decimal,
)
from engine.sql.expression.nodes import TRUE, Call, Column, Comparison, Expr, Literal, Not, Unary
from engine.sql.expression.template import build_not_null, cast, combine_conditions, fill_template
from engine.sql.expression.template import call as call_of
from engine.sql.incremental.states import moment_partials
from engine.sql.plan import AggCall
from engine.sql.typing.types import decimal_digits
from engine.sql.typing.whole_numbers import INTEGRAL

GLOBAL_KEY = "_global"
ROWS = "_partial_rows"
WEIGHT = Column("_w")
COMES, GOES = Comparison(">", WEIGHT, Literal("0")), Comparison("<", WEIGHT, Literal("0"))
_TRUTHS = {"bool_and": "all", "every": "all", "bool_or": "any", "any": "any", "some": "any"}
_SUMMED_DIGITS = 27
"""A difference of two sums of decimals with more digits has a type with less fraction in Spark."""
_AVERAGED_DIGITS, _AVERAGED_SCALE = 24, 2
"""A quotient of a sum of decimals with these has at least the fraction of Spark's avg."""


class Partial(msgspec.Struct, frozen=True):
    """One stored number of a group: its column, and the expressions that fold a change (`delta`) and add it (`merge`)."""

    name: str
    delta: Expr
    merge: Expr


class Seek(msgspec.Struct, frozen=True):
    """How the next extreme is found in a state when the stored one went: its first or last row of the group.

    `pairs` = (key of the aggregate, column of the state), `present` a column of the state that must be true, `items` = (name of a
    column that is added, column of the state). `gone` and `needed` are named expressions: the most extreme value that went, over
    the change; and whether to look, over that, the old partials and the change. `hit` names the column that tells of a found row.
    """

    table: str
    pairs: tuple[tuple[str, str], ...]
    present: str
    items: tuple[tuple[str, str], ...]
    last: bool
    gone: tuple[str, Expr]
    needed: tuple[str, Expr]
    hit: str


class Partials(msgspec.Struct, frozen=True):
    """The partials behind one aggregate call, and the expression that computes the call's result from them."""

    call: str
    partials: tuple[Partial, ...]
    result: Expr
    seek: Seek | None = None


def build_rows_partial() -> Partial:
    """Return the partial that counts a group's rows; a group whose count is 0 does not exist."""
    return _build_counter(ROWS, WEIGHT)


def build_partials(
    position: int, call: AggCall, types: tuple[str, ...], append_only: bool
) -> tuple[Partials | None, str]:
    """Return the partials of `call`, whose arguments have Spark `types`, or None and why its groups must be recomputed."""
    if call.whole is not None:
        return None, f"{call.function} needs the group's rows in an order"
    if call.distinct:
        return None, f"{call.function}(DISTINCT) needs the group's values"
    name = call.function.lower()
    if name == "count" and len(call.arguments) <= 1:
        there = build_not_null(call.arguments[0]) if call.arguments else TRUE
        counter = _count_where(f"_partial_{position}_count", combine_conditions(there, call.where))
        return Partials(call.name, (counter,), Column(counter.name)), ""
    if name in moment_partials.FUNCTIONS:
        return _build_moments(position, call, types)
    if len(call.arguments) != 1:
        return None, f"{call.function} has no partial form"
    argument_type = types[0]
    if name in _TRUTHS or name == "count_if":
        return _build_truth(position, call, name), ""
    if name == "bit_xor":
        return _build_parity(position, call, argument_type), ""
    if name in ("min", "max"):
        return _build_extreme(position, call, name, append_only)
    if name in ("sum", "avg", "mean"):
        return _build_sum(position, call, argument_type, append_only)
    return None, f"{call.function} has no partial form"


def _build_truth(position: int, call: AggCall, name: str) -> Partials:
    """How many arguments are true and how many false decide bool_and, bool_or and count_if."""
    yes, no = f"_partial_{position}_true", f"_partial_{position}_false"
    argument = call.arguments[0]
    parts = (
        _count_where(yes, combine_conditions(argument, call.where)),
        _count_where(no, combine_conditions(Not(argument), call.where)),
    )
    if name == "count_if":
        return Partials(call.name, parts[:1], Column(yes))
    decided = fill_template(
        ":no = 0" if _TRUTHS[name] == "all" else ":yes > 0", yes=Column(yes), no=Column(no)
    )
    text = "if(:yes + :no = 0, NULL, :decided)"
    return Partials(call.name, parts, fill_template(text, yes=Column(yes), no=Column(no), decided=decided))


def _build_parity(position: int, call: AggCall, argument_type: str) -> Partials:
    """Exclusive or undoes itself, so rows that go and rows that come are folded alike."""
    name, counted = f"_partial_{position}_xor", f"_partial_{position}_count"
    argument, zero = call.arguments[0], cast(Literal("0"), argument_type)
    folded = call_of(
        "coalesce", Call("bit_xor", (argument,), where=combine_conditions(TRUE, call.where)), zero
    )
    merged = fill_template("coalesce(:old, :zero) ^ :new", old=_old_column(name), zero=zero, new=Column(name))
    parts = (
        Partial(name, cast(folded, argument_type), cast(merged, argument_type)),
        _count_where(counted, combine_conditions(build_not_null(argument), call.where)),
    )
    return Partials(call.name, parts, _null_if_none(counted, Column(name)))


def _build_moments(position: int, call: AggCall, types: tuple[str, ...]) -> tuple[Partials | None, str]:
    found = moment_partials.build_moments(call, types)
    if found is None:
        return None, f"{call.function} of {', '.join(types)} has no exact partial form"
    names = {"n": f"_partial_{position}_count"}
    parts = [_count_where(names["n"], combine_conditions(found.present, call.where))]
    for part in found.sums:
        name = names[part.name] = f"_partial_{position}_sum_{part.name}"
        parts.append(_build_signed_sum(name, part.value, part.kind, (found.present, call.where)))
    return Partials(call.name, tuple(parts), moment_partials.fill_columns(found.result, names)), ""


def _old_column(name: str) -> Column:
    return Column(f"_old_{name}")


def _build_counter(name: str, weight: Expr) -> Partial:
    merged = fill_template("coalesce(:old, 0L) + :new", old=_old_column(name), new=Column(name))
    return Partial(name, fill_template("coalesce(sum(:weight), 0L)", weight=weight), merged)


def _count_where(name: str, condition: Expr) -> Partial:
    """Return the partial that counts the rows for which a condition holds."""
    return _build_counter(name, fill_template("if(:condition, _w, 0L)", condition=condition))


def _null_if_none(count: str, value: Expr) -> Expr:
    return fill_template("if(:count = 0, NULL, :value)", count=Column(count), value=value)


def _build_extreme(position: int, call: AggCall, name: str, append_only: bool) -> tuple[Partials | None, str]:
    if not append_only:
        return None, f"{name} of an input that retracts needs the group's rows"
    pick = "least" if name == "min" else "greatest"
    column = f"_partial_{position}_{name}"
    folded = Call(name, (call.arguments[0],), where=combine_conditions(COMES, call.where))
    partial = Partial(column, folded, call_of(pick, _old_column(column), Column(column)))
    return Partials(call.name, (partial,), Column(column)), ""


def _build_sum(
    position: int, call: AggCall, argument_type: str, append_only: bool
) -> tuple[Partials | None, str]:
    argument, average = call.arguments[0], call.function.lower() != "sum"
    name = f"_partial_{position}_sum"
    count = f"_partial_{position}_count"
    decimal = decimal_digits(argument_type)
    limbs = kind = None
    if decimal:
        precision, scale = decimal
        native = scale >= _AVERAGED_SCALE and precision <= _AVERAGED_DIGITS
        if precision > _SUMMED_DIGITS or (average and not native):
            limbs = split_decimal(argument, scale)
        kind = f"decimal({min(38, precision + 10)},{scale})"
    elif argument_type == "bigint" and not average:
        limbs = split_bigint(argument)
    elif argument_type in INTEGRAL:
        kind = "decimal(38,0)" if argument_type == "bigint" else "bigint"
    elif argument_type in ("float", "double") and append_only:
        kind = "double"
    elif argument_type in ("float", "double"):
        return None, f"{call.function} of {argument_type} that retracts would gather rounding errors"
    else:
        return None, f"{call.function} of {argument_type} has no partial form"
    counter = _count_where(count, combine_conditions(build_not_null(argument), call.where))
    if limbs is not None:
        parts, result = _build_limb_sum(position, limbs, call.where, decimal, average)
    else:
        assert kind is not None
        value = cast(argument, kind) if kind in ("decimal(38,0)", "double") else argument
        parts, result = (_build_signed_sum(name, value, kind, (call.where,), append_only),), Column(name)
        if average:
            result = _divide_total(Column(name), Column(count), decimal)
    return Partials(call.name, (*parts, counter), _null_if_none(count, result)), ""


def _build_signed_sum(
    name: str, value: Expr, kind: str, conditions: Sequence[Expr | None], append_only: bool = False
) -> Partial:
    """Return the partial of a sum that its type holds: what comes less what goes."""
    zero = cast(Literal("0"), kind)
    came, gone = (
        call_of("coalesce", Call("sum", (value,), where=combine_conditions(side, *conditions)), zero)
        for side in (COMES, GOES)
    )
    folded = came if append_only else fill_template(":came - :gone", came=came, gone=gone)
    merged = fill_template("coalesce(:old, :zero) + :new", old=_old_column(name), zero=zero, new=Column(name))
    return Partial(name, cast(folded, kind), cast(merged, kind))


def _build_limb_sum(
    position: int, limbs: Limbs, where: Expr | None, decimal: tuple[int, int] | None, average: bool
) -> tuple[tuple[Partial, ...], Expr]:
    """Return the partials of a sum in two limbs, and the sum or the average."""
    high, low = f"_partial_{position}_high", f"_partial_{position}_low"
    parts = []
    for name, value in ((high, limbs.high), (low, limbs.low)):
        text = ":value * _w" if decimal is None else "if(_w > 0, :value, :minus)"
        signed = fill_template(text, value=value, minus=Unary("-", value))
        folded: Expr = call_of("coalesce", Call("sum", (signed,), where=where), limbs.zero)
        merged = fill_template(
            "coalesce(:old, :zero) + :new", old=_old_column(name), zero=limbs.zero, new=Column(name)
        )
        if decimal is not None:
            folded, merged = cast(folded, limbs.kind), cast(merged, limbs.kind)
        parts.append(Partial(name, folded, merged))
    sums = Column(high), Column(low)
    if decimal is None:
        return tuple(parts), build_bigint_sum(*sums)
    precision, scale = decimal
    if not average:
        return tuple(parts), build_decimal_sum(*sums, scale)
    return tuple(parts), build_decimal_average(*sums, Column(f"_partial_{position}_count"), precision, scale)


def _divide_total(total: Expr, count: Expr, decimal: tuple[int, int] | None) -> Expr:
    """Return a quotient; that of decimals gets from Spark just the digits of its avg, so that it is rounded as there."""
    if decimal is None:
        return fill_template("CAST(:total AS double) / :count", total=total, count=count)
    precision, scale = decimal
    operands = {"total": cast(total, f"decimal(34,{scale})"), "count": cast(count, "decimal(20,0)")}
    return cast(
        fill_template(":total / :count", **operands),
        f"decimal({min(38, precision + 4)},{min(38, scale + 4)})",
    )
