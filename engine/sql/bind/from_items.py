"""One item of FROM: a table, a view, a WITH item, a subquery, VALUES or a table function, LATERAL or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import sqlglot.expressions as exp

from engine.errors import SqlError, UnsupportedSql
from engine.sql.bind.expressions import Expressions
from engine.sql.bind.moving_series import series_upto_now
from engine.sql.bind.scope import Scope, Source
from engine.sql.bind.subqueries import query_of
from engine.sql.bind.table_functions import TableFunctions, is_table_call
from engine.sql.bind.unpivot import unpivot_of, unpivoted
from engine.sql.catalog import Catalog, Relation, is_named_index
from engine.sql.dialect import Dialect
from engine.sql.expression.changes import OPERATION, ROW
from engine.sql.parsing.changelogs import changelog_of
from engine.sql.parsing.names import identifier, item_name, relation_of
from engine.sql.plan import Node, Scan, Values
from engine.sql.rewrites.contract import QueryText
from engine.sql.rewrites.rules import written_out
from engine.sql.statements.reader import parse
from engine.sql.statements.statement_types import CreateView

Columns = tuple[tuple[str, str], ...]
_TABLE_PARTS = {"this", "alias", "db", "catalog", "hints"}
_CALL_PARTS = {
    "this",
    "expressions",
    "alias",
    "ordinality",
    "offset",
    "view",
    "outer",
    "start",
    "end",
    "step",
}


@dataclass(frozen=True)
class Cte:
    """A WITH item: its query, the items that it may read, the names that it gives the columns, and the scope around it."""

    query: exp.Query | exp.Values
    ctes: Mapping[str, Cte]
    alias: exp.TableAlias | None
    outer: Scope | None


Ctes = Mapping[str, Cte]


@dataclass(frozen=True)
class Item:
    """A bound item of FROM; `apply` computes it from the rows before it where it is a table function."""

    source: Source
    apply: Callable[[Node], Node] | None = None


class Binder(Protocol):
    """What binding FROM needs of the binder of queries."""

    catalog: Catalog
    dialect: Dialect
    known: set[str]

    def query(self, query: exp.Expr, ctes: Ctes, outer: Scope | None) -> Bound: ...

    def of_view(self, relation: Relation) -> Binder: ...

    def error(self, message: str, node: exp.Expr | None, hint: str) -> SqlError: ...

    def refuse(self, what: str, node: exp.Expr | None, hint: str) -> UnsupportedSql: ...

    def refuse_parts(self, node: exp.Expr, known: set[str]) -> None: ...

    def note(self, column: str, kind: str | None) -> None: ...

    def fresh(self, base: str) -> str: ...


class Bound(Protocol):
    """A bound query."""

    @property
    def plan(self) -> Node: ...

    @property
    def columns(self) -> Columns: ...


class FromItems:
    """Binds the items of one FROM in their scope."""

    def __init__(self, binder: Binder, scope: Scope, expressions: Expressions, ctes: Ctes) -> None:
        self.binder, self.scope, self.expressions, self.ctes = binder, scope, expressions, ctes

    def item(self, node: exp.Expr, *, outer: bool = False) -> Item:
        """Bind one item; `outer` keeps the rows before it for which a table function gives none."""
        pivot = unpivot_of(node)
        if pivot is not None and self.binder.dialect == "spark":
            node = unpivoted(node, pivot)
        lateral = isinstance(node, exp.Lateral)
        inner = node.this if lateral else node
        call = inner.this if isinstance(inner, exp.Table) else inner
        if is_table_call(call):
            return self._call(node, inner, call, outer)
        query = query_of(inner) if isinstance(inner, exp.Subquery | exp.Values) else None
        if query is not None or isinstance(inner, exp.Values):
            return Item(self._subquery(node, inner, query or inner, lateral))
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            shown = node.sql()[:40]
            raise self.binder.refuse(shown, node, "FROM takes tables, views, subqueries, VALUES and UNNEST")
        return Item(self._table(node))

    # ---- table functions -------------------------------------------------------------------------------------
    def _call(self, node: exp.Expr, inner: exp.Expr, call: exp.Expr, outer: bool) -> Item:
        for part in {id(node): node, id(inner): inner}.values():
            self.binder.refuse_parts(part, _CALL_PARTS)
        moving = series_upto_now(inner if inner.args.get("alias") else node, call, self.binder.error)
        if moving is not None:
            return Item(self._subquery(moving, moving, moving.this, False))
        alias = node.args.get("alias") or inner.args.get("alias")
        parts = (node, inner, call)
        numbered = any(part.args.get("ordinality") or part.args.get("offset") for part in parts)
        functions = TableFunctions(self.expressions, self.binder.fresh, self.binder.note)
        outer = outer or bool(node.args.get("outer"))
        bound = functions.bind(call, numbered=bool(numbered), outer=outer)
        shown = identifier(alias.this) if alias is not None and alias.this is not None else ""
        columns = bound.columns
        if shown and len(columns) == 1 and self.binder.dialect != "spark":
            columns = ((shown, columns[0][1]),)
        given = list(alias.args.get("columns") or ()) if alias is not None else []
        if isinstance(call, exp.Unnest) and isinstance(call.args.get("offset"), exp.Identifier):
            given.append(call.args["offset"])
        columns = self._named(columns, given, alias, shown or call.key)
        alone = bound.apply(Values((), ((),), self.binder.fresh("values:row")))
        return Item(Source(shown, alone, columns), bound.apply)

    # ---- subqueries ------------------------------------------------------------------------------------------
    def _subquery(self, node: exp.Expr, inner: exp.Expr, query: exp.Expr, lateral: bool) -> Source:
        self.binder.refuse_parts(node, {"this", "alias", "expressions", "view", "outer", "with_"})
        alias = node.args.get("alias") or inner.args.get("alias")
        bound = self.binder.query(query, self.ctes, self.scope if lateral else self.scope.outer)
        shown = identifier(alias.this) if alias is not None and alias.this is not None else ""
        return Source(shown, bound.plan, self._renamed(bound.columns, alias))

    # ---- tables ----------------------------------------------------------------------------------------------
    def _table(self, node: exp.Table) -> Source:
        self.binder.refuse_parts(node, _TABLE_PARTS)
        alias, name = node.args.get("alias"), identifier(node.this)
        shown = identifier(alias.this) if alias is not None and alias.this is not None else name
        if item_name(node) in self.ctes and not node.args.get("db"):
            cte = self.ctes[item_name(node)]
            changed = changelog_of(cte.query)
            if changed is not None:
                found = self._changes(changed, shown)
                return replace(found, columns=self._renamed(found.columns, alias))
            bound = self.binder.query(cte.query, cte.ctes, cte.outer)
            columns = self._renamed(bound.columns, cte.alias)
            return Source(shown, bound.plan, self._renamed(columns, alias))
        found = self._relation(name, shown, node)
        return replace(found, columns=self._renamed(found.columns, alias))

    def _relation(self, name: str, alias: str, node: exp.Table) -> Source:
        catalog = self.binder.catalog
        found = relation_of(node, catalog)
        named_index = found is not None and is_named_index(found)
        hidden = (
            found is not None and found.kind in ("index", "function", "sink", "check") and not named_index
        )
        if found is None or hidden or name.startswith("_") or node.args.get("db"):
            written = node.sql() if node.args.get("db") else name
            raise self.binder.error(f"there is no table or view {written}", node, catalog.near(name))
        if found.kind == "view":
            return self._view(found, alias)
        columns = [column for column in found.columns if not column.source.startswith("_partial")]
        if found.passes:  # old values are in its changes, and are nobody's columns
            columns = [c for c in columns if not c.hidden or c.source in found.primary_key]
        shown = [column.name for column in columns if not column.hidden]
        if named_index:  # its rows are those of its table, which views look up by the index themselves
            shown = [column.name for column in catalog.columns_of_index(found)]
            found = catalog.relations[found.options["on"]]
            columns = [column for column in found.columns if not column.source.startswith("_partial")]
        items = tuple((self.binder.fresh(f"{alias}:{column.name}"), column.source) for column in columns)
        for (internal, _), column in zip(items, columns, strict=True):
            self.binder.note(internal, column.seen_type)
            if found.is_never_null(column):
                self.binder.known.add(internal)
        scan = Scan(found.name, items, found.primary_key, found.distribution_key, found.append_only)
        scan = msgspec.structs.replace(scan, expires=found.hides_rows, passes=found.passes)
        internals = {c.name: internal for c, (internal, _) in zip(columns, items, strict=True)}
        row_ids = [
            c.name
            for c in columns
            if c.hidden and found.kind in ("table", "source") and c.name in found.primary_key
        ]
        return Source(
            alias,
            scan,
            tuple((name, internals[name]) for name in shown),
            tuple((name, internals[name]) for name in row_ids),
        )

    def _changes(self, table: exp.Table, alias: str) -> Source:
        """The changes of a table as rows: its columns, what a change is, and its number, which `*` does not show."""
        found = self._relation(identifier(table.this), alias, table)
        if not isinstance(found.plan, Scan):
            hint = "name a table or a materialized view: a plain view has no changes of its own"
            raise self.binder.refuse("CHANGELOG FROM a plain view", table, hint)
        if found.plan.passes:
            hint = "CREATE TABLE … WITH (connector = …) keeps the rows, whose changes can be numbered"
            raise self.binder.refuse("CHANGELOG FROM a source", table, hint)
        taken = [name for name, _ in found.columns if name.lower() == OPERATION]
        if taken:
            hint = "rename that column, which would be hidden by what a change is"
            raise self.binder.refuse(f"CHANGELOG FROM a table with a column {OPERATION}", table, hint)
        added = []
        for name, kind in ((OPERATION, "smallint"), (ROW, "bigint")):
            internal = self.binder.fresh(f"{alias}:{name}")
            self.binder.note(internal, kind)
            self.binder.known.add(internal)
            added.append((name, internal))
        items = (*found.plan.items, *((internal, name) for name, internal in added))
        scan = msgspec.structs.replace(found.plan, items=items, append_only=True, changes=True)
        return Source(alias, scan, (*found.columns, *added))

    def _view(self, found: Relation, alias: str) -> Source:
        statement = parse(found.sql, found.dialect)
        assert isinstance(statement, CreateView)
        query = written_out(statement.query, QueryText(self.binder.catalog, found.dialect, found.sql))
        bound = self.binder.of_view(found).query(query, {}, None)
        columns = bound.columns
        if found.renamed:
            shown = (column.name for column in found.columns)
            columns = tuple((n, i) for n, (_, i) in zip(shown, columns, strict=True))
        return Source(alias, bound.plan, columns)

    # ---- names -----------------------------------------------------------------------------------------------
    def _renamed(self, columns: Columns, alias: exp.TableAlias | None) -> Columns:
        """Return the columns under the names that a list after an alias gives them."""
        given = alias.args.get("columns") if alias is not None else None
        if alias is None or not given:
            return columns
        return self._named(columns, given, alias, alias.name)

    def _named(self, columns: Columns, given: list[exp.Expr], node: exp.Expr | None, shown: str) -> Columns:
        if not given:
            return columns
        if len(given) != len(columns):
            message = f"{shown} names {len(given)} columns of {len(columns)}"
            raise self.binder.error(message, node, "give each column a name")
        names = [identifier(part) for part in given]
        twice = next((part for n, part in enumerate(given) if names[n] in names[:n]), None)
        if twice is not None:
            raise self.binder.error(
                f"two columns are named {twice.name}", twice, "give one of them another name"
            )
        return tuple((name, internal) for name, (_, internal) in zip(names, columns, strict=True))
