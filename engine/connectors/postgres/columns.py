"""A table of PostgreSQL as it is now, and whether a table here can follow it: rights, publication, key, columns, types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from engine.connectors.contract.connector import StatementProblem
from engine.connectors.postgres.connection import quote_name
from engine.connectors.postgres.server import LISTS_COLUMNS, PLUGIN, PostgresServer
from engine.sql.catalog import RelationColumn
from engine.sql.column_names import match_columns
from engine.sql.typing.json_documents import is_document
from engine.sql.typing.types import decimal_digits, element_type

LEAST_VERSION = 130_000
READER_SECONDS = 2.0
"""For so long a session that reads the slot may be a poll that is about to end."""
_TYPES: Mapping[str, tuple[str, ...]] = {
    "bool": ("boolean",),
    "int2": ("smallint", "int", "bigint"),
    "int4": ("int", "bigint"),
    "int8": ("bigint",),
    "oid": ("bigint",),
    "float4": ("float", "double"),
    "float8": ("double",),
    "numeric": ("decimal", "double"),
    "bytea": ("binary",),
    "date": ("date",),
    "timestamp": ("timestamp_ntz",),
    "timestamptz": ("timestamp",),
    "time": ("time",),
}
"""The types of columns here that take values of a type of PostgreSQL; a STRING takes the text of every one."""
_DOCUMENTS = ("json", "jsonb")
_MOST_LISTED = 40


class PostgresType(NamedTuple):
    """A type, of a domain the one below it: its name, that of an array's elements, "" for others, and how SQL writes it."""

    name: str
    element: str
    shown: str


@dataclass(frozen=True)
class PostgresColumn:
    """A column of a table of PostgreSQL."""

    name: str
    type: PostgresType
    is_never_null: bool
    is_generated: bool
    is_published: bool
    in_identity: bool


@dataclass(frozen=True)
class PostgresTable:
    """A table of PostgreSQL; `identity` is d, i, f or n, `keys` are the columns of its unique indexes that hold no null."""

    oid: int
    is_partitioned: bool
    identity: str
    columns: tuple[PostgresColumn, ...]
    keys: tuple[frozenset[str], ...]


class FollowingTable(NamedTuple):
    """A table here that follows, or is to follow, one of PostgreSQL."""

    name: str
    columns: tuple[RelationColumn, ...]
    primary_key: tuple[str, ...]


def find_problem(server: PostgresServer, following: FollowingTable) -> StatementProblem | None:
    """Return the first reason why a table cannot follow its table of PostgreSQL, None if it can."""
    return next(_list_problems(server, following), None)


def _list_problems(server: PostgresServer, following: FollowingTable) -> Iterator[StatementProblem]:
    yield from _list_server_problems(server)
    found = read_table(server)
    if found is None:
        yield _explain_missing_table(server)
        return
    yield from _check_publication(server, found)
    yield from _check_columns(server, found, following)
    yield from _check_key(server, found, following)


def find_server_problem(server: PostgresServer) -> StatementProblem | None:
    """Return the first reason why no table of a database can be followed by the slot of the settings, None if one can."""
    return next(_list_server_problems(server), None)


def find_table_problem(
    server: PostgresServer, table: PostgresTable, following: FollowingTable, *, looks_up: bool
) -> StatementProblem | None:
    """Return the first reason why a table cannot follow one that was read; the publication is looked up, or yet to be made."""
    published = _check_publication(server, table) if looks_up else iter(())
    checks = (published, _check_columns(server, table, following), _check_key(server, table, following))
    return next(chain.from_iterable(checks), None)


def _list_server_problems(server: PostgresServer) -> Iterator[StatementProblem]:
    yield from _check_server(server)
    yield from _check_slot(server)


def _check_server(server: PostgresServer) -> Iterator[StatementProblem]:
    version = server.connection.info.server_version
    if version < LEAST_VERSION:
        message = f"{server.settings.address} has version {version // 10_000}"
        yield StatementProblem("hostname", message, "PostgreSQL 13 or newer is needed")
    ((level, standby, encoding, replicates),) = server.query(
        "SELECT pg_catalog.current_setting('wal_level'), pg_catalog.pg_is_in_recovery(), "
        "pg_catalog.current_setting('server_encoding'), (SELECT rolsuper OR rolreplication FROM pg_catalog.pg_roles "
        "WHERE rolname = current_user) OR EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'rds_replication' "
        "AND pg_catalog.pg_has_role(oid, 'MEMBER'))"
    )
    if standby:
        message = f"{server.settings.address} is a standby"
        yield StatementProblem("hostname", message, "name the primary server")
    if level != "logical":
        message = f"{server.settings.address} has wal_level = {level}, which does not tell changes of rows"
        yield StatementProblem(
            "hostname", message, "ALTER SYSTEM SET wal_level = logical, and restart the server"
        )
    if encoding == "SQL_ASCII":
        message = f"{server.settings.address} has the encoding SQL_ASCII, whose texts may be of any encoding"
        yield StatementProblem("database", message, "move the table to a database with the encoding UTF8")
    if not replicates:
        message = f"the role {server.settings.username} may not replicate"
        hint = f"ALTER ROLE {quote_name(server.settings.username)} REPLICATION"
        yield StatementProblem("username", message, hint)


def _check_slot(server: PostgresServer) -> Iterator[StatementProblem]:
    settings, slot = server.settings, server.wait_for_reader(READER_SECONDS)
    if slot is None:
        ((used, most),) = server.query(
            "SELECT count(*), pg_catalog.current_setting('max_replication_slots')::int FROM "
            "pg_catalog.pg_replication_slots"
        )
        if used >= most:
            message = f"{settings.address} has {most} replication slots, and all are taken"
            hint = "drop one (SELECT pg_drop_replication_slot('…')), or ALTER SYSTEM SET max_replication_slots, and restart"
            yield StatementProblem("slot", message, hint)
        return
    other = "name another slot, which is made, or one of the tables that this store follows there"
    if slot.plugin != PLUGIN:
        message = f"the slot {settings.slot} has the output plugin {slot.plugin or 'of no logical slot'}"
        yield StatementProblem("slot", message, other)
    elif slot.database != settings.database:
        yield StatementProblem("slot", f"the slot {settings.slot} is of the database {slot.database}", other)
    elif slot.reader is not None:
        yield StatementProblem(
            "slot", f"the slot {settings.slot} is read by another program, process {slot.reader}", other
        )


def _explain_missing_table(server: PostgresServer) -> StatementProblem:
    settings = server.settings
    names = [
        f"{schema}.{name}"
        for schema, name in server.query(
            "SELECT schemaname, tablename FROM pg_catalog.pg_publication_tables WHERE pubname = %s ORDER BY 1, 2",
            settings.publication,
        )
    ]
    listed = ", ".join(names[:_MOST_LISTED])
    hint = f"the publication {settings.publication} has {listed}" if names else "write table = 'schema.name'"
    return StatementProblem("table", f"there is no table {settings.path} in {settings.address}", hint)


def _check_publication(server: PostgresServer, table: PostgresTable) -> Iterator[StatementProblem]:
    settings = server.settings
    name, where = settings.publication, "publication" if settings.publication != settings.slot else ""
    path = f"{quote_name(settings.schema)}.{quote_name(settings.table)}"
    rows = server.query(
        "SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_catalog.pg_publication "
        "WHERE pubname = %s",
        name,
    )
    if not rows:
        with_root = " WITH (publish_via_partition_root = true)" if table.is_partitioned else ""
        hint = f"run there: CREATE PUBLICATION {quote_name(name)} FOR TABLE {path}{with_root}"
        yield StatementProblem(where, f"there is no publication {name} in {settings.address}", hint)
        return
    *publishes, by_root = rows[0]
    if not all(publishes):
        kinds = zip(("insert", "update", "delete", "truncate"), publishes, strict=True)
        lacking = ", ".join(kind for kind, on in kinds if not on)
        hint = f"ALTER PUBLICATION {quote_name(name)} SET (publish = 'insert, update, delete, truncate')"
        yield StatementProblem(where, f"the publication {name} leaves out: {lacking}", hint)
    if table.is_partitioned and not by_root:
        message = f"{settings.path} has partitions, and the publication {name} tells their rows as those of other tables"
        hint = f"ALTER PUBLICATION {quote_name(name)} SET (publish_via_partition_root = true)"
        yield StatementProblem(where, message, hint)
    has_filters = server.connection.info.server_version >= LISTS_COLUMNS
    published = server.query(
        f"SELECT {'rowfilter' if has_filters else 'NULL'} FROM pg_catalog.pg_publication_tables WHERE pubname "
        "= %s AND "
        "schemaname = %s AND tablename = %s",
        name,
        settings.schema,
        settings.table,
    )
    if not published:
        hint = f"ALTER PUBLICATION {quote_name(name)} ADD TABLE {path}"
        yield StatementProblem(where, f"the publication {name} has no table {settings.path}", hint)
    elif published[0][0] is not None:
        message = f"the publication {name} tells only rows of {settings.path} with {published[0][0]}"
        yield StatementProblem(where, message, "name a publication without a WHERE, and filter in a view")
    ((reads,),) = server.query("SELECT pg_catalog.has_table_privilege(%s::oid, 'SELECT')", table.oid)
    if not reads:
        hint = f"GRANT SELECT ON {path} TO {quote_name(settings.username)}"
        message = f"the role {settings.username} may not read {settings.path}"
        yield StatementProblem("table", message, hint)


def _check_columns(
    server: PostgresServer, table: PostgresTable, following: FollowingTable
) -> Iterator[StatementProblem]:
    path = server.settings.path
    there = {column.name: column for column in table.columns}
    match = match_columns([column.name for column in following.columns], list(there))
    for column in following.columns:
        if column.name not in match.found:
            hint = f"its columns are {', '.join(list(there)[:_MOST_LISTED])}"
            yield StatementProblem(column.name, f"{path} has no column {column.name}", hint)
            continue
        its = list(there.values())[match.found[column.name]]
        if its.is_generated:
            message = f"column {its.name} of {path} is generated, and PostgreSQL does not tell its values"
            yield StatementProblem(
                column.name, message, "leave it out, and compute it in a view over the table"
            )
        elif not its.is_published:
            message = (
                f"the publication {server.settings.publication} does not tell column {its.name} of {path}"
            )
            yield StatementProblem(
                column.name, message, "leave the column out, or add it to the publication's list"
            )
        elif (instead := explain_misfit(its.type, column)) is not None:
            message = f"column {column.name} is {column.visible_type} here and {its.type.shown} in {path}"
            yield StatementProblem(column.name, message, instead)
        elif not column.nullable and not its.is_never_null and column.name not in following.primary_key:
            message = f"column {column.name} is NOT NULL here and may be null in {path}"
            yield StatementProblem(column.name, message, "leave NOT NULL out")


def _check_key(
    server: PostgresServer, table: PostgresTable, following: FollowingTable
) -> Iterator[StatementProblem]:
    path = server.settings.path
    names = [column.name for column in table.columns]
    places = match_columns(following.primary_key, names).found
    key = frozenset(names[at] for at in places.values())
    shown = ", ".join(following.primary_key)
    there = {column.name: column for column in table.columns}
    here = {column.name: column for column in following.columns}
    for name in following.primary_key:
        if (
            name in places
            and there[names[places[name]]].type.name == "numeric"
            and here[name].type == "double"
        ):
            message = f"the key column {name} is DOUBLE here, which is the same for several values of numeric in {path}"
            yield StatementProblem(name, message, f"write {name} DECIMAL(38, 9), or STRING")
    if not any(unique <= key for unique in table.keys):
        listed = "; ".join(", ".join(sorted(unique)) for unique in table.keys)
        hint = f"what is unique there and never null: {listed}" if listed else f"give {path} a PRIMARY KEY"
        yield StatementProblem(
            following.primary_key[0], f"the key ({shown}) does not tell the rows of {path} apart", hint
        )
    statement = f"ALTER TABLE {quote_name(server.settings.schema)}.{quote_name(server.settings.table)} REPLICA IDENTITY"
    if table.identity == "n":
        message = f"{path} has REPLICA IDENTITY NOTHING, so that PostgreSQL refuses to update and to delete its rows"
        yield StatementProblem("table", message, f"{statement} DEFAULT (or FULL)")
    identity = frozenset(column.name for column in table.columns if column.in_identity)
    if table.identity in "di" and not key <= identity:
        message = (
            f"PostgreSQL tells which row of {path} goes by ({', '.join(sorted(identity)) or 'nothing'}), "
            "which lacks a part of the "
            f"key ({shown})"
        )
        yield StatementProblem("table", message, f"take that as the PRIMARY KEY, or {statement} FULL")


def explain_misfit(its: PostgresType, column: RelationColumn) -> str | None:
    """Return what to write instead of a column's type, None if it takes the values of a type of PostgreSQL."""
    kind = column.type
    if its.name in _DOCUMENTS and is_document(column):
        return None
    if column.length is not None or column.sql_type is not None:
        return f"write {column.name} {suggest_type(its).upper()}"
    return None if _takes(its.name, its.element, kind) else f"write {column.name} {suggest_type(its).upper()}"


def _takes(name: str, element: str, kind: str) -> bool:
    if kind == "string":
        return True
    inner = element_type(kind)
    if inner is not None:
        if element_type(inner) is not None:  # an array of PostgreSQL has any number of dimensions
            return _takes(name, element, inner)
        return bool(element) and element != "bytea" and _takes(element, "", inner)
    if element:
        return False
    family = "decimal" if decimal_digits(kind) is not None else kind.partition("(")[0]
    return family in _TYPES.get(name, ())


def suggest_type(its: PostgresType) -> str:
    """Return the type of a column that takes the values of a type of PostgreSQL."""
    if its.element:
        return (
            "string"
            if its.element == "bytea"
            else f"array<{suggest_type(PostgresType(its.element, '', ''))}>"
        )
    first = _TYPES.get(its.name, ("string",))[0]
    return {"decimal": "decimal(38, 9)", "time": "time(6)"}.get(first, first)


def read_table(server: PostgresServer) -> PostgresTable | None:
    """Return the table that the settings name, None if there is none."""
    settings = server.settings
    rows = server.query(
        "SELECT c.oid::bigint, c.relkind, c.relreplident FROM pg_catalog.pg_class AS c JOIN "
        "pg_catalog.pg_namespace AS n ON n.oid "
        "= c.relnamespace WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')",
        settings.schema,
        settings.table,
    )
    if not rows:
        return None
    oid, kind, identity = rows[0]
    kind, identity = _as_text(kind), _as_text(identity)
    if kind == "p":
        leaves = server.query(
            "SELECT DISTINCT c.relreplident FROM pg_catalog.pg_partition_tree(%s::oid) AS t JOIN "
            "pg_catalog.pg_class AS c ON "
            "c.oid = t.relid WHERE t.isleaf AND c.relkind = 'r'",
            oid,
        )
        letters = {_as_text(letter) for (letter,) in leaves}
        identity = next((letter for letter in "nidf" if letter in letters), identity)
    indexes = server.query(
        "SELECT i.indisprimary, i.indisreplident, ARRAY(SELECT a.attname::text FROM "
        "unnest(i.indkey[0:i.indnkeyatts - 1]) AS k JOIN "
        "pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k), i.indpred IS NULL AND "
        "i.indimmediate AND "
        "0 <> ALL (i.indkey[0:i.indnkeyatts - 1]::int2[]) FROM pg_catalog.pg_index AS i WHERE i.indrelid = "
        "%s::oid AND i.indisunique "
        "AND i.indisvalid",
        oid,
    )
    chosen = {"d": 0, "i": 1}.get(identity)
    of_identity = frozenset[str]()
    if chosen is not None:
        of_identity = frozenset(name for row in indexes if row[chosen] for name in row[2])
    columns = _read_columns(server, oid, of_identity, identity)
    never_null = {column.name for column in columns if column.is_never_null}
    keys = tuple(
        frozenset(names) for *_, names, whole in indexes if whole and names and never_null >= set(names)
    )
    return PostgresTable(oid, kind == "p", identity, columns, keys)


def _read_columns(
    server: PostgresServer, oid: int, of_identity: frozenset[str], identity: str
) -> tuple[PostgresColumn, ...]:
    settings = server.settings
    listed: Sequence[str] | None = None
    if server.connection.info.server_version >= LISTS_COLUMNS:
        for (names,) in server.query(
            "SELECT attnames::text[] FROM pg_catalog.pg_publication_tables WHERE pubname = %s AND schemaname "
            "= %s AND tablename = %s",
            settings.publication,
            settings.schema,
            settings.table,
        ):
            listed = names
    rows = server.query(
        "SELECT a.attname::text, a.atttypid::bigint, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, "
        "a.attgenerated <> '' FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT "
        "a.attisdropped ORDER BY a.attnum",
        oid,
    )
    types = read_types(server, [row[1] for row in rows])
    return tuple(
        PostgresColumn(
            name,
            types[kind]._replace(shown=shown),
            required,
            generated,
            listed is None or generated or name in listed,
            identity == "f" or name in of_identity,
        )
        for name, kind, shown, required, generated in rows
    )


def read_types(server: PostgresServer, oids: Sequence[int]) -> dict[int, PostgresType]:
    """Return types by their numbers, of domains the types below them."""
    found: dict[int, PostgresType] = {}
    for oid, name, element, shown in server.query(
        "WITH RECURSIVE below (oid, at) AS (SELECT o, o FROM unnest(%s::bigint[]) AS o UNION SELECT b.oid, "
        "t.typbasetype::bigint "
        "FROM below AS b JOIN pg_catalog.pg_type AS t ON t.oid = b.at::oid WHERE t.typtype = 'd') "
        "SELECT b.oid, t.typname::text, CASE WHEN t.typcategory = 'A' AND e.typdelim = ',' THEN e.typname::text "
        "ELSE '' END, "
        "pg_catalog.format_type(b.oid::oid, NULL) FROM below AS b JOIN pg_catalog.pg_type AS t ON t.oid = "
        "b.at::oid LEFT JOIN "
        "pg_catalog.pg_type AS e ON e.oid = t.typelem WHERE t.typtype <> 'd'",
        list(dict.fromkeys(oids)),
    ):
        found[oid] = PostgresType(name, element or "", shown)
    return found


def _as_text(letter: str | bytes) -> str:
    """Return a value of PostgreSQL's type "char"."""
    return letter.decode() if isinstance(letter, bytes) else letter
