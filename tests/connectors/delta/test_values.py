"""Values of Delta's types taken as those that a table has: fields by their names, and what was made wider where it fits."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta.types import find_renamed_columns, parse_schema
from engine.connectors.delta.values import MatchedColumn, match_column
from engine.sql.typing.conversions import ConversionVerdict, classify_conversion
from engine.sql.typing.types import to_arrow

LEAST = {"byte": -(2**7), "short": -(2**15), "integer": -(2**31), "long": -(2**63)}
WIDENED = [
    *(
        (ours, theirs)
        for ours in ("byte", "short", "integer")
        for theirs in ("long", "double", "decimal(12,2)")
    ),
    *(
        ("long", "decimal(22,1)"),
        ("float", "double"),
        ("date", "timestamp_ntz"),
        ("decimal(5,2)", "decimal(9,4)"),
    ),
]
VALUES = {
    "long": [0, *(n for edge in (2**7, 2**15, 2**31, 2**63) for n in (edge - 1, -edge)), 2**7, 2**15, 2**31],
    "double": [
        0.0,
        -0.0,
        0.1,
        0.5,
        127.0,
        128.0,
        2.0**31,
        -(2.0**31),
        1e300,
        float("nan"),
        float("inf"),
        5e-324,
    ],
    "decimal(12,2)": ["0", "1.50", "127", "128", "2147483647", "2147483648", "-2147483648"],
    "decimal(22,1)": ["0.1", "9223372036854775807", "9223372036854775808", "-9223372036854775808"],
    "decimal(9,4)": ["1.2500", "1.2501", "999.99", "1000", "-999.9900"],
    "timestamp_ntz": ["2024-01-02 00:00:00", "2024-01-02 00:00:00.000001", "0001-01-01 00:00:00"],
}
NAMES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def column(name: str, kind: Any, physical: str | None = None) -> dict[str, Any]:
    held = {} if physical is None else {"delta.columnMapping.physicalName": physical}
    return {"name": name, "type": kind, "nullable": True, "metadata": held}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def mapped(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def taken(kind: Any, ours: str) -> MatchedColumn | None:
    (given,) = parse_schema(json.dumps(struct(column("c", kind))))
    return match_column(given, ours)


@pytest.mark.long
def test_a_wider_value_is_taken_if_it_comes_back_as_it_was(spark: SparkSession) -> None:
    asked, wanted = [], []
    for ours, theirs in WIDENED:
        narrow, wide = NAMES.get(ours, ours), NAMES.get(theirs, theirs)
        found = taken(theirs, narrow)
        assert found is not None and found.wider == (f"c {wide}",)
        for value in (*VALUES[theirs], None):
            given = f"CAST({'NULL' if value is None else repr(str(value))} AS {wide})"
            asked.append(
                f"SELECT '{ours} {theirs} {value}' AS what, CAST({found.item} AS STRING) AS got, "
                f"{found.reason} IS NOT NULL AS aside, CAST(try_cast(c AS {narrow}) AS STRING) AS narrow "
                f"FROM (SELECT {given} AS c)"
            )
            wanted.append(_fits(value, ours))
    rows = spark.sql(" UNION ALL ".join(asked)).collect()
    for row, fits in zip(rows, wanted, strict=True):
        assert row.aside == (not fits), row
        assert row.got == (row.narrow if fits else None), row


def test_the_table_of_conversions_takes_what_delta_may_widen() -> None:
    kinds = {"tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp_ntz"}
    kinds |= {f"decimal({p},{s})" for p, s in ((5, 2), (9, 4), (20, 0), (22, 1), (38, 10))}
    names = {wide: narrow for narrow, wide in NAMES.items()}
    for ours in kinds:
        for theirs in kinds - {ours}:
            found = taken(names.get(theirs, theirs), ours)
            said = classify_conversion(to_arrow(theirs), to_arrow(ours))
            assert found is None or said in (ConversionVerdict.EXACT, ConversionVerdict.NEAREST), (
                theirs,
                ours,
            )


def _fits(value: Any, ours: str) -> bool:
    """Tell by Python whether a value is one of a narrower type."""
    if value is None:
        return True
    if ours in LEAST:
        if isinstance(value, float):
            return value.is_integer() and LEAST[ours] <= value <= -LEAST[ours] - 1
        whole, _, rest = str(value).partition(".")
        return not rest.strip("0") and LEAST[ours] <= int(whole) <= -LEAST[ours] - 1
    if ours == "float":
        with np.errstate(all="ignore"):
            return not np.isfinite(value) or bool(np.isfinite(np.float32(value)))  # the nearest one
    if ours == "date":
        return value.endswith("00:00:00")
    whole, _, rest = str(value).partition(".")
    return len(whole.lstrip("-")) <= 3 and not rest[2:].strip("0")


def test_fields_are_found_by_their_names_in_lists_and_maps_too(spark: SparkSession) -> None:
    inner = struct(column("b", "string"), column("A", "long"), column("x`y.z", "string"))
    kind = struct(column("s", inner), column("l", array(inner)), column("m", mapped("long", inner)))
    found = taken(kind, "struct<l:array<struct<a:int>>,s:struct<a:int,b:string>,m:map<int,struct<a:bigint>>>")
    assert found is not None
    assert set(found.left) == {
        "c.s.x`y.z",
        "c.l.element.b",
        "c.l.element.x`y.z",
        "c.m.value.b",
        "c.m.value.x`y.z",
    }
    assert set(found.wider) == {"c.l.element.a bigint", "c.s.a bigint", "c.m.key bigint"}
    given = "named_struct('b', {b}, 'A', CAST({a} AS BIGINT), 'x`y.z', 'z')"
    one, far = given.format(b="'b'", a=1), given.format(b="'b'", a=2**40)
    whole = "named_struct('s', {s}, 'l', array({s}, NULL), 'm', map(CAST({k} AS BIGINT), {v}, 8L, NULL))"
    cases = [
        (whole.format(s=one, k=7, v=one), False),
        (whole.format(s=one, k=7, v=far), False),
        (whole.format(s=far, k=7, v=one), True),
        (whole.format(s=one, k=2**40, v=one), True),
    ]
    asked = [
        f"SELECT {found.item} AS got, {found.reason} AS why FROM (SELECT {text} AS c)" for text, _ in cases
    ]
    rows = spark.sql(" UNION ALL ".join(asked)).collect()
    assert [row.why is not None for row in rows] == [aside for _, aside in cases]
    assert [row.got is None for row in rows] == [aside for _, aside in cases]
    assert rows[0].got.asDict(recursive=True) == {
        **{"l": [{"a": 1}, None], "s": {"a": 1, "b": "b"}, "m": {7: {"a": 1}, 8: None}},
    }


@pytest.mark.parametrize(
    ("kind", "ours"),
    [
        *(
            ("integer", "bigint"),
            ("long", "double"),
            ("string", "int"),
            ("double", "bigint"),
            ("long", "decimal(12,0)"),
        ),
        *(
            ("decimal(9,2)", "decimal(9,4)"),
            ("timestamp", "date"),
            ("variant", "string"),
            (array("long"), "int"),
        ),
        *((struct(column("a", "long")), "struct<b:bigint>"), (mapped("string", "long"), "array<bigint>")),
        (array(struct(column("a", "string"))), "array<struct<a:int>>"),
    ],
)
def test_other_types_are_not_taken(kind: Any, ours: str) -> None:
    assert taken(kind, ours) is None


@pytest.mark.parametrize(
    ("before", "after", "ours", "found"),
    [
        (column("c", "long", "p1"), column("c", "long", "p2"), "bigint", ["c"]),
        (column("c", "long"), column("c", "long", "c"), "bigint", []),
        (column("C", "long", "p1"), column("c", "long", "p1"), "bigint", []),
        *(
            (
                column("c", wrap(struct(column("a", "long", "p1"), column("b", "long", "p3"))), "p"),
                column(
                    "c",
                    wrap(
                        struct(
                            column("a", "long", "p1"), column("b", "long", "p2"), column("d", "long", "p4")
                        )
                    ),
                    "p",
                ),
                around.format(fields),
                found,
            )
            for wrap, around in (
                (lambda kind: kind, "{}"),
                (array, "array<{}>"),
                (lambda kind: mapped("string", kind), "map<string,{}>"),
                (lambda kind: mapped(kind, "string"), "map<{},string>"),
                (lambda kind: struct(column("s", array(kind), "q")), "struct<s:array<{}>>"),
            )
            for fields, found in (("struct<a:bigint,b:bigint>", ["c"]), ("struct<a:bigint>", []))
        ),
    ],
)
def test_a_name_that_another_column_or_field_had_is_found_if_it_is_taken(
    before: dict[str, Any], after: dict[str, Any], ours: str, found: list[str]
) -> None:
    schemas = (json.dumps(struct(one)) for one in (before, after))
    assert find_renamed_columns(*schemas, {"c": ours}) == found
