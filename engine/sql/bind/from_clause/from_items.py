"""One item of FROM: a table, a view, a WITH item, a subquery, VALUES or a table function, LATERAL or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec
import sqlglot.expressions as exp

from engine.errors import SqlError, UnsupportedSql
from engine.sql.bind.expressions import ExpressionBinder
from engine.sql.bind.from_clause.series_to_now import expand_series_to_now
from engine.sql.bind.from_clause.table_functions import TableFunctionBinder, is_table_call
from engine.sql.bind.from_clause.unpivot import expand_unpivot, find_unpivot
from engine.sql.bind.scope import FromSource, Scope
from engine.sql.bind.subqueries import unwrap_query
from engine.sql.catalog import Catalog, Relation, is_named_index
from engine.sql.dialect import Dialect
from engine.sql.expression.change_columns import OPERATION, ROW
from engine.sql.parsing.changelogs import find_changelog
from engine.sql.parsing.names import find_relation, item_name, normalize_identifier
from engine.sql.plan import Node, Scan, Values
from engine.sql.rewrites.contract import QueryText
from engine.sql.rewrites.rules import apply_parsed_rules
from engine.sql.statements.view_query import parse_view_query

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
class FromItem:
    """A bound item of FROM; `apply` computes it from the rows before it where it is a table function."""

    source: FromSource
    apply: Callable[[Node], Node] | None = None


class SubqueryBinder(Protocol):
    """What binding FROM needs of the binder of queries."""

    catalog: Catalog
    dialect: Dialect
    known: set[str]

    def bind_query(self, query: exp.Expr, ctes: Ctes, outer: Scope | None) -> BoundRelation: ...

    def of_view(self, relation: Relation) -> SubqueryBinder: ...

    def build_error(self, message: str, node: exp.Expr | None, hint: str) -> SqlError: ...

    def build_unsupported(self, what: str, node: exp.Expr | None, hint: str) -> UnsupportedSql: ...

    def refuse_parts(self, node: exp.Expr, known: set[str]) -> None: ...

    def record_type(self, column: str, kind: str | None) -> None: ...

    def fresh(self, base: str) -> str: ...


class BoundRelation(Protocol):
    """A bound query."""

    @property
    def plan(self) -> Node: ...

    @property
    def columns(self) -> Columns: ...


class FromBinder:
    """Binds the items of one FROM in their scope."""

    def __init__(
        self, binder: SubqueryBinder, scope: Scope, expressions: ExpressionBinder, ctes: Ctes
    ) -> None:
        self.binder, self.scope, self.expressions, self.ctes = binder, scope, expressions, ctes

    def bind_item(self, node: exp.Expr, *, outer: bool = False) -> FromItem:
        """Bind one item; `outer` keeps the rows before it for which a table function gives none."""
        pivot = find_unpivot(node)
        if pivot is not None and self.binder.dialect == "spark":
            node = expand_unpivot(node, pivot)
        lateral = isinstance(node, exp.Lateral)
        inner = node.this if lateral else node
        call = inner.this if isinstance(inner, exp.Table) else inner
        if is_table_call(call):
            return self._bind_call(node, inner, call, outer)
        query = unwrap_query(inner) if isinstance(inner, exp.Subquery | exp.Values) else None
        if query is not None or isinstance(inner, exp.Values):
            return FromItem(self._bind_subquery(node, inner, query or inner, lateral))
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            text = node.sql()[:40]
            raise self.binder.build_unsupported(
                text, node, "FROM takes tables, views, subqueries, VALUES and UNNEST"
            )
        return FromItem(self._bind_table(node))

    # ---- table functions -------------------------------------------------------------------------------------
    def _bind_call(self, node: exp.Expr, inner: exp.Expr, call: exp.Expr, outer: bool) -> FromItem:
        for part in {id(node): node, id(inner): inner}.values():
            self.binder.refuse_parts(part, _CALL_PARTS)
        moving = expand_series_to_now(
            inner if inner.args.get("alias") else node, call, self.binder.build_error
        )
        if moving is not None:
            return FromItem(self._bind_subquery(moving, moving, moving.this, False))
        alias = node.args.get("alias") or inner.args.get("alias")
        parts = (node, inner, call)
        numbered = any(part.args.get("ordinality") or part.args.get("offset") for part in parts)
        functions = TableFunctionBinder(self.expressions, self.binder.fresh, self.binder.record_type)
        outer = outer or bool(node.args.get("outer"))
        bound = functions.bind(call, numbered=bool(numbered), outer=outer)
        name = normalize_identifier(alias.this) if alias is not None and alias.this is not None else ""
        columns = bound.columns
        if name and len(columns) == 1 and self.binder.dialect != "spark":
            columns = ((name, columns[0][1]),)
        aliases = list(alias.args.get("columns") or ()) if alias is not None else []
        if isinstance(call, exp.Unnest) and isinstance(call.args.get("offset"), exp.Identifier):
            aliases.append(call.args["offset"])
        columns = self._apply_names(columns, aliases, alias, name or call.key)
        alone = bound.apply(Values((), ((),), self.binder.fresh("values:row")))
        return FromItem(FromSource(name, alone, columns), bound.apply)

    # ---- subqueries ------------------------------------------------------------------------------------------
    def _bind_subquery(self, node: exp.Expr, inner: exp.Expr, query: exp.Expr, lateral: bool) -> FromSource:
        self.binder.refuse_parts(node, {"this", "alias", "expressions", "view", "outer", "with_"})
        alias = node.args.get("alias") or inner.args.get("alias")
        bound = self.binder.bind_query(query, self.ctes, self.scope if lateral else self.scope.outer)
        name = normalize_identifier(alias.this) if alias is not None and alias.this is not None else ""
        return FromSource(name, bound.plan, self._rename_columns(bound.columns, alias))

    # ---- tables ----------------------------------------------------------------------------------------------
    def _bind_table(self, node: exp.Table) -> FromSource:
        self.binder.refuse_parts(node, _TABLE_PARTS)
        alias, name = node.args.get("alias"), normalize_identifier(node.this)
        alias_name = (
            normalize_identifier(alias.this) if alias is not None and alias.this is not None else name
        )
        if item_name(node) in self.ctes and not node.args.get("db"):
            cte = self.ctes[item_name(node)]
            changed = find_changelog(cte.query)
            if changed is not None:
                found = self._bind_changes(changed, alias_name)
                return replace(found, columns=self._rename_columns(found.columns, alias))
            bound = self.binder.bind_query(cte.query, cte.ctes, cte.outer)
            columns = self._rename_columns(bound.columns, cte.alias)
            return FromSource(alias_name, bound.plan, self._rename_columns(columns, alias))
        found = self._bind_relation(name, alias_name, node)
        return replace(found, columns=self._rename_columns(found.columns, alias))

    def _bind_relation(self, name: str, alias: str, node: exp.Table) -> FromSource:
        catalog = self.binder.catalog
        found = find_relation(node, catalog)
        named_index = found is not None and is_named_index(found)
        hidden = (
            found is not None
            and found.kind in ("index", "function", "sink", "subscription", "check")
            and not named_index
        )
        if found is None or hidden or name.startswith("_") or node.args.get("db"):
            called = node.sql() if node.args.get("db") else name
            raise self.binder.build_error(
                f"there is no table or view {called}", node, catalog.suggest_names(name)
            )
        if found.kind == "view":
            return self._bind_view(found, alias)
        columns = [column for column in found.columns if not column.storage_name.startswith("_partial")]
        if found.is_pass_through:  # old values are in its changes, and are nobody's columns
            columns = [c for c in columns if not c.hidden or c.storage_name in found.primary_key]
        visible = [column.name for column in columns if not column.hidden]
        if named_index:  # its rows are those of its table, which views look up by the index themselves
            visible = [column.name for column in catalog.list_index_columns(found)]
            found = catalog.relations[found.options["on"]]
            columns = [column for column in found.columns if not column.storage_name.startswith("_partial")]
        items = tuple(
            (self.binder.fresh(f"{alias}:{column.name}"), column.storage_name) for column in columns
        )
        for (internal, _), column in zip(items, columns, strict=True):
            self.binder.record_type(internal, column.visible_type)
            if found.is_never_null(column):
                self.binder.known.add(internal)
        scan = Scan(found.name, items, found.primary_key, found.distribution_key, found.append_only)
        scan = msgspec.structs.replace(scan, expires=found.hides_rows, passes=found.is_pass_through)
        internals = {c.name: internal for c, (internal, _) in zip(columns, items, strict=True)}
        row_ids = [
            c.name
            for c in columns
            if c.hidden and found.kind in ("table", "source") and c.name in found.primary_key
        ]
        return FromSource(
            alias,
            scan,
            tuple((name, internals[name]) for name in visible),
            tuple((name, internals[name]) for name in row_ids),
        )

    def _bind_changes(self, table: exp.Table, alias: str) -> FromSource:
        """The changes of a table as rows: its columns, what a change is, and its number, which `*` does not show."""
        found = self._bind_relation(normalize_identifier(table.this), alias, table)
        if not isinstance(found.plan, Scan):
            hint = "name a table or a materialized view: a plain view has no changes of its own"
            raise self.binder.build_unsupported("CHANGELOG FROM a plain view", table, hint)
        if found.plan.passes:
            hint = "CREATE TABLE … WITH (connector = …) keeps the rows, whose changes can be numbered"
            raise self.binder.build_unsupported("CHANGELOG FROM a source", table, hint)
        reserved = [name for name, _ in found.columns if name.lower() == OPERATION]
        if reserved:
            hint = "rename that column, which would be hidden by what a change is"
            raise self.binder.build_unsupported(
                f"CHANGELOG FROM a table with a column {OPERATION}", table, hint
            )
        added = []
        for name, kind in ((OPERATION, "smallint"), (ROW, "bigint")):
            internal = self.binder.fresh(f"{alias}:{name}")
            self.binder.record_type(internal, kind)
            self.binder.known.add(internal)
            added.append((name, internal))
        items = (*found.plan.items, *((internal, name) for name, internal in added))
        scan = msgspec.structs.replace(found.plan, items=items, append_only=True, changes=True)
        return FromSource(alias, scan, (*found.columns, *added))

    def _bind_view(self, found: Relation, alias: str) -> FromSource:
        text = QueryText(self.binder.catalog, found.dialect, found.sql)
        query = apply_parsed_rules(parse_view_query(found).copy(), text)
        bound = self.binder.of_view(found).bind_query(query, {}, None)
        columns = bound.columns
        if found.renamed:
            names = (column.name for column in found.columns)
            columns = tuple((n, i) for n, (_, i) in zip(names, columns, strict=True))
        return FromSource(alias, bound.plan, columns)

    # ---- names -----------------------------------------------------------------------------------------------
    def _rename_columns(self, columns: Columns, alias: exp.TableAlias | None) -> Columns:
        """Return the columns under the names that a list after an alias gives them."""
        names = alias.args.get("columns") if alias is not None else None
        if alias is None or not names:
            return columns
        return self._apply_names(columns, names, alias, alias.name)

    def _apply_names(
        self, columns: Columns, aliases: list[exp.Expr], node: exp.Expr | None, label: str
    ) -> Columns:
        if not aliases:
            return columns
        if len(aliases) != len(columns):
            message = f"{label} names {len(aliases)} columns of {len(columns)}"
            raise self.binder.build_error(message, node, "give each column a name")
        names = [normalize_identifier(part) for part in aliases]
        twice = next((part for n, part in enumerate(aliases) if names[n] in names[:n]), None)
        if twice is not None:
            raise self.binder.build_error(
                f"two columns are named {twice.name}", twice, "give one of them another name"
            )
        return tuple((name, internal) for name, (_, internal) in zip(names, columns, strict=True))
