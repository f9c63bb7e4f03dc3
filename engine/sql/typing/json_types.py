"""Which expressions over JSON give json, jsonb or a text, as they are written, before they are said in Spark's words.

What they are translated to keeps the type as a mark, since Spark knows but texts.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlglot.expressions as exp

TypeOf = Callable[[exp.Expr | None], str | None]
_MARK = "sql_type"
_JSONB = frozenset(
    f"jsonb_{name}"
    for name in (
        "build_object", "build_array", "agg", "object_agg", "object", "extract_path", "set", "insert", "strip_nulls",
        "concat", "delete", "delete_path",
    )
)  # fmt: skip
_JSON = frozenset(
    f"json_{name}"
    for name in ("build_object", "build_array", "agg", "object_agg", "extract_path", "strip_nulls")
)
_NAMED = {
    **dict.fromkeys(_JSONB, "jsonb"),
    **dict.fromkeys(_JSON, "json"),
    **dict.fromkeys(("to_json", "row_to_json", "array_to_json"), "json"),
    "to_jsonb": "jsonb",
    **{f"{kind}_typeof": "string" for kind in ("json", "jsonb")},
    **{f"{kind}_array_length": "int" for kind in ("json", "jsonb")},
    **{f"{kind}_extract_path_text": "string" for kind in ("json", "jsonb")},
    "jsonb_pretty": "string",
    **{f"{kind}_array_elements": f"array<{kind}>" for kind in ("json", "jsonb")},
    **{f"{kind}_array_elements_text": "array<string>" for kind in ("json", "jsonb")},
    **{f"{kind}_object_keys": "array<string>" for kind in ("json", "jsonb")},
    **{f"{kind}_each": f"array<struct<key:string,value:{kind}>>" for kind in ("json", "jsonb")},
    **{f"{kind}_each_text": "array<struct<key:string,value:string>>" for kind in ("json", "jsonb")},
    **dict.fromkeys(("jsonb_contains", "jsonb_exists", "jsonb_exists_any", "jsonb_exists_all"), "boolean"),
}
_NODES: dict[type[exp.Expr], str] = {
    exp.JSONArrayAgg: "json",
    exp.JSONObjectAgg: "json",
    exp.JSONBObjectAgg: "jsonb",
    exp.JSONExtractScalar: "string",
    exp.JSONBExtractScalar: "string",
}


def mark_type(node: exp.Expr, kind: str) -> exp.Expr:
    """Return a translated expression that keeps its type in SQL."""
    node.meta[_MARK] = kind
    return node


def strip_mark(node: exp.Expr) -> exp.Expr:
    """Return a copy of a translated expression without its type in SQL."""
    found = node.copy()
    found.meta.pop(_MARK, None)
    return found


def get_mark(node: exp.Expr) -> str | None:
    """Return the type in SQL that a translated expression keeps, if it has one."""
    kind: str | None = node.meta.get(_MARK)
    return kind


def infer_json_type(node: exp.Expr, type_of: TypeOf) -> str | None:
    """Return the type of an expression over JSON as it is written, None for any other."""
    if type(node) in _NODES:
        return _NODES[type(node)]
    match node:
        case exp.JSONExtract() | exp.JSONBExtract():
            return "jsonb" if type_of(node.this) == "jsonb" else "json"
        case exp.JSONBDeleteAtPath():
            return "jsonb"
        case exp.Anonymous():
            return _NAMED.get(node.name.lower())
    return None


def infer_concat_type(node: exp.DPipe, one: str | None, other: str | None) -> str | None:
    """Return the type of `||` of two types: a text in quotes beside jsonb is jsonb."""
    if "jsonb" in (one, other):
        texts = [part for part, kind in ((node.this, one), (node.expression, other)) if kind == "string"]
        return "jsonb" if all(isinstance(part.unnest(), exp.Literal) for part in texts) else "string"
    return "string" if one == other == "string" else None
