"""Schemas: a relation in one is known by both names with a dot between; the store's own schema has no name.

In PostgreSQL's family that one is called public, in Spark's default. A query may call a relation by its last name alone where
nothing else has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import sqlglot.expressions as exp

from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect

KIND: Literal["schema"] = "schema"
SYSTEM = ("information_schema", "pg_catalog")
_ENTRY = "_schema_"
_OWN = {"spark": "default"}
_QUALIFIED = "qualified"
_SCHEMA = "schema_before"
_PLACES = (exp.Anonymous, exp.From, exp.Join, exp.Update, exp.Delete, exp.Lateral, exp.Subquery)


class OwnName(str):
    """The name of a relation that was written with the store's own schema before it: search_path has no say in it."""


def own_schema(dialect: Dialect) -> str:
    """Return the name of the schema that a client of a dialect is in, which means the store."""
    return _OWN.get(dialect, "public")


def schema_entry(name: str) -> str:
    """Return the name under which the catalog keeps a schema; no relation of a user can have it."""
    return _ENTRY + name


def schema_of(relation: str) -> str:
    """Return the schema in a relation's name, "" for the store's own."""
    return relation.rpartition(".")[0]


def strip_schema(relation: str) -> str:
    """Return a relation's name without its schema."""
    return relation.rpartition(".")[2]


def qualify_name(schema: str, name: str, dialect: Dialect) -> str:
    """Return the name of a relation in a schema, each as it was read."""
    return OwnName(name) if schema.lower() == own_schema(dialect) else f"{schema}.{name}"


def list_schemas(catalog: Catalog) -> Mapping[str, Relation]:
    """Return the schemas that users have made, by name."""
    made = (relation for relation in catalog.relations.values() if relation.kind == KIND)
    return {relation.name.removeprefix(_ENTRY): relation for relation in made}


def list_members(catalog: Catalog, schema: str) -> list[str]:
    """Return the relations in a schema."""
    return [name for name in catalog.relations if schema_of(name) == schema]


def qualify_tables(tree: exp.Expr, dialect: Dialect) -> None:
    """`s.t` -> one name with a dot, called t where it is read; `s.t.a` of such a table -> `t.a`."""
    called: set[tuple[str, str]] = set()
    aliases: set[str] = set()
    for table in tree.find_all(exp.Table):
        alias = table.args.get("alias")
        if alias is not None:
            aliases.add(alias.name.lower())
        schema = table.args.get("db")
        if not isinstance(table.this, exp.Identifier) or not isinstance(schema, exp.Identifier):
            continue
        if table.args.get("catalog") is not None:
            continue
        parts = [_read_name(part, dialect) for part in (schema, table.this)]
        table.set("db", None)
        if parts[0].lower() == own_schema(dialect):
            table.this.meta[_QUALIFIED] = True
            continue
        if alias is None and isinstance(table.parent, _PLACES):
            table.set("alias", exp.TableAlias(this=table.this.copy()))
            called.add((parts[0].lower(), parts[1].lower()))
        elif alias is None:
            called.add((parts[0].lower(), parts[1].lower()))
        name = exp.to_identifier(".".join(parts), quoted=True)
        name.meta.update(schema.meta, **{_QUALIFIED: True})
        table.set("this", name)
    for column in list(tree.find_all(exp.Column)):
        if column.args.get("db") is None or column.args.get("catalog") is not None:
            continue
        pair = (column.db.lower(), column.table.lower())
        if (pair[0] == own_schema(dialect) or pair in called) and pair[0] not in aliases:
            if pair in called:
                column.meta[_SCHEMA] = (".".join(pair), column.args["db"].meta.get("start"))
            column.set("db", None)


def qualify_calls(tree: exp.Expr, dialect: Dialect) -> exp.Expr:
    """`s.f(x)` -> a call of one name with a dot, or without where the schema is the store's own."""
    for node in list(tree.find_all(exp.Dot, exp.Column)):
        # before FILTER sqlglot takes the schema for the table of a column
        parts = ("this", "expression") if isinstance(node, exp.Dot) else ("table", "this")
        schema, whole = (node.args.get(part) for part in parts)
        call: exp.Expr | None = whole
        while isinstance(call, exp.Filter | exp.Window):
            call = call.this
        if not isinstance(call, exp.Anonymous) or not isinstance(schema, exp.Identifier):
            continue
        name = schema.name.lower()
        if name in SYSTEM or not isinstance(whole, exp.Expr):
            continue
        if name != own_schema(dialect):
            whole_name = f"{name}.{call.name}"
            quoted = isinstance(call.this, exp.Identifier)
            call.set("this", exp.to_identifier(whole_name, quoted=True) if quoted else whole_name)
        if "start" in schema.meta:
            call.meta["start"] = schema.meta["start"]
        whole.pop()
        if node is tree:
            return whole
        node.replace(whole)
    return tree


def find_schema_before(column: exp.Column) -> tuple[str, int | None] | None:
    """Return the relation, in lower case, that a column was said to be of with its schema, and where that stands in the text."""
    found: tuple[str, int | None] | None = column.meta.get(_SCHEMA)
    return found


def is_qualified(name: exp.Expr) -> bool:
    """Tell whether an identifier was written as two names."""
    return bool(name.meta.get(_QUALIFIED))


def _read_name(node: exp.Identifier, dialect: Dialect) -> str:
    exact = node.args.get("quoted") and dialect != "spark"
    return node.name if exact else node.name.lower()


def parse_search_path(setting: str, catalog: Catalog, dialect: Dialect) -> tuple[str, ...]:
    """Return the schemas in which names without one are looked for, "" for the store's own; unknown ones are left out."""
    found: list[str] = []
    for part in setting.split(","):
        name = part.strip().strip("\"'`")
        if name.lower() == own_schema(dialect) or name.lower() == "public":
            found.append("")
        elif name in list_schemas(catalog):
            found.append(name)
    return tuple(dict.fromkeys(found))


def resolve_in_path(path: Sequence[str], name: str, catalog: Catalog) -> str:
    """Return the relation that a name without schema means: that of the first schema that has it, else the name itself."""
    if "." in name or isinstance(name, OwnName):
        return name
    for schema in path:
        full = f"{schema}.{name}" if schema else name
        if full in catalog.relations:
            return full
    return name
