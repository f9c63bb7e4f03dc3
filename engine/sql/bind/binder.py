"""Query -> bound plan: names are resolved against the catalog, what cannot be maintained is refused with its place."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlglot.expressions as exp

from engine.errors import SqlError, UnsupportedSql
from engine.sql.bind.clock_places import check_clock
from engine.sql.bind.expressions import Expressions, conjuncts
from engine.sql.bind.from_items import Cte, Ctes, FromItems, Item
from engine.sql.bind.joins import JoinBuilder, Step
from engine.sql.bind.operands import apart
from engine.sql.bind.ordering import limits, order_items, output_position, two_outputs
from engine.sql.bind.projection import Projection
from engine.sql.bind.scope import Scope, Source
from engine.sql.bind.set_operations import SetOperations
from engine.sql.bind.subqueries import Subqueries
from engine.sql.bind.time_windows import TimeWindows
from engine.sql.bind.values_rows import constant_rows
from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.expression.nodes import Literal
from engine.sql.parsing.arrival import is_at_arrival, without_moment
from engine.sql.parsing.names import item_name
from engine.sql.parsing.position import place
from engine.sql.plan import Filter, Node, Project, Values
from engine.sql.rewrites.contract import QueryText
from engine.sql.rewrites.equalities import Equalities
from engine.sql.rewrites.join_keys import JoinKeys
from engine.sql.rewrites.rules import rewritten, written_out


@dataclass(frozen=True)
class BoundQuery:
    """A plan, the query's columns as (output name, the plan's column), which rewrites were made and why.

    `types` are the certain types of the plan's columns.
    """

    plan: Node
    columns: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)

    def is_quoted(self, column: str) -> bool:
        """Tell whether a column of the plan is a text in quotes, which PostgreSQL reads as what stands beside it."""
        if isinstance(self.plan, Values):
            return True  # it may hold them
        if not isinstance(self.plan, Project):
            return False
        value = dict(self.plan.items).get(column)
        return isinstance(value, Literal) and value.kind == "string"


def bind(
    query: exp.Query, catalog: Catalog, *, dialect: Dialect, sql: str, named: bool = False
) -> BoundQuery:
    """Bind a query; raises SqlError or UnsupportedSql with line, column, caret and remedy.

    Two columns of one name are an error unless they are `named` by a list beside the query.
    """
    bound = bound_as_written(query, catalog, dialect=dialect, sql=sql)
    if not named:
        _refuse_two_of_a_name(query, bound, sql)
    plan = rewritten(bound.plan, {internal for _, internal in bound.columns})
    check_clock(plan, sql)
    return replace(bound, plan=plan)


def bound_as_written(query: exp.Query, catalog: Catalog, *, dialect: Dialect, sql: str) -> BoundQuery:
    """Bind a query without the rules of plans: each filter stands where it was written; raises as `bind` does."""
    binder = _Binder(catalog, dialect, sql)
    bound = binder.query(written_out(query.copy(), QueryText(catalog, dialect, sql)), {}, None)
    return replace(bound, notes=tuple(binder.notes), types=binder.types)


def _refuse_two_of_a_name(query: exp.Query, bound: BoundQuery, sql: str) -> None:
    names = [name.lower() for name, _ in bound.columns]
    twice = next((n for n, name in enumerate(names) if name in names[:n]), None)
    if twice is None:
        return
    first: exp.Expr = query
    while not isinstance(first, exp.Select) and isinstance(first.this, exp.Expr):
        first = first.this
    items = list(first.expressions) if isinstance(first, exp.Select) else []
    named = [item for item in items if item.output_name.lower() == names[twice]]
    stars = [item for item in items if item.is_star]
    line, column = place(next(reversed([*stars, *named]), query), sql)
    message = f"two columns are named {bound.columns[twice][0]}"
    hint = "give one of them another name with AS"
    raise SqlError(message, sql=sql, line=line, column=column, hint=hint)


_MOST_QUERIES = 3000
_REMEDIES = {
    "sort": ("SORT BY", "a view has no order: put ORDER BY into the SELECT that reads it"),
    "pivots": ("PIVOT", "write one aggregate with FILTER for each column"),
    "unpivot": ("UNPIVOT", "write one SELECT for each column, with UNION ALL between them"),
    "sample": ("TABLESAMPLE", "a sample is another one each time: take a WHERE condition on a column"),
    "connect": ("CONNECT BY", "recursion is not maintained: join a fixed number of times"),
    "into": ("SELECT INTO", "write CREATE MATERIALIZED VIEW … AS"),
    "version": (
        "FOR SYSTEM_TIME AS OF",
        "a view follows the newest content of its inputs; to join rows with a table as it is when they come, write "
        "JOIN t FOR SYSTEM_TIME AS OF PROCTIME() ON …; with the row of the time nearest before theirs, write "
        "ASOF JOIN t ON a.key = t.key AND a.ts >= t.ts",
    ),
    "when": ("FOR SYSTEM_TIME AS OF", "a view follows the newest content of its inputs"),
    "joins": ("a join in parentheses", "write the joins one after the other, or (SELECT …) AS name"),
    "by_name": ("BY NAME", "list the columns of each branch in one order"),
    "locks": ("FOR UPDATE", "a view reads a version that nobody changes"),
}
_QUERY_PARTS = {
    *("with_", "this", "expression", "expressions", "alias", "distinct", "order", "limit", "offset"),
}
_SELECT_PARTS = {
    *("from_", "joins", "laterals", "where", "group", "having", "hint", "windows", "qualify"),
    *_QUERY_PARTS,
}


class _Binder:
    def __init__(self, catalog: Catalog, dialect: Dialect, sql: str) -> None:
        self.catalog, self.dialect, self.sql = catalog, dialect, sql
        self.types: dict[str, str] = {}
        self.known: set[str] = set()
        self.equalities = Equalities()
        self.notes: list[str] = []
        self._names: set[str] = set()
        self._bound = [0]  # queries, those of WITH items and plain views once for each mention

    def of_view(self, relation: Relation) -> _Binder:
        """Return a binder for the text of a plain view, which shares all names with this one."""
        inner = _Binder(self.catalog, relation.dialect, relation.sql)
        inner._names, inner._bound, inner.types = self._names, self._bound, self.types
        inner.known, inner.equalities, inner.notes = self.known, self.equalities, self.notes
        return inner

    def error(self, message: str, node: exp.Expr | None, hint: str) -> SqlError:
        """Return an error that shows the place of `node`."""
        line, column = place(node, self.sql)
        return SqlError(message, sql=self.sql, line=line, column=column, hint=hint)

    def refuse(self, what: str, node: exp.Expr | None, hint: str) -> UnsupportedSql:
        line, column = place(node, self.sql)
        return UnsupportedSql(
            f"{what} is not supported in a maintained view", sql=self.sql, line=line, column=column, hint=hint
        )

    def note(self, column: str, kind: str | None) -> None:
        """Remember the certain type of an internal column."""
        if kind is not None:
            self.types[column] = kind

    def fresh(self, base: str) -> str:
        for n in itertools.count(1):
            name = base if n == 1 else f"{base}#{n}"
            if name not in self._names:
                self._names.add(name)
                return name
        raise AssertionError

    def refuse_parts(self, node: exp.Expr, known: set[str]) -> None:
        """Refuse every part of a node that is not known."""
        for part, found in node.args.items():
            if part in known or not found:
                continue
            first = found[0] if isinstance(found, list) else found
            if isinstance(first, exp.Pivot) and first.args.get("unpivot"):
                part = "unpivot"
            name, hint = _REMEDIES.get(part, (part.strip("_").upper().replace("_", " "), "take it out"))
            raise self.refuse(name, first if isinstance(first, exp.Expr) else node, hint)

    # ---- queries ---------------------------------------------------------------------------------------------
    def query(self, query: exp.Expr, ctes: Ctes, outer: Scope | None) -> BoundQuery:
        """Bind a query inside the scope `outer`, whose columns it may read."""
        self._bound[0] += 1
        if self._bound[0] > _MOST_QUERIES:
            what = (
                f"a query that comes to more than {_MOST_QUERIES} with its WITH items and views written out,"
            )
            hint = "make materialized views of the parts that are read often"
            raise self.refuse(what, query, hint)
        with_ = query.args.get("with_")
        if with_ is not None:
            if with_.args.get("recursive"):
                raise self.refuse("WITH RECURSIVE", with_, "join a fixed number of times")
            for cte in with_.expressions:
                if not isinstance(cte.this, exp.Query | exp.Values):
                    raise self.refuse(f"{cte.this.key.upper()} in WITH", cte, "write a SELECT")
                ctes = {**ctes, item_name(cte): Cte(cte.this, ctes, cte.args.get("alias"), outer)}
        self.refuse_parts(query, _SELECT_PARTS if isinstance(query, exp.Select) else _QUERY_PARTS)
        match query:
            case exp.Select():
                return self._select(query, ctes, outer)
            case exp.Subquery() if isinstance(query.this, exp.Query | exp.Values):
                return self._limited(query, self.query(query.this, ctes, outer))
            case exp.Values():
                scope = Scope(self.sql, outer=outer)
                expressions = self._expressions(scope, ctes)
                return self._limited(query, BoundQuery(*constant_rows(query, expressions, self.fresh)))
            case exp.SetOperation():
                return self._limited(query, self._set_operation(query, ctes, outer))
        raise self.refuse(query.key.upper(), query, "write a SELECT")

    def _set_operation(self, query: exp.SetOperation, ctes: Ctes, outer: Scope | None) -> BoundQuery:
        rule = SetOperations(self.types, self.fresh)
        word = query.key.upper() + (" ALL" if not query.args.get("distinct") else "")
        if word != "UNION ALL":
            self.notes.append(f"{word}: the groups of a UNION ALL whose rows are counted by side")
        every = not query.args.get("distinct")
        if isinstance(query, exp.Union):
            branches = self._branches(query, every, ctes, outer)
            self._refuse_unlike(query, branches)
            return BoundQuery(*rule.union([(b.plan, b.columns) for b in branches], not every))
        left, right = (self.query(side, ctes, outer) for side in (query.this, query.expression))
        self._refuse_unlike(query, [left, right])
        combine = rule.intersect if isinstance(query, exp.Intersect) else rule.difference
        return BoundQuery(*combine((left.plan, left.columns), (right.plan, right.columns), every))

    def _refuse_unlike(self, query: exp.SetOperation, branches: list[BoundQuery]) -> None:
        width = len(branches[0].columns)
        for branch in branches:
            if len(branch.columns) != width:
                word = "UNION" if isinstance(query, exp.Union) else query.key.upper()
                every = "" if query.args.get("distinct") else " ALL"
                message = f"{word}{every} of {width} and {len(branch.columns)} columns"
                raise self.error(message, query, "give all branches the same number of columns")
            for n, (first, its) in enumerate(zip(branches[0].columns, branch.columns, strict=True), 1):
                one, other = (self.types.get(internal) for _, internal in (first, its))
                quoted = branches[0].is_quoted(first[1]) or branch.is_quoted(its[1])
                if apart(one, other, lenient=quoted or self.dialect == "spark"):
                    message = (
                        f"column {n} is {one} in one branch of {query.key.upper()} and {other} in another"
                    )
                    raise self.error(message, query, "CAST one of them to the other's type")

    def _branches(self, query: exp.Expr, every: bool, ctes: Ctes, outer: Scope | None) -> list[BoundQuery]:
        """Return the branches of UNIONs of one kind in a row."""
        plain = not any(query.args.get(part) for part in ("with_", "order", "limit", "offset"))
        top = query.parent is None or not isinstance(query.parent, exp.Union)
        if isinstance(query, exp.Union) and bool(query.args.get("distinct")) != every and (plain or top):
            self.refuse_parts(query, _QUERY_PARTS)
            return [
                branch
                for side in (query.this, query.expression)
                for branch in self._branches(side, every, ctes, outer)
            ]
        return [self.query(query, ctes, outer)]

    def _limited(self, query: exp.Expr, bound: BoundQuery) -> BoundQuery:
        """Apply ORDER BY and LIMIT that stand after a whole query; they know its output columns only."""
        scope = Scope(self.sql)
        names = [name for name, _ in bound.columns]
        keys = []
        for item in order_items(query.args.get("order"), self.dialect):
            position = output_position(item.node, names, scope)
            if position is None:
                hint = f"the output columns are {', '.join(names)}"
                raise self.error(f"ORDER BY {item.node.sql()}: no output column", item.node, hint)
            if isinstance(item.node, exp.Column) and names.count(names[position]) > 1:
                raise two_outputs(item.node, scope)
            keys.append(item.key(bound.columns[position][1]))
        rows = limits(query, self.refuse)
        self.notes += [note for note in rows.notes(bool(keys)) if note not in self.notes]
        return replace(bound, plan=rows.over(bound.plan, tuple(keys), self.fresh))

    # ---- SELECT ----------------------------------------------------------------------------------------------
    def _expressions(self, scope: Scope, ctes: Ctes) -> Expressions:
        keys = JoinKeys(self.types, self.fresh, self.sql, self.notes)
        subqueries = Subqueries(scope, keys, self.equalities, self.known, lambda q, s: self.query(q, ctes, s))
        return Expressions(scope, self.refuse, self.types, self.dialect, subqueries)

    def _select(self, select: exp.Select, ctes: Ctes, outer: Scope | None) -> BoundQuery:
        scope = Scope(self.sql, outer=outer)
        expressions = self._expressions(scope, ctes)
        joins = JoinBuilder(scope, expressions, expressions.subqueries.keys, self.equalities, self.refuse)
        first, steps = self._from(select, FromItems(self, scope, expressions, ctes), joins)
        where = select.args.get("where")
        parts = conjuncts(where.this) if where is not None else []
        plain = [joins.condition(part, "WHERE") for part in parts if not expressions.has_subquery(part)]
        plan = joins.build(first, steps, plain)
        for part in (*joins.deferred, *(part for part in parts if expressions.has_subquery(part))):
            plan = self._with_subquery(plan, part, expressions)
        select, plan = TimeWindows(expressions, self.fresh).bind(select, plan)
        return BoundQuery(*Projection(scope, expressions, self.types, self.fresh).bind(select, plan))

    def _from(self, select: exp.Select, items: FromItems, joins: JoinBuilder) -> tuple[Source, list[Step]]:
        from_ = select.args.get("from_")
        if from_ is None:
            return Source("", Values((), ((),), self.fresh("values:row")), ()), []
        first, steps = self._joins(from_.this, select.args.get("joins") or (), items, joins)
        for lateral in select.args.get("laterals") or ():
            item = items.item(lateral)
            steps.append(joins.step(exp.Join(this=lateral, kind="CROSS"), item.source, item.apply))
        return first, steps

    def _joins(
        self, first: exp.Expr, following: Sequence[exp.Join], items: FromItems, joins: JoinBuilder
    ) -> tuple[Source, list[Step]]:
        """Bind the first item and what is joined with it; a join in parentheses is one item under the names inside."""
        inner = _parenthesised(first)
        if inner is not None:
            source, steps = self._joins(_without_joins(inner), inner.args["joins"], items, joins)
        else:
            source, steps = items.item(first).source, []
            items.scope.add(source, first)
        for join in following:
            inner = _parenthesised(join.this)
            if inner is None:
                item = self._joined(items, join)
            else:
                nested = self._joins(_without_joins(inner), inner.args["joins"], items, joins)
                item = Item(Source("", joins.build(*nested, ()), ()))
            steps.append(joins.step(join, item.source, item.apply, at_arrival=is_at_arrival(join.this)))
        return source, steps

    def _joined(self, items: FromItems, join: exp.Join) -> Item:
        left = str(join.args.get("side") or "").upper() == "LEFT"
        joined = without_moment(join.this) if is_at_arrival(join.this) else join.this
        item = items.item(joined, outer=left)
        side = str(join.args.get("side") or "").upper()
        if item.apply is None or side == "" or (side == "LEFT" and self._is_true(join.args.get("on"))):
            return item
        hint = "write CROSS JOIN, or LEFT JOIN … ON TRUE"
        raise self.refuse(f"{side} JOIN of a table function with a condition", join.this, hint)

    @staticmethod
    def _is_true(on: exp.Expr | None) -> bool:
        return on is None or (isinstance(on, exp.Boolean) and bool(on.this))

    def _with_subquery(self, plan: Node, part: exp.Expr, expressions: Expressions) -> Node:
        """Apply a conjunct of WHERE that holds a subquery."""
        apply = expressions.subqueries.condition(part)
        if apply is not None:
            return apply(plan)
        predicate = expressions.scalar(part, "WHERE")
        return Filter(expressions.subqueries.attach(plan), predicate)


def _parenthesised(node: exp.Expr) -> exp.Table | None:
    """Return the first table of a join in parentheses, with its joins, or None."""
    if not isinstance(node, exp.Subquery) or node.args.get("alias") is not None:
        return None
    inner = node.this
    return inner if isinstance(inner, exp.Table) and inner.args.get("joins") else None


def _without_joins(table: exp.Table) -> exp.Table:
    alone = table.copy()
    alone.set("joins", None)
    return alone
