"""Which names of a statement are those of relations, and what they are in Spark's dialect.

There new ones are in lower case, others are found whatever their case: so it is in Spark's own catalog. In the other dialects
quotes make a name exact, and what is not quoted is in lower case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.sql.catalog import Catalog
from engine.sql.statements.ddl.sink_statements import AlterSink, CreateSink, sink_view_name
from engine.sql.statements.ddl.subscription_statements import CreateSubscription, DeclareCursor
from engine.sql.statements.session.session_statements import Refresh, Wait
from engine.sql.statements.statement_types import (
    Alter,
    Comment,
    CreateFunction,
    CreateIndex,
    CreateMaterializedView,
    CreateTable,
    CreateView,
    DeleteFrom,
    Describe,
    Drop,
    Explain,
    Insert,
    RenameTo,
    Several,
    Show,
    ShowCreate,
    Statement,
    SwapWith,
    Update,
)


@dataclass(frozen=True)
class Naming:
    """What the names in a statement become: of relations that exist, of new ones, and of a new index over a table."""

    known: Callable[[str], str]
    new: Callable[[str], str]
    index: Callable[[str, str], str]
    renamed: Callable[[str], str]


def apply_naming(statement: Statement, naming: Naming) -> Statement:
    """Return a statement with its relations' names as `naming` says."""
    known, new = naming.known, naming.new
    match statement:
        case CreateTable() | CreateMaterializedView() | CreateView() | CreateFunction():
            return replace(statement, name=new(statement.name))
        case CreateIndex():
            table = known(statement.table)
            return replace(statement, name=naming.index(statement.name, table), table=table)
        case CreateSink():
            into = None if statement.into is None else known(statement.into)
            name = new(statement.name)
            source = known(statement.source) if statement.query is None else sink_view_name(name)
            return replace(statement, name=name, source=source, into=into)
        case CreateSubscription():
            return replace(statement, name=new(statement.name), source=known(statement.source))
        case DeclareCursor():
            return replace(statement, source=known(statement.source))
        case Insert() | Update() | DeleteFrom():
            return replace(statement, table=known(statement.table))
        case Drop() | Describe() | Refresh() | ShowCreate() | Show() | Comment() | AlterSink():
            return replace(statement, name=known(statement.name))
        case Alter(action=RenameTo(name)):
            return replace(statement, name=known(statement.name), action=RenameTo(naming.renamed(name)))
        case Alter(action=SwapWith(name)):
            return replace(statement, name=known(statement.name), action=SwapWith(known(name)))
        case Alter():
            return replace(statement, name=known(statement.name))
        case Several():
            parts = tuple(apply_naming(part, naming) for part in statement.parts)
            return replace(statement, parts=parts)  # type: ignore[arg-type]  # each stays what it was
        case Wait():
            return replace(statement, views=tuple(known(view) for view in statement.views))
        case Explain(target=CreateMaterializedView() as target):
            inner = apply_naming(target, naming)
            assert isinstance(inner, CreateMaterializedView)
            return replace(statement, target=inner)
    return statement


def fold_spark_names(statement: Statement, catalog: Callable[[], Catalog]) -> Statement:
    """Return a statement of Spark's dialect with the names that its relations have in the catalog, or will have."""

    def resolve_known(name: str) -> str:
        if name == name.lower():
            return name
        relations = catalog().relations
        return name if name in relations else name.lower()

    return apply_naming(statement, Naming(resolve_known, str.lower, lambda name, _: name.lower(), str.lower))
