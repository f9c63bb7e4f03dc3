"""The source of PostgreSQL: all tables of one slot are brought to the same place in the log in each commit.

The slot is made first, then the tables are read in one snapshot. Transactions that the snapshot sees are left out when the log is
read, so each commit is the state of all tables at one moment. The slot goes on only to what is committed in the store.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.connectors.contract.connector import (
    PendingSplit,
    Source,
    SourceReport,
    Spark,
    no_spark,
    source_options,
)
from engine.connectors.contract.group_source import GroupSource, Members, Steps
from engine.connectors.contract.offset_source import StepResult
from engine.connectors.postgres.changes import FoldedChanges
from engine.connectors.postgres.columns import (
    FollowingTable,
    PostgresTable,
    find_problem,
    read_table,
)
from engine.connectors.postgres.kept_servers import lend_server
from engine.connectors.postgres.log_reader import (
    LogChanges,
    SlotTable,
    move_offsets,
    read_log,
)
from engine.connectors.postgres.looks import look_for_changes
from engine.connectors.postgres.positions import (
    SeenTransactions,
    SlotPosition,
    TableOffset,
    decode_offset,
    encode_offset,
    format_lsn,
)
from engine.connectors.postgres.server import (
    LOOK_MESSAGES,
    PLUGIN,
    PostgresServer,
    SlotState,
    call_patiently,
)
from engine.connectors.postgres.settings import (
    CONNECTOR,
    parse_settings,
    read_settings,
    validate_options,
)
from engine.connectors.postgres.writes import WholeTable, write_changes
from engine.errors import Conflict, SourceError
from engine.hummock import Hummock, Version
from engine.sql.catalog import Relation

IDLE_BYTES = 16 << 20
"""So much log that changes no table of the group the slot holds back before it goes on."""
TOLD_BYTES = 256 << 20
"""From so much log on that a slot holds back it is told."""
FLUSH_SECONDS = 2.0


@dataclass(frozen=True)
class PostgresStep:
    """What one commit takes: folded changes up to a position; tables `whole` are read in the snapshot that `server` holds."""

    position: SlotPosition
    offsets: Mapping[str, TableOffset]
    changes: Mapping[str, FoldedChanges] = field(default_factory=dict)
    warnings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    whole: Mapping[str, PostgresTable] = field(default_factory=dict)
    server: PostgresServer | None = None
    note: str = ""


class PostgresGroup(GroupSource[PostgresStep]):
    """The tables of one slot."""

    connector = CONNECTOR

    def is_member(self, relation: Relation) -> bool:
        """Tell whether a table has the slot of this group."""
        return find_group(relation) == self.group

    def list_pending(self) -> Sequence[PendingSplit]:
        """Return whether the log has changes behind the position; one query unless the log has grown."""
        followed = self._follow(self.list_members(self.store.version))
        if not followed:
            return ()
        fresh = [one.name for one in followed if one.offset is None]
        if fresh:
            return (PendingSplit("", f"snapshot of {', '.join(fresh)}"),)
        try:
            position = self._find_position(followed)
            found = look_for_changes(self.store, [one.settings for one in followed], position.lsn, IDLE_BYTES)
        except SourceError as error:
            found = str(error)  # the poll tells it
        return () if found is None else (PendingSplit("", found),)

    def plan_steps(self, members: Members) -> Steps[PostgresStep]:
        """Yield the transactions up to the end of the log, and a snapshot of the tables that have none yet."""
        followed = self._follow(members)
        with lend_server(self.store, followed[0].settings) as server:
            known = [one for one in followed if one.offset is not None]
            position = None
            if known:
                position = self._find_position(known)
                self._check_slot(server, server.read_slot(), position, known)
                _require_published(server, known)
                server.advance_slot(position.lsn)
                position, offsets = yield from self._plan_changes(server, known, position)
                known = [replace(one, offset=offsets[one.name]) for one in known]
            if len(known) < len(followed):
                yield from self._plan_snapshot(server, followed, known, position)

    def plan_resync(self, members: Members) -> Steps[PostgresStep]:
        """Yield one step that reads all tables of the group anew, by a slot that is made again if it was lost."""
        followed = self._follow(members)
        with PostgresServer(followed[0].settings) as server:
            slot = server.read_slot()
            if slot is not None and slot.is_lost and slot.plugin == PLUGIN:
                server.drop_slot()
            yield from self._plan_snapshot(server, followed, [], None)

    def ingest_step(
        self, step: PostgresStep, members: Members, version: Version, spark: Spark
    ) -> Mapping[str, StepResult]:
        """Return what a step writes to each table."""
        results: dict[str, StepResult] = {}
        for member in (member for member in members if member.name in step.offsets):
            offset, name = step.offsets[member.name], member.name
            warnings = list(step.warnings.get(name, ()))
            result = StepResult("")
            if name in step.whole:
                assert step.server is not None
                server = step.server.narrow(read_settings(member.relation))
                there = step.whole[name]
                place = f"snapshot at {format_lsn(step.position.lsn)}"
                whole = WholeTable(self.store, member, server, there, place)
                result = whole.write(version, spark)
                offset = TableOffset(step.position, there.oid, whole.left)
            elif name in step.changes:
                result = write_changes(self.store, member, step.changes[name], version, spark)
            text = encode_offset(offset)
            results[name] = replace(
                result, offset=text, note=step.note, warnings=[*result.warnings, *warnings]
            )
        return results

    def resync(self, spark: Spark) -> list[SourceReport]:
        """Write the difference between all tables of the group and one snapshot of PostgreSQL."""
        return self.commit_steps(spark, self.plan_resync)

    def _follow(self, members: Members) -> list[SlotTable]:
        found = []
        for member in members:
            offset = None if member.offset is None else decode_offset(member.offset.text)
            found.append(SlotTable(member, read_settings(member.relation), offset))
        return found

    def _find_position(self, followed: Sequence[SlotTable]) -> SlotPosition:
        """Return where all tables stand; raises SourceError if they do not stand at one place."""
        places = {one.name: one.offset.position for one in followed if one.offset is not None}
        first = next(iter(places))
        for name, position in places.items():
            if position != places[first]:
                raise SourceError(
                    f"tables {first} and {name} of the slot {followed[0].settings.slot} do not stand at one "
                    "place of the log: "
                    f"ALTER TABLE {first} RESYNC brings all tables of the slot to one"
                )
        return places[first]

    def _check_slot(
        self,
        server: PostgresServer,
        slot: SlotState | None,
        position: SlotPosition,
        known: Sequence[SlotTable],
    ) -> SlotState:
        """Return the slot; raises SourceError if it does not go on from where the tables stand."""
        settings, first = server.settings, known[0].name
        what = f"the slot {settings.slot} of {settings.address}"
        names = ", ".join(one.name for one in known)
        remedy = f"ALTER TABLE {first} RESYNC writes the difference to the tables of the slot ({names})"
        if slot is None:
            raise SourceError(
                f"table {first}: {what} is gone: it was dropped, or the server was restored or replaced: "
                f"{remedy}, and makes the slot"
            )
        if slot.plugin != PLUGIN or slot.database != settings.database:
            raise SourceError(
                f"table {first}: {what} was made again, with the plugin {slot.plugin or 'of no logical slot'} "
                "in the database "
                f"{slot.database or 'of none'}: drop it (SELECT pg_drop_replication_slot('{settings.slot}')); "
                f"{remedy}"
            )
        if slot.is_lost or slot.confirmed is None:
            raise SourceError(
                f"table {first}: {what} is lost: the server has removed log that was not read yet "
                f"(max_slot_wal_keep_size): {remedy}"
            )
        if slot.flushed < position.lsn:
            raise SourceError(
                f"table {first}: the log of {settings.address} ends at {format_lsn(slot.flushed)}, before "
                f"{format_lsn(position.lsn)}, "
                f"which was read: the server was restored from an earlier time: {remedy}"
            )
        if slot.confirmed > position.lsn:
            self._require_latest(known)
            raise SourceError(
                f"table {first}: {what} is at {format_lsn(slot.confirmed)}, ahead of "
                f"{format_lsn(position.lsn)}, where the tables "
                f"stand: something else has read it, or the store was restored: {remedy}"
            )
        return slot

    def _require_latest(self, known: Sequence[SlotTable]) -> None:
        """Raise Conflict if another process has moved the tables since they were looked at."""
        now = {member.name: member.offset for member in self.list_members(self.store.refresh())}
        if any(now.get(one.name) != one.member.offset for one in known):
            raise Conflict(f"the slot {known[0].settings.slot} was read by another process at the same time")

    def _plan_changes(
        self,
        server: PostgresServer,
        known: Sequence[SlotTable],
        position: SlotPosition,
    ) -> Generator[PostgresStep, None, tuple[SlotPosition, dict[str, TableOffset]]]:
        """Yield steps up to what the log holds now; returns where they lead."""
        offsets = {one.name: one.offset for one in known if one.offset is not None}
        while True:
            slot = self._check_slot(server, server.read_slot(), position, known)
            is_idle = slot.written - (slot.confirmed or 0) > IDLE_BYTES
            is_idle = is_idle and server.wait_for_flush(slot.written, FLUSH_SECONDS)
            at = position
            read = call_patiently(server, lambda: read_log(server, known, at))  # noqa: B023
            note = _describe_held(slot)
            moves = read.has_changes or read.messages >= LOOK_MESSAGES or position.seen is not None
            if read.end is not None and moves:
                position = position.move_to(read.end)
            elif is_idle:
                position = position.move_to(slot.written)
            else:
                return position, offsets
            offsets, warnings = move_offsets(known, offsets, read, position)
            changes = {name: one for name, one in read.changes.items() if one.has_changes}
            yield PostgresStep(position, {**offsets}, changes, warnings, note=note)
            server.advance_slot(position.lsn)
            if not read.is_full:
                return position, offsets

    def _plan_snapshot(
        self,
        server: PostgresServer,
        followed: Sequence[SlotTable],
        known: Sequence[SlotTable],
        position: SlotPosition | None,
    ) -> Steps[PostgresStep]:
        """Yield the step that reads the tables without a position in one snapshot, and brings the others to it."""
        settings = server.settings
        slot = server.ensure_slot()
        if slot.is_lost or slot.confirmed is None or slot.plugin != PLUGIN:
            raise SourceError(
                f"table {followed[0].name}: the slot {settings.slot} of {settings.address} is lost, or of "
                "another plugin: SELECT "
                f"pg_drop_replication_slot('{settings.slot}') there, and poll again"
            )
        # log before it may be of a time without the publication, and the snapshot sees all that it commits
        begin = max(server.flush_log(), slot.confirmed)
        server.wait_for_commits()
        with PostgresServer(settings) as reader:
            names = {one.name for one in known}
            fresh = [one for one in followed if one.name not in names]
            for one in fresh:
                _read_checked(reader.narrow(one.settings), one)
            text, place = reader.open_snapshot([one.settings.sql_name for one in fresh])
            seen = SeenTransactions(text, place)
            then = SlotPosition(begin, seen)
            whole = {one.name: _read_checked(reader.narrow(one.settings), one) for one in fresh}
            offsets = {
                one.name: TableOffset(then, whole[one.name].oid) for one in followed if one.name in whole
            }
            read, warnings = LogChanges({}), dict[str, list[str]]()
            if known and position is not None:
                server.flush_log()
                read = call_patiently(server, lambda: read_log(server, known, position, then))
                before = {one.name: one.offset for one in known if one.offset is not None}
                moved, warnings = move_offsets(known, before, read, then)
                offsets |= moved
            changes = {name: one for name, one in read.changes.items() if one.has_changes}
            yield PostgresStep(then, offsets, changes, warnings, whole, reader, _describe_held(slot))
            reader.close_snapshot()
        server.advance_slot(then.lsn)


class PostgresSource(Source):
    """What feeds one table: its group, of which it moves all tables."""

    def __init__(self, store: Hummock, relation: Relation) -> None:
        self.relation = relation
        self.group = PostgresGroup(store, read_settings(relation).group)

    def list_pending(self) -> Sequence[PendingSplit]:
        """Return whether there is something for the group."""
        return self.group.list_pending()

    def poll(self, spark: Spark = no_spark) -> SourceReport:
        """Take all that there is for the group; returns the report of this table."""
        self.group.store.refresh()
        return self._pick(self.group.poll(spark))

    def resync(self, spark: Spark) -> SourceReport:
        """Write the difference for all tables of the group; returns the report of this table."""
        reports = self.group.resync(spark)
        others = [
            f"{one.table}, of the same slot: {one.rows} rows"
            for one in reports
            if one.table != self.relation.name
        ]
        return self._pick(reports).add_warnings(others)

    def _pick(self, reports: Sequence[SourceReport]) -> SourceReport:
        for report in reports:
            if report.table == self.relation.name:
                return report
        raise SourceError(f"table {self.relation.name} was dropped while its source was polled")


def find_group(relation: Relation) -> str:
    """Return the group of a table, "" for options that name none."""
    options = source_options(relation)
    return "" if validate_options(options) is not None else parse_settings(options).group


def _require_published(server: PostgresServer, known: Sequence[SlotTable]) -> None:
    """Raise SourceError for a table that its publication does not tell as a whole any more: changes may be lost."""
    faults = server.find_unpublished([one.settings for one in known])
    for one in known:
        fault = faults.get(one.settings)
        if fault is not None:
            raise SourceError(
                f"table {one.name}: the publication {one.settings.publication} {fault.what}, and changes since then "
                f"are not told: {fault.remedy} there, then ALTER TABLE {one.name} RESYNC here"
            )


def _read_checked(server: PostgresServer, one: SlotTable) -> PostgresTable:
    """Return a table of PostgreSQL; raises SourceError if it cannot be followed any more."""
    relation = one.member.relation
    key = tuple(c.name for c in relation.columns if c.storage_name in relation.primary_key)
    problem = find_problem(server, FollowingTable(relation.name, relation.visible_columns, key))
    there = read_table(server)
    if problem is not None or there is None:
        why = "its table is gone" if problem is None else f"{problem.message}: {problem.hint}"
        raise SourceError(f"table {relation.name}: {why}")
    return there


def _describe_held(slot: SlotState) -> str:
    if slot.held_bytes < TOLD_BYTES:
        return ""
    return (
        f"the slot holds back {slot.held_bytes >> 20:,} MiB of the server's log: a transaction that began "
        "long ago keeps it, or the "
        "tables are behind"
    )
