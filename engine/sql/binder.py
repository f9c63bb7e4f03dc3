"""Query -> bound plan: names are resolved against the catalog, what cannot be maintained is refused with its place."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import sqlglot.expressions as exp

from engine.errors import SqlError, UnsupportedSql
from engine.sql.catalog import Catalog
from engine.sql.expressions import Expressions, conjuncts
from engine.sql.joins import JoinBuilder
from engine.sql.plan import AggCall, Aggregate, Expr, Filter, Node, Project, Scan, UnionAll, quote
from engine.sql.position import place
from engine.sql.prune import prune, push_filter
from engine.sql.scope import Scope, Source
from engine.sql.statements import CreateView, identifier, parse


@dataclass(frozen=True)
class BoundQuery:
    """A plan, and the query's columns as (output name, the plan's column)."""

    plan: Node
    columns: tuple[tuple[str, str], ...]


def bind(query: exp.Query, catalog: Catalog, *, dialect: str, sql: str) -> BoundQuery:
    """Bind a query; raises SqlError or UnsupportedSql with line, column, caret and remedy."""
    bound = _Binder(catalog, dialect, sql).query(query, {})
    needed = {internal for _, internal in bound.columns}
    return replace(bound, plan=prune(bound.plan, needed))


Ctes = Mapping[str, tuple[exp.Query, "Ctes"]]

_REFUSED_PARTS = {
    "order": ("ORDER BY", "a view has no order: put ORDER BY into the SELECT that reads it"),
    "limit": ("LIMIT", "put LIMIT into the SELECT that reads the view"),
    "offset": ("OFFSET", "put OFFSET into the SELECT that reads the view"),
    "qualify": ("QUALIFY", "window functions cannot be maintained yet"),
    "windows": ("WINDOW", "window functions cannot be maintained yet"),
    "laterals": ("LATERAL", "join a subquery in FROM instead"),
    "pivots": ("PIVOT", "write one aggregate with FILTER for each column"),
    "sample": ("TABLESAMPLE", "a sample is not deterministic"),
    "connect": ("CONNECT BY", "recursion cannot be maintained"),
    "into": ("SELECT INTO", "write CREATE MATERIALIZED VIEW … AS"),
}


class _Binder:
    def __init__(self, catalog: Catalog, dialect: str, sql: str) -> None:
        self.catalog, self.dialect, self.sql = catalog, dialect, sql
        self.types: dict[str, str] = {}
        self._names: set[str] = set()
        self._views: list[str] = []

    def refuse(self, what: str, node: exp.Expression | None, hint: str) -> UnsupportedSql:
        line, column = place(node, self.sql)
        return UnsupportedSql(
            f"{what} is not supported in a maintained view", sql=self.sql, line=line, column=column, hint=hint
        )

    def fresh(self, base: str) -> str:
        for n in itertools.count(1):
            name = base if n == 1 else f"{base}#{n}"
            if name not in self._names:
                self._names.add(name)
                return name
        raise AssertionError

    # ---- queries ---------------------------------------------------------------------------------------------
    def query(self, query: exp.Query, ctes: Ctes) -> BoundQuery:
        with_ = query.args.get("with_") or query.args.get("with")
        if with_ is not None:
            if with_.args.get("recursive"):
                raise self.refuse("WITH RECURSIVE", with_, "recursion cannot be maintained")
            for cte in with_.expressions:
                if isinstance(cte.this, exp.Query):
                    ctes = {**ctes, cte.alias.lower(): (cte.this, ctes)}
        for part, (name, hint) in _REFUSED_PARTS.items():
            if query.args.get(part):
                found = query.args[part]
                raise self.refuse(name, found[0] if isinstance(found, list) else found, hint)
        if isinstance(query, exp.Subquery):
            return self.query(query.this, ctes)
        if isinstance(query, exp.Union):
            return self._union(query, ctes)
        if isinstance(query, exp.SetOperation):
            raise self.refuse(query.key.upper(), query, "write it with joins, or UNION ALL")
        if not isinstance(query, exp.Select):
            raise self.refuse(query.key.upper(), query, "write a SELECT")
        return self._select(query, ctes)

    def _union(self, union: exp.Union, ctes: Ctes) -> BoundQuery:
        if union.args.get("distinct"):
            raise self.refuse(
                "UNION", union, "write UNION ALL, and SELECT DISTINCT over it if you need distinct rows"
            )
        branches = self._branches(union, ctes)
        width = len(branches[0].columns)
        for branch in branches:
            if len(branch.columns) != width:
                line, column = place(union, self.sql)
                raise SqlError(
                    f"UNION ALL of {width} and {len(branch.columns)} columns",
                    sql=self.sql,
                    line=line,
                    column=column,
                    hint="give all branches the same number of columns",
                )
        inputs = []
        for branch in branches:
            items = tuple((self.fresh(f"branch:{name}"), Expr.of(column)) for name, column in branch.columns)
            inputs.append(Project(branch.plan, items))
        names = tuple(self.fresh(f"union:{name}") for name, _ in branches[0].columns)
        shown = tuple(
            (name, internal) for (name, _), internal in zip(branches[0].columns, names, strict=True)
        )
        return BoundQuery(UnionAll(tuple(inputs), names), shown)

    def _branches(self, query: exp.Expression, ctes: Ctes) -> list[BoundQuery]:
        if (
            isinstance(query, exp.Union)
            and not query.args.get("distinct")
            and not (query.args.get("with_") or query.args.get("with"))
        ):
            return self._branches(query.this, ctes) + self._branches(query.expression, ctes)
        assert isinstance(query, exp.Query)
        return [self.query(query, ctes)]

    # ---- sources ---------------------------------------------------------------------------------------------
    def source(self, node: exp.Expression, ctes: Ctes) -> Source:
        """Bind one item of FROM."""
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self.refuse("a column list after an alias", alias, "name the columns inside the subquery")
        if isinstance(node, exp.Subquery):
            if not node.alias:
                raise SqlError(
                    "a subquery in FROM needs a name",
                    sql=self.sql,
                    line=place(node, self.sql)[0],
                    column=place(node, self.sql)[1],
                    hint="write (SELECT …) AS name",
                )
            bound = self.query(node.this, ctes)
            return Source(node.alias.lower(), bound.plan, bound.columns)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise self.refuse(node.sql()[:40], node, "FROM takes tables, views and subqueries")
        for part in ("sample", "pivots", "version", "joins", "laterals"):
            if node.args.get(part):
                raise self.refuse(part.upper(), node, "take it out")
        name = identifier(node.this)
        shown = identifier(alias.this) if alias is not None else name
        if name in ctes and not node.args.get("db"):
            bound = self.query(*ctes[name])
            return Source(shown, bound.plan, bound.columns)
        return self._relation(name, shown, node)

    def _relation(self, name: str, alias: str, node: exp.Table) -> Source:
        line, column = place(node, self.sql)
        found = self.catalog.relations.get(name)
        if found is None or found.kind == "index" or node.args.get("db"):
            raise SqlError(
                f"there is no table or view {node.sql()}",
                sql=self.sql,
                line=line,
                column=column,
                hint=self.catalog.near(name),
            )
        if found.kind == "view":
            statement = parse(found.sql, found.dialect)
            assert isinstance(statement, CreateView)
            inner = _Binder(self.catalog, found.dialect, found.sql)
            inner._names, inner.types = self._names, self.types
            bound = inner.query(statement.query, {})
            return Source(alias, bound.plan, bound.columns)
        items = tuple(
            (self.fresh(f"{alias}:{c.name}"), c.name)
            for c in found.columns
            if not c.name.startswith("_partial")
        )
        self.types.update(
            (internal, next(c.type for c in found.columns if c.name == name)) for internal, name in items
        )
        scan = Scan(found.name, items, found.primary_key, found.distribution_key, found.append_only)
        hidden = {c.name for c in found.columns if c.hidden}
        return Source(alias, scan, tuple((name, internal) for internal, name in items if name not in hidden))

    # ---- SELECT ----------------------------------------------------------------------------------------------
    def _select(self, select: exp.Select, ctes: Ctes) -> BoundQuery:
        from_ = select.args.get("from_") or select.args.get("from")
        if from_ is None:
            raise self.refuse("SELECT without FROM", select, "read at least one table")
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise self.refuse("DISTINCT ON", distinct, "use an aggregate such as max")
        scope = Scope(self.sql)
        first = self.source(from_.this, ctes)
        scope.add(first, from_.this)
        expressions = Expressions(scope, self.refuse)
        where = select.args.get("where")
        pending = conjuncts(where.this) if where is not None else []
        joins = JoinBuilder(scope, expressions, self.types, self.fresh, self.refuse)
        plan = first.plan
        for join in select.args.get("joins") or ():
            plan = joins.add(plan, join, self.source(join.this, ctes), pending)
        for condition in pending:
            plan = push_filter(plan, expressions.scalar(condition, "WHERE"))
        return self._projection(select, plan, scope, expressions, distinct is not None)

    def _projection(
        self, select: exp.Select, plan: Node, scope: Scope, expressions: Expressions, distinct: bool
    ) -> BoundQuery:
        items = self._items(select, scope)
        for _, item in items:
            expressions.refuse_subqueries(item)
        group, having = select.args.get("group"), select.args.get("having")
        grouped = (
            group is not None or having is not None or any(expressions.has_aggregate(e) for _, e in items)
        )
        if grouped:
            plan, bound, having_expr = self._aggregate(plan, scope, expressions, items, group, having)
            if having_expr is not None:
                plan = Filter(plan, having_expr)
        else:
            bound = [(name, expressions.scalar(e, "SELECT")) for name, e in items]
        named = tuple((self.fresh(f"out:{name}"), expr) for name, expr in bound)
        columns = tuple((name, internal) for (name, _), (internal, _) in zip(bound, named, strict=True))
        for internal, expr in named:
            if expr.column in self.types:
                self.types[internal] = self.types[expr.column]
        projected: Node = Project(plan, named)
        if distinct:
            keys = tuple((self.fresh(f"distinct:{name}"), Expr.of(internal)) for name, internal in columns)
            projected = Aggregate(projected, keys, ())
            columns = tuple((name, key) for (name, _), (key, _) in zip(columns, keys, strict=True))
        return BoundQuery(projected, columns)

    def _items(self, select: exp.Select, scope: Scope) -> list[tuple[str, exp.Expression]]:
        items: list[tuple[str, exp.Expression]] = []
        explicit: dict[str, exp.Expression] = {}
        for n, item in enumerate(select.expressions, 1):
            if item.is_star and isinstance(item, exp.Star | exp.Column):
                if item.find(exp.Star).args.get("except_") or item.find(exp.Star).args.get("except"):
                    raise self.refuse("* EXCEPT", item, "list the columns")
                alias = identifier(item.args["table"]) if isinstance(item, exp.Column) else None
                for name, internal in scope.star(alias, item):
                    column = exp.Column(this=exp.Identifier(this=internal, quoted=True))
                    column.meta["bound"] = True
                    self._taken(name, item, explicit, scope)
                    items.append((name, column))
                continue
            if isinstance(item, exp.Alias):
                name, inner = identifier(item.args["alias"]), item.this
                self._taken(name, item, explicit, scope)
            elif isinstance(item, exp.Column):
                name, inner = identifier(item.this), item
                self._taken(name, item, explicit, scope)
            else:
                inner = item
                base = item.sql(dialect="spark").split("(")[0].strip().lower()
                base = base if base.isidentifier() and base not in ("cast", "case") else f"column_{n}"
                used = {other for other, _ in items}
                tries = itertools.chain((base,), (f"{base}_{i}" for i in itertools.count(2)))
                name = next(candidate for candidate in tries if candidate not in used)
            items.append((name, inner))
        return items

    def _taken(
        self, name: str, node: exp.Expression, explicit: dict[str, exp.Expression], scope: Scope
    ) -> None:
        if name in explicit:
            raise scope.error(f"two columns are named {name}", node, "give one of them another name with AS")
        if name.startswith("_"):
            raise scope.error(
                f"names that start with _ are the system's own: {name}", node, "choose another name with AS"
            )
        explicit[name] = node

    # ---- GROUP BY --------------------------------------------------------------------------------------------
    def _aggregate(
        self,
        plan: Node,
        scope: Scope,
        expressions: Expressions,
        items: list[tuple[str, exp.Expression]],
        group: exp.Group | None,
        having: exp.Having | None,
    ) -> tuple[Node, list[tuple[str, Expr]], Expr | None]:
        keys: dict[str, str] = {}
        key_exprs: list[tuple[str, Expr]] = []
        for node in self._group_nodes(group, items, scope, expressions):
            expr = expressions.scalar(node, "GROUP BY")
            if expr.sql not in keys:
                name = self.fresh(f"group:{expr.column or len(keys)}")
                keys[expr.sql] = name
                key_exprs.append((name, expr))
                if expr.column in self.types:
                    self.types[name] = self.types[expr.column]
        calls: dict[str, AggCall] = {}
        bound = [(name, self._over_groups(e, expressions, keys, calls, scope)) for name, e in items]
        having_expr = None
        if having is not None:
            aliases = {name: e for name, e in items}
            condition = having.this.transform(lambda n: _replace_alias(n, aliases, scope))
            having_expr = self._over_groups(condition, expressions, keys, calls, scope)
        return Aggregate(plan, tuple(key_exprs), tuple(calls.values())), bound, having_expr

    def _group_nodes(
        self,
        group: exp.Group | None,
        items: list[tuple[str, exp.Expression]],
        scope: Scope,
        expressions: Expressions,
    ) -> list[exp.Expression]:
        if group is None:
            return []
        for part in ("grouping_sets", "rollup", "cube"):
            if group.args.get(part):
                raise self.refuse(
                    part.upper().replace("_", " "), group.args[part][0], "UNION ALL one GROUP BY for each set"
                )
        if group.args.get("all"):
            return [e for _, e in items if not expressions.has_aggregate(e)]
        nodes = []
        for node in group.expressions:
            if isinstance(node, exp.Literal) and not node.is_string:
                position = int(node.name)
                if not 1 <= position <= len(items):
                    raise scope.error(f"GROUP BY {position}: the SELECT list has {len(items)} columns", node)
                node = items[position - 1][1]
            elif isinstance(node, exp.Column) and not node.args.get("table"):
                node = _replace_alias(node, dict(items), scope)
            if isinstance(node, exp.Cube | exp.Rollup | exp.GroupingSets):
                raise self.refuse(type(node).__name__.upper(), node, "UNION ALL one GROUP BY for each set")
            if expressions.has_aggregate(node):
                raise scope.error("GROUP BY of an aggregate", node, "group by columns or expressions of them")
            nodes.append(node)
        return nodes

    def _over_groups(
        self,
        node: exp.Expression,
        expressions: Expressions,
        keys: Mapping[str, str],
        calls: dict[str, AggCall],
        scope: Scope,
    ) -> Expr:
        """Bind an expression over groups: group keys and aggregate calls become columns of the Aggregate."""

        def rewrite(part: exp.Expression) -> exp.Expression:
            if expressions.is_call(part):
                call = expressions.call(part)
                found = calls.get(call.sql)
                if found is None:
                    found = calls[call.sql] = AggCall(self.fresh(f"agg:{call.function}"), *_rest(call))
                return _bound(found.name)
            if not expressions.has_aggregate(part):
                text = expressions.scalar(part, "SELECT").sql
                if text in keys:
                    return _bound(keys[text])
            if isinstance(part, exp.Column):
                raise scope.error(
                    f"{part.sql()} is neither grouped nor inside an aggregate",
                    part,
                    "add it to GROUP BY, or aggregate it, e.g. max",
                )
            copy = part.copy()
            for key, value in part.args.items():
                if isinstance(value, exp.Expression):
                    copy.set(key, rewrite(value))
                elif isinstance(value, list):
                    copy.set(key, [rewrite(v) if isinstance(v, exp.Expression) else v for v in value])
            return copy

        return expressions.printed(rewrite(node))


def _rest(call: AggCall) -> tuple[str, tuple[Expr, ...], bool, Expr | None]:
    return call.function, call.arguments, call.distinct, call.where


def _bound(name: str) -> exp.Column:
    column = exp.Column(this=exp.Identifier(this=name, quoted=True))
    column.meta["bound"] = True
    return column


def _replace_alias(node: exp.Expression, items: Mapping[str, exp.Expression], scope: Scope) -> exp.Expression:
    """Return what an alias of the SELECT list stands for, unless a source has a column of that name."""
    if not isinstance(node, exp.Column) or node.args.get("table"):
        return node
    name = identifier(node.this)
    if any(name == visible for source in scope.sources for visible, _ in source.columns):
        return node
    return items.get(name, node).copy()


__all__ = ["BoundQuery", "bind", "quote"]
