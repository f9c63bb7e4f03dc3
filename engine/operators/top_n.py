"""The first rows of each group: touched groups are ordered again from their rows; without groups, everything is."""

from __future__ import annotations

from engine.operators.context import EpochContext, select
from engine.operators.expand import expand
from engine.operators.flow import Rows
from engine.operators.linear import project
from engine.operators.lookup import lookup
from engine.sql.plan import Project, TopN, quote


def batch(node: TopN, rows: Rows) -> Rows:
    """Return the first rows of every group of a whole input."""
    order = [
        f"{quote(key.column)} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in node.order
    ]
    order += [f"{quote(column)} ASC NULLS FIRST" for column in node.key]
    by = f"PARTITION BY {', '.join(quote(column) for column in node.partition)} " if node.partition else ""
    ranked = rows.selectExpr("*", f"row_number() OVER ({by}ORDER BY {', '.join(order)}) AS `_rank`")
    upto = "" if node.limit is None else f" AND `_rank` <= {node.offset + node.limit}"
    return select(ranked.where(f"`_rank` > {node.offset}{upto}"), node.columns)


def delta(top: Project, table: str, change: Rows, context: EpochContext) -> Rows:
    """Return the signed change of the fragment's table: of each touched group the old rows go and the new ones come."""
    node = top.input
    assert isinstance(node, TopN) and node.partition
    drivers = {column: context.fresh("group") for column in node.partition}
    touched = change.selectExpr(*(f"{quote(c)} AS {quote(d)}" for c, d in drivers.items())).distinct()
    pairs = tuple((driver, column) for column, driver in drivers.items())
    rows, hit = expand(node.input, touched, pairs, context, at="new", null_safe=True)
    new = project(top, batch(node, select(rows.where(quote(hit)), node.columns)))
    stored = dict(zip(node.partition, context.tables[table].distribution_key, strict=True))
    found = context.fresh("found")
    names = {column: context.fresh("old") for column in top.columns}
    looked = lookup(
        touched,
        context,
        table,
        tuple((drivers[column], stored[column]) for column in node.partition),
        tuple((name, column) for column, name in names.items()),
        at="old",
        hit=found,
        null_safe=True,
    ).where(quote(found))
    old = looked.selectExpr(*(f"{quote(name)} AS {quote(c)}" for c, name in names.items()), "-1L AS `_w`")
    merged = context.union([select(new, top.columns, "1L AS `_w`"), old])
    assert merged is not None
    return merged
