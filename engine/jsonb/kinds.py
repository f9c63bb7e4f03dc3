"""The types json and jsonb among SQL's type strings: beside Spark's types, which have texts in their place."""

from __future__ import annotations

import re

DOCUMENTS = ("json", "jsonb")
_DOCUMENT = re.compile(r"\bjsonb?\b(?!:)")


def to_storage_type(kind: str) -> str:
    """Return the Spark type in which values of a type are stored: json and jsonb are texts."""
    return _DOCUMENT.sub("string", kind)


def has_documents(kind: str) -> bool:
    """Tell whether json or jsonb stands in a type."""
    return to_storage_type(kind) != kind


def split_types(text: str) -> list[str]:
    """Return the parts of a list of types between its outermost commas."""
    parts, depth, start = [], 0, 0
    for at, mark in enumerate(text):
        depth += (mark in "<(") - (mark in ">)")
        if mark == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
