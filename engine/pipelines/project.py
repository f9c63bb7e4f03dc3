"""A project of Spark Declarative Pipelines as queries over relations: what is taken of it, and why the rest is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import SqlError, TidelineError
from engine.frames.frame_sql import FrameSource, render_frame_query
from engine.pipelines.elements import Dataset, Elements, QueryFlow
from engine.pipelines.left_out import find_left_out, find_left_out_problem, keep_schema, leave_out
from engine.pipelines.names import FILE_FORMATS, DatasetNames, KnownTable, split_name
from engine.pipelines.python_file import read_python_files, read_schema_names
from engine.pipelines.query_columns import list_query_columns
from engine.pipelines.spec import PipelineError, PipelineSpec, read_spec
from engine.pipelines.sql_file import read_sql_files
from engine.pipelines.streams import find_stream_problem, mask_streams
from engine.sql.expression.spark_sql import quote
from engine.sql.parsing.table_names import list_tables, map_tables, parse_query

_MEANS_NOTHING = (
    *(
        "spark.sql.shuffle.",
        "spark.sql.adaptive.",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.files.",
    ),
    *("spark.sql.catalog.", "spark.sql.extensions", "spark.sql.warehouse.", "spark.sql.streaming."),
    *("spark.sql.execution.arrow.", "spark.sql.parquet.compression.", "spark.sql.sources.default"),
    *("spark.sql.catalogImplementation", "spark.sql.connect.", "spark.sql.defaultCatalog"),
)
"""Settings of Spark that change how it works, and no row."""
_AS_HERE = {
    "spark.sql.ansi.enabled": ("true",),
    "spark.sql.session.timezone": ("utc", "etc/utc", "z", "+00:00"),
    "spark.sql.casesensitive": ("false",),
    "spark.sql.timestamptype": ("timestamp_ltz",),
}
"""Settings that mean what holds here anyway, in lower case."""


@dataclass(frozen=True)
class PipelineView:
    """A dataset as a view of the store: its relation, and its query in Spark's SQL.

    `error` says why there is no query. `foreign` says what the pipeline calls the tables that it reads and does not make.
    """

    relation: str
    dataset: Dataset
    query: str = ""
    error: str = ""
    foreign: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether it keeps no rows: a temporary view."""
        return self.dataset.kind == "temporary view"


@dataclass(frozen=True)
class DatasetReading:
    """What becomes of an element: the relation that stands for it, as what it is `taken`, empty if it is not, and why."""

    kind: str
    name: str
    place: str
    relation: str = ""
    taken: str = ""
    reason: str = ""


@dataclass(frozen=True)
class PipelineReading:
    """A pipeline as it was read: its views, inputs first, and what became of each of its elements."""

    spec: PipelineSpec
    views: tuple[PipelineView, ...]
    elements: tuple[DatasetReading, ...]


@dataclass(frozen=True)
class _Query:
    """A flow's query, and what it reads: names of streams and of tables, and the columns that it gives, if they are known."""

    text: str
    columns: tuple[str, ...] | None
    streams: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    foreign: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Built:
    """A dataset's query: that of a temporary view over streams (`is_stream`), or of rows that are only added (`is_appended`)."""

    query: _Query
    is_stream: bool = False
    is_appended: bool = False


def read_pipeline(
    path: Path,
    said: Mapping[str, str] | None = None,
    known: Iterable[KnownTable] = (),
    left_out: Iterable[str] = (),
) -> PipelineReading:
    """Return what a pipeline's spec and files define, as views; raises PipelineError for a spec that Spark would not take.

    `said` are the tables that stand for those that it reads, for its files, or for datasets of its own, by their names. `known`
    are tables that are there, `left_out` the columns that datasets are kept without, as `dataset.column`.
    """
    spec = read_spec(path)
    found = Elements()
    read_python_files(spec, found)
    read_sql_files(spec, found)
    names = DatasetNames(found.datasets, said or {}, known, spec.folder)
    return _PipelineReader(spec, found, names, find_left_out(names, left_out)).read()


class _PipelineReader:
    """Builds the views of one pipeline; a dataset that cannot be taken costs itself and what reads it."""

    def __init__(
        self,
        spec: PipelineSpec,
        found: Elements,
        names: DatasetNames,
        left_out: Mapping[int, frozenset[str]],
    ) -> None:
        self.spec, self.found, self.names = spec, found, names
        self._left_out = left_out
        self._built: dict[int, _Built | TidelineError] = {}
        self._order: list[Dataset] = []
        self._flows: dict[int, list[QueryFlow]] = {}
        self._lost: list[QueryFlow] = []
        for flow in found.flows:
            target = names.find_dataset(flow.target, flow.home)
            if target is None:
                self._lost.append(flow)
            else:
                self._flows.setdefault(id(target), []).append(flow)

    def read(self) -> PipelineReading:
        """Return the reading of all elements."""
        for dataset in self.found.datasets:
            with suppress(TidelineError):  # it is kept, and told with the dataset
                self._build(dataset)
        views = [view for dataset in self._order for view in (self._make_view(dataset),) if view is not None]
        elements = [self._tell(dataset) for dataset in self.found.datasets]
        elements += [
            DatasetReading(
                "flow", flow.name, flow.place, reason=f"its target {'.'.join(flow.target)} is not defined"
            )
            for flow in self._lost
        ]
        elements += [
            DatasetReading(one.kind, one.name, one.place, reason=one.reason) for one in self.found.others
        ]
        elements += self._tell_tables(views)
        return PipelineReading(self.spec, tuple(views), tuple(elements))

    # ---- what becomes of a dataset ---------------------------------------------------------------------------
    def _make_view(self, dataset: Dataset) -> PipelineView | None:
        """Return the view of a dataset, None for what gets none: sinks, and what a table stands for."""
        if dataset.kind == "sink" or self.names.find_replacement(dataset) is not None:
            return None
        try:
            relation = self.names.find_relation(dataset)
        except PipelineError:
            return None
        built = self._built[id(dataset)]
        if isinstance(built, TidelineError):
            return PipelineView(relation, dataset, error=str(built))
        return PipelineView(relation, dataset, built.query.text, foreign=built.query.foreign)

    def _tell(self, dataset: Dataset) -> DatasetReading:
        name = ".".join(dataset.name)
        built = self._built[id(dataset)]
        replacement = self.names.find_replacement(dataset)
        relation = "" if dataset.kind == "sink" else self.names.relations.get(_key(dataset, self.names), "")
        if isinstance(built, TidelineError):
            does = _SPARK_DOES.get(dataset.kind, "")
            return DatasetReading(dataset.kind, name, dataset.place, relation, reason=f"{built}{does}")
        if replacement is not None:
            return DatasetReading(dataset.kind, name, dataset.place, replacement, TABLE)
        taken = "view" if dataset.kind == "temporary view" else VIEW
        notes = ["its columns have the types of its query"] if dataset.schema is not None else []
        if left := self._left_out.get(id(dataset)):
            notes.append(f"without its columns {', '.join(sorted(left))}, which are left out")
        return DatasetReading(dataset.kind, name, dataset.place, relation, taken, "; ".join(notes))

    def _tell_tables(self, views: Sequence[PipelineView]) -> list[DatasetReading]:
        """Return which tables of the store stand for what the views read."""
        found = {name: words for view in views for name, words in view.foreign.items()}
        own = {self.names.find_replacement(one) for one in self.found.datasets}
        return [
            DatasetReading(
                "table",
                words,
                "",
                name,
                TABLE,
                "" if name in self.names.known else f"there is no table {name} yet",
            )
            for name, words in found.items()
            if name not in own
        ]

    # ---- building --------------------------------------------------------------------------------------------
    def _build(self, dataset: Dataset) -> _Built:
        """Return a dataset's query; raises why there is none."""
        found = self._built.get(id(dataset))
        if found is None:
            self._built[id(dataset)] = PipelineError(f"{'.'.join(dataset.name)} reads itself")
            try:
                found = self._build_dataset(dataset)
            except (TidelineError, RecursionError) as error:
                found = (
                    error if isinstance(error, TidelineError) else PipelineError("it is nested too deeply")
                )
            self._built[id(dataset)] = found
            self._order.append(dataset)
        if isinstance(found, TidelineError):
            raise found
        return found

    def _build_dataset(self, dataset: Dataset) -> _Built:
        flows = self._flows.get(id(dataset), [])
        replacement = self.names.find_replacement(dataset)
        if replacement is not None:
            table = self.names.known.get(replacement, KnownTable(replacement))
            words = {replacement: f"the {dataset.kind} {'.'.join(dataset.name)}"}
            query = _Query("", table.columns, foreign=words)
            return _Built(query, is_appended=table.append_only)
        if dataset.kind == "sink":
            raise PipelineError(
                "sinks of Spark are not written: CREATE SINK … FROM a view writes its changes"
            )
        self.names.find_relation(dataset)
        if not flows:
            raise PipelineError("no flow fills it")
        if len(flows) > 1 and dataset.kind != "streaming table":
            raise PipelineError(f"several flows fill it, and a {dataset.kind} has one")
        queries = [self._build_flow(dataset, flow) for flow in flows]
        query = queries[0] if len(queries) == 1 else _unite(queries)
        _check_schema(keep_schema(dataset, self._left_out.get(id(dataset), frozenset())), query.columns)
        is_stream = dataset.kind == "temporary view" and bool(query.streams)
        return _Built(query, is_stream, dataset.kind == "streaming table")

    def _build_flow(self, dataset: Dataset, flow: QueryFlow) -> _Query:
        """Return a flow's query; raises SqlError or PipelineError for one that no view has."""
        if flow.error:
            raise PipelineError(flow.error)
        _check_configuration({**self.spec.configuration, **flow.conf})
        left = self._left_out.get(id(dataset), frozenset())
        query = self._render_text(flow, left) if flow.text else self._render_frame(flow, left)
        if left and (problem := find_left_out_problem(parse_query(query.text, "spark"), left)):
            raise PipelineError(f"{problem}: no column can be left out")
        for column in query.columns or ():
            if column.lower() in left:
                raise PipelineError(
                    f"its column {column} comes with all columns of what it reads, so it cannot be left out"
                )
        if dataset.kind == "materialized view" and query.streams:
            raise PipelineError(
                f"it reads {query.streams[0]} as a stream: Spark's materialized views read tables"
            )
        if dataset.kind == "streaming table":
            self._check_stream(query)
        elif query.streams and query.tables:
            raise PipelineError(_MIXED.format(query.streams[0], query.tables[0]))
        elif query.streams:
            self._check_stream(query)
        return query

    def _check_stream(self, query: _Query) -> None:
        """Raise PipelineError for a streaming query whose rows are not those of the query over all rows."""
        if not query.streams:
            raise PipelineError(
                "it reads no stream: Spark fills a streaming table by readStream, or FROM STREAM"
            )
        if query.tables:
            raise PipelineError(_MIXED.format(query.streams[0], query.tables[0]))
        problem = find_stream_problem(parse_query(query.text, "spark"))
        if problem:
            raise PipelineError(
                f"its stream has {problem}: write it as a materialized view over what it reads"
            )

    # ---- texts and frames ------------------------------------------------------------------------------------
    def _render_text(self, flow: QueryFlow, left: frozenset[str]) -> _Query:
        text, made = leave_out(flow.text, left)
        for column in sorted(left - made):
            raise PipelineError(f"no SELECT list has its column {column}, so it cannot be left out")
        return self._map_text(text, flow.home)

    def _map_text(self, text: str, home: tuple[str, str]) -> _Query:
        """Return a text of SQL over relations of the store."""
        if "${" in text:
            raise PipelineError(
                "its text has ${…}, for which Spark puts in a setting: write the value itself"
            )
        plain, places = mask_streams(text)
        streams, tables, foreign = list[str](), list[str](), dict[str, str]()
        for parts, at in list_tables(plain, "spark"):
            found = self._find_source(parts, home, at in places)
            (streams if found.is_stream else tables).append(".".join(parts))
            foreign |= found.foreign
        mapped = map_tables(plain, "spark", lambda parts: self._find_source(parts, home, None).name)
        listed = list_query_columns(parse_query(mapped, "spark"), self._find_columns)
        columns = None
        if listed is not None:
            missing = next((n for n, name in enumerate(listed, 1) if name is None), None)
            if missing is not None:
                raise PipelineError(
                    f"its column {missing} has no name, and Spark would call it by its text: name it by AS"
                )
            columns = tuple(name for name in listed if name is not None)
        return _Query(mapped, columns, tuple(streams), tuple(tables), foreign)

    def _render_frame(self, flow: QueryFlow, left: frozenset[str]) -> _Query:
        streams, tables, foreign = list[str](), list[str](), dict[str, str]()

        def note(query: _Query) -> None:
            streams.extend(query.streams)
            tables.extend(query.tables)
            foreign.update(query.foreign)

        def read_source(node: Any) -> FrameSource:
            if hasattr(node, "query"):
                text, made = leave_out(node.query, left)
                query = self._map_text(text, flow.home)
                note(query)
                return FrameSource(f"({query.text})", query.columns, made)
            found = self._find_frame_source(node, flow.home)
            (streams if found.is_stream else tables).append(found.words)
            foreign.update(found.foreign)
            columns = self._find_columns(found.name)
            return _select_schema(node, found, columns) or FrameSource(quote(found.name), columns)

        text = render_frame_query(flow.relation, read_source, left)
        listed = list_query_columns(parse_query(text, "spark"), self._find_columns)
        columns = None if listed is None or None in listed else tuple(str(name) for name in listed)
        return _Query(text, columns, tuple(streams), tuple(tables), foreign)

    def _find_frame_source(self, node: Any, home: tuple[str, str]) -> _Source:
        if node.WhichOneof("read_type") == "named_table":
            if node.named_table.options:
                raise SqlError("the frame reads a table with options", hint="leave the options out")
            return self._find_source(
                split_name(node.named_table.unparsed_identifier), home, bool(node.is_streaming)
            )
        source = node.data_source
        form = source.format or "parquet"
        if len(source.paths) != 1:
            what = f"{len(source.paths)} paths" if source.paths else f"the source {form}"
            words = "" if source.paths else ": name a table under `tables` that stands for this dataset"
            raise PipelineError(f"it reads {what}{words}")
        return self._find_files(form, source.paths[0], bool(node.is_streaming))

    # ---- what a name means -----------------------------------------------------------------------------------
    def _find_source(self, parts: tuple[str, ...], home: tuple[str, str], streams: bool | None) -> _Source:
        """Return what stands for a table of a query; `streams`: whether it is read as a stream, None where that is known."""
        words = ".".join(parts)
        dataset = self.names.find_dataset(parts, home)
        if dataset is not None:
            return self._find_own(dataset, words, streams)
        if len(parts) == 2 and parts[0].lower() in FILE_FORMATS:
            return self._find_files(parts[0].lower(), parts[1], streams)
        return _build_source(self.names.find_table(parts, home), words, streams)

    def _find_own(self, dataset: Dataset, words: str, streams: bool | None) -> _Source:
        if dataset.kind == "sink":
            raise PipelineError(f"{words} is a sink, and cannot be read")
        try:
            built = self._build(dataset)
        except TidelineError as error:
            raise PipelineError(f"it reads {words}, which is not taken") from error
        replacement = self.names.find_replacement(dataset)
        foreign = built.query.foreign if replacement is not None else {}
        name = replacement or self.names.find_relation(dataset)
        if streams and not built.is_stream and not built.is_appended:
            raise PipelineError(f"it reads {words} as a stream, {_NOT_APPENDED}")
        return _Source(name, words, built.is_stream or bool(streams), foreign)

    def _find_files(self, form: str, path: str, streams: bool | None) -> _Source:
        words = f"{form} files of {path}"
        return _build_source(self.names.find_path(form, path), words, streams)

    def _find_columns(self, name: str) -> tuple[str, ...] | None:
        """Return the columns of a relation, of the pipeline or of the store."""
        for dataset in self.found.datasets:
            built = self._built.get(id(dataset))
            own = isinstance(built, _Built) and self.names.find_replacement(dataset) is None
            if isinstance(built, _Built) and own and self.names.find_relation(dataset) == name:
                return built.query.columns
        known = self.names.known.get(name)
        return None if known is None else known.columns


@dataclass(frozen=True)
class _Source:
    """What stands for a table of a query: its relation, what the pipeline calls it, and whether it is a stream."""

    name: str
    words: str
    is_stream: bool
    foreign: Mapping[str, str] = field(default_factory=dict)


def _select_schema(node: Any, found: _Source, columns: tuple[str, ...] | None) -> FrameSource | None:
    """Return the columns of a table that the schema of a frame's reader names, None where it says none, or just these.

    Raises PipelineError for one that the table has not.
    """
    text = node.data_source.schema if node.WhichOneof("read_type") == "data_source" else ""
    if not text:
        return None
    names = read_schema_names(text)
    folded = [name.lower() for name in names]
    have = None if columns is None else [name.lower() for name in columns]
    if have == folded:
        return None
    for name in names:
        if have is not None and name.lower() not in have:
            raise PipelineError(
                f"the schema of its reader has the column {name}, and the table {found.name}, which stands for its files, has not"
            )
    listed = ", ".join(map(quote, names))
    return FrameSource(f"(SELECT {listed} FROM {quote(found.name)})", names)


VIEW, TABLE = "materialized view", "table that you land"
_SPARK_DOES = {
    "materialized view": "; Spark computes it in full at each update",
    "streaming table": "; Spark adds to it what its stream brings",
}
_NOT_APPENDED = "of whose rows some change or go: a stream takes each row once, and Spark's fails there"
_MIXED = "it joins the stream {} with the table {}: rows of a stream keep what the table was when they came"


def _build_source(table: KnownTable, words: str, streams: bool | None) -> _Source:
    """Return the source that a table of the store is; raises PipelineError for a stream of one whose rows change."""
    if streams and not table.append_only:
        known = table.columns is not None or table.connector
        reason = (
            f"and its table {table.name} is not APPEND ONLY"
            if known
            else f"and there is no table {table.name} yet"
        )
        raise PipelineError(
            f"it reads {words} as a stream, {reason}: whether its rows are only added is not known"
        )
    return _Source(table.name, words, bool(streams), {table.name: words})


def _key(dataset: Dataset, names: DatasetNames) -> tuple[str, ...]:
    return next((key for key, one in names.own.items() if one is dataset), ())


def _unite(queries: Sequence[_Query]) -> _Query:
    """Return the query of a table that several streaming flows fill, which Spark matches by the names of columns."""
    first = queries[0].columns
    if first is None or any(query.columns is None for query in queries):
        raise PipelineError("several flows fill it, and not all their columns are known: select them by name")
    order = [name.lower() for name in first]
    texts: list[str] = []
    for query in queries:
        if sorted(name.lower() for name in query.columns or ()) != sorted(order):
            raise PipelineError("several flows fill it, whose columns differ: select the same ones in each")
        listed = ", ".join(quote(name) for name in first)
        texts.append(f"SELECT {listed} FROM ({query.text}) AS {quote(f'flow_{len(texts) + 1}')}")
    foreign = {name: words for query in queries for name, words in query.foreign.items()}
    streams = tuple(name for query in queries for name in query.streams)
    return _Query("\nUNION ALL\n".join(texts), first, streams, (), foreign)


def _check_schema(schema: tuple[str, ...] | None, columns: tuple[str, ...] | None) -> None:
    """Raise PipelineError where a dataset says other columns than its query gives."""
    if schema is None:
        return
    if columns is None:
        raise PipelineError(
            "it says a schema, and the columns of its query are not known: select them by name"
        )
    if [name.lower() for name in columns] != [name.lower() for name in schema]:
        raise PipelineError(
            f"its schema has the columns {', '.join(schema)}, and its query {', '.join(columns)}: let both be alike"
        )


def _check_configuration(conf: Mapping[str, str]) -> None:
    """Raise PipelineError for a setting by which Spark may compute other rows than are computed here."""
    for key, value in conf.items():
        if not key.lower().startswith("spark.sql.") or key.startswith(_MEANS_NOTHING):
            continue
        if value.lower() not in _AS_HERE.get(key.lower(), ()):
            raise PipelineError(
                f"its configuration has {key} = {value}, by which Spark may give other rows: leave it out"
            )
