"""Sources of several tables that share one order of changes: each commit brings all of them to the same position.

A view over two of the tables sees what the source did at once, or nothing of it. Where a table stands is written for each of them
as for a source of one (`offsets.py`), so that one that is dropped and made again, or that comes to the group later, begins anew.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from engine.connectors.contract.connector import (
    SourceGroup,
    SourceReport,
    Spark,
    get_connector_name,
    no_spark,
)
from engine.connectors.contract.intake import Intake, commit_intakes, commit_polled
from engine.connectors.contract.offset_source import StepResult
from engine.connectors.contract.offsets import SourceOffset, build_offset_row, ensure_offsets, find_offsets
from engine.errors import SourceError
from engine.hummock import Hummock, Put, TableVersion, Version
from engine.hummock.manifests.preconditions import Precondition, require_none, require_unaltered
from engine.hummock.transact import commit_once
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.dead_letters import DEAD_LETTER, ensure_dead_letters
from engine.meta.status.source_notes import OFFSETS
from engine.sql.catalog import Relation

Step = TypeVar("Step")


@dataclass(frozen=True)
class GroupMember:
    """A table of a group as it is in a version, and where it stands; None before its first commit."""

    relation: Relation
    table: TableVersion
    offset: SourceOffset | None

    @property
    def name(self) -> str:
        """The table's name."""
        return self.relation.name


Members = Sequence[GroupMember]
Steps = Generator[Step, None, None]


class GroupSource(SourceGroup, Generic[Step]):
    """What feeds the tables of one group; a subclass says which steps come next, and what each brings to every table."""

    connector: str

    def __init__(self, store: Hummock, group: str) -> None:
        self.store, self.group = store, group

    @abstractmethod
    def is_member(self, relation: Relation) -> bool:
        """Tell whether a table that the connector feeds belongs to the group."""

    @abstractmethod
    def plan_steps(self, members: Members) -> Steps[Step]:
        """Yield what further commits take, each behind the one before; each is asked for once the one before it is committed.

        An end is to come. Whatever a step holds open is closed by the end of the generator.
        """

    @abstractmethod
    def ingest_step(
        self, step: Step, members: Members, version: Version, spark: Spark
    ) -> Mapping[str, StepResult]:
        """Return what a step brings to each table that it moves, with the offset behind it."""

    def list_members(self, version: Version) -> tuple[GroupMember, ...]:
        """Return the tables of the group that a version has, with where they stand."""
        relations = self._list_relations(version)
        tables = [version.tables[relation.name] for relation in relations]
        offsets = find_offsets(self.store, version, tables)
        return tuple(
            GroupMember(relation, table, offsets.get(relation.name))
            for relation, table in zip(relations, tables, strict=True)
        )

    def _list_relations(self, version: Version) -> list[Relation]:
        return [
            relation
            for relation in load_catalog(version).catalog.relations.values()
            if relation.name in version.tables
            and get_connector_name(relation) == self.connector
            and self.is_member(relation)
        ]

    def poll(self, spark: Spark = no_spark) -> list[SourceReport]:
        """Take all that there is, a commit a step; raises SourceError for what stops the group."""
        return self.commit_steps(spark, self.plan_steps)

    def commit_steps(self, spark: Spark, plan: Callable[[Members], Steps[Step]]) -> list[SourceReport]:
        """Commit steps until they end."""
        started = time.perf_counter()
        self.store.refresh()
        ensure_offsets(self.store)
        ensure_dead_letters(self.store)
        walk = _GroupPoll(self, plan, spark)
        try:
            while commit_polled(self.store, self.describe_tables(), walk.commit_next):
                pass
        except SourceError as error:
            self.record_error(str(error))
            raise
        finally:
            walk.close()
        self.record_error("")
        seconds = time.perf_counter() - started
        return [replace(report, seconds=seconds) for report in walk.reports.values()]

    def describe_tables(self) -> str:
        """Return the names of the tables, for messages."""
        return ", ".join(relation.name for relation in self._list_relations(self.store.version))

    def record_error(self, error: str) -> None:
        """Keep in the store, for who asks how things stand, why the tables do not go on; "" where they do."""
        members = self.list_members(self.store.refresh())
        rows = [
            Put(build_offset_row(member.table, "", replace(member.offset, error=error)))
            for member in members
            if member.offset is not None and member.offset.error != error
        ]
        if rows:
            unmoved = self.require_members(members)
            commit_once(self.store, lambda: self.store.ingest_batch({OFFSETS: rows}, precondition=unmoved))

    def require_members(self, members: Members) -> Precondition:
        """Return the check that the tables are those that they were, and stand where they stood."""

        def find_moved(now: Version) -> str | None:
            tables = [now.tables[one.name] for one in members if one.name in now.tables]
            offsets = find_offsets(self.store, now, tables)
            ids = {table.name: table.table_id for table in tables}
            for one in members:
                if ids.get(one.name) != one.table.table_id or offsets.get(one.name) != one.offset:
                    return f"new rows for {one.name} were read by another process at the same time"
            return None

        return require_none(find_moved)


class _GroupPoll(Generic[Step]):
    """The commits of one poll of one group."""

    def __init__(
        self, source: GroupSource[Step], plan: Callable[[Members], Steps[Step]], spark: Spark
    ) -> None:
        self.reports: dict[str, SourceReport] = {}
        self._source, self._store, self._plan, self._spark = source, source.store, plan, spark
        self._ahead: Steps[Step] | None = None
        self._behind: dict[str, tuple[Relation, int, SourceOffset | None]] = {}

    def close(self) -> None:
        """Let go of what the steps hold open."""
        if self._ahead is not None:
            with suppress(SourceError):
                self._ahead.close()
            self._ahead = None

    def commit_next(self) -> bool:
        """Commit what comes next, False if nothing does. Raises Conflict if another poller was faster."""
        source, version = self._source, self._store.version
        members = source.list_members(version)
        for member in members:
            self.reports.setdefault(member.name, SourceReport(member.name))
        now = {member.name: (member.relation, member.table.table_id, member.offset) for member in members}
        if self._ahead is None or now != self._behind:
            self.close()
            if not members:
                return False
            self._ahead = self._plan(members)
        steps, self._ahead = self._ahead, None
        try:
            step = next(steps, None)
            if step is None:
                return False
            results = source.ingest_step(step, members, version, self._spark)
            self._commit_step(results, members, version)
        except BaseException:
            steps.close()
            raise
        self._ahead = steps
        return True

    def _commit_step(self, results: Mapping[str, StepResult], members: Members, version: Version) -> None:
        """Commit what a step brings to all tables, under the condition that none has moved in the meantime."""
        parts, behind = [], dict[str, tuple[Relation, int, SourceOffset | None]]()
        together: Precondition | None = self._source.require_members(members)
        for member in members:
            table, result = member.table, results.get(member.name)
            if result is None:
                behind[member.name] = (member.relation, table.table_id, member.offset)
                continue
            then = SourceOffset(result.offset, result.note)
            behind[member.name] = (member.relation, table.table_id, then)
            row = Put(build_offset_row(table, "", then))
            system = {**result.system, OFFSETS: [row]}
            intake = Intake(
                system,
                [together, require_unaltered(table), result.precondition],
                result.operations,
                result.files,
                result.letters,
                result.watermarks,
            )
            parts.append((table, intake))
            together = None  # one of the parts asks for all
        committed = commit_intakes(self._store, version, parts)
        self._behind = behind
        for name, result in results.items():
            self._report(name, result, committed.epoch)

    def _report(self, name: str, result: StepResult, epoch: int) -> None:
        warnings = list(result.warnings)
        if result.letters:
            reason = result.letters[0].reason
            warnings.append(f"{result.aside} rows were set aside, see {DEAD_LETTER}: {reason}")
        before = self.reports[name]
        self.reports[name] = replace(
            before,
            rows=before.rows + result.rows,
            dead_rows=before.dead_rows + result.aside,
            late_rows=before.late_rows + result.late,
            epoch=epoch,
        ).add_warnings(warnings)
