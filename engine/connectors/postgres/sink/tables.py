"""The table that a sink writes, as it is there now: read, checked against the sink's columns, made, and told in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.connectors.postgres.connection import quote_name
from engine.connectors.postgres.sink.rows import TargetColumn
from engine.connectors.postgres.sink.server import TargetServer
from engine.connectors.postgres.sink.types import TargetType, choose_type, explain_key, explain_misfit
from engine.sql.catalog import Relation, RelationColumn

LEDGER = "tideline_sinks"
"""The table, in the schema of the target, of how far each sink is."""
NULLS_NOT_DISTINCT = 150_000
"""From this version on a unique index may take nulls as one."""
LEAST_VERSION = 130_000
_MARK = "Kept by the sink "
_RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "i": "an index",
    "S": "a sequence",
}


class Problem(NamedTuple):
    """Why a table cannot take the rows, at which option, and the statement or the step that mends it."""

    message: str
    remedy: str
    option: str = "table"


class ColumnThere(NamedTuple):
    """A column of the target; `needs_value`: a row without it is refused. `is_computed` ones take none."""

    name: str
    type: TargetType
    is_never_null: bool
    needs_value: bool
    is_computed: bool
    tells_apart: bool


class UniqueIndex(NamedTuple):
    """An index by which ON CONFLICT finds a row; `takes_null`: two nulls are one value to it."""

    columns: frozenset[str]
    takes_null: bool


class TargetTable(NamedTuple):
    """A table that is there; `made_by` is the sink that made it, "" where somebody else did."""

    oid: int
    kind: str
    made_by: str
    lacks: tuple[str, ...]
    is_filtered: bool
    rules: tuple[str, ...]
    columns: tuple[ColumnThere, ...]
    indexes: tuple[UniqueIndex, ...]


class SinkShape(NamedTuple):
    """What a sink writes: its id, its columns, the key by which it finds rows, () where it adds rows or keeps a single one."""

    app: str
    columns: tuple[RelationColumn, ...]
    key: tuple[str, ...]
    upsert: bool

    @classmethod
    def of(cls, relation: Relation, app: str, upsert: bool) -> SinkShape:
        """Return that of a sink."""
        return cls(app, relation.columns, relation.primary_key if upsert else (), upsert)

    @property
    def rights(self) -> tuple[str, ...]:
        """What the role must be allowed to do with the table."""
        return _RIGHTS if self.upsert else _RIGHTS[:2]


def check_server(server: TargetServer) -> Iterator[Problem]:
    """Yield why a database takes no rows at all."""
    address = server.address
    version = server.connection.info.server_version
    if version < LEAST_VERSION:
        message = f"{address.address} has version {version // 10_000}"
        yield Problem(message, "PostgreSQL 13 or newer is needed", "hostname")
    ((standby, encoding, may_stage),) = server.query(
        "SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('server_encoding'), "
        "pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMP')"
    )
    if standby:
        yield Problem(
            f"{address.address} is a standby, which takes no rows", "name the primary server", "hostname"
        )
    if encoding != "UTF8":
        message = f"{address.address} has the encoding {encoding}, in which not every text can be kept"
        yield Problem(message, "name a database with the encoding UTF8", "database")
    if not may_stage:
        message = f"the role {address.username} may not make temporary tables, in which rows are staged"
        database, role = quote_name(address.database), quote_name(address.username)
        yield Problem(message, f"GRANT TEMPORARY ON DATABASE {database} TO {role}", "username")
    rows = server.query(
        "SELECT pg_catalog.has_schema_privilege(oid, 'USAGE') FROM pg_catalog.pg_namespace WHERE nspname = %s",
        address.schema,
    )
    role, schema = quote_name(address.username), quote_name(address.schema)
    if not rows:
        yield Problem(f"there is no schema {address.schema} in {address.address}", f"CREATE SCHEMA {schema}")
    elif not rows[0][0]:
        yield Problem(
            f"the role {address.username} may not use the schema {address.schema}",
            f"GRANT USAGE ON SCHEMA {schema} TO {role}",
            "username",
        )


def check_creation(server: TargetServer, exists: bool) -> Iterator[Problem]:
    """Yield why the table, or the one of positions, cannot be made where it is not there."""
    address = server.address
    lacking = [] if exists else [address.table]
    lacking += [] if find_ledger(server) else [LEDGER]
    ((may_create,),) = server.query("SELECT pg_catalog.has_schema_privilege(%s, 'CREATE')", address.schema)
    role = quote_name(address.username)
    if lacking and not may_create:
        what = " and ".join(f"{address.schema}.{name}" for name in lacking)
        remedy = f"GRANT CREATE ON SCHEMA {quote_name(address.schema)} TO {role}"
        yield Problem(f"the role {address.username} may not create {what}", remedy, "username")
    if LEDGER not in lacking:
        ledger = render_ledger(server)
        lacks = [
            right
            for right in _RIGHTS
            if not server.query("SELECT pg_catalog.has_table_privilege(%s, %s)", ledger, right)[0][0]
        ]
        if lacks:
            message = f"the role {address.username} may not {', '.join(lacks)} in {address.schema}.{LEDGER}"
            yield Problem(message, f"GRANT {', '.join(lacks)} ON {ledger} TO {role}", "username")


def find_ledger(server: TargetServer) -> bool:
    """Tell whether the table of positions is there."""
    return server.query("SELECT pg_catalog.to_regclass(%s) IS NOT NULL", render_ledger(server))[0][0] is True


def render_ledger(server: TargetServer) -> str:
    """Return the table of positions as SQL names it."""
    return f"{quote_name(server.address.schema)}.{quote_name(LEDGER)}"


def read_target(server: TargetServer, rights: Sequence[str]) -> TargetTable | None:
    """Return the table that the settings name, None if there is none; `lacks` names those of some rights that are missing."""
    address = server.address
    found = server.query(
        "SELECT c.oid::bigint, c.relkind::text, coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), ''), "
        "ARRAY(SELECT r FROM unnest(%s::text[]) AS r WHERE NOT pg_catalog.has_table_privilege(c.oid, r)), "
        "pg_catalog.row_security_active(c.oid), ARRAY(SELECT w.rulename::text FROM pg_catalog.pg_rewrite AS w "
        "WHERE w.ev_class = c.oid AND w.ev_enabled <> 'D' ORDER BY 1) FROM pg_catalog.pg_class AS c JOIN "
        "pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
        list(rights),
        address.schema,
        address.table,
    )
    if not found:
        return None
    oid, kind, comment, lacks, is_filtered, rules = found[0]
    made_by = comment[len(_MARK) :] if comment.startswith(_MARK) else ""
    columns, indexes = _read_columns(server, oid), _read_indexes(server, oid)
    return TargetTable(oid, kind, made_by, tuple(lacks), is_filtered, tuple(rules), columns, indexes)


def _read_columns(server: TargetServer, oid: int) -> tuple[ColumnThere, ...]:
    rows = server.query(
        "WITH RECURSIVE below (number, oid, digits) AS (SELECT attnum, atttypid, atttypmod FROM "
        "pg_catalog.pg_attribute WHERE attrelid = %s::oid AND attnum > 0 AND NOT attisdropped UNION ALL SELECT "
        "b.number, t.typbasetype, CASE WHEN t.typtypmod >= 0 THEN t.typtypmod ELSE b.digits END FROM below AS b JOIN "
        "pg_catalog.pg_type AS t ON t.oid = b.oid WHERE t.typtype = 'd') "
        "SELECT a.attname::text, CASE WHEN t.typtype = 'e' THEN 'enum' ELSE t.typname::text END, CASE WHEN "
        "t.typcategory = 'A' THEN e.typname::text ELSE '' END, pg_catalog.format_type(t.oid, NULL), b.digits, "
        "a.attnotnull, a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', a.attgenerated <> '' OR "
        "a.attidentity = 'a', coalesce(o.collisdeterministic, true) FROM below AS b JOIN pg_catalog.pg_type AS t ON "
        "t.oid = b.oid JOIN pg_catalog.pg_attribute AS a ON a.attrelid = %s::oid AND a.attnum = b.number LEFT JOIN "
        "pg_catalog.pg_type AS e ON e.oid = t.typelem LEFT JOIN pg_catalog.pg_collation AS o ON o.oid = "
        "a.attcollation WHERE t.typtype <> 'd' ORDER BY a.attnum",
        oid,
        oid,
    )
    return tuple(
        ColumnThere(name, _build_type(kind, element, shown, digits), never_null, needs, computed, tells_apart)
        for name, kind, element, shown, digits, never_null, needs, computed, tells_apart in rows
    )


def _build_type(name: str, element: str, shown: str, digits: int) -> TargetType:
    """Return a type by its name and what PostgreSQL keeps beside it, -1 for nothing."""
    plain = element or name
    if digits < 0:
        return TargetType(name, element, shown)
    if plain in ("varchar", "bpchar"):
        return TargetType(name, element, shown, length=digits - 4)
    if plain == "numeric":
        packed = digits - 4
        scale = packed & 0x7FF
        return TargetType(
            name, element, shown, digits=(packed >> 16, scale - 0x800 if scale & 0x400 else scale)
        )
    fraction = digits & 0xFFFF if plain == "interval" else digits
    if plain == "interval" and (fraction == 0xFFFF and digits >> 16 == 0x7FFF):
        return TargetType(name, element, shown)
    return TargetType(name, element, shown, digits=(0, -1 if digits >> 16 not in (0, 0x7FFF) else fraction))


def _read_indexes(server: TargetServer, oid: int) -> tuple[UniqueIndex, ...]:
    one = "i.indnullsnotdistinct" if server.connection.info.server_version >= NULLS_NOT_DISTINCT else "false"
    rows = server.query(
        "SELECT ARRAY(SELECT a.attname::text FROM unnest(i.indkey[0:i.indnkeyatts - 1]) AS k JOIN "
        f"pg_catalog.pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k), {one} FROM "
        "pg_catalog.pg_index AS i WHERE i.indrelid = %s::oid AND i.indisunique AND i.indisvalid AND i.indimmediate "
        "AND i.indpred IS NULL AND 0 <> ALL (i.indkey[0:i.indnkeyatts - 1]::int2[])",
        oid,
    )
    return tuple(UniqueIndex(frozenset(names), takes_null) for names, takes_null in rows)


def check_columns(columns: Sequence[RelationColumn], key: Sequence[str]) -> Iterator[Problem]:
    """Yield which columns no table of PostgreSQL can have, whatever it is."""
    for column in columns:
        if column.type == "void":
            message = f"column {column.name} has no type, as it is always null"
            yield Problem(
                message, f"CAST it in the view, for instance CAST(NULL AS STRING) AS {column.name}", ""
            )
        elif column.name in key and (why := explain_key(column)) is not None:
            yield Problem(why, f"CAST {column.name} to STRING in the view", "")
        elif len(column.name.encode()) > 63:
            yield Problem(
                f"column {column.name} has a name of more than 63 bytes, which PostgreSQL cuts",
                "name it otherwise in the view",
                "",
            )
    if len(columns) > 1_000:
        yield Problem(
            f"{len(columns)} columns are more than a table there has", "select fewer in the view", ""
        )


def check_target(server: TargetServer, table: TargetTable, shape: SinkShape) -> Iterator[Problem]:
    """Yield why a table that is there cannot take the rows of a sink."""
    address = server.address
    path, sql_name = address.path, address.sql_name
    if table.kind not in ("r", "p"):
        yield Problem(f"{path} is {_KINDS.get(table.kind, 'no table')}, and no table", "name a table")
        return
    if table.lacks:
        rights = ", ".join(table.lacks)
        remedy = f"GRANT {rights} ON {sql_name} TO {quote_name(address.username)}"
        yield Problem(f"the role {address.username} may not {rights} in {path}", remedy, "username")
    if table.is_filtered:
        message = f"row level security hides rows of {path} from the role {address.username}"
        yield Problem(message, f"ALTER ROLE {quote_name(address.username)} BYPASSRLS", "username")
    for rule in table.rules:
        message = (
            f"the rule {rule} of {path} changes what is written there, so rows would not be as they are here"
        )
        yield Problem(message, f"DROP RULE {quote_name(rule)} ON {sql_name}")
    own = table.made_by == shape.app
    there = {column.name: column for column in table.columns}
    for column in shape.columns:
        its = there.get(column.name)
        addition = f"ALTER TABLE {sql_name} ADD COLUMN {quote_name(column.name)} {choose_type(column)}"
        if its is None:
            if not own or column.name in shape.key:
                yield Problem(f"{path} has no column {column.name}", addition)
            continue
        if its.is_computed:
            yield Problem(f"column {column.name} of {path} is generated there", "leave it out of the view")
        elif why := explain_misfit(column, its.type, in_key=column.name in shape.key):
            change = (
                f"ALTER TABLE {sql_name} ALTER COLUMN {quote_name(column.name)} TYPE {choose_type(column)}"
            )
            message = (
                f"column {column.name} is {column.visible_type} here and {its.type.shown} in {path}: {why}"
            )
            yield Problem(message, change)
        elif column.name in shape.key and not its.tells_apart:
            message = f"column {column.name} of the key has a collation in {path} to which texts that differ are one"
            change = f'ALTER TABLE {sql_name} ALTER COLUMN {quote_name(column.name)} TYPE text COLLATE "C"'
            yield Problem(message, change)
    filled = {column.name for column in shape.columns}
    for column_there in table.columns:
        if column_there.name not in filled and column_there.needs_value and not column_there.is_computed:
            name = quote_name(column_there.name)
            message = (
                f"column {column_there.name} of {path} is NOT NULL without a DEFAULT, and the view has none"
            )
            yield Problem(
                message, f"ALTER TABLE {sql_name} ALTER COLUMN {name} DROP NOT NULL, or select it in the view"
            )
    if shape.key and not find_index(table, shape.key):
        names = ", ".join(map(quote_name, shape.key))
        message = (
            f"{path} has no unique index of the view's key ({', '.join(shape.key)}), by which rows are found"
        )
        yield Problem(message, f"ALTER TABLE {sql_name} ADD UNIQUE ({names})")
    if shape.upsert and not shape.key and not own:
        message = f"the view is one row without a key, so its row cannot be found in {path}, which is there"
        yield Problem(message, "name a table that is not there")


def find_index(table: TargetTable, key: Sequence[str]) -> UniqueIndex | None:
    """Return the unique index of a key, the one that takes nulls as one if there are several."""
    found = [index for index in table.indexes if index.columns == frozenset(key)]
    return max(found, key=lambda index: index.takes_null, default=None)


def match_columns(
    table: TargetTable | None, shape: SinkShape, nulls_are_one: bool
) -> tuple[TargetColumn, ...]:
    """Return the sink's columns with those of the table, or of one that is to be made."""
    there = {} if table is None else {column.name: column for column in table.columns}
    found = []
    for column in shape.columns:
        its, in_key = there.get(column.name), column.name in shape.key
        kind = TargetType(*_describe_made(column)) if its is None else its.type
        takes_null = not (its is not None and its.is_never_null) and (nulls_are_one or not in_key)
        found.append(TargetColumn(column, kind, in_key, takes_null))
    return tuple(found)


def _describe_made(column: RelationColumn) -> tuple[str, str, str]:
    shown = choose_type(column)
    return shown, "", shown


def render_creation(server: TargetServer, shape: SinkShape) -> str:
    """Return the statement that makes the table, without its key: an index is quicker made of rows that are there."""
    columns = ", ".join(f"{quote_name(column.name)} {choose_type(column)}" for column in shape.columns)
    return f"CREATE TABLE {server.address.sql_name} ({columns})"


def render_key(server: TargetServer, shape: SinkShape, has_nulls: bool) -> str:
    """Return the statement that gives a new table its key; one with nulls is a unique index to which nulls are one."""
    names = ", ".join(map(quote_name, shape.key))
    what = f"UNIQUE NULLS NOT DISTINCT ({names})" if has_nulls else f"PRIMARY KEY ({names})"
    return f"ALTER TABLE {server.address.sql_name} ADD {what}"


def render_mark(server: TargetServer, shape: SinkShape) -> str:
    """Return the statement that says on the table which sink made it."""
    text = f"{_MARK}{shape.app}".replace("'", "''")
    return f"COMMENT ON TABLE {server.address.sql_name} IS '{text}'"
