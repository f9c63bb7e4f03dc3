"""The contract of connectors that take rows out: what a target is handed, what it says of it, and what CREATE SINK asks.

A sink is handed *ranges* of its view's log, each a net change, until it is acknowledged; where it stands is in the manifest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pyspark.sql import SparkSession

from engine.hummock import Commit, Hummock, TableVersion
from engine.hummock.object_store import ObjectStore
from engine.log_store.changes import Changes
from engine.log_store.sink import LogRange, VnodeGroup
from engine.meta.status.sinks import PromisedRange
from engine.sql.catalog import Relation
from engine.sql.statements.ddl.sink_statements import CreateSink


@dataclass(frozen=True)
class DeliveryResult:
    """What one range brought; `commit` is to be part of the commit that acknowledges the range.

    `note` is what the target wants kept with the acknowledgement, for the ranges that follow.
    """

    rows: int
    files: int = 0
    bytes: int = 0
    commit: Commit = field(default_factory=Commit)
    note: str = ""


@dataclass(frozen=True)
class SinkBatch:
    """A range of one reader on its way to a target: its `changes`, and the table's version in which they are.

    `promise` is the one that the range fulfils, of targets that ask for promises; `note` what the target has noted last.
    """

    log_range: LogRange
    group: VnodeGroup
    table: TableVersion
    changes: Iterator[Changes]
    promise: PromisedRange | None = None
    note: str = ""


class SinkTarget(Protocol):
    """Takes ranges of one reader in their order.

    `each_epoch`: a range is one epoch; else a range is all that waits. Taking a range again does no harm, or it takes effect by
    the commit that acknowledges it alone. `promises`: the target commits by itself, and so that a range is the same whoever
    delivers it, its bounds are committed before it is taken. `start` is the beginning of the sink whose ranges it takes.
    """

    each_epoch: bool
    promises: bool
    start: int

    def take(self, portion: SinkBatch) -> DeliveryResult:
        """Take the changes of a range."""


@dataclass(frozen=True)
class TargetContext:
    """What a target is opened with: the sink, the beginning whose ranges it takes, and how it reaches what is outside."""

    store: Hummock
    relation: Relation
    start: int
    spark: Callable[[], SparkSession]
    objects: Callable[[str], ObjectStore]


class SinkConnector(ABC):
    """One kind of target: its name in `WITH (connector = …)`, its options beside those of all sinks, and the checks of CREATE.

    `options` says what each option means, `title` heads them in the reference. `each_epoch` and `promises` are those of its
    targets. `alone`: no two sinks of a store may have the same address, of which `place` is the option.
    """

    name: str
    options: Mapping[str, str]
    title: str
    each_epoch: bool = False
    alone: bool = False
    place: str = "table"

    @abstractmethod
    def resolve_options(self, statement: CreateSink) -> dict[str, str]:
        """Return its options as the catalog keeps them; raises SqlError with the place of one that does not fit."""

    def prepare(
        self, store_url: str, relation: Relation, statement: CreateSink, spark: Callable[[], SparkSession]
    ) -> Relation:
        """Return a new sink with what else the catalog is to keep of it; raises SqlError for what the target cannot take."""
        return relation

    @abstractmethod
    def open_target(self, opening: TargetContext) -> SinkTarget:
        """Open what takes the ranges of a sink; raises an error where it cannot be reached."""

    def close_target(self, target: SinkTarget) -> None:
        """Release what a target holds open from one range to the next, as connections; it takes no range any more."""
        return  # most hold nothing

    def forget(self, relation: Relation, start: int) -> str:
        """Let the target of a sink that was dropped forget where it was; return what somebody has to do, "" for nothing.

        `start` is the beginning that it had.
        """
        return ""
