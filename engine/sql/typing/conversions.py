"""The table of conversions: what becomes of a value of one type in a column of another, through whatever door it comes.

`TABLE` says it of each pair of types, and docs/sql.md shows it (`python -m tools.conversions`). It recurses: elements of arrays,
keys and values of maps and fields of structs follow the same rules as whole columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import Column, decoded, holds, nulls, positions
from engine.errors import UnsupportedSql
from engine.sql.typing.text_values import REFUSED, read
from engine.sql.typing.types import from_arrow

Kind: TypeAlias = Any
"""An Arrow type; its stubs do not know what the tests of `pa.types` tell of one."""
LONGEST_SHOWN = 60
MICROS_OF_A_DAY = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_TIME, _LAST_TIME = _FIRST_DAY * MICROS_OF_A_DAY, (_LAST_DAY + 1) * MICROS_OF_A_DAY - 1
_MOST_POWER = 22
"""Ten to this power is the last that is a DOUBLE exactly."""
_SURE_PRECISION, _SURE_DIGITS = 15, 1e15
"""Decimals of so many digits are told apart by the doubles nearest to them."""


class Verdict(Enum):
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

_T, _N, _E = Verdict.TAKEN, Verdict.NEAREST, Verdict.EXACT
TABLE: Mapping[str, Mapping[str, Verdict]] = {
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


class Fault(NamedTuple):
    """A value that is none of its column's type: where it is below the column, what it is, and the types."""

    path: str
    value: str
    given: Kind
    wanted: Kind

    def told(self, column: str, table: str = "") -> str:
        """Return a sentence on the value, in a column of that name."""
        of = f" of {table}" if table else ""
        told = f'column {column}{self.path}{of}: "{self.value}" is no {shown_type(self.wanted)}'
        if verdict(self.given, self.wanted) is not Verdict.REFUSED:
            return told
        remedy = remedy_of(self.given, self.wanted)
        return f"{told}, and no {shown_type(self.given)} is taken for one" + (f"; {remedy}" if remedy else "")


@dataclass(frozen=True)
class Converted:
    """A column in its table's type; rows with a fault are null, and each has its first one.

    `unknown` are the fields of structs that the type lacks; they are left out.
    """

    values: pa.Array[Any]
    faults: Mapping[int, Fault] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def bad(self) -> np.ndarray:
        """The rows with a fault."""
        return np.asarray(sorted(self.faults), dtype=np.int64)


def stays(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Tell whether values of a type are handed on as they are; those of TIME may be finer than its microseconds."""
    return given == wanted and not _holds(pa.types.is_time, wanted)


def verdict(given: pa.DataType, wanted: pa.DataType, *, by_name: bool = True) -> Verdict:
    """Return what becomes of values of one type in a column of another: of a nested one the worst of its parts.

    Fields of structs are matched by name, or by place as SQL does it.
    """
    if given == wanted or pa.types.is_null(given):
        return Verdict.TAKEN
    one, other = family_of(given), family_of(wanted)
    if one == "string" and _is_nested(wanted):
        return Verdict.EXACT
    if one != other and (_is_nested(given) or _is_nested(wanted)):
        return Verdict.REFUSED
    if one in ("array", "map", "struct"):
        pairs = list(_parts(given, wanted, by_name))
        return max((verdict(*pair, by_name=by_name) for pair in pairs), key=_WORSE.index, default=_T)
    found = TABLE.get(one, {}).get(other, Verdict.REFUSED)
    return Verdict.TAKEN if found is Verdict.EXACT and _has_all(given, wanted) else found


_WORSE = list(Verdict)


def _parts(given: Kind, wanted: Kind, by_name: bool) -> Iterator[tuple[Kind, Kind]]:
    if pa.types.is_map(given):
        yield given.key_type, wanted.key_type
        yield given.item_type, wanted.item_type
    elif pa.types.is_struct(given):
        if not by_name:
            if given.num_fields != wanted.num_fields:
                yield pa.int64(), pa.bool_()
            yield from zip((one.type for one in given), (one.type for one in wanted), strict=False)
            return
        for one, at in zip(wanted, _matched([one.name for one in given], wanted), strict=True):
            if at is not None:
                yield given.field(at).type, one.type
    else:
        yield given.value_type, wanted.value_type


def _matched(names: Sequence[str], wanted: Kind) -> list[int | None]:
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


def family_of(kind: pa.DataType) -> str:
    """Return the family of a type, for a nested one `array`, `map` or `struct`, and Arrow's own name for what SQL has not."""
    tests: tuple[tuple[str, Callable[[Kind], bool]], ...] = (
        ("boolean", pa.types.is_boolean),
        ("whole", pa.types.is_integer),
        ("double", pa.types.is_float64),
        ("float", pa.types.is_floating),
        ("decimal", pa.types.is_decimal),
        ("string", _is_text),
        ("binary", _is_bytes),
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
        return family_of(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return "string" if isinstance(kind, pa.UuidType) else family_of(kind.storage_type)
    return next((family for family, test in tests if test(kind)), str(kind))


def _is_nested(kind: Kind) -> bool:
    return pa.types.is_nested(kind)


def _is_text(kind: Kind) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_bytes(kind: Kind) -> bool:
    of_length = pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return of_length or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _is_list(kind: Kind) -> bool:
    plain = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return plain or pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)


def _has_all(given: Kind, wanted: Kind) -> bool:
    """Tell whether a number type has every value of another."""
    whole = _digits(given) if pa.types.is_integer(given) else None
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


def _digits(kind: Kind) -> int:
    return {8: 3, 16: 5, 32: 10}.get(kind.bit_width, 19 if pa.types.is_signed_integer(kind) else 20)


def shown_type(kind: pa.DataType) -> str:
    """Return the name that SQL has for an Arrow type, or Arrow's own where it has none."""
    given: Kind = kind
    if pa.types.is_map(given):
        return f"MAP<{shown_type(given.key_type)},{shown_type(given.item_type)}>"
    if pa.types.is_struct(given):
        return f"STRUCT<{','.join(f'{one.name}:{shown_type(one.type)}' for one in given)}>"
    if _is_list(given):
        return f"ARRAY<{shown_type(given.value_type)}>"
    try:
        found = from_arrow(kind)
    except UnsupportedSql:
        return str(kind)
    return {"time(6)": "TIME", "interval day to second": "INTERVAL"}.get(found, found.upper())


def remedy_of(given: pa.DataType, wanted: pa.DataType) -> str:
    """Return what to do instead of a conversion that is refused, "" where nothing is to be said."""
    return REMEDIES.get((family_of(given), family_of(wanted)), "")


def refused_part(
    given: Kind, wanted: Kind, path: str = "", *, by_name: bool = True
) -> tuple[str, Kind, Kind] | None:
    """Return where in two types, and which, a pair stands that is refused; None where there is none."""
    if verdict(given, wanted, by_name=by_name) is not Verdict.REFUSED:
        return None
    one = family_of(given)
    if one != family_of(wanted) or one not in ("array", "map", "struct"):
        return path, given, wanted
    steps = {"array": ["[]"], "map": [".key", ".value"]}.get(one)
    if steps is None:
        if not by_name and given.num_fields != wanted.num_fields:
            return path, given, wanted
        at = _matched([part.name for part in given], wanted) if by_name else range(wanted.num_fields)
        steps = [f".{part.name}" for part, place in zip(wanted, at, strict=True) if place is not None]
    found = (
        refused_part(*pair, path + step, by_name=by_name)
        for pair, step in zip(_parts(given, wanted, by_name), steps, strict=True)
    )
    return next(part for part in found if part is not None)


def convert(column: Column, kind: pa.DataType, *, calendar: bool = False) -> Converted:
    """Return a column as `kind`, by the table; with `calendar` dates and times of years but 1 to 9999 are faults."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):  # combine_chunks of an empty chunked array
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    work = _Conversion(calendar)
    found = work.converted(values, kind, _Place("", None))
    if work.faults and len(found):
        bad = np.zeros(len(found), dtype=bool)
        bad[list(work.faults)] = True
        found = _without(found, bad)
    return Converted(found, work.faults, tuple(work.unknown))


class _Place(NamedTuple):
    """Where values stand: the path below the column, and of each value its row, None where it is its own number."""

    path: str
    rows: np.ndarray | None

    def below(self, step: str, of: np.ndarray | None = None) -> _Place:
        """Return the place of parts, of which `of` says to which value each belongs."""
        if of is None:
            return _Place(self.path + step, self.rows)
        return _Place(self.path + step, of if self.rows is None else self.rows[of])


class _Conversion:
    """One column on its way into another type."""

    def __init__(self, calendar: bool) -> None:
        self.calendar = calendar
        self.faults: dict[int, Fault] = {}
        self.unknown: dict[str, None] = {}

    def converted(self, values: pa.Array[Any], kind: Kind, place: _Place) -> pa.Array[Any]:
        """Return values as `kind`; those that are none are null, and told."""
        given = values.type
        if stays(given, kind) and not (self.calendar and _has_moments(kind)):
            return values.cast(kind) if _is_nested(kind) else values
        values = _plain(values, kind)
        if pa.types.is_null(values.type):
            return nulls(len(values), kind)
        if _is_text(values.type) and not _is_text(kind):
            return self._of_texts(values.cast(pa.string()), kind, place)
        one, other = family_of(values.type), family_of(kind)
        if one == other and one in ("array", "map", "struct"):
            if one == "struct":
                return self._struct(values, kind, place)
            return self._map(values, kind, place) if one == "map" else self._list(values, kind, place)
        rule = None if _is_nested(kind) else TABLE.get(one, {}).get(other)
        if rule is None:
            self._fault(values, holds(values.is_valid()), kind, place)
            return nulls(len(values), kind)
        found, bad = _KERNELS.get((one, other), _cast)(values, kind)
        if self.calendar and _has_moments(kind):
            bad = bad | _out_of_calendar(found)
        if bad.any():
            self._fault(values, bad, kind, place)
            found = _without(found, bad)
        return found

    def _fault(
        self, values: pa.Array[Any], bad: np.ndarray, kind: Kind, place: _Place, given: Any = None
    ) -> None:
        for at in np.flatnonzero(bad).tolist():
            row = at if place.rows is None else int(place.rows[at])
            if row not in self.faults:
                shown = _shown(values[at]) if given is None else str(given[at])[:LONGEST_SHOWN]
                self.faults[row] = Fault(place.path, shown, values.type, kind)

    def _list(self, values: Any, kind: Kind, place: _Place) -> pa.Array[Any]:
        lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
        inner = self.converted(values.flatten(), kind.value_type, place.below("[]", _owners(lengths)))
        return _listed(lengths, inner, kind, values.is_null())

    def _map(self, values: Any, kind: Kind, place: _Place) -> pa.Array[Any]:
        offsets = values.offsets.to_numpy()
        lengths = np.where(holds(values.is_valid()), np.diff(offsets), 0)
        owners = _owners(lengths)
        within = positions(
            np.arange(len(owners)) + np.repeat(offsets[:-1] - _offsets(lengths).to_numpy()[:-1], lengths)
        )
        keys = self.converted(values.keys.take(within), kind.key_type, place.below(".key", owners))
        items = self.converted(values.items.take(within), kind.item_type, place.below(".value", owners))
        return self._mapped(values.is_null(), lengths, keys, items, kind)

    def _mapped(
        self,
        null: pa.Array[Any],
        lengths: np.ndarray,
        keys: pa.Array[Any],
        items: pa.Array[Any],
        kind: Kind,
    ) -> pa.Array[Any]:
        if keys.null_count:  # of rows that are set aside: the value goes with them, and a map has no null key
            lost = np.zeros(len(lengths), dtype=bool)
            lost[_owners(lengths)[holds(keys.is_null())]] = True
            kept = positions(np.flatnonzero(~lost[_owners(lengths)]))
            keys, items, lengths = keys.take(kept), items.take(kept), np.where(lost, 0, lengths)
        made: pa.Array[Any] = pa.MapArray.from_arrays(_offsets(lengths), keys, items, type=kind, mask=null)  # type: ignore[call-overload]  # the stubs know no mask here
        return made

    def _struct(self, values: Any, kind: Kind, place: _Place) -> pa.Array[Any]:
        names = [one.name for one in values.type]
        found, parts = _matched(names, kind), values.flatten()
        self._unknown(name for at, name in enumerate(names) if at not in found)
        arrays = [
            nulls(len(values), one.type)
            if at is None
            else self.converted(parts[at], one.type, place.below(f".{one.name}"))
            for one, at in zip(kind, found, strict=True)
        ]
        return _struct_of(arrays, kind, values.is_null())

    def _unknown(self, names: Iterator[str]) -> None:
        self.unknown.update(dict.fromkeys(names))

    # ---- texts -----------------------------------------------------------------------------------------------
    def _of_texts(self, texts: pa.Array[Any], kind: Kind, place: _Place) -> pa.Array[Any]:
        if not _is_nested(kind):
            found = read(texts, kind)
            if len(found.bad):
                bad = np.zeros(len(texts), dtype=bool)
                bad[found.bad] = True
                self._fault(texts, bad, kind, place)
            return found.values
        parsed: list[Any] = []
        bad = np.zeros(len(texts), dtype=bool)
        for at, text in enumerate(texts.to_pylist()):
            try:
                parsed.append(None if text is None else _DECODER.decode(text))
            except REFUSED:
                parsed.append(None)
                bad[at] = True
        self._fault(texts, bad, kind, place)
        return self._of_json(parsed, kind, place)

    def _of_json(self, values: list[Any], kind: Kind, place: _Place) -> pa.Array[Any]:
        """Return values of JSON, numbers as they are written, as `kind`."""
        if not _is_nested(kind):
            return self._of_texts(self._as_texts(values, kind, place), kind, place)
        if pa.types.is_struct(kind):
            return self._of_objects(values, kind, place)
        is_map = pa.types.is_map(kind)
        held = [_pairs(value) if is_map else value for value in values]
        bad = np.array([value is not None and not isinstance(value, list) for value in held], dtype=bool)
        bad |= np.array(
            [value is not None and entries is None for value, entries in zip(values, held, strict=True)],
            dtype=bool,
        )
        self._no_json(values, bad, kind, place)
        held = [value if isinstance(value, list) else None for value in held]
        lengths = np.array([0 if value is None else len(value) for value in held], dtype=np.int64)
        owners, null = _owners(lengths), pa.array([value is None for value in held], pa.bool_())
        flat = [item for value in held if value is not None for item in value]
        if not is_map:
            inner = self._of_json(flat, kind.value_type, place.below("[]", owners))
            return _listed(lengths, inner, kind, null)
        keys = self._of_json([key for key, _ in flat], kind.key_type, place.below(".key", owners))
        items = self._of_json([item for _, item in flat], kind.item_type, place.below(".value", owners))
        return self._mapped(null, lengths, keys, items, kind)

    def _of_objects(self, values: list[Any], kind: Kind, place: _Place) -> pa.Array[Any]:
        bad = np.array([value is not None and not isinstance(value, dict) for value in values], dtype=bool)
        self._no_json(values, bad, kind, place)
        held = [value if isinstance(value, dict) else None for value in values]
        columns: list[list[Any]] = [[] for _ in kind]
        known: dict[tuple[str, ...], list[str | None]] = {}
        for value in held:
            names = () if value is None else tuple(value)
            if names not in known:
                places = _matched(names, kind)
                known[names] = [None if at is None else names[at] for at in places]
                self._unknown(name for at, name in enumerate(names) if at not in places)
            for column, name in zip(columns, known[names], strict=True):
                column.append(None if value is None or name is None else value[name])
        arrays = [
            self._of_json(column, one.type, place.below(f".{one.name}"))
            for column, one in zip(columns, kind, strict=True)
        ]
        return _struct_of(arrays, kind, pa.array([value is None for value in held], pa.bool_()))

    def _no_json(self, values: list[Any], bad: np.ndarray, kind: Kind, place: _Place) -> None:
        if bad.any():
            texts = [_json_text(value) for value in values]
            self._fault(nulls(len(values), pa.string()), bad, kind, place, texts)

    def _as_texts(self, values: list[Any], kind: Kind, place: _Place) -> pa.Array[Any]:
        """Return JSON's texts, numbers and truths as texts; lists and objects are none."""
        texts = [None if value is None else _json_text(value) for value in values]
        bad = [isinstance(value, list | dict) for value in values]
        for at, text in enumerate(texts):
            try:
                if text is not None:
                    text.encode()
            except UnicodeEncodeError:  # half of a surrogate pair
                bad[at] = True
        if any(bad):
            shown = [
                None if text is None else text.encode("utf-8", "backslashreplace").decode() for text in texts
            ]
            self._fault(nulls(len(texts), pa.string()), np.array(bad), kind, place, shown)
            texts = [None if wrong else text for text, wrong in zip(texts, bad, strict=True)]
        return pa.array(texts, pa.string())


class _Number(str):
    """A number as it was written."""


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number)


def _json_text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return "[…]"
        case dict():
            return "{…}"
    return str(value)


def _pairs(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the entries of a map as JSON has it: an object, a list of pairs, or one of objects with key and value."""
    if isinstance(value, dict):
        return list(value.items())
    if not isinstance(value, list):
        return None
    found = []
    for entry in value:
        if isinstance(entry, dict) and set(entry) == {"key", "value"}:
            entry = [entry["key"], entry["value"]]
        if not isinstance(entry, list) or len(entry) != 2 or entry[0] is None:
            return None
        found.append((entry[0], entry[1]))
    return found


# ---- parts ---------------------------------------------------------------------------------------------------
def _plain(values: pa.Array[Any], wanted: Kind) -> pa.Array[Any]:
    """Return values without what only encodes them, in one of the forms that SQL's types have."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _plain(decoded(values), wanted)
    if pa.types.is_run_end_encoded(kind):
        return _plain(_expanded(values), wanted)
    if isinstance(values, pa.ExtensionArray):
        if isinstance(kind, pa.UuidType) and not _is_bytes(wanted):
            return pa.array([str(one.as_py()) if one.is_valid else None for one in values], pa.string())
        return _plain(values.storage, wanted)
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind) and kind.precision <= 38:
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    return values


def _expanded(values: pa.Array[Any]) -> pa.Array[Any]:
    decode: Callable[[pa.Array[Any]], pa.Array[Any]] = pc.run_end_decode  # type: ignore[attr-defined]  # not in the stubs
    return decode(values)


def _owners(lengths: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(lengths)), lengths)


def _offsets(lengths: np.ndarray) -> pa.Array[Any]:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), pa.int32())


def _listed(lengths: np.ndarray, inner: pa.Array[Any], kind: Kind, null: pa.Array[Any]) -> pa.Array[Any]:
    made: pa.Array[Any] = pa.ListArray.from_arrays(_offsets(lengths), inner, type=kind, mask=null)  # type: ignore[call-overload]  # the stubs list types, not their base
    return made


def _struct_of(arrays: list[pa.Array[Any]], kind: Kind, null: pa.Array[Any]) -> pa.Array[Any]:
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=null)


def _without(values: pa.Array[Any], bad: np.ndarray) -> pa.Array[Any]:
    """Return values of which some are null instead."""
    return values.take(positions(np.arange(len(values)), bad)) if bad.any() else values


def _shown(value: pa.Scalar[Any]) -> str:
    try:
        return str(value.as_py())[:LONGEST_SHOWN]
    except (ValueError, OverflowError):  # a date that Python does not know
        return f"a {value.type} out of range"


def _has_moments(kind: Kind) -> bool:
    return _holds(lambda one: pa.types.is_date32(one) or pa.types.is_timestamp(one), kind)


def _holds(test: Callable[[Kind], bool], kind: Kind) -> bool:
    """Tell whether a type is one, or has one in it, of which a test is true."""
    if _is_nested(kind):
        return any(_holds(test, kind.field(at).type) for at in range(kind.num_fields))
    return test(kind)


def _out_of_calendar(values: pa.Array[Any]) -> np.ndarray:
    """Tell which dates and times, to the microsecond, have a year but 1 to 9999."""
    is_day = pa.types.is_date32(values.type)
    numbers = _numbers(values.view(pa.int32() if is_day else pa.int64()))
    first, last = (_FIRST_DAY, _LAST_DAY) if is_day else (_FIRST_TIME, _LAST_TIME)
    return holds(values.is_valid()) & ((numbers < first) | (numbers > last))


def _numbers(values: pa.Array[Any]) -> np.ndarray:
    filled = values.fill_null(pa.scalar(0, values.type)) if values.null_count else values
    return filled.to_numpy(zero_copy_only=False)


Kernel: TypeAlias = "Callable[[pa.Array[Any], Kind], tuple[pa.Array[Any], np.ndarray]]"
"""Returns values in a type, and which of them it has not; what it gives for those is nobody's."""


def _cast(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Cast by Arrow, where it refuses just what is not exact: by halves, down to the values at fault."""
    bad = np.zeros(len(values), dtype=bool)
    parts: list[pa.Array[Any]] = []
    waiting = [(0, len(values))]
    while waiting:
        start, count = waiting.pop()
        try:
            parts.append(values.slice(start, count).cast(kind))
        except pa.ArrowInvalid:
            if count == 1:
                bad[start] = True
                parts.append(nulls(1, kind))
            else:
                half = count // 2
                waiting += [(start + half, count - half), (start, half)]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts), bad


def _of_numbers(
    values: pa.Array[Any], numbers: np.ndarray, bad: np.ndarray, kind: Kind
) -> tuple[pa.Array[Any], np.ndarray]:
    null = holds(values.is_null())
    bad = bad & ~null
    with np.errstate(invalid="ignore"):
        kept = np.where(bad | null, 0, numbers).astype(kind.to_pandas_dtype())
    return pa.array(kept, kind, mask=bad | null), bad


def _whole(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers, limits = _numbers(values), np.iinfo(kind.to_pandas_dtype())
    return _of_numbers(values, numbers, (numbers < limits.min) | (numbers > limits.max), kind)


def _whole_of_floats(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers, limits = _numbers(values).astype(np.float64), np.iinfo(kind.to_pandas_dtype())
    with np.errstate(invalid="ignore"):
        bad = ~(np.trunc(numbers) == numbers) | (numbers < limits.min) | (numbers >= float(limits.max + 1))
    return _of_numbers(values, numbers, bad, kind)


def _floats_of_whole(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers = _numbers(values)
    floats = numbers.astype(kind.to_pandas_dtype())
    beyond = (
        floats >= float(np.iinfo(numbers.dtype).max + 1)
        if numbers.dtype.itemsize > 2
        else np.zeros(len(floats), bool)
    )
    back = np.where(beyond, 0, floats).astype(numbers.dtype)
    return _of_numbers(values, floats, beyond | (back != numbers), kind)


def _floats(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    numbers = _numbers(values)
    with np.errstate(over="ignore", under="ignore"):
        found = numbers.astype(kind.to_pandas_dtype())
    null = holds(values.is_null())
    return pa.array(found, kind, mask=null), np.isinf(found) & ~np.isinf(numbers) & ~null


def _decimals_of_whole(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    return _decimals(values.cast(pa.decimal128(20, 0)), kind)


def _decimals(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return decimals with other digits; by way of 76, as Arrow multiplies 38 digits without looking where they go."""
    given: Kind = values.type
    if given.scale >= kind.scale or _has_all(given, kind):
        return _cast(values, kind)
    return _cast(values.cast(pa.decimal256(76, given.scale)).cast(pa.decimal256(76, kind.scale)), kind)


def _decimals_of_floats(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return floating numbers as the decimals that their shortest digits say, as Spark does."""
    numbers, null = _numbers(values).astype(np.float64), holds(values.is_null())
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = numbers * 10.0**kind.scale
        if (
            np.abs(scaled) < min(_SURE_DIGITS, 10.0**kind.precision - 0.5)
        ).all() and kind.scale <= _MOST_POWER:
            whole = np.rint(scaled)
            bad = whole / 10.0**kind.scale != numbers
            return _of_unscaled(pa.array(whole.astype(np.int64), mask=null), kind), bad & ~null
    found: list[Decimal | None] = []
    bad = np.zeros(len(values), dtype=bool)
    for at, number in enumerate(numbers.tolist()):
        exact = None if null[at] or not math.isfinite(number) else Decimal(repr(number))
        if exact is not None and not _holds_decimal(exact, kind):
            exact = None
        bad[at] = exact is None and not null[at]
        found.append(exact)
    return pa.array(found, kind), bad


def _holds_decimal(number: Decimal, kind: Kind) -> bool:
    """Tell whether a decimal type has a number."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    return not text or (
        number.adjusted() < kind.precision - kind.scale and exponent + len(digits) - len(text) >= -kind.scale
    )


def _of_unscaled(whole: pa.Array[Any], kind: Kind) -> pa.Array[Any]:
    """Return whole numbers as the decimals whose digits they are."""
    wide = whole.cast(pa.decimal128(19, 0))
    return pa.Array.from_buffers(kind, len(wide), wide.buffers(), wide.null_count, wide.offset)


def _floats_of_decimals(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return decimals as the nearest floating numbers."""
    given, null = values.type, holds(values.is_null())
    if given.precision <= _SURE_PRECISION and pa.types.is_float64(kind):
        whole = pa.decimal128(given.precision, 0)
        digits = pa.Array.from_buffers(whole, len(values), values.buffers(), values.null_count, values.offset)
        return pa.array(_numbers(digits.cast(pa.int64())) / 10.0**given.scale, kind, mask=null), np.zeros(
            len(values), bool
        )
    exact = values.to_pylist()
    doubles = np.array([0.0 if one is None else float(one) for one in exact], np.float64)
    if not pa.types.is_float64(kind):
        doubles = np.array([_to_odd(*pair) for pair in zip(doubles.tolist(), exact, strict=True)], np.float64)
    with np.errstate(over="ignore", under="ignore"):
        found = doubles.astype(kind.to_pandas_dtype())
    return pa.array(found, kind, mask=null), np.isinf(found)


def _to_odd(nearest: float, exact: Decimal | None) -> float:
    """Return a number's neighbour whose last bit is odd, if it is no double: rounded once more it gives the nearest FLOAT."""
    if exact is None or Decimal(nearest) == exact or int(np.float64(nearest).view(np.int64)) & 1:
        return nearest
    return math.nextafter(nearest, math.inf if exact > Decimal(nearest) else -math.inf)


# ---- texts of values, as Spark writes them -------------------------------------------------------------------
def _texts(write: Callable[[pa.Array[Any]], list[str | None]]) -> Kernel:
    def texts(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
        return pa.array(write(values), pa.string()).cast(kind), np.zeros(len(values), dtype=bool)

    return texts


def _float_texts(values: pa.Array[Any]) -> list[str | None]:
    """Write floating numbers with the fewest digits that give them back, as Java does."""
    numbers = values.to_numpy(zero_copy_only=False)
    null = holds(values.is_null())
    return [None if absent else _float_text(number) for number, absent in zip(numbers, null, strict=True)]


def _float_text(number: Any) -> str:
    if not np.isfinite(number):
        return "NaN" if np.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if np.signbit(number) else "0.0"
    if 1e-3 <= abs(number) < 1e7:
        return np.format_float_positional(number, unique=True, trim="0")
    mantissa, _, power = np.format_float_scientific(number, unique=True, trim="0").partition("e")
    if mantissa[-2:] == ".0":  # two digits at least, and those that are nearest
        near, _, its = f"{number:.1e}".partition("e")
        if type(number)(f"{near}e{its}") == number:
            mantissa, power = near, its
    return f"{mantissa}E{int(power)}"


def _decimal_texts(values: pa.Array[Any]) -> list[str | None]:
    return [None if one is None else f"{one:f}" for one in values.to_pylist()]


def _moment_texts(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Write dates and times, those with a zone in UTC."""
    given: Kind = values.type
    if pa.types.is_date64(given):
        values = values.cast(pa.timestamp("ms")).cast(pa.date32(), safe=False)
    elif pa.types.is_timestamp(given):
        values = values.view(pa.timestamp(given.unit))
    texts: pa.Array[Any] = values.cast(pa.string())
    texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+$", r"\1")
    texts = pc.replace_substring_regex(texts, r"\.$", "")
    if not pa.types.is_time(given):
        texts = _with_far_years(texts, values)
    return texts.cast(kind), np.zeros(len(values), dtype=bool)


def _with_far_years(texts: pa.Array[Any], values: pa.Array[Any]) -> pa.Array[Any]:
    """Return texts of dates and times, those written anew whose years Arrow does not write as Spark does, or not at all."""
    kind: Kind = values.type
    is_day = pa.types.is_date(kind)
    second = 1 if is_day else {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind.unit]
    numbers = _numbers(values.view(pa.int32() if is_day else pa.int64()))
    days = (numbers if is_day else numbers // (86_400 * second)).astype("datetime64[D]")
    years = days.astype("datetime64[Y]").astype(np.int64) + 1970
    far = np.flatnonzero((years < 0) | (years > 9999))
    if not len(far):
        return texts
    found: list[str | None] = texts.to_pylist()
    for at in far.tolist():
        text = f"+{days[at]}" if years[at] > 0 else str(days[at])
        if not is_day:
            of_day, part = divmod(int(numbers[at]) % (86_400 * second), second)
            fraction = f".{part * 1_000_000_000 // second:09d}".rstrip("0").rstrip(".")
            text += f" {of_day // 3600:02d}:{of_day // 60 % 60:02d}:{of_day % 60:02d}{fraction}"
        found[at] = text
    return pa.array(found, pa.string())


def _span_texts(values: pa.Array[Any]) -> list[str | None]:
    return [
        None if one is None else _span_text(int(one))
        for one in values.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
    ]


def _span_text(micros: int) -> str:
    sign, micros = "-" if micros < 0 else "", abs(micros)
    days, rest = divmod(micros, MICROS_OF_A_DAY)
    hours, rest = divmod(rest, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds, rest = divmod(rest, 1_000_000)
    fraction = f".{rest:06d}".rstrip("0") if rest else ""
    return f"INTERVAL '{sign}{days} {hours:02d}:{minutes:02d}:{seconds:02d}{fraction}' DAY TO SECOND"


# ---- times ---------------------------------------------------------------------------------------------------
def _moments(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Cast to another unit, or to another zone: the instant stays. A time without a zone is one in UTC."""
    found, bad = _cast(values, pa.timestamp(kind.unit, values.type.tz))
    return found.view(kind), bad


def _moments_of_days(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    found, bad = _cast(values, pa.timestamp(kind.unit))
    return found.view(kind), bad


def _days_of_moments(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    """Return times as days, which they are at midnight alone."""
    given: Kind = values.type
    day = 86_400 * {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[given.unit]
    of_day = _numbers(values.view(pa.int64())) % day
    return values.view(pa.timestamp(given.unit)).cast(kind, safe=False), of_day != 0


def _times(values: pa.Array[Any], kind: Kind) -> tuple[pa.Array[Any], np.ndarray]:
    _, bad = _cast(values, pa.time64("us"))
    return values.cast(kind), bad


_KERNELS: dict[tuple[str, str], Kernel] = {
    ("whole", "whole"): _whole,
    ("whole", "decimal"): _decimals_of_whole,
    ("decimal", "decimal"): _decimals,
    ("date", "string"): _moment_texts,
    ("timestamp", "string"): _moment_texts,
    ("timestamp_ntz", "string"): _moment_texts,
    ("time", "string"): _moment_texts,
    ("interval", "string"): _texts(_span_texts),
    ("decimal", "string"): _texts(_decimal_texts),
    ("timestamp", "timestamp"): _moments,
    ("timestamp_ntz", "timestamp_ntz"): _moments,
    ("timestamp_ntz", "timestamp"): _moments,
    ("date", "timestamp"): _moments_of_days,
    ("date", "timestamp_ntz"): _moments_of_days,
    ("timestamp", "date"): _days_of_moments,
    ("timestamp_ntz", "date"): _days_of_moments,
    ("time", "time"): _times,
}
for _name in ("float", "double"):
    _KERNELS |= {
        (_name, "whole"): _whole_of_floats,
        ("whole", _name): _floats_of_whole,
        (_name, "float"): _floats,
        (_name, "double"): _floats,
        (_name, "decimal"): _decimals_of_floats,
        ("decimal", _name): _floats_of_decimals,
        (_name, "string"): _texts(_float_texts),
    }
