"""TPC-H and Nexmark queries as views, loaded in one go and in epochs of changes, equal DuckDB's batch results."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from benchmarks import tpch
from engine.connectors.nexmark_events import NexmarkEvents
from engine.session import Session
from tests.oracle.batch import assert_views_equal_duckdb
from tests.oracle.data_epochs import create_tables, for_duckdb, queries, write_in_epochs
from tests.uncompiled import uncompiled

NEXMARK_KEYS = {"person": ("id",), "auction": ("id",), "bid": ("id",)}
SMALL = ("tpch_q01", "tpch_q13", "tpch_q17")


def nexmark_tables(events: int) -> dict[str, pa.Table]:
    source = NexmarkEvents(rate=10)
    return {kind: source.rows(kind, 0, events) for kind in NEXMARK_KEYS}


def judged(kind: str) -> dict[str, str]:
    """Return the queries as DuckDB is asked."""
    return {name: for_duckdb(query) for name, query in queries(kind).items()}


@pytest.fixture
def postgres(session: Session) -> Session:
    session.dialect = "postgres"
    return session


def create_views(session: Session, views: Mapping[str, str]) -> None:
    for name, query in views.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


@pytest.mark.oracle
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["tpch", "nexmark"])
def test_all_queries_equal_batch_results_over_rows_loaded_in_one_go(postgres: Session, kind: str) -> None:
    data = tpch.tables(0.01) if kind == "tpch" else nexmark_tables(20_000)
    create_tables(postgres, kind)
    for name, rows in data.items():
        postgres.write(name, rows)
    create_views(postgres, queries(kind))
    assert_views_equal_duckdb(postgres, tuple(data), judged(kind), "in one go")


@pytest.mark.oracle
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["tpch", "nexmark"])
def test_all_queries_equal_batch_results_over_20_epochs_of_changes(postgres: Session, kind: str) -> None:
    data = tpch.tables(0.01) if kind == "tpch" else nexmark_tables(20_000)
    keys = tpch.KEYS if kind == "tpch" else NEXMARK_KEYS
    create_tables(postgres, kind)
    create_views(postgres, queries(kind))
    with uncompiled(postgres.spark):
        for epoch in write_in_epochs(postgres, data, keys, 20, 0.02):
            postgres.flush().raise_for_errors()
            assert_views_equal_duckdb(postgres, tuple(data), judged(kind), f"epoch {epoch}")


def test_some_queries_equal_batch_results_over_epochs_of_changes(postgres: Session) -> None:
    data = tpch.tables(0.001)
    views = {name: queries("tpch")[name] for name in SMALL}
    create_tables(postgres, "tpch")
    create_views(postgres, views)
    for epoch in write_in_epochs(postgres, data, tpch.KEYS, 2, 0.02):
        postgres.flush().raise_for_errors()
        assert_views_equal_duckdb(postgres, tuple(data), views, f"epoch {epoch}")
