"""The statements as typed values; `sql` is always the text as it was written, to which places refer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import sqlglot.expressions as exp

from engine.sql.catalog import ConflictPolicy, RelationColumn, RelationKind, Watermark
from engine.sql.statements.ddl.sink_statements import AlterSink, CreateSink, ShowSinks
from engine.sql.statements.ddl.subscription_statements import (
    CloseCursor,
    CreateSubscription,
    DeclareCursor,
    FetchCursor,
    ShowCursors,
    ShowSubscriptions,
)
from engine.sql.statements.session.session_statements import (
    CancelJobs,
    CreateSchema,
    Deallocate,
    DropSchema,
    Execute,
    Flush,
    IgnoredStatement,
    Prepare,
    Refresh,
    ShowJobs,
    ShowWatermarks,
    Use,
    Wait,
)


@dataclass(frozen=True)
class CreateTable:
    """CREATE TABLE; without `primary_key` it is a bag of rows. `places` are where options stand.

    CREATE SOURCE `passes` rows on: they are read where they are.
    """

    name: str
    columns: tuple[RelationColumn, ...]
    primary_key: tuple[str, ...]
    append_only: bool
    if_not_exists: bool
    options: dict[str, str]
    as_query: exp.Query | None
    sql: str
    on_conflict: ConflictPolicy | Literal[""] = ""
    places: dict[str, int] = field(default_factory=dict)
    version_columns: tuple[str, ...] = ()
    watermark: Watermark | None = None
    pass_through: bool = False


@dataclass(frozen=True)
class CreateMaterializedView:
    """CREATE MATERIALIZED VIEW; `query_sql` is the query as it was written, `columns` the names after the view's, if any.

    One with `on_window_close` shows rows that no row yet to come can change. `copy` are the options of the Delta table that is
    kept beside it, none: there is no such table; `places` are where options stand. One that `replaces` may exist: its rows, and
    what reads it, stay.
    """

    name: str
    query: exp.Query
    query_sql: str
    options: dict[str, str]
    if_not_exists: bool
    sql: str
    columns: tuple[str, ...] = ()
    on_window_close: bool = False
    copy: dict[str, str] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    replaces: bool = False


@dataclass(frozen=True)
class CreateView:
    """CREATE VIEW: a name for a query; `columns` are the names after the view's, if any.

    One that `replaces` may exist, as long as nothing reads it.
    """

    name: str
    query: exp.Query
    query_sql: str
    if_not_exists: bool
    sql: str
    columns: tuple[str, ...] = ()
    replaces: bool = False


@dataclass(frozen=True)
class CreateIndex:
    """CREATE INDEX: the rows of a table or materialized view found by `columns`; it shows those that it includes, None: all."""

    name: str
    table: str
    columns: tuple[str, ...]
    if_not_exists: bool
    sql: str
    include: tuple[str, ...] | None = None


@dataclass(frozen=True)
class CreateFunction:
    """CREATE FUNCTION or AGGREGATE: an expression in SQL, or a text in Python; `parameters` are (name, type).

    Only one in Python can be `strict` or an `aggregate`, or is `deterministic` by what is said of it.
    """

    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: str
    body: str
    if_not_exists: bool
    sql: str
    language: Literal["sql", "python"] = "sql"
    strict: bool = False
    deterministic: bool = False
    aggregate: bool = False
    replaces: bool = False


@dataclass(frozen=True)
class Drop:
    """DROP; `kind` is table, source, view, materialized view, index or function."""

    kind: RelationKind
    name: str
    if_exists: bool
    cascade: bool
    sql: str


@dataclass(frozen=True)
class RenameTo:
    """ALTER … RENAME TO."""

    name: str


@dataclass(frozen=True)
class SwapWith:
    """ALTER … SWAP WITH: two relations of one kind exchange their names."""

    name: str


@dataclass(frozen=True)
class RenameColumn:
    """ALTER … RENAME COLUMN."""

    column: str
    name: str


@dataclass(frozen=True)
class AddColumn:
    """ALTER TABLE … ADD COLUMN."""

    column: RelationColumn
    if_not_exists: bool


@dataclass(frozen=True)
class DropColumn:
    """ALTER TABLE … DROP COLUMN."""

    column: str
    if_exists: bool


@dataclass(frozen=True)
class SetOptions:
    """ALTER … SET: options that become other ones."""

    options: dict[str, str]


@dataclass(frozen=True)
class Steer:
    """ALTER MATERIALIZED VIEW … PAUSE or RESUME: a mutation that the view's domain takes with its next barrier."""

    mutation: Literal["pause", "resume"]


@dataclass(frozen=True)
class ReplaceQuery:
    """ALTER MATERIALIZED VIEW … AS: another query, as it was written; options, and names of columns, stay."""

    query_sql: str


@dataclass(frozen=True)
class ApproveQuery:
    """ALTER MATERIALIZED VIEW … APPROVE: the next query that a gate holds up takes over."""


@dataclass(frozen=True)
class DiscardQuery:
    """ALTER MATERIALIZED VIEW … DISCARD: the view goes on by its present query, what is built beside it goes."""


@dataclass(frozen=True)
class Resync:
    """ALTER … RESYNC: a table or view gets the difference to what its source holds now, or its query gives now."""


@dataclass(frozen=True)
class AlterColumn:
    """ALTER TABLE … ALTER COLUMN: another DEFAULT (as Spark SQL; None: none any more), or another answer to NOT NULL."""

    column: str
    change: Literal["default", "nullable", "not null"]
    default: str | None = None


@dataclass(frozen=True)
class NoMeaning:
    """ALTER … of what means nothing here; `why` says so."""

    why: str


AlterAction = (
    RenameTo
    | SwapWith
    | RenameColumn
    | AddColumn
    | DropColumn
    | AlterColumn
    | SetOptions
    | Steer
    | ReplaceQuery
    | ApproveQuery
    | DiscardQuery
    | Resync
    | NoMeaning
)


@dataclass(frozen=True)
class Alter:
    """ALTER; `kind` is table, view, materialized view, index or function."""

    kind: RelationKind
    name: str
    action: AlterAction
    if_exists: bool
    sql: str


@dataclass(frozen=True)
class Comment:
    """COMMENT ON; without `column` it is that of the relation, with one the kind is not given, `text` is None to take it away."""

    kind: RelationKind | Literal[""]
    name: str
    column: str | None
    text: str | None
    sql: str


@dataclass(frozen=True)
class OnConflict:
    """ON CONFLICT of an INSERT: with `assignments`, (column, new value), known rows are updated, else they stay as they are."""

    keys: tuple[str, ...]
    assignments: tuple[tuple[str, exp.Expr], ...]
    where: exp.Expr | None
    node: exp.Expr


@dataclass(frozen=True)
class Insert:
    """INSERT; without `columns` the rows have all visible columns of the table in their order."""

    table: str
    columns: tuple[str, ...] | None
    rows: exp.Values | exp.Query
    sql: str
    conflict: OnConflict | None = None
    returning: tuple[exp.Expr, ...] = ()
    alias: str | None = None


@dataclass(frozen=True)
class Update:
    """UPDATE; `assignments` are (column, new value), `sources` the relations of its FROM."""

    table: str
    assignments: tuple[tuple[str, exp.Expr], ...]
    where: exp.Expr | None
    sql: str
    alias: str | None = None
    sources: tuple[exp.Expr, ...] = ()
    returning: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True)
class DeleteFrom:
    """DELETE; `sources` are the relations of its USING. TRUNCATE is one of all rows."""

    table: str
    where: exp.Expr | None
    sql: str
    alias: str | None = None
    sources: tuple[exp.Expr, ...] = ()
    returning: tuple[exp.Expr, ...] = ()
    truncates: bool = False


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
    """SHOW; `what` is tables, views, materialized views, indexes, functions, sinks, schemas, columns or all; `name` of which.

    With a `schema` what is in that one, None: in all.
    """

    what: str
    like: str | None
    sql: str
    name: str = ""
    schema: str | None = None


@dataclass(frozen=True)
class Several:
    """A statement about several relations, or with several actions: one after the other, each a commit of its own."""

    parts: tuple[Drop | DeleteFrom | Alter, ...]
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
    """SET name = value, for this session; without a value it is the default's, without a name that of all.

    A `local` one would hold for the rest of a transaction.
    """

    name: str
    value: str | None
    sql: str = field(default="")
    local: bool = False


@dataclass(frozen=True)
class ShowVariable:
    """SHOW name: a setting of this session; all of them without a name."""

    name: str | None
    sql: str


Statement = (
    CreateTable
    | CreateMaterializedView
    | CreateView
    | CreateIndex
    | CreateFunction
    | CreateSchema
    | DropSchema
    | Use
    | CreateSink
    | AlterSink
    | ShowSinks
    | CreateSubscription
    | DeclareCursor
    | FetchCursor
    | CloseCursor
    | ShowSubscriptions
    | ShowCursors
    | Alter
    | Comment
    | Drop
    | Insert
    | Update
    | DeleteFrom
    | Flush
    | Wait
    | Select
    | Explain
    | Show
    | ShowCreate
    | ShowJobs
    | ShowWatermarks
    | IgnoredStatement
    | Prepare
    | Execute
    | Deallocate
    | Refresh
    | Several
    | CancelJobs
    | Describe
    | Set
    | ShowVariable
)
