"""TPC-H and Nexmark queries as views, loaded in one go and in epochs of changes, equal DuckDB's batch results."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from benchmarks import tpch
from engine.connectors.nexmark.events import NexmarkEvents
from engine.connectors.nexmark.source import NexmarkSource
from engine.session import Session
from tests.oracle.batch import assert_views_equal_duckdb, content
from tests.oracle.data_epochs import FOLDER, create_tables, for_duckdb, queries, write_in_epochs

NEXMARK_KEYS = {"person": ("id",), "auction": ("id",), "bid": ("id",)}
EPOCHS = 20
ARRIVED = ", p_time timestamp default proctime()"
"""The column of a bid that says when it came."""
SMALL = ("tpch_q01", "tpch_q13", "tpch_q17")


def nexmark_tables(events: int) -> dict[str, pa.Table]:
    source = NexmarkEvents(rate=10)
    return {kind: source.generate_rows(kind, 0, events) for kind in NEXMARK_KEYS}


def side_input() -> pa.Table:
    """Return the table that bids are enriched with as they come, which stays as it is."""
    keys = range(0, 10_000, 3)
    return pa.table({"key": keys, "value": [f"value {key % 97}" for key in keys]})


def create(session: Session, kind: str) -> tuple[str, ...]:
    """Create the tables of a data set, and return those that do not change, with their rows."""
    create_tables(session, kind)
    if kind != "nexmark":
        return ()
    session.write("side_input", side_input())
    return ("side_input",)


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
    data = tpch.generate_tables(0.01) if kind == "tpch" else nexmark_tables(20_000)
    stay = create(postgres, kind)
    for name, rows in data.items():
        postgres.write(name, rows)
    create_views(postgres, queries(kind))
    assert_views_equal_duckdb(postgres, (*data, *stay), judged(kind), "in one go")


@pytest.mark.oracle
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ["tpch", "nexmark"])
def test_all_queries_equal_batch_results_over_20_epochs_of_changes(postgres: Session, kind: str) -> None:
    data = tpch.generate_tables(0.01) if kind == "tpch" else nexmark_tables(20_000)
    keys = tpch.KEYS if kind == "tpch" else NEXMARK_KEYS
    stay = create(postgres, kind)
    create_views(postgres, queries(kind))
    for epoch in write_in_epochs(postgres, data, keys, 20, 0.02):
        postgres.flush().raise_for_errors()
        assert_views_equal_duckdb(postgres, (*data, *stay), judged(kind), f"epoch {epoch}")


@pytest.mark.oracle
@pytest.mark.timeout(7200)
def test_all_queries_of_nexmark_equal_batch_results_while_its_sources_go_on(postgres: Session) -> None:
    for statement in (FOLDER / "nexmark" / "schema.sql").read_text().split(";"):
        name = statement.split("(")[0].removeprefix("\ncreate table").removeprefix("create table").strip()
        if name in NEXMARK_KEYS:
            source = statement.strip().replace("create table", "create source", 1).replace(" primary key", "")
            source = source.replace(ARRIVED, "")  # a source has the columns of its events
            postgres.sql(f"{source} with (connector = 'nexmark', event_rate = '10', max_events = '20000')")
        elif name:
            postgres.sql(statement)
    postgres.write("side_input", side_input())
    views = {name: query for name, query in queries("nexmark").items() if "p_time" not in query}
    create_views(postgres, views)
    asked = {name: for_duckdb(query) for name, query in views.items()}
    tables = (*NEXMARK_KEYS, "side_input")
    for epoch in range(EPOCHS + 1):  # at the first poll the clock of a source begins
        for name in NEXMARK_KEYS:
            relation = postgres.catalog.get(name)
            assert NexmarkSource(postgres.store, relation, lambda now=epoch * 100.0: now).poll().error is None
        postgres.flush().raise_for_errors()
        assert_views_equal_duckdb(postgres, tables, asked, f"epoch {epoch}")
    assert content(postgres, "bid").num_rows > 18_000


def test_all_23_queries_of_nexmark_are_there() -> None:
    assert list(queries("nexmark")) == [f"nexmark_q{n:02}" for n in range(23)]


def test_some_queries_equal_batch_results_over_epochs_of_changes(postgres: Session) -> None:
    data = tpch.generate_tables(0.001)
    views = {name: queries("tpch")[name] for name in SMALL}
    create_tables(postgres, "tpch")
    create_views(postgres, views)
    for epoch in write_in_epochs(postgres, data, tpch.KEYS, 2, 0.02):
        postgres.flush().raise_for_errors()
        assert_views_equal_duckdb(postgres, tuple(data), views, f"epoch {epoch}")
