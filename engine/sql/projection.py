"""The SELECT list, GROUP BY and HAVING of one query over the plan of its FROM."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
import sqlglot.expressions as exp

from engine.sql.aggregates import Aggregates
from engine.sql.expression_types import call_type
from engine.sql.expressions import Expressions, bound_column, conjuncts
from engine.sql.functions import function_name
from engine.sql.generators import expand_generators
from engine.sql.names import identifier
from engine.sql.ordering import Limits, OrderItem, limits, order_items, output_position
from engine.sql.plan import AggCall, Aggregate, Expr, Node, Project, SortKey, TopN, quote
from engine.sql.position import copy_place
from engine.sql.pushdown import push_filter
from engine.sql.rewrites.free import free_columns, rename_free
from engine.sql.rewrites.grouping_sets import grouping_sets, grouping_sets_of
from engine.sql.rewrites.outer_to_inner import outer_to_inner
from engine.sql.scope import Scope
from engine.sql.subqueries import is_subquery

Items = list[tuple[str, exp.Expression]]
Columns = tuple[tuple[str, str], ...]


@dataclass
class Groups:
    """What one GROUP BY computes: the names of its keys and calls by their text, and the subqueries over its rows."""

    keys: Mapping[str, str]
    aggregates: Aggregates
    number: str | None = None
    calls: dict[str, AggCall] = field(default_factory=dict)
    pending: list[Callable[[Node], Node]] = field(default_factory=list)
    nodes: list[tuple[exp.Expression, str]] = field(default_factory=list)

    def key_of(self, node: exp.Expression) -> str | None:
        """Return the key that a subquery is grouped by: it is bound once, so its text tells nothing."""
        return next((name for key, name in self.nodes if key == node), None)


@dataclass
class Projection:
    """Binds what one SELECT computes; `types` are the certain types of printed expressions."""

    scope: Scope
    expressions: Expressions
    types: dict[str, str]
    fresh: Callable[[str], str]
    grouped: bool = False

    def bind(self, select: exp.Select, plan: Node) -> tuple[Node, Columns]:
        """Return the plan of the whole SELECT over the plan of its FROM and WHERE, and its columns."""
        items = self._items(select)
        group, having = select.args.get("group"), select.args.get("having")
        order = order_items(select.args.get("order"), self.expressions.dialect)
        for _, item in items:
            self.expressions.check(item)
        if having is not None:
            self.expressions.check(having.this)
        calls = any(self.expressions.has_aggregate(item) for _, item in items)
        distinct, rows = select.args.get("distinct"), limits(select, self.expressions.refuse)
        by = self._order_nodes(order, items)
        self.grouped = group is not None or having is not None or calls
        if self.grouped:
            plan, bound, sorted_by = self._grouped(plan, items, group, having, by)
        else:
            bound = [(name, self.expressions.scalar(item, "SELECT")) for name, item in items]
            sorted_by = [self.expressions.scalar(node, "ORDER BY") for node in by]
            plan = self.expressions.subqueries.attach(plan)
        named = tuple((self.fresh(f"out:{name}"), expr) for name, expr in bound)
        columns = tuple((name, internal) for (name, _), (internal, _) in zip(bound, named, strict=True))
        for internal, expr in named:
            self._note(internal, self.types.get(expr.sql))
        if distinct is not None and distinct.args.get("on") is not None:
            return self._first_of_each(
                plan, named, order, sorted_by, distinct.args["on"], items, rows
            ), columns
        if distinct is not None:
            return self._distinct(Project(plan, named), columns, named, order, sorted_by, rows)
        if not rows:
            return Project(plan, named), columns
        plan, keys = self._sorted(plan, named, order, sorted_by)
        return rows.over(plan, keys), columns

    def _order_nodes(self, order: list[OrderItem], items: Items) -> list[exp.Expression]:
        """Return what each item of ORDER BY orders by: an output column's expression, or its own."""
        names = {name: n for n, (name, _) in enumerate(items)}
        found = []
        for item in order:
            position = output_position(item.node, names, self.scope)
            node = item.node if position is None else items[position][1]
            self.expressions.check(node)
            found.append(node)
        return found

    def _sorted(
        self,
        plan: Node,
        named: tuple[tuple[str, Expr], ...],
        order: list[OrderItem],
        sorted_by: list[Expr],
    ) -> tuple[Node, tuple[SortKey, ...]]:
        """Return the projection with a column for each item of ORDER BY, and those columns as an order."""
        known = {expr.sql: internal for internal, expr in named}
        extra: list[tuple[str, Expr]] = []
        keys = []
        for item, expr in zip(order, sorted_by, strict=True):
            if expr.sql not in known:
                known[expr.sql] = self.fresh("order")
                extra.append((known[expr.sql], expr))
            keys.append(item.key(known[expr.sql]))
        return Project(plan, named + tuple(extra)), tuple(keys)

    def _first_of_each(
        self,
        plan: Node,
        named: tuple[tuple[str, Expr], ...],
        order: list[OrderItem],
        sorted_by: list[Expr],
        on: exp.Expression,
        items: Items,
        rows: Limits,
    ) -> Node:
        """`SELECT DISTINCT ON (k) … ORDER BY k, x` -> the first row of each k by x."""
        if self.grouped:
            hint = "aggregate in a subquery in FROM first"
            raise self.expressions.refuse("DISTINCT ON beside GROUP BY", on, hint)
        nodes = [self._ordinal(node, items) for node in (on.expressions or [on])]
        groups = [self.expressions.scalar(node, "DISTINCT ON") for node in nodes]
        leading = sorted_by[: len(groups)]
        if order and {expr.sql for expr in leading} != {expr.sql for expr in groups}:
            hint = "let ORDER BY start with the expressions of DISTINCT ON"
            raise self.scope.error("DISTINCT ON does not fit ORDER BY", order[0].node, hint)
        names = [self.fresh("distinct:on") for _ in groups]
        by = tuple(zip(names, groups, strict=True))
        sorted_plan, keys = self._sorted(plan, named + by, order, sorted_by)
        first = TopN(sorted_plan, tuple(names), keys, 1)
        return rows.over(first, keys)

    def _distinct(
        self,
        plan: Node,
        columns: Columns,
        named: tuple[tuple[str, Expr], ...],
        order: list[OrderItem],
        sorted_by: list[Expr],
        rows: Limits,
    ) -> tuple[Node, Columns]:
        keys = tuple((self.fresh(f"distinct:{name}"), Expr.of(internal)) for name, internal in columns)
        for (_, internal), (key, _) in zip(columns, keys, strict=True):
            self._note(key, self.types.get(quote(internal)))
        known = {expr.sql: key for (_, expr), (key, _) in zip(named, keys, strict=True)}
        for item, expr in zip(order, sorted_by, strict=True):
            if expr.sql not in known:
                hint = "add it to the SELECT list"
                raise self.scope.error("DISTINCT is ordered by what it does not select", item.node, hint)
        by = tuple(item.key(known[expr.sql]) for item, expr in zip(order, sorted_by, strict=True))
        found = tuple((n, key) for (n, _), (key, _) in zip(columns, keys, strict=True))
        return rows.over(Aggregate(plan, keys, ()), by), found

    def _note(self, column: str, kind: str | None) -> None:
        if kind is not None:
            self.types[quote(column)] = kind

    # ---- the SELECT list -------------------------------------------------------------------------------------
    def _items(self, select: exp.Select) -> Items:
        found: list[tuple[str | None, exp.Expression]] = []
        taken: set[str] = set()

        def take(name: str, node: exp.Expression, what: exp.Expression) -> None:
            if name.lower() in taken:
                hint = "give one of them another name with AS"
                raise self.scope.error(f"two columns are named {name}", node, hint)
            if name.startswith("_"):
                hint = "choose another name with AS"
                raise self.scope.error(f"names that start with _ are the system's own: {name}", node, hint)
            taken.add(name.lower())
            found.append((name, what))

        for item in expand_generators(select, self.expressions, self.fresh, self._note):
            if isinstance(item, exp.Star | exp.Column) and item.is_star:
                for name, internal in self._star(item):
                    column = copy_place(bound_column(internal), item)
                    column.meta["shown"] = name
                    take(name, item, column)
            elif isinstance(item, exp.Alias):
                take(identifier(item.args["alias"]), item, item.this)
            elif isinstance(item, exp.Column):
                take(identifier(item.this), item, item)
            elif isinstance(item, exp.Dot):
                take(item.name.lower(), item, item)
            else:
                found.append((None, item))
        return [(name or _unused(_name(item, n), taken), item) for n, (name, item) in enumerate(found, 1)]

    def _star(self, item: exp.Expression) -> list[tuple[str, str]]:
        star = item.find(exp.Star)
        if star is not None and any(star.args.values()):
            raise self.expressions.refuse("* EXCEPT, REPLACE or RENAME", item, "list the columns")
        alias = identifier(item.args["table"]) if isinstance(item, exp.Column) else None
        return self.scope.star(alias, item)

    # ---- GROUP BY --------------------------------------------------------------------------------------------
    def _grouped(
        self,
        plan: Node,
        items: Items,
        group: exp.Group | None,
        having: exp.Having | None,
        order: list[exp.Expression],
    ) -> tuple[Node, list[tuple[str, Expr]], list[Expr]]:
        keys: dict[str, str] = {}
        named: list[tuple[str, Expr]] = []
        nodes: list[tuple[exp.Expression, str]] = []

        def take(node: exp.Expression) -> str:
            expr = self.expressions.scalar(node, "GROUP BY")
            if expr.sql not in keys:
                name = self.fresh(f"group:{expr.column or len(keys)}")
                keys[expr.sql] = name
                if self.expressions.has_subquery(node):
                    nodes.append((node, name))
                named.append((name, expr))
                self._note(name, self.types.get(expr.sql))
            return keys[expr.sql]

        sets = grouping_sets_of(group) if group is not None else None
        kept = None
        if sets is not None:
            kept = [{take(node) for part in one for node in self._meant(part, items)} for one in sets]
        for node in self._group_nodes(group, items) if sets is None else ():
            take(node)
        groups = Groups(keys, Aggregates(self.expressions, plan.key), nodes=nodes)
        if kept is not None:
            groups.number = self.fresh("grouping")
            self._note(groups.number, "bigint")
        bound = [(name, self._over_groups(item, groups)) for name, item in items]
        sorted_by = [self._over_groups(node, groups) for node in order]
        conditions = []
        if having is not None:
            aliases = dict(items)
            condition = having.this.transform(lambda node: self._alias_meaning(node, aliases))
            conditions = [self._over_groups(part, groups) for part in conjuncts(condition)]
        plan = self.expressions.subqueries.attach(plan)
        plan = self._aggregate(plan, named, kept, groups)
        for step in groups.pending:
            plan = step(plan)
        for expr in conditions:
            plan = outer_to_inner(push_filter(plan, expr))
        return plan, bound, sorted_by

    def _group_nodes(self, group: exp.Group | None, items: Items) -> list[exp.Expression]:
        if group is None:
            return []
        if group.args.get("totals"):
            raise self.expressions.refuse("WITH TOTALS", group, "write GROUPING SETS ((…), ())")
        if group.args.get("all"):
            return [item for _, item in items if not self.expressions.has_aggregate(item)]
        return [meant for node in group.expressions for meant in self._meant(node, items)]

    def _meant(self, node: exp.Expression, items: Items) -> list[exp.Expression]:
        """Return the expressions that an element of GROUP BY means: those of a list, of an ordinal or of an alias."""
        found = []
        for part in _flat(node):
            meant = self._ordinal(part, items)
            self.expressions.check(meant)
            if self.expressions.has_aggregate(meant):
                hint = "group by columns or expressions of them"
                raise self.scope.error("GROUP BY of an aggregate", part, hint)
            found.append(meant)
        return found

    def _aggregate(
        self, plan: Node, named: list[tuple[str, Expr]], kept: list[set[str]] | None, groups: Groups
    ) -> Node:
        calls = tuple(groups.calls.values())
        if kept is None or groups.number is None:
            return Aggregate(plan, tuple(named), calls)
        keys = self.expressions.subqueries.keys
        whole = self.expressions.dialect != "spark"  # Spark gives no row for the whole of nothing
        return grouping_sets(plan, named, kept, calls, groups.number, keys, whole)

    def _ordinal(self, node: exp.Expression, items: Items) -> exp.Expression:
        if not isinstance(node, exp.Literal) or node.is_string:
            return self._alias_meaning(node, dict(items))
        if not node.name.isdigit() or not 1 <= int(node.name) <= len(items):
            message = f"GROUP BY {node.name}: the SELECT list has {len(items)} columns"
            raise self.scope.error(
                message, node, "GROUP BY a column, or the number of one in the SELECT list"
            )
        return items[int(node.name) - 1][1]

    def _alias_meaning(self, node: exp.Expression, items: Mapping[str, exp.Expression]) -> exp.Expression:
        """Return what an alias of the SELECT list stands for, unless a source has a column of that name."""
        if not isinstance(node, exp.Column) or node.args.get("table") or node.meta.get("bound"):
            return node
        name = identifier(node.this)
        if self.scope.visible(name, self.scope.sources):
            return node
        return items[name].copy() if name in items else node

    def _over_groups(self, node: exp.Expression, groups: Groups) -> Expr:
        """Bind an expression over groups: group keys and aggregate calls become columns of the Aggregate."""

        def rewrite(part: exp.Expression) -> exp.Expression:
            if isinstance(part, exp.Grouping | exp.GroupingId):
                return self._grouping(part, groups)
            if self.expressions.is_call(part):
                return bound_column(self._call(part, groups))
            key = groups.key_of(part)
            if key is not None:
                return bound_column(key)
            if is_subquery(part):
                return self.expressions.subqueries.column(
                    part,
                    lambda outer: self._over_groups(outer, groups),
                    lambda inner: self._renamed(inner, part, groups),
                    groups.pending,
                )
            if not self.expressions.has_aggregate(part) and not self.expressions.has_subquery(part):
                text = self.expressions.scalar(part, "SELECT").sql
                if text in groups.keys:
                    return bound_column(groups.keys[text])
            if isinstance(part, exp.Column):
                name, _ = (part.this.name, ()) if part.meta.get("bound") else self.scope.resolve(part)
                if name in self.scope.outer_columns:
                    return part
                shown = part.meta.get("shown", part.sql())
                hint = "add it to GROUP BY, or aggregate it, e.g. max"
                raise self.scope.error(f"{shown} is neither grouped nor inside an aggregate", part, hint)
            copy = part.copy()
            for key, value in part.args.items():
                if isinstance(value, exp.Expression):
                    copy.set(key, rewrite(value))
                elif isinstance(value, list):
                    copy.set(key, [rewrite(v) if isinstance(v, exp.Expression) else v for v in value])
            return copy

        found = self.expressions.printed(rewrite(node))
        return msgspec.structs.replace(found, position=self.expressions.position(node))

    def _renamed(self, inner: Node, node: exp.Expression, groups: Groups) -> Node:
        """Return the plan of a subquery over groups: it reads group keys where it says the columns they group."""
        mine = {column for source in self.scope.sources for column in source.plan.columns}
        by = {}
        for column in free_columns(inner):
            if column in mine:
                key = groups.keys.get(quote(column))
                if key is None:
                    hint = "add it to GROUP BY"
                    shown = column.partition(":")[2] or column
                    raise self.scope.error(f"the subquery reads {shown}, which is not grouped", node, hint)
                by[column] = Expr.of(key)
        self.expressions.subqueries.equalities.rename(by)
        return rename_free(inner, by)

    def _grouping(self, node: exp.Expression, groups: Groups) -> exp.Expression:
        """`grouping(a, b)` -> the bits of a and b in the number of the grouping set, a's the higher."""
        places = list(groups.keys.values())
        wanted = []
        for argument in node.expressions:
            key = groups.keys.get(self.expressions.scalar(argument, "GROUPING").sql)
            if key is None:
                hint = "name an expression of GROUP BY"
                raise self.scope.error(f"{argument.sql()} is not grouped", argument, hint)
            wanted.append(key)
        if not wanted and isinstance(node, exp.Grouping):
            raise self.scope.error("GROUPING needs an argument", node, "name an expression of GROUP BY")
        if groups.number is None:
            return exp.Cast(this=exp.Literal.number(0), to=exp.DataType.build("INT", dialect="spark"))
        keys = wanted or places
        kind = "BIGINT" if isinstance(node, exp.GroupingId) else "INT"
        total: exp.Expression | None = None
        for n, key in enumerate(keys):
            away = 1 << (len(places) - 1 - places.index(key))
            bit = exp.Mod(
                this=exp.Paren(
                    this=exp.IntDiv(this=bound_column(groups.number), expression=exp.Literal.number(away))
                ),
                expression=exp.Literal.number(2),
            )
            weight = exp.Literal.number(1 << (len(keys) - 1 - n))
            part = exp.Mul(this=exp.Paren(this=bit), expression=weight)
            total = part if total is None else exp.Add(this=total, expression=part)
        return exp.Cast(this=total, to=exp.DataType.build(kind, dialect="spark"))

    def _call(self, node: exp.Expression, groups: Groups) -> str:
        """Return the column of an aggregate call; a call that stands twice is computed once."""
        call, kind = groups.aggregates.bind(node)
        if call.sql not in groups.calls:
            named = msgspec.structs.replace(call, name=self.fresh(f"agg:{call.function}"))
            groups.calls[call.sql] = named
            kinds = [self.types.get(argument.sql) for argument in call.arguments]
            self._note(named.name, kind if call.text is not None else call_type(call.function, kinds))
        return groups.calls[call.sql].name


def _flat(node: exp.Expression) -> list[exp.Expression]:
    if isinstance(node, exp.Paren):
        return _flat(node.this)
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _name(item: exp.Expression, position: int) -> str:
    name = function_name(item.this if isinstance(item, exp.Filter) else item) or ""
    return name if name.isidentifier() and name not in ("cast", "try_cast", "case") else f"column_{position}"


def _unused(base: str, taken: set[str]) -> str:
    tries = itertools.chain((base,), (f"{base}_{n}" for n in itertools.count(2)))
    name = next(candidate for candidate in tries if candidate not in taken)
    taken.add(name)
    return name
