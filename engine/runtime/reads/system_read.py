"""Queries over information_schema and pg_catalog: their rows are made from the catalog when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import sqlglot.expressions as exp

from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.sql.batch.system_tables import (
    DATABASE,
    TABLES,
    SystemCatalog,
    build_system_relation,
    resolve_system_name,
)
from engine.sql.catalog import Catalog
from engine.sql.dialect import Dialect
from engine.sql.parsing.names import normalize_identifier
from engine.sql.schemas import own_schema
from engine.sql.statements.session.settings import SETTINGS
from engine.sql.typing.types import to_arrow

_ANSWERS: Mapping[type[exp.Expr], Callable[[Dialect], str]] = {
    exp.CurrentDatabase: lambda dialect: DATABASE,
    exp.CurrentCatalog: lambda dialect: DATABASE,
    exp.CurrentSchema: own_schema,
    exp.CurrentVersion: lambda dialect: f"PostgreSQL {SETTINGS['server_version'].default} (Tideline)",
}


def resolve_system_tables(query: exp.Query, catalog: Catalog) -> tuple[exp.Query, tuple[str, ...]]:
    """Return a query with the whole names of the system's tables that it reads, and these."""
    found: dict[str, None] = {}
    items = {cte.alias for cte in query.find_all(exp.CTE)}
    if not any(_resolve_system_table(table, items, catalog) for table in query.find_all(exp.Table)):
        return query, ()
    query = query.copy()
    for table in query.find_all(exp.Table):
        name = _resolve_system_table(table, items, catalog)
        if name is not None:
            if table.args.get("alias") is None:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(name.rpartition(".")[2])))
            table.set("this", exp.to_identifier(name, quoted=True))
            found[name] = None
    return query, tuple(found)


def _resolve_system_table(table: exp.Table, items: set[str], catalog: Catalog) -> str | None:
    if not isinstance(table.this, exp.Identifier) or table.args.get("db") or table.name in items:
        return None
    return resolve_system_name(normalize_identifier(table.this), catalog)


def add_system_tables(stored: StoredCatalog, names: tuple[str, ...]) -> StoredCatalog:
    """Return the catalog with tables of the system in it, as queries bind them."""
    relations = {**stored.catalog.relations, **{name: build_system_relation(name) for name in names}}
    return StoredCatalog(Catalog(relations), stored.plans)


def build_system_rows(catalog: Catalog, name: str, dialect: Dialect) -> pa.Table:
    """Return the rows of a table of the system."""
    table = TABLES[name]
    rows = [
        dict(zip((c for c, _ in table.columns), row, strict=True))
        for row in table.rows(SystemCatalog(catalog, dialect))
    ]
    return pa.Table.from_pylist(rows, pa.schema([(column, to_arrow(kind)) for column, kind in table.columns]))


def inline_client_functions(query: exp.Query, dialect: Dialect) -> exp.Query:
    """`SELECT current_schema()` -> `SELECT 'public' AS current_schema`: what a client asks of the database that it is in."""
    if dialect == "spark" or not any(isinstance(part, tuple(_ANSWERS)) for part in query.walk()):
        return query
    query = query.copy()
    for part in [part for part in query.walk() if isinstance(part, tuple(_ANSWERS))]:
        text: exp.Expr = exp.Literal.string(_ANSWERS[type(part)](dialect))
        if isinstance(part.parent, exp.Select) and part.arg_key == "expressions":
            name = (
                "version" if isinstance(part, exp.CurrentVersion) else part.key.replace("current", "current_")
            )
            text = exp.alias_(text, name)
        part.replace(text)
    return query
