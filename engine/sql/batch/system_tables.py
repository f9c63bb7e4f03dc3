"""information_schema and pg_catalog: what clients ask a database about its relations, told from the catalog.

Each table is columns with their types, and a function that gives its rows. What roles, storage of PostgreSQL's own or
statistics would tell is left out, rather than made up.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.sql.catalog import Catalog, Column, Relation, is_named_index
from engine.sql.dialect import Dialect
from engine.sql.schemas import KIND as SCHEMA
from engine.sql.schemas import SYSTEM, last_name, own_schema, schema_of, schemas
from engine.sql.typing.types import decimal_digits

DATABASE = "tideline"
_OWNER = "tideline"
CLASS, _NAMESPACE = 1259, 2615
_TABLE_TYPES = {
    "table": "BASE TABLE",
    "source": "FOREIGN",
    "view": "VIEW",
    "materialized view": "MATERIALIZED VIEW",
}
_RELKINDS = {"table": "r", "source": "f", "view": "v", "materialized view": "m", "index": "i"}
_POSTGRES = {
    "boolean": ("boolean", "bool", 16, 1),
    "tinyint": ("smallint", "int2", 21, 2),
    "smallint": ("smallint", "int2", 21, 2),
    "int": ("integer", "int4", 23, 4),
    "bigint": ("bigint", "int8", 20, 8),
    "float": ("real", "float4", 700, 4),
    "double": ("double precision", "float8", 701, 8),
    "string": ("text", "text", 25, -1),
    "binary": ("bytea", "bytea", 17, -1),
    "date": ("date", "date", 1082, 4),
    "timestamp": ("timestamp with time zone", "timestamptz", 1184, 8),
    "timestamp_ntz": ("timestamp without time zone", "timestamp", 1114, 8),
    "time(6)": ("time without time zone", "time", 1083, 8),
    "interval day to second": ("interval", "interval", 1186, 16),
}
_NUMERIC, _VARCHAR, _CHAR = (
    ("numeric", "numeric", 1700, -1),
    ("character varying", "varchar", 1043, -1),
    ("character", "bpchar", 1042, -1),
)
_DOCUMENTS = {"json": ("json", "json", 114, -1), "jsonb": ("jsonb", "jsonb", 3802, -1)}
_ARRAY, _OTHER = ("ARRAY", "anyarray", 2277, -1), ("USER-DEFINED", "record", 2249, -1)
Row = tuple[Any, ...]


@dataclass(frozen=True)
class SystemTable:
    """One table: columns with their types, and its rows."""

    columns: tuple[tuple[str, str], ...]
    rows: Callable[[World], Iterator[Row]]


@dataclass(frozen=True)
class World:
    """What the tables tell of: a catalog as a client of a dialect sees it."""

    catalog: Catalog
    dialect: Dialect

    def schema(self, relation: Relation) -> str:
        """Return the schema in which a client finds a relation."""
        return schema_of(relation.name) or own_schema(self.dialect)

    @property
    def schema_names(self) -> list[str]:
        """The names of all schemas, the system's own included."""
        return [own_schema(self.dialect), *sorted(schemas(self.catalog)), *SYSTEM]

    def shown(self, *kinds: str) -> Iterator[Relation]:
        """Yield the relations that users have made, in the order of their names."""
        for _, relation in sorted(self.catalog.relations.items()):
            system = relation.name.startswith("_") or relation.kind == SCHEMA
            if (
                relation.kind in kinds
                and not system
                and (relation.kind != "index" or is_named_index(relation))
            ):
                yield relation

    def columns(self, relation: Relation) -> list[Column]:
        """Return the columns that a relation shows."""
        found = self.catalog.columns_of_index(relation) if is_named_index(relation) else relation.columns
        return [column for column in found if not column.hidden]


def oid(kind: int, name: str) -> int:
    """Return a number for something of the catalog, always the same; above those that PostgreSQL gives its own."""
    return 16384 + zlib.crc32(f"{kind}/{name}".encode()) % (2**31 - 16384)


def postgres_type(column: Column) -> tuple[str, str, int, int]:
    """Return a column's type as PostgreSQL tells it: its name in the standard, its own, its number and its size."""
    if column.length is not None:
        return _CHAR if column.fixed else _VARCHAR
    if column.sql_type in _DOCUMENTS:
        return _DOCUMENTS[column.sql_type]
    if column.type.startswith("decimal"):
        return _NUMERIC
    if column.type.startswith("array<"):
        return _ARRAY
    return _POSTGRES.get(column.type, _OTHER)


# ---- information_schema ----------------------------------------------------------------------------------------
def _schemata(world: World) -> Iterator[Row]:
    for name in world.schema_names:
        yield DATABASE, name, _OWNER


def _tables(world: World) -> Iterator[Row]:
    for relation in world.shown(*_TABLE_TYPES):
        writable = "YES" if relation.kind == "table" else "NO"
        kind = _TABLE_TYPES[relation.kind]
        yield DATABASE, world.schema(relation), last_name(relation.name), kind, writable


def _views(world: World) -> Iterator[Row]:
    for relation in world.shown("view", "materialized view"):
        yield DATABASE, world.schema(relation), last_name(relation.name), relation.sql


def _columns(world: World) -> Iterator[Row]:
    for relation in world.shown(*_TABLE_TYPES):
        for n, column in enumerate(world.columns(relation), 1):
            digits = decimal_digits(column.type)
            known = bool(column.seen_type)  # a plain view's are told by whoever reads it
            standard, own, _, _ = postgres_type(column)
            shown = standard if world.dialect != "spark" else column.type.upper()
            nullable = not relation.is_never_null(column)
            yield (
                DATABASE,
                world.schema(relation),
                last_name(relation.name),
                column.name,
                n,
                column.default,
                "YES" if nullable else "NO",
                shown if known else None,
                column.length,
                *(digits or (None, None)),
                own if known else None,
                "NEVER" if column.generated is None else "ALWAYS",
                column.generated,
            )


def _keys(world: World) -> Iterator[tuple[Relation, list[str]]]:
    for relation in world.shown("table"):
        key = [column.name for column in world.columns(relation) if column.source in relation.unique_key]
        if key:
            yield relation, key


def _constraints(world: World) -> Iterator[Row]:
    for relation, _ in _keys(world):
        schema, name = world.schema(relation), last_name(relation.name)
        yield DATABASE, schema, f"{name}_pkey", DATABASE, schema, name, "PRIMARY KEY"


def _key_columns(world: World) -> Iterator[Row]:
    for relation, key in _keys(world):
        schema, name = world.schema(relation), last_name(relation.name)
        for n, column in enumerate(key, 1):
            yield DATABASE, schema, f"{name}_pkey", DATABASE, schema, name, column, n


# ---- pg_catalog ------------------------------------------------------------------------------------------------
def _namespaces(world: World) -> Iterator[Row]:
    for name in world.schema_names:
        yield oid(_NAMESPACE, name), name


def _classes(world: World) -> Iterator[Row]:
    indexed = {index.options["on"] for index in world.shown("index")}
    for relation in world.shown(*_RELKINDS):
        space = oid(_NAMESPACE, world.schema(relation))
        number, kind = oid(CLASS, relation.name), _RELKINDS[relation.kind]
        width = len(world.columns(relation))
        yield number, last_name(relation.name), space, kind, width, relation.name in indexed, "p"


def _attributes(world: World) -> Iterator[Row]:
    for relation in world.shown(*_RELKINDS):
        for n, column in enumerate(world.columns(relation), 1):
            _, _, number, size = postgres_type(column)
            needed = relation.is_never_null(column)
            default = column.default is not None or column.generated is not None
            whole = number if column.type else None
            yield oid(CLASS, relation.name), column.name, whole, size, n, needed, default, False


def _types(world: World) -> Iterator[Row]:
    space = oid(_NAMESPACE, "pg_catalog")
    kinds = {*_POSTGRES.values(), _NUMERIC, _VARCHAR, _CHAR, _ARRAY, _OTHER, *_DOCUMENTS.values()}
    for _, name, number, size in sorted(kinds, key=lambda kind: kind[2]):
        yield number, name, space, size, "p" if name in ("anyarray", "record") else "b"


def _index_rows(world: World) -> Iterator[Row]:
    for relation in world.shown("index"):
        base = world.catalog.relations[relation.options["on"]]
        places = {column.name: n for n, column in enumerate(world.columns(base), 1)}
        key = " ".join(str(places[column.name]) for column in relation.columns if column.name in places)
        yield oid(CLASS, relation.name), oid(CLASS, base.name), False, False, key


def _indexes(world: World) -> Iterator[Row]:
    for relation in world.shown("index"):
        base = last_name(relation.options["on"])
        yield world.schema(relation), base, last_name(relation.name), relation.sql


def _pg_tables(world: World) -> Iterator[Row]:
    indexed = {index.options["on"] for index in world.shown("index")}
    for relation in world.shown("table"):
        yield world.schema(relation), last_name(relation.name), _OWNER, relation.name in indexed


def _texts_of(kind: str) -> Callable[[World], Iterator[Row]]:
    def rows(world: World) -> Iterator[Row]:
        for relation in world.shown(kind):
            yield world.schema(relation), last_name(relation.name), _OWNER, relation.sql

    return rows


def _comments(world: World) -> Iterator[Row]:
    for relation in world.shown(*_TABLE_TYPES):
        if relation.comment is not None:
            yield oid(CLASS, relation.name), CLASS, 0, relation.comment
        for n, column in enumerate(world.columns(relation), 1):
            if column.comment is not None:
                yield oid(CLASS, relation.name), CLASS, n, column.comment


def _databases(world: World) -> Iterator[Row]:
    yield oid(0, DATABASE), DATABASE


def _table(columns: str, rows: Callable[[World], Iterator[Row]]) -> SystemTable:
    names = (part.partition(":") for part in columns.split())
    return SystemTable(tuple((name, kind or "string") for name, _, kind in names), rows)


TABLES: Mapping[str, SystemTable] = {
    "information_schema.schemata": _table("catalog_name schema_name schema_owner", _schemata),
    "information_schema.tables": _table(
        "table_catalog table_schema table_name table_type is_insertable_into", _tables
    ),
    "information_schema.views": _table("table_catalog table_schema table_name view_definition", _views),
    "information_schema.columns": _table(
        "table_catalog table_schema table_name column_name ordinal_position:int column_default is_nullable data_type "
        "character_maximum_length:int numeric_precision:int numeric_scale:int udt_name is_generated generation_expression",
        _columns,
    ),
    "information_schema.table_constraints": _table(
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name constraint_type",
        _constraints,
    ),
    "information_schema.key_column_usage": _table(
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name column_name "
        "ordinal_position:int",
        _key_columns,
    ),
    "pg_catalog.pg_namespace": _table("oid:int nspname", _namespaces),
    "pg_catalog.pg_class": _table(
        "oid:int relname relnamespace:int relkind relnatts:int relhasindex:boolean relpersistence", _classes
    ),
    "pg_catalog.pg_attribute": _table(
        "attrelid:int attname atttypid:int attlen:int attnum:int attnotnull:boolean atthasdef:boolean attisdropped:boolean",
        _attributes,
    ),
    "pg_catalog.pg_type": _table("oid:int typname typnamespace:int typlen:int typtype", _types),
    "pg_catalog.pg_index": _table(
        "indexrelid:int indrelid:int indisunique:boolean indisprimary:boolean indkey", _index_rows
    ),
    "pg_catalog.pg_indexes": _table("schemaname tablename indexname indexdef", _indexes),
    "pg_catalog.pg_tables": _table("schemaname tablename tableowner hasindexes:boolean", _pg_tables),
    "pg_catalog.pg_views": _table("schemaname viewname viewowner definition", _texts_of("view")),
    "pg_catalog.pg_matviews": _table(
        "schemaname matviewname matviewowner definition", _texts_of("materialized view")
    ),
    "pg_catalog.pg_description": _table("objoid:int classoid:int objsubid:int description", _comments),
    "pg_catalog.pg_database": _table("oid:int datname", _databases),
}
"""The tables by name, with the schema that they are in."""


def relation_of_system(name: str) -> Relation:
    """Return a table of the system as a query binds it."""
    columns = tuple(Column(column, kind) for column, kind in TABLES[name].columns)
    return Relation(name=name, kind="table", columns=columns)


def system_name(name: str, catalog: Catalog) -> str | None:
    """Return the table of the system that a name in a query means, None for any other; pg_class is found without its schema."""
    if name in catalog.relations:
        return None
    return next((full for full in (name.lower(), f"pg_catalog.{name.lower()}") if full in TABLES), None)
