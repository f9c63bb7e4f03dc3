"""The outside judges: a view's query computed in one batch by DuckDB or Spark over the tables' content."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from engine.session import Session
from tests.oracle.kinds import values_of

FLOAT_TOLERANCE = 1e-9
# What PostgreSQL has and DuckDB writes otherwise, or answers otherwise: NaN for a line over one point.
POSTGRES_MACROS = (
    "CREATE MACRO corr(y, x) AS regr_sxy(y, x) / nullif(sqrt(regr_sxx(y, x) * regr_syy(y, x)), 0)",
    "CREATE MACRO regr_slope(y, x) AS regr_sxy(y, x) / nullif(regr_sxx(y, x), 0)",
    "CREATE MACRO to_char(t, f) AS strftime(t, replace(replace(replace(replace(replace(f, "
    "'YYYY', '%Y'), 'MM', '%m'), 'DD', '%d'), 'HH24', '%H'), 'MI', '%M'))",
    "CREATE MACRO regexp_match(s, p) AS CASE WHEN regexp_matches(s, p) THEN "
    "[regexp_extract(s, p, 1), regexp_extract(s, p, 2)] END",
)


def content(session: Session, relation: str) -> pa.Table:
    """Return all rows of a table or view as the session serves them."""
    table = session.sql(f"SELECT * FROM {relation}")
    assert table is not None
    return table


def by_duckdb(tables: Mapping[str, pa.Table], query: str) -> pa.Table:
    """Return the query's result by DuckDB."""
    with _open_reading_connection(tables) as connection:
        return connection.sql(query).to_arrow_table()


@cache
def _open_empty_database() -> duckdb.DuckDBPyConnection:
    return duckdb_over({})


def _open_reading_connection(tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """Return a connection for queries alone: its database is that of others, which takes a tenth of the time of a new one.

    The tables are views of this connection, which no other one sees.
    """
    connection = _open_empty_database().cursor()
    connection.execute("SET TimeZone='UTC'")
    for name, rows in tables.items():
        connection.register(name, rows)
    return connection


def duckdb_over(tables: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """Return a connection that sees the tables under their names, and takes their rows in the order in which they stand."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")  # several would share out the rows of a list without ORDER BY
    connection.execute("SET TimeZone='UTC'")
    for macro in POSTGRES_MACROS:
        connection.execute(macro)
    for name, rows in tables.items():
        connection.register(name, rows)
    return connection


def assert_views_equal_duckdb(
    session: Session,
    tables: tuple[str, ...],
    views: Mapping[str, str],
    label: str,
) -> None:
    """Compare every view (name -> query over the tables) with DuckDB's result over the tables' present content."""
    with _open_reading_connection({name: content(session, name) for name in tables}) as connection:
        for name, query in views.items():
            expected = connection.sql(query).to_arrow_table()
            assert_equal(content(session, name), expected, f"{label}, view {name}")


def assert_equal(left: pa.Table, right: pa.Table, label: str, sums: Collection[int] | None = None) -> None:
    """Compare two results as multisets: everything exactly, where either side has a float to 1e-9 of the value.

    `sums` are the columns in which floats may differ so (None: all); any other float must be the same number, where NaN equals NaN
    and -0.0 equals 0.0. A decimal that stands against a float is rounded, so it may be off by half of its last digit too.
    """
    assert left.num_columns == right.num_columns, f"{label}: {left.column_names} against {right.column_names}"
    close = _tolerances(left.schema, right.schema)
    if sums is not None:
        close = {at: allowed for at, allowed in close.items() if at in sums}
    if not close:
        _assert_same_bag(left, right, label)
        return
    mine, other = _sorted_rows(left, close), _sorted_rows(right, close)
    assert len(mine) == len(other), f"{label}: {len(mine)} rows, {len(other)} expected"
    for got, expected in zip(mine, other, strict=True):
        for at, (value, wanted) in enumerate(zip(got, expected, strict=True)):
            same = _is_close(value, wanted, close[at]) if at in close else value == wanted
            assert same, (
                f"{label}, column {left.column_names[at]}: {value!r} is not {wanted!r}; {got} against {expected}"
            )


def _assert_same_bag(left: pa.Table, right: pa.Table, label: str) -> None:
    mine, other = Counter(_rows(left)), Counter(_rows(right))
    missing, extra = other - mine, mine - other
    assert not missing and not extra, (
        f"{label}: {sum(missing.values())} rows missing, {sum(extra.values())} too many; "
        f"missing {list(missing)[:5]}, too many {list(extra)[:5]}"
    )


def _tolerances(left: pa.Schema, right: pa.Schema) -> dict[int, float]:
    """Return the columns in which either side is a float, with the absolute error that a decimal's scale allows."""
    found = {}
    for at, pair in enumerate(zip(left.types, right.types, strict=True)):
        if any(pa.types.is_floating(kind) for kind in pair):
            scales = [kind.scale for kind in pair if pa.types.is_decimal(kind)]
            found[at] = 0.5000001 * 10.0 ** -scales[0] if scales else 0.0
    return found


def _is_close(value: Any, wanted: Any, allowed: float) -> bool:
    if value is None or wanted is None:
        return value is wanted
    one, two = float(value), float(wanted)
    if one == two or (math.isnan(one) and math.isnan(two)):
        return True
    if not (math.isfinite(one) and math.isfinite(two)):
        return False
    return abs(one - two) <= FLOAT_TOLERANCE * max(abs(one), abs(two), 1e-3) + allowed


def _sorted_rows(rows: pa.Table, close: dict[int, float]) -> list[tuple[Any, ...]]:
    exact = [at for at in range(rows.num_columns) if at not in close]

    def order(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(_sortable(row[at]) for at in exact), tuple(_coarse(row[at]) for at in close)

    return sorted(_rows(rows), key=order)


def _rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    if not rows.num_rows:
        return []
    columns = [[_comparable(value) for value in values_of(column)] for column in rows.columns]
    return list(zip(*columns, strict=True))


def _sortable(value: Any) -> tuple[bool, str, Any]:
    if isinstance(value, tuple):  # a list, in which there may be nulls
        return (True, "tuple", tuple(_sortable(item) for item in value))
    return (value is not None, type(value).__name__, value if value is not None else 0)


def _coarse(value: Any) -> tuple[bool, float]:
    if value is None:
        return (False, 0.0)
    number = float(value)
    return (True, math.inf if math.isnan(number) else float(f"{number:.5g}"))


def _comparable(value: Any) -> Any:
    convert: Callable[[Any], Any] | None = _CONVERSIONS.get(type(value))
    return value if convert is None else convert(value)


_CONVERSIONS: dict[type, Callable[[Any], Any]] = {
    int: Decimal,  # equal decimals are equal whatever their scale; normalize() would cut them to 28 digits
    float: lambda value: "NaN" if math.isnan(value) else value + 0.0,
    list: lambda value: tuple(_comparable(item) for item in value),
    dict: lambda value: tuple(sorted((str(key), _comparable(item)) for key, item in value.items())),
}
