"""A store with one table and a landing folder that feeds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.connectors.landing.source import LandingSource
from engine.session import Session
from tests.connectors.kafka.server import stop_broker
from tests.connectors.postgres.server import stop_server
from tests.connectors.sinks.deliveries import put


@pytest.fixture(scope="session", autouse=True)
def servers(scratch_folder: Path) -> Iterator[None]:
    """Stop the PostgreSQL and the Kafka that tests of this process may have started."""
    yield
    stop_server()
    stop_broker()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The landing folder, in a project home of its own."""
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    made = tmp_path / "landing"
    made.mkdir()
    return made


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Session]:
    """A session over an empty store; no Spark is started."""
    with Session((tmp_path / "store").as_uri()) as opened:
        yield opened


@pytest.fixture
def source(lake: Session) -> Session:
    """A session with a table t of three rows."""
    lake.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    put(lake, {1: "a", 2: "b", 3: "c"})
    return lake


@pytest.fixture
def orders(lake: Session, folder: Path) -> Callable[..., LandingSource]:
    """A function that returns the source of the table `orders`, with more options if wanted."""

    def source(
        columns: str = "id INT PRIMARY KEY, name STRING, price DOUBLE", **options: str
    ) -> LandingSource:
        if "orders" not in lake.catalog.relations:
            texts = {"connector": "landing", "path": "landing", **options}
            with_ = ", ".join(f"{name} = '{value}'" for name, value in texts.items())
            lake.sql(f"CREATE TABLE orders ({columns}) WITH ({with_})")
        return LandingSource.of_relation(lake.store, lake.catalog.get("orders"))

    return source
