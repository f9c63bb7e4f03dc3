"""Functions of PostgreSQL that make, change and take apart json and jsonb values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlglot.expressions as exp

from engine.jsonb.kinds import DOCUMENTS
from engine.sql.dialects.postgres.nested.json_operators import (
    call_json,
    call_json_checked,
    call_jsonb_checked,
    read_document,
    read_path,
)
from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.dialects.postgres.terms import TypeOf

Build = Callable[[list[exp.Expr], TypeOf], exp.Expr | None]
_TEXTS = exp.DataType.build("ARRAY<STRING>", dialect="spark")


def convert_to_document(node: exp.Expr, type_of: TypeOf, kind: str) -> exp.Expr:
    """Return a value of any type as one of json or jsonb, as to_json and to_jsonb do."""
    source_type = type_of(node) or ""
    if source_type in DOCUMENTS:
        return read_document(node, type_of, kind)
    if isinstance(node.unnest(), exp.Null):
        return read_document(node, type_of, kind)
    name = "to_jsonb" if kind == "jsonb" else "to_json"
    return call_json(name, kind, node, exp.Literal.string(source_type))


def _cast_to_text(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build("STRING", dialect="spark"))


def _build_text_array(items: list[exp.Expr]) -> exp.Expr:
    return exp.Cast(this=exp.Anonymous(this="array", expressions=items), to=_TEXTS.copy())


def _make_unary_call(name: str, kind: str) -> Build:
    """Return what builds a question about one document."""

    def build(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        return call_json(name, kind, _read_document(arguments[0], type_of)) if len(arguments) == 1 else None

    return build


def _read_document(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return read_document(node, type_of) if isinstance(node.unnest(), exp.Literal) else node


def _make_parts_call(name: str, kind: str) -> Build:
    """Return what builds the parts of a document, whose type is the document's own where `kind` says `{}`."""

    def build(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(arguments) != 1:
            return None
        whole = _read_document(arguments[0], type_of)
        return call_json(name, kind.format("jsonb" if type_of(whole) == "jsonb" else "json"), whole)

    return build


def _build_length(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
    if len(arguments) != 1:
        return None
    return exp.Cast(
        this=call_json_checked("length", "string", _read_document(arguments[0], type_of)),
        to=exp.DataType.build("INT", dialect="spark"),
    )


def _make_path_call(as_text: bool) -> Build:
    def build(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(arguments) < 2:
            return None
        kind = "jsonb" if type_of(arguments[0]) == "jsonb" else "json"
        found = call_json("at", kind, _read_document(arguments[0], type_of), _build_text_array(arguments[1:]))
        return call_json("shown", "string", found) if as_text else found

    return build


def _make_object_call(kind: str) -> Build:
    def build(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(arguments) % 2:
            raise Untranslatable(
                f"{kind}_build_object with a key that has no value", "write keys and values in turns"
            )
        keys = _build_text_array([_cast_to_text(key) for key in arguments[::2]])
        parts = _build_text_array([convert_to_document(part, type_of, kind) for part in arguments[1::2]])
        return call_json_checked("object" if kind == "jsonb" else "json_object", kind, keys, parts)

    return build


def _make_array_call(kind: str) -> Build:
    return lambda arguments, type_of: call_json(
        "array", kind, _build_text_array([convert_to_document(part, type_of, kind) for part in arguments])
    )


def _make_conversion(kind: str) -> Build:
    return lambda arguments, type_of: (
        convert_to_document(arguments[0], type_of, kind) if len(arguments) == 1 else None
    )


def _build_text_object(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
    if len(arguments) == 2:
        return call_json_checked("texts_object", "jsonb", *arguments)
    if len(arguments) != 1:
        return None
    keys, parts = (fill_tree(f"filter(_p0, (_e, _i) -> _i % 2 = {side})", arguments[0]) for side in (0, 1))
    return call_json_checked("texts_object", "jsonb", keys, parts)


def _make_set_call(name: str, default: bool) -> Build:
    def build(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(arguments) not in (3, 4):
            return None
        target, path, value, *flags = arguments
        flag = flags[0] if flags else exp.Boolean(this=default)
        return call_jsonb_checked(
            name, read_document(target, type_of), read_path(path), read_document(value, type_of), flag
        )

    return build


def _make_document_call(name: str) -> Build:
    def build(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(arguments) != 1:
            return None
        kind = "string" if name == "pretty" else "jsonb"
        return call_json(name, kind, read_document(arguments[0], type_of))

    return build


def _make_pair_call(name: str, kind: str) -> Build:
    def build(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(arguments) != 2:
            return None
        return call_json(name, kind, *(read_document(part, type_of) for part in arguments))

    return build


def _make_keys_call(name: str) -> Build:
    def build(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(arguments) != 2:
            return None
        return call_json(name, "boolean", read_document(arguments[0], type_of), read_path(arguments[1]))

    return build


def _make_each_call(kind: str) -> Build:
    return _make_parts_call("each", f"array<struct<key:string,value:{kind}>>")


JSON_CALLS: Mapping[str, Build] = {
    **dict.fromkeys(("jsonb_typeof", "json_typeof"), _make_unary_call("typeof", "string")),
    **dict.fromkeys(("jsonb_array_length", "json_array_length"), _build_length),
    **dict.fromkeys(("jsonb_extract_path", "json_extract_path"), _make_path_call(False)),
    **dict.fromkeys(("jsonb_extract_path_text", "json_extract_path_text"), _make_path_call(True)),
    "jsonb_build_object": _make_object_call("jsonb"),
    "json_build_object": _make_object_call("json"),
    "jsonb_build_array": _make_array_call("jsonb"),
    "json_build_array": _make_array_call("json"),
    "jsonb_object": _build_text_object,
    "to_jsonb": _make_conversion("jsonb"),
    **dict.fromkeys(("to_json", "row_to_json", "array_to_json"), _make_conversion("json")),
    "jsonb_set": _make_set_call("with_path", True),
    "jsonb_insert": _make_set_call("with_inserted", False),
    "jsonb_strip_nulls": _make_document_call("without_nulls"),
    "jsonb_pretty": _make_document_call("pretty"),
    "jsonb_concat": _make_pair_call("joined", "jsonb"),
    "jsonb_contains": _make_pair_call("contains", "boolean"),
    "jsonb_contained": lambda given, type_of: _make_pair_call("contains", "boolean")(given[::-1], type_of),
    "jsonb_exists_any": _make_keys_call("has_any"),
    "jsonb_exists_all": _make_keys_call("has_all"),
    # ---- rows ------------------------------------------------------------------------------------------------
    **dict.fromkeys(
        ("jsonb_array_elements", "json_array_elements"), _make_parts_call("elements", "array<{}>")
    ),
    **dict.fromkeys(
        ("jsonb_array_elements_text", "json_array_elements_text"), _make_parts_call("texts", "array<string>")
    ),
    **dict.fromkeys(("jsonb_object_keys", "json_object_keys"), _make_parts_call("keys", "array<string>")),
    **dict.fromkeys(("jsonb_each", "json_each"), _make_each_call("{}")),
    **dict.fromkeys(
        ("jsonb_each_text", "json_each_text"),
        _make_parts_call("each_text", "array<struct<key:string,value:string>>"),
    ),
}
