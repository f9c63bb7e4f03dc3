"""Several functions that give rows in one SELECT list: PostgreSQL steps through all at once, nulls where one has ended.

Applies in the dialects of PostgreSQL: Spark allows one such function in a SELECT list.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.dialects.postgres.strings.patterns import Untranslatable
from engine.sql.dialects.postgres.templates import fill_tree
from engine.sql.functions import is_aggregate
from engine.sql.parsing.location import copy_location
from engine.sql.rewrites.contract import ParsedExample, QueryText

_ROWS = "_rows"
_SERIES = "if({holds}, _sequence(_p0, _p1{step}), filter(array(_p0), _e -> FALSE))"


EXAMPLE = ParsedExample(
    before="SELECT unnest(a) AS x, unnest(b) AS y FROM t",
    after="SELECT _rows._1 AS x, _rows._2 AS y FROM t LATERAL VIEW "
    "INLINE(ARRAYS_ZIP(COALESCE(a, ARRAY()), COALESCE(b, ARRAY()))) _rows AS _1, _2",
    dialect="postgres",
)


def zip_set_returning(tree: exp.Expr, text: QueryText) -> exp.Expr:
    """Return the tree with the calls of one SELECT list as one UNNEST of all their arrays.

    A null array in an UNNEST of several is an empty one, in FROM, too. Raises NotSaid beside aggregates and window functions.
    """
    if text.dialect == "spark":
        return tree
    for select in list(tree.find_all(exp.Select)):
        calls = [call for item in select.expressions for call in _list_calls(item)]
        if len(calls) > 1 or _is_grouped_by(select, calls):
            _zip_calls(select, calls)
        elif calls and _has_windows(select):
            raise _build_window_error()
    for unnest in tree.find_all(exp.Unnest):
        alias = unnest.args.get("alias")
        alone = len(unnest.expressions) == 1 and not unnest.args.get("offset")
        if alone and alias is not None and alias.this is not None and not alias.args.get("columns"):
            alias.set("columns", [alias.this.copy()])  # which is the name of the column, too
        if len(unnest.expressions) > 1:
            unnest.set("expressions", [_coalesce_array(array) for array in unnest.expressions])
    return tree


def _list_calls(item: exp.Expr) -> list[exp.Expr]:
    walked = item.walk(prune=lambda part: isinstance(part, exp.Query | exp.Window))
    return [part for part in walked if isinstance(part, exp.Explode | exp.ExplodingGenerateSeries)]


def _zip_calls(select: exp.Select, calls: list[exp.Expr]) -> None:
    if any(isinstance(part, exp.Posexplode | exp.Inline) for part in calls):
        return
    if _has_windows(select):
        raise _build_window_error()
    aggregates = any(is_aggregate(part) for item in select.expressions for part in item.walk())
    if (aggregates or select.args.get("group")) and not _is_grouped_by(select, calls):
        raise Untranslatable(
            "several functions that give rows beside aggregates", "aggregate in a subquery in FROM"
        )
    if any(call.find_ancestor(exp.Explode, exp.ExplodingGenerateSeries) in calls for call in calls):
        raise Untranslatable("a function that gives rows inside another", "put the inner one into FROM")
    _qualify_stars(select)
    names = [f"_{n}" for n in range(1, len(calls) + 1)]
    rows = exp.Unnest(expressions=[_build_array(call) for call in calls])
    alias = exp.TableAlias(this=exp.to_identifier(_ROWS), columns=[exp.to_identifier(name) for name in names])
    for name, call in zip(names, calls, strict=True):
        column: exp.Expr = copy_location(exp.column(name, table=_ROWS), call)
        default_name = "generate_series" if isinstance(call, exp.ExplodingGenerateSeries) else "unnest"
        call.replace(exp.alias_(column, default_name, copy=False) if call.parent is select else column)
    if select.args.get("from_") is None:
        rows.set("alias", alias)
        select.set("from_", exp.From(this=rows))
        return
    select.append("joins", exp.Join(this=exp.Lateral(this=rows, alias=alias), kind="CROSS"))


def _has_windows(select: exp.Select) -> bool:
    windows = (part for item in select.expressions for part in item.find_all(exp.Window))
    return any(part.find_ancestor(exp.Select) is select for part in windows)


def _build_window_error() -> Untranslatable:
    """A window function sees the rows from before they are unnested, where Spark computes it after that."""
    hint = "compute the window function in a subquery in FROM"
    return Untranslatable("a function that gives rows beside a window function", hint)


def _is_grouped_by(select: exp.Select, calls: list[exp.Expr]) -> bool:
    """Tell whether groups are made of the rows that the calls give: all of them stand in items that GROUP BY names."""
    group = select.args.get("group")
    named = set()
    for key in group.expressions if group is not None else ():
        if isinstance(key, exp.Literal) and not key.is_string:
            named.add(int(key.name) - 1)
        elif isinstance(key, exp.Column) and not key.args.get("table"):
            aliases = [item.alias if isinstance(item, exp.Alias) else None for item in select.expressions]
            named |= {n for n, alias in enumerate(aliases) if alias == key.name}
    giving = {n for n, item in enumerate(select.expressions) if _list_calls(item)}
    if giving & named and giving - named:
        raise Untranslatable("a function that gives rows beside groups by another", "put it into FROM")
    return bool(calls) and bool(giving & named)


def _build_array(call: exp.Expr) -> exp.Expr:
    """Return the array of the rows that a function gives."""
    if not isinstance(call, exp.ExplodingGenerateSeries):
        array: exp.Expr = call.this.copy()
        return array
    parts = [part for name in ("start", "end", "step") if (part := call.args.get(name)) is not None]
    holds = "_p0 <= _p1"
    if len(parts) > 2:
        step = parts[2]
        holds = "if(_p2 > 0, _p0 <= _p1, _p0 >= _p1)"
        if isinstance(step, exp.Interval) or step.find(exp.Interval) is not None:
            holds = "_p0 >= _p1" if "-" in step.sql() else "_p0 <= _p1"
    series = fill_tree(_SERIES.format(holds=holds, step=", _p2" if len(parts) > 2 else ""), *parts)
    for part in series.find_all(exp.Anonymous):  # by its name, or it would be one that gives rows again
        if part.name == "_sequence":
            part.set("this", "sequence")
    return series


def _coalesce_array(array: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=array.copy(), expressions=[exp.Array(expressions=[])])


def _qualify_stars(select: exp.Select) -> None:
    """Say whose columns a star means, as FROM gets one more item."""
    if not any(isinstance(item, exp.Star) for item in select.expressions):
        return
    from_ = select.args.get("from_")
    sources = [from_.this, *(join.this for join in select.args.get("joins") or ())] if from_ else []
    joined = any(join.args.get("using") or join.args.get("method") for join in select.args.get("joins") or ())
    if joined or not all(source.alias_or_name for source in sources):
        raise Untranslatable("* beside several functions that give rows", "name the columns")
    named = [exp.Column(this=exp.Star(), table=exp.to_identifier(source.alias_or_name)) for source in sources]
    items: list[exp.Expr] = []
    for item in select.expressions:
        items += [part.copy() for part in named] if isinstance(item, exp.Star) else [item]
    select.set("expressions", items)
