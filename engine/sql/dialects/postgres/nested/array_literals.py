"""Texts in quotes that are meant as arrays: `'{a,"b c",NULL}'` -> `ARRAY('a', 'b c', NULL)`."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.parsing.location import copy_location
from engine.sql.typing.types import cast_type

_HINT = "write it as '{1,2}', or ARRAY[1, 2]"


def build_array(literal: exp.Literal, kind: exp.DataType) -> exp.Expr:
    """Return the array that a text means, its items cast to those of its type; raises NotSaid for a text that is none."""
    found = parse_items(literal.name)
    if found is None:
        raise Untranslatable(f"the text {literal.sql()} as an array", _HINT)
    return copy_location(_build_typed_array(found, kind), literal)


def build_spark_array(literal: exp.Literal, kind: str) -> exp.Expr:
    """Return the array of one of Spark's array types that a text means."""
    return build_array(literal, cast_type(kind))


def _build_typed_array(found: list[object], kind: exp.DataType) -> exp.Expr:
    item = kind.expressions[0]
    parts: list[exp.Expr] = []
    for word in found:
        if isinstance(word, list):
            if item.this != kind.this:
                raise Untranslatable("an array in an array of plain values", _HINT)
            parts.append(_build_typed_array(word, item))
        elif word is None:
            parts.append(exp.Null())
        elif item.this == kind.this:
            raise Untranslatable("a plain value among arrays", _HINT)
        else:
            parts.append(exp.Cast(this=exp.Literal.string(str(word)), to=item.copy()))
    return exp.Cast(this=exp.Array(expressions=parts), to=kind.copy())


def parse_items(text: str) -> list[object] | None:
    """Return the items of an array's text: texts, None for NULL, and lists of the same; None if it is no array.

    >>> parse_items('{a,"b,c",NULL,{x}}')
    ['a', 'b,c', None, ['x']]
    """
    text = text.strip()
    try:
        found, end = _read_items(text, 0)
    except (IndexError, ValueError):
        return None
    return found if end == len(text) else None


def _read_items(text: str, at: int) -> tuple[list[object], int]:
    """Return the items of the array that begins at a place, and the place behind it."""
    if text[at] != "{":
        raise ValueError(text)
    found: list[object] = []
    at = _skip_blanks(text, at + 1)
    if text[at] == "}":
        return found, at + 1
    while True:
        item: object
        if text[at] == "{":
            item, at = _read_items(text, at)
        elif text[at] == '"':
            item, at = _read_quoted(text, at + 1)
        else:
            word, at = _read_word(text, at)
            item = None if word.upper() == "NULL" else word
        found.append(item)
        at = _skip_blanks(text, at)
        if text[at] == "}":
            return found, at + 1
        if text[at] != ",":
            raise ValueError(text)
        at = _skip_blanks(text, at + 1)


def _read_quoted(text: str, at: int) -> tuple[str, int]:
    word = ""
    while text[at] != '"':
        at += text[at] == "\\"
        word, at = word + text[at], at + 1
    return word, at + 1


def _read_word(text: str, at: int) -> tuple[str, int]:
    word = ""
    while text[at] not in ",}":
        if text[at] in '{"':
            raise ValueError(text)
        at += text[at] == "\\"
        word, at = word + text[at], at + 1
    word = word.rstrip()
    if not word:
        raise ValueError(text)
    return word, at


def _skip_blanks(text: str, at: int) -> int:
    while text[at].isspace():
        at += 1
    return at
