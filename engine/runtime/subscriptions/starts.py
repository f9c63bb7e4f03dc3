"""Where somebody begins to follow a table or view: now, as far back as changes are kept, at a moment, or with all rows first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from engine.errors import SqlError
from engine.hummock import TableVersion, Version
from engine.hummock.epoch import epoch_at, format_epoch
from engine.log_store.sink import ReaderPosition
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.creation import find_computed_table
from engine.sql.batch.time_travel import Moment, read_moment
from engine.sql.catalog import Relation

Since = int | str | Moment
"""now, begin, full, the epoch behind which changes are told, or a time from which on they are."""
OPERATION, EPOCH, TIME = "op", "epoch", "epoch_time"
"""The columns that stand beside a changed row."""


@dataclass(frozen=True)
class FollowedTable:
    """A table or materialized view whose changes are read, in one version of the store."""

    version: Version
    relation: Relation
    table: TableVersion

    @property
    def shape(self) -> tuple[tuple[str, str], ...]:
        """Name and type of each column that users see."""
        return tuple((column.name, column.visible_type) for column in self.relation.visible_columns)


def resolve_followed(version: Version, stored: StoredCatalog, name: str) -> FollowedTable:
    """Return a table or materialized view that can be followed; raises SqlError for what cannot."""
    relation = stored.catalog.get(name)
    check_followable(relation)
    table = find_computed_table(version, relation.name)
    if table is None:
        raise SqlError(f"{relation.name} has not been computed yet", hint="run FLUSH, or WAIT FOR it, first")
    return FollowedTable(version, relation, table)


def check_followable(relation: Relation) -> None:
    """Raise SqlError for a relation whose changes are not kept, or cannot be told under the names of its columns."""
    if relation.kind not in ("table", "materialized view"):
        hint = "follow a table or a materialized view; CREATE MATERIALIZED VIEW of it gives one"
        raise SqlError(f"{relation.name} is a {relation.kind} and keeps no changes", hint=hint)
    if relation.kind == "materialized view" and relation.name.startswith("_"):
        hint = "follow the view or the table that it is for"
        raise SqlError(f"{relation.name} is the system's own, and may be gone at any time", hint=hint)
    clashing = [one.name for one in relation.visible_columns if one.name in (OPERATION, EPOCH, TIME)]
    if clashing:
        names = ", ".join(clashing)
        message = f"{relation.name} has a column {names}, which is the name of what is told beside its rows"
        raise SqlError(message, hint="follow a view that calls the column otherwise")


def find_newest(table: TableVersion) -> int:
    """Return the epoch at which a table is now."""
    return max(table.committed_epoch, table.safe_epoch)


def resolve_start(since: Since, followed: FollowedTable, oldest: int, now: float) -> ReaderPosition:
    """Return the place at which somebody begins; `oldest` is that of begin. Raises SqlError for one that is not known."""
    table, word = followed.table, since.strip().lower() if isinstance(since, str) else ""
    if word == "now":
        return ReaderPosition(find_newest(table), False)
    if word == "begin":
        return ReaderPosition(max(oldest, table.safe_epoch), False)
    if word == "full":
        return ReaderPosition(find_newest(table), True)
    after = _find_epoch_before(since if isinstance(since, Moment) else read_moment(str(since)), now)
    if after > max(followed.version.epoch, epoch_at(now)):
        message = f"{format_epoch(after)} lies in the future: the newest epoch is {format_epoch(followed.version.epoch)}"
        raise SqlError(message, hint="SINCE now() begins with the next change")
    if after < table.safe_epoch:
        _refuse_unknown(followed, after)
    return ReaderPosition(after, False)


def _find_epoch_before(moment: Moment, now: float) -> int:
    """Return the epoch behind which changes are told: one that is named, or the last one before a time."""
    if moment.epoch is not None:
        return moment.epoch
    seconds = moment.seconds if moment.ago is None else now - moment.ago
    assert seconds is not None
    return max(epoch_at(seconds) - 1, 0)


def _refuse_unknown(followed: FollowedTable, after: int) -> NoReturn:
    oldest = format_epoch(followed.table.safe_epoch)
    message = f"changes of {followed.relation.name} after {format_epoch(after)} are not kept: they are from {oldest} on"
    raise SqlError(message, hint="SINCE begin() takes all that are kept, FULL the rows as they are first")
