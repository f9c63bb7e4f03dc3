"""The log of a slot, read: what a stretch of it does to each table of the group, folded to one change a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.connectors.contract.group_source import GroupMember
from engine.connectors.postgres.changes import FoldedChanges
from engine.connectors.postgres.columns import PostgresType, read_types
from engine.connectors.postgres.pgoutput import (
    BeginMessage,
    CommitMessage,
    PublishedRelation,
    TruncateMessage,
    decode_message,
)
from engine.connectors.postgres.positions import SlotPosition, TableOffset, format_lsn
from engine.connectors.postgres.server import PostgresServer
from engine.connectors.postgres.settings import PostgresSettings
from engine.errors import SourceError

_CHANGES_OF_ROWS = frozenset({b"I", b"U", b"D"})
STEP_MESSAGES = 50_000
"""A commit takes further transactions up to so many messages; one transaction may have more."""


@dataclass(frozen=True)
class SlotTable:
    """A table of the group with its settings, and where it stands; `offset` None before its first commit."""

    member: GroupMember
    settings: PostgresSettings
    offset: TableOffset | None

    @property
    def name(self) -> str:
        """The table's name."""
        return self.member.name


@dataclass
class LogChanges:
    """What a stretch of the log does to the tables; `end` is behind its last transaction that is taken, None for none."""

    changes: dict[str, FoldedChanges]
    end: int | None = None
    messages: int = 0

    @property
    def is_full(self) -> bool:
        """Whether reading ended before the log did."""
        return self.messages >= STEP_MESSAGES

    @property
    def has_changes(self) -> bool:
        return any(one.has_changes for one in self.changes.values())


def read_log(
    server: PostgresServer,
    known: Sequence[SlotTable],
    after: SlotPosition,
    upto: SlotPosition | None = None,
) -> LogChanges:
    """Fold the transactions behind a position; with `upto` only those that another one has taken."""
    by_path: dict[tuple[str, str], list[FoldedChanges]] = {}
    read = LogChanges({})
    for one in known:
        folded = FoldedChanges(one.member.relation, one.settings.path)
        read.changes[one.name] = folded
        by_path.setdefault((one.settings.schema, one.settings.table), []).append(folded)
    followed: dict[int, list[FoldedChanges]] = {}
    undescribed: dict[int, PublishedRelation] = {}  # which the first change that is taken needs
    types = _TypeNames(server)
    most = STEP_MESSAGES if upto is None else None
    taken = False
    for data in server.stream_changes(list_publications(known), most):
        read.messages += 1
        if data[:1] in _CHANGES_OF_ROWS:
            oid = int.from_bytes(data[1:5], "big")
            published = undescribed.pop(oid, None) if taken else None
            for folded in followed[oid] if taken else ():
                if published is not None:
                    folded.describe(published, types)
                folded.add(data)
            continue
        match decode_message(data):
            case BeginMessage(commit_lsn, xid):
                taken = not after.has_taken(xid, commit_lsn)
                taken = taken and (upto is None or upto.has_taken(xid, commit_lsn))
            case CommitMessage(_, end_lsn):
                read.end = max(read.end or 0, end_lsn)
            case PublishedRelation() as described:
                followed[described.oid] = by_path.get((described.schema, described.name), [])
                undescribed[described.oid] = described
            case TruncateMessage(oids) if taken:
                for oid in oids:
                    for folded in followed.get(oid, ()):
                        folded.empty()
    place = f"up to {format_lsn(read.end or after.lsn)}"
    for folded in read.changes.values():
        folded.place = place
    return read


class _TypeNames:
    """The types of columns by their numbers, asked over a second connection as the other one is streaming."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._known: dict[int, PostgresType] = {}

    def find_types(self, oids: Sequence[int]) -> Mapping[int, PostgresType]:
        """Return what is known of types."""
        lacking = [oid for oid in oids if oid not in self._known]
        if lacking:
            self._known |= read_types(self._server.open_second(), lacking)
        return self._known

    def is_partitioned(self, oid: int) -> bool:
        """Tell whether a table has partitions, each of which has a replica identity of its own."""
        rows = self._server.open_second().query(
            "SELECT FROM pg_catalog.pg_class WHERE oid = %s::oid AND relkind = 'p'", oid
        )
        return bool(rows)


def list_publications(followed: Sequence[SlotTable]) -> list[str]:
    """Return the publications of some tables, each once."""
    return list(dict.fromkeys(one.settings.publication for one in followed))


def move_offsets(
    known: Sequence[SlotTable],
    before: Mapping[str, TableOffset],
    read: LogChanges,
    position: SlotPosition,
) -> tuple[dict[str, TableOffset], dict[str, list[str]]]:
    """Return the offsets behind what was read, and what is to be said of new columns; raises SourceError for another table."""
    offsets, warnings = dict[str, TableOffset](), dict[str, list[str]]()
    for one in known:
        offset, folded = before[one.name], read.changes.get(one.name)
        left = offset.left
        if folded is not None and folded.reader is not None:
            if offset.oid and folded.oid != offset.oid:
                raise SourceError(
                    f"table {one.name}: {one.settings.path} was dropped and created again: ALTER TABLE "
                    f"{one.name} RESYNC writes the "
                    "difference"
                )
            left = folded.reader.left
            new = [name for name in left if name not in offset.left]
            if new:
                warnings[one.name] = [f"columns that the table lacks were left out: {', '.join(new)}"]
        offsets[one.name] = TableOffset(position, offset.oid, left)
    return offsets, warnings
