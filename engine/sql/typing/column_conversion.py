"""Columns become those of a table by the table of conversions: vectorised, parts of values by the rules of whole columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import (
    Column,
    as_numbers,
    as_values,
    choose_values,
    decode_dictionary,
    make_nulls,
    to_mask,
    to_positions,
)
from engine.sql.column_names import match_columns
from engine.sql.typing.conversions import (
    TABLE,
    ConversionVerdict,
    Kind,
    classify_conversion,
    find_family,
    format_arrow_type,
    has_type,
    is_bytes,
    is_nested,
    is_text,
    is_unchanged,
    match_fields,
    suggest_remedy,
)
from engine.sql.typing.exact_casts import KERNELS, cast_exactly
from engine.sql.typing.json_values import DECODER, decode_bytes, format_json, list_entries, names_of
from engine.sql.typing.spark_texts import MICROS_OF_A_DAY
from engine.sql.typing.text_values import REFUSED, parse_texts

LONGEST_EXCERPT = 60
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_TIME, _LAST_TIME = _FIRST_DAY * MICROS_OF_A_DAY, (_LAST_DAY + 1) * MICROS_OF_A_DAY - 1


Reads: TypeAlias = "Callable[[pa.Array[Any], pa.DataType], pa.Array[Any]]"
"""Gives texts of a type in a form of their own as texts that every text of the type is."""


class ConversionFault(NamedTuple):
    """A value that is none of its column's type: where it is below the column, what it is, and the types."""

    path: str
    value: str
    source: Kind
    target: Kind
    twice: bool = False
    """It is a key that one map has twice."""

    def describe(self, column: str, table: str = "") -> str:
        """Return a sentence on the value, in a column of that name."""
        of = f" of {table}" if table else ""
        if self.twice:
            return f'column {column}{self.path}{of}: "{self.value}" occurs twice in one map'
        message = f'column {column}{self.path}{of}: "{self.value}" is no {format_arrow_type(self.target)}'
        if classify_conversion(self.source, self.target) is not ConversionVerdict.REFUSED:
            return message
        remedy = suggest_remedy(self.source, self.target)
        return f"{message}, and no {format_arrow_type(self.source)} is taken for one" + (
            f"; {remedy}" if remedy else ""
        )


@dataclass(frozen=True)
class ConvertedColumn:
    """A column in its table's type; rows with a fault are null, and each has its first one.

    `unknown` are the fields of structs that the type lacks; they are left out.
    """

    values: pa.Array[Any]
    faults: Mapping[int, ConversionFault] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def bad(self) -> np.ndarray:
        """The rows with a fault."""
        return np.asarray(sorted(self.faults), dtype=np.int64)


def convert_to_type(
    column: Column,
    kind: pa.DataType,
    *,
    calendar: bool = False,
    in_json: bool = False,
    documents: bool = False,
    reads: Reads | None = None,
) -> ConvertedColumn:
    """Return a column as `kind`, by the table; with `calendar` dates and times of years but 1 to 9999 are faults.

    Texts that stand `in_json` are bytes in base64. With `documents` the texts of a nested type are JSON. `reads` gives texts of a
    type that is not nested as ISO 8601 has them.
    """
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):  # combine_chunks of an empty chunked array
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    work = _ColumnConversion(calendar, in_json, documents, reads)
    found = work.convert(values, kind, _Location("", None))
    if work.faults and len(found):
        bad = np.zeros(len(found), dtype=bool)
        bad[list(work.faults)] = True
        found = _mask_bad(found, bad)
    return ConvertedColumn(found, work.faults, tuple(work.unknown))


class _Location(NamedTuple):
    """Where values stand: the path below the column, and of each value its row, None where it is its own number."""

    path: str
    rows: np.ndarray | None

    def below(self, step: str, of: np.ndarray | None = None) -> _Location:
        """Return the place of parts, of which `of` says to which value each belongs."""
        if of is None:
            return _Location(self.path + step, self.rows)
        return _Location(self.path + step, of if self.rows is None else self.rows[of])


class _ColumnConversion:
    """One column on its way into another type."""

    def __init__(self, calendar: bool, in_json: bool, documents: bool, reads: Reads | None) -> None:
        self.calendar, self.in_json, self.documents, self.reads = calendar, in_json, documents, reads
        self.faults: dict[int, ConversionFault] = {}
        self.unknown: dict[str, None] = {}

    def convert(self, values: pa.Array[Any], kind: Kind, place: _Location) -> pa.Array[Any]:
        """Return values as `kind`; those that are none are null, and reported."""
        source = values.type
        if is_unchanged(source, kind) and not (self.calendar and _has_moments(kind)):
            return values.cast(kind) if is_nested(kind) else values
        values = _decode_values(values, kind)
        if pa.types.is_null(values.type):
            return make_nulls(len(values), kind)
        if is_text(values.type) and not is_text(kind):
            return self._convert_texts(values.cast(pa.string()), kind, place, self.in_json)
        one, other = find_family(values.type), find_family(kind)
        if one == other and one in ("array", "map", "struct"):
            if one == "struct":
                return self._convert_struct(values, kind, place)
            return (
                self._convert_map(values, kind, place)
                if one == "map"
                else self._convert_list(values, kind, place)
            )
        rule = None if is_nested(kind) else TABLE.get(one, {}).get(other)
        if rule is None:
            self._record_faults(values, to_mask(values.is_valid()), kind, place)
            return make_nulls(len(values), kind)
        found, bad = KERNELS.get((one, other), cast_exactly)(values, kind)
        if self.calendar and _has_moments(kind):
            bad = bad | _find_out_of_calendar(found)
        if bad.any():
            self._record_faults(values, bad, kind, place)
            found = _mask_bad(found, bad)
        return found

    def _record_faults(
        self,
        values: pa.Array[Any],
        bad: np.ndarray,
        kind: Kind,
        place: _Location,
        originals: Any = None,
        *,
        twice: bool = False,
    ) -> None:
        for at in np.flatnonzero(bad).tolist():
            row = at if place.rows is None else int(place.rows[at])
            if row not in self.faults:
                text = (
                    format_scalar(values[at]) if originals is None else str(originals[at])[:LONGEST_EXCERPT]
                )
                whole = text.encode(
                    "utf-8", "backslashreplace"
                ).decode()  # JSON may hold half of a surrogate pair
                self.faults[row] = ConversionFault(place.path, whole, values.type, kind, twice)

    def _convert_list(self, values: Any, kind: Kind, place: _Location) -> pa.Array[Any]:
        lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
        inner = self.convert(values.flatten(), kind.value_type, place.below("[]", _list_owners(lengths)))
        return _build_list(lengths, inner, kind, values.is_null())

    def _convert_map(self, values: Any, kind: Kind, place: _Location) -> pa.Array[Any]:
        offsets = values.offsets.to_numpy()
        lengths = np.where(to_mask(values.is_valid()), np.diff(offsets), 0)
        owners = _list_owners(lengths)
        within = to_positions(
            np.arange(len(owners))
            + np.repeat(offsets[:-1] - _compute_offsets(lengths).to_numpy()[:-1], lengths)
        )
        keys = self.convert(values.keys.take(within), kind.key_type, place.below(".key", owners))
        items = self.convert(values.items.take(within), kind.item_type, place.below(".value", owners))
        return self._build_map(values.is_null(), lengths, keys, items, kind, place)

    def _build_map(
        self,
        null: pa.Array[Any],
        lengths: np.ndarray,
        keys: pa.Array[Any],
        items: pa.Array[Any],
        kind: Kind,
        place: _Location,
    ) -> pa.Array[Any]:
        owners = _list_owners(lengths)
        twice = _repeated(owners, keys)
        if twice.any():
            self._record_faults(keys, twice, kind.key_type, place.below(".key", owners), twice=True)
        if keys.null_count:  # of rows that are set aside: the value goes with them, and a map has no null key
            lost = np.zeros(len(lengths), dtype=bool)
            lost[_list_owners(lengths)[to_mask(keys.is_null())]] = True
            valid = to_positions(np.flatnonzero(~lost[_list_owners(lengths)]))
            keys, items, lengths = keys.take(valid), items.take(valid), np.where(lost, 0, lengths)
        made: pa.Array[Any] = pa.MapArray.from_arrays(
            _compute_offsets(lengths), keys, items, type=kind, mask=null
        )  # type: ignore[call-overload]  # the stubs know no mask here
        return made

    def _convert_struct(self, values: Any, kind: Kind, place: _Location) -> pa.Array[Any]:
        names = [one.name for one in values.type]
        found, parts = match_fields(names, kind), values.flatten()
        self._record_unknown(name for at, name in enumerate(names) if at not in found)
        arrays = [
            make_nulls(len(values), one.type)
            if at is None
            else self.convert(parts[at], one.type, place.below(f".{one.name}"))
            for one, at in zip(kind, found, strict=True)
        ]
        return _build_struct(arrays, kind, values.is_null())

    def _record_unknown(self, names: Iterator[str]) -> None:
        self.unknown.update(dict.fromkeys(names))

    # ---- texts -----------------------------------------------------------------------------------------------
    def _convert_texts(
        self, texts: pa.Array[Any], kind: Kind, place: _Location, in_json: bool
    ) -> pa.Array[Any]:
        if not is_nested(kind):
            if is_bytes(kind):
                values, wrong = decode_bytes(texts, in_json=in_json)
            else:
                found = parse_texts(texts if self.reads is None else self.reads(texts, kind), kind)
                values, wrong = found.values, found.bad.tolist()
            if wrong:
                bad = np.zeros(len(texts), dtype=bool)
                bad[wrong] = True
                self._record_faults(texts, bad, kind, place)
            return values.cast(kind)
        parsed: list[Any] = []
        bad = np.zeros(len(texts), dtype=bool)
        for at, text in enumerate(texts.to_pylist()):
            try:
                parsed.append(None if text is None else DECODER.decode(text))
            except REFUSED:
                parsed.append(None)
                bad[at] = True
        self._record_faults(texts, bad, kind, place)
        return self._convert_json(parsed, kind, place)

    def _convert_json(self, values: list[Any], kind: Kind, place: _Location) -> pa.Array[Any]:
        """Return values of JSON, numbers as they are written, as `kind`."""
        if not is_nested(kind):
            return self._convert_texts(
                self._convert_json_to_texts(values, kind, place), kind, place, in_json=True
            )
        if pa.types.is_struct(kind):
            return self._convert_objects(values, kind, place)
        is_map = pa.types.is_map(kind)
        nested_keys = is_map and is_nested(kind.key_type)
        lists = [list_entries(value, nested_keys=nested_keys) if is_map else value for value in values]
        bad = np.array([value is not None and not isinstance(value, list) for value in lists], dtype=bool)
        bad |= np.array(
            [value is not None and parts is None for value, parts in zip(values, lists, strict=True)],
            dtype=bool,
        )
        self._record_bad_json(values, bad, kind, place)
        lists = [value if isinstance(value, list) else None for value in lists]
        lengths = np.array([0 if value is None else len(value) for value in lists], dtype=np.int64)
        owners, null = _list_owners(lengths), pa.array([value is None for value in lists], pa.bool_())
        flat = [item for value in lists if value is not None for item in value]
        if not is_map:
            inner = self._convert_json(flat, kind.value_type, place.below("[]", owners))
            return _build_list(lengths, inner, kind, null)
        keys = self._convert_json([key for key, _ in flat], kind.key_type, place.below(".key", owners))
        items = self._convert_json([item for _, item in flat], kind.item_type, place.below(".value", owners))
        return self._build_map(null, lengths, keys, items, kind, place)

    def _convert_objects(self, values: list[Any], kind: Kind, place: _Location) -> pa.Array[Any]:
        names_of_fields = [one.name for one in kind]
        bad = np.array(
            [
                value is not None
                and (
                    not isinstance(value, dict) or bool(match_columns(names_of_fields, names_of(value)).twice)
                )
                for value in values
            ],
            dtype=bool,
        )
        self._record_bad_json(values, bad, kind, place)
        objects = [
            value if isinstance(value, dict) and not no else None
            for value, no in zip(values, bad, strict=True)
        ]
        columns: list[list[Any]] = [[] for _ in kind]
        known: dict[tuple[str, ...], list[str | None]] = {}
        for value in objects:
            names = () if value is None else names_of(value)
            if names not in known:
                places = match_fields(names, kind)
                known[names] = [None if at is None else names[at] for at in places]
                self._record_unknown(name for at, name in enumerate(names) if at not in places)
            for column, name in zip(columns, known[names], strict=True):
                column.append(None if value is None or name is None else value[name])
        arrays = [
            self._convert_json(column, one.type, place.below(f".{one.name}"))
            for column, one in zip(columns, kind, strict=True)
        ]
        return _build_struct(arrays, kind, pa.array([value is None for value in objects], pa.bool_()))

    def _record_bad_json(self, values: list[Any], bad: np.ndarray, kind: Kind, place: _Location) -> None:
        if bad.any():
            texts = [value if isinstance(value, str) else format_json(value) for value in values]
            self._record_faults(make_nulls(len(values), pa.string()), bad, kind, place, texts)

    def _convert_json_to_texts(self, values: list[Any], kind: Kind, place: _Location) -> pa.Array[Any]:
        """Return JSON's texts, numbers and truths as texts; lists and objects are only where a text is asked for."""
        as_json = is_text(kind) and self.documents
        texts = [
            None if value is None else format_json(value) if as_json or not isinstance(value, str) else value
            for value in values
        ]
        bad = [isinstance(value, list | dict) and not is_text(kind) for value in values]
        for at, text in enumerate(texts):
            try:
                if text is not None:
                    text.encode()
            except UnicodeEncodeError:  # half of a surrogate pair
                bad[at] = True
        if any(bad):
            self._record_faults(make_nulls(len(texts), pa.string()), np.array(bad), kind, place, texts)
            texts = [None if wrong else text for text, wrong in zip(texts, bad, strict=True)]
        return pa.array(texts, pa.string())


# ---- parts ---------------------------------------------------------------------------------------------------
def _decode_values(values: pa.Array[Any], target: Kind) -> pa.Array[Any]:
    """Return values without what only encodes them, in one of the forms that SQL's types have."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _decode_values(decode_dictionary(values), target)
    if pa.types.is_run_end_encoded(kind):
        return _decode_values(_expand_runs(values), target)
    if isinstance(values, pa.ExtensionArray):
        if isinstance(kind, pa.UuidType) and not is_bytes(target):
            return pa.array([str(one.as_py()) if one.is_valid else None for one in values], pa.string())
        return _decode_values(values.storage, target)
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind) and kind.precision <= 38:
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    return values


def _expand_runs(values: pa.Array[Any]) -> pa.Array[Any]:
    decode: Callable[[pa.Array[Any]], pa.Array[Any]] = pc.run_end_decode  # type: ignore[attr-defined]  # not in the stubs
    return decode(values)


def _list_owners(lengths: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(lengths)), lengths)


def _repeated(owners: np.ndarray, keys: pa.Array[Any]) -> np.ndarray:
    """Tell which keys of maps their map has before; the two zeros are one key, and NaN is one."""
    if pa.types.is_nested(keys.type):
        keys = pa.array([None if key is None else repr(key) for key in as_values(keys)], pa.string())
    elif pa.types.is_floating(keys.type):
        zero: Any = pa.scalar(0.0, keys.type)
        nan = pa.scalar(math.nan, keys.type)
        keys = choose_values(pc.is_nan(keys).fill_null(False), nan, pc.add(keys, zero))
    codes = keys.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.lexsort((codes, owners))
    codes, owners = codes[order], owners[order]
    again = np.zeros(len(order), dtype=bool)
    again[order[1:]] = (codes[1:] == codes[:-1]) & (owners[1:] == owners[:-1]) & (codes[1:] >= 0)
    return again


def _compute_offsets(lengths: np.ndarray) -> pa.Array[Any]:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), pa.int32())


def _build_list(lengths: np.ndarray, inner: pa.Array[Any], kind: Kind, null: pa.Array[Any]) -> pa.Array[Any]:
    made: pa.Array[Any] = pa.ListArray.from_arrays(_compute_offsets(lengths), inner, type=kind, mask=null)  # type: ignore[call-overload]  # the stubs list types, not their base
    return made


def _build_struct(arrays: list[pa.Array[Any]], kind: Kind, null: pa.Array[Any]) -> pa.Array[Any]:
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=null)


def _mask_bad(values: pa.Array[Any], bad: np.ndarray) -> pa.Array[Any]:
    """Return values of which some are null instead."""
    return values.take(to_positions(np.arange(len(values)), bad)) if bad.any() else values


def format_scalar(value: pa.Scalar[Any]) -> str:
    """Return a value as errors show it, cut where it is long."""
    try:
        return str(value.as_py())[:LONGEST_EXCERPT]
    except (ValueError, OverflowError):  # a date that Python does not know
        return f"a {value.type} out of range"


def _has_moments(kind: Kind) -> bool:
    return has_type(lambda one: pa.types.is_date32(one) or pa.types.is_timestamp(one), kind)


def _find_out_of_calendar(values: pa.Array[Any]) -> np.ndarray:
    """Tell which dates and times, to the microsecond, have a year but 1 to 9999."""
    is_day = pa.types.is_date32(values.type)
    numbers = as_numbers(values.view(pa.int32() if is_day else pa.int64()))
    first, last = (_FIRST_DAY, _LAST_DAY) if is_day else (_FIRST_TIME, _LAST_TIME)
    return to_mask(values.is_valid()) & ((numbers < first) | (numbers > last))
