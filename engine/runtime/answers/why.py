"""Why a row of a view is there: the rows of tables that make it, and the steps from it to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from engine.arrow import as_rows
from engine.errors import SqlError
from engine.hummock import Hummock
from engine.hummock.rows.key_numbers import deduplicate
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.epochs.query_policy import POLICIES, choose_epochs
from engine.operators.context import EpochContext
from engine.runtime.answers.asked_row import AskedKey, find_row
from engine.runtime.answers.replay import Replay, add_deciding_rows
from engine.runtime.answers.tables_read import StoreTables, make_frame
from engine.runtime.answers.trace import Define, Tracer, TraceStep, join_equal
from engine.runtime.answers.view_definitions import build_definition
from engine.runtime.rows import to_visible_names
from engine.runtime.spark.errors import build_analysis_error, build_row_error
from engine.runtime.spark.session import EngineSpark
from engine.sql.catalog import Relation
from engine.sql.expression.spark_sql import quote

MOST_ROUNDS = 6
"""So often rows are added that decide over the row without being in it."""


@dataclass(frozen=True, eq=False)
class RowOrigin:
    """Why a row of a view is there at an epoch: by table the rows that make it, whole ones, and the steps that lead to them.

    `row` is the row with its shown columns. A store with the same tables and views that has just these rows has the row, too.
    """

    view: str
    row: pa.Table
    epoch: int
    steps: tuple[TraceStep, ...]
    sources: Mapping[str, pa.Table]


def explain_row(
    store: Hummock,
    open_spark: Callable[[], SparkSession],
    view: str,
    key: AskedKey,
    at: int | str | None = None,
) -> RowOrigin:
    """Return why the row of a view with a key is there, at an epoch or a time, by default the newest of the view and its inputs.

    Raises SqlError for what has no such row, or cannot be traced, EpochFailed for an epoch at which there is no content, and
    EpochExpired for one that was let go.
    """
    version = store.refresh()
    stored = load_catalog(version)
    relation = _resolve_view(stored, view)
    below = _list_below(stored, relation.name)
    if str(at).lower() in POLICIES:  # of which some read each table at an epoch of its own
        raise SqlError(
            f"{at} is no epoch", hint="give its number, or a time such as 2026-01-31 12:00:00 (UTC)"
        )
    epochs = choose_epochs(version, stored, below, "consistent" if at is None else str(at))
    tables = StoreTables(store, version, stored, epochs, open_spark)
    row = find_row(tables, relation, key)
    try:
        return _Question(tables, relation, row).answer()
    except AnalysisException as error:
        raise build_analysis_error(error, relation.sql) from error
    except PySparkException as error:
        raise build_row_error(error, relation.sql) from error


def _resolve_view(stored: StoredCatalog, name: str) -> Relation:
    """Return the materialized view of a name; raises SqlError if there is none."""
    relation = stored.catalog.get(name)
    if relation.kind == "materialized view":
        return relation
    if relation.kind in ("table", "source"):
        raise SqlError(f"{relation.name} is a {relation.kind}: its rows are there because they were written")
    raise SqlError(
        f"{relation.name} is a {relation.kind}, and keeps no rows of its own",
        hint="ask for a row of a materialized view",
    )


def _list_below(stored: StoredCatalog, name: str) -> tuple[str, ...]:
    """Return a view and all tables and views that its rows follow from, the view first."""
    found: dict[str, None] = {}
    queue = [name]
    while queue:
        one = queue.pop(0)
        if one not in found:
            found[one] = None
            if stored.catalog.get(one).kind == "materialized view":
                queue += stored.catalog.get(one).depends_on
    return tuple(found)


@dataclass(frozen=True)
class _Question:
    """A row of a view, and what it is traced over."""

    tables: StoreTables
    relation: Relation
    row: pa.Table

    def answer(self) -> RowOrigin:
        """Return why the row is there; raises SqlError if no rows are found that make it again by themselves."""
        tables, name = self.tables, self.relation.name
        size = sum(
            version.row_count for one, version in tables.version.tables.items() if one in tables.epochs
        )
        tracer = Tracer(tables, self._configure(size), self._define)
        tracer.trace_view(name, self.row)
        for again in range(MOST_ROUNDS):
            rows = {one: self._load_rows(one, tracer.found.get(one, [])) for one in self._list_tables()}
            replay = Replay(rows, self._configure(sum(one.num_rows for one in rows.values())), self._define)
            if self._is_made_by(replay):
                break
            if again + 1 < MOST_ROUNDS:
                views = [one for one in tables.epochs if one not in rows]
                add_deciding_rows(tracer, replay, views)
        else:
            raise SqlError(
                f"the row of {name} was traced to {sum(one.num_rows for one in rows.values()):,} rows that do not give it "
                "again by themselves",
                hint="trace the rows of what it reads one by one",
            )
        shown = [column.storage_name for column in self.relation.columns if not column.hidden]
        row = to_visible_names(self.relation, self.row.select(shown))
        sources = {one: self._show(one, found) for one, found in rows.items()}
        return RowOrigin(name, row, tables.epochs[name], tuple(tracer.steps), sources)

    @cached_property
    def _define(self) -> Define:
        """What gives the definition of a view, at the epoch of the question."""
        stored, epoch = self.tables.stored, self.tables.epochs[self.relation.name]
        return cache(lambda view: build_definition(stored.catalog.get(view), stored, epoch))

    def _configure(self, rows: int) -> EpochContext:
        """Return the context in which plans over so many rows are computed."""
        tables = self.tables
        context = EpochContext(
            tables.spark,
            tables.store.url,
            tables.store.options,
            tables.version.tables,
            None,
            tables.epochs[self.relation.name],
            tables.cores,
            rows,
        )
        spark = EngineSpark.of(tables.spark)
        spark.configure("spark.sql.shuffle.partitions", str(context.partitions))
        spark.configure("spark.sql.adaptive.enabled", "false" if context.is_small else "true")
        return context

    def _list_tables(self) -> list[str]:
        relations = self.tables.stored.catalog.relations
        return [name for name in self.tables.epochs if relations[name].kind in ("table", "source")]

    def _load_rows(self, name: str, keys: Sequence[pa.Table]) -> pa.Table:
        """Return the whole rows of a table, each once, in the order of their keys."""
        relation = self.tables.stored.catalog.get(name)
        schema = self.tables.version.tables[name].schema
        if not keys:
            return schema.empty_table().select([c.storage_name for c in relation.columns])
        whole = pa.concat_tables([_as_keys(one, schema, relation) for one in keys])
        return self.tables.look_up_rows(
            name, deduplicate(whole).sort_by([(c, "ascending") for c in relation.primary_key])
        )

    def _show(self, name: str, rows: pa.Table) -> pa.Table:
        """Return rows as users see them."""
        relation = self.tables.stored.catalog.get(name)
        shown = [column.storage_name for column in relation.columns if not column.hidden]
        return to_visible_names(relation, rows.select(shown))

    def _is_made_by(self, replay: Replay) -> bool:
        """Tell whether the view's query over a few rows gives the row again, in all shown columns."""
        shown = [column.storage_name for column in self.relation.columns if not column.hidden]
        exact = [name for name in shown if _is_exact(self.row.schema.field(name).type)]
        found = replay.compute_view(self.relation.name)
        if exact:
            found = join_equal(found, make_frame(self.tables.spark, self.row.select(exact)))
        again = as_rows(found.select(*map(quote, shown)).toArrow())
        row = as_rows(self.row.select(shown))[0]
        return any(are_equal(one, row) for one in again)


def _as_keys(keys: pa.Table, schema: pa.Schema, relation: Relation) -> pa.Table:
    """Return keys with the types that the table has."""
    fields = [schema.field(name) for name in relation.primary_key]
    return keys.select(list(relation.primary_key)).cast(pa.schema([f.with_nullable(True) for f in fields]))


def _is_exact(kind: pa.DataType) -> bool:
    return not (pa.types.is_floating(kind) or pa.types.is_nested(kind))


def are_equal(one: Any, other: Any) -> bool:
    """Tell whether two values are equal; floating numbers may differ in their last digits, as sums do by their order."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (one != one and other != other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(are_equal, one, other))
    return bool(one == other)
