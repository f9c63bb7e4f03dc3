"""The text of a function: looked at without running it, and run once where it is called."""

from __future__ import annotations

import pytest

from engine.python_functions.definition import PythonFunction
from engine.python_functions.source import WrongSource, check_source, load_function, tidy_source


def make(body: str, *, aggregate: bool = False, count: int = 1) -> PythonFunction:
    names = tuple((f"p{n}", "int") for n in range(count))
    return PythonFunction("f", names, "int", tidy_source(body), aggregate=aggregate)


@pytest.mark.parametrize(
    "body",
    [
        "def f(a): return a",
        "def f(*a): return a",
        "def f(a, b=2, /, *, c=3): return a",
        "import math\nX = 1\ndef g(a):\n    yield a\ndef f(a):\n    def inner(): yield 1\n    return list(inner())",
        "\n    def f(a):\n        return a\n",
    ],
)
def test_what_defines_the_function_is_taken(body: str) -> None:
    check_source(make(body))


@pytest.mark.parametrize(
    ("body", "said", "line"),
    [
        ("def f(a)\n  return 1", "it is no Python", 1),
        ("x = 1\ndef f(a):\nreturn a", "it is no Python", 3),
        ("", "does not define f", 0),
        ("f = lambda a: a", "does not define f", 0),
        ("if True:\n    def f(a): return a", "does not define f", 0),
        ("def f(): return 1", "take 1 values", 1),
        ("def f(a, b): return 1", "take 1 values", 1),
        ("def f(a, *, b): return 1", "take 1 values", 1),
        ("async def f(a): return 1", "asynchronous", 0),
        ("def f(a):\n    yield a", "yields rows", 1),
        ("def f(a): return '\0'", "it is no Python", 0),
    ],
)
def test_what_does_not_is_refused_with_its_line(body: str, said: str, line: int) -> None:
    with pytest.raises(WrongSource, match=said) as caught:
        check_source(make(body))
    assert caught.value.line in (line, 0) and caught.value.hint


def test_a_function_of_a_schema_is_defined_by_its_own_name() -> None:
    function = PythonFunction("s.f", (), "int", "def f(): return 7")
    check_source(function)
    assert load_function(function).call() == 7


def test_an_aggregate_needs_a_state_and_what_adds_to_it() -> None:
    state = "def create_state(): return 0\n"
    check_source(make(state + "def accumulate(s, a): return s + a", aggregate=True))
    check_source(make(state + "def accumulate(s, a): return s + a\ndef finish(s): return s", aggregate=True))
    for body, said in (
        ("def accumulate(s, a): return s", "define create_state"),
        (state, "define accumulate"),
        (state + "def accumulate(s): return s", "accumulate does not take 2 values"),
        (state + "def accumulate(s, a): return s\ndef finish(): return s", "finish does not take 1 values"),
    ):
        with pytest.raises(WrongSource, match=said):
            check_source(make(body, aggregate=True))


def test_nothing_runs_before_a_call_and_the_text_runs_once(tmp_path: object) -> None:
    body = "import builtins\nbuiltins.runs = getattr(builtins, 'runs', 0) + 1\ndef f(a): return builtins.runs"
    function = make(body)
    import builtins

    check_source(function)
    assert not hasattr(builtins, "runs")
    try:
        assert [load_function(function).call(1) for _ in range(3)] == [1, 1, 1]
    finally:
        del builtins.runs  # type: ignore[attr-defined]  # which the text has set
