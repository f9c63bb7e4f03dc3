"""Calls over columns: a value or a problem of each row."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from engine.python_functions.calls import build_result_type, call_columns, call_rows
from engine.python_functions.definition import PythonFunction


def make(body: str, *parameters: str, strict: bool = False, aggregate: bool = False) -> PythonFunction:
    return PythonFunction(
        "f", tuple((n, "bigint") for n in parameters), "bigint", body, strict, True, aggregate
    )


def test_a_row_has_a_value_or_a_problem() -> None:
    function = make("def f(a, b):\n    return a // b", "a", "b")
    found = call_columns(function, pa.int64(), pa.array([6, 1, None]), pa.array([3, 0, 1]))
    assert found.type == build_result_type(pa.int64())
    values, problems = found.field("result").to_pylist(), found.field("problem").to_pylist()
    assert values == [2, None, None] and problems[0] is None
    assert "function f failed on (a => 1, b => 0): ZeroDivisionError" in problems[1]
    assert "(line 2 of its body)" in problems[1] and "a => None" in problems[2]


def test_a_strict_function_is_not_called_with_null() -> None:
    function = make("def f(a): raise ValueError", "a", strict=True)
    assert call_rows(function, pa.int64(), [pa.array([None, None], pa.int64())]) == (
        [None, None],
        [None, None],
    )


def test_a_function_without_parameters_is_called_for_each_row() -> None:
    assert call_rows(make("def f(): return 7"), pa.int64(), [pa.array([0, 0])]) == ([7, 7], [None, None])


def test_a_text_that_cannot_be_loaded_is_a_problem_of_all_rows() -> None:
    function = make("import no_such_package_at_all\ndef f(a): return a", "a")
    values, problems = call_rows(function, pa.int64(), [pa.array([1, 2])])
    assert values == [None, None]
    assert all("cannot be loaded: ModuleNotFoundError" in (one or "") for one in problems)


def test_a_function_that_ends_the_process_is_a_problem() -> None:
    function = make("import sys\ndef f(a): sys.exit(3)", "a")
    assert "SystemExit: 3" in (call_rows(function, pa.int64(), [pa.array([1])])[1][0] or "")


def test_a_problem_is_bounded_and_one_line() -> None:
    function = make("def f(a): raise ValueError('x\\n' * 10_000)", "a")
    (problem,) = call_rows(function, pa.int64(), [pa.array(["y" * 10_000])])[1]
    assert problem is not None and len(problem) < 1_000 and "\n" not in problem


def test_a_problem_with_half_a_character_is_told() -> None:
    odd = "class Odd:\n    def __repr__(self): return '\\udc80'\n"
    for body in ("def f(a): raise ValueError('\\udc80')", f"{odd}def f(a): return Odd()"):
        found = call_columns(make(body, "a"), pa.int64(), pa.array([1]))
        assert "\\udc80" in found.field("problem")[0].as_py()


def test_what_a_function_says_of_its_thread_is_for_it_alone_and_in_all_threads() -> None:
    body = "from decimal import Decimal, getcontext\n{}def f(a):\n    {}return len(str(Decimal(a) / 3))"
    exact = make(body.format("getcontext().prec = 40\n", ""), "a")
    fleeting = make(body.format("", "getcontext().prec += 5; "), "a")
    plain = make(body.format("", ""), "a")
    for function, expected in ((exact, 42), (fleeting, 35), (plain, 30), (fleeting, 35)):
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(call_rows, function, pa.int64(), [pa.array([1])]).result()
        assert found == call_rows(function, pa.int64(), [pa.array([1])]) == ([expected], [None])


def test_an_aggregate_goes_over_the_rows_of_a_group() -> None:
    body = "def create_state(): return []\ndef accumulate(s, a):\n    return [*s, a]\ndef finish(s): return len(s)"
    groups = pa.array([[{"a0": 1}, {"a0": None}], [], None], pa.list_(pa.struct([("a0", pa.int64())])))
    assert call_rows(make(body, "a", aggregate=True), pa.int64(), [groups])[0] == [2, 0, 0]
    strict = make(body, "a", aggregate=True, strict=True)
    assert call_rows(strict, pa.int64(), [groups])[0] == [1, 0, 0]
    failing = make(body.replace("len(s)", "1 // 0"), "a", aggregate=True)
    assert "failed on (rows => [{'a0': 1}" in (call_rows(failing, pa.int64(), [groups])[1][0] or "")
