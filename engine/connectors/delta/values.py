"""A Delta column's values in the type of a table's column: fields by their names, and what was made wider where it fits.

A table keeps the types that it was made with. Fields that a struct has besides are left out. What a value of a wider type becomes
stands in the table of conversions: it is taken if the narrower type has that very value, a DOUBLE as the nearest FLOAT.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from engine.connectors.delta.types import DeltaColumn, find_field, to_sql_type
from engine.jsonb.kinds import split_types
from engine.sql.expression.spark_sql import quote, quote_text
from engine.sql.typing.conversions import ConversionVerdict, classify_conversion
from engine.sql.typing.types import (
    decimal_digits,
    element_type,
    field_names,
    field_type,
    quote_type,
    to_arrow,
)
from engine.sql.typing.whole_numbers import DIGITS, INTEGRAL

"""How many digits before the point a decimal has that Delta lets take the place of one."""
_MOST_CHARACTERS = 200


class MatchedColumn(NamedTuple):
    """A column of a Delta table, and its value as Spark SQL; `unfit` is the condition that a value has no place in `type`."""

    name: str
    type: str
    value: str
    unfit: str = ""
    left: tuple[str, ...] = ()
    """The fields that are left out."""
    wider: tuple[str, ...] = ()
    """What has a wider type than in the table, as `name type`."""

    @property
    def item(self) -> str:
        """The value, null where it has no place."""
        value = f"IF({self.unfit}, NULL, {self.value})" if self.unfit else self.value
        return f"CAST({value} AS {quote_type(self.type)})"

    @property
    def reason(self) -> str:
        """Why a row is set aside, null where the value has its place."""
        if not self.unfit:
            return "NULL"
        prefix = quote_text(f"column {self.name} of the Delta table is ")
        value_text = f"left(CAST({quote(self.name)} AS STRING), {_MOST_CHARACTERS})"
        return (
            f"CASE WHEN {self.unfit} THEN concat({prefix}, {value_text}, "
            f"{quote_text(f', which {self.type} does not hold')}) END"
        )


class _MatchedPart(NamedTuple):
    value: str
    unfit: str = ""
    left: tuple[str, ...] = ()
    wider: tuple[str, ...] = ()


def match_column(column: DeltaColumn, kind: str) -> MatchedColumn | None:
    """Return how a column is taken as a type, None if it can't be."""
    part = _match_part(quote(column.name), kind, column.kind, column.name, 0)
    return None if part is None else MatchedColumn(column.name, kind, *part)


def _match_part(value: str, kind: str, delta_type: Any, path: str, depth: int) -> _MatchedPart | None:
    theirs = to_sql_type(delta_type)
    if theirs is not None and _normalize_type(theirs) == _normalize_type(kind):
        return _MatchedPart(value)
    if isinstance(delta_type, str):
        if theirs is None or not _is_wider(theirs, kind):
            return None
        narrow, wider = f"try_cast({value} AS {kind})", (f"{path} {theirs}",)
        match classify_conversion(to_arrow(theirs), to_arrow(kind)):
            case ConversionVerdict.REFUSED:
                return None
            case ConversionVerdict.NEAREST:
                beyond = f"abs({value}) <> double('Infinity') AND abs({narrow}) = double('Infinity')"
                return _MatchedPart(narrow, beyond, (), wider)
        return _MatchedPart(narrow, f"NOT (CAST({narrow} AS {theirs}) <=> {value})", (), wider)
    nested = {"array": _match_array, "map": _match_map, "struct": _match_struct}.get(delta_type["type"])
    return None if nested is None else nested(value, kind, delta_type, path, depth)


def _match_array(value: str, kind: str, delta_type: Any, path: str, depth: int) -> _MatchedPart | None:
    element, one = element_type(kind), f"_e{depth}"
    part = (
        None
        if element is None
        else _match_part(one, element, delta_type["elementType"], f"{path}.element", depth + 1)
    )
    if part is None:
        return None
    unfit = _render_any(f"exists({value}, {one} -> {part.unfit})" if part.unfit else "")
    return part._replace(value=f"transform({value}, {one} -> {part.value})", unfit=unfit)


def _match_map(value: str, kind: str, delta_type: Any, path: str, depth: int) -> _MatchedPart | None:
    if not kind.startswith("map<"):
        return None
    kinds, ones = split_types(kind[4:-1]), (f"_k{depth}", f"_v{depth}")
    key = _match_part(ones[0], kinds[0], delta_type["keyType"], f"{path}.key", depth + 1)
    value_part = _match_part(ones[1], kinds[1], delta_type["valueType"], f"{path}.value", depth + 1)
    if key is None or value_part is None:
        return None
    both = f"({ones[0]}, {ones[1]})"
    whole = f"transform_values({value}, {both} -> {value_part.value})"
    unfit = [f"exists(map_values({value}), {ones[1]} -> {value_part.unfit})" if value_part.unfit else ""]
    if key.value != ones[0]:
        whole = f"transform_keys({whole}, {both} -> {key.value})"
        unfit.append(f"exists(map_keys({value}), {ones[0]} -> {key.unfit})" if key.unfit else "")
    return _MatchedPart(whole, _render_any(*unfit), key.left + value_part.left, key.wider + value_part.wider)


def _match_struct(value: str, kind: str, delta_type: Any, path: str, depth: int) -> _MatchedPart | None:
    items, unfit, left, wider, matched = list[str](), list[str](), list[str](), list[str](), set[str]()
    for name, inner in _list_fields(kind):
        field = find_field(delta_type, name)
        part = (
            None
            if field is None
            else _match_part(f"{value}.{quote(field['name'])}", inner, field["type"], f"{path}.{name}", depth)
        )
        if field is None or part is None:
            return None
        matched.add(field["name"])
        items.append(f"{quote_text(name)}, {part.value}")
        unfit.append(part.unfit)
        left += part.left
        wider += part.wider
    left += [f"{path}.{field['name']}" for field in delta_type["fields"] if field["name"] not in matched]
    if not items:
        return None
    whole = f"IF({value} IS NULL, NULL, named_struct({', '.join(items)}))"
    return _MatchedPart(whole, _render_any(*unfit), tuple(left), tuple(wider))


def _list_fields(kind: str) -> Iterator[tuple[str, str]]:
    for name in field_names(kind):
        yield name, field_type(kind, name) or ""


def _render_any(*conditions: str) -> str:
    """Return that one of some conditions holds, "" where none can."""
    return " OR ".join(f"coalesce({condition}, FALSE)" for condition in conditions if condition)


def _is_wider(theirs: str, kind: str) -> bool:
    """Tell whether Delta may have widened a type to another (its table of type changes)."""
    kind = _normalize_type(kind)
    to, digits = decimal_digits(theirs), decimal_digits(kind)
    if kind in INTEGRAL:
        if theirs in INTEGRAL:
            return INTEGRAL.index(theirs) > INTEGRAL.index(kind)
        if to is not None:
            return to[0] - to[1] >= max(DIGITS["int"], DIGITS[kind])
        return theirs == "double" and kind != "bigint"
    if digits is not None and to is not None:
        return to[1] >= digits[1] and to[0] - to[1] >= digits[0] - digits[1]
    return (kind, theirs) in (("float", "double"), ("date", "timestamp_ntz"))


def _normalize_type(kind: str) -> str:
    return kind.replace(" ", "").replace("`", "").lower()
