from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.types import BooleanType, DataType, DoubleType, LongType

from engine.operators.arrow.expressions import Inexact, Kernel, Value
from engine.operators.arrow.folds import Fold, GroupBy
from engine.operators.arrow.shared_values import NamedValues, merge_equal

A, B = (Value(LongType(), "column", name=name) for name in "ab")
ROWS = pa.RecordBatch.from_pydict({"a": [1, 2, None, 0], "b": [10, 0, 30, 40]})
A_DOUBLE, B_DOUBLE = (Value(DoubleType(), "cast", (column,)) for column in (A, B))
calls: list[str] = []


def double(array: pa.Array[Any]) -> pa.Array[Any]:
    calls.append("double")
    return pc.multiply_checked(array, pa.scalar(2))


def build_doubled() -> Value:
    """A value that is equal each time and another object."""
    return Value(
        LongType(), "double", (Value(LongType(), "column", name="a"),), kernel=Kernel(double, may_fail=True)
    )


def add(left: Value, right: Value) -> Value:
    return Value(LongType(), "add_checked", (left, right))


def constant(value: float | bool | Decimal | str, kind: DataType) -> Value:
    return Value(kind, "constant", constant=value)


@pytest.fixture(autouse=True)
def forget_calls() -> None:
    calls.clear()


def evaluate(*values: Value) -> list[list[object]]:
    items = merge_equal((f"v{n}", value) for n, value in enumerate(values))
    carried: NamedValues = pickle.loads(pickle.dumps(NamedValues(tuple(items))))
    found = carried.evaluate(ROWS)
    assert found.equals(carried.evaluate(ROWS)), "the second batch has the same values"
    plain = [value.evaluate(ROWS).to_pylist() for value in values]
    assert found.to_pydict() == {f"v{n}": each for n, each in enumerate(plain)}
    return plain


def test_a_value_that_several_have_in_common_is_computed_once_a_batch() -> None:
    items = merge_equal(
        [("x", build_doubled()), ("y", add(build_doubled(), B)), ("z", add(build_doubled(), build_doubled()))]
    )
    values: NamedValues = pickle.loads(pickle.dumps(NamedValues(tuple(items))))
    assert values.evaluate(ROWS).to_pydict() == {
        "x": [2, 4, None, 0],
        "y": [12, 4, None, 40],
        "z": [4, 8, None, 0],
    }
    assert len(calls) == 1
    assert values.evaluate(ROWS.slice(1, 1)).to_pydict() == {"x": [4], "y": [4], "z": [8]}
    assert len(calls) == 2


def test_constants_that_are_equal_and_not_the_same_stay_apart() -> None:
    zeros = evaluate(constant(0.0, DoubleType()), constant(-0.0, DoubleType()), constant(0.0, DoubleType()))
    assert [str(each[0]) for each in zeros] == ["0.0", "-0.0", "0.0"]
    evaluate(constant(1, LongType()), constant(True, BooleanType()), constant(1.0, DoubleType()))
    merged = merge_equal((str(n), constant(zero, DoubleType())) for n, zero in enumerate((0.0, -0.0, 0.0)))
    assert merged[0][1] is merged[2][1] is not merged[1][1]


def test_what_a_kernel_is_given_tells_values_apart() -> None:
    def build(*options: object) -> Value:
        return Value(LongType(), "k", (A,), kernel=Kernel(lambda array, *_: array, options))

    plain = build(0.0)
    same = Value(LongType(), "k", (A,), kernel=Kernel(plain.kernel.apply, (0.0,)) if plain.kernel else None)
    zero = Value(LongType(), "k", (A,), kernel=Kernel(plain.kernel.apply, (-0.0,)) if plain.kernel else None)
    without_hash = [build([1]), build([1])]
    merged = [
        value
        for _, value in merge_equal((str(n), v) for n, v in enumerate([plain, same, zero, *without_hash]))
    ]
    assert merged[0] is merged[1] is not merged[2]
    assert merged[3] is not merged[4]


@pytest.mark.parametrize("rows", [4, 20_000])
def test_branches_of_some_rows_do_not_get_what_others_have(rows: int) -> None:
    batch = pa.RecordBatch.from_pydict({"a": [1, 0] * (rows // 2), "b": [7, 8] * (rows // 2)})
    quotient = Value(DoubleType(), "divide", (B_DOUBLE, A_DOUBLE))
    is_zero = Value(BooleanType(), "equal", (A, constant(0, LongType())))
    safe = Value(DoubleType(), "if", (is_zero, constant(-1.0, DoubleType()), quotient))
    again = Value(
        DoubleType(),
        "if",
        (Value(BooleanType(), "invert", (is_zero,)), quotient, constant(-2.0, DoubleType())),
    )
    values = NamedValues(tuple(merge_equal([("x", safe), ("y", again), ("z", safe)])))
    assert values.evaluate(batch).slice(0, 2).to_pydict() == {
        "x": [7.0, -1.0],
        "y": [7.0, -2.0],
        "z": [7.0, -1.0],
    }
    with pytest.raises(Inexact):
        NamedValues(tuple(merge_equal([("x", safe), ("y", quotient)]))).evaluate(batch)


def test_a_bound_column_is_its_own_in_each_binding() -> None:
    bound = Value(LongType(), "column", name="it")
    inner = add(add(bound, B), add(bound, B))
    evaluate(
        Value(LongType(), "bind", (build_doubled(), inner), name="it"),
        Value(LongType(), "bind", (B, inner), name="it"),
        add(build_doubled(), B),
    )


def test_folds_of_groups_share_values_too() -> None:
    items = merge_equal([("k", add(build_doubled(), B)), ("s", build_doubled()), ("c", build_doubled())])
    by = GroupBy(
        tuple(items[:1]),
        tuple(Fold(name, how, value) for (name, value), how in zip(items[1:], ("sum", "count"), strict=True)),
        (),
    )
    found = pa.Table.from_batches(by(iter([ROWS]))).sort_by("k").to_pydict()
    assert found == {"k": [4, 12, 40, None]} and len(calls) == 1


def test_a_random_tree_has_the_same_values_as_without_sharing() -> None:
    for seed in range(50):
        pick = random.Random(seed)
        made: list[Value] = [A, B, constant(3, LongType())]
        build: list[Callable[[Value, Value], Value]] = [
            add,
            lambda x, y: Value(LongType(), "coalesce", (x, y)),
            lambda x, y: Value(LongType(), "if", (Value(BooleanType(), "less", (x, y)), x, y)),
        ]
        for _ in range(12):
            made.append(pickle.loads(pickle.dumps(pick.choice(build)(pick.choice(made), pick.choice(made)))))
        evaluate(*made[-4:])
