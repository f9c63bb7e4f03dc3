"""Variance, deviation and covariance kept by adding the change: exact sums of integers, of their squares and products.

Method: with n values, integer mean m = Sx div n and rest r = Sx - m n, the sum of squared differences from the mean is
(n (Sxx - 2 m Sx + n m m) - r r) / n. All of it is integer arithmetic: retractions leave no rounding behind, no digit is lost
where values are large and lie close together. Decimals count as integers of their last digit.
"""

from __future__ import annotations

import msgspec

from engine.sql.expression.nodes import Column, Expr, Literal
from engine.sql.expression.substitute import substitute
from engine.sql.expression.template import build_not_null, cast, fill_template, join_conditions
from engine.sql.expression.template import call as call_of
from engine.sql.plan import AggCall
from engine.sql.typing.types import decimal_digits
from engine.sql.typing.whole_numbers import DIGITS

_MOST_DIGITS = 10
_VARIANCES = {  # by how many less than n is divided, and whether the root is taken
    "var_pop": (0, False),
    "var_samp": (1, False),
    "variance": (1, False),
    "stddev_pop": (0, True),
    "stddev_samp": (1, True),
    "stddev": (1, True),
    "std": (1, True),
}
_COVARIANCES = {"covar_pop": 0, "covar_samp": 1}
FUNCTIONS = frozenset((*_VARIANCES, *_COVARIANCES))


class Sum(msgspec.Struct, frozen=True):
    """An exact sum over the rows in which every argument is there: its name, the summed integer, the decimal that holds it."""

    name: str
    value: Expr
    kind: str = "decimal(38,0)"


class Moments(msgspec.Struct, frozen=True):
    """The sums behind a call, the condition of the rows they count, and the call's result over columns with their names and n."""

    sums: tuple[Sum, ...]
    present: Expr
    result: Expr


def build_moments(call: AggCall, types: tuple[str, ...]) -> Moments | None:
    """Return the sums of a call over integers or short decimals; None where they would not be exact."""
    name = call.function.lower()
    scaled = [_scale_to_integer(argument, kind) for argument, kind in zip(call.arguments, types, strict=True)]
    whole = [pair for pair in scaled if pair is not None]
    if len(whole) != len(scaled) or len(whole) != (2 if name in _COVARIANCES else 1):
        return None
    there = join_conditions([build_not_null(argument) for argument in call.arguments])
    assert there is not None
    if name in _VARIANCES:
        x, scale = whole[0]
        less, root = _VARIANCES[name]
        sums: tuple[Sum, ...] = (Sum("x", x), Sum("xx", fill_template(":x * :x", x=x)))
        spread, unit = _build_spread("x", "x", "xx"), 2 * scale
    else:
        (x, first), (y, second) = whole
        less, root = _COVARIANCES[name], False
        sums = (Sum("x", x), Sum("y", y), Sum("xy", fill_template(":x * :y", x=x, y=y)))
        spread, unit = _build_spread("x", "y", "xy"), first + second
    value = fill_template(
        f"CAST(:spread AS DOUBLE) / CAST(n AS DOUBLE) / {_DIVISORS[less]} / :unit",
        spread=spread,
        unit=Literal(f"1e{unit}"),
    )
    value = call_of("sqrt", value) if root else value
    result = fill_template("if(n < :least, NULL, :value)", least=Literal(str(1 + less)), value=value)
    return Moments(sums, there, result)


_DIVISORS = ("CAST(n AS DOUBLE)", "(CAST(n AS DOUBLE) - 1)")


def _scale_to_integer(argument: Expr, kind: str) -> tuple[Expr, int] | None:
    """Return the argument as a decimal without a fraction, and by how many digits it was shifted."""
    digits, scale = decimal_digits(kind) or (DIGITS.get(kind, 99), 0)
    if digits > _MOST_DIGITS:
        return None
    if scale:
        factor = cast(Literal("1" + "0" * scale), f"decimal({scale + 1},0)")
        argument = fill_template(":x * :factor", x=argument, factor=factor)
    return cast(argument, f"decimal({digits},0)"), scale


def _build_spread(x: str, y: str, xy: str) -> Expr:
    """Return n times the sum of products of the differences from the means, a decimal without a fraction."""
    operands: dict[str, Expr] = {"x": Column(x), "y": Column(y), "xy": Column(xy)}
    for name in ("x", "y"):
        mean = fill_template("CAST(try_divide(:sum, n) AS BIGINT)", sum=operands[name])
        operands[f"mean_{name}"] = cast(mean, "decimal(38,0)")
        operands[f"rest_{name}"] = fill_template(
            ":sum - :mean * n", sum=operands[name], mean=operands[f"mean_{name}"]
        )
    text = ":xy - :mean_x * :y - :mean_y * :x + :mean_x * :mean_y * n"
    operands["about"] = fill_template(text, **operands)
    return fill_template(":about * n - :rest_x * :rest_y", **operands)


def fill_columns(result: Expr, names: dict[str, str]) -> Expr:
    """Fill the sums' columns into a result."""
    return substitute(result, {name: cast(Column(column), "decimal(38,0)") for name, column in names.items()})
