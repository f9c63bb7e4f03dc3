"""CREATE SCHEMA and DROP SCHEMA: a schema is an entry of the catalog, what is in it knows so by its name."""

from __future__ import annotations

from engine.errors import SqlError
from engine.hummock import Commit
from engine.hummock.manifests.preconditions import require
from engine.meta.catalog.stored_catalog import RELATIONS, encode_entries, load_catalog
from engine.runtime.relations import build_name_error
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.drop import drop_relation
from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.schemas import KIND, SYSTEM, list_members, list_schemas, own_schema, schema_entry, schema_of
from engine.sql.statements.session.session_statements import CreateSchema, DropSchema, Use
from engine.sql.statements.session.settings import SETTINGS
from engine.sql.statements.statement_types import Drop


def execute_create_schema(statement: CreateSchema, context: StatementContext) -> None:
    """Create a schema; one that exists stays as it is where IF NOT EXISTS is said."""
    store, dialect = context.store, context.dialect
    stored = load_catalog(store.refresh())
    name = statement.name
    if name in list_schemas(stored.catalog) or name == own_schema(dialect) or name in SYSTEM:
        if statement.if_not_exists:
            return
        raise build_name_error(
            f"there is a schema {name} already", name, statement.sql, "choose another name"
        )
    entry = schema_entry(name)
    absent = RELATIONS.require_absent(entry, f"schema {name} was created by another process at the same time")
    relation = Relation(name=entry, kind=KIND, columns=(), sql=statement.sql, dialect=dialect)
    store.commit(Commit(catalog=encode_entries({entry: relation}, {}), precondition=absent))


def execute_drop_schema(statement: DropSchema, context: StatementContext) -> None:
    """Drop a schema, with CASCADE also what is in it and what reads that; each relation's drop is a commit of its own."""
    store, dialect = context.store, context.dialect
    catalog = load_catalog(store.refresh()).catalog
    name = statement.name
    if name not in list_schemas(catalog):
        if statement.if_exists:
            return
        if name == own_schema(dialect) or name in SYSTEM:
            raise build_name_error(
                f"schema {name} is the system's own", name, statement.sql, "drop what is in it"
            )
        raise build_no_schema_error(catalog, name, statement.sql)
    members = list_members(catalog, name)
    if members and not statement.cascade:
        hint = f"drop those first, or write DROP SCHEMA {name} CASCADE"
        raise build_name_error(f"schema {name} holds {', '.join(members)}", name, statement.sql, hint)
    for member in members:
        now = load_catalog(store.refresh()).catalog.relations.get(member)
        if now is not None:  # what it read has not taken it along
            drop_relation(store, Drop(now.kind, member, True, True, statement.sql))
    entry = schema_entry(name)
    empty = require(
        lambda version: not list_members(load_catalog(version).catalog, name),
        f"something was created in schema {name} at the same time; try again",
    )
    store.commit(Commit(catalog=encode_entries({entry: None}, {}), precondition=empty))


def check_schema(catalog: Catalog, relation: str, sql: str) -> None:
    """Raise SqlError if the schema in a new relation's name does not exist."""
    schema = schema_of(relation)
    if schema in SYSTEM:
        raise build_name_error(
            f"schema {schema} is the system's own", schema, sql, "create it in another schema"
        )
    if schema and schema not in list_schemas(catalog):
        raise build_no_schema_error(catalog, schema, sql)


def execute_use(statement: Use, context: StatementContext) -> None:
    """Let names without a schema mean relations of one; raises SqlError for a schema that does not exist."""
    path = _resolve_schema(context.read_catalog(), statement, context.dialect)
    context.settings.put("search_path", path)


def _resolve_schema(catalog: Catalog, statement: Use, dialect: Dialect) -> str:
    """Return the search path that USE asks for; raises SqlError for a schema that does not exist."""
    name = statement.name
    if name == own_schema(dialect):
        return SETTINGS["search_path"].default
    if name not in list_schemas(catalog):
        raise build_no_schema_error(catalog, name, statement.sql)
    return name


def build_no_schema_error(catalog: Catalog, name: str, sql: str) -> SqlError:
    """Return the error for a schema that does not exist."""
    known = ", ".join(list_schemas(catalog))
    hint = f"CREATE SCHEMA {name} makes it" + (f"; there are {known}" if known else "")
    return build_name_error(f"there is no schema {name}", name, sql, hint)
