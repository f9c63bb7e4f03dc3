"""Sums that no type of Spark holds without loss, kept as two whole numbers (limbs) that together are the exact sum.

Method: a value is high * base + low, and each part is summed by itself, so neither the change nor the stored sum can overflow or
lose digits to the types that Spark gives to decimal arithmetic. Only the result must fit its type.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from engine.sql.expression.nodes import Expr, Lambda, Literal, Variable
from engine.sql.expression.template import build_struct, call, cast, fill_template

_LOW_DIGITS = 19
_MASK = Literal(str((1 << 32) - 1), "bigint")
_BASE = Literal(str(1 << 32), "bigint")


class Limbs(msgspec.Struct, frozen=True):
    """A value's two parts, zero, and the type that holds a part's sum."""

    high: Expr
    low: Expr
    zero: Expr
    kind: str


def split_bigint(value: Expr) -> Limbs:
    """Return the upper and the lower half of a BIGINT."""
    low = fill_template(":value & :mask", value=value, mask=_MASK)
    return Limbs(fill_template("shiftright(:value, 32)", value=value), low, Literal("0", "bigint"), "bigint")


def build_bigint_sum(high: Expr, low: Expr) -> Expr:
    """Return the sum as a BIGINT; it is an error where there is none. `high` and `low` are columns."""
    text = "(:high + shiftright(:low, 32)) * :base + (:low & :mask)"
    return fill_template(text, high=high, low=low, base=_BASE, mask=_MASK)


def is_bigint_sum(text: str) -> bool:
    """Tell whether a text of Spark SQL is what `build_bigint_sum` says, or a part of it that can be an error."""
    return "shiftright(" in text and f"* {_BASE.text}L" in text


def split_decimal(value: Expr, scale: int) -> Limbs:
    """Return a decimal, counted in units of its last digit, as its digits above the lowest 19 and those."""
    base = _power(_LOW_DIGITS - scale)
    low = fill_template(":value % :base", value=value, base=base)
    high = cast(fill_template("(:value - :low) / :base", value=value, low=low, base=base), "decimal(20,0)")
    units = cast(fill_template(":low / :unit", low=low, unit=_power(-scale)), "decimal(19,0)")
    return Limbs(high, units, _cast_whole(Literal("0")), "decimal(38,0)")


def build_decimal_sum(high: Expr, low: Expr, scale: int) -> Expr:
    """Return the sum as decimal(38, scale); it is an error where that has too few digits."""

    def combine_limbs(h: Expr, c: Expr) -> Expr:
        return _scale_units(fill_template(":h * :base + :c", h=h, base=_power(_LOW_DIGITS), c=c), 38, scale)

    return _align_signs(high, low, combine_limbs)


def build_decimal_average(high: Expr, low: Expr, count: Expr, precision: int, scale: int) -> Expr:
    """Return sum / count with the type and the rounding of Spark's avg of decimal(precision, scale)."""
    most, fraction = min(38, precision + 4), min(38, scale + 4)
    parts = {"n": cast(count, "decimal(20,0)"), "base": _power(_LOW_DIGITS), "more": _power(fraction - scale)}

    def divide_limbs(h: Expr, c: Expr) -> Expr:
        """Divide digit by digit, in base 10^19, as on paper; the signs are set apart."""
        above = _divide_whole(call("abs", h), parts["n"])
        rest = _cast_whole(fill_template("(abs(:h) % :n) * :base + abs(:c)", h=h, c=c, **parts))

        def append_digits(r: Expr) -> Expr:
            whole = fill_template(
                ":above * :base + :part", above=above, part=_divide_whole(r, parts["n"]), **parts
            )
            last = _divide_rounded(fill_template("(:r % :n) * :more", r=r, **parts), parts["n"])
            return fill_template(":whole * :more + :last", whole=whole, last=last, **parts)

        signed = fill_template(
            "if(:h < 0 OR :c < 0, -1, 1) * :digits", h=h, c=c, digits=_let("r", rest, append_digits)
        )
        return _scale_units(signed, most, fraction)

    return _align_signs(high, low, divide_limbs)


def _align_signs(high: Expr, low: Expr, body: Callable[[Expr, Expr], Expr]) -> Expr:
    """Return `body` over the same sum with a lowest part of 19 digits that has the sign of the other."""
    base = _power(_LOW_DIGITS)
    carried = fill_template(":high + :carry", high=high, carry=_divide_whole(low, base))
    short = build_struct(
        [("h", _cast_whole(carried)), ("l", _cast_whole(fill_template(":low % :base", low=low, base=base)))]
    )

    def align_sign(s: Expr) -> Expr:
        text = "CASE WHEN :s.h > 0 AND :s.l < 0 THEN 1 WHEN :s.h < 0 AND :s.l > 0 THEN -1 ELSE 0 END"
        operands = {"s": s, "borrow": fill_template(text, s=s), "base": base}
        upper, lower = (
            fill_template(":s.h - :borrow", **operands),
            fill_template(":s.l + :borrow * :base", **operands),
        )
        return build_struct([("h", _cast_whole(upper)), ("l", _cast_whole(lower))])

    return _let(
        "t",
        _let("s", short, align_sign),
        lambda t: body(fill_template(":t.h", t=t), fill_template(":t.l", t=t)),
    )


def _divide_rounded(dividend: Expr, divisor: Expr) -> Expr:
    def round_half_up(d: Expr) -> Expr:
        text = ":quotient + if(2 * (:d % :divisor) >= :divisor, 1, 0)"
        return fill_template(text, quotient=_divide_whole(d, divisor), d=d, divisor=divisor)

    return _cast_whole(_let("d", _cast_whole(dividend), round_half_up))


def _divide_whole(dividend: Expr, divisor: Expr) -> Expr:
    text = "(:dividend - :dividend % :divisor) / :divisor"
    return _cast_whole(fill_template(text, dividend=dividend, divisor=divisor))


def _cast_whole(value: Expr) -> Expr:
    return cast(value, "decimal(38,0)")


def _power(exponent: int) -> Expr:
    """Return a power of ten as a decimal."""
    digits = exponent + 1 if exponent >= 0 else -exponent
    return cast(Literal(f"1E{exponent}", "string"), f"decimal({digits},{max(0, -exponent)})")


def _scale_units(value: Expr, precision: int, scale: int) -> Expr:
    """Return a whole number of units as decimal(precision, scale): no arithmetic of Spark's gives that type."""
    digits = call("concat", cast(_cast_whole(value), "string"), Literal(f"E-{scale}", "string"))
    return cast(digits, f"decimal({precision},{scale})")


def _let(name: str, value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    """Return `body` over a value that is computed once."""
    return fill_template(
        "transform(array(:value), :body)[0]", value=value, body=Lambda((name,), body(Variable(name)))
    )
