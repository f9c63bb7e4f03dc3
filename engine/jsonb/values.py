"""Values of SQL as JSON, by their Arrow types: what to_jsonb, jsonb_agg and jsonb_build_object make of them.

A `kind` is the SQL type beside the Arrow type, for what Arrow does not tell: which texts are json or jsonb themselves.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from engine.arrow import as_values
from engine.jsonb.kinds import DOCUMENTS, split_types
from engine.jsonb.text import NotJson, key_order, normalize_json, parse_number, quote_json

Writer = Callable[[Any], str]


def render_documents(values: pa.Array[Any], kind: str, *, sort: bool) -> list[str | None]:
    """Return each value of a column as JSON, null as null; `sort` writes jsonb, else json without spaces."""
    write = make_writer(values.type, kind, sort)
    return [None if value is None else write(value) for value in as_values(values)]


def make_writer(arrow: pa.DataType, kind: str, sort: bool) -> Writer:
    """Return what writes a value of a type that is not null as JSON."""
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        inner = make_writer(
            arrow.value_type, kind[len("array<") : -1] if kind.startswith("array<") else "", sort
        )
        return lambda value: render_array([_render_or_null(inner, part) for part in value], sort)
    if pa.types.is_struct(arrow):
        kinds = split_types(kind[len("struct<") : -1]) if kind.startswith("struct<") else []
        field_types = [part.partition(":")[2].strip() for part in kinds]
        field_types += [""] * (arrow.num_fields - len(field_types))
        fields = [
            (field.name, make_writer(field.type, its, sort))
            for field, its in zip(arrow, field_types, strict=False)
        ]
        return lambda value: render_members(
            [(name, _render_or_null(w, value[name])) for name, w in fields], sort
        )
    if pa.types.is_map(arrow):
        keys = split_types(kind[len("map<") : -1]) if kind.startswith("map<") else ["", ""]
        of_value = make_writer(arrow.item_type, keys[-1].strip(), sort)
        return lambda value: render_members(
            [(render_value(key), _render_or_null(of_value, part)) for key, part in value], sort
        )
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        if kind in DOCUMENTS:
            return partial(embed_document, sort=sort and kind == "json")
        return quote_json
    if pa.types.is_float32(arrow):
        return lambda value: _render_float(str(np.float32(value)))
    return _render_moment_or_text if pa.types.is_timestamp(arrow) else _render_scalar


def _render_moment_or_text(value: datetime.datetime | str) -> str:
    """Return a time; that of a year that Python has not comes as a text."""
    return (
        quote_json(value.lstrip("+").replace(" ", "T")) if isinstance(value, str) else _render_scalar(value)
    )


def embed_document(text: str, sort: bool) -> str:
    """Return a json or jsonb value inside another one; a text that is no JSON stands there as a string."""
    try:
        return normalize_json(text) if sort else text
    except NotJson:
        return quote_json(text)


def _render_or_null(write: Writer, value: Any) -> str:
    return "null" if value is None else write(value)


def _render_float(text: str) -> str:
    value = float(text)
    if math.isfinite(value):
        number = parse_number(text)
        return number[:-2] if number.endswith(".0") else number
    return f'"{render_value(value)}"'


def _render_scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _render_float(repr(value))
    if isinstance(value, Decimal):
        return parse_number(format(value, "f"))
    if isinstance(value, datetime.datetime):
        return f'"{_render_moment(value, "T", ":")}"'
    return quote_json(render_value(value))


def render_value(value: Any) -> str:
    """Return a value as PostgreSQL shows it as a text."""
    match value:
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case float():
            return _render_float(repr(value))
        case bytes():
            return "\\x" + value.hex()
        case datetime.datetime():
            return _render_moment(value, " ", "")
        case datetime.date():
            return value.isoformat()
        case datetime.time():
            return _append_fraction(value.strftime("%H:%M:%S"), value.microsecond)
        case datetime.timedelta():
            return _render_interval(value)
        case Decimal():
            return format(value, "f")
    return str(value)


def _append_fraction(text: str, micros: int) -> str:
    return f"{text}.{micros:06}".rstrip("0") if micros else text


def _render_moment(value: datetime.datetime, separator: str, zone: str) -> str:
    text = _append_fraction(value.replace(tzinfo=None, microsecond=0).isoformat(separator), value.microsecond)
    if value.tzinfo is None:
        return text
    offset = value.strftime("%z")
    return text + (f"{offset[:3]}:{offset[3:]}" if zone or offset[3:] != "00" else offset[:3])


def _render_interval(value: datetime.timedelta) -> str:
    """Return an interval of days and less as PostgreSQL shows it: days with their sign, then a time with its own."""
    micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    sign, rest = ("-", -micros) if micros < 0 else ("", micros)
    days, rest = divmod(rest, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    parts = [f"{sign}{days} day{'' if days == 1 and not sign else 's'}"] if days else []
    if rest or not days:
        parts.append(sign + _append_fraction(clock, fraction))
    return " ".join(parts)


# ---- objects and arrays of parts that are JSON already ----------------------------------------------------------
def render_array(parts: Iterable[str], sort: bool) -> str:
    """Return an array of JSON texts; json written by to_json has no spaces."""
    return f"[{(', ' if sort else ',').join(parts)}]"


def render_members(parts: Sequence[tuple[str, str]], sort: bool) -> str:
    """Return an object of keys and JSON texts: of jsonb in its normal form, of json as they come."""
    if not sort:
        return f"{{{','.join(f'{quote_json(key)}:{part}' for key, part in parts)}}}"
    last = sorted(dict(parts).items(), key=lambda item: key_order(item[0]))
    return f"{{{', '.join(f'{quote_json(key)}: {part}' for key, part in last)}}}"


def build_object(keys: Sequence[str | None], parts: Sequence[str | None]) -> str:
    """Return an object of jsonb; a null is one of JSON, and after an exclamation mark that a key is null."""
    return _build_from_keys(keys, parts, lambda pairs: render_members(pairs, True))


def build_json_object(keys: Sequence[str | None], parts: Sequence[str | None]) -> str:
    """Return an object of json as json_build_object writes it, with all keys as they come."""
    return _build_from_keys(keys, parts, lambda pairs: f"{{{_render_spaced(pairs)}}}")


def _build_from_keys(
    keys: Sequence[str | None],
    parts: Sequence[str | None],
    write: Callable[[list[tuple[str, str]]], str],
) -> str:
    if None in keys:
        return "!a key of a JSON object must not be null"
    return write([(str(key), part or "null") for key, part in zip(keys, parts, strict=True)])


def _render_spaced(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{quote_json(key)} : {part}" for key, part in pairs)


def build_array(parts: Sequence[str | None]) -> str:
    """Return an array of JSON texts, a null as one of JSON."""
    return render_array((part or "null" for part in parts), True)


# ---- groups ------------------------------------------------------------------------------------------------------
def aggregate_lists(values: pa.Array[Any], kind: str) -> list[str | None]:
    """Return each array of a column as json_agg writes it: rows and arrays begin a line."""
    inner = make_writer(values.type.value_type, kind, False)
    nested = pa.types.is_nested(values.type.value_type)
    separator = ", \n " if nested else ", "
    return [
        None if items is None else f"[{separator.join(_render_or_null(inner, part) for part in items)}]"
        for items in as_values(values)
    ]


def aggregate_objects(
    keys: pa.Array[Any], values: pa.Array[Any], kind: str, *, sort: bool
) -> list[str | None]:
    """Return an object for each pair of arrays: jsonb as jsonb_object_agg makes it, else json as json_object_agg writes it."""
    inner = make_writer(values.type.value_type, kind, sort)
    found: list[str | None] = []
    for names, items in zip(as_values(keys), as_values(values), strict=True):
        if names is None or items is None:
            found.append(None)
            continue
        parts = [_render_or_null(inner, part) for part in items]
        found.append(
            build_object(names, parts)
            if sort
            else _build_from_keys(names, parts, lambda pairs: f"{{ {_render_spaced(pairs)} }}")
        )
    return found
