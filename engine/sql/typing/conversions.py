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


def is_unchanged(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether values of a type are handed on as they are; those of TIME may be finer than its microseconds, and an Arrow
    map may have a key twice.
    """
    return given == wanted and not has_type(pa.types.is_time, wanted) and not _has_map(wanted)


def classify_conversion(
    given: pa.DataType, wanted: pa.DataType, *, by_name: bool = True
) -> ConversionVerdict:
    """Return what becomes of values of one type in a column of another: of a nested one the worst of its parts.

    Fields of structs are matched by name, or by place as SQL does it.
    """
    if given == wanted or pa.types.is_null(given):
        return ConversionVerdict.TAKEN
    one, other = find_family(given), find_family(wanted)
    if one == "string" and is_nested(wanted):
        return ConversionVerdict.EXACT
    if one != other and (is_nested(given) or is_nested(wanted)):
        return ConversionVerdict.REFUSED
    if one in ("array", "map", "struct"):
        pairs = list(_pair_parts(given, wanted, by_name))
        return max(
            (classify_conversion(*pair, by_name=by_name) for pair in pairs), key=_WORSE.index, default=_T
        )
    found = TABLE.get(one, {}).get(other, ConversionVerdict.REFUSED)
    return (
        ConversionVerdict.TAKEN
        if found is ConversionVerdict.EXACT and holds_all_values(given, wanted)
        else found
    )


_WORSE = list(ConversionVerdict)


def _pair_parts(given: Kind, wanted: Kind, by_name: bool) -> Iterator[tuple[Kind, Kind]]:
    if pa.types.is_map(given):
        yield given.key_type, wanted.key_type
        yield given.item_type, wanted.item_type
    elif pa.types.is_struct(given):
        if not by_name:
            if given.num_fields != wanted.num_fields:
                yield pa.int64(), pa.bool_()
            yield from zip((one.type for one in given), (one.type for one in wanted), strict=False)
            return
        for one, at in zip(wanted, match_fields([one.name for one in given], wanted), strict=True):
            if at is not None:
                yield given.field(at).type, one.type
    else:
        yield given.value_type, wanted.value_type


def match_fields(names: Sequence[str], wanted: Kind) -> list[int | None]:
    """Return where each field of a struct type stands among names: the same name, else the only one but for case."""
    lower: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        lower.setdefault(name.lower(), []).append(at)
    found: list[int | None] = []
    for one in wanted:
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


def holds_all_values(given: Kind, wanted: Kind) -> bool:
    """Tell whether a number type has every value of another."""
    whole = _count_digits(given) if pa.types.is_integer(given) else None
    if pa.types.is_integer(wanted):
        if whole is None:
            return False
        signed = pa.types.is_signed_integer
        bits = given.bit_width + (not signed(given)) - (not signed(wanted))
        return bits <= wanted.bit_width and (signed(wanted) or not signed(given))
    if pa.types.is_floating(wanted):
        exact = 53 if pa.types.is_float64(wanted) else 24
        return whole is not None and given.bit_width <= exact
    if pa.types.is_decimal(wanted):
        if whole is not None:
            return bool(whole <= wanted.precision - wanted.scale)
        if pa.types.is_decimal(given):
            before = given.precision - given.scale
            return bool(given.scale <= wanted.scale and before <= wanted.precision - wanted.scale)
    return False


def _count_digits(kind: Kind) -> int:
    return {8: 3, 16: 5, 32: 10}.get(kind.bit_width, 19 if pa.types.is_signed_integer(kind) else 20)


def format_arrow_type(kind: pa.DataType) -> str:
    """Return the name that SQL has for an Arrow type, or Arrow's own where it has none."""
    given: Kind = kind
    if pa.types.is_map(given):
        return f"MAP<{format_arrow_type(given.key_type)},{format_arrow_type(given.item_type)}>"
    if pa.types.is_struct(given):
        return f"STRUCT<{','.join(f'{one.name}:{format_arrow_type(one.type)}' for one in given)}>"
    if _is_list(given):
        return f"ARRAY<{format_arrow_type(given.value_type)}>"
    try:
        found = from_arrow(kind)
    except UnsupportedSql:
        return str(kind)
    return {"time(6)": "TIME", "interval day to second": "INTERVAL"}.get(found, found.upper())


def suggest_remedy(given: pa.DataType, wanted: pa.DataType) -> str:
    """Return what to do instead of a conversion that is refused, "" where nothing is to be said."""
    return REMEDIES.get((find_family(given), find_family(wanted)), "")


def find_refused_part(
    given: Kind, wanted: Kind, path: str = "", *, by_name: bool = True
) -> tuple[str, Kind, Kind] | None:
    """Return where in two types, and which, a pair stands that is refused; None where there is none."""
    if classify_conversion(given, wanted, by_name=by_name) is not ConversionVerdict.REFUSED:
        return None
    one = find_family(given)
    if one != find_family(wanted) or one not in ("array", "map", "struct"):
        return path, given, wanted
    steps = {"array": ["[]"], "map": [".key", ".value"]}.get(one)
    if steps is None:
        if not by_name and given.num_fields != wanted.num_fields:
            return path, given, wanted
        at = match_fields([part.name for part in given], wanted) if by_name else range(wanted.num_fields)
        steps = [f".{part.name}" for part, place in zip(wanted, at, strict=True) if place is not None]
    found = (
        find_refused_part(*pair, path + step, by_name=by_name)
        for pair, step in zip(_pair_parts(given, wanted, by_name), steps, strict=True)
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
