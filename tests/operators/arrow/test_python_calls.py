"""Calls of functions in Python over Arrow columns, where tasks compute them: the same values as Spark's, or none at all."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.operators.arrow.compiler import Compiler
from engine.operators.arrow.expressions import Inexact, Value
from engine.operators.lookups.scan import derive_spark_schema
from engine.python_functions.definition import PythonFunction, remember
from engine.sql.expression.null_on_error import guard_expression
from engine.sql.expression.parser import parse_expression

ROWS = pa.table({"a": pa.array([1, 0, None], pa.int64()), "t": ["x", "", None]})


def compile_call(returns: str, body: str, *, guarded: bool = False, utc: bool = True) -> Value | None:
    function = remember(PythonFunction("f", (("a", "bigint"),), returns, body, deterministic=True))
    text = (
        f"CAST(get(transform(array({function.call_name}(CAST(a AS BIGINT))), "
        f"_c -> if(_c.problem IS NULL, _c.result, CAST(assert_true(FALSE, _c.problem) AS {returns}))), 0) AS {returns})"
    )
    expr = parse_expression(text)
    compiler = Compiler(derive_spark_schema(ROWS.schema), lambda: utc)
    return compiler.compile_value(guard_expression(expr) if guarded else expr)


def evaluate(value: Value | None) -> list[object]:
    assert value is not None
    (batch,) = ROWS.to_batches()
    found: list[object] = value.evaluate(batch).to_pylist()
    return found


@pytest.mark.parametrize(
    ("returns", "body", "values"),
    [
        ("bigint", "def f(a): return None if a is None else a + 1", [2, 1, None]),
        ("string", "def f(a): return str(a)", ["1", "0", "None"]),
        ("boolean", "def f(a): return a is None", [False, False, True]),
        ("double", "def f(a): return (a or 0) / 2", [0.5, 0.0, 0.0]),
    ],
)
def test_a_call_is_computed_in_the_task(returns: str, body: str, values: list[object]) -> None:
    assert evaluate(compile_call(returns, body)) == values


def test_a_row_that_fails_is_left_to_spark_or_null() -> None:
    body = "def f(a): return 1 // a"
    with pytest.raises(Inexact, match=r"function f failed on \(a => 0\)"):
        evaluate(compile_call("bigint", body))
    assert evaluate(compile_call("bigint", body, guarded=True)) == [1, None, None]


@pytest.mark.parametrize("returns", ["float", "array<bigint>", "struct<a:int>", "binary"])
def test_types_that_are_not_computed_here_are_sparks(returns: str) -> None:
    assert compile_call(returns, "def f(a): return None") is None
