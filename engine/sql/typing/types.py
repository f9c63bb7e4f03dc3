"""Column types as Spark SQL type strings, and their Arrow forms."""

from __future__ import annotations

import re

import pyarrow as pa
import sqlglot.expressions as exp
from sqlglot.dialects.spark import Spark

from engine.errors import UnsupportedSql
from engine.jsonb.kinds import split_types, to_storage_type
from engine.sql.dialect import Dialect
from engine.sql.typing.intervals import is_interval

# sqlglot writes TIME as TIMESTAMP for Spark, which has a type of its own for it
Spark.Generator.TYPE_MAPPING[exp.DataType.Type.TIME] = "TIME"

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "time(6)": pa.time64("ns"),
    "interval day to second": pa.duration("us"),
    "void": pa.null(),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


TYPE_NAMES = (
    "types are BOOLEAN, INT and its sizes, FLOAT, DOUBLE, DECIMAL, STRING, BINARY, DATE, TIME, TIMESTAMP, INTERVAL of days "
    "and less, JSON, ARRAY, MAP, STRUCT"
)


def to_arrow(kind: str) -> pa.DataType:
    """Return the Arrow type of a Spark type string."""
    kind = kind.strip()
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if found := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    if kind.startswith("array<"):
        return pa.list_(pa.field("element", to_arrow(kind[6:-1])))
    if kind.startswith("map<"):
        if has_untyped_keys(kind):
            raise UnsupportedSql("a map whose keys have no type is not offered: CAST it to one that has")
        key, value = (to_arrow(inner) for inner in split_types(kind[4:-1]))
        return pa.map_(key, value)
    if kind.startswith("struct<"):
        fields = (part.split(":", 1) for part in split_types(kind[7:-1]))
        return pa.struct([pa.field(name.strip("`"), to_arrow(inner)) for name, inner in fields])
    if re.fullmatch(r"(var)?char\(\d+\)", kind):
        return pa.string()
    if re.fullmatch(r"time\([0-6]\)", kind):
        return _SIMPLE["time(6)"]
    if re.fullmatch(r"interval (day|hour|minute|second)( to (hour|minute|second))?", kind):
        return _SIMPLE["interval day to second"]
    raise UnsupportedSql(f"columns of type {kind} are not offered")


def has_untyped_keys(kind: str) -> bool:
    """Tell whether a Spark type string holds a map whose keys have no type, as `map()` is: Arrow has none of that.

    >>> has_untyped_keys("array<map<void,void>>"), has_untyped_keys("map<int,void>")
    (True, False)
    """
    return "map<void," in kind


def quote_type(kind: str) -> str:
    """Return a Spark type string with the names of fields quoted: Spark SQL takes few of them as they are.

    >>> quote_type("map<string,array<struct<größe:int,1d:decimal(3,1)>>>")
    'map<string,array<struct<`größe`:int,`1d`:decimal(3,1)>>>'
    """
    if kind.startswith("array<"):
        return f"array<{quote_type(kind[6:-1])}>"
    if kind.startswith("map<"):
        return f"map<{','.join(map(quote_type, split_types(kind[4:-1])))}>"
    if kind.startswith("struct<"):
        parts = (part.partition(":") for part in split_types(kind[7:-1]))
        fields = ((name.strip("`"), quote_type(inner)) for name, _, inner in parts)
        return "struct<" + ",".join(f"`{name}`:{inner}" for name, inner in fields) + ">"
    return kind


def decimal_digits(kind: str | None) -> tuple[int, int] | None:
    """Return precision and scale of a decimal type, None for any other."""
    found = _DECIMAL.fullmatch(kind or "")
    return (int(found[1]), int(found[2])) if found is not None else None


def element_type(kind: str) -> str | None:
    """Return the type of the elements of an array type, None for any other."""
    return kind[len("array<") : -1] if kind.startswith("array<") else None


def field_names(kind: str) -> tuple[str, ...]:
    """Return the names of the fields of a struct type, nothing for any other."""
    if not kind.startswith("struct<"):
        return ()
    return tuple(part.partition(":")[0].strip().strip("`") for part in split_types(kind[len("struct<") : -1]))


def field_type(kind: str, name: str) -> str | None:
    """Return the type of a field of a struct type, None if it has none of that name."""
    fields = split_types(kind[len("struct<") : -1]) if kind.startswith("struct<") else []
    found = (part.partition(":") for part in fields)
    return next((its.strip() for field, _, its in found if field.strip("` ").lower() == name.lower()), None)


def find_moved_field(one: str | None, other: str | None) -> str | None:
    """Return a field that two types have in a struct at other places; None if there is none, or a type is not known.

    >>> find_moved_field("array<struct<a:int,b:int>>", "array<struct<B:int,c:int>>")
    'b'
    """
    if one is None or other is None:
        return None
    if (inner := element_type(one)) is not None:
        return find_moved_field(inner, element_type(other))
    if one.startswith("map<") and other.startswith("map<"):
        pairs = zip(split_types(one[4:-1]), split_types(other[4:-1]), strict=False)
        return next((found for pair in pairs if (found := find_moved_field(*pair))), None)
    names = [[name.lower() for name in field_names(kind)] for kind in (one, other)]
    moved = [name for n, name in enumerate(names[0]) if name in names[1] and names[1].index(name) != n]
    inside = (find_moved_field(field_type(one, name), field_type(other, name)) for name in names[0])
    return next(iter(moved), None) or next((found for found in inside if found), None)


def from_arrow(kind: pa.DataType) -> str:
    """Return the Spark type string of an Arrow type; raises UnsupportedSql for a type that Spark has none for."""
    for name, simple in _SIMPLE.items():
        if kind == simple:
            return name
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is not None else "timestamp_ntz"
    if pa.types.is_time(kind):
        return "time(6)"
    if pa.types.is_duration(kind):
        return "interval day to second"
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "binary"
    if pa.types.is_map(kind):
        return f"map<{from_arrow(kind.key_type)},{from_arrow(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"array<{from_arrow(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{from_arrow(field.type)}' for field in kind)}>"
    if pa.types.is_dictionary(kind):
        return from_arrow(kind.value_type)
    raise UnsupportedSql(f"Arrow's {kind} has no SQL type", hint="cast the column before it is written")


_KIND = exp.DataType.Type
_NAMES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "text": "string",
    "real": "float",
}


def parse_type(kind: exp.DataType, dialect: Dialect) -> str:
    """Return the Spark type string of a parsed type; a TIMESTAMP of postgres has no zone, one of Spark has.

    Raises UnsupportedSql for a type that no column can have.
    """
    return to_storage_type(parse_sql_type(kind, dialect))


def parse_sql_type(kind: exp.DataType, dialect: Dialect) -> str:
    """Return a parsed type as SQL sees it: as `parse_type` does, but for json and jsonb; raises UnsupportedSql."""
    this, inner = kind.this, kind.expressions
    if this == _KIND.TIMESTAMP:
        return "timestamp" if dialect == "spark" else "timestamp_ntz"
    if this in (_KIND.TIMESTAMPTZ, _KIND.TIMESTAMPLTZ):
        return "timestamp"
    if this == _KIND.TIMESTAMPNTZ:
        return "timestamp_ntz"
    if this == _KIND.TIME:
        return "time(6)"
    if is_interval(kind):
        return "interval day to second"
    if this in (_KIND.JSON, _KIND.JSONB):
        return "jsonb" if this == _KIND.JSONB else "json"
    if this == _KIND.DECIMAL:
        return _parse_decimal([part.name for part in inner], dialect)
    if this in (_KIND.ARRAY, _KIND.LIST) and len(inner) == 1:
        return f"array<{parse_sql_type(inner[0], dialect)}>"
    if this == _KIND.MAP and len(inner) == 2:
        return f"map<{parse_sql_type(inner[0], dialect)},{parse_sql_type(inner[1], dialect)}>"
    if this == _KIND.STRUCT and inner and all(isinstance(part, exp.ColumnDef) for part in inner):
        return (
            "struct<" + ",".join(f"{p.name}:{parse_sql_type(p.args['kind'], dialect)}" for p in inner) + ">"
        )
    text = kind.sql("spark").lower().replace(" ", "")
    text = "string" if re.fullmatch(r"(var)?char(\(\d+\))?", text) else _NAMES.get(text, text)
    if text not in _SIMPLE or text == "void" or this == _KIND.TIMETZ:
        raise UnsupportedSql(f"columns of type {kind.sql()} are not offered")
    return text


def _parse_decimal(digits: list[str], dialect: Dialect) -> str:
    if not digits:
        return "decimal(10,0)" if dialect == "spark" else "decimal(38,10)"
    precision, scale = int(digits[0]), int(digits[1]) if len(digits) > 1 else 0
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise UnsupportedSql(
            f"decimal({precision},{scale}) is not offered: 38 digits, all of them fraction at most"
        )
    return f"decimal({precision},{scale})"


def cast_type(kind: str) -> exp.DataType:
    """Return a Spark type string as a type that every dialect's rules leave alone."""
    kind = to_storage_type(kind)
    if kind == "timestamp":
        return exp.DataType(this=exp.DataType.Type.TIMESTAMPTZ)
    return exp.DataType.build(kind, dialect="spark")
