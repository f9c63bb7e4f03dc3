"""Semi and anti joins over keys that many rows have: whether there is a match costs no more than one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.operators.context import EpochContext
from engine.operators.flow import Flow, Rows
from engine.operators.lookups import expand
from engine.operators.lookups.lookup import Probe, lookup
from engine.session import Session
from tests.oracle.batch import assert_equal, content, duckdb_over

TABLES = (
    "CREATE TABLE l (id BIGINT PRIMARY KEY, k INT); CREATE TABLE r (id BIGINT PRIMARY KEY, k INT, v BIGINT)"
)
VIEWS = {
    "there": "SELECT id FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "gone": "SELECT id FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)",
    "named": "SELECT id FROM l WHERE k IN (SELECT q.j FROM (SELECT k AS j, v + 1 AS w FROM r) q)",
    "above": "SELECT id FROM l WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > l.id)",
}
CHANGES = (
    "INSERT INTO r SELECT id, 7, id FROM range(1, 400)",
    "INSERT INTO l VALUES (5001, 7), (5002, 8), (5003, NULL); INSERT INTO r VALUES (5001, 8, 9000), (5002, NULL, 1)",
    "DELETE FROM r WHERE id > 3 AND id < 5000; UPDATE l SET k = 9 WHERE id = 1",
    "DELETE FROM r WHERE k = 7",
)


@pytest.mark.long
def test_whether_there_is_a_match_is_right_whatever_the_number_of_matches(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql(TABLES)
        session.sql("INSERT INTO l SELECT id, 7 FROM range(1, 300)")
        for name, query in VIEWS.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        session.flush().raise_for_errors()
        for change in CHANGES:
            session.sql(change)
            session.flush().raise_for_errors()
            with duckdb_over({name: content(session, name) for name in ("l", "r")}) as connection:
                for name, query in VIEWS.items():
                    assert_equal(
                        content(session, name), connection.sql(query).to_arrow_table(), f"{name}: {change}"
                    )


@pytest.mark.parametrize(("view", "ends"), [("there", {"first"}), ("gone", {"first"}), ("above", {None})])
def test_all_rows_of_a_key_are_looked_for_only_where_a_condition_tells_them_apart(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, view: str, ends: set[str | None]
) -> None:
    asked: list[tuple[str, Probe]] = []

    def heard(rows: Rows, context: EpochContext, table: str, probe: Probe, items: Any, hit: str) -> Flow:
        asked.append((table, probe))
        return lookup(rows, context, table, probe, items, hit)

    monkeypatch.setattr(expand, "lookup", heard)
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql(TABLES)
        session.sql("INSERT INTO l VALUES (1, 7); INSERT INTO r VALUES (1, 7, 3), (2, 7, 4)")
        session.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[view]}")
        session.flush().raise_for_errors()
        session.sql("INSERT INTO l VALUES (2, 7); INSERT INTO r VALUES (3, 7, 9)")
        session.flush().raise_for_errors()
    assert {probe.end for table, probe in asked if "r" in table.split("_")} == ends
