"""Functions of PostgreSQL that Spark has under no name, and whose form depends on the types of what they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.datetimes.calendar_spans import build_age
from engine.sql.dialects.postgres.datetimes.datetime_formats import format_moment
from engine.sql.dialects.postgres.nested.json_calls import JSON_CALLS
from engine.sql.dialects.postgres.numbers.number_formats import format_number, is_number_format
from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import TypeOf, read_text
from engine.sql.typing.expression_types import is_number
from engine.sql.typing.intervals import evaluate_interval, parse_interval
from engine.sql.typing.whole_numbers import INTEGRAL

Build = Callable[[list[exp.Expr], TypeOf], exp.Expr | None]
_MOMENTS = ("date", "timestamp", "timestamp_ntz")
_STEPS = 92
"""Of the remainders of two BIGINTs, none but those of two numbers of Fibonacci's need so many."""
_GCD = (
    f"aggregate(sequence(1, {_STEPS}), named_struct('a', CAST(abs(_p0) AS BIGINT), 'b', CAST(abs(_p1) AS BIGINT)), "
    "(_s, _n) -> if(_s.b = 0 OR _s.b IS NULL, _s, named_struct('a', _s.b, 'b', _s.a % _s.b)), _s -> if(_s.b IS NULL, NULL, _s.a))"
)


def translate_typed_call(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return a call of one of these functions as Spark says it, None for any other; raises NotSaid if Spark has no like."""
    if isinstance(node, exp.ArraySum):
        return _translate_array_sum([node.this], type_of)
    build = TYPED.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
    return build(list(node.expressions), type_of) if build is not None else None


def _make_integral_call(name: str, body: str) -> Build:
    def build(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(arguments) != 2:
            return None
        kinds = [type_of(part) for part in arguments]
        wide = [kind for kind in kinds if kind in INTEGRAL]
        if len(wide) < 2:
            raise Untranslatable(f"{name} of anything but whole numbers", "CAST both to bigint")
        kind = exp.DataType.build(max(wide, key=INTEGRAL.index), dialect="spark")
        return exp.Cast(this=fill_tree(body, *arguments), to=kind)

    return build


def _translate_date_bin(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
    """`date_bin('15 minutes', t, origin)` is the start of the span in which t lies, counted from the origin."""
    if len(arguments) != 3:
        return None
    stride, moment, origin = arguments
    hint = "write a length of days and less, as '15 minutes'"
    literal = isinstance(stride, exp.Literal) and stride.is_string
    span = parse_interval(stride.name) if literal else evaluate_interval(stride)
    if span is None:
        raise Untranslatable("date_bin with a length that is not written out, or has months,", hint)
    if span.total_seconds() <= 0:
        raise Untranslatable("date_bin with a length that is not above zero", hint)
    micros = (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
    zoned = "timestamp" in (type_of(moment), type_of(origin))
    at, start = (f"unix_micros(CAST({part} AS TIMESTAMP))" for part in ("_p0", "_p1"))
    kind = "TIMESTAMP" if zoned else "TIMESTAMP_NTZ"
    text = f"CAST(timestamp_micros({at} - pmod({at} - {start}, {micros})) AS {kind})"
    return fill_tree(text, moment, origin)


def _translate_to_char(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
    if len(arguments) != 2:
        return None
    value, form = arguments
    kind, pattern = type_of(value) or "", read_text(form, "a format")
    if isinstance(value.unnest(), exp.Interval) or kind.startswith("interval"):
        raise Untranslatable("to_char of an interval", "take its parts with EXTRACT")
    if is_number(kind):
        if kind in ("float", "double"):
            raise Untranslatable("to_char of a floating number", "CAST it to numeric")
        return format_number(value, pattern)
    if kind not in _MOMENTS and is_number_format(pattern):  # else all of it would be plain characters
        raise Untranslatable("to_char of a value whose type is not certain", "CAST it to numeric")
    return format_moment(value, pattern, zoned=kind == "timestamp")


def _translate_array_sum(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
    """`array_sum(a)` is the sum of an array's elements, as wide as that of a column; null without any."""
    if len(arguments) != 1:
        return None
    kind = (type_of(arguments[0]) or "").removeprefix("array<").removesuffix(">")
    if not is_number(kind):
        raise Untranslatable(
            "array_sum of an array whose elements are not certain to be numbers", "CAST it: a::int[]"
        )
    wide = (
        "bigint" if kind in ("tinyint", "smallint", "int") else "decimal(38,0)" if kind == "bigint" else kind
    )
    zero = f"CAST(0 AS {wide})"
    return fill_tree(
        f"aggregate(filter(_p0, _e -> _e IS NOT NULL), CAST(NULL AS {wide}), "
        f"(_s, _e) -> CAST(coalesce(_s, {zero}) + _e AS {wide}))",
        arguments[0],
    )


TYPED: Mapping[str, Build] = {
    "gcd": _make_integral_call("gcd", _GCD),
    "lcm": _make_integral_call(
        "lcm", f"CASE WHEN _p0 = 0 OR _p1 = 0 THEN 0 ELSE abs((_p0 DIV {_GCD}) * CAST(_p1 AS BIGINT)) END"
    ),
    **JSON_CALLS,
    "age": build_age,
    "date_bin": _translate_date_bin,
    "to_char": _translate_to_char,
}
