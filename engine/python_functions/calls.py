"""Calls of a function over Arrow columns: a value or a problem of each row, since a row that is not asked for must not fail."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.python_functions.definition import (
    ARGUMENT,
    FAILED,
    FUNCTION,
    NOT_LOADED,
    PROBLEM,
    RESULT,
    PythonFunction,
)
from engine.python_functions.source import Loaded, load_function, name_file
from engine.python_functions.values import WrongValue, build_column, describe, find_writer, read_arguments

_MOST_ARGUMENTS = 400
_REMEDY = "let the function take it"


def build_result_type(kind: pa.DataType) -> pa.StructType:
    """Return the type of what calls give whose values are of a type."""
    return pa.struct([pa.field(RESULT, kind), pa.field(PROBLEM, pa.string())])


def call_rows(
    function: PythonFunction, kind: pa.DataType, columns: Sequence[pa.Array[Any]]
) -> tuple[list[Any], list[str | None]]:
    """Return for each row the value of type `kind`, or null and what is wrong."""
    try:
        loaded = load_function(function)
    except (Exception, SystemExit) as error:
        reason = f"{FUNCTION} {function.name} {NOT_LOADED}: {_explain(function, error)}"
        hint = "its imports must be there wherever Spark runs Python"
        rows = len(columns[0]) if columns else 1
        return [None] * rows, [_escape(f"{reason}; {hint}")] * rows
    # a copy each: what a call sets in it is gone with the batch, and no other thread runs in the same
    return loaded.context.copy().run(_call_each, function, loaded, kind, columns)


def _call_each(
    function: PythonFunction, loaded: Loaded, kind: pa.DataType, columns: Sequence[pa.Array[Any]]
) -> tuple[list[Any], list[str | None]]:
    write = find_writer(kind)
    values: list[Any] = []
    problems: list[str | None] = []
    for row in zip(*map(read_arguments, columns), strict=True):
        given = row if function.parameters else ()  # one stands there for none
        value, problem = None, None
        if function.aggregate or not (function.strict and _has_null(given)):
            try:
                _refuse_far(given)
                value = write(
                    _fold(function, loaded, given[0]) if function.aggregate else loaded.call(*given)
                )
            except (Exception, SystemExit) as error:
                value, problem = None, _describe_problem(function, given, error)
        values.append(value)
        problems.append(problem)
    return values, problems


def call_columns(function: PythonFunction, kind: pa.DataType, *columns: pa.Array[Any]) -> pa.Array[Any]:
    """Return what calls of a function over columns give, as structs of a value and a problem."""
    values, problems = call_rows(function, kind, columns)
    parts = [build_column(values, kind), pa.array(problems, pa.string())]
    return pa.StructArray.from_arrays(parts, fields=list(build_result_type(kind)))


def _refuse_far(row: Iterable[Any]) -> None:
    for value in row:
        if isinstance(value, WrongValue):
            raise value


def _describe_problem(function: PythonFunction, row: Sequence[Any], error: BaseException) -> str:
    names = ["rows"] if function.aggregate else [name for name, _ in function.parameters]
    each = max(20, _MOST_ARGUMENTS // max(1, len(names)))
    shown = (
        f"{name} => {'…' if isinstance(value, WrongValue) else describe(value, each)}"
        for name, value in zip(names, row, strict=True)
    )
    said = f"{FUNCTION} {function.name} {FAILED} ({', '.join(shown)}): {_explain(function, error)}; {_REMEDY}"
    return _escape(said)


def _escape(text: str) -> str:
    """Return a text of a user's code without halves of characters, which no column of texts takes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _explain(function: PythonFunction, error: BaseException) -> str:
    """Return an error of a user's code in one line, with the line of the function in which it arose."""
    if isinstance(error, WrongValue):
        return str(error)
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == name_file(function)
    ]
    try:
        text = str(error)
    except Exception:
        text = ""
    text = " ".join(text.split())
    text = text if len(text) <= _MOST_ARGUMENTS else f"{text[: _MOST_ARGUMENTS - 1]}…"
    where = f" (line {lines[-1]} of its body)" if lines else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}"


def _has_null(row: Sequence[Any]) -> bool:
    return any(value is None for value in row)


def _fold(function: PythonFunction, loaded: Loaded, rows: Sequence[Mapping[str, Any]] | None) -> Any:
    """Return an aggregate's value over the rows of a group."""
    assert loaded.create_state is not None
    state = loaded.create_state()
    for one in rows or ():
        given = [one[f"{ARGUMENT}{n}"] for n in range(len(function.parameters))]
        if not (function.strict and _has_null(given)):
            state = loaded.call(state, *given)
    return state if loaded.finish is None else loaded.finish(state)
