"""Sums that no type of Spark holds without loss, kept as two whole numbers (limbs) that together are the exact sum.

Method: a value is high * base + low, and each part is summed by itself, so neither the change nor the stored sum can overflow or
lose digits to the types that Spark gives to decimal arithmetic. Only the result must fit its type.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

_LOW_DIGITS = 19
_MASK = (1 << 32) - 1


class Limbs(msgspec.Struct, frozen=True):
    """Texts of a value's two parts, of zero, and the type that holds a part's sum."""

    high: str
    low: str
    zero: str
    kind: str


def bigint_limbs(value: str) -> Limbs:
    """Return the upper and the lower half of a BIGINT."""
    return Limbs(f"shiftright({value}, 32)", f"(({value}) & {_MASK}L)", "0L", "bigint")


def bigint_sum(high: str, low: str) -> str:
    """Return the sum as a BIGINT; it is an error where there is none. `high` and `low` are columns."""
    return f"({high} + shiftright({low}, 32)) * {_MASK + 1}L + ({low} & {_MASK}L)"


def decimal_limbs(value: str, scale: int) -> Limbs:
    """Return a decimal, counted in units of its last digit, as its digits above the lowest 19 and those."""
    base = _power(_LOW_DIGITS - scale)
    low = f"(({value}) % {base})"
    high = f"CAST((({value}) - {low}) / {base} AS decimal(20,0))"
    return Limbs(high, f"CAST({low} / {_power(-scale)} AS decimal(19,0))", _whole("0"), "decimal(38,0)")


def decimal_sum(high: str, low: str, scale: int) -> str:
    """Return the sum as decimal(38, scale); it is an error where that has too few digits."""
    return _of_one_sign(high, low, lambda h, c: _shifted(f"{h} * {_power(_LOW_DIGITS)} + {c}", 38, scale))


def decimal_average(high: str, low: str, count: str, precision: int, scale: int) -> str:
    """Return sum / count with the type and the rounding of Spark's avg of decimal(precision, scale)."""
    most, fraction = min(38, precision + 4), min(38, scale + 4)
    n, base, more = f"CAST({count} AS decimal(20,0))", _power(_LOW_DIGITS), _power(fraction - scale)

    def divided(h: str, c: str) -> str:
        """Divide digit by digit, in base 10^19, as on paper; the signs are set apart."""
        above = _quotient(f"abs({h})", n)
        rest = _whole(f"(abs({h}) % {n}) * {base} + abs({c})")

        def digits(r: str) -> str:
            whole = f"({above} * {base} + {_quotient(r, n)})"
            return f"{whole} * {more} + {_rounded(f'({r} % {n}) * {more}', n)}"

        return _shifted(f"IF({h} < 0 OR {c} < 0, -1, 1) * ({_let('r', rest, digits)})", most, fraction)

    return _of_one_sign(high, low, divided)


def _of_one_sign(high: str, low: str, body: Callable[[str, str], str]) -> str:
    """Return `body` over the same sum with a lowest part of 19 digits that has the sign of the other."""
    base = _power(_LOW_DIGITS)
    short = (
        f"named_struct('h', {_whole(f'{high} + {_quotient(low, base)}')}, 'l', {_whole(f'{low} % {base}')})"
    )

    def alike(s: str) -> str:
        borrow = f"CASE WHEN {s}.h > 0 AND {s}.l < 0 THEN 1 WHEN {s}.h < 0 AND {s}.l > 0 THEN -1 ELSE 0 END"
        high, low = _whole(f"{s}.h - {borrow}"), _whole(f"{s}.l + {borrow} * {base}")
        return f"named_struct('h', {high}, 'l', {low})"

    return _let("t", _let("s", short, alike), lambda t: body(f"{t}.h", f"{t}.l"))


def _rounded(dividend: str, divisor: str) -> str:
    def half_up(d: str) -> str:
        return f"{_quotient(d, divisor)} + IF(2 * ({d} % {divisor}) >= {divisor}, 1, 0)"

    return _whole(_let("d", _whole(dividend), half_up))


def _quotient(dividend: str, divisor: str) -> str:
    return _whole(f"({dividend} - {dividend} % {divisor}) / {divisor}")


def _whole(text: str) -> str:
    return f"CAST({text} AS decimal(38,0))"


def _power(exponent: int) -> str:
    """Return a power of ten as a decimal."""
    digits = exponent + 1 if exponent >= 0 else -exponent
    return f"CAST('1E{exponent}' AS decimal({digits},{max(0, -exponent)}))"


def _shifted(text: str, precision: int, scale: int) -> str:
    """Return a whole number of units as decimal(precision, scale): no arithmetic of Spark's gives that type."""
    return f"CAST(concat(CAST({_whole(text)} AS string), 'E-{scale}') AS decimal({precision},{scale}))"


def _let(name: str, value: str, body: Callable[[str], str]) -> str:
    """Return `body` over a value that is computed once."""
    return f"transform(array({value}), {name} -> {body(name)})[0]"
