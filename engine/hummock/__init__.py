"""The storage engine: a multi-version, columnar, Hummock-style LSM on plain object storage; usable by itself."""

from engine.hummock.batch import Delete, Put
from engine.hummock.epoch_batch import EpochBatch
from engine.hummock.hash import vnode_of, xxhash64
from engine.hummock.pins import Pin
from engine.hummock.reader import Reader
from engine.hummock.store import Hummock
from engine.hummock.version import (
    Commit,
    Compaction,
    LogEntry,
    SstInfo,
    Table,
    TableOptions,
    TableVersion,
    Version,
    with_new_keys,
    without_new_keys,
)

__all__ = [
    "Commit",
    "Compaction",
    "Delete",
    "EpochBatch",
    "Hummock",
    "LogEntry",
    "Pin",
    "Put",
    "Reader",
    "SstInfo",
    "Table",
    "TableOptions",
    "TableVersion",
    "Version",
    "vnode_of",
    "with_new_keys",
    "without_new_keys",
    "xxhash64",
]
