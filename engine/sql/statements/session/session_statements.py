"""Statements about schemas, jobs and the session as typed values; `sql` is always the text as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlglot.expressions as exp


@dataclass(frozen=True)
class Use:
    """USE: the schema in which names without one are looked for."""

    name: str
    sql: str


@dataclass(frozen=True)
class ShowJobs:
    """SHOW JOBS: the views that are being created."""

    sql: str


@dataclass(frozen=True)
class ShowWatermarks:
    """SHOW WATERMARKS: how far the time of each table has come, and how many of its rows were late."""

    sql: str


LISTS: Mapping[str, type[ShowJobs] | type[ShowWatermarks]] = {"JOBS": ShowJobs, "WATERMARKS": ShowWatermarks}
"""What SHOW says beside the kinds of relations."""


@dataclass(frozen=True)
class CancelJobs:
    """CANCEL JOBS: views that are being created are given up; `numbers` are those that SHOW JOBS tells."""

    numbers: tuple[int, ...]
    sql: str


@dataclass(frozen=True)
class IgnoredStatement:
    """A statement that means nothing here; `notice` says why."""

    notice: str
    sql: str


@dataclass(frozen=True)
class Refresh:
    """REFRESH MATERIALIZED VIEW: return when one view reflects what was written before."""

    name: str
    sql: str


@dataclass(frozen=True)
class CreateSchema:
    """CREATE SCHEMA: a name before the names of relations."""

    name: str
    if_not_exists: bool
    sql: str


@dataclass(frozen=True)
class DropSchema:
    """DROP SCHEMA; with `cascade` everything in it goes, too."""

    name: str
    if_exists: bool
    cascade: bool
    sql: str


@dataclass(frozen=True)
class Prepare:
    """PREPARE: a statement under a name, for the session; values for $1, $2 … come with EXECUTE.

    `types` are those of the first parameters; None is one that follows from what stands beside it.
    """

    name: str
    text: str
    sql: str
    types: tuple[exp.DataType | None, ...] = ()


@dataclass(frozen=True)
class Execute:
    """EXECUTE: a prepared statement with values for its parameters."""

    name: str
    values: tuple[exp.Expr, ...]
    sql: str


@dataclass(frozen=True)
class Deallocate:
    """DEALLOCATE: a prepared statement is forgotten, without a name all of them."""

    name: str | None
    sql: str


@dataclass(frozen=True)
class Flush:
    """FLUSH: return when every view reflects what was written before."""

    sql: str


@dataclass(frozen=True)
class Wait:
    """WAIT: return when views (none named: all) that are being created are whole; raises after `seconds`."""

    views: tuple[str, ...]
    seconds: float
    sql: str
