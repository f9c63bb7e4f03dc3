"""The changes of a table or view, epoch by epoch, from a place on; what they are is what sinks of files get."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from engine.arrow import Column
from engine.errors import StorageError, SubscriptionError
from engine.hummock import Hummock
from engine.log_store.changes import Changes
from engine.log_store.sink import ALL_VNODES, LogRange, ReaderPosition, list_ranges_from, read_changes
from engine.runtime.subscriptions.holds import Hold, build_expiry_error
from engine.runtime.subscriptions.starts import OPERATION, FollowedTable
from engine.sql.catalog import Relation
from engine.sql.typing.types import to_arrow


@dataclass(frozen=True)
class EpochReading:
    """The changes of one epoch, or all rows at it (`snapshot`), in parts of bounded size.

    `after` is the epoch up to which everything came before. Rows have the columns that users see, and `op`.
    """

    epoch: int
    after: int
    snapshot: bool
    schema: pa.Schema
    parts: Iterator[pa.Table]

    @property
    def start(self) -> ReaderPosition:
        """The place from which it is read again."""
        return ReaderPosition(self.epoch, True) if self.snapshot else ReaderPosition(self.after, False)


class ChangeFeed:
    """Reads the changes of what a hold keeps, from a place on; it alone says where it is, and the hold what is acknowledged."""

    def __init__(self, store: Hummock, hold: Hold, followed: FollowedTable, place: ReaderPosition) -> None:
        self.place = place
        self._store, self.hold, self._followed = store, hold, followed
        self._shape = followed.shape
        self._ranges: Iterator[LogRange] = iter(())

    @property
    def schema(self) -> pa.Schema:
        """The columns of the changes."""
        return build_change_schema(self._followed.relation)

    @property
    def followed(self) -> FollowedTable:
        """What is followed, as it was when it was looked at for the last time."""
        return self._followed

    def read_next(self) -> EpochReading | None:
        """Return the changes of the next epoch that has any, None where there is nothing more by now.

        Raises SubscriptionError if it cannot go on: what it follows is gone or has other columns, or changes are not kept.
        """
        while True:
            part = next(self._ranges, None)
            if part is None:
                if not self._look():
                    return None
                continue
            changes = self._read(part)
            try:
                first = next((one for one in changes if len(one)), None)
            except BaseException:
                self.rewind(self.place)
                raise
            self.place = ReaderPosition(part.upto, False)
            if first is not None:
                parts = (self._show(one) for one in itertools.chain([first], changes) if len(one))
                return EpochReading(part.upto, part.after, part.snapshot, self.schema, parts)

    def rewind(self, place: ReaderPosition) -> None:
        """Let the next reading begin at a place."""
        self.place, self._ranges = place, iter(())

    def _look(self) -> bool:
        """Find what has come since; tells whether there is anything."""
        followed = self.hold.find(self._store.refresh())
        self._followed = followed
        if followed.shape != self._shape:
            raise SubscriptionError(
                f"the columns of {followed.relation.name} are others since it is followed: {_list_names(self._shape)} became "
                f"{_list_names(followed.shape)}; follow it again, or DECLARE the cursor again, to have them"
            )
        table = followed.table
        self._require_kept()
        if not self.place.snapshot and table.find_first_change(self.place.epoch) is None:
            return False
        self._ranges = list_ranges_from(table, self.place, each_epoch=True)
        return True

    def _require_kept(self) -> None:
        """Raise SubscriptionError if the changes after the place are not kept any more."""
        table = self._followed.table
        if self.place.epoch < table.safe_epoch:
            raise build_expiry_error(table.name, self.place.epoch, table)

    def _read(self, part: LogRange) -> Iterator[Changes]:
        """Yield the changes of a range; where its files are gone, the error says why."""
        followed = self._followed
        columns = followed.relation.visible_storage_names
        try:
            yield from read_changes(self._store.reader, followed.table, part, columns, ALL_VNODES.hash_range)
        except StorageError:
            now = self.hold.find(self._store.refresh())
            if part.upto <= now.table.safe_epoch:
                raise build_expiry_error(now.table.name, part.after, now.table) from None
            raise

    def _show(self, changes: Changes) -> pa.Table:
        words, rows = changes.split_updates()
        columns: list[Column] = [*rows.columns, words]
        return pa.Table.from_arrays(columns, schema=self.schema)


def build_change_schema(relation: Relation) -> pa.Schema:
    """Return the columns of changes: those that users see, and `op`."""
    fields = [pa.field(column.name, to_arrow(column.type)) for column in relation.visible_columns]
    return pa.schema([*fields, pa.field(OPERATION, pa.string(), nullable=False)])


def _list_names(shape: tuple[tuple[str, str], ...]) -> str:
    return "(" + ", ".join(f"{name} {kind}" for name, kind in shape) + ")"
