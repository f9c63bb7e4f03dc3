"""All pairs of types with their edge values, held against Spark's ANSI store assignment.

`python -m tests.sql.typing.spark_conversions` prints the pairs and what differs, by reason.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.arrow import as_values
from engine.runtime.rows import create_frame
from engine.sql.typing.column_conversion import convert_to_type
from engine.sql.typing.conversions import ConversionVerdict, classify_conversion
from engine.sql.typing.types import to_arrow
from tools.conversions import find_reason

DAY = 86_400_000_000
_LAST_YEAR = 2_932_896
_FIRST_YEAR = -719_162
WHOLE = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
INF, NAN = float("inf"), float("nan")


def _ends(bits: int) -> list[int]:
    most = 1 << bits - 1
    around = [
        0,
        1,
        -1,
        5,
        127,
        128,
        -128,
        -129,
        32767,
        32768,
        16777216,
        16777217,
        2**31 - 1,
        2**31,
        2**53,
        2**53 + 1,
    ]
    return [number for number in [*around, -most, -most + 1, most - 1, most - 2] if -most <= number < most]


def _digits(precision: int, scale: int) -> list[Decimal]:
    most = Decimal((0, (9,) * precision, -scale))
    unit = Decimal(1).scaleb(-scale)
    some = [
        Decimal(0),
        unit,
        -unit,
        most,
        -most,
        Decimal(1),
        Decimal("0.5"),
        Decimal("2.5"),
        Decimal(127),
        Decimal(128),
    ]
    with localcontext(prec=80):
        return [one for one in some if one == one.quantize(unit) and abs(one) <= most]


FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    2.5,
    0.1,
    1e-3,
    9.99e-4,
    1e7,
    123456.789,
    2.0**24,
    2.0**31,
    2.0**53,
    2.0**63,
    -(2.0**63),
]
ENDS = [NAN, INF, -INF]
VALUES: Mapping[str, Sequence[Any]] = {
    "boolean": [True, False, None],
    **{name: _ends(bits) for name, bits in WHOLE.items()},
    "float": [*FLOATS, *ENDS, 3.4028234663852886e38, 1.401298464324817e-45, 1.17549435e-38, 16777217.0],
    "double": [*FLOATS, *ENDS, 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, 1e300, 1e23, 1e22, 3.5e38,
               3.4028235677973366e38, 0.125, 999999999.99, 1e-10, 99999999.995],
    "decimal(1,0)": _digits(1, 0),
    "decimal(10,2)": _digits(10, 2),
    "decimal(20,0)": _digits(20, 0),
    "decimal(38,0)": _digits(38, 0),
    "decimal(38,18)": _digits(38, 18),
    "decimal(38,38)": _digits(38, 38),
    "string": ["", "a", "5", "true", "1.5", "2024-01-31", "2024-01-31 01:02:03", "1e3", "ü€😀"],
    "binary": [b"", b"a", "ü".encode(), b"\xff\xfe"],
    "date": [0, 19753, _FIRST_YEAR, _LAST_YEAR, _LAST_YEAR + 1, -141427, 106_751_991, 106_751_992, 2**31 - 1, -(2**31)],
    "timestamp": [0, 1, 1_700_000_000_123_456, 1_700_000_000_120_000, _FIRST_YEAR * DAY, (_LAST_YEAR + 1) * DAY - 1, 2**63 - 1, -(2**63), DAY],
    "timestamp_ntz": [0, 1, 1_700_000_000_123_456, 1_700_000_000_000_000, _FIRST_YEAR * DAY, (_LAST_YEAR + 1) * DAY - 1, 2**63 - 1, DAY],
    "time(6)": [0, 1000, DAY * 1000 - 1000, 3_600_000_000_000, 120_000_000],
    "interval day to second": [0, 1, -1, DAY, -DAY - 1, 2**63 - 1, 1_500_000],
}  # fmt: skip
NESTED = {
    "array<int>": [[1, None, -(2**31)], [], None],
    "array<bigint>": [[1, 2**31], [None]],
    "array<double>": [[1.5], [NAN, 1.0]],
    "array<boolean>": [[True], None],
    "array<string>": [["5"], ["x"]],
    "struct<a:int,b:double>": [{"a": 1, "b": 1e300}, {"a": None, "b": 0.5}],
    "struct<a:bigint,b:float>": [{"a": 2**31, "b": 0.5}, {"a": 7, "b": INF}],
    "struct<a:boolean>": [{"a": True}],
    "struct<a:int>": [{"a": 7}, None],
    "map<string,int>": [[("k", 1)], []],
    "map<string,smallint>": [[("k", 1)], [("k", None)]],
    "map<string,double>": [[("k", 1e300)], [("k", 70000.0)]],
    "array<struct<a:array<int>>>": [[{"a": [1, 2]}], None],
    "array<struct<a:array<tinyint>>>": [[{"a": [1, 127]}], [{"a": None}]],
}


def column_of(kind: str) -> pa.Array[Any]:
    """Return the edge values of a type."""
    target, given = to_arrow(kind), VALUES.get(kind, NESTED.get(kind))
    assert given is not None
    if pa.types.is_temporal(target):
        bits = pa.int32() if pa.types.is_date32(target) else pa.int64()
        return pa.array(given, bits).cast(target)
    return pa.array(given, target)


@dataclass
class Compared:
    """What was compared, and each difference: reason, or "" for one that nobody has given a reason for."""

    pairs: int = 0
    values: int = 0
    differences: Counter[tuple[str, str]] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)

    def differs(self, given: str, wanted: str, what: str, detail: str) -> None:
        """Note a difference of a kind."""
        reason = find_reason(given, wanted, what)
        if reason:
            self.differences[(f"{given} -> {wanted}", what)] += 1
        else:
            self.unexplained.append(f"{given} -> {wanted}: {what}: {detail}")


def spark_takes(session: SparkSession, given: str, wanted: str) -> bool:
    """Tell whether Spark's store assignment takes values of one type in a column of another."""
    jvm: Any = session._jvm  # type: ignore[attr-defined]  # there is no other way to ask
    kinds = [jvm.org.apache.spark.sql.types.DataType.fromDDL(kind) for kind in (given, wanted)]
    cast = jvm.org.apache.spark.sql.catalyst.expressions.Cast
    return bool(cast.canANSIStoreAssign(*kinds) and cast.canAnsiCast(*kinds))


def compare(session: SparkSession, kinds: Sequence[str]) -> Compared:
    """Compare all pairs of some types, in one job."""
    found = Compared()
    columns = {kind: column_of(kind) for kind in kinds}
    rows = max(len(column) for column in columns.values())
    table = pa.table(
        {
            "place": pa.array(range(rows)),
            **{
                f"v{n}": pa.concat_arrays([column, pa.nulls(rows - len(column), column.type)])
                for n, column in enumerate(columns.values())
            },
        }
    )
    numbers = {kind: n for n, kind in enumerate(kinds)}
    pairs = list(itertools.product(kinds, kinds))
    taken = {pair: spark_takes(session, *pair) for pair in pairs}
    asked = [pair for pair in pairs if taken[pair]]
    items = [f"try_cast(v{numbers[one]} AS {other}) AS r{n}" for n, (one, other) in enumerate(asked)]
    answer = create_frame(session, table).selectExpr("place", *items).toArrow().sort_by("place")
    answers = {pair: answer.column(f"r{n}") for n, pair in enumerate(asked)}
    for given, wanted in pairs:
        found.pairs += 1
        column, ours = columns[given], classify_conversion(column_of(given).type, to_arrow(wanted))
        if not taken[given, wanted] or ours is ConversionVerdict.REFUSED:
            if taken[given, wanted]:
                found.differs(given, wanted, "refused", "Spark takes it")
            elif ours is not ConversionVerdict.REFUSED:
                found.differs(given, wanted, "taken", "Spark refuses it")
            continue
        _values(found, given, wanted, column, answers[given, wanted])
    return found


def _values(found: Compared, given: str, wanted: str, column: pa.Array[Any], theirs: Any) -> None:
    done = convert_to_type(column, to_arrow(wanted))
    bits = _bits(done.values), _bits(theirs.combine_chunks().slice(0, len(column)).cast(to_arrow(wanted)))
    for at, (mine, other) in enumerate(zip(*bits, strict=True)):
        found.values += 1
        message = f"{as_values(column.slice(at, 1))[0]!r}: {mine!r}, Spark {other!r}"
        if at in done.faults:
            if other is not None and str(other).count("None") <= str(as_values(column)[at]).count("None"):
                found.differs(given, wanted, "exact", message)
        elif mine != other:
            found.differs(given, wanted, "value", message)


def _bits(values: pa.Array[Any]) -> list[Any]:
    """Return values so that they are equal only where they are the same."""
    if pa.types.is_temporal(values.type):
        return as_values(values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64()))
    if pa.types.is_string(values.type):
        values = values.view(pa.binary())  # Spark's may be no UTF-8
    return [None if value is None else repr(value) for value in as_values(values)]


def report(found: Compared) -> str:
    """Return what was compared in lines."""
    lines = [f"{found.pairs} pairs, {found.values} values, unexplained {len(found.unexplained)}"]
    lines += [f"  {n:4} {pair}: {what}" for (pair, what), n in sorted(found.differences.items())]
    return "\n".join([*lines, *found.unexplained])


def main() -> None:
    """Compare all, and print it."""
    from engine.runtime.spark.session import connect

    session = connect("local[2]")
    print(report(compare(session, [*VALUES, *NESTED])))
    session.stop()


if __name__ == "__main__":
    main()
