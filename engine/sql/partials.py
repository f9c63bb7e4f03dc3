"""Which aggregates can be kept by adding the change to stored partials, and the Spark SQL that does it.

A partial has two texts: `delta` folds the input's signed rows (`_w` is +1 or -1) into the change of the partial, `merge`
adds that to the stored one (column `_old_<name>`). The call's `result` computes the aggregate from its partials.
"""

from __future__ import annotations

import re

import msgspec

from engine.sql import moment_partials
from engine.sql.limbs import Limbs, bigint_limbs, bigint_sum, decimal_average, decimal_limbs, decimal_sum
from engine.sql.plan import AggCall, quote

GLOBAL_KEY = "_global"
ROWS = "_partial_rows"
_TRUTHS = {"bool_and": "all", "every": "all", "bool_or": "any", "any": "any", "some": "any"}
_INTEGRAL = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_SUMMED_DIGITS = 27
"""A difference of two sums of decimals with more digits has a type with less fraction in Spark."""
_AVERAGED_DIGITS, _AVERAGED_SCALE = 24, 2
"""A quotient of a sum of decimals with these has at least the fraction of Spark's avg."""


class Partial(msgspec.Struct, frozen=True):
    """One stored number of a group: its column, and the texts that fold a change (`delta`) and add it (`merge`)."""

    name: str
    delta: str
    merge: str


class Seek(msgspec.Struct, frozen=True):
    """How the next extreme is found in a state when the stored one went: its first or last row of the group.

    `pairs` = (key of the aggregate, column of the state), `present` a column of the state that must be true, `items` = (name of a
    column that is added, column of the state). `gone` and `needed` are named texts: the most extreme value that went, over the
    change; and whether to look, over that, the old partials and the change. `hit` names the column that tells of a found row.
    """

    table: str
    pairs: tuple[tuple[str, str], ...]
    present: str
    items: tuple[tuple[str, str], ...]
    last: bool
    gone: tuple[str, str]
    needed: tuple[str, str]
    hit: str


class Partials(msgspec.Struct, frozen=True):
    """The partials behind one aggregate call, and the text that computes the call's result from them."""

    call: str
    partials: tuple[Partial, ...]
    result: str
    seek: Seek | None = None


def rows_partial() -> Partial:
    """Return the partial that counts a group's rows; a group whose count is 0 does not exist."""
    return _counter(ROWS, "_w")


def partials_of(
    position: int, call: AggCall, types: tuple[str, ...], append_only: bool
) -> tuple[Partials | None, str]:
    """Return the partials of `call`, whose arguments have Spark `types`, or None and why its groups must be recomputed."""
    if call.text is not None:
        return None, f"{call.function} needs the group's rows in an order"
    if call.distinct:
        return None, f"{call.function}(DISTINCT) needs the group's values"
    name = call.function.lower()
    where = f" AND ({call.where.sql})" if call.where else ""
    if name == "count" and len(call.arguments) <= 1:
        present = f"({call.arguments[0].sql}) IS NOT NULL" if call.arguments else "TRUE"
        counter = _counter(f"_partial_{position}_count", f"IF({present}{where}, _w, 0L)")
        return Partials(call.name, (counter,), quote(counter.name)), ""
    if name in moment_partials.FUNCTIONS:
        return _moments(position, call, types, where)
    if len(call.arguments) != 1:
        return None, f"{call.function} has no partial form"
    argument_type = types[0]
    if name in _TRUTHS or name == "count_if":
        return _truth(position, call, name, where), ""
    if name == "bit_xor":
        return _parity(position, call, argument_type, where), ""
    if name in ("min", "max"):
        return _extreme(position, call, name, where, append_only)
    if name in ("sum", "avg", "mean"):
        return _sum(position, call, argument_type, where, append_only)
    return None, f"{call.function} has no partial form"


def _truth(position: int, call: AggCall, name: str, where: str) -> Partials:
    """How many arguments are true and how many false decide bool_and, bool_or and count_if."""
    yes, no = f"_partial_{position}_true", f"_partial_{position}_false"
    argument = f"({call.arguments[0].sql})"
    parts = (
        _counter(yes, f"IF({argument}{where}, _w, 0L)"),
        _counter(no, f"IF(NOT {argument}{where}, _w, 0L)"),
    )
    if name == "count_if":
        return Partials(call.name, parts[:1], quote(yes))
    decided = f"{quote(no)} = 0" if _TRUTHS[name] == "all" else f"{quote(yes)} > 0"
    return Partials(call.name, parts, f"IF({quote(yes)} + {quote(no)} = 0, NULL, {decided})")


def _parity(position: int, call: AggCall, argument_type: str, where: str) -> Partials:
    """Exclusive or undoes itself, so rows that go and rows that come are folded alike."""
    name, counted = f"_partial_{position}_xor", f"_partial_{position}_count"
    argument, zero = call.arguments[0].sql, f"CAST(0 AS {argument_type})"
    folded = f"bit_xor({argument}) FILTER (WHERE TRUE{where})"
    merged = f"CAST(coalesce({_old(name)}, {zero}) ^ {quote(name)} AS {argument_type})"
    parts = (
        Partial(name, f"CAST(coalesce({folded}, {zero}) AS {argument_type})", merged),
        _counter(counted, f"IF(({argument}) IS NOT NULL{where}, _w, 0L)"),
    )
    return Partials(call.name, parts, f"IF({quote(counted)} = 0, NULL, {quote(name)})")


def _moments(position: int, call: AggCall, types: tuple[str, ...], where: str) -> tuple[Partials | None, str]:
    found = moment_partials.moments_of(call, types)
    if found is None:
        return None, f"{call.function} of {', '.join(types)} has no exact partial form"
    names = {"n": f"_partial_{position}_count"}
    parts = [_counter(names["n"], f"IF({found.present}{where}, _w, 0L)")]
    for part in found.sums:
        name = names[part.name] = f"_partial_{position}_sum_{part.name}"
        zero = f"CAST(0 AS {part.kind})"
        sides = [
            f"coalesce(sum({part.value}) FILTER (WHERE _w {sign} 0 AND {found.present}{where}), {zero})"
            for sign in "><"
        ]
        folded = f"CAST({sides[0]} - {sides[1]} AS {part.kind})"
        merged = f"CAST(coalesce({_old(name)}, {zero}) + {quote(name)} AS {part.kind})"
        parts.append(Partial(name, folded, merged))
    return Partials(call.name, tuple(parts), moment_partials.named(found.result, names)), ""


def _old(name: str) -> str:
    return quote(f"_old_{name}")


def _counter(name: str, weight: str) -> Partial:
    column = quote(name)
    return Partial(name, f"coalesce(sum({weight}), 0L)", f"coalesce({_old(name)}, 0L) + {column}")


def _extreme(
    position: int, call: AggCall, name: str, where: str, append_only: bool
) -> tuple[Partials | None, str]:
    if not append_only:
        return None, f"{name} of an input that retracts needs the group's rows"
    pick = "least" if name == "min" else "greatest"
    column = quote(f"_partial_{position}_{name}")
    partial = Partial(
        f"_partial_{position}_{name}",
        f"{name}({call.arguments[0].sql}) FILTER (WHERE _w > 0{where})",
        f"{pick}({_old(f'_partial_{position}_{name}')}, {column})",
    )
    return Partials(call.name, (partial,), column), ""


def _sum(
    position: int, call: AggCall, argument_type: str, where: str, append_only: bool
) -> tuple[Partials | None, str]:
    argument, average = call.arguments[0].sql, call.function.lower() != "sum"
    total, count = quote(f"_partial_{position}_sum"), quote(f"_partial_{position}_count")
    decimal = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", argument_type)
    limbs = kind = None
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2])
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
    counter = _counter(f"_partial_{position}_count", f"IF(({argument}) IS NOT NULL{where}, _w, 0L)")
    if limbs is not None:
        parts, result = _in_limbs(position, limbs, where, decimal, average)
    else:
        assert kind is not None
        value = f"CAST({argument} AS {kind})" if kind in ("decimal(38,0)", "double") else argument
        parts, result = (_one_sum(f"_partial_{position}_sum", value, kind, where, append_only),), total
        if average and decimal:
            result = f"CAST({_decimal_mean(total, count, scale)} AS {_average_type(precision, scale)})"
        elif average:
            result = f"CAST({total} AS double) / {count}"
    return Partials(call.name, (*parts, counter), f"IF({count} = 0, NULL, {result})"), ""


def _one_sum(name: str, value: str, kind: str, where: str, append_only: bool) -> Partial:
    """Return the partial of a sum that its type holds: what comes less what goes."""
    zero = f"CAST(0 AS {kind})"
    came, gone = (f"coalesce(sum({value}) FILTER (WHERE _w {sign} 0{where}), {zero})" for sign in (">", "<"))
    folded = came if append_only else f"{came} - {gone}"
    merged = f"CAST(coalesce({_old(name)}, {zero}) + {quote(name)} AS {kind})"
    return Partial(name, f"CAST({folded} AS {kind})", merged)


def _in_limbs(
    position: int, limbs: Limbs, where: str, decimal: re.Match[str] | None, average: bool
) -> tuple[tuple[Partial, ...], str]:
    """Return the partials of a sum in two limbs, and the text of the sum or the average."""
    high, low = f"_partial_{position}_high", f"_partial_{position}_low"
    parts = []
    for name, value in ((high, limbs.high), (low, limbs.low)):
        signed = f"{value} * _w" if decimal is None else f"IF(_w > 0, {value}, -{value})"
        some = f" FILTER (WHERE {where.removeprefix(' AND ')})" if where else ""
        folded = f"coalesce(sum({signed}){some}, {limbs.zero})"
        merged = f"coalesce({_old(name)}, {limbs.zero}) + {quote(name)}"
        if decimal is not None:
            folded, merged = f"CAST({folded} AS {limbs.kind})", f"CAST({merged} AS {limbs.kind})"
        parts.append(Partial(name, folded, merged))
    if decimal is None:
        return tuple(parts), bigint_sum(quote(high), quote(low))
    precision, scale = int(decimal[1]), int(decimal[2])
    if not average:
        return tuple(parts), decimal_sum(quote(high), quote(low), scale)
    count = quote(f"_partial_{position}_count")
    return tuple(parts), decimal_average(quote(high), quote(low), count, precision, scale)


def _decimal_mean(total: str, count: str, scale: int) -> str:
    """Return a quotient that Spark gives just the digits of its avg, so that it is rounded as there."""
    return f"CAST({total} AS decimal(34,{scale})) / CAST({count} AS decimal(20,0))"


def _average_type(precision: int, scale: int) -> str:
    return f"decimal({min(38, precision + 4)},{min(38, scale + 4)})"
