"""Python files of a pipeline: they are run, and what they register by Spark's decorators is kept as trees of operators."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.pipelines.block_session_mutations import block_session_mutations
from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, Table, TemporaryView
from pyspark.sql.types import StructType

from engine.errors import SqlError
from engine.pipelines.elements import AUTO_CDC, Dataset, DatasetKind, Elements, OtherElement, QueryFlow
from engine.pipelines.names import split_name
from engine.pipelines.spec import PipelineSpec
from engine.pipelines.sql_file import read_column_names
from engine.spark_internals import get_connect_relation, open_offline_session

_KINDS: dict[type[Output], DatasetKind] = {
    MaterializedView: "materialized view",
    StreamingTable: "streaming table",
    TemporaryView: "temporary view",
    Sink: "sink",
}


class ElementRegistry(GraphElementRegistry):
    """Keeps what Python files of a pipeline register; a query's function is called at once, as Spark does it."""

    def __init__(self, spec: PipelineSpec, found: Elements) -> None:
        self._spec, self._found = spec, found

    @property
    def _home(self) -> tuple[str, str]:
        return self._spec.catalog, self._spec.database

    def register_output(self, output: Output) -> None:
        """Keep a dataset."""
        place = self._format_place(output.source_code_location)
        kind = _KINDS.get(type(output))
        if kind is None:
            self._found.others.append(
                OtherElement(type(output).__name__, output.name, place, "it is no dataset that is known here")
            )
            return
        schema = _list_schema(output.schema) if isinstance(output, Table) else None
        name = split_name(output.name)
        self._found.datasets.append(Dataset(name, kind, place, self._home, output.comment or "", schema))

    def register_flow(self, flow: Flow) -> None:
        """Keep a flow as the tree of its frame, or why there is none."""
        relation, error = _call_function(flow)
        self._found.flows.append(
            QueryFlow(
                flow.name,
                split_name(flow.target),
                self._format_place(flow.source_code_location),
                self._home,
                relation,
                error=error,
                conf=dict(flow.spark_conf),
            )
        )

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        """Keep a flow of changes, which fills its table by its keys."""
        self._found.flows.append(
            QueryFlow(
                flow.name or flow.target,
                split_name(flow.target),
                self._format_place(flow.source_code_location),
                self._home,
                error=AUTO_CDC,
            )
        )

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Texts of SQL are read from their files: no Python file registers one."""
        self._found.others.append(
            OtherElement("SQL", str(file_path), str(file_path), "no file registers SQL")
        )

    def _format_place(self, location: Any) -> str:
        file = Path(location.filename)
        inside = file.is_relative_to(self._spec.folder)
        name = file.relative_to(self._spec.folder).as_posix() if inside else file.name
        return f"{name}:{location.line_number}"


def read_python_files(spec: PipelineSpec, found: Elements) -> None:
    """Run the Python files of a spec and add what they register; a file that fails is told, and others go on.

    As in Spark, `spark` is there, the working folder is the spec's, and what would change the session is refused.
    """
    files = [file for file in spec.files if file.suffix == ".py"]
    if not files:
        return
    registry = ElementRegistry(spec, found)
    with (
        _change_folder(spec.folder),
        open_offline_session(spec.configuration) as session,
        graph_element_registration_context(registry),
        block_session_mutations(),
    ):
        for number, file in enumerate(files):
            try:
                _run_file(file, number, session)
            except (Exception, SystemExit) as error:
                name = file.relative_to(spec.folder).as_posix()
                line = _find_line(error, file)
                place = f"{name}:{line}" if line else name
                found.others.append(OtherElement("Python file", name, place, _describe(error)))


def _run_file(file: Path, number: int, session: Any) -> None:
    name = f"tideline_pipeline_{number}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module)["spark"] = session
    sys.modules[name] = module  # what the file defines finds its module by that name
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]


def _call_function(flow: Flow) -> tuple[Any, str]:
    """Return the tree of what a flow's function returns, and why there is none."""
    try:
        frame = flow.func()
    except (Exception, SystemExit) as error:
        raises = "" if isinstance(error, SqlError) else f"{flow.name}() raises "
        return None, f"{raises}{_describe(error)}"
    try:
        relation = get_connect_relation(frame)
    except SqlError as error:
        return None, str(error)
    if relation is None:
        return None, f"{flow.name}() returns {type(frame).__name__}, and no frame of the session"
    return relation, ""


def _describe(error: BaseException) -> str:
    if isinstance(error, SqlError):
        return str(error)
    if isinstance(error, PySparkException):
        return str(error.getMessage() if error.getCondition() else error)
    return f"{type(error).__name__}: {error}"


def _find_line(error: BaseException, file: Path) -> int | None:
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == str(file)]
    return lines[-1] if lines else None


def _list_schema(schema: StructType | str | None) -> tuple[str, ...] | None:
    """Return the names of the columns that a dataset says itself."""
    if schema is None:
        return None
    return tuple(schema.names) if isinstance(schema, StructType) else read_column_names(schema)


def read_schema_names(text: str) -> tuple[str, ...]:
    """Return the names of the columns of a reader's schema, which is JSON or SQL; raises SqlError for what is none."""
    return (
        tuple(StructType.fromJson(json.loads(text)).names)
        if text.startswith("{")
        else read_column_names(text)
    )


@contextmanager
def _change_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
