"""Judges results of queries with ORDER BY … LIMIT: of rows that the order leaves equal, any may be the last ones.

Such a result is right if it has every row that comes before the last ones, as many rows as the batch, and as last ones some of
those that share their place in the order. Spark computes all rows up to that place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

PLACE = "place_in_order"


@dataclass(frozen=True)
class LimitedQuery:
    """A query without its ORDER BY and LIMIT, which stand beside it; `outputs` are its select expressions, none of `*`."""

    text: str
    order: tuple[exp.Ordered, ...]
    limit: int
    outputs: tuple[exp.Expression, ...]


def split_limit(query: str) -> LimitedQuery | None:
    """Return a query as its parts; None for one without ORDER BY and LIMIT of its own."""
    tree = sqlglot.parse_one(query, read="spark")
    order, limit = tree.args.get("order"), tree.args.get("limit")
    if order is None or limit is None or not isinstance(tree, exp.Query):
        return None
    outputs = tuple(tree.selects) if not tree.is_star else ()
    tree.set("order", None)
    tree.set("limit", None)
    return LimitedQuery(
        tree.sql(dialect="spark"), tuple(order.expressions), int(limit.expression.name), outputs
    )


def write_order(query: LimitedQuery, names: Iterable[str]) -> str:
    """Return the order over the columns `c0`, `c1`, … that the query gives, whose names are given.

    Raises KeyError for an order by what the query does not give.
    """
    places = {name.lower(): f"c{n}" for n, name in reversed(list(enumerate(names)))}
    texts = {_strip_alias(each): f"c{n}" for n, each in reversed(list(enumerate(query.outputs)))}
    found = []
    for each in query.order:
        ordered = each.copy()
        key = ordered.this
        if isinstance(key, exp.Literal) and key.is_int:
            ordered.set("this", exp.column(f"c{int(key.name) - 1}"))
        elif _strip_alias(key) in texts:
            ordered.set("this", exp.column(texts[_strip_alias(key)]))
        else:
            ordered.set("this", key.transform(lambda node: _replace(node, places)))
        found.append(ordered.sql(dialect="spark"))
    return ", ".join(found)


def _strip_alias(expression: exp.Expression) -> str:
    return expression.unalias().sql(dialect="spark").lower()


def _replace(node: exp.Expression, places: dict[str, str]) -> exp.Expression:
    return exp.column(places[node.name.lower()]) if isinstance(node, exp.Column) else node


def explain_other_rows(spark: SparkSession, query: str, found: pa.Table) -> str | None:
    """Return why rows are not a right result of a query, over the tables of the session; None if they are one."""
    limited = split_limit(query)
    if limited is None:
        return "other rows"
    try:
        every = spark.sql(limited.text)
        order = write_order(limited, every.columns)
        frame = every.toDF(*(f"c{n}" for n in range(len(every.columns))))
        first = frame.selectExpr("*", f"rank() OVER (ORDER BY {order}) AS {PLACE}")
        rows = first.where(f"{PLACE} <= {limited.limit}").toArrow()
    except (KeyError, PySparkException) as error:
        return f"other rows, and an order that cannot be followed: {str(error).splitlines()[0]}"
    return compare_first_rows(found, rows.drop_columns([PLACE]), rows.column(PLACE), limited.limit)


def compare_first_rows(found: pa.Table, rows: pa.Table, places: pa.ChunkedArray, limit: int) -> str | None:
    """Return why rows are not the first `limit` of `rows`, whose places in the order are given; None if they are."""
    if found.num_rows != min(limit, rows.num_rows):
        return f"{found.num_rows} rows, not {min(limit, rows.num_rows)}"
    if not found.num_rows:
        return None
    last = pc.equal(places, pc.max(places))
    got, sure, maybe = (_count(each) for each in (found, rows.filter(pc.invert(last)), rows.filter(last)))
    missing, over = sure - got, (got - sure) - maybe
    if missing:
        return f"{missing.total()} rows missing that come first in any case, as {next(iter(missing))}"
    return f"{over.total()} rows that are not among the first, as {next(iter(over))}" if over else None


def _count(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [[_round(value) for value in column.to_pylist()] for column in rows.columns]
    return Counter(zip(*columns, strict=True))


def _round(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value
