"""Decimals on Arrow are those of exact arithmetic, rounded once half up into the types of Spark's rules."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from contextlib import nullcontext
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, localcontext
from fractions import Fraction

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import DataType, DecimalType, LongType

from engine.operators.arrow.compiler import Compiler
from engine.operators.arrow.expressions import MARK, Inexact, Value
from engine.operators.lookups.scan import derive_spark_schema
from engine.sql.expression.limbs import build_decimal_average, build_decimal_sum, split_decimal
from engine.sql.expression.nodes import Column, Expr
from engine.sql.expression.parser import parse_expression

CORNERS = ((1, 0), (5, 2), (9, 9), (18, 6), (38, 0), (38, 18), (38, 38))
EXACT = Context(prec=400)
Row = tuple[Decimal | None, ...]


def draw(chance: random.Random, precision: int, scale: int) -> Decimal | None:
    """Return null, an end of the type, a number near a tie of rounding, or any."""
    most = 10**precision - 1
    digits = chance.randrange(1, precision + 1)
    units = chance.choice(
        (
            None,
            0,
            1,
            most,
            5 * 10 ** (digits - 1),
            10 ** (digits - 1),
            chance.randrange(10**digits),
            most // 2,
        )
    )
    return None if units is None else Decimal(chance.choice((units, -units))).scaleb(-scale, EXACT)


def draw_rows(kinds: tuple[tuple[int, int], ...], count: int = 60) -> list[Row]:
    chance = random.Random(repr(kinds))
    return [tuple(draw(chance, *kind) for kind in kinds) for _ in range(count)]


def compile_over(text: str, kinds: tuple[tuple[int, int], ...]) -> Value | None:
    schema = pa.schema([(name, pa.decimal128(*kind)) for name, kind in zip("ab", kinds, strict=False)])
    return Compiler(derive_spark_schema(schema), lambda: True).compile_value(parse_expression(text))


def evaluate(value: Value, kinds: tuple[tuple[int, int], ...], rows: list[Row]) -> list[object]:
    """Return the value of each row, and of one that has none OverflowError or ZeroDivisionError."""
    columns = [pa.array([row[n] for row in rows], pa.decimal128(*kind)) for n, kind in enumerate(kinds)]
    batch = pa.RecordBatch.from_arrays(columns, names=list("ab"[: len(kinds)]))
    found = [_evaluate_one(value, batch.slice(n, 1)) for n in range(batch.num_rows)]
    sound = [not isinstance(each, type) for each in found]
    together = value.evaluate(batch.filter(pa.array(sound))).to_pylist()
    assert together == [each for each in found if not isinstance(each, type)]
    return found


def _evaluate_one(value: Value, batch: pa.RecordBatch) -> object:
    try:
        return value.evaluate(batch).to_pylist()[0]
    except Inexact as error:
        assert MARK in str(error)
        return type(error.__cause__)


def expect(exact: Fraction | None, kind: DataType) -> object:
    """Return an exact number as one of a type, rounded half up."""
    assert isinstance(kind, DecimalType)
    if exact is None:
        return None
    with localcontext(EXACT):
        scaled = abs(exact) * 10**kind.scale
        units = int(scaled + Fraction(1, 2))
        if units >= 10**kind.precision:
            return OverflowError
        return Decimal(units if exact >= 0 else -units).scaleb(-kind.scale)


def _remainder(one: Fraction, other: Fraction) -> Fraction:
    whole = abs(one) // abs(other)
    rest = abs(one) - whole * abs(other)
    return rest if one >= 0 else -rest


OPERATIONS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": lambda one, other: one + other,
    "-": lambda one, other: one - other,
    "*": lambda one, other: one * other,
    "/": lambda one, other: one / other,
    "%": _remainder,
}


@pytest.mark.parametrize("operator", OPERATIONS)
def test_arithmetic_is_exact_and_rounds_once(operator: str) -> None:
    for kinds in itertools.product(CORNERS, repeat=2):
        value = compile_over(f"a {operator} b", kinds)
        assert value is not None
        rows = draw_rows(kinds)
        for (one, other), found in zip(rows, evaluate(value, kinds, rows), strict=True):
            if one is None or other is None:
                assert found is None
            elif not other and operator in "/%":
                assert found is ZeroDivisionError
            elif operator == "%" and other and abs(Fraction(one) / Fraction(other)) >= 10**38:
                assert found is OverflowError
            else:
                exact = OPERATIONS[operator](Fraction(one), Fraction(other))
                assert found == expect(exact, value.kind), (kinds, one, other)


def test_types_are_those_of_sparks_rules() -> None:
    """The rules as Spark's documentation writes them, beside pairs that have more than 38 digits."""
    types = {
        ("+", (5, 2), (18, 6)): (19, 6),
        ("+", (38, 18), (38, 18)): (38, 17),
        ("-", (38, 0), (38, 38)): (38, 6),
        ("*", (10, 2), (10, 0)): (21, 2),
        ("*", (38, 18), (38, 18)): (38, 6),
        ("/", (34, 2), (20, 0)): (38, 6),
        ("/", (1, 0), (1, 0)): (7, 6),
        ("%", (5, 2), (18, 6)): (9, 6),
    }
    for (operator, one, other), wanted in types.items():
        value = compile_over(f"a {operator} b", (one, other))
        assert value is not None and value.kind == DecimalType(*wanted), (operator, one, other)


@pytest.mark.parametrize("to", CORNERS)
def test_casts_between_decimals_round_half_up_or_have_no_value(to: tuple[int, int]) -> None:
    for kind in CORNERS:
        value = compile_over(f"CAST(a AS DECIMAL({to[0]}, {to[1]}))", (kind,))
        assert value is not None and value.kind == DecimalType(*to)
        rows = draw_rows((kind,))
        for (given,), found in zip(rows, evaluate(value, (kind,), rows), strict=True):
            assert found == expect(None if given is None else Fraction(given), value.kind)


@pytest.mark.parametrize("kind", CORNERS)
def test_functions_of_one_decimal(kind: tuple[int, int]) -> None:
    rows = draw_rows((kind,), 200)
    roundings = {"floor(a)": ROUND_FLOOR, "ceil(a)": ROUND_CEILING, "round(a)": ROUND_HALF_UP}
    for text, rounding in roundings.items():
        value = compile_over(text, (kind,))
        assert value is not None
        with localcontext(EXACT):
            for (given,), found in zip(rows, evaluate(value, (kind,), rows), strict=True):
                assert found == (None if given is None else given.quantize(Decimal(1), rounding))
    for text, whole in (("abs(a)", abs), ("-a", Fraction.__neg__)):
        value = compile_over(text, (kind,))
        assert value is not None and value.kind == DecimalType(*kind)
        for (given,), found in zip(rows, evaluate(value, (kind,), rows), strict=True):
            rounds = (
                given is not None and len(given.as_tuple().digits) > 34
            )  # Spark does, where it turns signs
            exact = None if given is None else whole(Fraction(given))
            assert found == (OverflowError if rounds else expect(exact, value.kind))


@pytest.mark.parametrize("kind", CORNERS)
def test_decimals_become_the_nearest_double_and_whole_numbers_are_cut_off(kind: tuple[int, int]) -> None:
    rows = draw_rows((kind,), 200)
    floating, whole = (compile_over(f"CAST(a AS {to})", (kind,)) for to in ("DOUBLE", "BIGINT"))
    assert floating is not None and whole is not None and whole.kind == LongType()
    doubles, longs = evaluate(floating, (kind,), rows), evaluate(whole, (kind,), rows)
    for (given,), double, long in zip(rows, doubles, longs, strict=True):
        if given is None:
            assert double is None and long is None
            continue
        assert double == float(given)
        with localcontext(EXACT):
            cut = int(given.quantize(Decimal(1), ROUND_DOWN))
        assert long == (cut if abs(cut) < 2**63 else OverflowError)


@pytest.mark.parametrize("operator, holds", [("<", lambda a, b: a < b), ("=", lambda a, b: a == b)])
def test_decimals_of_different_scale_are_compared_by_value(
    operator: str, holds: Callable[[Decimal, Decimal], bool]
) -> None:
    for kinds in itertools.product(CORNERS, repeat=2):
        value = compile_over(f"a {operator} b", kinds)
        (p1, s1), (p2, s2) = kinds
        assert (value is None) == (max(p1 - s1, p2 - s2) + max(s1, s2) > 38)
        if value is None:
            continue
        rows = draw_rows(kinds)
        for (one, other), found in zip(rows, evaluate(value, kinds, rows), strict=True):
            assert found == (None if one is None or other is None else holds(one, other))


def group_sums(kind: tuple[int, int], values: list[Decimal | None], split: bool) -> list[dict[str, object]]:
    rows = pa.table(
        {"g": pa.array([n % 3 for n in range(len(values))]), "a": pa.array(values, pa.decimal128(*kind))}
    )
    compiler = Compiler(derive_spark_schema(rows.schema), lambda: True)
    calls = [(name, parse_expression(text)) for name, text in (("s", "sum(a)"), ("x", "max(a)"))]
    grouped = compiler.compile_groups([("g", parse_expression("g"))], calls)
    assert grouped is not None
    body, schema = grouped
    assert schema["s"].dataType == DecimalType(min(38, kind[0] + 10), kind[1])
    batches = rows.to_batches(max_chunksize=7)
    if split:
        ahead, body = body.split_in_two()
        batches = [batch for one in batches for batch in ahead(iter([one]))]
    (folded,) = body(iter(batches))
    return sorted(folded.to_pylist(), key=lambda row: row["g"])


@pytest.mark.parametrize("kind", [(5, 2), (18, 6), (30, 9), (38, 18)])
@pytest.mark.parametrize("split", [False, True])
def test_sums_of_groups_are_exact(kind: tuple[int, int], split: bool) -> None:
    chance = random.Random(3)
    digits = min(kind[0], 36)
    units = [None if n % 11 == 3 else chance.randrange(-(10**digits), 10**digits) // 2 for n in range(40)]
    with localcontext(EXACT):
        values = [None if unit is None else Decimal(unit).scaleb(-kind[1]) for unit in units]
        for row in group_sums(kind, values, split):
            mine = [value for n, value in enumerate(values) if n % 3 == row["g"] and value is not None]
            assert (row["s"], row["x"]) == (sum(mine), max(mine))


def test_a_sum_that_might_leave_its_type_is_left_to_spark() -> None:
    with pytest.raises(Inexact, match=MARK):
        group_sums((38, 0), [Decimal(10**38 - 1)] * 6, split=False)


def sum_limbs(kind: tuple[int, int], values: list[Decimal], result: Callable[[Expr, Expr], Expr]) -> Decimal:
    """Return a sum, or what is made of it, by way of its two limbs."""
    scale = kind[1]
    limbs = split_decimal(Column("a"), scale)
    parts = [compile_tree(part, {"a": kind}) for part in (limbs.high, limbs.low)]
    rows = pa.record_batch({"a": pa.array(values, pa.decimal128(*kind))})
    with localcontext(EXACT):
        high, low = (sum(part.evaluate(rows).to_pylist()) for part in parts)
        assert sum(values).scaleb(scale) == high * 10**19 + low
    whole = pa.decimal128(38, 0)
    sums = pa.record_batch(
        {"h": pa.array([high], whole), "l": pa.array([low], whole), "n": pa.array([len(values)])}
    )
    value = compile_tree(result(Column("h"), Column("l")), {"h": (38, 0), "l": (38, 0)})
    found: Decimal = value.evaluate(sums).to_pylist()[0]
    return found


def compile_tree(expr: Expr, kinds: dict[str, tuple[int, int]]) -> Value:
    schema = pa.schema([*((name, pa.decimal128(*kind)) for name, kind in kinds.items()), ("n", pa.int64())])
    value = Compiler(derive_spark_schema(schema), lambda: True).compile_value(expr)
    assert value is not None and len(cloudpickle.dumps(value)) > 100
    return value


@pytest.mark.parametrize("kind", [(38, 0), (38, 18), (38, 38), (28, 10), (30, 25)])
def test_sums_and_averages_in_two_limbs_are_exact(kind: tuple[int, int]) -> None:
    chance = random.Random(7)
    precision, scale = kind
    for digits in (1, 7, 20, precision - 1):
        with localcontext(EXACT):
            values = [
                Decimal(chance.randrange(-(10**digits), 10**digits) // 8).scaleb(-scale) for _ in range(7)
            ]
            total = sum(values)
            assert sum_limbs(kind, values, lambda high, low: build_decimal_sum(high, low, scale)) == total
            kind_of_mean = DecimalType(min(38, precision + 4), min(38, scale + 4))
            wanted = expect(Fraction(total) / 7, kind_of_mean)
            with pytest.raises(Inexact) if wanted is OverflowError else nullcontext():
                found = sum_limbs(
                    kind, values, lambda high, low: build_decimal_average(high, low, Column("n"), *kind)
                )
                assert found == wanted


def test_a_mean_of_whole_units_is_rounded_half_up() -> None:
    """The exact way, and not that by floating point: 4957.06 of 320 rows is 15.4908125."""
    value = compile_over("CAST(a / CAST(320 AS DECIMAL(20, 0)) AS DECIMAL(9, 6))", ((34, 2),))
    assert value is not None
    assert evaluate(value, ((34, 2),), [(Decimal("4957.06"),)]) == [Decimal("15.490813")]


@pytest.mark.parametrize(
    "text, kind",
    [
        ("1.5", (2, 1)), ("100.0", (4, 1)), ("0.00", (2, 2)), (".5", (1, 1)), ("12345678901234567890", (20, 0)), ("-1.5", (2, 1)),
        ("a + 1", (4, 1)), ("a * 100", (7, 1)), ("a - 0L", (4, 1)), ("a * CAST(1 AS INT)", (14, 1)), ("a * 7Y", (7, 1)),
        ("coalesce(a, 0)", (11, 1)), ("CASE WHEN a > 0 THEN a ELSE 0 END", (11, 1)), ("greatest(a, 0.25)", (4, 2)),
        ("nullif(a, 0)", (3, 1)), ("CAST(0 AS DECIMAL(20, 2))", (20, 2)), ("CAST('1E19' AS DECIMAL(20, 0))", (20, 0)),
        ("CAST(NULL AS DECIMAL(3, 1))", (3, 1)), ("round(a, 3)", (4, 1)), ("floor(a)", (3, 0)), ("if(a = 1, a, NULL)", (3, 1)),
    ],
)  # fmt: skip
def test_constants_and_common_types(text: str, kind: tuple[int, int]) -> None:
    value = compile_over(text, ((3, 1),))
    assert value is not None and value.kind == DecimalType(*kind)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a = 'x'",
            "CAST(a AS INT)",
            "CAST(a AS STRING)",
            "CAST('x' AS DECIMAL(3, 1))",
            "round(a, -1)",
            "a & 1",
        ),
        *(
            "CAST('1.55' AS DECIMAL(3, 1))",
            "TRY_CAST(a AS DECIMAL(2, 0))",
            "coalesce(a, 'x')",
            "a DIV 2",
            "sqrt(a)",
        ),
    ],
)
def test_what_is_outside_of_the_subset_is_left_to_spark(text: str) -> None:
    assert compile_over(text, ((3, 1),)) is None
