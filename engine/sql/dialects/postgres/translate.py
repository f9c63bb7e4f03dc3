"""What Postgres means by an expression, said so that Spark does the same."""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.dialect import Dialect
from engine.sql.dialects.postgres.casts import refuse_cast
from engine.sql.dialects.postgres.datetimes.calendar_spans import (
    attach_text,
    compare_spans,
    extract_span_field,
    format_span,
    refuse_spans,
)
from engine.sql.dialects.postgres.datetimes.intervals import parse_interval, translate_interval
from engine.sql.dialects.postgres.functions import translate_call
from engine.sql.dialects.postgres.nested.array_literals import build_array
from engine.sql.dialects.postgres.nested.json_operators import translate_json
from engine.sql.dialects.postgres.nested.list_aggregates import translate_list_aggregate
from engine.sql.dialects.postgres.nested.row_comparisons import compare_rows
from engine.sql.dialects.postgres.numbers.domain_checks import guard_domain, require_finite
from engine.sql.dialects.postgres.numbers.float_texts import format_float, is_floating
from engine.sql.dialects.postgres.numbers.numeric import format_numeric, translate_text_concat, widen_division
from engine.sql.dialects.postgres.numbers.regressions import translate_regression
from engine.sql.dialects.postgres.strings.bytea import translate_bytea
from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.untyped_literals import cast_operands
from engine.sql.expression.sketches import as_spark_percentile
from engine.sql.typing.intervals import has_months, is_span
from engine.sql.typing.whole_numbers import INTEGRAL

TypeOf = Callable[[exp.Expr], str | None]
_MOST_PARTS = 10_000
_ZONE = "zone"  # of an instant as a text: Spark shows none
_KIND = exp.DataType.Type
_FIELDS = {"ISODOW": "DOW_ISO", "ISOYEAR": "YEAROFWEEK"}
_YEARS = {"DECADE": ("FLOOR", 10), "CENTURY": ("CEIL", 100), "MILLENNIUM": ("CEIL", 1000)}
_OF_SECOND = {"MILLISECONDS": 1000, "MICROSECONDS": 1_000_000}
UNKNOWN_FIELDS = frozenset(("JULIAN", "TIMEZONE", "TIMEZONE_HOUR", "TIMEZONE_MINUTE"))


def translate_expression(node: exp.Expr, type_of: TypeOf, dialect: Dialect = "postgres") -> exp.Expr:
    """Rewrite a bound expression, innermost parts first, by the rules below; the dialects differ in how they show a zone."""
    found = _rewrite(node, type_of)
    refuse_spans(found)
    if dialect == "risingwave":
        for text in found.find_all(exp.Literal):
            if text.meta.get(_ZONE):
                text.set("this", "+00:00")
    return found


def _rewrite(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(key, _rewrite(value, type_of))
        elif isinstance(value, list):
            node.set(key, [_rewrite(v, type_of) if isinstance(v, exp.Expr) else v for v in value])
    cast_operands(node, type_of)
    for rule in (
        _translate_json,
        _translate_list,
        _translate_regression,
        _translate_percentile,
        _translate_interval,
        _translate_type,
        _translate_bytea,
        _translate_cast,
        _translate_division,
        translate_text_concat,
        _translate_dates,
        compare_rows,
        _translate_field,
        compare_spans,
        guard_domain,
        _translate_logarithm,
        _translate_pattern,
        _translate_function,
    ):
        found = rule(node, type_of)
        if found is not None:
            return _check_size(found)
    return node


def _check_size(node: exp.Expr) -> exp.Expr:
    """Return the expression; raises NotSaid if what is written out for calls in each other has grown too large."""
    if any(n > _MOST_PARTS for n, _ in enumerate(node.walk())):
        hint = "compute the inner ones in a subquery or a view"
        raise Untranslatable(f"an expression that comes to more than {_MOST_PARTS} parts", hint)
    return node


def _translate_json(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """JSON is text in its normal form. `a -> 'b'` -> `tideline_member(a, 'b')`"""
    return translate_json(node, type_of)


def _translate_list(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Nulls stay, the order counts. `array_agg(x ORDER BY y)` -> `transform(array_sort(collect_list(…), …), _e -> _e.v)`"""
    return translate_list_aggregate(node, type_of)


def _translate_regression(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A line over one point is null. `regr_slope(y, x)` -> `if(max(x) - min(x) = 0D, NULL, regr_sxy(y, x) / regr_sxx(y, x))`"""
    return translate_regression(node)


def _translate_percentile(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`approx_percentile(q, error) WITHIN GROUP (ORDER BY x)` is a sketch's answer: the middle of the bucket at a place."""
    return as_spark_percentile(node)


def _translate_interval(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Spans are said in full, or by their parts. `INTERVAL '02:00'` -> `INTERVAL '0 02:00:00.000000' DAY TO SECOND`"""
    found = translate_interval(node)
    if isinstance(node, exp.MakeInterval):
        return found
    text = node.this.name if isinstance(node, exp.Interval | exp.Cast) else ""
    unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
    if found is None and not (isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal)):
        return None
    if isinstance(unit, exp.IntervalSpan):
        return found
    return attach_text(node if found is None else found, f"{text} {unit.name}" if unit is not None else text)


def _translate_type(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """TIMESTAMP has no zone; NUMERIC without digits is wide. `TIMESTAMP` -> `TIMESTAMP_NTZ`"""
    if not isinstance(node, exp.DataType):
        return None
    if node.this == _KIND.TIMESTAMP:
        return exp.DataType(this=_KIND.TIMESTAMPNTZ)
    if node.this == _KIND.DECIMAL and not node.expressions:
        return exp.DataType.build("DECIMAL(38, 10)", dialect="spark")
    return None


def _translate_bytea(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Bytes are written and shown as hex digits. `CAST('\\xAA' AS BYTEA)` -> `X'AA'`"""
    return translate_bytea(node, type_of)


_TEXTS = (_KIND.TEXT, _KIND.VARCHAR, _KIND.CHAR, _KIND.NCHAR, _KIND.NVARCHAR)
_INSTANTS = (_KIND.TIMESTAMPTZ, _KIND.TIMESTAMPLTZ)
_HOURS_FROM_UTC = re.compile(r"(\b\d{1,2}:\d\d)(:\d\d(?:\.\d+)?)?\s*([+-]\d\d)(:\d\d)?\s*$")
"""The end of an instant with a zone: Spark wants its seconds, and the minutes of the zone."""
_NOT_AS_TEXT = ("array<", "map<", "struct<", "interval")  # Spark writes them in its own way


def _translate_cast(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A number becomes an integer by rounding, a text is cut to its length. `CAST(d AS INT)` -> `CAST(BROUND(d, 0) AS INT)`"""
    if not isinstance(node, exp.Cast):
        return None
    target = node.to
    refuse_cast(type_of(node.this), target)
    literal = isinstance(node.this, exp.Literal) and node.this.is_string
    if literal and target.this == _KIND.ARRAY and target.expressions:
        return build_array(node.this, target)
    if literal and target.this in _INSTANTS and _HOURS_FROM_UTC.search(node.this.name):
        said = _HOURS_FROM_UTC.sub(
            lambda part: f"{part[1]}{part[2] or ':00'}{part[3]}{part[4] or ':00'}", node.this.name
        )
        return type(node)(this=exp.Literal.string(said), to=target)
    if target.this in _TEXTS:
        kind = "interval" if isinstance(node.this.unnest(), exp.Interval) else type_of(node.this) or ""
        if kind == "timestamp" and not node.meta.get(_ZONE):
            node.meta[_ZONE] = True
            zone = exp.Literal.string("+00")
            zone.meta[_ZONE] = True
            plain = type(node)(this=node.this.copy(), to=exp.DataType(this=_KIND.TEXT))
            plain.meta[_ZONE] = True
            node.set("this", exp.Paren(this=exp.DPipe(this=plain, expression=zone)))
        formatted = format_float(node.this, kind) if is_floating(kind) else None
        formatted = formatted or format_numeric(node.this, kind) or format_span(node.this, type_of)
        if formatted is not None:
            return (
                _truncate_text(formatted, target)
                if target.expressions
                else type(node)(this=formatted, to=target)
            )
        if kind.startswith(_NOT_AS_TEXT):
            raise Untranslatable(f"{kind} as a text", "take its parts, or array_to_string")
    if target.this == _KIND.TIME and type_of(node.this) in ("timestamp", "timestamp_ntz"):
        return fill_tree("make_time(hour(_p0), minute(_p0), extract(SECOND FROM _p0))", node.this)
    if target.this == _KIND.BOOLEAN and type_of(node.this) == "string":
        return _translate_truth(node)
    if target.this in (_KIND.TINYINT, _KIND.SMALLINT, _KIND.INT, _KIND.BIGINT):
        source_type = type_of(node.this) or ""
        if source_type in ("float", "double") or source_type.startswith("decimal"):
            name = "ROUND" if source_type.startswith("decimal") else "BROUND"
            rounded = exp.Anonymous(this=name, expressions=[node.this, exp.Literal.number(0)])
            return type(node)(this=rounded, to=target)
    if target.this == _KIND.DECIMAL and is_floating(type_of(node.this)):
        return type(node)(this=require_finite(node.this), to=target)
    if target.this in _TEXTS and target.expressions:
        return _truncate_text(node.this, target)
    return None


def _truncate_text(value: exp.Expr, target: exp.DataType) -> exp.Expr:
    """Return a value as a text of at most as many characters as its type says."""
    text = exp.Cast(this=value, to=exp.DataType(this=_KIND.TEXT))
    return exp.Anonymous(this="LEFT", expressions=[text, target.expressions[0].this.copy()])


_TRUE = "'t', 'tr', 'tru', 'true', 'y', 'ye', 'yes', 'on', '1'"
_FALSE = "'f', 'fa', 'fal', 'fals', 'false', 'n', 'no', 'of', 'off', '0'"


def _translate_truth(node: exp.Cast) -> exp.Expr:
    """A text is a truth value by each of its words in PostgreSQL, shortened or not."""
    word = r"lower(regexp_replace(_p0, '^\\s+|\\s+$', ''))"
    text = f"CASE WHEN {word} IN ({_TRUE}) THEN TRUE WHEN {word} IN ({_FALSE}) THEN FALSE ELSE _p1 END"
    other = type(node)(this=node.this.copy(), to=node.to.copy())  # which is no truth value for Spark, either
    return exp.Paren(this=fill_tree(text, node.this, other))


def _translate_division(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`/` of two integers truncates. `i / j` -> `CAST(i DIV j AS INT)`"""
    if not isinstance(node, exp.Div):
        return None
    one, other = type_of(node.this), type_of(node.expression)
    if one not in INTEGRAL or other not in INTEGRAL:
        return widen_division(node, one, other)
    kind = max(one, other, key=INTEGRAL.index)
    quotient = exp.IntDiv(this=_wrap_operand(node.this), expression=_wrap_operand(node.expression))
    return exp.Cast(this=quotient, to=exp.DataType.build(kind, dialect="spark"))


def _translate_dates(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Two dates differ by a number of days, a date moved by an interval is a timestamp. `d - e` -> `DATEDIFF(d, e)`"""
    if isinstance(node, exp.Add | exp.Sub):
        for date, span in ((node.this, node.expression), (node.expression, node.this)):
            if type_of(date) == "date" and (is_span(span) or has_months(span)):
                moment = exp.Cast(this=date, to=exp.DataType(this=_KIND.TIMESTAMPNTZ))
                return type(node)(this=moment, expression=span)
    if isinstance(node, exp.Add):
        for moment, text in ((node.this, node.expression), (node.expression, node.this)):
            untyped = isinstance(text, exp.Literal) and text.is_string
            if untyped and type_of(moment) in ("timestamp", "timestamp_ntz"):
                return exp.Add(this=moment, expression=parse_interval(text.name))
            if type_of(moment) == "date" and type_of(text) == "time(6)":
                return exp.Anonymous(this="make_timestamp_ntz", expressions=[moment, text])
    if isinstance(node, exp.Sub) and type_of(node.this) == type_of(node.expression) == "date":
        return exp.Anonymous(this="DATEDIFF", expressions=[node.this, node.expression])
    return None


def _translate_field(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Sunday is day 0; an epoch has a fraction. `EXTRACT(DOW FROM t)` -> `(EXTRACT(DOW FROM t) - 1)`"""
    if not isinstance(node, exp.Extract):
        return None
    field = node.name.upper()
    if (part := extract_span_field(node, type_of)) is not None:
        return part
    if field == "DOW":
        return exp.Paren(this=exp.Sub(this=node, expression=exp.Literal.number(1)))
    span = node.expression.unnest()
    if field == "EPOCH" and (
        isinstance(span, exp.Interval) or (type_of(span) or "").startswith("interval day")
    ):
        if has_months(span):
            raise Untranslatable("the seconds of months", "write the span in days")
        whole = fill_tree(
            "CAST(extract(DAY FROM _p0) AS BIGINT) * 86400 + extract(HOUR FROM _p0) * 3600", span
        )
        rest = fill_tree("extract(MINUTE FROM _p0) * 60 + extract(SECOND FROM _p0)", span)
        return exp.Paren(this=exp.Add(this=whole, expression=rest))
    if field == "EPOCH":
        moment = exp.Cast(this=node.expression, to=exp.DataType.build("TIMESTAMP", dialect="spark"))
        micros = exp.Anonymous(this="UNIX_MICROS", expressions=[moment])
        return exp.Paren(this=exp.Div(this=micros, expression=exp.Literal.number(1_000_000)))
    if field in _YEARS:
        name, years = _YEARS[field]
        year = exp.Extract(this=exp.Var(this="YEAR"), expression=node.expression)
        share = exp.Div(this=year, expression=exp.Literal.number(years))
        return exp.Anonymous(this=name, expressions=[share])
    if field in _OF_SECOND:
        second = exp.Extract(this=exp.Var(this="SECOND"), expression=node.expression)
        return exp.Paren(this=exp.Mul(this=second, expression=exp.Literal.number(_OF_SECOND[field])))
    if field in _FIELDS:
        return exp.Extract(this=exp.Var(this=_FIELDS[field]), expression=node.expression)
    return None


def _translate_logarithm(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`log(x)` is the decimal one. `LOG(x)` -> `LOG10(x)`"""
    if isinstance(node, exp.Log) and node.expression is None:
        return exp.Anonymous(this="LOG10", expressions=[node.this])
    return None


def _translate_pattern(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`~*` takes no notice of case. `s ~* 'x'` -> `s RLIKE ('(?i)' || 'x')`"""
    if not isinstance(node, exp.RegexpILike):
        return None
    either = exp.DPipe(this=exp.Literal.string("(?i)"), expression=node.expression)
    return exp.RegexpLike(this=node.this, expression=exp.Paren(this=either))


def _translate_function(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A function that Spark has under another name. `string_to_array(s, ',')` -> `split(s, ',')`"""
    return translate_call(node, type_of)


def _wrap_operand(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node
