"""What a user imports: sessions with SQL in and Arrow out, the storage engine, a source of Spark, and what they raise.

Sessions load Spark, so they are loaded when they are first asked for: `from tideline import Hummock` needs none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from engine.errors import (
    BranchDropped,
    BranchExists,
    BufferFull,
    CheckFailed,
    CommitTimeout,
    CommitUncertain,
    Conflict,
    CorruptObject,
    DuplicateKey,
    EnvironmentNotReady,
    EpochExpired,
    EpochFailed,
    Fenced,
    InvalidRow,
    InvariantViolation,
    KeyTaken,
    LogStoreError,
    PathNotAllowed,
    RowFailed,
    RowsNotKept,
    SinkError,
    SourceError,
    SqlError,
    StorageError,
    StorageFull,
    SubscriptionError,
    TableExists,
    TidelineError,
    Unavailable,
    UnknownStore,
    UnknownTable,
    UnsupportedSql,
    WriteStopped,
    WrongRow,
)
from engine.hummock import Delete, EpochBatch, Hummock, Pin, Put, Table, TableOptions

if TYPE_CHECKING:
    from engine.runtime.reads.datasource import TidelineDataSource
    from engine.session import (
        EpochChanges,
        FlushReport,
        RelationStatus,
        RowHistory,
        RowOrigin,
        Session,
        SinkReport,
        SourceReport,
        Subscriber,
        TableDiff,
        ViewReport,
    )

__all__ = [
    "BranchDropped",
    "BranchExists",
    "BufferFull",
    "CheckFailed",
    "CommitTimeout",
    "CommitUncertain",
    "Conflict",
    "CorruptObject",
    "Delete",
    "DuplicateKey",
    "EnvironmentNotReady",
    "EpochBatch",
    "EpochChanges",
    "EpochExpired",
    "EpochFailed",
    "Fenced",
    "FlushReport",
    "Hummock",
    "InvalidRow",
    "InvariantViolation",
    "KeyTaken",
    "LogStoreError",
    "PathNotAllowed",
    "Pin",
    "Put",
    "RelationStatus",
    "RowFailed",
    "RowHistory",
    "RowOrigin",
    "RowsNotKept",
    "Session",
    "SinkError",
    "SinkReport",
    "SourceError",
    "SourceReport",
    "SqlError",
    "StorageError",
    "StorageFull",
    "Subscriber",
    "SubscriptionError",
    "Table",
    "TableDiff",
    "TableExists",
    "TableOptions",
    "TidelineDataSource",
    "TidelineError",
    "Unavailable",
    "UnknownStore",
    "UnknownTable",
    "UnsupportedSql",
    "ViewReport",
    "WriteStopped",
    "WrongRow",
    "__version__",
]

__version__ = "0.1.0"
_LOADED_LATE = dict.fromkeys(
    (
        *("FlushReport", "RelationStatus", "RowHistory", "RowOrigin", "Session"),
        *("SinkReport", "SourceReport", "TableDiff", "ViewReport"),
        *("EpochChanges", "Subscriber"),
    ),
    "engine.session",
) | {"TidelineDataSource": "engine.runtime.reads.datasource"}


def __getattr__(name: str) -> object:
    if name not in _LOADED_LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_LATE[name]), name)
