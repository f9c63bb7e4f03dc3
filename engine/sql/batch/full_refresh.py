"""Queries that are recomputed as a whole: what they may not hold, and their text over the rows of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import sqlglot.expressions as exp

from engine.errors import UnsupportedSql
from engine.python_functions.definition import DECLARE, NOT_DECLARED, PythonFunction, find_known
from engine.sql.batch.ad_hoc import build_spark_tree, query_tables
from engine.sql.batch.row_errors import guard_tree
from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.functions import find_function_name, is_non_deterministic
from engine.sql.parsing.names import normalize_identifier
from engine.sql.parsing.proctime import is_at_proctime
from engine.sql.parsing.statement_errors import unsupported_error
from engine.sql.parsing.tree_parser import parse_tree
from engine.sql.plan import Scan

POLICY = "refresh_policy"
OFFER = "or write WITH (refresh_policy = 'full'): then every epoch recomputes the query, and commits the difference only"
_BY_ORDER = frozenset(
    (
        "first",
        "first_value",
        "last",
        "last_value",
        "any_value",
        "collect_list",
        "array_agg",
        "listagg",
        "string_agg",
    )
)
_SORTED = frozenset(("sort_array", "array_sort"))
_MARK = "_input_of_this_query_"


@dataclass(frozen=True)
class WholeQuery:
    """A query as Spark SQL in which `{t0}`, `{t1}`, … stand for `inputs`.

    `used` are the names in it, None if columns may be meant that are not named.
    """

    text: str
    inputs: tuple[Scan, ...]
    used: frozenset[str] | None

    def prune_inputs(self) -> tuple[Scan, ...]:
        """Return the inputs without the columns that the query does not use."""
        if self.used is None:
            return self.inputs
        return tuple(_prune_scan(scan, self.used) for scan in self.inputs)


def check_deterministic(query: exp.Query, sql: str) -> None:
    """Raise UnsupportedSql, with the place, if the query's rows are not certain from its tables' rows."""
    for part in query.walk():
        if is_non_deterministic(part):
            hint = "store the value in a column when the row is written"
            raise unsupported_error(f"{part.sql()} gives another value each time", part, sql, hint)
        if isinstance(part, exp.TableSample):
            raise unsupported_error(
                "TABLESAMPLE gives other rows each time", part, sql, "write a WHERE condition"
            )
        limit = (part.args.get("limit") or part.args.get("offset")) if isinstance(part, exp.Query) else None
        if limit is not None and not part.args.get("order"):
            raise unsupported_error(
                "LIMIT without ORDER BY does not say which rows", limit, sql, "add ORDER BY"
            )
        if isinstance(part, exp.Table) and (part.args.get("version") or part.args.get("when")):
            hint = "a view follows the newest content of its inputs: leave it out"
            if is_at_proctime(part):
                hint = "what is computed again knows no time at which rows came: leave refresh_policy out"
            raise unsupported_error("FOR SYSTEM_TIME AS OF in a view", part, sql, hint)
        _check_order(part, sql)


def _check_order(part: exp.Expr, sql: str) -> None:
    if not isinstance(part, exp.Func) or find_function_name(part) not in _BY_ORDER:
        return
    ordered = part.find(exp.Order) is not None or isinstance(part.parent, exp.WithinGroup)
    window = part.find_ancestor(exp.Window)
    if window is not None and window.args.get("order"):
        ordered = True
    if find_function_name(part.parent) in _SORTED if isinstance(part.parent, exp.Func) else False:
        ordered = True
    if not ordered:
        name = find_function_name(part)
        hint = f"write min, max, or sort_array({name}(…)); over a window add ORDER BY"
        raise unsupported_error(f"the result of {name} depends on the order of rows", part, sql, hint)


def is_deterministic(query: exp.Query) -> bool:
    """Tell whether a query could be recomputed as a whole."""
    try:
        check_deterministic(query, "")
    except UnsupportedSql:
        return False
    return True


def build_whole_query(
    query: exp.Query, catalog: Catalog, dialect: Dialect, sql: str, null_on_error: bool
) -> WholeQuery:
    """Return the text of a query that is recomputed; raises SqlError or UnsupportedSql with the place."""
    check_deterministic(query, sql)
    if not query_tables(query, catalog, sql):
        raise unsupported_error("a view that reads no table", query, sql, "read at least one table")
    tree, readings = build_spark_tree(query, catalog, dialect, _MARK, sql)
    for part in list(tree.find_all(exp.Anonymous)):
        function = find_known(find_function_name(part) or "")
        if function is not None and not function.deterministic:
            raise unsupported_error(
                f"function {function.name}, {NOT_DECLARED}, in a view", query, sql, DECLARE
            )
        if function is not None and function.aggregate:
            _sort_rows(part, function, query, sql)
    if null_on_error:
        tree = guard_tree(parse_tree(tree.sql(dialect="spark"), "spark"))
    by_all = (exp.Star, exp.Pivot)  # and NATURAL joins: they mean columns without naming them
    natural = any(str(join.args.get("method")).upper() == "NATURAL" for join in tree.find_all(exp.Join))
    used = frozenset(normalize_identifier(part).lower() for part in tree.find_all(exp.Identifier))
    inputs = tuple(_build_scan(catalog.get(reading.table)) for reading in readings)
    text = _format_with_inputs(tree, [reading.view for reading in readings])
    return WholeQuery(text, inputs, None if natural or tree.find(*by_all) else used)


def _sort_rows(call: exp.Anonymous, function: PythonFunction, query: exp.Query, sql: str) -> None:
    """Let an aggregate in Python get the rows of its group in one order, whatever order Spark computes them in."""
    if any("map<" in kind for _, kind in function.parameters):
        hint = "pass map_entries(…), which can be ordered; or leave refresh_policy out"
        message = (
            f"function {function.name} of rows with maps, which have no order, in a view that is recomputed"
        )
        raise unsupported_error(message, query, sql, hint)
    (rows,) = call.expressions
    call.set("expressions", [exp.Anonymous(this="sort_array", expressions=[rows.copy()])])


def _format_with_inputs(tree: exp.Expr, views: Sequence[str]) -> str:
    """Return the text of a query in which `{t0}`, `{t1}`, … stand for its views, and braces of its own are doubled."""
    places = {view: f"{{t{n}}}" for n, view in enumerate(views)}

    def replace_input(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Identifier) and isinstance(part.parent, exp.Table) and part.name in places:
            return exp.Identifier(this=places[part.name], quoted=False)
        if isinstance(part.args.get("this"), str) and ("{" in part.this or "}" in part.this):
            part.set("this", part.this.replace("{", "{{").replace("}", "}}"))
        return part

    return tree.transform(replace_input).sql(dialect="spark")


def _build_scan(relation: Relation) -> Scan:
    keys = {*relation.primary_key, *relation.distribution_key}
    items = tuple(
        (column.storage_name if column.hidden else column.name, column.storage_name)
        for column in relation.columns
        if not column.hidden or column.storage_name in keys
    )
    return Scan(relation.name, items, relation.primary_key, relation.distribution_key, relation.append_only)


def _prune_scan(scan: Scan, used: frozenset[str]) -> Scan:
    keys = {*scan.primary_key, *scan.distribution_key}
    items = tuple((name, column) for name, column in scan.items if name.lower() in used or column in keys)
    return msgspec.structs.replace(scan, items=items)
