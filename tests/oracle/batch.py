"""The outside judges: a view's query computed in one batch by DuckDB and by Spark over the tables' content."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from engine.session import Session


def content(session: Session, relation: str) -> pa.Table:
    """Return all rows of a table or view as the session serves them."""
    table = session.sql(f"SELECT * FROM {relation}")
    assert table is not None
    return table


def by_duckdb(tables: dict[str, pa.Table], query: str) -> pa.Table:
    """Return the query's result by DuckDB."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone='UTC'")
    for name, rows in tables.items():
        connection.register(name, rows)
    return connection.execute(query).to_arrow_table()


def bag(rows: pa.Table) -> Counter[tuple[Any, ...]]:
    """Return the rows as a multiset of comparable values; floats to 9 significant digits."""
    return Counter(tuple(_comparable(value) for value in row) for row in _tuples(rows))


def _tuples(rows: pa.Table) -> Iterable[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True) if rows.num_rows else ()


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return float(f"{value:.9g}") + 0.0
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return Decimal(value)
    if isinstance(value, list):
        return tuple(_comparable(item) for item in value)
    if isinstance(value, Decimal):
        return value.normalize() if value else Decimal(0)
    return value


def assert_equal(left: pa.Table, right: pa.Table, label: str) -> None:
    """Compare two results as multisets; the message shows what only one of them has."""
    mine, other = bag(left), bag(right)
    missing, extra = other - mine, mine - other
    assert not missing and not extra, (
        f"{label}: {sum(missing.values())} rows missing, {sum(extra.values())} too many; "
        f"missing {list(missing)[:5]}, too many {list(extra)[:5]}"
    )
