"""What exists: relations with their columns and keys, as immutable values that go into the store's manifests."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import msgspec

from engine.errors import SqlError
from engine.sql.checks import Check
from engine.sql.column_names import RESERVED, is_reserved, to_storage_name
from engine.sql.dialect import Dialect
from engine.sql.expression.monotone_steps import MonotoneStep

MOST_CHARACTERS = 255
ROWS_LIVE = "retention_seconds"
"""The option of a table that says how long its rows are there."""
_NO_PART = ("Cc", "Cs", "Zl", "Zp")
RelationKind = Literal[
    "table",
    "source",
    "view",
    "materialized view",
    "index",
    "function",
    "sink",
    "subscription",
    "schema",
    "check",
]
COMPANIONS: tuple[RelationKind, ...] = ("index", "check")
"""The kinds of what stands beside a relation: it goes with it, and is none of its readers."""
ConflictPolicy = Literal["error", "overwrite", "ignore", "update if not null"]


class RelationColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One column: `type` is a Spark type string, `default` and `generated` Spark SQL text; hidden ones are the system's own.

    `stored` is the name that the column has in the store if it was renamed since, else it follows from its name. A text has
    `length` characters at most, and those of a CHAR are `fixed`. `sql_type` is the type that SQL sees where it is another one: of
    json and jsonb, kept as texts.
    """

    name: str
    type: str
    nullable: bool = True
    default: str | None = None
    hidden: bool = False
    comment: str | None = None
    generated: str | None = None
    stored: str | None = None
    length: int | None = None
    fixed: bool = False
    sql_type: str | None = None

    @property
    def visible_type(self) -> str:
        """The column's type as expressions see it."""
        return self.sql_type or self.type

    @property
    def storage_name(self) -> str:
        """The column's name in the store."""
        return self.stored or (self.name if self.hidden else to_storage_name(self.name))


class Watermark(msgspec.Struct, frozen=True):
    """How far a table's time has come: the greatest value of `column`, as it is stored, less `delay`, and never falling.

    `delay` is in the column's unit: microseconds of a timestamp, days of a date, ones of a number. WITH TTL (`ttl`) rows below
    it leave the table; the time is `in_key` where it stands in the table's key beside what tells the rows apart.
    """

    column: str
    delay: int
    ttl: bool = False
    in_key: bool = False


class Carried(msgspec.Struct, frozen=True):
    """A column of a view whose rows change only at or above a bound: the least of what `sources` reach.

    Each is a table with a watermark, and the steps from that to the column.
    """

    column: str
    sources: tuple[tuple[str, tuple[MonotoneStep, ...]], ...]

    def rename_tables(self, names: Mapping[str, str]) -> Carried:
        """Return it with tables under other names."""
        return Carried(self.column, tuple((names.get(table, table), steps) for table, steps in self.sources))


ROW_ID = "_row_id"
"""The hidden column that tells the rows of a table without a key apart."""
WATERMARK, LATE, WATERMARK_KEY = "watermark", "late_rows", "_key"
"""The columns of a table's watermark: where it stands, how many rows were late, and the key of the only row, 0."""


class Relation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A table, view, materialized view, index or function; `sql` is the statement that made it.

    Keys name columns as they are stored. `on_conflict` says what an INSERT of a known key does: error, overwrite, ignore or
    "update if not null"; with `version_columns` a row that is older by them changes nothing.
    A table has been there since after the epoch `since`; a materialized view has had its query from the epoch `query_since` on.
    With `null_keys` a null is a value of the key like others, as in
    RisingWave. `through` names the plain views and functions whose text the statement uses. A plain view that is `renamed` gives
    its query's columns other names. `watermark` is that of a table which has one, `carried` are the columns of a view that
    follow such. `checks` are those of a materialized view; a relation of the kind check is a hidden view for them. A materialized
    view is `behind` whose plan may be from before a change of what it reads: the query that followed that was given up.
    """

    name: str
    kind: RelationKind
    columns: tuple[RelationColumn, ...]
    primary_key: tuple[str, ...] = ()
    distribution_key: tuple[str, ...] = ()
    append_only: bool = False
    sql: str = ""
    dialect: Dialect = "spark"
    options: dict[str, str] = {}
    depends_on: tuple[str, ...] = ()
    comment: str | None = None
    on_conflict: ConflictPolicy = "error"
    through: tuple[str, ...] = ()
    renamed: bool = False
    version_columns: tuple[str, ...] = ()
    null_keys: bool = False
    since: int = 0
    query_since: int = 0
    watermark: Watermark | None = None
    carried: tuple[Carried, ...] = ()
    checks: tuple[Check, ...] = ()
    behind: bool = False

    @property
    def row_lifetime(self) -> float | None:
        """After how many seconds rows of a table hide, None where they stay."""
        seconds = self.options.get(ROWS_LIVE) if self.kind == "table" else None
        return None if seconds is None else float(seconds)

    @property
    def visible_columns(self) -> tuple[RelationColumn, ...]:
        """The columns that users see."""
        return tuple(column for column in self.columns if not column.hidden)

    @property
    def visible_storage_names(self) -> list[str]:
        """The columns that users see, as they are stored."""
        return [column.storage_name for column in self.visible_columns]

    @property
    def hides_rows(self) -> bool:
        """Whether rows leave the table by themselves, by their age or WITH TTL of its watermark; no change tells of it."""
        return self.row_lifetime is not None or (self.watermark is not None and self.watermark.ttl)

    @property
    def is_pass_through(self) -> bool:
        """Whether rows are read where they are: the store has only their changes, until views have taken them."""
        return self.kind == "source"

    @property
    def unique_key(self) -> tuple[str, ...]:
        """The columns that tell apart the rows that are there: the key, without the time that WITH TTL sets beside it."""
        if self.watermark is None or not self.watermark.in_key:
            return self.primary_key
        return tuple(name for name in self.primary_key if name != self.watermark.column)

    def is_never_null(self, column: RelationColumn) -> bool:
        """Tell whether a column holds no null: so do the keys of most tables, whereas a view's may be groups of nulls."""
        in_key = self.kind in ("table", "source") and column.storage_name in self.unique_key
        return not column.nullable or (in_key and not self.null_keys)


def carry_comments(relation: Relation, before: Relation) -> tuple[RelationColumn, ...]:
    """Return the columns of a relation with the comments that those of the same names had."""
    comments = {column.name: column.comment for column in before.columns}
    return tuple(
        msgspec.structs.replace(column, comment=column.comment or comments.get(column.name))
        for column in relation.columns
    )


def watermark_name(table: str) -> str:
    """Return the name of the relation in which a table's watermark stands."""
    return f"_watermark_{table}"


def sequences_name(table: str) -> str:
    """Return the name of the relation in which the sequences stand that a table has taken."""
    return f"_sequence_{table}"


def build_watermark_relation(relation: Relation) -> Relation | None:
    """Return the relation of a table's watermark, None if it has none: one row, from the first row in time on."""
    if relation.watermark is None:
        return None
    kind = next(
        column.type for column in relation.columns if column.storage_name == relation.watermark.column
    )
    kind = kind if kind.startswith(("timestamp", "date")) else "bigint"
    columns = (
        RelationColumn(WATERMARK_KEY, "int", False, stored=WATERMARK_KEY),
        RelationColumn(WATERMARK, kind),
        RelationColumn(LATE, "bigint", False),
    )
    name = watermark_name(relation.name)
    return Relation(name=name, kind="table", columns=columns, primary_key=(WATERMARK_KEY,))


def is_named_index(relation: Relation) -> bool:
    """Tell whether a relation is an index that a user made, and not one of the tables behind such."""
    return relation.kind == "index" and bool(relation.sql)


@dataclass(frozen=True)
class Catalog:
    """All relations by name."""

    relations: Mapping[str, Relation]

    def get(self, name: str) -> Relation:
        """Return a relation; raises SqlError with names that are near."""
        found = self.relations.get(name) or self.relations.get(name.lower())
        if found is not None:
            return found
        raise SqlError(f"there is no table or view {name}", hint=self.suggest_names(name))

    def list_index_columns(self, index: Relation) -> tuple[RelationColumn, ...]:
        """Return the columns that an index of a user's shows: those that it is over, then the included ones, or all others."""
        base = self.relations[index.options["on"]]
        visible = {column.storage_name: column for column in base.visible_columns}
        first = [column.storage_name for column in index.columns]
        included = index.options.get("include")
        others = [name for name in visible if name not in first] if included is None else included.split(",")
        return tuple(visible[name] for name in dict.fromkeys([*first, *others]) if name in visible)

    def suggest_names(self, name: str) -> str:
        """Return a hint with names like `name`, or with how to see them all."""
        public = [n for n in self.relations if not n.startswith("_")]
        close = difflib.get_close_matches(name.lower(), public, 3)
        return f"did you mean {', '.join(close)}?" if close else "SHOW TABLES and SHOW VIEWS list what exists"

    @cached_property
    def _readers(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for name, relation in self.relations.items():
            for upstream in dict.fromkeys(relation.depends_on + relation.through):
                found.setdefault(upstream, []).append(name)
        return {name: tuple(readers) for name, readers in found.items()}

    def list_dependents(self, name: str) -> tuple[str, ...]:
        """Return everything computed from `name`, nearer ones first."""
        done: dict[str, None] = {}
        queue = list(self._readers.get(name, ()))
        while queue:
            reader = queue.pop(0)
            if reader not in done:
                done[reader] = None
                queue += self._readers.get(reader, ())
        return tuple(done)

    def sort_by_dependency(self) -> tuple[str, ...]:
        """Return all names, each after what it depends on."""
        done: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in done or name not in self.relations:
                return
            for upstream in self.relations[name].depends_on + self.relations[name].through:
                visit(upstream)
            done[name] = None

        for name in self.relations:
            visit(name)
        return tuple(done)


def check_relation_name(name: str, what: str, sql: str = "", line: int = 0, column: int = 0) -> str:
    """Return the name of a relation, with its schema or without, or raise SqlError if it is not one that users may give."""
    for part in name.split(".", 1):
        check_name(part, what, sql, line, column)
    return name


def check_name(name: str, what: str, sql: str = "", line: int = 0, column: int = 0) -> str:
    """Return the name, or raise SqlError if it is not one that users may give."""
    if not 0 < len(name) <= MOST_CHARACTERS or any(unicodedata.category(mark) in _NO_PART for mark in name):
        raise SqlError(
            f'"{name}" is no name for a {what}',
            sql=sql,
            line=line,
            column=column,
            hint=f"a name has 1 to {MOST_CHARACTERS} characters, none of them a control character or a line's end",
        )
    reason = explain_reserved(name, what)
    if reason:
        raise SqlError(
            reason,
            sql=sql,
            line=line,
            column=column,
            hint="choose another name",
        )
    return name


def explain_reserved(name: str, what: str) -> str:
    """Return why a name is the system's own, "" if users may give it."""
    if what != "column":
        return f"names that start with _ are the system's own: {name}" if name.startswith("_") else ""
    if name.lower() == ROW_ID:
        return f"the name {name} is the system's own, for what tells rows apart"
    return f"names that start with {RESERVED} are the system's own: {name}" if is_reserved(name) else ""
