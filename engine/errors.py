"""Every error that Tideline raises on purpose; a message says what was wrong, where, and what to do now."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from engine.excerpts import show_place


class TidelineError(Exception):
    """The root of the hierarchy: catch it to catch all that Tideline raises on purpose."""


class StorageError(TidelineError):
    """The store could not do what was asked."""


class UnknownStore(StorageError):
    """There is no store at an address."""


class BranchDropped(UnknownStore):
    """A branch was dropped while it was open, or its drop is under way: nothing can be written to it any more."""


class BranchExists(StorageError):
    """A branch of that name exists already."""


class UnknownTable(StorageError):
    """No table of that name exists in the store."""


class TableExists(StorageError):
    """A table of that name exists already."""


class EpochExpired(StorageError):
    """The epoch asked for lies below what the store retains."""


class RowsNotKept(EpochExpired):
    """The rows of a table that passes its changes on are not in the store."""


class Fenced(StorageError):
    """A newer writer generation has taken over, or has committed this epoch already."""


class Conflict(StorageError):
    """What a commit was based on changed before it was made; read again and retry."""


class GroundLost(Conflict):
    """A commit on its way was refused, and what was made over it goes with it; begin anew over the store as it is."""


class CommitTimeout(StorageError):
    """A commit lost every race until its deadline."""


class CommitUncertain(StorageError):
    """The store stopped answering during a commit: it is there as a whole or not at all, and reading tells which."""


class Unavailable(StorageError):
    """The object store did not answer, or asked to be asked later; the same request may succeed soon."""


class StorageFull(StorageError):
    """There is no room where something was to be written; nothing of it is there."""


class BufferFull(StorageError):
    """A writer is ahead of the object store by more than the shared buffer may hold, for longer than it may wait."""


class WriteStopped(StorageError):
    """A table has more runs than reads should merge: writers wait for a compaction. `table` names it."""

    def __init__(self, table: str, message: str) -> None:
        super().__init__(message)
        self.table = table


class InvariantViolation(StorageError):
    """A commit would break an invariant of the store; nothing was committed."""


class CorruptObject(StorageError):
    """An object of the store does not hold what its manifest says."""


class ClaimBroken(TidelineError):
    """Work was left out on a claim that the data do not bear out; `claim` is its name, `detail` what was found instead.

    Always a fault of Tideline, never of its input. Found before a commit, nothing of that commit is visible.
    """

    def __init__(self, claim: str, detail: str) -> None:
        super().__init__(claim, detail)
        self.claim, self.detail = claim, detail

    def __str__(self) -> str:
        return f'the assumption "{self.claim}" is false: {self.detail}'


class DuplicateKey(TidelineError):
    """A row's key exists already, or occurs twice in one batch."""


class InvalidRow(TidelineError):
    """A row does not fit its table: missing key, wrong type, or a null where none may be."""


class EnvironmentNotReady(TidelineError):
    """Something the machine must offer is missing: Java, a jar, or a package."""


class EpochFailed(TidelineError):
    """A view could not be brought to its epoch; its content is unchanged."""


class RowFailed(EpochFailed):
    """A row made an epoch fail: an expression that cannot be computed on it, or a check that it breaks.

    `reason` says why, without telling where. `view` is the one whose epoch it was, once that is known. `row` is the one on which
    it failed, if somebody has asked; asking takes time, and `search`, where there is one, does it. `checks` as of CheckFailed.
    """

    view: str | None = None
    row: Any = None
    search: RowSearch | None = None
    checks: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class CheckFailed(EpochFailed):
    """A check of a view fails on what an epoch would commit; `checks` tells by view how all of its checks came out.

    `partitions` tells by view what fails in which of its partitions, where leaving those behind is enough for all of it.
    """

    def __init__(
        self,
        message: str,
        checks: Mapping[str, Any],
        partitions: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.checks, self.partitions = checks, partitions


class RowSearch(Protocol):
    """Finds the row on which an epoch failed, and tells the failure with it."""

    def build_error(self, row: Any) -> RowFailed:
        """Return the failure with a row that is known to be the one, None: without any."""

    def find(self, remembered: Any, seconds: float) -> RowFailed:
        """Return the failure with its row, if one alone fails; first `remembered` is tried, the one of the last time."""


class SourceError(TidelineError):
    """A source could not be read."""


class PathNotAllowed(TidelineError):
    """A path of a source or a sink leads out of the places that the project may reach."""


class SinkError(TidelineError):
    """A sink could not take rows, or cannot go on."""


class SubscriptionError(TidelineError):
    """A subscription, or who follows a view, cannot go on from where it stands."""


class LogStoreError(TidelineError):
    """A log store was used out of order."""


class SqlError(TidelineError):
    """A statement was refused; the message shows the place with a caret, without passwords, and says what to write instead."""

    def __init__(
        self, message: str, *, sql: str = "", line: int = 0, column: int = 0, hint: str = ""
    ) -> None:
        self.message, self.line, self.column, self.hint, self.sql = message, line, column, hint, sql
        text = message
        if line:
            text += f"\n  line {line}, column {column}:\n    {show_place(sql, line, column)}"
        if hint:
            text += f"\n  {hint}"
        super().__init__(text)


class UnsupportedSql(SqlError):
    """The statement is understood, but cannot be kept up to date incrementally, or is not offered."""


class WrongRow(SqlError, InvalidRow):
    """A row that a statement writes does not fit its table; the message shows its place."""


class KeyTaken(SqlError, DuplicateKey):
    """A row that a statement inserts has a key that exists already, or that occurs twice; the message shows the statement."""
