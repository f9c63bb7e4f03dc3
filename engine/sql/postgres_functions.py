"""Functions of Postgres that Spark has under another name, or with another meaning."""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot.expressions as exp

Build = Callable[[list[exp.Expression]], exp.Expression | None]


def _call(name: str, *arguments: exp.Expression | str | int) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[_value(argument) for argument in arguments])


def _value(argument: exp.Expression | str | int) -> exp.Expression:
    if isinstance(argument, exp.Expression):
        return argument.copy()
    return exp.Literal.number(argument) if isinstance(argument, int) else exp.Literal.string(argument)


def _if(test: exp.Expression, value: exp.Expression) -> exp.Expression:
    return exp.If(this=test, true=value, false=exp.Null())


TRANSLATED: dict[str, Build] = {
    "string_to_array": lambda a: _split(*a) if len(a) == 2 else None,
    "regexp_split_to_array": lambda a: _call("split", *a, -1) if len(a) == 2 else None,
    "array_to_string": lambda a: _call("array_join", *a),
    "array_cat": lambda a: _call("concat", *a),
    "array_prepend": lambda a: _call("array_prepend", a[1], a[0]) if len(a) == 2 else None,
    "array_position": lambda a: _call("nullif", _call("array_position", *a), 0) if len(a) == 2 else None,
    "array_length": lambda a: (
        _call("nullif", _call("size", a[0]), 0) if len(a) == 2 and _is_one(a[1]) else None
    ),
    "div": lambda a: exp.IntDiv(this=exp.Paren(this=a[0]), expression=exp.Paren(this=a[1])),
    "jsonb_array_length": lambda a: _call("json_array_length", *a),
    "btrim": lambda a: _trimmed("TRIM", a),
    "bpchar": lambda a: None,
}


def translated(name: str) -> bool:
    """Tell whether a function that Spark does not know has a translation."""
    return name in TRANSLATED or name == "regexp_match"


def as_spark_call(node: exp.Expression) -> exp.Expression | None:
    """Return a call as Spark says it, or None if it says the same."""
    if isinstance(node, exp.Bracket):
        return _matched_group(node)
    build = TRANSLATED.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
    return build(list(node.expressions)) if build is not None else None


def _is_one(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and node.name == "1"


def _split(text: exp.Expression, separator: exp.Expression) -> exp.Expression | None:
    if not isinstance(separator, exp.Literal) or not separator.is_string:
        return None
    parts = _call("split", text, re.escape(separator.name).replace("\\", "\\\\"), -1)
    empty = exp.Cast(this=_call("array"), to=exp.DataType.build("ARRAY<STRING>", dialect="spark"))
    return exp.If(this=exp.EQ(this=text.copy(), expression=exp.Literal.string("")), true=empty, false=parts)


def _trimmed(position: str, a: list[exp.Expression]) -> exp.Expression:
    return exp.Trim(this=a[0], expression=a[1] if len(a) > 1 else None, position="BOTH")


def _matched_group(node: exp.Bracket) -> exp.Expression | None:
    """`(regexp_match(s, p))[k]` -> `IF(s RLIKE p, regexp_extract(s, p, k), NULL)`"""
    call = node.this.unnest() if isinstance(node.this, exp.Paren) else node.this
    if not isinstance(call, exp.Anonymous) or call.name.lower() != "regexp_match":
        return None
    text, pattern, *flags = call.expressions
    place = node.expressions[0]
    if flags or not isinstance(pattern, exp.Literal) or not isinstance(place, exp.Literal):
        return None
    groups = re.compile(pattern.name).groups
    group = int(place.name) + 1 if groups else 0
    if group > max(groups, 1):
        return exp.Null()
    found = exp.RegexpLike(this=text.copy(), expression=pattern.copy())
    return _if(found, _call("regexp_extract", text, pattern, group))
