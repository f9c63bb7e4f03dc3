"""The queries of `queries.sql` as views: after random epochs they hold what DuckDB gives for the query as it was written."""

from __future__ import annotations

import os
import random
import sys

import pyarrow as pa
import pytest

from engine.errors import TidelineError
from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content
from tests.sql.test_results import queries, tables

KINDS = {"a": "bigint", "b": "int", "c": "int", "s": "text", "d": "date", "m": "numeric(10, 2)", "n": "int[]"}
GROUPS = 8


def create_all(session: Session) -> None:
    """Create the tables of test_results.py, half of their rows in them."""
    for name, rows in tables().items():
        columns = ", ".join(f"{c} {KINDS[c]}" for c in rows.column_names if c != "id")
        session.sql(f"CREATE TABLE {name} (id bigint PRIMARY KEY, {columns})")
        if rows.num_rows:
            session.write(name, rows.slice(0, rows.num_rows // 2))


def change(session: Session, chance: random.Random) -> None:
    """Delete some rows of every table, and write some others, known or new."""
    for name, rows in tables().items():
        if not rows.num_rows:
            continue
        chosen = [i for i in range(rows.num_rows) if chance.random() < 0.3]
        gone = [i for i in range(rows.num_rows) if chance.random() < 0.15]
        if gone:
            session.write(name, rows.take(pa.array(gone)).select(["id"]), mode="delete")
        if chosen:
            moved = rows.take(pa.array(chosen))
            other = rows.take(pa.array([chance.randrange(rows.num_rows) for _ in chosen]))
            mixed = pa.table([moved.column("id"), *other.columns[1:]], names=rows.column_names)
            session.write(name, mixed, mode="upsert")


@pytest.mark.oracle
@pytest.mark.parametrize("group", range(GROUPS))
def test_queries_as_views_hold_what_duckdb_gives(group: int, tmp_path) -> None:
    chance = random.Random(group)
    chosen = [case.values for n, case in enumerate(queries()) if n % GROUPS == group]
    only = os.environ.get("TIDELINE_QUERIES")
    chosen = [(title, query) for title, query in chosen if only is None or only in str(title)]
    wrong = []
    with Session(f"file://{tmp_path}/store", spark="local[2]", dialect="postgres") as session:
        create_all(session)
        views = {}
        for n, (title, query) in enumerate(chosen):
            try:
                session.sql(f"CREATE MATERIALIZED VIEW v{n} AS {query}")
                views[f"v{n}"] = (str(title), str(query))
            except Exception as error:
                wrong.append(f"{title}: {type(error).__name__} {str(error)[:600]}")
        for epoch in range(3):
            if epoch:
                change(session, chance)
            for failure in _flush(session):
                wrong.append(f"epoch {epoch}: {failure}")
            # a list without ORDER BY is in the order of the key, and DuckDB's in that in which the rows stand
            now = {name: content(session, name).sort_by("id") for name in tables()}
            for name, (title, query) in views.items():
                try:
                    assert_equal(content(session, name), by_duckdb(now, query), f"epoch {epoch}, {title}")
                except (AssertionError, TidelineError) as error:
                    wrong.append(f"{name} {str(error)[:400]}")
    for line in wrong:
        print(line, file=sys.stderr)
    assert not wrong


def _flush(session: Session) -> list[str]:
    try:
        session.flush().raise_for_errors()
    except TidelineError as error:
        return [str(error)[:1500]]
    return []
