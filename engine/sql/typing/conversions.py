"""The table of conversions: what becomes of a value of one type in a column of another, through whatever door it comes.

`TABLE` says it of each pair of types, and docs/conversions.md shows it (`python -m tools.conversions`); `column_conversion.py`
does it. It recurses: elements of arrays,
keys and values of maps and fields of structs follow the same rules as whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

import pyarrow as pa

from engine.errors import UnsupportedSql
from engine.sql.typing.types import from_arrow

Kind: TypeAlias = Any
"""An Arrow type; its stubs do not know what the tests of `pa.types` tell of one."""


class ConversionVerdict(Enum):
    """What becomes of the values of one type in a column of another."""

    TAKEN = "taken"
    NEAREST = "nearest"
    """Taken as the nearest value of the type; one beyond all of them is refused."""
    EXACT = "exact"
    """Taken where the type has that very value; a text where it reads as one."""
    REFUSED = "refused"


FAMILIES = (
    *("boolean", "whole", "float", "double", "decimal", "string", "binary"),
    *("date", "timestamp", "timestamp_ntz", "time", "interval"),
)
"""Kinds of types; whole numbers are TINYINT, SMALLINT, INT, BIGINT."""

_T, _N, _E = ConversionVerdict.TAKEN, ConversionVerdict.NEAREST, ConversionVerdict.EXACT
TABLE: Mapping[str, Mapping[str, ConversionVerdict]] = {
    "boolean": {"boolean": _T, "string": _T},
    "whole": {"whole": _E, "float": _E, "double": _E, "decimal": _E, "string": _T},
    "float": {"whole": _E, "float": _T, "double": _T, "decimal": _E, "string": _T},
    "double": {"whole": _E, "float": _N, "double": _T, "decimal": _E, "string": _T},
    "decimal": {"whole": _E, "float": _N, "double": _N, "decimal": _E, "string": _T},
    "string": {family: _T if family == "string" else _E for family in FAMILIES},
    "binary": {"binary": _T, "string": _E},
    "date": {"date": _T, "timestamp": _T, "timestamp_ntz": _T, "string": _T},
    "timestamp": {"timestamp": _T, "date": _E, "string": _T},
    "timestamp_ntz": {"timestamp_ntz": _T, "timestamp": _T, "date": _E, "string": _T},
    "time": {"time": _T, "string": _T},
    "interval": {"interval": _T, "string": _T},
}
"""By the family of the value's type and that of the column's; what does not stand here is refused.

Of EXACT a pair of types is TAKEN where the column's type has every value of the other, as a BIGINT has every INT.
"""

REMEDIES: Mapping[tuple[str, str], str] = {
    **dict.fromkeys(
        [("whole", moment) for moment in ("timestamp", "timestamp_ntz", "date", "time", "interval")],
        "a number says no unit: make it a time where it comes from",
    ),
    ("whole", "boolean"): "compare it: n <> 0",
    ("boolean", "whole"): "say which numbers it is: CASE WHEN b THEN 1 ELSE 0 END",
    ("timestamp", "timestamp_ntz"): "say in which zone: give it as a time without a zone",
}
"""What to do instead, of pairs that are refused."""


def is_unchanged(source: pa.DataType, target: pa.DataType) -> bool:
    """Tell whether values of a type are handed on as they are; those of TIME may be finer than its microseconds, and an Arrow
    map may have a key twice.
    """
    return source == target and not has_type(pa.types.is_time, target) and not _has_map(target)


def classify_conversion(
    source: pa.DataType, target: pa.DataType, *, by_name: bool = True
) -> ConversionVerdict:
    """Return what becomes of values of one type in a column of another: of a nested one the worst of its parts.

    Fields of structs are matched by name, or by place as SQL does it.
    """
    if source == target or pa.types.is_null(source):
        return ConversionVerdict.TAKEN
    one, other = find_family(source), find_family(target)
    if one == "string" and is_nested(target):
        return ConversionVerdict.EXACT
    if one != other and (is_nested(source) or is_nested(target)):
        return ConversionVerdict.REFUSED
    if one in ("array", "map", "struct"):
        pairs = list(_pair_parts(source, target, by_name))
        return max(
            (classify_conversion(*pair, by_name=by_name) for pair in pairs), key=_WORSE.index, default=_T
        )
    found = TABLE.get(one, {}).get(other, ConversionVerdict.REFUSED)
    return (
        ConversionVerdict.TAKEN
        if found is ConversionVerdict.EXACT and holds_all_values(source, target)
        else found
    )


_WORSE = list(ConversionVerdict)


def _pair_parts(source: Kind, target: Kind, by_name: bool) -> Iterator[tuple[Kind, Kind]]:
    if pa.types.is_map(source):
        yield source.key_type, target.key_type
        yield source.item_type, target.item_type
    elif pa.types.is_struct(source):
        if not by_name:
            if source.num_fields != target.num_fields:
                yield pa.int64(), pa.bool_()
            yield from zip((one.type for one in source), (one.type for one in target), strict=False)
            return
        for one, at in zip(target, match_fields([one.name for one in source], target), strict=True):
            if at is not None:
                yield source.field(at).type, one.type
    else:
        yield source.value_type, target.value_type


def match_fields(names: Sequence[str], target: Kind) -> list[int | None]:
    """Return where each field of a struct type stands among names: the same name, else the only one but for case."""
    lower: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        lower.setdefault(name.lower(), []).append(at)
    found: list[int | None] = []
    for one in target:
        close = lower.get(one.name.lower(), [])
        exact = [at for at in close if names[at] == one.name]
        found.append(exact[0] if exact else close[0] if len(close) == 1 else None)
    return found


def find_family(kind: pa.DataType) -> str:
    """Return the family of a type, for a nested one `array`, `map` or `struct`, and Arrow's own name for what SQL has not."""
    tests: tuple[tuple[str, Callable[[Kind], bool]], ...] = (
        ("boolean", pa.types.is_boolean),
        ("whole", pa.types.is_integer),
        ("double", pa.types.is_float64),
        ("float", pa.types.is_floating),
        ("decimal", pa.types.is_decimal),
        ("string", is_text),
        ("binary", is_bytes),
        ("date", pa.types.is_date),
        ("time", pa.types.is_time),
        ("interval", pa.types.is_duration),
        ("map", pa.types.is_map),
        ("array", _is_list),
        ("struct", pa.types.is_struct),
    )
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return find_family(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return "string" if isinstance(kind, pa.UuidType) else find_family(kind.storage_type)
    return next((family for family, test in tests if test(kind)), str(kind))


def is_nested(kind: Kind) -> bool:
    """Tell whether values of a type have parts."""
    return pa.types.is_nested(kind)


def is_text(kind: Kind) -> bool:
    """Tell whether a type is one of texts, in whatever form."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_bytes(kind: Kind) -> bool:
    """Tell whether a type is one of bytes, in whatever form."""
    of_length = pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return of_length or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _is_list(kind: Kind) -> bool:
    plain = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return plain or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)


def holds_all_values(source: Kind, target: Kind) -> bool:
    """Tell whether a number type has every value of another."""
    whole = _count_digits(source) if pa.types.is_integer(source) else None
    if pa.types.is_integer(target):
        if whole is None:
            return False
        signed = pa.types.is_signed_integer
        bits = source.bit_width + (not signed(source)) - (not signed(target))
        return bits <= target.bit_width and (signed(target) or not signed(source))
    if pa.types.is_floating(target):
        exact = 53 if pa.types.is_float64(target) else 24
        return whole is not None and source.bit_width <= exact
    if pa.types.is_decimal(target):
        if whole is not None:
            return bool(whole <= target.precision - target.scale)
        if pa.types.is_decimal(source):
            before = source.precision - source.scale
            return bool(source.scale <= target.scale and before <= target.precision - target.scale)
    return False


def _count_digits(kind: Kind) -> int:
    return {8: 3, 16: 5, 32: 10}.get(kind.bit_width, 19 if pa.types.is_signed_integer(kind) else 20)


def format_arrow_type(kind: pa.DataType) -> str:
    """Return the name that SQL has for an Arrow type, or Arrow's own where it has none."""
    arrow_type: Kind = kind
    if pa.types.is_map(arrow_type):
        return f"MAP<{format_arrow_type(arrow_type.key_type)},{format_arrow_type(arrow_type.item_type)}>"
    if pa.types.is_struct(arrow_type):
        return f"STRUCT<{','.join(f'{one.name}:{format_arrow_type(one.type)}' for one in arrow_type)}>"
    if _is_list(arrow_type):
        return f"ARRAY<{format_arrow_type(arrow_type.value_type)}>"
    try:
        found = from_arrow(kind)
    except UnsupportedSql:
        return str(kind)
    return {"time(6)": "TIME", "interval day to second": "INTERVAL"}.get(found, found.upper())


def suggest_remedy(source: pa.DataType, target: pa.DataType) -> str:
    """Return what to do instead of a conversion that is refused, "" where nothing is to be said."""
    return REMEDIES.get((find_family(source), find_family(target)), "")


def find_refused_part(
    source: Kind, target: Kind, path: str = "", *, by_name: bool = True
) -> tuple[str, Kind, Kind] | None:
    """Return where in two types, and which, a pair stands that is refused; None where there is none."""
    if classify_conversion(source, target, by_name=by_name) is not ConversionVerdict.REFUSED:
        return None
    one = find_family(source)
    if one != find_family(target) or one not in ("array", "map", "struct"):
        return path, source, target
    steps = {"array": ["[]"], "map": [".key", ".value"]}.get(one)
    if steps is None:
        if not by_name and source.num_fields != target.num_fields:
            return path, source, target
        at = match_fields([part.name for part in source], target) if by_name else range(target.num_fields)
        steps = [f".{part.name}" for part, place in zip(target, at, strict=True) if place is not None]
    found = (
        find_refused_part(*pair, path + step, by_name=by_name)
        for pair, step in zip(_pair_parts(source, target, by_name), steps, strict=True)
    )
    return next(part for part in found if part is not None)


def _has_map(kind: Kind) -> bool:
    parts = (kind.field(at).type for at in range(kind.num_fields)) if is_nested(kind) else ()
    return pa.types.is_map(kind) or any(map(_has_map, parts))


def has_type(test: Callable[[Kind], bool], kind: Kind) -> bool:
    """Tell whether a type is one, or has one in it, of which a test is true."""
    if is_nested(kind):
        return any(has_type(test, kind.field(at).type) for at in range(kind.num_fields))
    return test(kind)
