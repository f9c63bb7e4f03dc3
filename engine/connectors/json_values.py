"""Texts of JSON as values of nested types: the lists, maps and structs of a column are taken apart and read part by part.

Each part is read as a field of its type would be, and what does not fit is told with its path in the value.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from engine.sql.column_names import matched
from engine.sql.typing.types import from_arrow

_MOST_SHOWN = 60
Faults = dict[int, str]
"""Why values do not fit, by their places."""


class Number(str):
    """A number as it was written."""

    __slots__ = ()


_Paths = dict[int, tuple[str, str]]
"""By the places of values the path in each to what does not fit, and why."""
Leaves: TypeAlias = "Callable[[pa.Array[Any], pa.DataType], tuple[pa.Array[Any], Sequence[int]]]"
"""Reads texts as a type that is not nested; also tells which do not fit."""
_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number)


def nested(
    texts: pa.Array[Any], kind: pa.DataType, leaves: Leaves, documents: bool = False
) -> tuple[pa.Array[Any], Faults]:
    """Return texts of JSON in a nested type, null where one does not fit, and why by places: `[2].n is "a", and no INT`.

    With `documents` texts in the type are JSON themselves: a part that is a text stands for that text in quotes.
    """
    found, faults = list[Any](), Faults()
    for place, text in enumerate(texts.to_pylist()):
        try:
            value = None if text is None else _DECODER.decode(text)
            if (
                text is not None and "\\u" in text
            ):  # only an escape can give half of a pair, which no text holds
                written(value).encode()
            found.append(value)
        except (ValueError, RecursionError) as error:
            found.append(None)
            faults[place] = f" is no JSON: {error}"
    values, wrong = _Reader(leaves, documents).read(found, kind)
    faults |= {place: f"{path} {why}" for place, (path, why) in wrong.items()}
    if wrong:
        values = values.take(pa.array([None if at in wrong else at for at in range(len(values))], pa.int64()))
    return values, faults


def written(value: Any) -> str:
    """Write a value as JSON, numbers as they were read."""
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case Number():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return "[" + ", ".join(map(written, value)) + "]"
        case dict():
            pairs = (
                f"{json.dumps(name, ensure_ascii=False)}: {written(item)}" for name, item in value.items()
            )
            return "{" + ", ".join(pairs) + "}"
        case _:  # NaN and infinities, which Python's JSON knows
            return str(value)


def bytes_of(texts: pa.Array[Any], *, in_json: bool) -> tuple[pa.Array[Any], list[int]]:
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


class _Reader:
    """Takes values apart by their types."""

    def __init__(self, leaves: Leaves, documents: bool) -> None:
        self._leaves, self._documents = leaves, documents

    def read(self, values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array[Any], _Paths]:
        """Return values as an array, null where one does not fit at once, and what does not fit."""
        match kind:
            case pa.MapType():
                return self._maps(values, kind)
            case pa.ListType():
                return self._lists(values, kind)
            case pa.StructType():
                return self._structs(values, kind)
        return self._texts(values, kind)

    def _texts(self, values: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array[Any], _Paths]:
        wrong: _Paths = {}
        texts: list[str | None] = []
        for place, value in enumerate(values):
            text = self._text(value, kind)
            if text is None and value is not None:
                wrong[place] = ("", f"is {_shown(value)}, and no {_named(kind)}")
            texts.append(text)
        found, bad = self._leaves(pa.array(texts, pa.string()), kind)
        wrong |= {place: ("", f"is {_shown(values[place])}, and no {_named(kind)}") for place in bad}
        return found, wrong

    def _text(self, value: Any, kind: pa.DataType) -> str | None:
        """Return what is read as a type: a list or object is kept where a text is asked for, and stands for nothing else."""
        if value is None:
            return None
        if isinstance(value, list | dict) or (self._documents and pa.types.is_string(kind)):
            return written(value) if pa.types.is_string(kind) else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    def _lists(self, values: Sequence[Any], kind: pa.ListType[Any]) -> tuple[pa.Array[Any], _Paths]:
        wrong: _Paths = {}
        parts: list[Any] = []
        offsets, owners = [0], list[tuple[int, int]]()
        for place, value in enumerate(values):
            if isinstance(value, list):
                owners += ((place, at) for at in range(len(value)))
                parts += value
            elif value is not None:
                wrong[place] = ("", f"is {_shown(value)}, and no list")
            offsets.append(len(parts))
        inner, faults = self.read(parts, kind.value_type)
        for part, (path, why) in faults.items():
            place, at = owners[part]
            wrong.setdefault(place, (f"[{at}]{path}", why))
        found = pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), inner, type=kind, mask=_absent(values, list)
        )
        return found, wrong

    def _maps(self, values: Sequence[Any], kind: pa.MapType[Any, Any, Any]) -> tuple[pa.Array[Any], _Paths]:
        """Read maps: objects, or lists of pairs, whose keys may be of any type."""
        wrong: _Paths = {}
        keys, items = list[Any](), list[Any]()
        offsets, owners = [0], list[int]()
        for place, value in enumerate(values):
            pairs = _pairs(value, pa.types.is_nested(kind.key_type))
            if pairs is None and value is not None:
                wrong[place] = ("", f"is {_shown(value)}, and no map")
            for key, item in pairs or ():
                if key is None:
                    wrong.setdefault(place, ("", "has null as a key"))
                    continue
                keys.append(key)
                items.append(item)
                owners.append(place)
            offsets.append(len(keys))
        found_keys, of_keys = self.read(keys, kind.key_type)
        if of_keys:  # no map has a null as a key: those values are left out
            of_values = {owners[part]: (f"{{key}}{path}", why) for part, (path, why) in of_keys.items()}
            others = [None if place in of_values else value for place, value in enumerate(values)]
            found, more = self._maps(others, kind)
            return found, wrong | of_values | more
        found_items, of_items = self.read(items, kind.item_type)
        for part, (path, why) in of_items.items():
            wrong.setdefault(owners[part], (f"[{_shown(keys[part])}]{path}", why))
        mask = pa.array([_pairs(value, pa.types.is_nested(kind.key_type)) is None for value in values])
        made: Any = pa.MapArray.from_arrays  # the stubs know no type beside keys and items
        found = made(pa.array(offsets, pa.int32()), found_keys, found_items, type=kind, mask=mask)
        return found, wrong

    def _structs(self, values: Sequence[Any], kind: pa.StructType) -> tuple[pa.Array[Any], _Paths]:
        """Read structs: fields are found by the rule of columns, and those that the type lacks are left out."""
        wrong: _Paths = {}
        names = [field.name for field in kind]
        parts: list[list[Any]] = [[None] * len(values) for _ in names]
        for place, value in enumerate(values):
            if value is None:
                continue
            if not isinstance(value, dict):
                wrong[place] = ("", f"is {_shown(value)}, and no object")
                continue
            given = tuple(value)
            match = matched(names, given)
            if match.twice:
                wrong[place] = ("", f"names {match.told()}")
                continue
            for at, name in enumerate(names):
                if name in match.found:
                    parts[at][place] = value[given[match.found[name]]]
        arrays = []
        for field, values_of in zip(kind, parts, strict=True):
            found, faults = self.read(values_of, field.type)
            arrays.append(found)
            for place, (path, why) in faults.items():
                wrong.setdefault(place, (f".{field.name}{path}", why))
        if not names:
            return pa.array([None if value is None else {} for value in values], kind), wrong
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=_absent(values, dict)), wrong


def _absent(values: Sequence[Any], kind: type) -> pa.Array[Any]:
    return pa.array([not isinstance(value, kind) for value in values], pa.bool_())


def _pairs(value: Any, nested_keys: bool) -> list[tuple[Any, Any]] | None:
    """Return the pairs of a map; None for what is none. The keys of an object are texts, of nested keys those of their JSON."""
    if isinstance(value, dict):
        if not nested_keys:
            return list(value.items())
        try:
            return [(_DECODER.decode(key), item) for key, item in value.items()]
        except ValueError:
            return None
    if isinstance(value, list):
        pairs = [pair for pair in map(_pair, value) if pair is not None]
        return pairs if len(pairs) == len(value) else None
    return None


def _pair(value: Any) -> tuple[Any, Any] | None:
    if isinstance(value, list) and len(value) == 2:
        return value[0], value[1]
    if isinstance(value, dict) and set(value) <= {"key", "value"} and "key" in value:
        return value["key"], value.get("value")
    return None


def _named(kind: pa.DataType) -> str:
    return from_arrow(kind).upper()


def _shown(value: Any) -> str:
    text = written(value)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"
