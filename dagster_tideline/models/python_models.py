"""Views that Python declares: a function below `@materialized_view` returns the query, its name is the view's.

The query is a text, or a Spark frame that is built from the function's parameters: the tables and views of their names.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from dagster_tideline.models.header import (
    HEADER_ARGUMENTS,
    RENAMED_FROM,
    build_header_lines,
    parse_header,
)
from engine.errors import SqlError
from engine.frames.frame_sql import render_frame_query
from engine.spark_internals import build_offline_frames, get_connect_relation
from engine.sql.dialect import Dialect
from engine.sql.statements.options.option_text import render_literal


@dataclass(frozen=True)
class Declaration:
    """A view as Python declares it; `header` holds what comment lines say in a file of SQL."""

    name: str
    query: Callable[..., object]
    dialect: Dialect
    options: Mapping[str, str]
    header: Mapping[str, str]
    line: int = 0

    def build_statement(self) -> str:
        """Return CREATE MATERIALIZED VIEW with the function's query; raises SqlError if it returns none."""
        query = self._call_query()
        options_text = ", ".join(
            f"{key} = {render_literal(str(value), self.dialect)}" for key, value in self.options.items()
        )
        with_options = f" WITH ({options_text})" if options_text else ""
        return f"CREATE MATERIALIZED VIEW {self.name}{with_options} AS\n{query.strip()}"

    def _call_query(self) -> str:
        """Return what the function returns as a query."""
        inputs = self._list_inputs()
        try:
            if not inputs:
                found = self.query()
            else:
                with build_offline_frames(inputs) as frames:
                    found = self.query(**frames)
        except SqlError:
            raise
        except Exception as error:
            raise SqlError(
                f"{self.name}() raises {type(error).__name__}: {error}",
                hint="make it return the query's text, or a Spark frame of its parameters",
            ) from error
        if isinstance(found, str):
            _refuse_header(found)
            return found
        relation = get_connect_relation(found) if inputs else None
        if relation is None:
            raise SqlError(
                f"{self.name}() returns {type(found).__name__}, not the text of a query",
                hint="return a SELECT, or a Spark frame that is built from the function's parameters, which name what it reads",
            )
        if self.dialect != "spark":
            raise SqlError(
                f"{self.name}() returns a frame, and its dialect is {self.dialect}",
                hint="leave the dialect out: a frame has the functions of Spark",
            )
        return render_frame_query(relation)

    def _list_inputs(self) -> tuple[str, ...]:
        """Return the names of the tables and views that the function takes."""
        parameters = inspect.signature(self.query).parameters.values()
        for one in parameters:
            if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) or one.default is not one.empty:
                raise SqlError(
                    f"{self.name}() has the parameter {one}",
                    hint="let each parameter be the name of a table or view that it reads, without a default",
                )
        return tuple(one.name for one in parameters)


def _refuse_header(query: str) -> None:
    """Raise SqlError for a header line above a query that changes what the store does: the decorator says that."""
    if RENAMED_FROM in parse_header(query, strict=False).lines:
        hint = 'write @materialized_view(renamed_from="…")'
        raise SqlError(f"the text of a query has no header: -- {RENAMED_FROM} is not read there", hint=hint)


def materialized_view(
    *,
    dialect: Dialect = "spark",
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    checks: Sequence[str] = (),
    **said: str,
) -> Callable[[Callable[..., object]], Declaration]:
    """Declare a materialized view by a function that returns its query; its docstring is the asset's description.

    Parameters of the function are Spark frames of the tables and views that they are called as; it may return a frame of them.

    `said` are `group`, `freshness`, `automation` and `renamed_from`, as a header says them, and the options of
    CREATE MATERIALIZED VIEW … WITH (…), such as `partition_by="day"`.
    """

    def declare(function: Callable[..., object]) -> Declaration:
        header = {"description": " ".join((function.__doc__ or "").split())}
        header |= build_header_lines(
            owners, tags or {}, {key: said[word] for word, key in HEADER_ARGUMENTS.items() if word in said}
        )
        options = {key: value for key, value in said.items() if key not in HEADER_ARGUMENTS}
        all_options = {"checks": "; ".join(checks)} | options if checks else options
        line = function.__code__.co_firstlineno
        return Declaration(function.__name__, function, dialect, all_options, header, line)

    return declare


def load_declarations(path: Path) -> list[Declaration]:
    """Return what a file of Python declares, in its order; raises SqlError with the line if it can't be run."""
    if b"materialized_view" not in path.read_bytes():
        return []
    module = _run_module(path)
    return [value for value in vars(module).values() if isinstance(value, Declaration)]


def _run_module(path: Path) -> ModuleType:
    name = f"tideline_models_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # what the file defines finds its module by that name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)
        ]
        if isinstance(error, SyntaxError):
            lines.append(error.lineno)
        place = f"line {lines[-1]}: " if lines and lines[-1] else ""
        raise SqlError(f"{place}{type(error).__name__}: {error}") from error
    finally:
        del sys.modules[name]
    return module
