"""Values of several types are cast to the one in which Spark computes."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql.types import (
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from engine.operators.arrow.coercion import NotCompilable, build_constant, negate, unify_types
from engine.operators.arrow.expressions import Value
from engine.sql.expression.nodes import Literal


@pytest.mark.parametrize(
    ("kinds", "common"),
    [
        ((ShortType(), LongType(), ByteType()), LongType()),
        ((IntegerType(), DecimalType(5, 2)), DecimalType(12, 2)),
        ((DoubleType(), IntegerType()), DoubleType()),
        ((DecimalType(5, 2), DoubleType(), ShortType()), DoubleType()),
        ((StringType(), StringType()), StringType()),
    ],
)
def test_values_are_unified_as_spark_does(kinds: tuple[DataType, ...], common: DataType) -> None:
    found = unify_types(*(Value(kind, "column", name=f"c{n}") for n, kind in enumerate(kinds)))
    assert [value.kind for value in found] == [common] * len(kinds)


@pytest.mark.parametrize(
    "kinds", [(), (StringType(), IntegerType()), (DecimalType(38, 0), DecimalType(38, 10))]
)
def test_what_has_no_common_type_here_is_left_to_spark(kinds: tuple[DataType, ...]) -> None:
    with pytest.raises(NotCompilable):
        unify_types(*(Value(kind, "column", name=f"c{n}") for n, kind in enumerate(kinds)))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("2147483647", IntegerType(), 2147483647),
        ("2147483648", LongType(), 2147483648),
        ("9223372036854775808", DecimalType(19, 0), Decimal(2**63)),
        ("0.050", DecimalType(3, 3), Decimal("0.050")),
    ],
)
def test_constants_have_the_type_that_spark_gives_them(text: str, kind: DataType, value: object) -> None:
    found = build_constant(Literal(text, "number"))
    assert (found.kind, found.constant) == (kind, value)


def test_the_sign_of_a_constant_is_turned_where_its_type_has_the_number() -> None:
    assert negate(Value(LongType(), "constant", constant=5)).constant == -5
    assert negate(Value(LongType(), "constant", constant=-(2**63))).function == "negate_checked"
