"""The contract of connectors that feed tables: what a source gives, and what a connector says of its options.

A source has *splits* (files, a log, a generator). Where it stands in each is an *offset*, which is written in the commit of the
rows that it stands behind: whoever comes next goes on from there, so each row comes once. A source begins with what there is (a
*snapshot*) and goes on with *changes*: rows that come, and rows that go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from engine.connectors.contract.discovery import FoundTable
from engine.errors import SourceError
from engine.hummock import Hummock, Version
from engine.hummock.version import Run
from engine.runtime.writes.watermarks import OPTIONS as WATERMARK_OPTIONS
from engine.sql.catalog import ROWS_LIVE, Relation
from engine.sql.statements.statement_types import CreateTable

Spark = Callable[[], SparkSession]
"""Gives the session that reads for a source; asked only by those that read by Spark."""
Elsewhere = Callable[[], SparkSession | None]
"""Gives that session if its tasks run elsewhere than in this process, None if they run here."""
MOST_WARNINGS = 1_000


def no_spark() -> SparkSession:
    """Stand for a Spark that is not there; raises SourceError."""
    raise SourceError("this source is read by Spark, and none was given to poll")


class StatementProblem(NamedTuple):
    """What is wrong with a statement, and what to write instead; `option` is where, "" for the connector as such."""

    option: str
    message: str
    hint: str


class PendingSplit(NamedTuple):
    """A split of which something can be taken; `then` is a text that stays the same until it is."""

    split: str
    token: str


@dataclass(frozen=True)
class SourceReport:
    """What one poll of one source did; `epoch` is that of its last commit, None if there was nothing to commit.

    `driver_bytes` of rows, and of tasks' answers, have passed through the process that polls.
    """

    table: str
    files: int = 0
    rows: int = 0
    dead_rows: int = 0
    late_rows: int = 0
    seconds: float = 0.0
    driver_bytes: int = 0
    epoch: int | None = None
    warnings: tuple[str, ...] = ()
    error: str | None = None

    def add_warnings(self, warnings: Iterable[str]) -> SourceReport:
        """Return the report with further warnings, each once."""
        return replace(self, warnings=tuple(dict.fromkeys([*self.warnings, *warnings]))[:MOST_WARNINGS])


class Source(ABC):
    """What feeds one table.

    It may be polled by several processes at once, and any of them may die at any moment: rows and offsets are one commit, which
    stands only if the offsets are those that were read (`offset_source.py`, `commits.py`).
    """

    @abstractmethod
    def list_pending(self) -> Sequence[PendingSplit]:
        """Return the splits that have something to take; cheap, as it is asked several times a second, and by no Spark."""

    @abstractmethod
    def poll(self, spark: Spark = no_spark) -> SourceReport:
        """Take all that there is; raises SourceError for what stops it. Rows that do not fit are set aside and stop nothing."""

    def read_rows_at(self, version: Version, epoch: int, session: SparkSession) -> pa.Table | DataFrame:
        """Return all rows as they were taken up to an epoch; only of connectors that say how they `passes`."""
        raise SourceError("this source cannot repeat rows that it has delivered")

    def write_runs_at(self, version: Version, epoch: int, spark: Spark) -> tuple[Run, ...]:
        """Write the same rows as files of the store, newest first."""
        raise SourceError("this source cannot repeat rows that it has delivered")

    def resync(self, spark: Spark) -> SourceReport:
        """Write the difference between the table and all that the source holds now; only of connectors that say `resyncs`."""
        raise SourceError("this source cannot repeat all its rows")


class SourceGroup(ABC):
    """What feeds several tables in one order: all of them stand at the same position, which each commit moves for all."""

    @abstractmethod
    def list_pending(self) -> Sequence[PendingSplit]:
        """Return what there is to take for any of the tables; as cheap as that of a source."""

    @abstractmethod
    def poll(self, spark: Spark = no_spark) -> Sequence[SourceReport]:
        """Take all that there is, for all tables in the same commits; returns a report a table."""


class Connector(ABC):
    """One kind of source: its name in `WITH (connector = …)`, its options, and the checks of CREATE.

    `options` says what each option means; `statement` shows one in use, `page` is the page that tells more. With
    `discovers_columns`
    a table may list nothing but its key, with `resyncs` ALTER TABLE … RESYNC is offered. CREATE SOURCE is where it `passes` rows
    on without keeping them: "rows" that only come, or "changes" of which each tells the old row as well.
    `schemes` are those of addresses at which tables are discovered, "file" for what has none.
    """

    name: str
    options: Mapping[str, str]
    statement: str
    page: str = ""
    discovers_columns: bool = False
    can_resync: bool = False
    pass_through: Literal["", "rows", "changes"] = ""
    schemes: tuple[str, ...] = ()

    def discover_tables(self, place: str, options: Mapping[str, str]) -> Iterable[FoundTable]:
        """Return what tables could follow at an address of one of the `schemes`; raises SourceError, writes nothing.

        `options` are those of WITH that the address leaves open, by names in lower case.
        """
        return ()

    def validate(self, statement: CreateTable) -> StatementProblem | None:
        """Return what is wrong with a statement whose options are known ones, None if nothing is."""
        return None

    def resolve_columns(self, statement: CreateTable) -> CreateTable:
        """Return the statement with its columns held against those of the source; raises SqlError with the place."""
        return statement

    def check_reading(self, statement: CreateTable, spark: Spark) -> None:
        """Raise SourceError if those who will read the source cannot; asked once, before the table is made."""
        return None

    def check_executors(self, statement: CreateTable, elsewhere: Elsewhere) -> None:
        """Raise SourceError if tasks that run on other machines do not see a source of this one; asked once, as the one above."""
        return None

    def give_advice(self, statement: CreateTable) -> str:
        """Return what is to be known of a table that was made and works, though it costs more than it has to; "" for nothing."""
        return ""

    def build_companion(self, relation: Relation) -> Relation | None:
        """Return the table of the system that is made, and dropped, with a new table of this connector, None if there is none."""
        return None

    def find_group(self, relation: Relation) -> str:
        """Return what a table shares with those that are to be committed together with it, "" if it stands alone."""
        return ""

    def open_group(self, store: Hummock, group: str) -> SourceGroup:
        """Return what feeds all tables of a group, as the store has them by now."""
        raise SourceError(f"the connector {self.name} feeds each table by itself")

    @abstractmethod
    def open_source(self, store: Hummock, relation: Relation) -> Source:
        """Return the source of a table; raises SourceError for options that do not fit."""

    @abstractmethod
    def try_source(self, store: Hummock, relation: Relation, spark: Spark) -> Iterator[str]:
        """Say in three sentences that a source can be connected to, read, and resumed; raises where it cannot. Writes nothing.

        The table need not exist: then the third one says where the source would begin.
        """


def source_options(relation: Relation) -> dict[str, str]:
    """Return what a relation's options tell its connector, with lower-case names."""
    of_rows = (ROWS_LIVE, *WATERMARK_OPTIONS)
    return {name.lower(): value for name, value in relation.options.items() if name.lower() not in of_rows}


def get_connector_name(relation: Relation) -> str:
    """Return the connector of a table, "" if it has none."""
    fed = relation.kind in ("table", "source")
    return source_options(relation).get("connector", "") if fed else ""
