"""A Delta table as the target of a sink: a range of net changes is one MERGE, or one append, that counts once.

Method: Delta's idempotent writes. The number of the range's promise is the version of the transaction (`txnVersion`) of the sink
(`txnAppId`), so whoever repeats a range, or comes late with one, finds that the table has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.connectors.delta.sink.changes import (
    CODE,
    build_change_frame,
    build_empty_frame,
    collect_changes,
    count_tasks,
    is_small,
    name_column,
)
from engine.connectors.delta.sink.small_table import SmallTable, may_be_key
from engine.connectors.delta.sink.tables import (
    OWNER,
    SETTINGS,
    SHARED,
    begin_transaction,
    check_shared,
    count_committed_rows,
    find_owner,
    hold_table_lock,
    read_column_types,
    read_user_properties,
    render_name_list,
    render_table_name,
    to_spark_path,
    translate_errors,
)
from engine.connectors.sinks.contract import DeliveryResult, SinkBatch
from engine.connectors.sinks.options import SinkOptions, list_log_columns
from engine.errors import SinkError, UnsupportedSql
from engine.hummock import Hummock
from engine.hummock.epoch import format_epoch
from engine.log_store.changes import DELETE
from engine.log_store.sink import LogRange
from engine.meta.status.copy_columns import read_evolution
from engine.runtime.spark.session import EngineSpark
from engine.spark_internals import activate
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.expression.spark_sql import quote, quote_text
from engine.sql.typing.delta_columns import needs_mapping
from engine.sql.typing.types import quote_type, to_arrow

APP = "app"
"""The option of a sink's relation that names it in the transactions of its table, whatever becomes of the store's address."""
_LOG = logging.getLogger(__name__)
_VIEW = "delivered"
"""The temporary view, in the sink's own session, of what it writes."""

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows whose partition column is null."""
_LONGEST_FOLDER = 255
_ESCAPED = r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]"""
"""How long the name of a folder may be, and the characters of which Delta writes three there."""


@dataclass(frozen=True)
class _Layout:
    """Which columns of a view, with their numbers, a range brings; the table has `lacking` ones after it, and `gone` are null."""

    columns: tuple[tuple[int, RelationColumn], ...]
    lacking: frozenset[str] = frozenset()
    gone: tuple[str, ...] = ()

    @property
    def evolves(self) -> bool:
        """Whether the table is changed even if no row is."""
        return bool(self.lacking or self.gone)


class DeltaSink:
    """Keeps a Delta table as its view is.

    The rows with which a sink begins take the place of those of its own table, in one commit. Into a table that somebody else has
    made, or that others have written, they are merged.
    """

    each_epoch = False
    promises = True

    def __init__(
        self, store: Hummock, relation: Relation, start: int, spark: Callable[[], SparkSession]
    ) -> None:
        self.start = start
        self.options = SinkOptions.of(relation.options)
        self._store, self._relation, self._spark = store, relation, spark
        self._app = relation.options[APP]
        self._url, self._name = self.options.url, render_table_name(self.options.url)
        self._columns = list_log_columns(relation)
        self._evolution = read_evolution(relation)
        self._separate: EngineSpark | None = None
        self._shared = False
        self._is_small = True

    def take(self, portion: SinkBatch) -> DeliveryResult:
        """Bring a range to the table, once; durable when it returns. Raises Conflict if another process was faster."""
        changes = collect_changes(portion, self._columns) if is_small(portion) else None
        if changes is not None and (rows := self._write_small(portion, changes)) is not None:
            return DeliveryResult(rows)
        if self._separate is None:
            self._separate = EngineSpark.of(self._spark()).separate(SETTINGS)
        spark, session = self._separate, self._separate.session
        activate(session)
        spark.share_fairly("sinks")
        spark.configure("spark.sql.shuffle.partitions", str(count_tasks(session, portion)))
        try:
            with translate_errors(f"sink {self._relation.name}", self._url), hold_table_lock(self._url):
                if not self._shared:
                    check_shared(session, f"sink {self._relation.name}", self._url)
                    self._shared = True
                return self._write_batch(session, portion, changes)
        finally:
            session.catalog.dropTempView(_VIEW)

    def _write_small(self, portion: SinkBatch, changes: pa.Table) -> int | None:
        """Bring few changes to a small table of the sink's own without Spark; return how many rows, None where that cannot be."""
        promise, part, evolution = portion.promise, portion.log_range, self._evolution
        assert promise is not None
        evolves = evolution is not None and part.after < evolution.since
        if not self._is_small or part.snapshot or promise.number == promise.first or evolves:
            return None
        relation, number = self._relation, promise.number
        keys = [column for column in relation.columns if column.name in relation.primary_key]
        if self.options.upsert and not all(map(may_be_key, keys)):
            return None
        with translate_errors(f"sink {relation.name}", self._url), hold_table_lock(self._url):
            table = SmallTable.open(self._url, relation.columns, self._app)
            if table is None:
                self._is_small = False  # the log of a large table is not read again for each range
                return None
            if changes.num_rows == 0 or table.has(number):
                return 0
            try:
                if self.options.upsert:
                    return table.merge(changes, [key.name for key in keys], number, self._describe(part))
                return table.append(changes, number, self._describe(part))
            except (DeltaError, OSError) as reason:
                _LOG.warning(
                    "sink %s: Spark writes %s, delta-rs cannot: %s", relation.name, self._url, reason
                )
                return None

    def _write_batch(
        self, session: SparkSession, portion: SinkBatch, small: pa.Table | None
    ) -> DeliveryResult:
        promise = portion.promise
        assert promise is not None
        begins = promise.number == promise.first
        owner = find_owner(session, self._url)
        if portion.log_range.snapshot and owner in (None, self._app):
            changes, _ = build_change_frame(session, self._store, portion, self._columns, small)
            with self._begin_transaction(session, portion) as comment:
                self._create_table(session, changes)
            return DeliveryResult(count_committed_rows(session, self._url, comment))
        if owner is None:
            if not begins:
                raise SinkError(
                    f"sink {self._relation.name}: there is no table at {self._url} any more; ALTER SINK {self._relation.name} "
                    "RESET creates it again with the current rows"
                )
            self._create_table(session, build_empty_frame(session, portion.table, self._columns))
        elif begins:
            self._adopt_table(session, owner)
        changes, count = build_change_frame(session, self._store, portion, self._columns, small)
        layout = self._plan_layout(session, portion.log_range)
        if count == 0 and not layout.evolves:
            return DeliveryResult(0)
        with self._begin_transaction(session, portion) as comment:
            with self._explain_missing_columns(session):
                if self.options.upsert:
                    return DeliveryResult(self._merge(session, changes, layout))
                self._append(changes, layout)
            return DeliveryResult(count_committed_rows(session, self._url, comment))

    def _plan_layout(self, session: SparkSession, part: LogRange) -> _Layout:
        """Return which columns of the view a range brings, and by which it changes the table; the range of the change does.

        One that ends before the view had its columns, and was promised then, brings those that the table has.
        """
        columns, evolution = tuple(enumerate(self._relation.columns)), self._evolution
        if evolution is None or part.after >= evolution.since:
            return _Layout(columns)
        there = {name.lower() for name in read_column_types(session, self._url)}
        lacking = {name for name in evolution.added if name.lower() not in there}
        if part.upto < evolution.since:
            return _Layout(tuple((n, column) for n, column in columns if column.name not in lacking))
        gone = tuple(name for name in evolution.gone if name.lower() in there)
        return _Layout(columns, frozenset(lacking), gone)

    @contextmanager
    def _explain_missing_columns(self, session: SparkSession) -> Iterator[None]:
        """Say that the table's columns are others than the view's, where this is why a write failed: Spark does not."""
        try:
            yield
        except Exception as error:
            name = self._relation.name
            lacking = ", ".join(
                c.name for c in find_missing_columns(self._relation, read_column_types(session, self._url))
            )
            if not lacking:
                raise
            raise SinkError(
                f"sink {name}: the table at {self._url} has no column {lacking} any more: give it back, or ALTER SINK {name} "
                "RESET brings the rows as they are, with all columns"
            ) from error

    def _begin_transaction(self, session: SparkSession, portion: SinkBatch) -> AbstractContextManager[str]:
        part, promise = portion.log_range, portion.promise
        assert promise is not None
        return begin_transaction(session, self._app, promise.number, self._describe(part))

    def _describe(self, part: LogRange) -> str:
        """Return what the table's history says of a range."""
        what = "the rows" if part.snapshot else f"the changes after epoch {format_epoch(part.after)}"
        return f"sink {self._relation.name}: {what}, up to epoch {format_epoch(part.upto)}"

    def _create_table(self, session: SparkSession, changes: DataFrame) -> None:
        """Make the table, or make it anew with the properties that it has got, with these rows, in one commit."""
        exists = find_owner(session, self._url) is not None
        properties = {**(read_user_properties(session, self._url) if exists else {}), OWNER: self._app}
        if any(needs_mapping(to_arrow(column.type), column.name) for column in self._relation.columns):
            properties["delta.columnMapping.mode"] = "name"
        rows, laid = self._select_rows(changes), ""
        if self.options.partition_by:
            laid = f"PARTITIONED BY ({render_name_list(self.options.partition_by)})"
            rows = rows.repartition(*(F.col(quote(name)) for name in self.options.partition_by))
        elif self.options.cluster_by:
            laid = f"CLUSTER BY ({render_name_list(self.options.cluster_by)})"
        rows.createOrReplaceTempView(_VIEW)
        options = ", ".join(f"{quote_text(key)} = {quote_text(value)}" for key, value in properties.items())
        session.sql(
            f"CREATE OR REPLACE TABLE {self._name} USING delta {laid} TBLPROPERTIES ({options}) AS SELECT * FROM {_VIEW}"
        )

    def _adopt_table(self, session: SparkSession, owner: str) -> None:
        """Let a table that is there take the sink's rows: say that it is not one sink's, and add the columns that it lacks."""
        if owner not in ("", self._app, SHARED):
            session.sql(
                f"ALTER TABLE {self._name} SET TBLPROPERTIES ({quote_text(OWNER)} = {quote_text(SHARED)})"
            )
        lacking = find_missing_columns(self._relation, read_column_types(session, self._url))
        if lacking:
            definitions = ", ".join(f"{quote(column.name)} {quote_type(column.type)}" for column in lacking)
            session.sql(f"ALTER TABLE {self._name} ADD COLUMNS ({definitions})")

    def _merge(self, session: SparkSession, changes: DataFrame, layout: _Layout) -> int:
        names = {
            n: column.name if column.name in layout.lacking else name_column(n)
            for n, column in layout.columns
        }
        keys = {n: column for n, column in layout.columns if column.name in self._relation.primary_key}
        meet = " AND ".join(
            f"t.{quote(key.name)} {'<=>' if key.nullable else '='} s.{name_column(n)}"
            for n, key in keys.items()
        )
        new = [f"{quote(column.name)} = s.{quote(names[n])}" for n, column in layout.columns]
        nothing = [f"{quote(name)} = NULL" for name in layout.gone]
        values = ", ".join(f"s.{quote(names[n])}" for n, _ in layout.columns)
        rows = changes.selectExpr(CODE, *self._render_values())
        for n, column in layout.columns:
            if column.name in layout.lacking:  # the table gets a column from one of its name
                rows = rows.withColumnRenamed(name_column(n), column.name)
        rows.createOrReplaceTempView(_VIEW)
        left = " OR ".join(f"t.{quote(name)} IS NOT NULL" for name in layout.gone)
        text = (
            f"MERGE {'WITH SCHEMA EVOLUTION ' if layout.lacking else ''}INTO {self._name} AS t USING {_VIEW} AS s "
            f"ON {meet or 'TRUE'} WHEN MATCHED AND s.{CODE} = {DELETE} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join([*new, *nothing])} WHEN NOT MATCHED AND s.{CODE} <> {DELETE} "
            f"THEN INSERT ({render_name_list(column.name for _, column in layout.columns)}) VALUES ({values})"
        )
        if left:
            text += f" WHEN NOT MATCHED BY SOURCE AND ({left}) THEN UPDATE SET {', '.join(nothing)}"
        done = session.sql(text)
        return sum(row["num_affected_rows"] for row in done.toArrow().to_pylist())

    def _append(self, changes: DataFrame, layout: _Layout) -> None:
        numbers = [n for n, _ in layout.columns]
        rows = self._select_rows(changes.where(f"{CODE} <> {DELETE}"))
        rows = rows.select(*(F.col(quote(self._relation.columns[n].name)) for n in numbers))
        writing = rows.write.format("delta").mode("append")
        writing.option("mergeSchema", str(bool(layout.lacking)).lower()).save(to_spark_path(self._url))

    def _select_rows(self, changes: DataFrame) -> DataFrame:
        """Return changes as rows of the view; what is a deletion must not be among them."""
        return changes.selectExpr(*self._render_values()).toDF(
            *(column.name for column in self._relation.columns)
        )

    def _render_values(self) -> list[str]:
        """Return the columns of changes; one by which Delta partitions is checked for what it would make a null of."""
        partitions = set(self.options.partition_by)
        return [
            _render_partition_check(self._relation, column.name, name_column(n))
            if column.name in partitions and column.type == "string"
            else name_column(n)
            for n, column in enumerate(self._relation.columns)
        ]


def find_missing_columns(relation: Relation, there: Mapping[str, str]) -> list[RelationColumn]:
    """Return the columns of a sink that a table lacks; raises SinkError for one that the table has with another type."""
    known = {name.lower(): kind for name, kind in there.items()}
    for column in relation.columns:
        kind = known.get(column.name.lower(), column.type)
        theirs = _to_arrow_type(kind)
        if theirs != to_arrow(column.type):
            cast = "" if theirs is None else f"CAST it to {kind} in the view, or "
            differ = f"column {column.name} is {column.type} and {kind} in the Delta table"
            raise SinkError(f"sink {relation.name}: {differ}: {cast}name another path")
    return [column for column in relation.columns if column.name.lower() not in known]


def _to_arrow_type(kind: str) -> pa.DataType | None:
    """Return the Arrow type of a Delta table's column, None where no view has such a column."""
    try:
        return to_arrow(kind)
    except UnsupportedSql:
        return None


def _render_partition_check(relation: Relation, name: str, value: str) -> str:
    """Return a value by which Delta partitions, with an error for those that would become a null, or a folder that cannot be."""
    prefix = f"sink {relation.name}: column {name} "
    instead = "where it partitions by it: write another word in the view, or take cluster_by instead"
    conditions = {
        f"{value} IN ('', {quote_text(NULL_FOLDER)})": (
            f"is an empty text or {NULL_FOLDER}, of which Delta makes a null where it partitions by it: write NULL or another "
            "word in the view, or take cluster_by instead"
        ),
    }
    has_folders = not any(needs_mapping(to_arrow(column.type), column.name) for column in relation.columns)
    if has_folders:
        zero = f"holds the character 0, which no name of a folder has, {instead}"
        conditions[f"instr({value}, char(0)) > 0"] = zero
    if has_folders and relation.options.get("url", "").startswith("file:"):
        bytes_before = len(f"{name}=".encode())
        size = f"{bytes_before} + octet_length({value}) + 2 * regexp_count({value}, {quote_text(_ESCAPED)})"
        longest = f"gives a folder whose name has more than {_LONGEST_FOLDER} bytes {instead}"
        conditions[f"{size} > {_LONGEST_FOLDER}"] = longest
    cases = " ".join(
        f"WHEN {condition} THEN CAST(raise_error({quote_text(prefix + message)}) AS STRING)"
        for condition, message in conditions.items()
    )
    return f"CASE {cases} ELSE {value} END AS {value}"
