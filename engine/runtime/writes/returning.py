"""RETURNING that names columns of the tables of FROM or USING: they are read beside the rows that are written."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pyarrow as pa
import sqlglot.expressions as exp

from engine.runtime.rows import list_visible_columns
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.parsing.names import find_relation, normalize_identifier
from engine.sql.parsing.statement_errors import unsupported_error
from engine.sql.typing.types import from_arrow

_PREFIX = "returned "  # no column of a user's is hidden, so none can have this name and be read for RETURNING


@dataclass(frozen=True)
class Returning:
    """What RETURNING says: its items over the table alone, and the columns of other tables that are read for them."""

    items: tuple[exp.Expr, ...]
    more: tuple[exp.Expr, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names under which the columns of other tables are read."""
        return [item.alias for item in self.more]

    def extend(self, relation: Relation, rows: pa.Table) -> Relation:
        """Return the table with the columns of other tables beside its own, in the types in which they were read."""
        kinds = {part.name: part.type for part in rows.schema}
        extra = tuple(RelationColumn(name, from_arrow(kinds[name])) for name in self.names)
        return msgspec.structs.replace(relation, columns=(*relation.columns, *extra))


def resolve_returning(
    items: tuple[exp.Expr, ...],
    relation: Relation,
    alias: str,
    sources: tuple[exp.Expr, ...],
    catalog: Catalog,
    sql: str,
) -> Returning:
    """Return what RETURNING says of a table beside `sources`; `*` is the columns of all.

    Raises UnsupportedSql, with the place, for `*` beside a source whose columns are not those of a table or view.
    """
    if not sources or not items:
        return Returning(items)
    own = set(list_visible_columns(relation))
    more: dict[str, exp.Expr] = {}

    def replace_foreign(column: exp.Column) -> exp.Expr:
        table = column.args.get("table")
        bare = table is None and normalize_identifier(column.this) in own
        inside = column.find_ancestor(exp.Query) is not None
        if inside or bare or (table is not None and table.name.lower() == alias.lower()):
            return column
        name = f"{_PREFIX}{column.sql(dialect='spark')}"
        more[name] = exp.alias_(column.copy(), exp.to_identifier(name, quoted=True))
        return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))

    found: list[exp.Expr] = []
    for item in _expand_stars(items, _list_columns(relation, alias, sources, catalog), sql):
        name = item.alias_or_name
        moved = item.copy().transform(
            lambda n: replace_foreign(n) if isinstance(n, exp.Column) else n, copy=False
        )
        renamed = moved != item and not isinstance(item, exp.Alias)
        name = name or item.sql(dialect="spark")
        found.append(exp.alias_(moved, exp.to_identifier(name, quoted=True)) if renamed else moved)
    return Returning(tuple(found), tuple(more.values()))


def _list_columns(
    relation: Relation, alias: str, sources: tuple[exp.Expr, ...], catalog: Catalog
) -> dict[str, tuple[str, ...] | None]:
    """Return the columns of the table and of each source under its name; None for a subquery."""
    tables: dict[str, tuple[str, ...] | None] = {alias.lower(): tuple(list_visible_columns(relation))}
    for source in sources:
        for part in (source, *(join.this for join in source.args.get("joins") or ())):
            known = find_relation(part, catalog) if isinstance(part, exp.Table) else None
            tables[part.alias_or_name.lower()] = None if known is None else tuple(list_visible_columns(known))
    return tables


def _expand_stars(
    items: tuple[exp.Expr, ...], tables: dict[str, tuple[str, ...] | None], sql: str
) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for item in items:
        if not item.is_star or not isinstance(item, exp.Star | exp.Column):
            found.append(item)
            continue
        requested = [item.table.lower()] if isinstance(item, exp.Column) else list(tables)
        for table in requested:
            names = tables.get(table)
            if names is None:
                raise unsupported_error(
                    "RETURNING * beside a subquery is not offered", item, sql, "name the columns"
                )
            found += [
                exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
                for name in names
            ]
    return found
