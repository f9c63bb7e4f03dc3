"""What Postgres means by an expression, said so that Spark does the same."""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot.expressions as exp

from engine.sql.dialect import Dialect
from engine.sql.dialects.postgres.array_texts import array_of
from engine.sql.dialects.postgres.bytea import as_spark_bytea
from engine.sql.dialects.postgres.calendar import (
    compared_spans,
    field_of_span,
    refuse_spans,
    said,
    text_of_span,
)
from engine.sql.dialects.postgres.casts import refuse_cast
from engine.sql.dialects.postgres.domains import finite, within_domain
from engine.sql.dialects.postgres.filled import filled
from engine.sql.dialects.postgres.functions import as_spark_call
from engine.sql.dialects.postgres.json import as_spark_json
from engine.sql.dialects.postgres.lists import as_spark_list
from engine.sql.dialects.postgres.literals import type_literals
from engine.sql.dialects.postgres.number_texts import is_floating, shown_float
from engine.sql.dialects.postgres.numeric import finer_division, joined_text, shown_numeric
from engine.sql.dialects.postgres.patterns import NotSaid
from engine.sql.dialects.postgres.regressions import as_spark_regression
from engine.sql.dialects.postgres.row_values import compared_rows
from engine.sql.dialects.postgres.spans import as_spark_interval, written_interval
from engine.sql.expression.sketches import as_spark_percentile
from engine.sql.typing.expression_types import INTEGRAL
from engine.sql.typing.intervals import has_months, is_span

TypeOf = Callable[[exp.Expr], str | None]
_MOST_PARTS = 10_000
_ZONE = "zone"  # of an instant as a text: Spark shows none
_KIND = exp.DataType.Type
_FIELDS = {"ISODOW": "DOW_ISO", "ISOYEAR": "YEAROFWEEK"}
_YEARS = {"DECADE": ("FLOOR", 10), "CENTURY": ("CEIL", 100), "MILLENNIUM": ("CEIL", 1000)}
_OF_SECOND = {"MILLISECONDS": 1000, "MICROSECONDS": 1_000_000}
UNKNOWN_FIELDS = frozenset(("JULIAN", "TIMEZONE", "TIMEZONE_HOUR", "TIMEZONE_MINUTE"))


def as_spark(node: exp.Expr, type_of: TypeOf, dialect: Dialect = "postgres") -> exp.Expr:
    """Rewrite a bound expression, innermost parts first, by the rules below; the dialects differ in how they show a zone."""
    found = _rewritten(node, type_of)
    refuse_spans(found)
    if dialect == "risingwave":
        for text in found.find_all(exp.Literal):
            if text.meta.get(_ZONE):
                text.set("this", "+00:00")
    return found


def _rewritten(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            node.set(key, _rewritten(value, type_of))
        elif isinstance(value, list):
            node.set(key, [_rewritten(v, type_of) if isinstance(v, exp.Expr) else v for v in value])
    type_literals(node, type_of)
    for rule in (
        _json,
        _list,
        _regression,
        _percentile,
        _interval,
        _type,
        _bytea,
        _cast,
        _division,
        joined_text,
        _dates,
        compared_rows,
        _field,
        compared_spans,
        within_domain,
        _logarithm,
        _pattern,
        _function,
    ):
        found = rule(node, type_of)
        if found is not None:
            return _of_bounded_size(found)
    return node


def _of_bounded_size(node: exp.Expr) -> exp.Expr:
    """Return the expression; raises NotSaid if what is written out for calls in each other has grown too large."""
    if any(n > _MOST_PARTS for n, _ in enumerate(node.walk())):
        hint = "compute the inner ones in a subquery or a view"
        raise NotSaid(f"an expression that comes to more than {_MOST_PARTS} parts", hint)
    return node


def _json(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """JSON is text in its normal form. `a -> 'b'` -> `tideline_member(a, 'b')`"""
    return as_spark_json(node, type_of)


def _list(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Nulls stay, the order counts. `array_agg(x ORDER BY y)` -> `transform(array_sort(collect_list(…), …), _e -> _e.v)`"""
    return as_spark_list(node, type_of)


def _regression(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A line over one point is null. `regr_slope(y, x)` -> `if(max(x) - min(x) = 0D, NULL, regr_sxy(y, x) / regr_sxx(y, x))`"""
    return as_spark_regression(node)


def _percentile(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`approx_percentile(q, error) WITHIN GROUP (ORDER BY x)` is a sketch's answer: the middle of the bucket at a place."""
    return as_spark_percentile(node)


def _interval(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Spans are said in full, or by their parts. `INTERVAL '02:00'` -> `INTERVAL '0 02:00:00.000000' DAY TO SECOND`"""
    found = as_spark_interval(node)
    if isinstance(node, exp.MakeInterval):
        return found
    text = node.this.name if isinstance(node, exp.Interval | exp.Cast) else ""
    unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
    if found is None and not (isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal)):
        return None
    if isinstance(unit, exp.IntervalSpan):
        return found
    return said(node if found is None else found, f"{text} {unit.name}" if unit is not None else text)


def _type(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """TIMESTAMP has no zone; NUMERIC without digits is wide. `TIMESTAMP` -> `TIMESTAMP_NTZ`"""
    if not isinstance(node, exp.DataType):
        return None
    if node.this == _KIND.TIMESTAMP:
        return exp.DataType(this=_KIND.TIMESTAMPNTZ)
    if node.this == _KIND.DECIMAL and not node.expressions:
        return exp.DataType.build("DECIMAL(38, 10)", dialect="spark")
    return None


def _bytea(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Bytes are written and shown as hex digits. `CAST('\\xAA' AS BYTEA)` -> `X'AA'`"""
    return as_spark_bytea(node, type_of)


_TEXTS = (_KIND.TEXT, _KIND.VARCHAR, _KIND.CHAR, _KIND.NCHAR, _KIND.NVARCHAR)
_INSTANTS = (_KIND.TIMESTAMPTZ, _KIND.TIMESTAMPLTZ)
_HOURS_FROM_UTC = re.compile(r"(\b\d{1,2}:\d\d)(:\d\d(?:\.\d+)?)?\s*([+-]\d\d)(:\d\d)?\s*$")
"""The end of an instant with a zone: Spark wants its seconds, and the minutes of the zone."""
_NOT_AS_TEXT = ("array<", "map<", "struct<", "interval")  # Spark writes them in its own way


def _cast(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A number becomes an integer by rounding, a text is cut to its length. `CAST(d AS INT)` -> `CAST(BROUND(d, 0) AS INT)`"""
    if not isinstance(node, exp.Cast):
        return None
    target = node.to
    refuse_cast(type_of(node.this), target)
    literal = isinstance(node.this, exp.Literal) and node.this.is_string
    if literal and target.this == _KIND.ARRAY and target.expressions:
        return array_of(node.this, target)
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
        shown = shown_float(node.this, kind) if is_floating(kind) else None
        shown = shown or shown_numeric(node.this, kind) or text_of_span(node.this, type_of)
        if shown is not None:
            return _cut(shown, target) if target.expressions else type(node)(this=shown, to=target)
        if kind.startswith(_NOT_AS_TEXT):
            raise NotSaid(f"{kind} as a text", "take its parts, or array_to_string")
    if target.this == _KIND.TIME and type_of(node.this) in ("timestamp", "timestamp_ntz"):
        return filled("make_time(hour(_p0), minute(_p0), extract(SECOND FROM _p0))", node.this)
    if target.this == _KIND.BOOLEAN and type_of(node.this) == "string":
        return _truth(node)
    if target.this in (_KIND.TINYINT, _KIND.SMALLINT, _KIND.INT, _KIND.BIGINT):
        given = type_of(node.this) or ""
        if given in ("float", "double") or given.startswith("decimal"):
            name = "ROUND" if given.startswith("decimal") else "BROUND"
            rounded = exp.Anonymous(this=name, expressions=[node.this, exp.Literal.number(0)])
            return type(node)(this=rounded, to=target)
    if target.this == _KIND.DECIMAL and is_floating(type_of(node.this)):
        return type(node)(this=finite(node.this), to=target)
    if target.this in _TEXTS and target.expressions:
        return _cut(node.this, target)
    return None


def _cut(value: exp.Expr, target: exp.DataType) -> exp.Expr:
    """Return a value as a text of at most as many characters as its type says."""
    text = exp.Cast(this=value, to=exp.DataType(this=_KIND.TEXT))
    return exp.Anonymous(this="LEFT", expressions=[text, target.expressions[0].this.copy()])


_TRUE = "'t', 'tr', 'tru', 'true', 'y', 'ye', 'yes', 'on', '1'"
_FALSE = "'f', 'fa', 'fal', 'fals', 'false', 'n', 'no', 'of', 'off', '0'"


def _truth(node: exp.Cast) -> exp.Expr:
    """A text is a truth value by each of its words in PostgreSQL, shortened or not."""
    word = r"lower(regexp_replace(_p0, '^\\s+|\\s+$', ''))"
    text = f"CASE WHEN {word} IN ({_TRUE}) THEN TRUE WHEN {word} IN ({_FALSE}) THEN FALSE ELSE _p1 END"
    other = type(node)(this=node.this.copy(), to=node.to.copy())  # which is no truth value for Spark, either
    return exp.Paren(this=filled(text, node.this, other))


def _division(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`/` of two integers truncates. `i / j` -> `CAST(i DIV j AS INT)`"""
    if not isinstance(node, exp.Div):
        return None
    one, other = type_of(node.this), type_of(node.expression)
    if one not in INTEGRAL or other not in INTEGRAL:
        return finer_division(node, one, other)
    kind = max(one, other, key=INTEGRAL.index)
    quotient = exp.IntDiv(this=_operand(node.this), expression=_operand(node.expression))
    return exp.Cast(this=quotient, to=exp.DataType.build(kind, dialect="spark"))


def _dates(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
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
                return exp.Add(this=moment, expression=written_interval(text.name))
            if type_of(moment) == "date" and type_of(text) == "time(6)":
                return exp.Anonymous(this="make_timestamp_ntz", expressions=[moment, text])
    if isinstance(node, exp.Sub) and type_of(node.this) == type_of(node.expression) == "date":
        return exp.Anonymous(this="DATEDIFF", expressions=[node.this, node.expression])
    return None


def _field(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Sunday is day 0; an epoch has a fraction. `EXTRACT(DOW FROM t)` -> `(EXTRACT(DOW FROM t) - 1)`"""
    if not isinstance(node, exp.Extract):
        return None
    field = node.name.upper()
    if (part := field_of_span(node, type_of)) is not None:
        return part
    if field == "DOW":
        return exp.Paren(this=exp.Sub(this=node, expression=exp.Literal.number(1)))
    span = node.expression.unnest()
    if field == "EPOCH" and (
        isinstance(span, exp.Interval) or (type_of(span) or "").startswith("interval day")
    ):
        if has_months(span):
            raise NotSaid("the seconds of months", "write the span in days")
        whole = filled("CAST(extract(DAY FROM _p0) AS BIGINT) * 86400 + extract(HOUR FROM _p0) * 3600", span)
        rest = filled("extract(MINUTE FROM _p0) * 60 + extract(SECOND FROM _p0)", span)
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


def _logarithm(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`log(x)` is the decimal one. `LOG(x)` -> `LOG10(x)`"""
    if isinstance(node, exp.Log) and node.expression is None:
        return exp.Anonymous(this="LOG10", expressions=[node.this])
    return None


def _pattern(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """`~*` takes no notice of case. `s ~* 'x'` -> `s RLIKE ('(?i)' || 'x')`"""
    if not isinstance(node, exp.RegexpILike):
        return None
    either = exp.DPipe(this=exp.Literal.string("(?i)"), expression=node.expression)
    return exp.RegexpLike(this=node.this, expression=exp.Paren(this=either))


def _function(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A function that Spark has under another name. `string_to_array(s, ',')` -> `split(s, ',')`"""
    return as_spark_call(node, type_of)


def _operand(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Binary) else node
