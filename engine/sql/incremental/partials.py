"""Which aggregates can be kept by adding the change to stored partials, and the expressions that do it.

A partial has two expressions: `delta` folds the input's signed rows (`_w` is +1 or -1) into the change of the partial, `merge`
adds that to the stored one (column `_old_<name>`). The call's `result` computes the aggregate from its partials.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.sql.expression.limbs import (
    Limbs,
    bigint_limbs,
    bigint_sum,
    decimal_average,
    decimal_limbs,
    decimal_sum,
)
from engine.sql.expression.nodes import TRUE, Call, Column, Comparison, Expr, Literal, Not, Unary
from engine.sql.expression.template import both, cast, present, template
from engine.sql.expression.template import call as call_of
from engine.sql.incremental import moment_partials
from engine.sql.plan import AggCall
from engine.sql.typing.types import decimal_digits

GLOBAL_KEY = "_global"
ROWS = "_partial_rows"
WEIGHT = Column("_w")
COMES, GOES = Comparison(">", WEIGHT, Literal("0")), Comparison("<", WEIGHT, Literal("0"))
_TRUTHS = {"bool_and": "all", "every": "all", "bool_or": "any", "any": "any", "some": "any"}
_INTEGRAL = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
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


def rows_partial() -> Partial:
    """Return the partial that counts a group's rows; a group whose count is 0 does not exist."""
    return _counter(ROWS, WEIGHT)


def partials_of(
    position: int, call: AggCall, types: tuple[str, ...], append_only: bool
) -> tuple[Partials | None, str]:
    """Return the partials of `call`, whose arguments have Spark `types`, or None and why its groups must be recomputed."""
    if call.whole is not None:
        return None, f"{call.function} needs the group's rows in an order"
    if call.distinct:
        return None, f"{call.function}(DISTINCT) needs the group's values"
    name = call.function.lower()
    if name == "count" and len(call.arguments) <= 1:
        there = present(call.arguments[0]) if call.arguments else TRUE
        counter = _counted(f"_partial_{position}_count", both(there, call.where))
        return Partials(call.name, (counter,), Column(counter.name)), ""
    if name in moment_partials.FUNCTIONS:
        return _moments(position, call, types)
    if len(call.arguments) != 1:
        return None, f"{call.function} has no partial form"
    argument_type = types[0]
    if name in _TRUTHS or name == "count_if":
        return _truth(position, call, name), ""
    if name == "bit_xor":
        return _parity(position, call, argument_type), ""
    if name in ("min", "max"):
        return _extreme(position, call, name, append_only)
    if name in ("sum", "avg", "mean"):
        return _sum(position, call, argument_type, append_only)
    return None, f"{call.function} has no partial form"


def _truth(position: int, call: AggCall, name: str) -> Partials:
    """How many arguments are true and how many false decide bool_and, bool_or and count_if."""
    yes, no = f"_partial_{position}_true", f"_partial_{position}_false"
    argument = call.arguments[0]
    parts = (_counted(yes, both(argument, call.where)), _counted(no, both(Not(argument), call.where)))
    if name == "count_if":
        return Partials(call.name, parts[:1], Column(yes))
    decided = template(":no = 0" if _TRUTHS[name] == "all" else ":yes > 0", yes=Column(yes), no=Column(no))
    text = "if(:yes + :no = 0, NULL, :decided)"
    return Partials(call.name, parts, template(text, yes=Column(yes), no=Column(no), decided=decided))


def _parity(position: int, call: AggCall, argument_type: str) -> Partials:
    """Exclusive or undoes itself, so rows that go and rows that come are folded alike."""
    name, counted = f"_partial_{position}_xor", f"_partial_{position}_count"
    argument, zero = call.arguments[0], cast(Literal("0"), argument_type)
    folded = call_of("coalesce", Call("bit_xor", (argument,), where=both(TRUE, call.where)), zero)
    merged = template("coalesce(:old, :zero) ^ :new", old=_old(name), zero=zero, new=Column(name))
    parts = (
        Partial(name, cast(folded, argument_type), cast(merged, argument_type)),
        _counted(counted, both(present(argument), call.where)),
    )
    return Partials(call.name, parts, _unless_none(counted, Column(name)))


def _moments(position: int, call: AggCall, types: tuple[str, ...]) -> tuple[Partials | None, str]:
    found = moment_partials.moments_of(call, types)
    if found is None:
        return None, f"{call.function} of {', '.join(types)} has no exact partial form"
    names = {"n": f"_partial_{position}_count"}
    parts = [_counted(names["n"], both(found.present, call.where))]
    for part in found.sums:
        name = names[part.name] = f"_partial_{position}_sum_{part.name}"
        parts.append(_signed_sum(name, part.value, part.kind, (found.present, call.where)))
    return Partials(call.name, tuple(parts), moment_partials.named(found.result, names)), ""


def _old(name: str) -> Column:
    return Column(f"_old_{name}")


def _counter(name: str, weight: Expr) -> Partial:
    merged = template("coalesce(:old, 0L) + :new", old=_old(name), new=Column(name))
    return Partial(name, template("coalesce(sum(:weight), 0L)", weight=weight), merged)


def _counted(name: str, condition: Expr) -> Partial:
    """Return the partial that counts the rows for which a condition holds."""
    return _counter(name, template("if(:condition, _w, 0L)", condition=condition))


def _unless_none(count: str, value: Expr) -> Expr:
    return template("if(:count = 0, NULL, :value)", count=Column(count), value=value)


def _extreme(position: int, call: AggCall, name: str, append_only: bool) -> tuple[Partials | None, str]:
    if not append_only:
        return None, f"{name} of an input that retracts needs the group's rows"
    pick = "least" if name == "min" else "greatest"
    column = f"_partial_{position}_{name}"
    folded = Call(name, (call.arguments[0],), where=both(COMES, call.where))
    partial = Partial(column, folded, call_of(pick, _old(column), Column(column)))
    return Partials(call.name, (partial,), Column(column)), ""


def _sum(position: int, call: AggCall, argument_type: str, append_only: bool) -> tuple[Partials | None, str]:
    argument, average = call.arguments[0], call.function.lower() != "sum"
    name = f"_partial_{position}_sum"
    count = f"_partial_{position}_count"
    decimal = decimal_digits(argument_type)
    limbs = kind = None
    if decimal:
        precision, scale = decimal
        native = scale >= _AVERAGED_SCALE and precision <= _AVERAGED_DIGITS
        if precision > _SUMMED_DIGITS or (average and not native):
            limbs = decimal_limbs(argument, scale)
        kind = f"decimal({min(38, precision + 10)},{scale})"
    elif argument_type == "bigint" and not average:
        limbs = bigint_limbs(argument)
    elif argument_type in _INTEGRAL:
        kind = "decimal(38,0)" if argument_type == "bigint" else "bigint"
    elif argument_type in ("float", "double") and append_only:
        kind = "double"
    elif argument_type in ("float", "double"):
        return None, f"{call.function} of {argument_type} that retracts would gather rounding errors"
    else:
        return None, f"{call.function} of {argument_type} has no partial form"
    counter = _counted(count, both(present(argument), call.where))
    if limbs is not None:
        parts, result = _in_limbs(position, limbs, call.where, decimal, average)
    else:
        assert kind is not None
        value = cast(argument, kind) if kind in ("decimal(38,0)", "double") else argument
        parts, result = (_signed_sum(name, value, kind, (call.where,), append_only),), Column(name)
        if average:
            result = _mean(Column(name), Column(count), decimal)
    return Partials(call.name, (*parts, counter), _unless_none(count, result)), ""


def _signed_sum(
    name: str, value: Expr, kind: str, conditions: Sequence[Expr | None], append_only: bool = False
) -> Partial:
    """Return the partial of a sum that its type holds: what comes less what goes."""
    zero = cast(Literal("0"), kind)
    came, gone = (
        call_of("coalesce", Call("sum", (value,), where=both(side, *conditions)), zero)
        for side in (COMES, GOES)
    )
    folded = came if append_only else template(":came - :gone", came=came, gone=gone)
    merged = template("coalesce(:old, :zero) + :new", old=_old(name), zero=zero, new=Column(name))
    return Partial(name, cast(folded, kind), cast(merged, kind))


def _in_limbs(
    position: int, limbs: Limbs, where: Expr | None, decimal: tuple[int, int] | None, average: bool
) -> tuple[tuple[Partial, ...], Expr]:
    """Return the partials of a sum in two limbs, and the sum or the average."""
    high, low = f"_partial_{position}_high", f"_partial_{position}_low"
    parts = []
    for name, value in ((high, limbs.high), (low, limbs.low)):
        text = ":value * _w" if decimal is None else "if(_w > 0, :value, :minus)"
        signed = template(text, value=value, minus=Unary("-", value))
        folded: Expr = call_of("coalesce", Call("sum", (signed,), where=where), limbs.zero)
        merged = template("coalesce(:old, :zero) + :new", old=_old(name), zero=limbs.zero, new=Column(name))
        if decimal is not None:
            folded, merged = cast(folded, limbs.kind), cast(merged, limbs.kind)
        parts.append(Partial(name, folded, merged))
    sums = Column(high), Column(low)
    if decimal is None:
        return tuple(parts), bigint_sum(*sums)
    precision, scale = decimal
    if not average:
        return tuple(parts), decimal_sum(*sums, scale)
    return tuple(parts), decimal_average(*sums, Column(f"_partial_{position}_count"), precision, scale)


def _mean(total: Expr, count: Expr, decimal: tuple[int, int] | None) -> Expr:
    """Return a quotient; that of decimals gets from Spark just the digits of its avg, so that it is rounded as there."""
    if decimal is None:
        return template("CAST(:total AS double) / :count", total=total, count=count)
    precision, scale = decimal
    given = {"total": cast(total, f"decimal(34,{scale})"), "count": cast(count, "decimal(20,0)")}
    return cast(
        template(":total / :count", **given), f"decimal({min(38, precision + 4)},{min(38, scale + 4)})"
    )
