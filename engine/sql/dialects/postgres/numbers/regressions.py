"""Correlation and regression as PostgreSQL has them: where all values are one the line is null, and DISTINCT tells pairs apart.

Spark divides by the spread of a group, and fails with DIVIDE_BY_ZERO where it is 0. Spreads that it merges from parts are not
quite 0 over one value, so the least and the greatest value tell. Of DISTINCT pairs its regr_sxx and the like see one side alone:
those are summed over the set of the pairs.

Sources: PostgreSQL's table of aggregate functions for statistics, and what `float8_corr` and its neighbours in its float.c say
of corner cases. Method of the sums over a set: Welford, 1962.
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.expression.nodes import Expr, Field, Variable
from engine.sql.expression.ordered_lists import filter_call
from engine.sql.expression.parsed_parts import ParsedParts
from engine.sql.expression.template import build_not_null, build_struct, call, cast, fill_template
from engine.sql.functions import find_function_name

_SUMS = {"regr_sxx": "sxx", "regr_syy": "syy", "regr_sxy": "sxy", "regr_avgx": "mx", "regr_avgy": "my"}
_LINES = {
    "corr": "if(:flat_x OR :flat_y, NULL, CASE WHEN isnan(:r) THEN :r WHEN :r > 1D THEN 1D WHEN :r < -1D THEN -1D ELSE :r END)",
    "regr_r2": "if(:flat_x, NULL, if(:flat_y, 1D, if(:r * :r > 1D AND NOT isnan(:r), 1D, :r * :r)))",
    "regr_slope": "if(:flat_x, NULL, :sxy / :sxx)",
    "regr_intercept": "if(:flat_x, NULL, :my - :mx * (:sxy / :sxx))",
}
REGRESSIONS = frozenset((*_LINES, *_SUMS))
_SUMMED = Variable("_a")
_START = "named_struct('n', 0D, 'mx', 0D, 'my', 0D, 'sxx', 0D, 'syy', 0D, 'sxy', 0D)"
_NEXT = """named_struct(
    'n', :n + 1D,
    'mx', :mx + :dx / (:n + 1D),
    'my', :my + :dy / (:n + 1D),
    'sxx', :sxx + :dx * (:dx - :dx / (:n + 1D)),
    'syy', :syy + :dy * (:dy - :dy / (:n + 1D)),
    'sxy', :sxy + :dx * (:dy - :dy / (:n + 1D)))"""


def build_regression(name: str, y: Expr, x: Expr, distinct: bool, where: Expr | None) -> Expr | None:
    """Return what PostgreSQL means by one of `REGRESSIONS` of numbers, or None where Spark means the same."""
    y, x = cast(y, "double"), cast(x, "double")
    if distinct:
        return _fold_pairs(name, y, x, where)
    if name not in _LINES:
        return None
    sums: dict[str, Expr] = {
        short: filter_call(call(function, y, x), where) for function, short in _SUMS.items()
    }
    for side, value in (("x", x), ("y", y)):
        ends = {
            end: filter_call(call(end, value), build_not_null(y), build_not_null(x), where)
            for end in ("min", "max")
        }
        text = "coalesce(:max - :min = 0D OR :spread = 0D, TRUE)"
        sums[f"flat_{side}"] = fill_template(text, **ends, spread=sums[f"s{side}{side}"])
    parts: dict[str, Expr] = {part: Field(_SUMMED, part) for part in sums}
    text = "get(transform(array(:sums), _a -> :line), 0)"  # so that every sum stands there once
    return fill_template(text, sums=build_struct(list(sums.items())), line=_build_line(name, parts))


def _build_line(name: str, parts: dict[str, Expr]) -> Expr:
    """A product of spreads that is too small or too large for its type is taken root by root."""
    if name in ("regr_slope", "regr_intercept"):
        return fill_template(_LINES[name], **parts)
    text = "if(:p > 0D AND :p < double('inf'), sqrt(:p), sqrt(:sxx) * sqrt(:syy))"
    root = fill_template(text, p=fill_template(":sxx * :syy", **parts), **parts)
    return fill_template(_LINES[name], **parts, r=fill_template(":sxy / :root", root=root, **parts))


def _fold_pairs(name: str, y: Expr, x: Expr, where: Expr | None) -> Expr:
    """Spreads over one value are 0 here without a rest."""
    pair = build_struct([("y", y), ("x", x)])
    pairs = filter_call(call("collect_set", pair), build_not_null(y), build_not_null(x), where)
    sums: dict[str, Expr] = {part: Field(_SUMMED, part) for part in ("n", *_SUMS.values())}
    differences = {
        f"d{side}": fill_template(":value - :mean", value=Field(Variable("_e"), side), mean=sums[f"m{side}"])
        for side in ("x", "y")
    }
    flat = {f"flat_{side}": fill_template(":s = 0D", s=sums[f"s{side}{side}"]) for side in ("x", "y")}
    if name in _LINES:
        result = _build_line(name, {**sums, **flat})
    else:
        result = fill_template("if(:n = 0D, NULL, :value)", n=sums["n"], value=sums[_SUMS[name]])
    text = "aggregate(:pairs, :start, (_a, _e) -> :next, _a -> :result)"
    following = fill_template(_NEXT, **sums, **differences)
    return fill_template(text, pairs=pairs, start=fill_template(_START), next=following, result=result)


def translate_regression(node: exp.Expr) -> exp.Expr | None:
    """Return a call of `REGRESSIONS`, with its FILTER, as Spark says it; None for anything else, and over a window."""
    if isinstance(node.parent, exp.Filter | exp.Window) and node.arg_key == "this":
        return None  # a FILTER goes into the parts
    inner, parts, where = node, ParsedParts(), None
    if isinstance(inner, exp.Filter):
        inner, where = inner.this, parts.add(inner.expression.this)
    if not isinstance(inner, exp.Func) or (name := find_function_name(inner) or inner.key) not in REGRESSIONS:
        return None
    arguments, distinct = _read_pair(inner)
    if len(arguments) != 2:
        return None  # Spark says what is wrong with it
    y, x = (parts.add(argument) for argument in arguments)
    found = build_regression(name, y, x, distinct, where)
    return None if found is None else parts.fill(found)


def _read_pair(node: exp.Expr) -> tuple[list[exp.Expr], bool]:
    """Return the arguments of a call, and whether DISTINCT stands before them."""
    found = node.expressions if isinstance(node, exp.Anonymous) else list(node.iter_expressions())
    if len(found) == 1 and isinstance(found[0], exp.Distinct):
        return list(found[0].expressions), True
    return list(found), False
