"""information_schema and pg_catalog: what clients ask a database about its relations, answered from the catalog.

Each table is columns with their types, and a function that gives its rows. What roles, storage of PostgreSQL's own or
statistics would tell is left out, rather than made up.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from engine.sql.catalog import Catalog, Relation, RelationColumn, is_named_index
from engine.sql.dialect import Dialect
from engine.sql.schemas import KIND as SCHEMA
from engine.sql.schemas import SYSTEM, list_schemas, own_schema, schema_of, strip_schema
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
    rows: Callable[[SystemCatalog], Iterator[Row]]


@dataclass(frozen=True)
class SystemCatalog:
    """What the tables tell of: a catalog as a client of a dialect sees it."""

    catalog: Catalog
    dialect: Dialect

    def find_schema(self, relation: Relation) -> str:
        """Return the schema in which a client finds a relation."""
        return schema_of(relation.name) or own_schema(self.dialect)

    @property
    def schema_names(self) -> list[str]:
        """The names of all schemas, the system's own included."""
        return [own_schema(self.dialect), *sorted(list_schemas(self.catalog)), *SYSTEM]

    def list_relations(self, *kinds: str) -> Iterator[Relation]:
        """Yield the relations that users have made, in the order of their names."""
        for _, relation in sorted(self.catalog.relations.items()):
            system = relation.name.startswith("_") or relation.kind == SCHEMA
            if (
                relation.kind in kinds
                and not system
                and (relation.kind != "index" or is_named_index(relation))
            ):
                yield relation

    def list_columns(self, relation: Relation) -> list[RelationColumn]:
        """Return the columns that a relation shows."""
        found = self.catalog.list_index_columns(relation) if is_named_index(relation) else relation.columns
        return [column for column in found if not column.hidden]


def compute_oid(kind: int, name: str) -> int:
    """Return a number for something of the catalog, always the same; above those that PostgreSQL gives its own."""
    return 16384 + zlib.crc32(f"{kind}/{name}".encode()) % (2**31 - 16384)


def to_postgres_type(column: RelationColumn) -> tuple[str, str, int, int]:
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
def _list_schemata(world: SystemCatalog) -> Iterator[Row]:
    for name in world.schema_names:
        yield DATABASE, name, _OWNER


def _list_tables(world: SystemCatalog) -> Iterator[Row]:
    for relation in world.list_relations(*_TABLE_TYPES):
        writable = "YES" if relation.kind == "table" else "NO"
        kind = _TABLE_TYPES[relation.kind]
        yield DATABASE, world.find_schema(relation), strip_schema(relation.name), kind, writable


def _list_views(world: SystemCatalog) -> Iterator[Row]:
    for relation in world.list_relations("view", "materialized view"):
        yield DATABASE, world.find_schema(relation), strip_schema(relation.name), relation.sql


def _list_columns(world: SystemCatalog) -> Iterator[Row]:
    for relation in world.list_relations(*_TABLE_TYPES):
        for n, column in enumerate(world.list_columns(relation), 1):
            digits = decimal_digits(column.type)
            known = bool(column.visible_type)  # a plain view's are found by whoever reads it
            standard, own, _, _ = to_postgres_type(column)
            type_name = standard if world.dialect != "spark" else column.type.upper()
            nullable = not relation.is_never_null(column)
            yield (
                DATABASE,
                world.find_schema(relation),
                strip_schema(relation.name),
                column.name,
                n,
                column.default,
                "YES" if nullable else "NO",
                type_name if known else None,
                column.length,
                *(digits or (None, None)),
                own if known else None,
                "NEVER" if column.generated is None else "ALWAYS",
                column.generated,
            )


def _list_keys(world: SystemCatalog) -> Iterator[tuple[Relation, list[str]]]:
    for relation in world.list_relations("table"):
        key = [
            column.name
            for column in world.list_columns(relation)
            if column.storage_name in relation.unique_key
        ]
        if key:
            yield relation, key


def _list_constraints(world: SystemCatalog) -> Iterator[Row]:
    for relation, _ in _list_keys(world):
        schema, name = world.find_schema(relation), strip_schema(relation.name)
        yield DATABASE, schema, f"{name}_pkey", DATABASE, schema, name, "PRIMARY KEY"


def _list_key_columns(world: SystemCatalog) -> Iterator[Row]:
    for relation, key in _list_keys(world):
        schema, name = world.find_schema(relation), strip_schema(relation.name)
        for n, column in enumerate(key, 1):
            yield DATABASE, schema, f"{name}_pkey", DATABASE, schema, name, column, n


# ---- pg_catalog ------------------------------------------------------------------------------------------------
def _list_namespaces(world: SystemCatalog) -> Iterator[Row]:
    for name in world.schema_names:
        yield compute_oid(_NAMESPACE, name), name


def _list_classes(world: SystemCatalog) -> Iterator[Row]:
    indexed = {index.options["on"] for index in world.list_relations("index")}
    for relation in world.list_relations(*_RELKINDS):
        space = compute_oid(_NAMESPACE, world.find_schema(relation))
        number, kind = compute_oid(CLASS, relation.name), _RELKINDS[relation.kind]
        width = len(world.list_columns(relation))
        yield number, strip_schema(relation.name), space, kind, width, relation.name in indexed, "p"


def _list_attributes(world: SystemCatalog) -> Iterator[Row]:
    for relation in world.list_relations(*_RELKINDS):
        for n, column in enumerate(world.list_columns(relation), 1):
            _, _, number, size = to_postgres_type(column)
            needed = relation.is_never_null(column)
            default = column.default is not None or column.generated is not None
            whole = number if column.type else None
            yield compute_oid(CLASS, relation.name), column.name, whole, size, n, needed, default, False


def _list_types(world: SystemCatalog) -> Iterator[Row]:
    space = compute_oid(_NAMESPACE, "pg_catalog")
    kinds = {*_POSTGRES.values(), _NUMERIC, _VARCHAR, _CHAR, _ARRAY, _OTHER, *_DOCUMENTS.values()}
    for _, name, number, size in sorted(kinds, key=lambda kind: kind[2]):
        yield number, name, space, size, "p" if name in ("anyarray", "record") else "b"


def _list_index_rows(world: SystemCatalog) -> Iterator[Row]:
    for relation in world.list_relations("index"):
        base = world.catalog.relations[relation.options["on"]]
        places = {column.name: n for n, column in enumerate(world.list_columns(base), 1)}
        key = " ".join(str(places[column.name]) for column in relation.columns if column.name in places)
        yield compute_oid(CLASS, relation.name), compute_oid(CLASS, base.name), False, False, key


def _list_indexes(world: SystemCatalog) -> Iterator[Row]:
    for relation in world.list_relations("index"):
        base = strip_schema(relation.options["on"])
        yield world.find_schema(relation), base, strip_schema(relation.name), relation.sql


def _list_pg_tables(world: SystemCatalog) -> Iterator[Row]:
    indexed = {index.options["on"] for index in world.list_relations("index")}
    for relation in world.list_relations("table"):
        yield world.find_schema(relation), strip_schema(relation.name), _OWNER, relation.name in indexed


def _make_text_lister(kind: str) -> Callable[[SystemCatalog], Iterator[Row]]:
    def list_texts(world: SystemCatalog) -> Iterator[Row]:
        for relation in world.list_relations(kind):
            yield world.find_schema(relation), strip_schema(relation.name), _OWNER, relation.sql

    return list_texts


def _list_comments(world: SystemCatalog) -> Iterator[Row]:
    for relation in world.list_relations(*_TABLE_TYPES):
        if relation.comment is not None:
            yield compute_oid(CLASS, relation.name), CLASS, 0, relation.comment
        for n, column in enumerate(world.list_columns(relation), 1):
            if column.comment is not None:
                yield compute_oid(CLASS, relation.name), CLASS, n, column.comment


def _list_databases(world: SystemCatalog) -> Iterator[Row]:
    yield compute_oid(0, DATABASE), DATABASE


def _define_table(columns: str, rows: Callable[[SystemCatalog], Iterator[Row]]) -> SystemTable:
    names = (part.partition(":") for part in columns.split())
    return SystemTable(tuple((name, kind or "string") for name, _, kind in names), rows)


TABLES: Mapping[str, SystemTable] = {
    "information_schema.schemata": _define_table("catalog_name schema_name schema_owner", _list_schemata),
    "information_schema.tables": _define_table(
        "table_catalog table_schema table_name table_type is_insertable_into", _list_tables
    ),
    "information_schema.views": _define_table(
        "table_catalog table_schema table_name view_definition", _list_views
    ),
    "information_schema.columns": _define_table(
        "table_catalog table_schema table_name column_name ordinal_position:int column_default is_nullable data_type "
        "character_maximum_length:int numeric_precision:int numeric_scale:int udt_name is_generated generation_expression",
        _list_columns,
    ),
    "information_schema.table_constraints": _define_table(
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name constraint_type",
        _list_constraints,
    ),
    "information_schema.key_column_usage": _define_table(
        "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name column_name "
        "ordinal_position:int",
        _list_key_columns,
    ),
    "pg_catalog.pg_namespace": _define_table("oid:int nspname", _list_namespaces),
    "pg_catalog.pg_class": _define_table(
        "oid:int relname relnamespace:int relkind relnatts:int relhasindex:boolean relpersistence",
        _list_classes,
    ),
    "pg_catalog.pg_attribute": _define_table(
        "attrelid:int attname atttypid:int attlen:int attnum:int attnotnull:boolean atthasdef:boolean attisdropped:boolean",
        _list_attributes,
    ),
    "pg_catalog.pg_type": _define_table("oid:int typname typnamespace:int typlen:int typtype", _list_types),
    "pg_catalog.pg_index": _define_table(
        "indexrelid:int indrelid:int indisunique:boolean indisprimary:boolean indkey", _list_index_rows
    ),
    "pg_catalog.pg_indexes": _define_table("schemaname tablename indexname indexdef", _list_indexes),
    "pg_catalog.pg_tables": _define_table(
        "schemaname tablename tableowner hasindexes:boolean", _list_pg_tables
    ),
    "pg_catalog.pg_views": _define_table(
        "schemaname viewname viewowner definition", _make_text_lister("view")
    ),
    "pg_catalog.pg_matviews": _define_table(
        "schemaname matviewname matviewowner definition", _make_text_lister("materialized view")
    ),
    "pg_catalog.pg_description": _define_table(
        "objoid:int classoid:int objsubid:int description", _list_comments
    ),
    "pg_catalog.pg_database": _define_table("oid:int datname", _list_databases),
}
"""The tables by name, with the schema that they are in."""


def build_system_relation(name: str) -> Relation:
    """Return a table of the system as a query binds it."""
    columns = tuple(RelationColumn(column, kind) for column, kind in TABLES[name].columns)
    return Relation(name=name, kind="table", columns=columns)


def resolve_system_name(name: str, catalog: Catalog) -> str | None:
    """Return the table of the system that a name in a query means, None for any other; pg_class is found without its schema."""
    if name in catalog.relations:
        return None
    return next((full for full in (name.lower(), f"pg_catalog.{name.lower()}") if full in TABLES), None)
