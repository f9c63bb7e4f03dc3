"""Sources of every kind, views of every kind over them, and a batch run by DuckDB that judges what these hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from engine.connectors.contract.connector import SourceReport
from engine.connectors.sources import poll_all
from engine.session import Session

ITEMS = "id BIGINT, g BIGINT, x BIGINT, v STRING"
"""The columns of the sources `s` and `u`; the table `t` has g and name."""
VIEWS = {
    "filtered": "SELECT id, x, v FROM s WHERE x > 3 OR v IS NULL",
    "grouped": "SELECT g, count(*) AS n, sum(x) AS total, max(x) AS best, min(v) AS least FROM s GROUP BY g",
    "of_all": "SELECT count(*) AS n, count(DISTINCT v) AS kinds, sum(x) AS total FROM s",
    "medians": "SELECT g, median(x) AS m FROM s GROUP BY g",
    "distinct_rows": "SELECT DISTINCT g, v FROM s",
    "with_table": "SELECT s.id, s.x, t.name FROM s JOIN t ON s.g = t.g",
    "outer_table": "SELECT t.g, t.name, s.x FROM t LEFT JOIN s ON s.g = t.g AND s.x > 2",
    "two_sources": "SELECT s.id AS a, u.id AS b, s.v AS v FROM s JOIN u ON s.g = u.g AND s.x = u.x",
    "with_itself": "SELECT a.id AS a, b.id AS b FROM s a JOIN s b ON a.x = b.id",
    "pairs": "SELECT a.id AS a, b.id AS b FROM s a JOIN u b ON a.x + 4 < b.x",
    "first_rows": "SELECT id, g, x FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY x DESC, id) AS n FROM s) r "
    "WHERE n <= 2",
    "highest": "SELECT id, x FROM s ORDER BY x DESC NULLS LAST, id LIMIT 3",
    "running": "SELECT id, g, sum(x) OVER (PARTITION BY g ORDER BY id) AS r, lag(x) OVER (PARTITION BY g ORDER BY id) AS l FROM s",
    "in_both": "SELECT id, x FROM s UNION ALL SELECT id, x FROM u",
    "in_half": "SELECT id, g FROM s WHERE EXISTS (SELECT 1 FROM u WHERE u.g = s.g)",
    "in_none": "SELECT id, g FROM s WHERE g NOT IN (SELECT g FROM u WHERE g IS NOT NULL) AND g IS NOT NULL",
    "over_average": "SELECT id, x FROM s WHERE x > (SELECT avg(x) FROM u)",
    "over_view": "SELECT n, count(*) AS groups FROM grouped GROUP BY n",
}


def poll(session: Session, *names: str) -> list[SourceReport]:
    """Poll sources, all without names; none may fail."""
    reports = poll_all(session.catalog, session.store, names or None, lambda: session.computing)
    assert [report.error for report in reports if report.error] == []
    return reports


def create_views(session: Session, views: Mapping[str, str], suffix: str = "") -> None:
    """Create views; those that read others come behind them."""
    for name, text in views.items():
        text = text.replace("grouped", f"grouped{suffix}") if suffix else text
        session.sql(f"CREATE MATERIALIZED VIEW {name}{suffix} AS {text}")


def check_views(
    session: Session, there: Mapping[str, pa.Table], views: Mapping[str, str], suffix: str = ""
) -> None:
    """Hold views against what DuckDB makes of the rows that their sources and tables are to have."""
    session.flush().raise_for_all()
    with duckdb.connect() as judge:
        for name, rows in there.items():
            judge.register(name, rows)
        for name, text in views.items():
            found = bag(session.sql(f"SELECT * FROM {name}{suffix}"))
            judge.execute(f"CREATE OR REPLACE VIEW {name} AS {text}")
            assert found == bag(judge.sql(f"SELECT * FROM {name}").to_arrow_table()), f"{name}{suffix}"


def bag(rows: pa.Table | None) -> list[tuple[Any, ...]]:
    """Return rows in an order of their own."""
    assert rows is not None
    return sorted((tuple(row.values()) for row in rows.to_pylist()), key=repr)


def kept(session: Session, name: str) -> tuple[int, int]:
    """Return how many rows of a source are loaded in the store, and how many changes wait in it."""
    table = session.store.refresh().tables[name]
    held = sum(sst.rows for one in table.generations for run in one.runs for sst in run)
    return held, sum(entry.rows for entry in table.log)
