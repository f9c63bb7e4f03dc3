"""Samples of views within a share of the time: the view that was sampled longest ago first, each from where it was left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from engine.errors import SqlError, TidelineError
from engine.hummock import Commit, Hummock, Version
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.reads.merge import LOWEST
from engine.hummock.transact import DEFINITION, commit_with_retry
from engine.meta.catalog.records import Entries
from engine.meta.catalog.stored_catalog import RELATIONS, load_catalog
from engine.meta.catalog.successions import find_succeeded_view
from engine.meta.status.sampled_rows import (
    ALL,
    MOST_EXAMPLES,
    SAMPLES,
    TIMES,
    SampledRows,
    SamplingTime,
    forget_samples,
)
from engine.runtime.answers.question import Question
from engine.runtime.oracle.comparison import RowDifference, describe_difference
from engine.runtime.oracle.ranges import measure_progress
from engine.runtime.oracle.view_samples import Sample, ViewSamples
from engine.sql.catalog import Relation

_LOG = logging.getLogger(__name__)
SHARE = 0.01
"""Samples take this share of the time unless another one is named."""


@dataclass(frozen=True)
class SampleReport:
    """What the samples of a view have shown: how many of its rows were held against its query's, and which differ.

    `epoch` is the newest one at which that was, `progress` how much of the pass is done, from 0 to 1, and `passed` whether a pass
    was ended. `differ` counts those of the pass, or the one before if there were more; `examples` are some in words, and the
    `report` that was written of them is read by `tideline replay`. A `reason` says why none were taken.
    """

    view: str
    epoch: int | None = None
    rows: int = 0
    differences: tuple[RowDifference, ...] = ()
    seconds: float = 0.0
    progress: float = 0.0
    passed: bool = False
    differ: int = 0
    examples: tuple[str, ...] = ()
    report: Path | None = None
    reason: str = ""


@dataclass
class _Sampled:
    """What has been found of a view in a run."""

    record: SampledRows
    rows: int = 0
    seconds: float = 0.0
    passed: bool = False
    failed: bool = False
    differences: list[RowDifference] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    report: Path | None = None


@dataclass
class Sampling:
    """Takes samples of the views of a store, some of them where they are named."""

    store: Hummock
    open_spark: Callable[[], SparkSession]
    views: Sequence[str] = ()
    reports: Path | None = None
    """A folder for reports of what differs, None to keep none."""
    _sampled: dict[str, _Sampled] = field(default_factory=dict)
    _reasons: dict[str, str] = field(default_factory=dict)

    def run(self, seconds: float, share: float | None = None) -> list[SampleReport]:
        """Take samples for so many seconds, at least one of a view; none before its time where they have a share of it.

        Raises SqlError for a named view that there is not.
        """
        if not 0 < (share or 1.0) <= 1:
            raise SqlError(
                f"{share} is no share of the time", hint="name one above 0 and up to 1, such as 0.01"
            )
        version = self.store.refresh()
        names = self._list_views(version)
        last, now = TIMES.read(version, ALL), self.store.clock()
        if share is not None and last is not None and last.ended <= now < last.find_next_start(share):
            left = last.find_next_start(share) - now
            reason = f"the next samples are due in {left:.0f} s, so that they take {share:.1%} of the time"
            return [self._report(version, name, reason) for name in names]
        began = self.store.clock.monotonic()
        due = sorted(names, key=lambda name: getattr(SAMPLES.read(version, name), "tried", 0.0))
        while due:
            for name in list(due):
                if not self._take_next(name):
                    due.remove(name)
                if self.store.clock.monotonic() - began >= seconds:
                    due = []
                    break
        took = self.store.clock.monotonic() - began
        if self._sampled:
            counted = None if share is None else took  # what somebody asked for is not of the share
            commit_with_retry(self.store, lambda: self._commit(counted), DEFINITION)
        version = self.store.version
        return [self._report(version, name, self._reasons.get(name, "")) for name in names]

    def _list_views(self, version: Version) -> list[str]:
        catalog = load_catalog(version).catalog
        if self.views:
            return list(dict.fromkeys(catalog.get(name).name for name in self.views))
        return sorted(name for name, one in catalog.relations.items() if _is_sampled(one))

    def _take_next(self, name: str) -> bool:
        """Take the next sample of a view; returns whether there is another one to take."""
        clock = self.store.clock
        began = clock.monotonic()
        sampled: _Sampled | None = None
        try:
            question = Question.open(self.store, self.open_spark, name, None)
            samples = ViewSamples.open(question)
            sampled = self._find_sampled(question, samples)
            record = sampled.record
            if record.complete is not None and not record.positions:
                if min(samples.find_last_change(), question.epoch) <= record.complete:
                    self._reasons[name] = "all rows were compared, and none has changed since"
                    return False
                record = _begin_pass(record, question.epoch)
                sampled.texts.clear()
            positions = {cursor: LOWEST for cursor in samples.cursors} | dict(record.positions)
            cursor = max(
                (one for one in samples.cursors if positions[one] is not None),
                key=lambda one: -measure_progress(positions[one]),
            )
            with question.name_errors():
                sample = samples.take(cursor, positions[cursor] or 0)
                texts = {_describe(question.relation, one): one for one in sample.differences}
                known = {*record.examples, *sampled.texts}  # a row is met in several ways in a pass
                new = {text: one for text, one in texts.items() if text not in known}
                if new and self.reports is not None:
                    sampled.report = self._write_report(samples, sample)
        except TidelineError as error:
            return self._fail(name, str(error), sampled)
        except Exception as error:  # whatever it is, other views are sampled
            _LOG.exception("rows of %s cannot be computed", name)
            reason = f"its rows cannot be computed: {type(error).__name__}: {error}"
            return self._fail(name, reason, sampled)
        sampled.texts |= new.keys()
        sampled.differences += new.values()
        sampled.rows += sample.rows
        sampled.seconds += clock.monotonic() - began
        record = msgspec.structs.replace(
            record,
            positions=positions | {cursor: sample.position},
            rows=record.rows + sample.rows,
            differing=record.differing + len(new),
            examples=(*record.examples, *new)[:MOST_EXAMPLES],
            seconds=record.seconds + clock.monotonic() - began,
            epoch=question.epoch,
            tried=self.store.clock(),
        )
        if all(position is None for position in record.positions.values()):
            sampled.passed = True
            record = _end_pass(record)
        sampled.record = record
        self._sampled[name] = sampled
        return True

    def _write_report(self, samples: ViewSamples, sample: Sample) -> Path | None:
        """Write the report of what differs, and return its file; rows differ also where it cannot be written, which is logged."""
        assert self.reports is not None
        try:
            return samples.record_differences(sample).write(self.reports)
        except Exception:
            _LOG.exception("no report of rows of %s that differ can be written", samples.relation.name)
            return None

    def _fail(self, name: str, reason: str, sampled: _Sampled | None) -> bool:
        """Keep why a view cannot be sampled, and that its turn was now if that took time; returns that it has no other sample."""
        self._reasons[name] = reason
        if sampled is not None:
            sampled.failed = True
            sampled.record = msgspec.structs.replace(sampled.record, tried=self.store.clock())
            self._sampled[name] = sampled
        return False

    def _find_sampled(self, question: Question, samples: ViewSamples) -> _Sampled:
        """Return what was found of a view so far; of one with another query, or other inputs, nothing."""
        name = question.relation.name
        if name in self._sampled:
            return self._sampled[name]
        record = SAMPLES.read(question.tables.version, name)
        other = record is not None and not set(record.positions) <= set(samples.cursors)
        if record is None or other or record.began < question.relation.query_since:
            record = SampledRows(question.epoch)
        return _Sampled(record)

    def _commit(self, took: float | None) -> Version:
        """Keep what was found of the views that are there yet."""
        version = self.store.refresh()
        there = {n: one for n, one in self._sampled.items() if RELATIONS.has(version, n)}
        entries: Entries = {}
        if took is not None:
            entries |= TIMES.record(ALL, SamplingTime(self.store.clock(), round(took, 3)))
        for name, one in there.items():
            entries |= SAMPLES.record(name, one.record)
        same = (RELATIONS.require_same(version, name, f"{name} was changed meanwhile") for name in there)
        return self.store.commit(Commit(catalog=entries, precondition=require_all(*same)))

    def _report(self, version: Version, name: str, reason: str) -> SampleReport:
        sampled, record = self._sampled.get(name), SAMPLES.read(version, name)
        if record is None or not record.epoch:
            return SampleReport(name, reason=reason)
        done = [measure_progress(position) for position in record.positions.values()]
        progress = min(done) if done else 1.0
        known = SampleReport(
            name,
            record.epoch,
            progress=progress,
            differ=record.differ,
            examples=record.shown_examples,
            reason=reason,
        )
        if sampled is None:
            return known
        return replace(
            known,
            rows=sampled.rows,
            differences=tuple(sampled.differences),
            seconds=round(sampled.seconds, 3),
            passed=sampled.passed,
            report=sampled.report,
            reason=reason if sampled.failed else "",
        )


def restart_samples(store: Hummock, views: Sequence[str] = ()) -> None:
    """Forget what samples of views, of all by default, have found, so that the next ones begin anew."""
    catalog = load_catalog(store.refresh()).catalog
    names = [catalog.get(name).name for name in views] or list(catalog.relations)

    def attempt() -> None:
        entries = forget_samples(store.refresh(), names)
        if entries:
            store.commit(Commit(catalog=entries))

    commit_with_retry(store, attempt, DEFINITION)


def _is_sampled(relation: Relation) -> bool:
    return relation.kind == "materialized view" and find_succeeded_view(relation.name) is None


def _begin_pass(record: SampledRows, epoch: int) -> SampledRows:
    return SampledRows(
        epoch,
        last_differing=record.differing,
        last_examples=record.examples,
        complete=record.complete,
        epoch=record.epoch,
        tried=record.tried,
    )


def _end_pass(record: SampledRows) -> SampledRows:
    """Return the end of a pass: what it found takes the place of what the one before had found."""
    return msgspec.structs.replace(
        record, positions={}, last_differing=0, last_examples=(), complete=record.began
    )


def _describe(relation: Relation, difference: RowDifference) -> str:
    names = {column.storage_name: column.name for column in relation.visible_columns}
    return describe_difference(difference, relation.primary_key, names)
