"""Calls of users' functions in Python: over the columns at hand, in the process that has them.

A row of which the function has no value makes Spark compute the epoch, which then fails with that row's error, or does not, where
nothing asks for the row's value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql.types import DataType

from engine.operators.arrow.coercion import NotCompilable
from engine.operators.arrow.expressions import Inexact, Kernel, Value, find_arrow_type
from engine.python_functions.calls import call_rows
from engine.python_functions.definition import PythonFunction, find_known
from engine.sql.expression.nodes import Call, Expr, Lambda, walk


def compile_python_call(
    rows: Expr, compile_argument: Callable[[Expr], Value], find_kind: Callable[[str], DataType | None]
) -> Value | None:
    """Return the value of a checked call, None if `rows` are those of no such call: `transform(array(call), _c -> …)`."""
    match rows:
        case Call(
            function="transform",
            arguments=(Call(function="array", arguments=(Call() as call,)), Lambda(body=body)),
        ):
            function = find_known(call.function)
        case _:
            return None
    if function is None:
        return None
    kind = find_kind(function.returns)
    if kind is None or function.aggregate or not function.deterministic or find_arrow_type(kind) is None:
        raise NotCompilable
    fails = any(isinstance(part, Call) and part.function == "assert_true" for part in walk(body))
    kernel = Kernel(_call_function, (function, find_arrow_type(kind), fails), may_fail=fails)
    return Value(kind, "python", tuple(map(compile_argument, call.arguments)), kernel=kernel)


def _call_function(*given: Any) -> pa.Array[Any]:
    """Return the function's values of rows: null where it has none, unless that is to fail."""
    *columns, function, kind, fails = given
    assert isinstance(function, PythonFunction)
    values, problems = call_rows(function, kind, columns)
    wrong = next((problem for problem in problems if problem is not None), None) if fails else None
    if wrong is not None:
        raise Inexact(wrong)
    found: pa.Array[Any] = pa.array(values, kind)
    return found
