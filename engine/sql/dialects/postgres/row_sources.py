"""What gives rows in PostgreSQL, said so that Spark gives the same: VALUES with its column names, generate_series in FROM."""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.parsing.tree_parser import parse_tree


def translate_rows(tree: exp.Expr) -> exp.Expr:
    """Rewrite the sources of a query's rows in place, and return the query.

    `FROM (VALUES (1)) v` -> `FROM VALUES (1) AS v(column1)`; `FROM generate_series(1, 3) g` -> `FROM EXPLODE(…) AS g(g)`.
    """
    for values in list(tree.find_all(exp.Values)):
        _assign_names(values)
    for series in list(tree.find_all(exp.ExplodingGenerateSeries, exp.GenerateSeries)):
        _rewrite_series(series)
    return tree


def _assign_names(values: exp.Values) -> None:
    if isinstance(values.parent, exp.In):
        query = exp.Select(expressions=[exp.Star()]).from_(values.copy(), copy=False)
        values.parent.set("query", exp.Subquery(this=query))
        values.parent.set("expressions", None)
        return
    if not isinstance(values.parent, exp.From | exp.Join | exp.Subquery | exp.Lateral):
        return
    alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("_values"))
    if not alias.args.get("columns") and values.expressions:
        first = values.expressions[0]
        width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
        alias.set("columns", [exp.to_identifier(f"column{n}") for n in range(1, width + 1)])
        values.set("alias", alias)


def _rewrite_series(series: exp.Expr) -> None:
    explode = exp.Explode(this=_build_number_series(series))
    parent = series.parent
    if isinstance(parent, exp.Table | exp.Lateral):
        source = parent
        alias = source.args.get("alias") or exp.TableAlias(this=exp.to_identifier("generate_series"))
        if not alias.args.get("columns"):
            alias.set("columns", [alias.this.copy()])
        is_lateral = isinstance(source, exp.Lateral) or isinstance(source.parent, exp.Join)
        source.replace((exp.Lateral if is_lateral else exp.Table)(this=explode, alias=alias))
    elif isinstance(series, exp.ExplodingGenerateSeries):  # in the SELECT list
        series.replace(exp.alias_(explode, "generate_series") if isinstance(parent, exp.Select) else explode)


def _build_number_series(series: exp.Expr) -> exp.Expr:
    """Return the array of a series: Spark's own sequence would count down where there is nothing to count."""
    start, end, step = (series.args.get(part) for part in ("start", "end", "step"))
    first, last = (part.sql(dialect="spark") for part in (start, end) if part is not None)
    by = "1" if step is None else step.sql(dialect="spark")
    if isinstance(step, exp.Interval) or (step is not None and step.find(exp.Interval)):
        holds = f"({first}) {'>=' if '-' in by else '<='} ({last})"
    else:
        holds = f"IF(({by}) > 0, ({first}) <= ({last}), ({first}) >= ({last}))"
    text = f"IF({holds}, SEQUENCE({first}, {last}, {by}), FILTER(ARRAY({first}), x -> FALSE))"
    return parse_tree(text, "spark")
