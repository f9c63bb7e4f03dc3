"""json and jsonb of PostgreSQL: their operators and casts, as calls of the functions over their texts (`engine/jsonb`).

A jsonb value is a text in normal form, so that `=`, GROUP BY and joins are those of the values; one of json keeps its text.
`->` and `#>` give the part of the text. A column that is a text is taken as json, or, where only jsonb has the operator,
brought into the normal form.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot.expressions as exp

from engine.jsonb.functions import PREFIX
from engine.jsonb.kinds import DOCUMENTS
from engine.jsonb.text import NotJson, normal, parsed
from engine.sql.dialects.postgres.filled import filled
from engine.sql.dialects.postgres.patterns import NotSaid
from engine.sql.expression.ordered_lists import CHECKED
from engine.sql.typing.expression_types import INTEGRAL
from engine.sql.typing.json_types import marked
from engine.sql.typing.types import cast_type, sql_type

TypeOf = Callable[[exp.Expr], str | None]
_KIND = exp.DataType.Type
_JSON = (_KIND.JSON, _KIND.JSONB)
_TEXTS = (_KIND.TEXT, _KIND.VARCHAR, _KIND.CHAR, _KIND.NCHAR, _KIND.NVARCHAR)
_WHOLE = (_KIND.TINYINT, _KIND.SMALLINT, _KIND.INT, _KIND.BIGINT)
_FLOATS = (_KIND.FLOAT, _KIND.DOUBLE)
_CHECKED = CHECKED.replace(":found", "_p0")
_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}"\s](?:[^,{}"]*[^,{}"\s])?))\s*')


def as_spark_json(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return a JSON operator or cast as Spark's functions, or None for any other expression; raises NotSaid."""
    match node:
        case exp.Cast():
            return _cast(node, type_of)
        case exp.JSONExtract() | exp.JSONExtractScalar() | exp.JSONBExtract() | exp.JSONBExtractScalar():
            return _part(node, type_of)
        case exp.ArrayContainsAll() if _is_document(node, type_of):
            return operation("contains", "boolean", *_documents(node, type_of))
        case exp.ArrayContainedBy() if _is_document(node, type_of):
            return operation("contains", "boolean", *reversed(_documents(node, type_of)))
        case exp.JSONBContainsTopKey():
            return operation("has_key", "boolean", document(node.this, type_of), node.expression)
        case exp.JSONBExists():
            key = node.args["path"]
            key = exp.Literal.string(_steps(key)[0]) if isinstance(key, exp.JSONPath) else key
            return operation("has_key", "boolean", document(node.this, type_of), key)
        case exp.JSONBContainsAnyTopKeys() | exp.JSONBContainsAllTopKeys():
            name = "has_any" if isinstance(node, exp.JSONBContainsAnyTopKeys) else "has_all"
            return operation(name, "boolean", document(node.this, type_of), path_of(node.expression))
        case exp.JSONBDeleteAtPath():
            return changed("without_path", document(node.this, type_of), path_of(node.expression))
        case exp.DPipe() if "jsonb" in (type_of(node.this), type_of(node.expression)):
            return _joined(node, type_of)
        case exp.Sub() if type_of(node.this) == "jsonb":
            return _without(node, type_of)
    return None


def operation(name: str, kind: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of one of the functions over JSON, which keeps its type."""
    return marked(
        exp.Anonymous(this=PREFIX + name, expressions=[argument.copy() for argument in arguments]), kind
    )


def checked(name: str, kind: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call whose answer may be what is wrong, which then fails as Spark's own functions do."""
    return marked(exp.Paren(this=filled(_CHECKED, operation(name, kind, *arguments))), kind)


def changed(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call that gives a jsonb value or fails."""
    return checked(name, "jsonb", *arguments)


def document(node: exp.Expr, type_of: TypeOf, kind: str = "jsonb") -> exp.Expr:
    """Return an expression as one of json or jsonb: a text in quotes is read now, any other text row by row."""
    given = type_of(node)
    inner = node.unnest()
    if isinstance(inner, exp.Null):
        return marked(exp.Cast(this=exp.Null(), to=exp.DataType.build("STRING", dialect="spark")), kind)
    if given == kind or (given == "jsonb" and kind == "json"):
        return marked(exp.Paren(this=node.copy()), kind)
    if isinstance(inner, exp.Literal) and inner.is_string:
        try:
            parsed(inner.name)
            return marked(exp.Literal.string(normal(inner.name) if kind == "jsonb" else inner.name), kind)
        except NotJson as error:
            raise NotSaid(str(error), "write JSON, as '{\"key\": 1}'") from error
    if given is not None and given not in ("string", "json", "void"):
        raise NotSaid(f"a {given} where {kind} is meant", "write to_jsonb(value)")
    return checked(kind, kind, node)


def path_of(node: exp.Expr) -> exp.Expr:
    """Return a path of keys as an array of texts: `'{a,0}'` is read now, an array is taken as it is."""
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        steps = [exp.Literal.string(step) for step in _braces(inner.name)]
        return _texts(exp.Anonymous(this="array", expressions=steps))
    return _texts(node)


def _texts(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build("ARRAY<STRING>", dialect="spark"))


def _braces(text: str) -> list[str]:
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise NotSaid(f"the path '{text}'", "write it as '{a,0,b}'")
    found, at, inner = list[str](), 0, inner[1:-1]
    while inner.strip():
        item = _ITEM.match(inner, at)
        if item is None or (item.end() < len(inner) and inner[item.end()] != ","):
            raise NotSaid(
                f"the path '{text}'", "write it as '{a,0,b}', keys with other characters in double quotes"
            )
        found.append(item[2] if item[1] is None else re.sub(r"\\(.)", r"\1", item[1]))
        at = item.end() + 1
        if item.end() == len(inner):
            break
    return found


def _steps(node: exp.JSONPath) -> list[str]:
    return [str(part.this) for part in node.expressions if not isinstance(part, exp.JSONPathRoot)]


# ---- parts -------------------------------------------------------------------------------------------------------
def _part(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`j -> 'a'` -> `tideline_member(j, 'a')`, `j ->> 0` -> `tideline_shown(tideline_element(j, 0))`"""
    kind = "jsonb" if type_of(node.this) == "jsonb" else "json"
    whole = document(node.this, type_of) if isinstance(node.this.unnest(), exp.Literal) else node.this
    found = _at(whole, node, kind, type_of)
    if isinstance(node, exp.JSONExtractScalar | exp.JSONBExtractScalar):
        return operation("shown", "string", found)
    return found


def _at(whole: exp.Expr, node: exp.Expr, kind: str, type_of: TypeOf) -> exp.Expr:
    key = node.expression
    if isinstance(node, exp.JSONBExtract | exp.JSONBExtractScalar):
        return operation("at", kind, whole, path_of(key))
    more = node.args.get("expressions") or []
    if not isinstance(key, exp.JSONPath):
        if node.args.get("only_json_types") is False or more:
            return operation("at", kind, whole, _texts(exp.Anonymous(this="array", expressions=[key, *more])))
        return _by_key(whole, key, kind, type_of)
    if node.args.get("only_json_types"):
        last = key.expressions[-1]
        if isinstance(last, exp.JSONPathSubscript):
            return operation("element", kind, whole, exp.Literal.number(str(last.this)))
        return operation("member", kind, whole, exp.Literal.string(str(last.this)))
    steps = [exp.Literal.string(step) for step in _steps(key)]
    return operation("at", kind, whole, _texts(exp.Anonymous(this="array", expressions=[*steps, *more])))


def _by_key(whole: exp.Expr, key: exp.Expr, kind: str, type_of: TypeOf) -> exp.Expr:
    """Return a part by a key that is computed: a number is a place in an array, a text a key of an object."""
    inner = key.unnest()
    number = isinstance(inner, exp.Neg) or (isinstance(inner, exp.Literal) and not inner.is_string)
    given = type_of(key)
    if number or given in INTEGRAL:
        return operation("element", kind, whole, exp.Cast(this=key.copy(), to=exp.DataType(this=_KIND.INT)))
    if given in ("string", None):
        return operation("member", kind, whole, exp.Cast(this=key.copy(), to=exp.DataType(this=_KIND.TEXT)))
    raise NotSaid(f"-> with a key of type {given}", "write a text or a whole number")


# ---- casts -------------------------------------------------------------------------------------------------------
def _cast(node: exp.Cast, type_of: TypeOf) -> exp.Expr | None:
    if node.to.this in _JSON:
        kind = "jsonb" if node.to.this == _KIND.JSONB else "json"
        return document(node.this, type_of, kind)
    if any(part.this in _JSON for part in node.to.find_all(exp.DataType)):
        return _nested_cast(node, type_of)
    if type_of(node.this) not in DOCUMENTS or node.to.this in _TEXTS:
        return None
    if node.to.this == _KIND.BOOLEAN:
        return exp.Cast(this=checked("truth", "string", node.this), to=node.to)
    number = checked("number", "string", node.this)
    wide = exp.DataType.build("DECIMAL(38, 10)", dialect="spark")
    if node.to.this in _WHOLE:
        rounded = exp.Anonymous(
            this="ROUND", expressions=[exp.Cast(this=number, to=wide), exp.Literal.number(0)]
        )
        return exp.Cast(this=rounded, to=node.to)
    if node.to.this in _FLOATS or node.to.this == _KIND.DECIMAL:
        return exp.Cast(this=number, to=node.to)
    raise NotSaid(f"jsonb as {node.to.sql('postgres')}", "take its text first: (j #>> '{}')::…")


def _nested_cast(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    kind = sql_type(node.to, "postgres")
    empty = isinstance(node.this.unnest(), exp.Null | exp.Array) and node.this.find(exp.Literal) is None
    if type_of(node.this) == kind or empty:
        return marked(exp.Cast(this=node.this.copy(), to=cast_type(kind)), kind)
    raise NotSaid(f"a cast to {node.to.sql('postgres')}", "cast each value to jsonb")


# ---- both sides --------------------------------------------------------------------------------------------------
def _is_document(node: exp.Expr, type_of: TypeOf) -> bool:
    """Tell whether `@>` stands between JSON values, not arrays of SQL."""
    kinds = [type_of(side) for side in (node.this, node.expression)]
    if any(isinstance(side.unnest(), exp.Array) for side in (node.this, node.expression)):
        return False
    if any((kind or "").startswith("array<") for kind in kinds):
        return False
    return any(kind in (*DOCUMENTS, "string") for kind in kinds)


def _documents(node: exp.Expr, type_of: TypeOf) -> list[exp.Expr]:
    return [document(side, type_of) for side in (node.this, node.expression)]


def _joined(node: exp.DPipe, type_of: TypeOf) -> exp.Expr | None:
    for side in (node.this, node.expression):
        quoted = isinstance(side.unnest(), exp.Literal)
        if type_of(side) == "string" and not quoted:
            return None  # a text and the text of a jsonb value
    return operation("joined", "jsonb", *_documents(node, type_of))


def _without(node: exp.Sub, type_of: TypeOf) -> exp.Expr:
    """`j - 'a'`, `j - 0`, `j - ARRAY['a', 'b']`"""
    key = node.expression
    kind = type_of(key) or ""
    if kind.startswith("array<") or isinstance(key.unnest(), exp.Array):
        return changed("without_keys", node.this, _texts(key))
    if kind in INTEGRAL:
        return changed("without_place", node.this, exp.Cast(this=key.copy(), to=exp.DataType(this=_KIND.INT)))
    if kind == "string":
        return changed("without_key", node.this, key)
    raise NotSaid("- of jsonb and a value whose type is not certain", "CAST it to text or to int")
