"""Parts of a JSON text, each as it stands there: what `->`, `#>`, jsonb_each and the like give.

They hold for json, whose parts keep their spaces, as for jsonb, whose text is in normal form, and so is each part of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_SPACE = re.compile(r"[ \t\n\r]*")
_SCANNER = json.JSONDecoder(parse_int=str, parse_float=str)
_PLACE = re.compile(r"[+-]?\d{1,9}")
_KINDS = {"{": "object", "[": "array", '"': "string", "t": "boolean", "f": "boolean", "n": "null"}


def _guard_json(function: Callable[P, T]) -> Callable[P, T | None]:
    """Return a function that gives None for a text that is no JSON."""

    @wraps(function)
    def wrapper(*args: P.args, **named: P.kwargs) -> T | None:
        try:
            return function(*args, **named)
        except (ValueError, IndexError, RecursionError):
            return None

    return wrapper


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at


def _find_value_end(text: str, at: int) -> int:
    return _SCANNER.raw_decode(text, at)[1]


def _scan_members(text: str) -> list[tuple[str, str]]:
    """Return keys and values of an object in their order; raises ValueError or IndexError if the text is none."""
    at = _skip_space(text, _skip_space(text, 0) + 1)
    found: list[tuple[str, str]] = []
    while text[at] != "}":
        key, at = _SCANNER.raw_decode(text, at)
        start = _skip_space(text, _skip_space(text, at) + 1)
        end = _find_value_end(text, start)
        found.append((key, text[start:end]))
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)
    return found


def _scan_elements(text: str) -> list[str]:
    at = _skip_space(text, _skip_space(text, 0) + 1)
    found: list[str] = []
    while text[at] != "]":
        end = _find_value_end(text, at)
        found.append(text[at:end])
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)
    return found


def _read_first(text: str) -> str:
    at = _skip_space(text, 0)
    return text[at]


@_guard_json
def find_kind(text: str) -> str:
    """Return what jsonb_typeof says: object, array, string, number, boolean or null."""
    return _KINDS.get(_read_first(text), "number")


@_guard_json
def list_members(text: str) -> list[tuple[str, str]]:
    """Return the keys and values of an object, none of anything else."""
    return _scan_members(text) if _read_first(text) == "{" else []


@_guard_json
def list_elements(text: str) -> list[str]:
    """Return the elements of an array, none of anything else."""
    return _scan_elements(text) if _read_first(text) == "[" else []


@_guard_json
def find_member(text: str, key: str) -> str | None:
    """Return the value of a key of an object, of several the last."""
    return dict(_scan_members(text)).get(key) if _read_first(text) == "{" else None


@_guard_json
def find_element(text: str, place: int) -> str | None:
    """Return an element of an array, counted from 0, or from its end if the place is negative."""
    found = _scan_elements(text) if _read_first(text) == "[" else []
    return found[place] if -len(found) <= place < len(found) else None


def find_at_path(text: str, path: list[str | None]) -> str | None:
    """Return what stands at a path of keys and places."""
    found: str | None = text
    for step in path:
        if found is None or step is None:
            return None
        if find_kind(found) == "array":
            found = find_element(found, int(step)) if _PLACE.fullmatch(step) else None
        else:
            found = find_member(found, step)
    return found


@_guard_json
def render_text(text: str) -> str | None:
    """Return a value as a text, as `->>` gives it: a string without its quotes, nothing for null."""
    first = _read_first(text)
    if first == "n":
        return None
    return str(_SCANNER.decode(text)) if first == '"' else text.strip(" \t\n\r")


def read_number(text: str) -> str | None:
    """Return the digits of a number, nothing for null, or after an exclamation mark what is wrong."""
    found = find_kind(text)
    if found == "number":
        return text.strip()
    return None if found in ("null", None) else f"!a jsonb {found} is no number"


def read_truth(text: str) -> str | None:
    """Return true or false, nothing for null, or after an exclamation mark what is wrong."""
    found = find_kind(text)
    if found == "boolean":
        return text.strip()
    return None if found in ("null", None) else f"!a jsonb {found} is no boolean"


def count_elements(text: str) -> str | None:
    """Return how many elements an array has, or after an exclamation mark that it is none."""
    found = find_kind(text)
    if found != "array":
        return None if found is None else f"!a jsonb {found} has no length: it is no array"
    return str(len(list_elements(text) or ()))
