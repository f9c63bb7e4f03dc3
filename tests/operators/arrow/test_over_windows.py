"""Calls over windows that Arrow computes give what DuckDB gives, for every function over every frame, whatever the rows hold."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from engine.operators.arrow import over_windows
from engine.operators.arrow.compiler import Compiler
from engine.operators.arrow.expressions import Inexact
from engine.operators.arrow.ordered_rows import Sorting
from engine.operators.arrow.over_windows import ArrowCall, ComputeWindows, compile_call
from engine.sql.expression.nodes import Call, Cast, Column, Expr, Interval, Literal
from engine.sql.expression.parser import parse_expression
from engine.sql.window_calls import Frame, FrameEnd, SortKey, WindowCall
from tests.long_rest import mark_rest_long
from tests.oracle.batch import assert_equal

KINDS = StructType(
    [
        StructField("id", LongType()),
        StructField("g", IntegerType()),
        StructField("o", IntegerType()),
        StructField("t", StringType()),
        StructField("ts", TimestampNTZType()),
        StructField("d", DecimalType(10, 2)),
        StructField("x", LongType()),
    ]
)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("g", pa.int32()),
        ("o", pa.int32()),
        ("t", pa.string()),
        ("ts", pa.timestamp("us")),
        ("d", pa.decimal128(10, 2)),
        ("x", pa.int64()),
    ]
)
ENDS = {
    "UNBOUNDED PRECEDING": FrameEnd("preceding"),
    "3 PRECEDING": FrameEnd("preceding", Literal("3")),
    "1 PRECEDING": FrameEnd("preceding", Literal("1")),
    "CURRENT ROW": FrameEnd("current row"),
    "1 FOLLOWING": FrameEnd("following", Literal("1")),
    "2 FOLLOWING": FrameEnd("following", Literal("2")),
    "UNBOUNDED FOLLOWING": FrameEnd("following"),
}
FRAMES = [
    (unit, start, end)
    for unit in ("rows", "range", "groups")
    for start, end in itertools.combinations_with_replacement(ENDS, 2)
    if start != "UNBOUNDED FOLLOWING"
    and end != "UNBOUNDED PRECEDING"
    and (unit == "rows" or not any(char.isdigit() for char in start + end))
]
X, ONE = Column("x"), Literal("1")
FRAMED = {
    "count(*)": Call("count"),
    "count(x)": Call("count", (X,)),
    "sum(x)": Call("sum", (X,)),
    "avg(x)": Call("avg", (X,)),
    "min(t)": Call("min", (Column("t"),)),
    "max(ts)": Call("max", (Column("ts"),)),
    "max(x)": Call("max", (X,)),
    "min(d)": Call("min", (Column("d"),)),
}
OF_ROWS = {"first_value(x)": Call("first_value", (X,)), "last_value(t)": Call("last_value", (Column("t"),))}
PLACED = {
    "row_number()": Call("row_number"),
    "rank()": Call("rank"),
    "dense_rank()": Call("dense_rank"),
    "lag(x)": Call("lag", (X,)),
    "lag(t, 2)": Call("lag", (Column("t"), Literal("2"))),
    "lead(ts, 0)": Call("lead", (Column("ts"), Literal("0"))),
    "lead(x, 3)": Call("lead", (X, Literal("3"))),
}
ORDERS = (
    (),
    (SortKey("o"),),
    (SortKey("o", descending=True, nulls_first=False),),
    (SortKey("t", nulls_first=False), SortKey("ts", descending=True)),
    (SortKey("d", descending=True), SortKey("o")),
)


def rows(chance: random.Random, count: int) -> pa.Table:
    """Return rows with few values and many nulls, in no order."""

    def some(*values: object) -> object:
        return None if chance.random() < 0.2 else chance.choice(values)

    ids = chance.sample(range(1_000), count)
    made = [
        (
            n,
            some(1, 2),
            some(-1, 0, 5),
            some("", "a", "ä", "B"),
            some(0, 1, -1),
            some("1.50", "-2.00"),
            some(0, 7, -(10**9)),
        )
        for n in ids
    ]
    columns = [list(column) for column in zip(*made, strict=True)] if made else [[] for _ in SCHEMA]
    arrays = [
        pa.array(column).cast(field.type)
        if any(v is not None for v in column)
        else pa.nulls(count, field.type)
        for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def ordered(order: tuple[SortKey, ...], *, total: bool) -> str:
    keys = [
        f"{key.column} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in order
    ]
    return f"ORDER BY {', '.join([*keys, *(['id'] if total else [])])}" if keys or total else ""


def calls() -> Iterator[tuple[str, Expr, Frame | None, str, bool]]:
    """Yield (DuckDB's text, call, frame, its text, whether the order has to be total) of every combination."""
    for text, call in PLACED.items():
        yield text, call, None, "", text not in ("rank()", "dense_rank()")
    for unit, start, end in FRAMES:
        frame = Frame(unit, ENDS[start], ENDS[end])  # type: ignore[arg-type]
        said = f"{unit.upper()} BETWEEN {start} AND {end}"
        for text, call in (FRAMED | (OF_ROWS if unit == "rows" else {})).items():
            yield text, call, frame, said, unit == "rows"


@pytest.mark.parametrize(
    ("seed", "count", "partition"),
    mark_rest_long([(2, 9, ("g", "t")), (4, 0, ("g",)), (1, 1, ("g",)), (3, 40, ("g",))], keep=2),
)
def test_every_call_over_every_frame_equals_duckdb(seed: int, count: int, partition: tuple[str, ...]) -> None:
    given = rows(random.Random(seed), count)
    compiler = Compiler(KINDS, lambda: True)
    found: list[ArrowCall] = []
    texts: list[str] = []
    by = f"PARTITION BY {', '.join(partition)}"
    for order, (text, call, frame, said, total) in itertools.product(ORDERS, calls()):
        if not order and (not total or frame is None):
            continue
        one = compile_call(WindowCall(f"c{len(found)}", call, order, frame), ("id",), compiler)
        assert one is not None, text
        found.append(one)
        texts.append(f"{text} OVER ({by} {ordered(order, total=total)} {said})")
    halves = [given.slice(0, count // 2), given.slice(count // 2)]
    body = ComputeWindows(partition, tuple(found))
    made = list(body(batch for half in halves for batch in half.to_batches()))
    assert len(made) == min(count, 1)
    with duckdb.connect(config=ONE_THREAD) as connection:
        connection.register("given", given)
        items = ", ".join(f"{text} AS {one.name}" for text, one in zip(texts, found, strict=True))
        expected = connection.sql(f"SELECT id, {items} FROM given").to_arrow_table()
    for batch in made:
        for text, one in zip(texts, found, strict=True):
            names = ["id", one.name]
            assert_equal(pa.Table.from_batches([batch]).select(names), expected.select(names), text)


def span(days: int) -> Expr:
    return Cast(Interval(Literal(str(days)), "DAYS"), "interval day to second")


ONE_THREAD = {"threads": 1}
"""With more of them DuckDB gives now and then another count of a RANGE frame."""
FAR_ENDS = [
    ("UNBOUNDED PRECEDING", "preceding", None),
    ("INTERVAL 3 DAYS PRECEDING", "preceding", 3),
    ("INTERVAL 0 DAYS PRECEDING", "preceding", 0),
    ("CURRENT ROW", "current row", None),
    ("INTERVAL 2 DAYS FOLLOWING", "following", 2),
    ("UNBOUNDED FOLLOWING", "following", None),
]
NARROW = StructType(
    [
        StructField("id", LongType()),
        StructField("g", IntegerType()),
        StructField("ts", TimestampNTZType()),
        StructField("day", DateType()),
        StructField("d", DecimalType(20, 2)),
    ]
)


def days(chance: random.Random, count: int) -> pa.Table:
    first = datetime.datetime(2024, 2, 25)
    cents = [None, 150, -225, 1, 10**12 + 1]
    after = [chance.choice([None, *range(9)]) for _ in range(count)]
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "g": pa.array([chance.choice([None, 1, 2]) for _ in range(count)], pa.int32()),
            "ts": pa.array(
                [None if n is None else first + datetime.timedelta(hours=7 * n) for n in after],
                pa.timestamp("us"),
            ),
            "day": pa.array(
                [None if n is None else (first + datetime.timedelta(days=n)).date() for n in after],
                pa.date32(),
            ),
            "d": pa.array(
                [None if n is None else Decimal(n).scaleb(-2) for n in chance.choices(cents, k=count)],
                pa.decimal128(20, 2),
            ),
        }
    )


@pytest.mark.parametrize(("seed", "order"), itertools.product((1, 2), ("ts", "day")))
def test_frames_that_end_some_days_away_equal_duckdb(seed: int, order: str) -> None:
    given = days(random.Random(seed), 50)
    compiler = Compiler(NARROW, lambda: True)
    found: list[ArrowCall] = []
    texts: list[str] = []
    for (one, near, a), (two, far, b) in itertools.combinations_with_replacement(FAR_ENDS, 2):
        if one == "UNBOUNDED FOLLOWING" or two == "UNBOUNDED PRECEDING":
            continue
        ends = [
            FrameEnd(side, None if n is None else span(n) if order == "ts" else Literal(str(n)))  # type: ignore[arg-type]
            for side, n in ((near, a), (far, b))
        ]
        key = SortKey(order, descending=seed == 2, nulls_first=a == 3)
        over = f"OVER (PARTITION BY g {ordered((key,), total=False)} RANGE BETWEEN {one} AND {two})"
        # of an interval of none DuckDB gives now and then another count
        over = over.replace("INTERVAL 0 DAYS PRECEDING", "CURRENT ROW")
        for name, text in (("count", "count(d)"), ("sum", "sum(d)"), ("avg", "[sum(d) OVER, count(d) OVER]")):
            call = WindowCall(f"c{len(found)}", Call(name, (Column("d"),)), (key,), Frame("range", *ends))
            compiled = compile_call(call, ("id",), compiler)
            assert compiled is not None, (name, over)
            found.append(compiled)
            texts.append(text.replace("OVER", over) if "OVER" in text else f"{text} {over}")
    (made,) = ComputeWindows(("g",), tuple(found))(iter(given.to_batches(max_chunksize=17)))
    with duckdb.connect(config=ONE_THREAD) as connection:
        connection.register("given", given)
        items = ", ".join(f"{text} AS {one.name}" for text, one in zip(texts, found, strict=True))
        # of rows whose order is null DuckDB has another opinion than Spark
        expected = connection.sql(f"SELECT id, {items} FROM given").to_arrow_table()
    known = {row["id"] for row in given.to_pylist() if row[order] is not None}
    wanted = {row["id"]: row for row in expected.to_pylist() if row["id"] in known}
    for row in made.to_pylist():
        for text, one in zip(texts, found, strict=True):
            value = wanted[row["id"]][one.name] if row["id"] in known else row[one.name]
            if isinstance(value, list):
                total, count = value
                value = (total / count).quantize(Decimal("1e-6"), ROUND_HALF_UP) if count else None
            assert row[one.name] == value, text


def test_floats_order_rows_with_one_zero_and_nan_last() -> None:
    floats = [float("nan"), -0.0, 1e300, None, 0.0, float("-inf"), float("nan"), -1.5, float("inf")]
    given = pa.table({"id": pa.array(range(9), pa.int64()), "f": pa.array(floats, pa.float64())})
    compiler = Compiler(
        StructType([StructField("id", LongType()), StructField("f", DoubleType())]), lambda: True
    )
    found = []
    for descending in (False, True):
        call = compile_call(WindowCall("r", Call("rank"), (SortKey("f", descending),)), ("id",), compiler)
        assert call is not None
        (batch,) = ComputeWindows((), (call,))(iter(given.to_batches()))
        found.append(batch.column("r").to_pylist())
    assert found == [[8, 4, 6, 1, 4, 2, 8, 3, 7], [2, 6, 5, 1, 6, 9, 2, 8, 4]]


def test_rows_without_an_order_see_each_other_and_what_is_not_limited() -> None:
    rows = [(1, None), (2, None), (3, datetime.date(2024, 1, 1)), (4, datetime.date(2024, 1, 9))]
    given = pa.table(
        {
            "id": pa.array([n for n, _ in rows], pa.int64()),
            "g": pa.array([1] * 4, pa.int32()),
            "day": pa.array([day for _, day in rows], pa.date32()),
        }
    )
    compiler = Compiler(NARROW, lambda: True)
    open_start, three = FrameEnd("preceding"), FrameEnd("preceding", Literal("3"))
    near = FrameEnd("following", Literal("3"))
    calls = [
        compile_call(
            WindowCall("n", Call("count"), (SortKey("day", nulls_first=first),), Frame("range", start, near)),
            ("id",),
            compiler,
        )
        for first in (True, False)
        for start in (open_start, three)
    ]
    found = []
    for call in calls:
        assert call is not None
        (batch,) = ComputeWindows(("g",), (call,))(iter(given.to_batches()))
        found.append(batch.column("n").to_pylist())
    assert found == [[2, 2, 3, 4], [2, 2, 1, 1], [4, 4, 1, 2], [2, 2, 1, 1]]


def test_a_distance_that_leaves_the_type_of_its_order_is_left_to_spark() -> None:
    table = pa.table(
        {
            "id": [1],
            "g": pa.array([1], pa.int32()),
            "day": pa.array([2**31 - 2]).cast(pa.int32()).cast(pa.date32()),
        }
    )
    frame = Frame("range", FrameEnd("current row"), FrameEnd("following", Literal("3")))
    call = compile_call(
        WindowCall("n", Call("count"), (SortKey("day"),), frame), ("id",), Compiler(NARROW, lambda: True)
    )
    assert call is not None
    with pytest.raises(Inexact, match="a distance that leaves"):
        list(ComputeWindows(("g",), (call,))(iter(table.to_batches())))


def test_a_sum_that_leaves_64_bits_is_left_to_spark() -> None:
    table = pa.table({"id": [1, 2], "x": [1 << 62, 1 << 62]})
    compiler = Compiler(
        StructType([StructField("id", LongType()), StructField("x", LongType())]), lambda: True
    )
    frame = Frame("rows", ENDS["UNBOUNDED PRECEDING"], ENDS["CURRENT ROW"])
    call = compile_call(WindowCall("s", Call("sum", (X,)), (), frame), ("id",), compiler)
    assert call is not None
    with pytest.raises(Inexact, match="a sum of 2 numbers"):
        list(ComputeWindows((), (call,))(iter(table.to_batches())))


@pytest.mark.parametrize(("limit", "most"), [("MOST_ROWS", 3), ("MOST_BYTES", 200)])
def test_partitions_that_are_too_large_for_one_task_are_left_to_spark(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    rows = pa.table({"id": [1, 2], "x": ["", "a" * 80]}).to_batches()
    numbered = ComputeWindows((), (ArrowCall("n", "row_number", Sorting((SortKey("id"),)), LongType()),))
    monkeypatch.setattr(over_windows, limit, most)
    assert [batch.num_rows for batch in numbered(iter(rows))] == [2]
    with pytest.raises(Inexact, match="in one task"):
        list(numbered(iter([*rows, *rows])))


@pytest.mark.parametrize(
    "call",
    [
        WindowCall(
            "a",
            Call("max", (X,)),
            (),
            Frame("rows", FrameEnd("preceding", Literal("64")), ENDS["CURRENT ROW"]),
        ),
        WindowCall("a", Call("lag", (X, ONE, Literal("0"))), (SortKey("o"),)),
        WindowCall("a", Call("lag", (X,), ignore_nulls=True), (SortKey("o"),)),
        WindowCall("a", Call("ntile", (Literal("2"),)), (SortKey("o"),)),
        WindowCall(
            "a", Call("avg", (Column("d"),)), (), Frame("rows", ENDS["CURRENT ROW"], ENDS["CURRENT ROW"])
        ),
        WindowCall(
            "a", Call("first_value", (X,)), (), Frame("range", ENDS["CURRENT ROW"], ENDS["CURRENT ROW"])
        ),
        WindowCall(
            "a", Call("sum", (X,)), (SortKey("o"),), Frame("range", ENDS["1 PRECEDING"], ENDS["CURRENT ROW"])
        ),
    ],
)
def test_what_arrow_does_not_compute_as_spark_does_is_left_to_spark(call: WindowCall) -> None:
    assert compile_call(call, ("id",), Compiler(KINDS, lambda: True)) is None


@pytest.mark.parametrize(
    ("call", "order"),
    [
        (Call("max", (Column("f"),)), ()),
        (Call("min", (parse_expression("x / 2"),)), ()),
    ],
)
def test_floats_are_not_compared_by_arrow(call: Expr, order: tuple[SortKey, ...]) -> None:
    compiler = Compiler(StructType([*KINDS.fields, StructField("f", DoubleType())]), lambda: True)
    whole = Frame("rows", ENDS["UNBOUNDED PRECEDING"], ENDS["UNBOUNDED FOLLOWING"])
    assert compile_call(WindowCall("a", call, order, whole), ("id",), compiler) is None
    assert (
        compile_call(WindowCall("a", Call("lag", (parse_expression("x / 2"),)), (), None), ("id",), compiler)
        is not None
    )
