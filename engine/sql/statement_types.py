"""The statements as typed values; `sql` is always the text as it was written, to which places refer."""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlglot.expressions as exp

from engine.sql.catalog import Column


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE; `primary_key` is empty for an append-only table without one."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    append_only: bool
    if_not_exists: bool
    options: dict[str, str]
    as_query: exp.Query | None
    sql: str


@dataclass(frozen=True)
class CreateMaterializedView:
    """CREATE MATERIALIZED VIEW; `query_sql` is the query as it was written."""

    name: str
    query: exp.Query
    query_sql: str
    options: dict[str, str]
    if_not_exists: bool
    sql: str


@dataclass(frozen=True)
class CreateView:
    """CREATE VIEW: a name for a query."""

    name: str
    query: exp.Query
    query_sql: str
    if_not_exists: bool
    sql: str


@dataclass(frozen=True)
class Drop:
    """DROP; `kind` is table, view or materialized view."""

    kind: str
    name: str
    if_exists: bool
    cascade: bool
    sql: str


@dataclass(frozen=True)
class Insert:
    """INSERT; without `columns` the rows have all visible columns of the table in their order."""

    table: str
    columns: tuple[str, ...] | None
    rows: exp.Values | exp.Query
    sql: str


@dataclass(frozen=True)
class Update:
    """UPDATE; `assignments` are (column, new value)."""

    table: str
    assignments: tuple[tuple[str, exp.Expression], ...]
    where: exp.Expression | None
    sql: str


@dataclass(frozen=True)
class DeleteFrom:
    """DELETE."""

    table: str
    where: exp.Expression | None
    sql: str


@dataclass(frozen=True)
class Flush:
    """FLUSH: return when every view reflects what was written before."""

    sql: str


@dataclass(frozen=True)
class Select:
    """A query to be answered once."""

    query: exp.Query
    sql: str


@dataclass(frozen=True)
class Explain:
    """EXPLAIN of a query or of a view that is not made."""

    target: exp.Query | CreateMaterializedView
    incremental: bool
    sql: str


@dataclass(frozen=True)
class Show:
    """SHOW; `what` is tables, views, materialized views or all."""

    what: str
    like: str | None
    sql: str


@dataclass(frozen=True)
class ShowCreate:
    """SHOW CREATE: the statement that made a relation."""

    name: str
    sql: str


@dataclass(frozen=True)
class Describe:
    """DESCRIBE: the columns of a relation."""

    name: str
    sql: str


@dataclass(frozen=True)
class Set:
    """SET name = value, for this session."""

    name: str
    value: str
    sql: str = field(default="")


Statement = (
    CreateTable
    | CreateMaterializedView
    | CreateView
    | Drop
    | Insert
    | Update
    | DeleteFrom
    | Flush
    | Select
    | Explain
    | Show
    | ShowCreate
    | Describe
    | Set
)
