"""Query -> bound plan: names are resolved against the catalog, what cannot be maintained is refused with its place."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sqlglot.expressions as exp

from engine.errors import SqlError, UnsupportedSql
from engine.sql.bind.clock_placement import check_clock
from engine.sql.bind.expressions import ExpressionBinder, split_conjuncts
from engine.sql.bind.from_clause.from_items import Cte, Ctes, FromBinder, FromItem
from engine.sql.bind.from_clause.joins import JoinBuilder, JoinStep
from engine.sql.bind.from_clause.time_windows import TimeWindowBinder
from engine.sql.bind.from_clause.values_rows import bind_values
from engine.sql.bind.operand_checks import are_incompatible
from engine.sql.bind.ordering import (
    build_ambiguity_error,
    find_output_position,
    parse_limits,
    parse_order_items,
)
from engine.sql.bind.projection import ProjectionBinder
from engine.sql.bind.scope import FromSource, Scope
from engine.sql.bind.set_operations import SetOperationBinder
from engine.sql.bind.subqueries import ExpressionSubqueries
from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.expression.nodes import Literal
from engine.sql.parsing.location import locate
from engine.sql.parsing.names import item_name
from engine.sql.parsing.proctime import is_at_proctime, strip_moment
from engine.sql.plan import Filter, Node, Project, Values
from engine.sql.rewrites.binding.equalities import Equalities
from engine.sql.rewrites.binding.join_keys import JoinKeys
from engine.sql.rewrites.contract import QueryText
from engine.sql.rewrites.rules import apply_parsed_rules, apply_plan_rules


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
    bound = bind_without_rewrites(query, catalog, dialect=dialect, sql=sql)
    if not named:
        _refuse_duplicate_names(query, bound, sql)
    plan = apply_plan_rules(bound.plan, {internal for _, internal in bound.columns})
    check_clock(plan, sql)
    return replace(bound, plan=plan)


def bind_without_rewrites(query: exp.Query, catalog: Catalog, *, dialect: Dialect, sql: str) -> BoundQuery:
    """Bind a query without the rules of plans: each filter stands where it was written; raises as `bind` does."""
    binder = _QueryBinder(catalog, dialect, sql)
    bound = binder.bind_query(apply_parsed_rules(query.copy(), QueryText(catalog, dialect, sql)), {}, None)
    return replace(bound, notes=tuple(binder.notes), types=binder.types)


def _refuse_duplicate_names(query: exp.Query, bound: BoundQuery, sql: str) -> None:
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
    line, column = locate(next(reversed([*stars, *named]), query), sql)
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


class _QueryBinder:
    def __init__(self, catalog: Catalog, dialect: Dialect, sql: str) -> None:
        self.catalog, self.dialect, self.sql = catalog, dialect, sql
        self.types: dict[str, str] = {}
        self.known: set[str] = set()
        self.equalities = Equalities()
        self.notes: list[str] = []
        self._names: set[str] = set()
        self._bound = [0]  # queries, those of WITH items and plain views once for each mention

    def of_view(self, relation: Relation) -> _QueryBinder:
        """Return a binder for the text of a plain view, which shares all names with this one."""
        inner = _QueryBinder(self.catalog, relation.dialect, relation.sql)
        inner._names, inner._bound, inner.types = self._names, self._bound, self.types
        inner.known, inner.equalities, inner.notes = self.known, self.equalities, self.notes
        return inner

    def build_error(self, message: str, node: exp.Expr | None, hint: str) -> SqlError:
        """Return an error that shows the place of `node`."""
        line, column = locate(node, self.sql)
        return SqlError(message, sql=self.sql, line=line, column=column, hint=hint)

    def build_unsupported(self, what: str, node: exp.Expr | None, hint: str) -> UnsupportedSql:
        line, column = locate(node, self.sql)
        return UnsupportedSql(
            f"{what} is not supported in a maintained view", sql=self.sql, line=line, column=column, hint=hint
        )

    def record_type(self, column: str, kind: str | None) -> None:
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
            raise self.build_unsupported(name, first if isinstance(first, exp.Expr) else node, hint)

    # ---- queries ---------------------------------------------------------------------------------------------
    def bind_query(self, query: exp.Expr, ctes: Ctes, outer: Scope | None) -> BoundQuery:
        """Bind a query inside the scope `outer`, whose columns it may read."""
        self._bound[0] += 1
        if self._bound[0] > _MOST_QUERIES:
            what = (
                f"a query that comes to more than {_MOST_QUERIES} with its WITH items and views written out,"
            )
            hint = "make materialized views of the parts that are read often"
            raise self.build_unsupported(what, query, hint)
        with_ = query.args.get("with_")
        if with_ is not None:
            if with_.args.get("recursive"):
                raise self.build_unsupported("WITH RECURSIVE", with_, "join a fixed number of times")
            for cte in with_.expressions:
                if not isinstance(cte.this, exp.Query | exp.Values):
                    raise self.build_unsupported(f"{cte.this.key.upper()} in WITH", cte, "write a SELECT")
                ctes = {**ctes, item_name(cte): Cte(cte.this, ctes, cte.args.get("alias"), outer)}
        self.refuse_parts(query, _SELECT_PARTS if isinstance(query, exp.Select) else _QUERY_PARTS)
        match query:
            case exp.Select():
                return self._bind_select(query, ctes, outer)
            case exp.Subquery() if isinstance(query.this, exp.Query | exp.Values):
                return self._apply_limits(query, self.bind_query(query.this, ctes, outer))
            case exp.Values():
                scope = Scope(self.sql, outer=outer)
                expressions = self._make_expression_binder(scope, ctes)
                return self._apply_limits(query, BoundQuery(*bind_values(query, expressions, self.fresh)))
            case exp.SetOperation():
                return self._apply_limits(query, self._bind_set_operation(query, ctes, outer))
        raise self.build_unsupported(query.key.upper(), query, "write a SELECT")

    def _bind_set_operation(self, query: exp.SetOperation, ctes: Ctes, outer: Scope | None) -> BoundQuery:
        rule = SetOperationBinder(self.types, self.fresh)
        word = query.key.upper() + (" ALL" if not query.args.get("distinct") else "")
        if word != "UNION ALL":
            self.notes.append(f"{word}: the groups of a UNION ALL whose rows are counted by side")
        every = not query.args.get("distinct")
        if isinstance(query, exp.Union):
            branches = self._bind_branches(query, every, ctes, outer)
            self._refuse_unlike(query, branches)
            return BoundQuery(*rule.build_union([(b.plan, b.columns) for b in branches], not every))
        left, right = (self.bind_query(side, ctes, outer) for side in (query.this, query.expression))
        self._refuse_unlike(query, [left, right])
        combine = rule.build_intersect if isinstance(query, exp.Intersect) else rule.build_except
        return BoundQuery(*combine((left.plan, left.columns), (right.plan, right.columns), every))

    def _refuse_unlike(self, query: exp.SetOperation, branches: list[BoundQuery]) -> None:
        width = len(branches[0].columns)
        for branch in branches:
            if len(branch.columns) != width:
                word = "UNION" if isinstance(query, exp.Union) else query.key.upper()
                every = "" if query.args.get("distinct") else " ALL"
                message = f"{word}{every} of {width} and {len(branch.columns)} columns"
                raise self.build_error(message, query, "give all branches the same number of columns")
            for n, (first, its) in enumerate(zip(branches[0].columns, branch.columns, strict=True), 1):
                one, other = (self.types.get(internal) for _, internal in (first, its))
                quoted = branches[0].is_quoted(first[1]) or branch.is_quoted(its[1])
                if are_incompatible(one, other, lenient=quoted or self.dialect == "spark"):
                    message = (
                        f"column {n} is {one} in one branch of {query.key.upper()} and {other} in another"
                    )
                    raise self.build_error(message, query, "CAST one of them to the other's type")

    def _bind_branches(
        self, query: exp.Expr, every: bool, ctes: Ctes, outer: Scope | None
    ) -> list[BoundQuery]:
        """Return the branches of UNIONs of one kind in a row."""
        plain = not any(query.args.get(part) for part in ("with_", "order", "limit", "offset"))
        top = query.parent is None or not isinstance(query.parent, exp.Union)
        if isinstance(query, exp.Union) and bool(query.args.get("distinct")) != every and (plain or top):
            self.refuse_parts(query, _QUERY_PARTS)
            return [
                branch
                for side in (query.this, query.expression)
                for branch in self._bind_branches(side, every, ctes, outer)
            ]
        return [self.bind_query(query, ctes, outer)]

    def _apply_limits(self, query: exp.Expr, bound: BoundQuery) -> BoundQuery:
        """Apply ORDER BY and LIMIT that stand after a whole query; they know its output columns only."""
        scope = Scope(self.sql)
        names = [name for name, _ in bound.columns]
        keys = []
        for item in parse_order_items(query.args.get("order"), self.dialect):
            position = find_output_position(item.node, names, scope)
            if position is None:
                hint = f"the output columns are {', '.join(names)}"
                raise self.build_error(f"ORDER BY {item.node.sql()}: no output column", item.node, hint)
            if isinstance(item.node, exp.Column) and names.count(names[position]) > 1:
                raise build_ambiguity_error(item.node, scope)
            keys.append(item.to_sort_key(bound.columns[position][1]))
        rows = parse_limits(query, self.build_unsupported)
        self.notes += [note for note in rows.describe(bool(keys)) if note not in self.notes]
        return replace(bound, plan=rows.apply(bound.plan, tuple(keys), self.fresh))

    # ---- SELECT ----------------------------------------------------------------------------------------------
    def _make_expression_binder(self, scope: Scope, ctes: Ctes) -> ExpressionBinder:
        keys = JoinKeys(self.types, self.fresh, self.sql, self.notes)
        subqueries = ExpressionSubqueries(
            scope, keys, self.equalities, self.known, lambda q, s: self.bind_query(q, ctes, s)
        )
        return ExpressionBinder(scope, self.build_unsupported, self.types, self.dialect, subqueries)

    def _bind_select(self, select: exp.Select, ctes: Ctes, outer: Scope | None) -> BoundQuery:
        scope = Scope(self.sql, outer=outer)
        expressions = self._make_expression_binder(scope, ctes)
        joins = JoinBuilder(
            scope, expressions, expressions.subqueries.keys, self.equalities, self.build_unsupported
        )
        first, steps = self._bind_from(select, FromBinder(self, scope, expressions, ctes), joins)
        where = select.args.get("where")
        parts = split_conjuncts(where.this) if where is not None else []
        plain = [joins.bind_condition(part, "WHERE") for part in parts if not expressions.has_subquery(part)]
        plan = joins.build(first, steps, plain)
        for part in (*joins.deferred, *(part for part in parts if expressions.has_subquery(part))):
            plan = self._apply_subquery(plan, part, expressions)
        select, plan = TimeWindowBinder(expressions, self.fresh).bind(select, plan)
        return BoundQuery(*ProjectionBinder(scope, expressions, self.types, self.fresh).bind(select, plan))

    def _bind_from(
        self, select: exp.Select, items: FromBinder, joins: JoinBuilder
    ) -> tuple[FromSource, list[JoinStep]]:
        from_ = select.args.get("from_")
        if from_ is None:
            return FromSource("", Values((), ((),), self.fresh("values:row")), ()), []
        first, steps = self._bind_joins(from_.this, select.args.get("joins") or (), items, joins)
        for lateral in select.args.get("laterals") or ():
            item = items.bind_item(lateral)
            steps.append(joins.add_step(exp.Join(this=lateral, kind="CROSS"), item.source, item.apply))
        return first, steps

    def _bind_joins(
        self, first: exp.Expr, following: Sequence[exp.Join], items: FromBinder, joins: JoinBuilder
    ) -> tuple[FromSource, list[JoinStep]]:
        """Bind the first item and what is joined with it; a join in parentheses is one item under the names inside."""
        inner = _find_parenthesized_join(first)
        if inner is not None:
            source, steps = self._bind_joins(_strip_joins(inner), inner.args["joins"], items, joins)
        else:
            source, steps = items.bind_item(first).source, []
            items.scope.add(source, first)
        for join in following:
            inner = _find_parenthesized_join(join.this)
            if inner is None:
                item = self._bind_joined_item(items, join)
            else:
                nested = self._bind_joins(_strip_joins(inner), inner.args["joins"], items, joins)
                item = FromItem(FromSource("", joins.build(*nested, ()), ()))
            steps.append(joins.add_step(join, item.source, item.apply, at_arrival=is_at_proctime(join.this)))
        return source, steps

    def _bind_joined_item(self, items: FromBinder, join: exp.Join) -> FromItem:
        left = str(join.args.get("side") or "").upper() == "LEFT"
        joined = strip_moment(join.this) if is_at_proctime(join.this) else join.this
        item = items.bind_item(joined, outer=left)
        side = str(join.args.get("side") or "").upper()
        if item.apply is None or side == "" or (side == "LEFT" and self._is_true(join.args.get("on"))):
            return item
        hint = "write CROSS JOIN, or LEFT JOIN … ON TRUE"
        raise self.build_unsupported(f"{side} JOIN of a table function with a condition", join.this, hint)

    @staticmethod
    def _is_true(on: exp.Expr | None) -> bool:
        return on is None or (isinstance(on, exp.Boolean) and bool(on.this))

    def _apply_subquery(self, plan: Node, part: exp.Expr, expressions: ExpressionBinder) -> Node:
        """Apply a conjunct of WHERE that holds a subquery."""
        apply = expressions.subqueries.build_condition(part)
        if apply is not None:
            return apply(plan)
        predicate = expressions.bind_scalar(part, "WHERE")
        return Filter(expressions.subqueries.attach(plan), predicate)


def _find_parenthesized_join(node: exp.Expr) -> exp.Table | None:
    """Return the first table of a join in parentheses, with its joins, or None."""
    if not isinstance(node, exp.Subquery) or node.args.get("alias") is not None:
        return None
    inner = node.this
    return inner if isinstance(inner, exp.Table) and inner.args.get("joins") else None


def _strip_joins(table: exp.Table) -> exp.Table:
    alone = table.copy()
    alone.set("joins", None)
    return alone
