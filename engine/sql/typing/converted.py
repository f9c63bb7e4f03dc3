"""Columns become those of a table by the table of conversions: vectorised, parts of values by the rules of whole columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import Column, as_numbers, decoded, holds, nulls, positions
from engine.sql.column_names import matched
from engine.sql.typing.conversions import (
    TABLE,
    Kind,
    Verdict,
    family_of,
    holds_type,
    is_bytes,
    is_nested,
    is_text,
    matched_fields,
    remedy_of,
    shown_type,
    stays,
    verdict,
)
from engine.sql.typing.exact_values import KERNELS, cast
from engine.sql.typing.json_values import DECODER, bytes_of, entries, written
from engine.sql.typing.spark_texts import MICROS_OF_A_DAY
from engine.sql.typing.text_values import REFUSED, read

LONGEST_SHOWN = 60
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_TIME, _LAST_TIME = _FIRST_DAY * MICROS_OF_A_DAY, (_LAST_DAY + 1) * MICROS_OF_A_DAY - 1


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


def convert(
    column: Column,
    kind: pa.DataType,
    *,
    calendar: bool = False,
    in_json: bool = False,
    documents: bool = False,
) -> Converted:
    """Return a column as `kind`, by the table; with `calendar` dates and times of years but 1 to 9999 are faults.

    Texts that stand `in_json` are bytes in base64. With `documents` the texts of a nested type are JSON.
    """
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):  # combine_chunks of an empty chunked array
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    work = _Conversion(calendar, in_json, documents)
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

    def __init__(self, calendar: bool, in_json: bool, documents: bool) -> None:
        self.calendar, self.in_json, self.documents = calendar, in_json, documents
        self.faults: dict[int, Fault] = {}
        self.unknown: dict[str, None] = {}

    def converted(self, values: pa.Array[Any], kind: Kind, place: _Place) -> pa.Array[Any]:
        """Return values as `kind`; those that are none are null, and told."""
        given = values.type
        if stays(given, kind) and not (self.calendar and _has_moments(kind)):
            return values.cast(kind) if is_nested(kind) else values
        values = _plain(values, kind)
        if pa.types.is_null(values.type):
            return nulls(len(values), kind)
        if is_text(values.type) and not is_text(kind):
            return self._of_texts(values.cast(pa.string()), kind, place, self.in_json)
        one, other = family_of(values.type), family_of(kind)
        if one == other and one in ("array", "map", "struct"):
            if one == "struct":
                return self._struct(values, kind, place)
            return self._map(values, kind, place) if one == "map" else self._list(values, kind, place)
        rule = None if is_nested(kind) else TABLE.get(one, {}).get(other)
        if rule is None:
            self._fault(values, holds(values.is_valid()), kind, place)
            return nulls(len(values), kind)
        found, bad = KERNELS.get((one, other), cast)(values, kind)
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
                shown = shown_value(values[at]) if given is None else str(given[at])[:LONGEST_SHOWN]
                whole = shown.encode(
                    "utf-8", "backslashreplace"
                ).decode()  # JSON may hold half of a surrogate pair
                self.faults[row] = Fault(place.path, whole, values.type, kind)

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
        found, parts = matched_fields(names, kind), values.flatten()
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
    def _of_texts(self, texts: pa.Array[Any], kind: Kind, place: _Place, in_json: bool) -> pa.Array[Any]:
        if not is_nested(kind):
            if is_bytes(kind):
                values, wrong = bytes_of(texts, in_json=in_json)
            else:
                found = read(texts, kind)
                values, wrong = found.values, found.bad.tolist()
            if wrong:
                bad = np.zeros(len(texts), dtype=bool)
                bad[wrong] = True
                self._fault(texts, bad, kind, place)
            return values.cast(kind)
        parsed: list[Any] = []
        bad = np.zeros(len(texts), dtype=bool)
        for at, text in enumerate(texts.to_pylist()):
            try:
                parsed.append(None if text is None else DECODER.decode(text))
            except REFUSED:
                parsed.append(None)
                bad[at] = True
        self._fault(texts, bad, kind, place)
        return self._of_json(parsed, kind, place)

    def _of_json(self, values: list[Any], kind: Kind, place: _Place) -> pa.Array[Any]:
        """Return values of JSON, numbers as they are written, as `kind`."""
        if not is_nested(kind):
            return self._of_texts(self._as_texts(values, kind, place), kind, place, in_json=True)
        if pa.types.is_struct(kind):
            return self._of_objects(values, kind, place)
        is_map = pa.types.is_map(kind)
        nested_keys = is_map and is_nested(kind.key_type)
        held = [entries(value, nested_keys=nested_keys) if is_map else value for value in values]
        bad = np.array([value is not None and not isinstance(value, list) for value in held], dtype=bool)
        bad |= np.array(
            [value is not None and parts is None for value, parts in zip(values, held, strict=True)],
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
        names_of_fields = [one.name for one in kind]
        bad = np.array(
            [
                value is not None
                and (not isinstance(value, dict) or bool(matched(names_of_fields, tuple(value)).twice))
                for value in values
            ],
            dtype=bool,
        )
        self._no_json(values, bad, kind, place)
        held = [
            value if isinstance(value, dict) and not no else None
            for value, no in zip(values, bad, strict=True)
        ]
        columns: list[list[Any]] = [[] for _ in kind]
        known: dict[tuple[str, ...], list[str | None]] = {}
        for value in held:
            names = () if value is None else tuple(value)
            if names not in known:
                places = matched_fields(names, kind)
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
            texts = [value if isinstance(value, str) else written(value) for value in values]
            self._fault(nulls(len(values), pa.string()), bad, kind, place, texts)

    def _as_texts(self, values: list[Any], kind: Kind, place: _Place) -> pa.Array[Any]:
        """Return JSON's texts, numbers and truths as texts; lists and objects are only where a text is asked for."""
        as_json = is_text(kind) and self.documents
        texts = [
            None if value is None else written(value) if as_json or not isinstance(value, str) else value
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
            self._fault(nulls(len(texts), pa.string()), np.array(bad), kind, place, texts)
            texts = [None if wrong else text for text, wrong in zip(texts, bad, strict=True)]
        return pa.array(texts, pa.string())


# ---- parts ---------------------------------------------------------------------------------------------------
def _plain(values: pa.Array[Any], wanted: Kind) -> pa.Array[Any]:
    """Return values without what only encodes them, in one of the forms that SQL's types have."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _plain(decoded(values), wanted)
    if pa.types.is_run_end_encoded(kind):
        return _plain(_expanded(values), wanted)
    if isinstance(values, pa.ExtensionArray):
        if isinstance(kind, pa.UuidType) and not is_bytes(wanted):
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


def shown_value(value: pa.Scalar[Any]) -> str:
    """Return a value as errors show it, cut where it is long."""
    try:
        return str(value.as_py())[:LONGEST_SHOWN]
    except (ValueError, OverflowError):  # a date that Python does not know
        return f"a {value.type} out of range"


def _has_moments(kind: Kind) -> bool:
    return holds_type(lambda one: pa.types.is_date32(one) or pa.types.is_timestamp(one), kind)


def _out_of_calendar(values: pa.Array[Any]) -> np.ndarray:
    """Tell which dates and times, to the microsecond, have a year but 1 to 9999."""
    is_day = pa.types.is_date32(values.type)
    numbers = as_numbers(values.view(pa.int32() if is_day else pa.int64()))
    first, last = (_FIRST_DAY, _LAST_DAY) if is_day else (_FIRST_TIME, _LAST_TIME)
    return holds(values.is_valid()) & ((numbers < first) | (numbers > last))
