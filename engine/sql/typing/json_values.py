"""What stands in JSON for values of SQL's types: bytes, entries of maps, and texts that are JSON themselves."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa


class RawNumber(str):
    """A number as it was written."""

    __slots__ = ()


class Doubled(dict[str, Any]):
    """An object in which a name stands twice; `pairs` are all that stands in it, as a dict it has the last of each."""

    pairs: list[tuple[str, Any]]

    @property
    def names(self) -> tuple[str, ...]:
        """All of its names, as they stand in it."""
        return tuple(name for name, _ in self.pairs)


def object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON that has lost nothing."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    twice = Doubled(found)
    twice.pairs = pairs
    return twice


def names_of(value: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of an object, one that stands twice twice."""
    return value.names if isinstance(value, Doubled) else tuple(value)


DECODER = json.JSONDecoder(parse_float=RawNumber, parse_int=RawNumber, object_pairs_hook=object_of)


def format_json(value: Any) -> str:
    """Write a value as JSON, numbers as they were read."""
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case RawNumber():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return "[" + ", ".join(map(format_json, value)) + "]"
        case dict():
            pairs = (
                f"{json.dumps(name, ensure_ascii=False)}: {format_json(item)}" for name, item in _pairs(value)
            )
            return "{" + ", ".join(pairs) + "}"
        case _:  # NaN and infinities, which Python's JSON knows
            return str(value)


def decode_bytes(texts: pa.Array[Any], *, in_json: bool) -> tuple[pa.Array[Any], list[int]]:
    """Return texts as bytes, and which stand for none: `\\x41` in hexadecimal digits, else base64 in JSON, UTF-8 elsewhere."""
    found, bad = list[bytes | None](), list[int]()
    for place, text in enumerate(texts.to_pylist()):
        try:
            if text is None:
                found.append(None)
            elif text.startswith("\\x"):
                found.append(bytes.fromhex(text[2:]))
            else:
                found.append(base64.b64decode(text, validate=True) if in_json else text.encode())
        except (ValueError, binascii.Error):
            found.append(None)
            bad.append(place)
    return pa.array(found, pa.binary()), bad


def list_entries(value: Any, *, nested_keys: bool) -> list[tuple[Any, Any]] | None:
    """Return the entries of a map as JSON has it: an object, a list of pairs, or one of objects with key and value.

    None is what is no map. The keys of an object are texts, of nested keys those of their JSON.
    """
    if isinstance(value, dict):
        if not nested_keys:
            return list(_pairs(value))
        try:
            return [(DECODER.decode(key), item) for key, item in _pairs(value)]
        except ValueError:
            return None
    if not isinstance(value, list):
        return None
    found = [_parse_entry(one) for one in value]
    return None if any(one is None or one[0] is None for one in found) else [one for one in found if one]


def _pairs(value: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    return value.pairs if isinstance(value, Doubled) else value.items()


def _parse_entry(value: Any) -> tuple[Any, Any] | None:
    if isinstance(value, list) and len(value) == 2:
        return value[0], value[1]
    if isinstance(value, dict) and set(value) <= {"key", "value"} and "key" in value:
        return value["key"], value.get("value")
    return None
