"""Query -> bound plan: names are resolved against the catalog, what cannot be maintained is refused with its place."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlglot.expressions as exp

from engine.errors import SqlError, UnsupportedSql
from engine.sql.catalog import Catalog
from engine.sql.expression_types import INTEGRAL
from engine.sql.expressions import Expressions, conjuncts
from engine.sql.joins import JoinBuilder
from engine.sql.macros import inline_functions
from engine.sql.names import identifier
from engine.sql.plan import Expr, Node, Project, Scan, UnionAll, quote
from engine.sql.position import place
from engine.sql.projection import Projection
from engine.sql.prune import merge_projections, prune
from engine.sql.scope import Scope, Source
from engine.sql.statement_types import CreateView
from engine.sql.statements import parse


@dataclass(frozen=True)
class BoundQuery:
    """A plan, and the query's columns as (output name, the plan's column)."""

    plan: Node
    columns: tuple[tuple[str, str], ...]


def bind(query: exp.Query, catalog: Catalog, *, dialect: str, sql: str) -> BoundQuery:
    """Bind a query; raises SqlError or UnsupportedSql with line, column, caret and remedy."""
    query = inline_functions(query.copy(), catalog, dialect, sql)
    bound = _Binder(catalog, dialect, sql).query(query, {})
    needed = {internal for _, internal in bound.columns}
    return replace(bound, plan=merge_projections(prune(bound.plan, needed)))


@dataclass(frozen=True)
class Cte:
    """A WITH item: its query, the items that it may read, and the names that it gives the columns."""

    query: exp.Query
    ctes: Mapping[str, Cte]
    alias: exp.TableAlias | None


Ctes = Mapping[str, Cte]

_REMEDIES = {
    "order": ("ORDER BY", "a view has no order: put ORDER BY into the SELECT that reads it"),
    "sort": ("SORT BY", "a view has no order: put ORDER BY into the SELECT that reads it"),
    "limit": ("LIMIT", "put LIMIT into the SELECT that reads the view"),
    "offset": ("OFFSET", "put OFFSET into the SELECT that reads the view"),
    "qualify": ("QUALIFY", "window functions are not maintained: use an aggregate with GROUP BY"),
    "windows": ("WINDOW", "window functions are not maintained: use an aggregate with GROUP BY"),
    "laterals": ("LATERAL", "unnest before the rows are written, or join a subquery in FROM"),
    "pivots": ("PIVOT", "write one aggregate with FILTER for each column"),
    "sample": ("TABLESAMPLE", "a sample is another one each time: take a WHERE condition on a column"),
    "connect": ("CONNECT BY", "recursion is not maintained: join a fixed number of times"),
    "into": ("SELECT INTO", "write CREATE MATERIALIZED VIEW … AS"),
    "version": ("FOR SYSTEM_TIME AS OF", "a view follows the newest content of its inputs"),
    "when": ("FOR SYSTEM_TIME AS OF", "a view follows the newest content of its inputs"),
    "joins": ("a join in parentheses", "write the joins one after the other, or (SELECT …) AS name"),
}
_QUERY_PARTS = {"with_", "this", "expression", "expressions", "alias", "by_name", "distinct"}
_SELECT_PARTS = {"from_", "joins", "where", "group", "having", "hint"} | _QUERY_PARTS
_TABLE_PARTS = {"this", "alias", "db", "catalog", "hints"}


class _Binder:
    def __init__(self, catalog: Catalog, dialect: str, sql: str) -> None:
        self.catalog, self.dialect, self.sql = catalog, dialect, sql
        self.types: dict[str, str] = {}
        self._names: set[str] = set()

    def error(self, message: str, node: exp.Expression | None, hint: str) -> SqlError:
        """Return an error that shows the place of `node`."""
        line, column = place(node, self.sql)
        return SqlError(message, sql=self.sql, line=line, column=column, hint=hint)

    def refuse(self, what: str, node: exp.Expression | None, hint: str) -> UnsupportedSql:
        line, column = place(node, self.sql)
        return UnsupportedSql(
            f"{what} is not supported in a maintained view", sql=self.sql, line=line, column=column, hint=hint
        )

    def note(self, column: str, kind: str | None) -> None:
        """Remember the certain type of an internal column."""
        if kind is not None:
            self.types[quote(column)] = kind

    def fresh(self, base: str) -> str:
        for n in itertools.count(1):
            name = base if n == 1 else f"{base}#{n}"
            if name not in self._names:
                self._names.add(name)
                return name
        raise AssertionError

    def _refuse_parts(self, node: exp.Expression, known: set[str]) -> None:
        for part, found in node.args.items():
            if part in known or not found:
                continue
            name, hint = _REMEDIES.get(part, (part.strip("_").upper().replace("_", " "), "take it out"))
            first = found[0] if isinstance(found, list) else found
            raise self.refuse(name, first if isinstance(first, exp.Expression) else node, hint)

    # ---- queries ---------------------------------------------------------------------------------------------
    def query(self, query: exp.Query, ctes: Ctes) -> BoundQuery:
        with_ = query.args.get("with_")
        if with_ is not None:
            if with_.args.get("recursive"):
                raise self.refuse("WITH RECURSIVE", with_, "join a fixed number of times")
            for cte in with_.expressions:
                if not isinstance(cte.this, exp.Query):
                    raise self.refuse(f"{cte.this.key.upper()} in WITH", cte, "write a SELECT")
                ctes = {**ctes, cte.alias.lower(): Cte(cte.this, ctes, cte.args.get("alias"))}
        self._refuse_parts(query, _SELECT_PARTS if isinstance(query, exp.Select) else _QUERY_PARTS)
        if isinstance(query, exp.Subquery) and isinstance(query.this, exp.Query):
            return self.query(query.this, ctes)
        if isinstance(query, exp.Union):
            return self._union(query, ctes)
        if isinstance(query, exp.SetOperation):
            hint = "write it with joins: a LEFT JOIN and … IS NULL for EXCEPT, a JOIN for INTERSECT"
            raise self.refuse(query.key.upper(), query, hint)
        if not isinstance(query, exp.Select):
            raise self.refuse(query.key.upper(), query, "write a SELECT")
        return self._select(query, ctes)

    def _union(self, union: exp.Union, ctes: Ctes) -> BoundQuery:
        if union.args.get("by_name"):
            raise self.refuse("BY NAME", union, "list the columns of each branch in one order")
        if union.args.get("distinct"):
            raise self.refuse(
                "UNION", union, "write UNION ALL, and SELECT DISTINCT over it if you need distinct rows"
            )
        branches = self._branches(union, ctes)
        width = len(branches[0].columns)
        for branch in branches:
            if len(branch.columns) != width:
                message = f"UNION ALL of {width} and {len(branch.columns)} columns"
                raise self.error(message, union, "give all branches the same number of columns")
        inputs = []
        for branch in branches:
            items = tuple((self.fresh(f"branch:{name}"), Expr.of(column)) for name, column in branch.columns)
            inputs.append(Project(branch.plan, items))
        names = tuple(self.fresh(f"union:{name}") for name, _ in branches[0].columns)
        shown = tuple(
            (name, internal) for (name, _), internal in zip(branches[0].columns, names, strict=True)
        )
        for n, internal in enumerate(names):
            kinds = {self.types.get(quote(branch.columns[n][1])) for branch in branches}
            if len(kinds) == 1 or kinds <= set(INTEGRAL):
                kind = next(iter(kinds)) if len(kinds) == 1 else max(map(str, kinds), key=INTEGRAL.index)
                self.note(internal, kind)
        return BoundQuery(UnionAll(tuple(inputs), names), shown)

    def _branches(self, query: exp.Expression, ctes: Ctes) -> list[BoundQuery]:
        if isinstance(query, exp.Union) and not query.args.get("distinct") and not query.args.get("with_"):
            self._refuse_parts(query, _QUERY_PARTS)
            return self._branches(query.this, ctes) + self._branches(query.expression, ctes)
        if not isinstance(query, exp.Query):
            raise self.refuse(query.key.upper(), query, "write a SELECT")
        return [self.query(query, ctes)]

    # ---- sources ---------------------------------------------------------------------------------------------
    def source(self, node: exp.Expression, ctes: Ctes) -> Source:
        """Bind one item of FROM."""
        alias = node.args.get("alias")
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            self._refuse_parts(node, {"this", "alias"})
            if not node.alias:
                raise self.error("a subquery in FROM needs a name", node, "write (SELECT …) AS name")
            bound = self.query(node.this, ctes)
            return Source(identifier(alias.this), bound.plan, self._renamed(bound.columns, alias))
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            hint = "FROM takes tables, views and subqueries"
            raise self.refuse(node.sql()[:40], node, hint)
        self._refuse_parts(node, _TABLE_PARTS)
        name = identifier(node.this)
        shown = identifier(alias.this) if alias is not None and alias.this is not None else name
        if name.lower() in ctes and not node.args.get("db"):
            cte = ctes[name.lower()]
            bound = self.query(cte.query, cte.ctes)
            columns = self._renamed(bound.columns, cte.alias)
            return Source(shown, bound.plan, self._renamed(columns, alias))
        found = self._relation(name, shown, node)
        return Source(shown, found.plan, self._renamed(found.columns, alias))

    def _renamed(
        self, columns: tuple[tuple[str, str], ...], alias: exp.TableAlias | None
    ) -> tuple[tuple[str, str], ...]:
        """Return the columns under the names that a list after an alias gives them."""
        given = alias.args.get("columns") if alias is not None else None
        if alias is None or not given:
            return columns
        if len(given) != len(columns):
            message = f"{alias.name} names {len(given)} columns of {len(columns)}"
            raise self.error(message, alias, "give each column a name")
        names = [identifier(part) for part in given]
        twice = next((part for n, part in enumerate(given) if names[n] in names[:n]), None)
        if twice is not None:
            raise self.error(f"two columns are named {twice.name}", twice, "give one of them another name")
        return tuple((name, internal) for name, (_, internal) in zip(names, columns, strict=True))

    def _relation(self, name: str, alias: str, node: exp.Table) -> Source:
        found = self.catalog.relations.get(name) or self.catalog.relations.get(name.lower())
        if (
            found is None
            or found.kind in ("index", "function")
            or name.startswith("_")
            or node.args.get("db")
        ):
            raise self.error(f"there is no table or view {node.sql()}", node, self.catalog.near(name))
        if found.kind == "view":
            statement = parse(found.sql, found.dialect)
            assert isinstance(statement, CreateView)
            inner = _Binder(self.catalog, found.dialect, found.sql)
            inner._names, inner.types = self._names, self.types
            bound = inner.query(inline_functions(statement.query, self.catalog, found.dialect, found.sql), {})
            columns = bound.columns
            if found.renamed:
                shown = (column.name for column in found.columns)
                columns = tuple((n, i) for n, (_, i) in zip(shown, columns, strict=True))
            return Source(alias, bound.plan, columns)
        columns = [column for column in found.columns if not column.name.startswith("_partial")]
        items = tuple((self.fresh(f"{alias}:{column.name}"), column.source) for column in columns)
        for (internal, _), column in zip(items, columns, strict=True):
            self.note(internal, column.type)
        scan = Scan(found.name, items, found.primary_key, found.distribution_key, found.append_only)
        pairs = zip(columns, items, strict=True)
        return Source(alias, scan, tuple((c.name, internal) for c, (internal, _) in pairs if not c.hidden))

    # ---- SELECT ----------------------------------------------------------------------------------------------
    def _select(self, select: exp.Select, ctes: Ctes) -> BoundQuery:
        from_, distinct = select.args.get("from_"), select.args.get("distinct")
        if from_ is None:
            raise self.refuse("SELECT without FROM", select, "read at least one table")
        if distinct is not None and distinct.args.get("on"):
            raise self.refuse("DISTINCT ON", distinct, "use an aggregate such as max")
        scope = Scope(self.sql)
        expressions = Expressions(scope, self.refuse, self.types, self.dialect)
        joins = JoinBuilder(scope, expressions, self.types, self.fresh, self.refuse)
        first = self.source(from_.this, ctes)
        scope.add(first, from_.this)
        steps = [joins.step(join, self.source(join.this, ctes)) for join in select.args.get("joins") or ()]
        where = select.args.get("where")
        parts = conjuncts(where.this) if where is not None else []
        plan = joins.build(first, steps, [joins.condition(part, "WHERE") for part in parts])
        return BoundQuery(*Projection(scope, expressions, self.types, self.fresh).bind(select, plan))
