"""Column types as Spark SQL type strings, and their Arrow forms."""

from __future__ import annotations

import re

import pyarrow as pa
import sqlglot.expressions as exp

from engine.errors import UnsupportedSql

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
    "void": pa.null(),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


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
        key, value = _split(kind[4:-1])
        return pa.map_(to_arrow(key), to_arrow(value))
    if kind.startswith("struct<"):
        fields = (part.split(":", 1) for part in _split(kind[7:-1]))
        return pa.struct([pa.field(name.strip("`"), to_arrow(inner)) for name, inner in fields])
    if re.fullmatch(r"(var)?char\(\d+\)", kind):
        return pa.string()
    raise UnsupportedSql(f"columns of type {kind} are not offered")


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()]


def parse_type(kind: exp.DataType, dialect: str) -> str:
    """Return the Spark type string of a parsed type; a TIMESTAMP of postgres has no zone, one of Spark has."""
    this = kind.this
    kinds = exp.DataType.Type
    if this == kinds.TIMESTAMP and dialect != "spark":
        return "timestamp_ntz"
    if this in (kinds.TIMESTAMPTZ, kinds.TIMESTAMPLTZ) or (this == kinds.TIMESTAMP and dialect == "spark"):
        return "timestamp"
    if this == kinds.TIMESTAMPNTZ:
        return "timestamp_ntz"
    if this == kinds.DECIMAL and not kind.expressions:
        return "decimal(10,0)" if dialect == "spark" else "decimal(38,10)"
    if this == kinds.DECIMAL and len(kind.expressions) == 1:
        return f"decimal({kind.expressions[0].sql()},0)"
    text = kind.sql("spark").lower().replace(" ", "")
    text = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "text": "string"}.get(
        text, text
    )
    if re.fullmatch(r"(var)?char(\(\d+\))?", text):
        text = "string"
    text = text.replace(":integer", ":int")
    to_arrow(text)
    return text
