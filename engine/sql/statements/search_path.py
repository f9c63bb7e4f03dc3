"""search_path: names without a schema mean relations of the schemas that it lists, new ones are made in its first.

Queries are written out with their schemas, so that a view means the same for whoever reads it later.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import sqlglot.expressions as exp

from engine.sql.catalog import Catalog
from engine.sql.parsing.names import identifier, item_name
from engine.sql.schemas import OwnName, found_in, is_qualified
from engine.sql.statements.statement_names import Naming, named
from engine.sql.statements.statement_types import Statement


def text_in_path(statement: Statement, path: Sequence[str], catalog: Catalog) -> str:
    """Return the text of a statement, whose queries say the schemas of what they read by `path`."""
    places: dict[int, str] = {}
    for tree in _trees(statement):
        for table in _tables(tree):
            name = identifier(table.this)
            found = found_in(path, name, catalog)
            start = table.this.meta.get("start")
            if found != name and start is not None:
                places[int(start)] = found[: -len(name)]
    text = statement.sql
    for start, schema in sorted(places.items(), reverse=True):
        text = text[:start] + schema + text[start:]
    return text


def names_in_path(statement: Statement, path: Sequence[str], catalog: Catalog) -> Statement:
    """Return a statement with the schemas of the relations that it is about; new ones are in the first of `path`."""

    def known(name: str) -> str:
        return found_in(path, name, catalog)

    def new(name: str) -> str:
        here = path and path[0] and "." not in name and not isinstance(name, OwnName)
        return f"{path[0]}.{name}" if here else name

    def index(name: str, table: str) -> str:
        schema = table.rpartition(".")[0]
        return f"{schema}.{name}" if schema and "." not in name else name

    return named(statement, Naming(known, new, index, lambda name: name))


def with_plain_names(value: Any) -> Any:
    """Return a statement whose names are known by then: no more is said of those that were written with the own schema."""
    if isinstance(value, OwnName):
        return str(value)
    if isinstance(value, tuple):
        return tuple(with_plain_names(part) for part in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    plain = {
        name: with_plain_names(part) for name, part in found.items() if isinstance(part, OwnName | tuple)
    }
    plain |= {name: with_plain_names(part) for name, part in found.items() if dataclasses.is_dataclass(part)}
    return dataclasses.replace(value, **plain) if plain else value


def _trees(value: Any) -> Iterator[exp.Expr]:
    """Yield the expressions that a statement holds, in whatever it holds them."""
    if isinstance(value, exp.Expr):
        yield value
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _trees(getattr(value, field.name))
    elif isinstance(value, tuple):
        for part in value:
            yield from _trees(part)


def _tables(tree: exp.Expr, items: frozenset[str] = frozenset()) -> Iterator[exp.Table]:
    """Yield the tables of a tree that have no schema and are no WITH items in their places."""
    with_ = tree.args.get("with_")
    if with_ is not None:
        every = frozenset(item_name(cte) for cte in with_.expressions)
        for cte in with_.expressions:  # which may read a table of its own name, unless it is recursive
            yield from _tables(cte.this, items | every if with_.args.get("recursive") else items)
            items |= {item_name(cte)}
    if isinstance(tree, exp.Table) and isinstance(tree.this, exp.Identifier):
        named = is_qualified(tree.this) or tree.args.get("db") or item_name(tree) in items
        if not named:
            yield tree
    for child in tree.iter_expressions():
        if child is not with_:
            yield from _tables(child, items)
