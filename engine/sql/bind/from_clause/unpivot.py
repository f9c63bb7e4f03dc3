"""UNPIVOT of Spark: each row becomes one for each column that is listed, with that column's name and value.

`t UNPIVOT (v FOR name IN (a, b AS c))` -> `(SELECT * EXCEPT (a, b, _place), CASE _place WHEN 0 THEN a WHEN 1 THEN b END AS v
FROM t LATERAL VIEW POSEXPLODE(ARRAY('a', 'c')) AS _place, name WHERE CASE … END IS NOT NULL) AS t`
"""

from __future__ import annotations

import sqlglot.expressions as exp

from engine.sql.column_names import ADDED
from engine.sql.parsing.location import copy_location

_PLACE = f"{ADDED}place"


def find_unpivot(node: exp.Expr) -> exp.Pivot | None:
    """Return the UNPIVOT of an item of FROM, None if it has none, or another beside it."""
    pivots = node.args.get("pivots") or []
    found = pivots[0] if len(pivots) == 1 else None
    return found if isinstance(found, exp.Pivot) and found.args.get("unpivot") else None


def expand_unpivot(node: exp.Expr, pivot: exp.Pivot) -> exp.Subquery:
    """Return an item of FROM with its UNPIVOT written out; rows whose values are all null go, unless they are asked for."""
    [inside] = pivot.args["fields"]
    values, names, columns = _list_parts(pivot.expressions[0]), list[str](), list[list[exp.Expr]]()
    for item in inside.expressions:
        named = isinstance(item, exp.PivotAlias)
        columns.append(_list_parts(item.this if named else item))
        names.append(item.args["alias"].name if named else "_".join(part.name for part in columns[-1]))
    plain, alias = node.copy(), pivot.args.get("alias") or node.args.get("alias")
    plain.set("pivots", None)
    if alias is None and isinstance(node, exp.Table):
        alias = exp.TableAlias(this=node.this)
    left_out = {part.name.lower(): part.this.copy() for row in columns for part in row}
    choices = [_choose_by_position([row[n] for row in columns]) for n in range(len(values))]
    items = [exp.alias_(value, name.name, quoted=True) for value, name in zip(choices, values, strict=True)]
    others = exp.Star(except_=[*left_out.values(), exp.to_identifier(_PLACE)])
    found = exp.Select(expressions=[others, *items])
    call = exp.Posexplode(this=exp.Array(expressions=[exp.Literal.string(name) for name in names]))
    rows = exp.TableAlias(
        this=exp.to_identifier("_unpivot"), columns=[exp.to_identifier(_PLACE), inside.this.copy()]
    )
    found.from_(plain, copy=False)
    found.set("laterals", [copy_location(exp.Lateral(this=call, view=True, alias=rows), node)])
    if not pivot.args.get("include_nulls"):
        present = [exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())) for value in choices]
        found.where(exp.or_(*present), copy=False)
    whole = exp.Subquery(this=found, alias=alias.copy() if alias is not None else None)
    return copy_location(whole, node)


def _choose_by_position(columns: list[exp.Expr]) -> exp.Expr:
    """Return the column whose turn it is, in the type that all of them have in common."""
    if len(columns) == 1:
        return columns[0].copy()
    ifs = [exp.If(this=exp.Literal.number(n), true=column.copy()) for n, column in enumerate(columns)]
    return exp.Case(this=exp.column(_PLACE), ifs=ifs)


def _list_parts(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node.unnest()]
