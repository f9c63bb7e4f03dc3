"""Functions of PostgreSQL that make, change and take apart json and jsonb values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import sqlglot.expressions as exp

from engine.jsonb.kinds import DOCUMENTS
from engine.sql.dialects.postgres.filled import filled
from engine.sql.dialects.postgres.json import changed, checked, document, operation, path_of
from engine.sql.dialects.postgres.patterns import NotSaid
from engine.sql.dialects.postgres.terms import TypeOf

Build = Callable[[list[exp.Expr], TypeOf], exp.Expr | None]
_TEXTS = exp.DataType.build("ARRAY<STRING>", dialect="spark")


def as_document(node: exp.Expr, type_of: TypeOf, kind: str) -> exp.Expr:
    """Return a value of any type as one of json or jsonb, as to_json and to_jsonb do."""
    given = type_of(node) or ""
    if given in DOCUMENTS:
        return document(node, type_of, kind)
    if isinstance(node.unnest(), exp.Null):
        return document(node, type_of, kind)
    name = "to_jsonb" if kind == "jsonb" else "to_json"
    return operation(name, kind, node, exp.Literal.string(given))


def _text(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build("STRING", dialect="spark"))


def _array(items: list[exp.Expr]) -> exp.Expr:
    return exp.Cast(this=exp.Anonymous(this="array", expressions=items), to=_TEXTS.copy())


def _asked(name: str, kind: str) -> Build:
    """Return what builds a question about one document."""

    def build(given: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        return operation(name, kind, _whole(given[0], type_of)) if len(given) == 1 else None

    return build


def _whole(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return document(node, type_of) if isinstance(node.unnest(), exp.Literal) else node


def _parts(name: str, kind: str) -> Build:
    """Return what builds the parts of a document, whose type is the document's own where `kind` says `{}`."""

    def build(given: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(given) != 1:
            return None
        whole = _whole(given[0], type_of)
        return operation(name, kind.format("jsonb" if type_of(whole) == "jsonb" else "json"), whole)

    return build


def _length(given: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
    if len(given) != 1:
        return None
    return exp.Cast(
        this=checked("length", "string", _whole(given[0], type_of)),
        to=exp.DataType.build("INT", dialect="spark"),
    )


def _at(shown: bool) -> Build:
    def build(given: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(given) < 2:
            return None
        kind = "jsonb" if type_of(given[0]) == "jsonb" else "json"
        found = operation("at", kind, _whole(given[0], type_of), _array(given[1:]))
        return operation("shown", "string", found) if shown else found

    return build


def _object(kind: str) -> Build:
    def build(given: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(given) % 2:
            raise NotSaid(
                f"{kind}_build_object with a key that has no value", "write keys and values in turns"
            )
        keys = _array([_text(key) for key in given[::2]])
        parts = _array([as_document(part, type_of, kind) for part in given[1::2]])
        return checked("object" if kind == "jsonb" else "json_object", kind, keys, parts)

    return build


def _list(kind: str) -> Build:
    return lambda given, type_of: operation(
        "array", kind, _array([as_document(part, type_of, kind) for part in given])
    )


def _of_value(kind: str) -> Build:
    return lambda given, type_of: as_document(given[0], type_of, kind) if len(given) == 1 else None


def _object_of_texts(given: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
    if len(given) == 2:
        return checked("texts_object", "jsonb", *given)
    if len(given) != 1:
        return None
    keys, parts = (filled(f"filter(_p0, (_e, _i) -> _i % 2 = {side})", given[0]) for side in (0, 1))
    return checked("texts_object", "jsonb", keys, parts)


def _set(name: str, default: bool) -> Build:
    def build(given: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(given) not in (3, 4):
            return None
        target, path, value, *flags = given
        flag = flags[0] if flags else exp.Boolean(this=default)
        return changed(name, document(target, type_of), path_of(path), document(value, type_of), flag)

    return build


def _normal(name: str) -> Build:
    def build(given: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(given) != 1:
            return None
        kind = "string" if name == "pretty" else "jsonb"
        return operation(name, kind, document(given[0], type_of))

    return build


def _pair(name: str, kind: str) -> Build:
    def build(given: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(given) != 2:
            return None
        return operation(name, kind, *(document(part, type_of) for part in given))

    return build


def _of_keys(name: str) -> Build:
    def build(given: list[exp.Expr], type_of: TypeOf) -> exp.Expr | None:
        if len(given) != 2:
            return None
        return operation(name, "boolean", document(given[0], type_of), path_of(given[1]))

    return build


def _each(kind: str) -> Build:
    return _parts("each", f"array<struct<key:string,value:{kind}>>")


JSON_CALLS: Mapping[str, Build] = {
    **dict.fromkeys(("jsonb_typeof", "json_typeof"), _asked("typeof", "string")),
    **dict.fromkeys(("jsonb_array_length", "json_array_length"), _length),
    **dict.fromkeys(("jsonb_extract_path", "json_extract_path"), _at(False)),
    **dict.fromkeys(("jsonb_extract_path_text", "json_extract_path_text"), _at(True)),
    "jsonb_build_object": _object("jsonb"),
    "json_build_object": _object("json"),
    "jsonb_build_array": _list("jsonb"),
    "json_build_array": _list("json"),
    "jsonb_object": _object_of_texts,
    "to_jsonb": _of_value("jsonb"),
    **dict.fromkeys(("to_json", "row_to_json", "array_to_json"), _of_value("json")),
    "jsonb_set": _set("with_path", True),
    "jsonb_insert": _set("with_inserted", False),
    "jsonb_strip_nulls": _normal("without_nulls"),
    "jsonb_pretty": _normal("pretty"),
    "jsonb_concat": _pair("joined", "jsonb"),
    "jsonb_contains": _pair("contains", "boolean"),
    "jsonb_contained": lambda given, type_of: _pair("contains", "boolean")(given[::-1], type_of),
    "jsonb_exists_any": _of_keys("has_any"),
    "jsonb_exists_all": _of_keys("has_all"),
    # ---- rows ------------------------------------------------------------------------------------------------
    **dict.fromkeys(("jsonb_array_elements", "json_array_elements"), _parts("elements", "array<{}>")),
    **dict.fromkeys(
        ("jsonb_array_elements_text", "json_array_elements_text"), _parts("texts", "array<string>")
    ),
    **dict.fromkeys(("jsonb_object_keys", "json_object_keys"), _parts("keys", "array<string>")),
    **dict.fromkeys(("jsonb_each", "json_each"), _each("{}")),
    **dict.fromkeys(
        ("jsonb_each_text", "json_each_text"), _parts("each_text", "array<struct<key:string,value:string>>")
    ),
}
