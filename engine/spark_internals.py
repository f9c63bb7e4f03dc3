"""Everything of PySpark that is used here and is no part of its public interface: what an upgrade may take away.

What it imports it imports late: the Python workers of others load this file, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from engine.process_change import ProcessChange

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

RUNS_ANEW = frozenset(
    {
        "CoalesceExec",
        "ExpandExec",
        "FilterExec",
        "GenerateExec",
        "GlobalLimitExec",
        "HashAggregateExec",
        "InputAdapter",
        "LocalLimitExec",
        "LocalTableScanExec",
        "MapInArrowExec",
        "ObjectHashAggregateExec",
        "OneRowRelationExec",
        "ProjectExec",
        "RangeExec",
        "RDDScanExec",
        "SortAggregateExec",
        "SortExec",
        "UnionExec",
        "WholeStageCodegenExec",
        "WindowExec",
        "WindowGroupLimitExec",
    }
)
"""Physical operators that compute everything anew in each job; exchanges, caches and adaptive plans keep their first result."""

T = TypeVar("T")

_ATTACHED = "_tideline"
_TASK_TEXT = "tideline.told:"
_TAGS = "spark.job.tags"
_MOST_TEXT = 32_768
_OFTEN_CALLED = {
    "PythonUtils": ("toSeq", "getBroadcastThreshold"),
    "SimplePythonFunction": (),
    "org.apache.spark.sql.classic.SparkSession": ("getActiveSession", "setActiveSession"),
    "org.apache.spark.sql.execution.python.UserDefinedPythonFunction": (),
    "org.apache.spark.sql.functions": ("col", "expr", "lit"),
}
"""Java's classes, and their methods, that PySpark looks up by name for each column and each body."""


def attach(session: SparkSession, make: Callable[[], T]) -> T:
    """Return what a session carries for the engine as long as it lives, made at the first call; its frames have that session."""
    carried = vars(session)
    found: T = carried[_ATTACHED] if _ATTACHED in carried else carried.setdefault(_ATTACHED, make())
    return found


def is_in_process(session: SparkSession) -> bool:
    """Tell whether the driver is in this process: it is not where the session is one of Spark Connect."""
    return hasattr(session, "_jsc")


def is_stopped(session: SparkSession) -> bool:
    """Tell whether the Spark that runs in this process was stopped, so that nothing can be asked of its session any more."""
    return is_in_process(session) and session.sparkContext._jsc is None


def has_own_spark() -> bool:
    """Tell whether this process has a Spark of its own."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def activate(session: SparkSession) -> None:
    """Make the session the active one of this thread; a server does so by itself.

    In a thread that has none, or another one, Spark plans by the settings that it was built with: it knows no TIME type.
    """
    if is_in_process(session):
        _load_session_class(session._jvm).setActiveSession(session._jsparkSession)


@lru_cache(maxsize=1)
def _load_session_class(java: Any) -> Any:
    """Return Java's class of sessions: looked up by name, Java searches all jars for packages of that name first."""
    return java.SparkSession


def remember_classes(session: SparkSession) -> None:
    """Keep the classes of Java that PySpark looks up again and again: each time Java searches all jars for them, a tenth of a
    millisecond.
    """
    java: Any = session._jvm
    for name, methods in _OFTEN_CALLED.items():
        if name not in vars(java):
            found = getattr(java, name)
            for method in methods:
                vars(found)[method] = getattr(found, method)
            vars(java)[name] = found


def set_schema(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return a frame of which the schema is known: a client of Spark Connect asks the server for it otherwise, each time."""
    if hasattr(frame, "_jdf"):
        return frame
    from engine.assumptions import KNOWN_SCHEMA
    from engine.verification import build_assumption_error, should_verify

    if should_verify() and (actual := frame.schema) != schema:
        raise build_assumption_error(
            KNOWN_SCHEMA, f"{schema.simpleString()} is {actual.simpleString()} by the server"
        )
    frame._cached_schema = schema  # type: ignore[attr-defined]  # that of Connect's frames
    return frame


def collect(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    """Run a frame once and yield its few rows."""
    return iter(frame.collect()) if hasattr(frame, "_jdf") else prepare_run(frame)()


def prepare_run(frame: DataFrame) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Return what runs a frame, as often as it is called, and yields its few rows.

    Where each run computes all of it, Spark runs a job without a query around it, whose records and events take as long as a
    small task. For a server its plan is put into a request once; to make rows of a table a client would ask the server how.
    """
    if hasattr(frame, "_jdf"):
        runnable = frame.rdd if is_recomputed(frame) else frame
        return lambda: iter(runnable.collect())
    plan: Any = frame._plan
    client: Any = frame.sparkSession.client
    request = plan.to_proto(client)

    def run() -> Iterator[tuple[Any, ...]]:
        table, *_ = client.to_table(request, plan.observations)
        return zip(*(column.to_pylist() for column in table.columns), strict=True)

    return run


def can_attach_text(session: SparkSession, text: str) -> bool:
    """Tell whether a text is short enough for `telling`: a server keeps the tags of its last thousand jobs."""
    return is_in_process(session) or len(text) <= _MOST_TEXT


@contextmanager
def attach_task_text(session: SparkSession, text: str) -> Iterator[None]:
    """Let the tasks of the jobs that this thread starts meanwhile know a text in base64.

    To a server it goes as a tag of the request: one becomes a tag of the jobs, which their tasks see as well.
    """
    if is_in_process(session):
        context = session.sparkContext
        context.setLocalProperty(_TASK_TEXT, text)
        try:
            yield
        finally:
            context.setLocalProperty(_TASK_TEXT, None)  # type: ignore[arg-type]  # None takes it away
    else:
        session.addTag(_TASK_TEXT + text)
        try:
            yield
        finally:
            session.removeTag(_TASK_TEXT + text)


def read_task_text() -> str | None:
    """Return, in a task, what its job was started with by `telling`."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None
    text = context.getLocalProperty(_TASK_TEXT)
    if text is None:
        _, _, text = (context.getLocalProperty(_TAGS) or "").partition(_TASK_TEXT)
    return text.partition(",")[0] or None


def count_attempts() -> int:
    """Return, in a task, how often it was run before; elsewhere 0."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def is_recomputed(frame: DataFrame) -> bool:
    """Tell whether each job of a frame computes all of it, by the operators of its physical plan; a server plans each anew."""
    if not hasattr(frame, "_jdf"):
        return True
    java: Any = frame._jdf
    return all(name in RUNS_ANEW for name in _list_operators(java.queryExecution().executedPlan()))


def _list_operators(plan: Any) -> Iterator[str]:
    yield str(plan.getClass().getSimpleName())
    for parts in (plan.children(), plan.subqueries()):
        for at in range(parts.size()):
            yield from _list_operators(parts.apply(at))


def derive_arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type in which Spark gives a column; moments are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(kind, timezone="UTC")


def derive_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark gives a frame; moments are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def derive_spark_schema(schema: pa.Schema) -> StructType:
    """Return the schema of a frame made of Arrow columns; moments without a zone stay without one."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


class _NoSpark:
    """Stands where frames keep their session: what asks it for rows, types or a source is refused."""

    is_mock_session = True
    session_id = _session_id = "none"
    advice = "build the frame from the function's parameters alone: no rows, types or columns of it are known there"

    def __getattr__(self, name: str) -> Any:
        from engine.errors import SqlError

        if name.startswith("__"):
            raise AttributeError(name)
        raise SqlError(
            f"the frame asks Spark for {name}, and there is none where models are read",
            hint=self.advice,
        )


_WITHOUT_SPARK = threading.local()


def _choose_functions_by_thread() -> Callable[[], None]:
    """Let PySpark's functions ask the thread whether they make columns of Spark Connect; return what undoes that."""
    from pyspark.sql import utils

    known = utils.is_remote

    def is_remote() -> bool:
        return getattr(_WITHOUT_SPARK, "on", False) or known()

    def undo() -> None:
        utils.is_remote = known

    utils.is_remote = is_remote
    return undo


_FUNCTIONS_BY_THREAD = ProcessChange(_choose_functions_by_thread)


@contextmanager
def build_offline_frames(names: Iterable[str]) -> Iterator[dict[str, DataFrame]]:
    """Give frames of Spark Connect over some tables, which can be built upon though nobody serves them.

    In this thread, meanwhile, functions of PySpark make columns of such frames, whatever Spark the process has.
    """
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
    from pyspark.sql.connect.plan import Read

    session: Any = _NoSpark()
    with _FUNCTIONS_BY_THREAD.apply():
        _WITHOUT_SPARK.on = True
        try:
            yield {name: ConnectFrame(Read(name), session) for name in names}
        finally:
            _WITHOUT_SPARK.on = False


class _OfflineConf:
    """Stands where Spark Connect's configuration asks its server: it answers by the values that it was given."""

    asked_by_pyspark: ClassVar[Mapping[str, str]] = {"spark.sql.execution.pythonUDF.arrow.enabled": "false"}

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = {**self.asked_by_pyspark, **values}

    def config(self, operation: Any) -> SimpleNamespace:
        """Answer a question for keys; what would set one is blocked before it gets here, or refused."""
        from engine.errors import SqlError

        kind = operation.WhichOneof("op_type")
        if kind == "get_all":
            return SimpleNamespace(pairs=list(self._values.items()), warnings=[])
        if kind == "get_with_default":
            asked = {
                one.key: one.value if one.HasField("value") else None
                for one in operation.get_with_default.pairs
            }
        elif kind == "get":
            asked = dict.fromkeys(operation.get.keys)
        else:
            raise SqlError(
                "the configuration of Spark is set", hint="write it under `configuration` of the spec"
            )
        missing = [key for key in asked if kind == "get" and key not in self._values]
        if missing:
            hint = "write it under `configuration` of the spec, or ask for it with a default"
            raise SqlError(f"spark.conf has no {missing[0]}", hint=hint)
        return SimpleNamespace(
            pairs=[(key, self._values.get(key, value)) for key, value in asked.items()], warnings=[]
        )


class _OfflineSession(_NoSpark):
    """A session whose frames can be built though nobody serves them: tables, files, texts of SQL and ranges are names in them."""

    is_stopped = False
    advice = (
        "describe the query alone: Spark's pipelines do not take what looks into a frame while they are read"
    )

    def __init__(self, configuration: Mapping[str, str]) -> None:
        from pyspark.sql.connect.catalog import Catalog
        from pyspark.sql.connect.conf import RuntimeConf
        from pyspark.sql.connect.udf import UDFRegistration

        client: Any = _OfflineConf(configuration)
        session: Any = self
        self.conf = RuntimeConf(client)
        self.catalog, self.udf = Catalog(session), UDFRegistration(session)

    @property
    def client(self) -> Any:
        """Refuse to ask a server."""
        from engine.errors import SqlError

        raise SqlError("it asks Spark for rows, types or columns of a frame", hint=self.advice)

    def createDataFrame(self, *given: object, **options: object) -> Any:
        """Refuse rows that the program has."""
        from engine.errors import SqlError

        hint = "write VALUES in SQL, or land the rows in a table that stands for the dataset"
        raise SqlError("it makes a frame of rows of its own", hint=hint)

    def _parse_ddl(self, text: str) -> Any:
        """Refuse types as texts, which a server reads: functions in Python have them, and are not followed anyway."""
        from engine.errors import SqlError

        hint = "use functions of pyspark.sql.functions: what Python computes of a row is not followed"
        raise SqlError(f"it has a Python function of the type {text}", hint=hint)

    @property
    def read(self) -> Any:
        """Return what reads tables and files."""
        from pyspark.sql.connect.readwriter import DataFrameReader

        session: Any = self
        return DataFrameReader(session)

    @property
    def readStream(self) -> Any:
        """Return what reads tables and files as streams."""
        from pyspark.sql.connect.streaming.readwriter import DataStreamReader

        session: Any = self
        return DataStreamReader(session)

    def table(self, name: str) -> Any:
        """Return the frame of a table."""
        return self.read.table(name)

    def sql(self, text: str, args: object = None, **frames: object) -> Any:
        """Return the frame of a query; raises SqlError for one with arguments, or over other frames."""
        from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
        from pyspark.sql.connect.plan import SQL

        from engine.errors import SqlError

        if args or frames:
            hint = "write the values into the text, and name tables and views of the pipeline"
            raise SqlError("spark.sql has arguments", hint=hint)
        session: Any = self
        return ConnectFrame(SQL(text), session)

    def range(self, start: int, end: int | None = None, step: int = 1, partitions: int | None = None) -> Any:
        """Return the frame of a range of numbers."""
        from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
        from pyspark.sql.connect.plan import Range

        session: Any = self
        first, last = (0, start) if end is None else (start, end)
        return ConnectFrame(Range(first, last, step, partitions), session)


def _choose_sessions_by_thread() -> Callable[[], None]:
    """Let PySpark's builder ask the thread for its session; return what undoes that."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.Builder
    known = builder.getOrCreate

    def get_or_create(self: Any) -> Any:
        from engine.errors import SqlError

        session = getattr(_WITHOUT_SPARK, "session", None)
        if session is None:
            return known(self)
        words = [key for key in self._options if key.startswith("spark.sql.")]
        if words:
            hint = "write it under `configuration` of the spec"
            raise SqlError(f"the builder of a session sets {', '.join(words)}", hint=hint)
        return session

    def undo() -> None:
        builder.getOrCreate = known

    builder.getOrCreate = get_or_create
    return undo


_SESSIONS_BY_THREAD = ProcessChange(_choose_sessions_by_thread)


@contextmanager
def open_offline_session(configuration: Mapping[str, str]) -> Iterator[SparkSession]:
    """Give a session of Spark Connect that nobody serves, with a configuration: frames of it say what they read by name.

    In this thread, meanwhile, it is the active session, and functions of PySpark make columns of such frames.
    """
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    session: Any = _OfflineSession(configuration)
    places: Any = ConnectSession._active_session
    before = getattr(places, "session", None)
    with _FUNCTIONS_BY_THREAD.apply(), _SESSIONS_BY_THREAD.apply():
        _WITHOUT_SPARK.on, _WITHOUT_SPARK.session, places.session = True, session, session
        try:
            yield session
        finally:
            _WITHOUT_SPARK.on, _WITHOUT_SPARK.session, places.session = False, None, before


def get_connect_relation(frame: object) -> Any:
    """Return the tree of operators that a frame of Spark Connect is, None for what is no such frame."""
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

    if not isinstance(frame, ConnectFrame):
        return None
    client: Any = _NoSpark()
    return frame._plan.plan(client)


def render_connect_type(kind: Any) -> str:
    """Return a type of Spark Connect as SQL writes it."""
    from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

    return proto_schema_to_pyspark_data_type(kind).simpleString()


def run_daemon(
    print_exc: Callable[[], None], format_exc: Callable[[], str], collect: Callable[[], None]
) -> None:
    """Run PySpark's daemon of workers with another way to print an exception, and to collect garbage."""
    import pyspark.daemon

    daemon: Any = pyspark.daemon
    daemon.traceback = SimpleNamespace(print_exc=print_exc, format_exc=format_exc)
    daemon.gc = SimpleNamespace(collect=collect)
    daemon.manager()
