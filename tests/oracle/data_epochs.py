"""A data set as epochs: rows arrive over several epochs while rows that are there are updated and deleted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.session import Session

FOLDER = Path(__file__).parent


def queries(kind: str) -> dict[str, str]:
    """Return the query texts of `tpch` or `nexmark` by name."""
    return {f"{kind}_{path.stem}": path.read_text() for path in sorted((FOLDER / kind).glob("q*.sql"))}


_SPAN = r"(interval '\d+' second)"
_TUMBLE = re.compile(rf"tumble\((\w+), (\w+), {_SPAN}\)")
_HOP = re.compile(rf"hop\((\w+), (\w+), {_SPAN}, {_SPAN}\)")
_ARRIVAL = re.compile(r" for system_time as of proctime\(\)")
_SESSION = re.compile(rf"session\((\w+) partition by (\w+), (\w+), {_SPAN}\)")


def for_duckdb(query: str) -> str:
    """Return a query with its windows of time as subqueries that DuckDB knows; windows that overlap are ten slides at most.

    A join with rows as they were is one with rows as they are: the judge is asked about tables that stay. Rows of the same time
    are of one session, in whatever order they come.
    """
    query = _ARRIVAL.sub("", query)
    query = _TUMBLE.sub(
        r"(select *, time_bucket(\3, \2) as window_start, time_bucket(\3, \2) + \3 as window_end from \1)",
        query,
    )
    query = _HOP.sub(
        r"(select *, window_start + \4 as window_end from (select *, time_bucket(\3, \2) - i * \3 as window_start "
        r"from \1, generate_series(0, 9) as n(i)) where window_start + \4 > \2)",
        query,
    )
    return _SESSION.sub(
        r"(select *, min(\3) over (partition by \2, n) as window_start, max(\3) over (partition by \2, n) + \4 as "
        r"window_end from (select *, sum(b) over (partition by \2 order by \3) as n from "
        r"(select *, case when \3 <= lag(\3) over (partition by \2 order by \3) + \4 then 0 else 1 end as b from \1)))",
        query,
    )


def create_tables(session: Session, kind: str) -> None:
    """Run the data set's CREATE TABLE statements."""
    for statement in (FOLDER / kind / "schema.sql").read_text().split(";"):
        if statement.strip():
            session.sql(statement)


def write_in_epochs(
    session: Session,
    data: Mapping[str, pa.Table],
    keys: Mapping[str, tuple[str, ...]],
    epochs: int,
    share: float,
) -> Iterator[int]:
    """Write the rows in so many epochs and yield after each, for the caller to flush.

    In each epoch `share` of the rows that are there are updated (they take the other columns of rows elsewhere in the
    table) and as many deleted; rows that were deleted come back later, half of them.
    """
    chance = np.random.default_rng(20)
    present = {name: np.zeros(rows.num_rows, dtype=bool) for name, rows in data.items()}
    arrival = {name: chance.integers(0, epochs, rows.num_rows) for name, rows in data.items()}
    for epoch in range(epochs):
        for name, rows in data.items():
            there = np.flatnonzero(present[name])
            fresh = np.flatnonzero(arrival[name] == epoch)
            touched = chance.permutation(there)[: 2 * int(np.ceil(len(there) * share))]
            updated, deleted = touched[::2], touched[1::2]
            gone = np.flatnonzero(~present[name] & (arrival[name] < epoch))
            fresh = np.concatenate([fresh, chance.permutation(gone)[: len(gone) // 2]])
            if len(fresh):
                session.write(name, rows.take(fresh), mode="upsert")
            if len(updated):
                other = rows.take(chance.integers(0, rows.num_rows, len(updated)))
                mixed = {
                    column: (rows.take(updated) if column in keys[name] else other).column(column)
                    for column in rows.column_names
                }
                session.write(name, pa.table(mixed), mode="upsert")
            if len(deleted):
                session.write(name, rows.take(deleted).select(list(keys[name])), mode="delete")
            present[name][fresh] = True
            present[name][deleted] = False
        yield epoch
