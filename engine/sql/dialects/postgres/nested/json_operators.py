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
from engine.jsonb.text import NotJson, normalize_json, parse_json
from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.expression.ordered_lists import CHECKED
from engine.sql.typing.json_types import mark_type
from engine.sql.typing.types import cast_type, parse_sql_type
from engine.sql.typing.whole_numbers import INTEGRAL

TypeOf = Callable[[exp.Expr], str | None]
_KIND = exp.DataType.Type
_JSON = (_KIND.JSON, _KIND.JSONB)
_TEXTS = (_KIND.TEXT, _KIND.VARCHAR, _KIND.CHAR, _KIND.NCHAR, _KIND.NVARCHAR)
_WHOLE = (_KIND.TINYINT, _KIND.SMALLINT, _KIND.INT, _KIND.BIGINT)
_FLOATS = (_KIND.FLOAT, _KIND.DOUBLE)
_CHECKED = CHECKED.replace(":found", "_p0")
_ITEM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}"\s](?:[^,{}"]*[^,{}"\s])?))\s*')


def translate_json(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Return a JSON operator or cast as Spark's functions, or None for any other expression; raises NotSaid."""
    match node:
        case exp.Cast():
            return _translate_cast(node, type_of)
        case exp.JSONExtract() | exp.JSONExtractScalar() | exp.JSONBExtract() | exp.JSONBExtractScalar():
            return _translate_access(node, type_of)
        case exp.ArrayContainsAll() if _is_document(node, type_of):
            return call_json("contains", "boolean", *_read_documents(node, type_of))
        case exp.ArrayContainedBy() if _is_document(node, type_of):
            return call_json("contains", "boolean", *reversed(_read_documents(node, type_of)))
        case exp.JSONBContainsTopKey():
            return call_json("has_key", "boolean", read_document(node.this, type_of), node.expression)
        case exp.JSONBExists():
            key = node.args["path"]
            key = exp.Literal.string(_list_steps(key)[0]) if isinstance(key, exp.JSONPath) else key
            return call_json("has_key", "boolean", read_document(node.this, type_of), key)
        case exp.JSONBContainsAnyTopKeys() | exp.JSONBContainsAllTopKeys():
            name = "has_any" if isinstance(node, exp.JSONBContainsAnyTopKeys) else "has_all"
            return call_json(name, "boolean", read_document(node.this, type_of), read_path(node.expression))
        case exp.JSONBDeleteAtPath():
            return call_jsonb_checked(
                "without_path", read_document(node.this, type_of), read_path(node.expression)
            )
        case exp.DPipe() if "jsonb" in (type_of(node.this), type_of(node.expression)):
            return _translate_concat(node, type_of)
        case exp.Sub() if type_of(node.this) == "jsonb":
            return _translate_removal(node, type_of)
    return None


def call_json(name: str, kind: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of one of the functions over JSON, which keeps its type."""
    return mark_type(
        exp.Anonymous(this=PREFIX + name, expressions=[argument.copy() for argument in arguments]), kind
    )


def call_json_checked(name: str, kind: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call whose answer may be what is wrong, which then fails as Spark's own functions do."""
    return mark_type(exp.Paren(this=fill_tree(_CHECKED, call_json(name, kind, *arguments))), kind)


def call_jsonb_checked(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call that gives a jsonb value or fails."""
    return call_json_checked(name, "jsonb", *arguments)


def read_document(node: exp.Expr, type_of: TypeOf, kind: str = "jsonb") -> exp.Expr:
    """Return an expression as one of json or jsonb: a text in quotes is read now, any other text row by row."""
    source_type = type_of(node)
    inner = node.unnest()
    if isinstance(inner, exp.Null):
        return mark_type(exp.Cast(this=exp.Null(), to=exp.DataType.build("STRING", dialect="spark")), kind)
    if source_type == kind or (source_type == "jsonb" and kind == "json"):
        return mark_type(exp.Paren(this=node.copy()), kind)
    if isinstance(inner, exp.Literal) and inner.is_string:
        try:
            parse_json(inner.name)
            return mark_type(
                exp.Literal.string(normalize_json(inner.name) if kind == "jsonb" else inner.name), kind
            )
        except NotJson as error:
            raise Untranslatable(str(error), "write JSON, as '{\"key\": 1}'") from error
    if source_type is not None and source_type not in ("string", "json", "void"):
        raise Untranslatable(f"a {source_type} where {kind} is meant", "write to_jsonb(value)")
    return call_json_checked(kind, kind, node)


def read_path(node: exp.Expr) -> exp.Expr:
    """Return a path of keys as an array of texts: `'{a,0}'` is read now, an array is taken as it is."""
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        steps = [exp.Literal.string(step) for step in _split_braces(inner.name)]
        return _read_texts(exp.Anonymous(this="array", expressions=steps))
    return _read_texts(node)


def _read_texts(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build("ARRAY<STRING>", dialect="spark"))


def _split_braces(text: str) -> list[str]:
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise Untranslatable(f"the path '{text}'", "write it as '{a,0,b}'")
    found, at, inner = list[str](), 0, inner[1:-1]
    while inner.strip():
        item = _ITEM.match(inner, at)
        if item is None or (item.end() < len(inner) and inner[item.end()] != ","):
            raise Untranslatable(
                f"the path '{text}'", "write it as '{a,0,b}', keys with other characters in double quotes"
            )
        found.append(item[2] if item[1] is None else re.sub(r"\\(.)", r"\1", item[1]))
        at = item.end() + 1
        if item.end() == len(inner):
            break
    return found


def _list_steps(node: exp.JSONPath) -> list[str]:
    return [str(part.this) for part in node.expressions if not isinstance(part, exp.JSONPathRoot)]


# ---- parts -------------------------------------------------------------------------------------------------------
def _translate_access(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`j -> 'a'` -> `tideline_member(j, 'a')`, `j ->> 0` -> `tideline_shown(tideline_element(j, 0))`"""
    kind = "jsonb" if type_of(node.this) == "jsonb" else "json"
    whole = read_document(node.this, type_of) if isinstance(node.this.unnest(), exp.Literal) else node.this
    found = _access_part(whole, node, kind, type_of)
    if isinstance(node, exp.JSONExtractScalar | exp.JSONBExtractScalar):
        return call_json("shown", "string", found)
    return found


def _access_part(whole: exp.Expr, node: exp.Expr, kind: str, type_of: TypeOf) -> exp.Expr:
    key = node.expression
    if isinstance(node, exp.JSONBExtract | exp.JSONBExtractScalar):
        return call_json("at", kind, whole, read_path(key))
    more = node.args.get("expressions") or []
    if not isinstance(key, exp.JSONPath):
        if node.args.get("only_json_types") is False or more:
            return call_json(
                "at", kind, whole, _read_texts(exp.Anonymous(this="array", expressions=[key, *more]))
            )
        return _access_by_key(whole, key, kind, type_of)
    if node.args.get("only_json_types"):
        last = key.expressions[-1]
        if isinstance(last, exp.JSONPathSubscript):
            return call_json("element", kind, whole, exp.Literal.number(str(last.this)))
        return call_json("member", kind, whole, exp.Literal.string(str(last.this)))
    steps = [exp.Literal.string(step) for step in _list_steps(key)]
    return call_json("at", kind, whole, _read_texts(exp.Anonymous(this="array", expressions=[*steps, *more])))


def _access_by_key(whole: exp.Expr, key: exp.Expr, kind: str, type_of: TypeOf) -> exp.Expr:
    """Return a part by a key that is computed: a number is a place in an array, a text a key of an object."""
    inner = key.unnest()
    number = isinstance(inner, exp.Neg) or (isinstance(inner, exp.Literal) and not inner.is_string)
    key_type = type_of(key)
    if number or key_type in INTEGRAL:
        return call_json("element", kind, whole, exp.Cast(this=key.copy(), to=exp.DataType(this=_KIND.INT)))
    if key_type in ("string", None):
        return call_json("member", kind, whole, exp.Cast(this=key.copy(), to=exp.DataType(this=_KIND.TEXT)))
    raise Untranslatable(f"-> with a key of type {key_type}", "write a text or a whole number")


# ---- casts -------------------------------------------------------------------------------------------------------
def _translate_cast(node: exp.Cast, type_of: TypeOf) -> exp.Expr | None:
    if node.to.this in _JSON:
        kind = "jsonb" if node.to.this == _KIND.JSONB else "json"
        return read_document(node.this, type_of, kind)
    if any(part.this in _JSON for part in node.to.find_all(exp.DataType)):
        return _translate_nested_cast(node, type_of)
    if type_of(node.this) not in DOCUMENTS or node.to.this in _TEXTS:
        return None
    if node.to.this == _KIND.BOOLEAN:
        return exp.Cast(this=call_json_checked("truth", "string", node.this), to=node.to)
    number = call_json_checked("number", "string", node.this)
    wide = exp.DataType.build("DECIMAL(38, 10)", dialect="spark")
    if node.to.this in _WHOLE:
        rounded = exp.Anonymous(
            this="ROUND", expressions=[exp.Cast(this=number, to=wide), exp.Literal.number(0)]
        )
        return exp.Cast(this=rounded, to=node.to)
    if node.to.this in _FLOATS or node.to.this == _KIND.DECIMAL:
        return exp.Cast(this=number, to=node.to)
    raise Untranslatable(f"jsonb as {node.to.sql('postgres')}", "take its text first: (j #>> '{}')::…")


def _translate_nested_cast(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    kind = parse_sql_type(node.to, "postgres")
    empty = isinstance(node.this.unnest(), exp.Null | exp.Array) and node.this.find(exp.Literal) is None
    if type_of(node.this) == kind or empty:
        return mark_type(exp.Cast(this=node.this.copy(), to=cast_type(kind)), kind)
    raise Untranslatable(f"a cast to {node.to.sql('postgres')}", "cast each value to jsonb")


# ---- both sides --------------------------------------------------------------------------------------------------
def _is_document(node: exp.Expr, type_of: TypeOf) -> bool:
    """Tell whether `@>` stands between JSON values, not arrays of SQL."""
    kinds = [type_of(side) for side in (node.this, node.expression)]
    if any(isinstance(side.unnest(), exp.Array) for side in (node.this, node.expression)):
        return False
    if any((kind or "").startswith("array<") for kind in kinds):
        return False
    return any(kind in (*DOCUMENTS, "string") for kind in kinds)


def _read_documents(node: exp.Expr, type_of: TypeOf) -> list[exp.Expr]:
    return [read_document(side, type_of) for side in (node.this, node.expression)]


def _translate_concat(node: exp.DPipe, type_of: TypeOf) -> exp.Expr | None:
    for side in (node.this, node.expression):
        quoted = isinstance(side.unnest(), exp.Literal)
        if type_of(side) == "string" and not quoted:
            return None  # a text and the text of a jsonb value
    return call_json("joined", "jsonb", *_read_documents(node, type_of))


def _translate_removal(node: exp.Sub, type_of: TypeOf) -> exp.Expr:
    """`j - 'a'`, `j - 0`, `j - ARRAY['a', 'b']`"""
    key = node.expression
    kind = type_of(key) or ""
    if kind.startswith("array<") or isinstance(key.unnest(), exp.Array):
        return call_jsonb_checked("without_keys", node.this, _read_texts(key))
    if kind in INTEGRAL:
        return call_jsonb_checked(
            "without_place", node.this, exp.Cast(this=key.copy(), to=exp.DataType(this=_KIND.INT))
        )
    if kind == "string":
        return call_jsonb_checked("without_key", node.this, key)
    raise Untranslatable("- of jsonb and a value whose type is not certain", "CAST it to text or to int")
