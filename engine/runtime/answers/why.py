"""Why a row of a view is there: the rows of tables that make it, and the steps from it to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.arrow import as_rows
from engine.errors import SqlError
from engine.hummock import Hummock
from engine.hummock.rows.key_numbers import deduplicate
from engine.runtime.answers.asked_row import AskedKey, find_row
from engine.runtime.answers.question import Question
from engine.runtime.answers.replay import Replay, add_deciding_rows
from engine.runtime.answers.tables_read import StoreTables
from engine.runtime.answers.trace import Tracer, TraceStep
from engine.runtime.rows import to_visible_names
from engine.sql.catalog import Relation

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
    question = Question.open(store, open_spark, view, at)
    row = find_row(question.tables, question.relation, key)
    with question.name_errors():
        return _RowQuestion(question, row).answer()


@dataclass(frozen=True)
class _RowQuestion:
    """A row of a view, and what it is traced over."""

    question: Question
    row: pa.Table

    @property
    def tables(self) -> StoreTables:
        """What is read."""
        return self.question.tables

    @property
    def relation(self) -> Relation:
        """The view."""
        return self.question.relation

    def answer(self) -> RowOrigin:
        """Return why the row is there; raises SqlError if no rows are found that make it again by themselves."""
        tables, name, question = self.tables, self.relation.name, self.question
        tracer = Tracer(tables, question.configure(question.count_rows()), question.define)
        tracer.trace_view(name, self.row)
        for again in range(MOST_ROUNDS):
            rows = {one: self._load_rows(one, tracer.found.get(one, [])) for one in self._list_tables()}
            size = sum(one.num_rows for one in rows.values())
            replay = Replay(rows, question.configure(size), question.define)
            if self._is_made_by(replay):
                break
            if again + 1 < MOST_ROUNDS:
                views = [one for one in tables.epochs if one not in rows]
                add_deciding_rows(tracer, replay, views)
        else:
            raise self._build_error(size)
        shown = self.relation.visible_storage_names
        row = to_visible_names(self.relation, self.row.select(shown))
        sources = {one: self._show(one, found) for one, found in rows.items()}
        return RowOrigin(name, row, tables.epochs[name], tuple(tracer.steps), sources)

    def _build_error(self, rows: int) -> SqlError:
        """Return that so many rows do not make the row; where tables let rows go by themselves, that it may follow from such."""
        name, relations = self.relation.name, self.tables.stored.catalog.relations
        message = f"the row of {name} was traced to {rows:,} rows that do not give it again by themselves"
        leaving = [one for one in self._list_tables() if relations[one].hides_rows]
        if not leaving:
            return SqlError(message, hint="trace the rows of what it reads one by one")
        told = f"{message}; rows leave {' and '.join(leaving)} by themselves, and it may follow from such"
        return SqlError(told, hint="ask for an epoch at which they were there")

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
        shown = relation.visible_storage_names
        return to_visible_names(relation, rows.select(shown))

    def _is_made_by(self, replay: Replay) -> bool:
        """Tell whether the view's query over a few rows gives the row again, in all shown columns."""
        shown = self.relation.visible_storage_names
        exact = [name for name in shown if _is_exact(self.row.schema.field(name).type)]
        found = replay.compute_view(self.relation.name).select_equal(self.row.select(exact), shown)
        row = as_rows(self.row.select(shown))[0]
        return any(are_equal(one, row) for one in as_rows(found))


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
