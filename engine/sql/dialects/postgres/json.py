"""JSON operators of Postgres over text columns, by Spark's JSON and variant functions.

A json or jsonb value is a text. `->` and `#>` give JSON text (a string keeps its quotes), `->>` and `#>>` plain text.
`@>` takes an object or a scalar on its right, written out; `?` asks for a key of an object. `::jsonb` checks the text and brings
it into Spark's compact form with sorted keys, so numbers and spaces print otherwise than in Postgres.
"""

from __future__ import annotations

import json
from typing import Any

import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.sql.dialects.postgres.filled import filled

_JSON = (exp.DataType.Type.JSON, exp.DataType.Type.JSONB)


def as_spark_json(node: exp.Expr) -> exp.Expr | None:
    """Return a JSON operator or cast as Spark's functions, or None for any other expression."""
    match node:
        case exp.JSONExtract() | exp.JSONExtractScalar() if _from_end(node.expression):
            place = node.expression.copy()
            item = "try_element_at(try_variant_get(parse_json(_p0), '$', 'array<variant>'), _p1)"
            if isinstance(node, exp.JSONExtract):
                return filled(f"to_json({item})", node.this, place)
            text = f"CASE schema_of_variant({item}) WHEN 'VOID' THEN NULL WHEN 'STRING' THEN variant_get({item}, '$', 'string') "
            return filled(f"{text} ELSE to_json({item}) END", node.this, place)
        case exp.JSONExtract():
            path = _path(node.expression)
            return None if path is None else _json_at(node.this, path)
        case exp.JSONExtractScalar():
            path = _path(node.expression)
            return None if path is None else _call("GET_JSON_OBJECT", node.this, _text(path))
        case exp.JSONBExtract():
            return _json_at(node.this, _braces(node.expression))
        case exp.JSONBExtractScalar():
            return _call("GET_JSON_OBJECT", node.this, _text(_braces(node.expression)))
        case exp.JSONBContainsTopKey():
            if not isinstance(node.expression, exp.Literal):
                raise UnsupportedSql("? needs a key that is written out", hint="write column ? 'key'")
            found = _variant_at(node.this, "$" + _step(node.expression.name))
            return exp.Paren(this=exp.Not(this=exp.Is(this=found, expression=exp.Null())))
        case exp.ArrayContainsAll():
            value = _literal(node.expression)
            if value is None:
                return None
            return exp.Paren(this=_contains(node.this, "$", json.loads(value)))
        case exp.Cast() if node.to.this in _JSON:
            return _call("TO_JSON", _call("PARSE_JSON", node.this))
    return None


def _from_end(node: exp.Expr) -> bool:
    """Tell whether a key is a place that is counted from the end of an array."""
    return isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


def _text(text: str) -> exp.Literal:
    return exp.Literal.string(text)


def _variant_at(node: exp.Expr, path: str, kind: str | None = None) -> exp.Anonymous:
    arguments = [_call("PARSE_JSON", node), _text(path)] + ([_text(kind)] if kind else [])
    return _call("TRY_VARIANT_GET", *arguments)


def _json_at(node: exp.Expr, path: str) -> exp.Anonymous:
    return _call("TO_JSON", _variant_at(node, path))


def _step(key: str) -> str:
    if key.isdigit():
        return f"[{key}]"
    return f".{key}" if key.isidentifier() else "['" + key.replace("'", "\\'") + "']"


def _path(node: exp.Expr) -> str | None:
    if not isinstance(node, exp.JSONPath):
        raise UnsupportedSql(
            "a JSON key that is not written out is not offered", hint="write column -> 'key' or column -> 0"
        )
    steps = []
    for part in node.expressions:
        if isinstance(part, exp.JSONPathKey):
            key = str(part.this)
            steps.append(f"['{key}']" if key.isdigit() else _step(key))
        elif isinstance(part, exp.JSONPathSubscript) and isinstance(part.this, int) and part.this >= 0:
            steps.append(f"[{part.this}]")
        elif not isinstance(part, exp.JSONPathRoot):
            raise UnsupportedSql("this JSON path is not offered", hint="count from the start: column -> 0")
    return "$" + "".join(steps)


def _braces(node: exp.Expr) -> str:
    text = node.name if isinstance(node, exp.Literal) else ""
    if not (text.startswith("{") and text.endswith("}")):
        raise UnsupportedSql("#> needs a path that is written out", hint="write column #> '{a,0,b}'")
    inner = text[1:-1].strip()
    return "$" + "".join(_step(part.strip().strip('"')) for part in inner.split(",") if inner)


def _literal(node: exp.Expr) -> str | None:
    """Return the JSON text on the right of @>, or None if it is an array of SQL."""
    if (
        isinstance(node, exp.Anonymous)
        and node.name == "TO_JSON"
        and isinstance(node.expressions[0], exp.Anonymous)
    ):
        node = node.expressions[0].expressions[0]
    if isinstance(node, exp.Cast) and node.to.this in _JSON:
        node = node.this
    if not isinstance(node, exp.Literal) or not node.is_string:
        return None
    try:
        json.loads(node.name)
    except ValueError as error:
        raise UnsupportedSql(f"{node.sql()} is no JSON", hint="write @> '{\"key\": value}'") from error
    return node.name


def _contains(node: exp.Expr, path: str, value: Any) -> exp.Expr:
    """Return whether the JSON at a path holds a value: an object all of its keys, a scalar just itself."""
    if isinstance(value, list):
        raise UnsupportedSql("@> with an array is not offered", hint="compare elements: column -> 0 = '1'")
    kind = _call("SCHEMA_OF_VARIANT", _variant_at(node, path))
    if isinstance(value, dict):
        parts: list[exp.Expr] = [exp.Like(this=kind, expression=_text("OBJECT<%"))]
        parts += [_contains(node, path + _step(key), inner) for key, inner in value.items()]
        return _all(parts)
    if value is None:
        return _all([exp.EQ(this=kind, expression=_text("VOID"))])
    if isinstance(value, bool):
        return _all(
            [
                exp.EQ(this=kind, expression=_text("BOOLEAN")),
                exp.EQ(this=_variant_at(node, path, "boolean"), expression=exp.Boolean(this=value)),
            ]
        )
    if isinstance(value, str):
        return _all(
            [
                exp.EQ(this=kind, expression=_text("STRING")),
                exp.EQ(this=_variant_at(node, path, "string"), expression=_text(value)),
            ]
        )
    number = _variant_at(node, path, "double" if isinstance(value, float) else "decimal(38,10)")
    other = exp.Not(this=exp.In(this=kind, expressions=[_text("STRING"), _text("BOOLEAN"), _text("VOID")]))
    return _all([other, exp.EQ(this=number, expression=exp.Literal.number(str(value)))])


def _all(parts: list[exp.Expr]) -> exp.Expr:
    """Return the conjunction of parts; an unknown one is false, as nothing is contained in what is not there."""
    return _call("COALESCE", exp.and_(*parts), exp.Boolean(this=False))
