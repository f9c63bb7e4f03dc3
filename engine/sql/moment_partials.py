"""Variance, deviation and covariance kept by adding the change: exact sums of integers, of their squares and products.

Method: with n values, integer mean m = Sx div n and rest r = Sx - m n, the sum of squared differences from the mean is
(n (Sxx - 2 m Sx + n m m) - r r) / n. All of it is integer arithmetic: retractions leave no rounding behind, no digit is lost
where values are large and lie close together. Decimals count as integers of their last digit.
"""

from __future__ import annotations

import re

import msgspec

from engine.sql.plan import AggCall, quote

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10}
_MOST_DIGITS = 10
_VARIANCES = {
    "var_pop": ("n", False),
    "var_samp": ("(n - 1)", False),
    "variance": ("(n - 1)", False),
    "stddev_pop": ("n", True),
    "stddev_samp": ("(n - 1)", True),
    "stddev": ("(n - 1)", True),
    "std": ("(n - 1)", True),
}
_COVARIANCES = {"covar_pop": "n", "covar_samp": "(n - 1)"}
FUNCTIONS = frozenset((*_VARIANCES, *_COVARIANCES))


class Sum(msgspec.Struct, frozen=True):
    """An exact sum over the rows in which every argument is there: its name, the summed integer, the decimal that holds it."""

    name: str
    value: str
    kind: str = "decimal(38,0)"


class Moments(msgspec.Struct, frozen=True):
    """The sums behind a call, the condition of the rows they count, and the call's result over the sums' names."""

    sums: tuple[Sum, ...]
    present: str
    result: str


def moments_of(call: AggCall, types: tuple[str, ...]) -> Moments | None:
    """Return the sums of a call over integers or short decimals; None where they would not be exact."""
    name = call.function.lower()
    scaled = [_integer(argument.sql, kind) for argument, kind in zip(call.arguments, types, strict=True)]
    whole = [pair for pair in scaled if pair is not None]
    if len(whole) != len(scaled) or len(whole) != (2 if name in _COVARIANCES else 1):
        return None
    present = " AND ".join(f"({argument.sql}) IS NOT NULL" for argument in call.arguments)
    if name in _VARIANCES:
        (x, scale), y = whole[0], whole[0][0]
        divisor, root = _VARIANCES[name]
        sums: tuple[Sum, ...] = (Sum("x", x), Sum("xx", f"{x} * {x}"))
        spread, unit = _spread("x", "x", "xx"), 2 * scale
    else:
        (x, first), (y, second) = whole
        divisor, root = _COVARIANCES[name], False
        sums = (Sum("x", x), Sum("y", y), Sum("xy", f"{x} * {y}"))
        spread, unit = _spread("x", "y", "xy"), first + second
    per = divisor.replace("n", "CAST({n} AS DOUBLE)")
    value = f"CAST({spread} AS DOUBLE) / CAST({{n}} AS DOUBLE) / {per} / 1e{unit}"
    least = 1 if divisor == "n" else 2
    return Moments(sums, present, f"IF({{n}} < {least}, NULL, {f'sqrt({value})' if root else value})")


def _integer(argument: str, kind: str) -> tuple[str, int] | None:
    """Return the argument as a decimal without a fraction, and by how many digits it was shifted."""
    decimal = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", kind)
    digits, scale = (int(decimal[1]), int(decimal[2])) if decimal else (_DIGITS.get(kind, 99), 0)
    if digits > _MOST_DIGITS:
        return None
    shifted = f"({argument}) * CAST(1{'0' * scale} AS decimal({scale + 1},0))" if scale else f"({argument})"
    return f"CAST({shifted} AS decimal({digits},0))", scale


def _spread(x: str, y: str, xy: str) -> str:
    """Return n times the sum of products of the differences from the means, a decimal without a fraction."""
    mean = {c: f"CAST(try_divide({{{c}}}, {{n}}) AS BIGINT)" for c in (x, y)}
    wide = {c: f"CAST({mean[c]} AS decimal(38,0))" for c in (x, y)}
    rest = {c: f"({{{c}}} - {wide[c]} * {{n}})" for c in (x, y)}
    about = f"({{{xy}}} - {wide[x]} * {{{y}}} - {wide[y]} * {{{x}}} + {wide[x]} * {wide[y]} * {{n}})"
    return f"({about} * {{n}} - {rest[x]} * {rest[y]})"


def named(text: str, names: dict[str, str]) -> str:
    """Fill the sums' columns into a result."""
    return text.format(**{name: f"CAST({quote(column)} AS decimal(38,0))" for name, column in names.items()})
