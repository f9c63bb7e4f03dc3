"""One view's samples: rows of it, and rows of what it reads, say for which values its query is computed as a batch.

Of these values all rows that the view has are held against all that its query gives: a wrong row is found, one that should not be
there, and one that is missing. What a view reads is read as it is stored: each view is judged by its own query alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from engine.errors import SqlError
from engine.hummock import TableVersion
from engine.hummock.reads.merge import HIGHEST
from engine.hummock.rows.key_numbers import deduplicate
from engine.meta.domains.quarantine import read_quarantine
from engine.runtime.answers.asked_row import read_rows
from engine.runtime.answers.narrow_evaluation import NarrowEvaluation, keep_equal, list_wanted
from engine.runtime.answers.question import Question
from engine.runtime.oracle.comparison import RowDifference, compare_rows, find_unlike_rows
from engine.runtime.oracle.ranges import is_key, keep_hashed, read_next, read_next_values
from engine.runtime.oracle.report import DifferenceReport, record_report
from engine.runtime.oracle.sources import SampledSource, list_sources
from engine.sql.catalog import Relation
from engine.sql.plan import Node, list_scans

SAMPLED = 8_000
"""So many rows of a table are looked at in a sample, or those that have so many of its values."""
VIEW = ""
"""The cursor of the view's own rows; those of what it reads are numbered in the order of its plan."""


WHOLE = 200_000
"""A view of so many rows is compared as a whole where none of its columns is one of what it reads; of a larger one so many rows
are looked at in a sample, each of which computes the whole query.
"""
REPORTED = 1_000
"""A report is of so many values by which rows were asked, at most."""
MOST_READ = 1_000_000
"""So many rows are read in this process to compute a sample, by estimate; for more the whole query is left to Spark's tasks."""


@dataclass(frozen=True)
class Sample:
    """How many stored rows were held against what the query gives, what differed, and from which hash on its cursor goes on.

    `sides` are the stored and the computed rows, and the values by which they were asked.
    """

    rows: int
    differences: list[RowDifference]
    position: int | None
    sides: tuple[pa.Table, pa.Table, pa.Table] | None = None


@dataclass(frozen=True)
class ViewSamples:
    """What samples of a view are taken by, at the epoch of a question about it."""

    question: Question
    node: Node

    @classmethod
    def open(cls, question: Question) -> ViewSamples:
        """Return the samples of a view; raises SqlError for one whose rows do not follow from what it reads as that is stored."""
        node = question.define(question.relation.name)
        _check_inputs(question, node)
        return cls(question, node)

    @property
    def relation(self) -> Relation:
        """The view."""
        return self.question.relation

    @cached_property
    def shown(self) -> list[str]:
        """The columns that are compared, as they are stored."""
        return self.relation.visible_storage_names

    @cached_property
    def sources(self) -> list[SampledSource]:
        """What rows of the view are found by that it lacks."""
        usable, key = self._usable, set(self.relation.primary_key)
        return list_sources(self.node, {name: 1 + (name in key) * len(usable) for name in usable})

    @cached_property
    def cursors(self) -> dict[str, tuple[str, ...]]:
        """By cursor the columns of the view by whose values rows are computed: none for all rows."""
        if self._is_whole:
            return {VIEW: self._choose_columns(self._usable) if self._table.row_count > WHOLE else ()}
        known = {column for source in self.sources for column in source.columns}
        found = {VIEW: self._choose_columns(known)}
        for at, source in enumerate(self.sources):
            found[str(at)] = self._choose_columns(source.columns)
        return found

    @cached_property
    def _is_whole(self) -> bool:
        """Whether rows are computed from a table of which no column is one of the view's: only the whole query has them all."""
        return not all(self._choose_columns(source.columns) for source in self.sources)

    @cached_property
    def _usable(self) -> list[str]:
        """The columns that are compared, and have values by which rows can be found."""
        schema = self._table.schema
        return [name for name in self.shown if _is_exact(schema.field(name).type)]

    @property
    def _table(self) -> TableVersion:
        return self.question.tables.version.tables[self.relation.name]

    def _choose_columns(self, known: Container[str]) -> tuple[str, ...]:
        """Return by which columns rows are told apart: of those that are `known`, the key's, or else any."""
        own = [name for name in self._usable if name in known]
        key = [name for name in self.relation.primary_key if name in own]
        return tuple(key or own)

    def _are_many(self, rows: int, by: Sequence[str]) -> bool:
        """Tell whether so many rows of the view come of so many that the whole query is computed by Spark's tasks rather."""
        return rows * self._count_searched(by) > MOST_READ * self._table.row_count

    def _count_searched(self, by: Sequence[str]) -> int:
        """Return how many rows the tables have in which rows are looked for by other values than their keys."""
        versions = self.question.tables.version.tables
        found = (
            (versions[one.table], [one.columns[c] for c in by if c in one.columns]) for one in self.sources
        )
        return sum(table.row_count for table, columns in found if not is_key(table, columns))

    def take(self, cursor: str, position: int) -> Sample:
        """Take the sample of a cursor from a hash on."""
        by, tables, name = self.cursors[cursor], self.question.tables, self.relation.name
        stored: pa.Table | None = None
        if not by:
            wanted, after = pa.table({"_": pa.nulls(1)}).select([]), None
        elif self._is_whole:
            wanted, after = read_next_values(tables, name, by, position, WHOLE)
        elif cursor == VIEW and is_key(self._table, by):  # no other rows have these values
            stored, after = read_next(tables, name, self.shown, position, SAMPLED)
            wanted = stored.select(list(by))
        elif cursor == VIEW:
            wanted, after = read_next(tables, name, by, position, SAMPLED)
        else:
            source = self.sources[int(cursor)]
            read = [source.columns[column] for column in by]
            rows, after = read_next(tables, source.table, list(dict.fromkeys(read)), position, SAMPLED)
            wanted = pa.Table.from_arrays([rows.column(column) for column in read], names=list(by))
        wanted = deduplicate(wanted) if by else wanted
        if by and not wanted.num_rows and not self._is_whole:
            return Sample(0, [], after)
        if stored is None:
            stored = keep_equal(read_rows(tables, self.relation, list_wanted(wanted)), wanted)
            stored = stored.select(self.shown)
        context = self.question.configure(self.question.count_rows())
        narrow = {} if self._is_whole or self._are_many(stored.num_rows, by) else list_wanted(wanted)
        computed = NarrowEvaluation(tables, context).evaluate(self.node, narrow)
        if by and self._is_whole:  # rows that the view lacks have values that it has not
            schema = pa.schema([self._table.schema.field(column) for column in by])
            within = (position, HIGHEST if after is None else after - 1)
            found = keep_hashed(computed, schema, within).select(self.shown)
        else:
            found = computed.select_equal(wanted, self.shown)
        return Sample(stored.num_rows, compare_rows(stored, found, by), after, (stored, found, wanted))

    def record_differences(self, sample: Sample) -> DifferenceReport:
        """Return the report of what differs in a sample, with the rows that it is computed from."""
        assert sample.sides is not None
        stored, found, wanted = sample.sides
        if wanted.num_columns:
            unlike = pa.concat_tables(
                [one.select(wanted.column_names) for one in find_unlike_rows(stored, found)]
            )
            searched = 1 if self._is_whole else max(1, self._count_searched(wanted.column_names))
            most = MOST_READ * self._table.row_count // searched
            wanted = deduplicate(unlike).slice(0, max(1, min(REPORTED, most)))
            stored, found = keep_equal(stored, wanted), keep_equal(found, wanted)
        question = self.question
        context = question.configure(question.count_rows())
        sides = (stored, found, wanted)
        return record_report(self.relation, question.epoch, self.node, question.tables, context, sides)

    def find_last_change(self) -> int:
        """Return the epoch in which the view, or something that it reads, was changed last."""
        versions = self.question.tables.version.tables
        names = {self.relation.name, *(scan.table for scan in list_scans(self.node))}
        return max(versions[name].last_change for name in names if name in versions)


def _check_inputs(question: Question, node: Node) -> None:
    """Raise SqlError where rows of a view stand for rows that are not stored any more, or are stored elsewhere."""
    tables, name = question.tables, question.relation.name
    for reason in _list_obstacles(question, node):
        raise SqlError(f"rows of {name} are not sampled: {reason}")
    poisoned = read_quarantine(tables.version, name)
    if poisoned:
        raise SqlError(f"rows of {name} are not sampled: {len(poisoned)} of its partitions are set aside")


def _list_obstacles(question: Question, node: Node) -> Iterator[str]:
    relations = question.tables.stored.catalog.relations
    for scan in list_scans(node):
        relation = relations.get(scan.table)
        if relation is None:
            continue
        if relation.hides_rows:
            yield f"rows leave {relation.name} by themselves, and those that are gone may have a part in it"
        if relation.is_pass_through:
            yield f"rows of {relation.name} are not stored"


def _is_exact(kind: pa.DataType) -> bool:
    return not (pa.types.is_floating(kind) or pa.types.is_nested(kind))
