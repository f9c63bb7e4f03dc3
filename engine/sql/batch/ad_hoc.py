"""Queries that are answered once, by Spark: which relations they read, and their text in Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.batch.asof_to_lateral import rewrite_asof_joins
from engine.sql.batch.empty_grouping_sets import add_empty_group_rows
from engine.sql.batch.hidden_row_ids import expose_row_ids, is_read_whole
from engine.sql.batch.planned_queries import PlannedRows, plan_query
from engine.sql.batch.quantified_comparisons import rewrite_quantified
from engine.sql.batch.time_travel import Moment, parse_moment
from engine.sql.batch.unnest_rows import rewrite_unnest
from engine.sql.bind.over_windows.frame_exclusion import parse_exclusion
from engine.sql.bind.over_windows.session_frames import is_session
from engine.sql.catalog import Catalog, Relation, is_named_index
from engine.sql.dialect import Dialect
from engine.sql.dialects.postgres.nested.list_aggregates import translate_ordered_list
from engine.sql.dialects.postgres.row_sources import translate_rows
from engine.sql.dialects.postgres.translate import translate_expression
from engine.sql.expression.sketches import keep_percentiles
from engine.sql.functions import find_function_name
from engine.sql.parsing.changelogs import is_changelog
from engine.sql.parsing.location import locate
from engine.sql.parsing.lost_arguments import find_lost_argument
from engine.sql.parsing.names import find_relation, item_name, normalize_identifier
from engine.sql.parsing.null_indexes import guard_null_indexes
from engine.sql.parsing.output_names import assign_output_names
from engine.sql.parsing.proctime import resolve_proctime
from engine.sql.parsing.statement_errors import unsupported_error
from engine.sql.plan import list_scans
from engine.sql.rewrites.contract import QueryText
from engine.sql.rewrites.queries.rewrite_distinct_on import rewrite_distinct_on
from engine.sql.rewrites.rules import apply_parsed_rules
from engine.sql.statements.view_query import parse_view_query
from engine.sql.typing.query_types import QueryTypes

_WITH_ROWS = ("table", "source", "view", "materialized view", "check")


@dataclass(frozen=True)
class TableRead:
    """One table as a query reads it: `view` is its name in Spark, `moment` that of FOR SYSTEM_TIME AS OF.

    One that is read `whole` shows its hidden columns, too.
    """

    view: str
    table: str
    moment: Moment | None
    whole: bool = False


@dataclass(frozen=True)
class SparkQuery:
    """A query as Spark SQL over temporary views, and the tables that they stand for; one of them may have the rows of a plan."""

    text: str
    readings: tuple[TableRead, ...]
    planned: PlannedRows | None = None


def query_tables(query: exp.Query | exp.Values, catalog: Catalog, sql: str = "") -> tuple[str, ...]:
    """Return the tables and materialized views that a query reads, each once, plain views followed.

    Raises SqlError for unknown names, with the place if the query's text `sql` is given.
    """
    found: dict[str, None] = {}

    def visit(table: exp.Table) -> None:
        relation = _find_relation(table, catalog, sql)
        inner: tuple[str, ...] = (relation.options["on"] if is_named_index(relation) else relation.name,)
        if relation.kind == "view":
            inner = query_tables(parse_view_query(relation), catalog)
        found.update(dict.fromkeys(inner))

    _walk_tables(query, frozenset(), visit)
    return tuple(found)


def query_views(query: exp.Query, catalog: Catalog) -> tuple[str, ...]:
    """Return the plain views and indexes that a query names, each once; views that they read are not followed."""
    found: dict[str, None] = {}

    def visit(table: exp.Table) -> None:
        relation = find_relation(table, catalog)
        if relation is not None and (relation.kind == "view" or is_named_index(relation)):
            found[relation.name] = None

    _walk_tables(query, frozenset(), visit)
    return tuple(found)


def _has_planned_frames(query: exp.Expr, catalog: Catalog) -> bool:
    """Tell whether a frame of a query, or of a plain view that it reads, is one that Spark has no words for."""
    if any(parse_exclusion(spec) is not None or is_session(spec) for spec in query.find_all(exp.WindowSpec)):
        return True
    views: list[Relation] = []

    def visit(table: exp.Table) -> None:
        relation = find_relation(table, catalog)
        if relation is not None and relation.kind == "view":
            views.append(relation)

    _walk_tables(query, frozenset(), visit)
    return any(_has_planned_frames(parse_view_query(view), catalog) for view in views)


def to_spark(query: exp.Query, catalog: Catalog, dialect: Dialect = "spark") -> str:
    """Return a query as Spark SQL that means what it means in `dialect`, with plain views written out as subqueries."""
    return _SparkQueryWriter(catalog, None, "").write(query, dialect).sql(dialect="spark")


def build_spark_query(
    query: exp.Query | exp.Values, catalog: Catalog, dialect: Dialect, prefix: str, sql: str = ""
) -> SparkQuery:
    """Return a query over temporary views whose names begin with `prefix`, one for each table and moment that it reads.

    Raises SqlError, with the place if the query's text `sql` is given, for a moment that cannot be read.
    """
    if _has_planned_frames(query, catalog):
        select, planned = plan_query(query, catalog, dialect, f"{prefix}rows", sql)
        tables = dict.fromkeys(scan.table for scan in list_scans(planned.plan))
        read = tuple(TableRead(f"{prefix}{n}", table, None) for n, table in enumerate(tables))
        return SparkQuery(guard_null_indexes(select).sql(dialect="spark"), read, planned)
    tree, readings = build_spark_tree(query, catalog, dialect, prefix, sql)
    return SparkQuery(tree.sql(dialect="spark"), readings)


def build_spark_tree(
    query: exp.Query | exp.Values, catalog: Catalog, dialect: Dialect, prefix: str, sql: str = ""
) -> tuple[exp.Expr, tuple[TableRead, ...]]:
    """Return the same query as it was parsed, before it is printed, and what it reads."""
    writer = _SparkQueryWriter(catalog, prefix, sql)
    tree = writer.write(query, dialect)
    return tree, tuple(writer.readings.values())


class _SparkQueryWriter:
    """Writes queries as Spark SQL; with a `prefix` tables get the names of temporary views, collected in `readings`."""

    def __init__(self, catalog: Catalog, prefix: str | None, sql: str) -> None:
        self.catalog, self.prefix, self.sql = catalog, prefix, sql
        self.readings: dict[tuple[str, Moment | None, bool], TableRead] = {}

    def write(
        self, query: exp.Query | exp.Values, dialect: Dialect, top: bool = True, moment: Moment | None = None
    ) -> exp.Expr:
        """Return the tree of a query as Spark reads it."""
        tree = expose_row_ids(rewrite_asof_joins(resolve_proctime(query), self.sql), self.catalog, self.sql)
        tree = rewrite_distinct_on(apply_parsed_rules(tree, QueryText(self.catalog, dialect, self.sql)))
        _refuse_unsaid(tree, self.sql if top else "")
        if dialect != "spark":
            tree = rewrite_quantified(assign_output_names(tree, dialect))
            for name in tree.find_all(exp.Identifier):
                if not name.args.get("quoted"):
                    name.set("this", name.name.lower())
            types = QueryTypes(tree, self.catalog, parse_view_query)
            tree = add_empty_group_rows(
                translate_rows(translate_expression(tree, types.infer_type, dialect)), types
            )
        else:
            tree = tree.transform(translate_ordered_list, copy=False)
        self._expand(rewrite_unnest(keep_percentiles(tree)), {}, top, moment)
        for name in tree.find_all(exp.Identifier):
            if not name.this.isascii():  # Spark wants quotes around what is a word elsewhere
                name.set("quoted", True)
        if top and (lost := find_lost_argument(tree, tree.sql(dialect="spark"))) is not None:
            call = lost.find_ancestor(exp.Func) or lost
            what = f"{lost.sql(dialect='spark')} as an argument of {find_function_name(call)}"
            raise unsupported_error(
                what, lost, self.sql, "leave it out, or write the call by other functions"
            )
        return guard_null_indexes(tree) if top else tree

    def _expand(
        self,
        node: exp.Expr,
        items: Mapping[str, exp.CTE | None],
        top: bool,
        moment: Moment | None,
    ) -> None:
        """Write plain views and inner WITH items out as subqueries.

        The printer moves every WITH to the top, where a name of an inner one would hide a table of the outer query.
        """
        with_ = node.args.get("with_")
        if with_ is not None:
            stays = top or with_.args.get("recursive")
            for cte in with_.expressions:
                own = {**items, item_name(cte): None} if with_.args.get("recursive") else items
                self._expand(cte.this, own, False, moment)
                items = {**items, item_name(cte): None if stays else cte}
            if not stays:
                node.set("with_", None)
        for child in list(node.iter_expressions()):
            if child is with_:
                continue
            self._expand(child, items, False, moment)
            if (
                isinstance(child, exp.Table)
                and isinstance(child.this, exp.Identifier)
                and not child.args.get("db")
            ):
                inner = self._resolve_table(child, items, moment)
                if inner is not None:
                    child.replace(inner)

    def _resolve_table(
        self, table: exp.Table, items: Mapping[str, exp.CTE | None], moment: Moment | None
    ) -> exp.Expr | None:
        """Return what a table is replaced by: a subquery, a temporary view, or None if it stays as it is."""
        name = item_name(table)
        alias = (table.args.get("alias") or exp.TableAlias(this=table.this)).copy()
        if name in items:
            cte = items[name]
            if cte is None:
                return None
            inner, column_names = cte.this.copy(), cte.args["alias"].args.get("columns")
        else:
            relation = find_relation(table, self.catalog)
            index = relation is not None and is_named_index(relation)
            if relation is None or not (index or relation.kind in _WITH_ROWS):
                return None
            moment = parse_moment(table, self.sql) or moment
            if relation.kind != "view" and not index:
                return self._register_read(table, relation, alias, moment)
            inner = self._expand_index(relation, moment) if index else self._expand_view(relation, moment)
            column_names = [exp.to_identifier(column.name, quoted=True) for column in relation.columns]
            column_names = column_names if relation.renamed else None
        if column_names and not alias.args.get("columns"):
            alias.set("columns", [column.copy() for column in column_names])
        dropped = ("this", "alias", "version", "when")
        clauses = {k: v for k, v in table.args.items() if k in exp.Subquery.arg_types and k not in dropped}
        return exp.Subquery(this=inner, alias=alias, **clauses)

    def _expand_view(self, relation: Relation, moment: Moment | None) -> exp.Expr:
        return self.write(parse_view_query(relation), relation.dialect, False, moment)

    def _expand_index(self, relation: Relation, moment: Moment | None) -> exp.Expr:
        names = [column.name for column in self.catalog.list_index_columns(relation)]
        base = exp.Table(this=exp.to_identifier(relation.options["on"], quoted=True))
        items = [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
        query = exp.Select(expressions=items).from_(base, copy=False)
        self._expand(query, {}, False, moment)
        return query

    def _register_read(
        self, table: exp.Table, relation: Relation, alias: exp.TableAlias, moment: Moment | None
    ) -> exp.Table | None:
        if self.prefix is None:
            return None
        whole = is_read_whole(table)
        key = (relation.name, moment, whole)
        if key not in self.readings:
            used_names = {
                reading.view.lower() for reading in self.readings.values()
            }  # to Spark case makes no other name
            view = self.prefix + re.sub(r"\W", "_", relation.name.replace(".", "__"), flags=re.ASCII)
            view = f"{view}_{len(self.readings)}" if moment or view.lower() in used_names else view
            self.readings[key] = TableRead(view, relation.name, moment, whole)
        new = table.copy()
        for part in ("version", "when"):
            new.set(part, None)
        new.set("this", exp.to_identifier(self.readings[key].view, quoted=True))
        new.set("alias", alias)
        return new


def _refuse_unsaid(tree: exp.Expr, sql: str) -> None:
    """Raise UnsupportedSql, with the place, for a clause that sqlglot would leave out of a text in Spark SQL."""
    for call in tree.find_all(exp.Anonymous):
        if is_changelog(call) and isinstance(call.parent, exp.Table):
            hint = "make a materialized view of it, and read that"
            raise unsupported_error("CHANGELOG FROM in a query that is answered once", call, sql, hint)
    for node in tree.find_all(exp.Select, exp.Fetch, exp.Limit, exp.WindowSpec):
        options = node.args.get("limit_options")
        if node.args.get("into") is not None:
            raise unsupported_error(
                "SELECT INTO is not offered", node.args["into"], sql, "CREATE TABLE t AS SELECT …"
            )
        if isinstance(node, exp.WindowSpec) and (is_session(node) or parse_exclusion(node) is not None):
            what = "SESSION WITH GAP" if is_session(node) else "EXCLUDE in a frame"
            hint = "leave refresh_policy out: a view without it is kept with such frames"
            raise unsupported_error(f"{what} of a query that is computed as a whole", node, sql, hint)
        for part, name in (("percent", "PERCENT"), ("with_ties", "WITH TIES")):
            if options is not None and options.args.get(part):
                hint = "number the rows by rank() OVER (ORDER BY …), and filter by the number"
                raise unsupported_error(f"LIMIT … {name} is not offered", node, sql, hint)


def _walk_tables(node: exp.Expr, hidden: frozenset[str], visit: Callable[[exp.Table], None]) -> None:
    """Visit every table that is no WITH item in its place."""
    with_ = node.args.get("with_")
    if with_ is not None:
        for cte in with_.expressions:
            own = hidden | {item_name(cte)} if with_.args.get("recursive") else hidden
            _walk_tables(cte.this, own, visit)
            hidden = hidden | {item_name(cte)}
    if (
        isinstance(node, exp.Table)
        and isinstance(node.this, exp.Identifier)
        and (item_name(node) not in hidden or node.args.get("db"))
    ):
        visit(node)
    for child in node.iter_expressions():
        if child is not with_:
            _walk_tables(child, hidden, visit)


_HINTS = {
    "function": "call it in a SELECT list",
    "sink": "read {0}, of which it delivers the rows",
    "subscription": "read {0}, or FETCH changes from a cursor over it",
    "index": "read the table that it is on",
}


def _find_relation(table: exp.Table, catalog: Catalog, sql: str) -> Relation:
    name = table.sql() if table.args.get("db") else normalize_identifier(table.this)
    found = None if table.args.get("db") else find_relation(table, catalog)
    if found is not None and (
        is_named_index(found) or found.kind not in ("function", "sink", "subscription", "index")
    ):
        return found
    message = (
        f"there is no table or view {name}"
        if found is None
        else f"{found.name} is a {found.kind} and has no rows"
    )
    line, column = locate(table, sql) if sql else (0, 0)
    hint = catalog.suggest_names(name) if found is None else _HINTS[found.kind].format(*found.depends_on)
    raise SqlError(message, sql=sql, line=line, column=column, hint=hint)
