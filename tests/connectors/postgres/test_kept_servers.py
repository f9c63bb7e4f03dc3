"""Connections between the polls of a store."""

from __future__ import annotations

import pytest

from engine.connectors.postgres.kept_servers import lend_server
from engine.connectors.postgres.settings import parse_settings
from engine.errors import SourceError
from engine.session import Session
from tests.connectors.postgres.server import Database
from tests.connectors.postgres.test_source import create, poll, rows

pytestmark = pytest.mark.postgres
MINE = "SELECT pid FROM pg_stat_activity WHERE application_name = 'tideline' AND datname = current_database()"


def follow(lake: Session, database: Database) -> None:
    """Follow a table that has a row."""
    database.run(
        "CREATE TABLE v (id bigint PRIMARY KEY, n bigint)",
        "CREATE PUBLICATION tideline FOR TABLE v",
        "INSERT INTO v VALUES (1, 1)",
    )
    create(lake, database, "v", "id BIGINT PRIMARY KEY, n BIGINT")
    poll(lake)


def test_polls_use_one_connection_after_another(lake: Session, database: Database) -> None:
    follow(lake, database)
    seen = set()
    for n in range(3):
        database.run(f"UPDATE v SET n = {n + 10}")
        poll(lake)
        assert rows(lake, "v") == [(1, n + 10)]
        seen.add(tuple(sorted(database.ask(MINE))))
    assert len(seen) == 1


def test_a_connection_that_has_ended_meanwhile_is_opened_again(lake: Session, database: Database) -> None:
    follow(lake, database)
    database.ask(f"SELECT pg_terminate_backend(pid, 10000) FROM ({MINE}) AS mine")
    database.run("UPDATE v SET n = 2")
    poll(lake)
    assert rows(lake, "v") == [(1, 2)]


def test_a_connection_of_a_block_that_fails_is_not_kept(lake: Session, database: Database) -> None:
    options = dict(part.split(" = ") for part in database.options("public.v").split(", "))
    settings = parse_settings({name: text.strip("'") for name, text in options.items()})
    with pytest.raises(SourceError), lend_server(lake.store, settings) as first:
        first.query("SELECT FROM nowhere")
    assert first.connection.closed
    with lend_server(lake.store, settings) as second:
        second.query_nothing("SELECT")
    with lend_server(lake.store, settings) as third, lend_server(lake.store, settings) as fourth:
        assert third is second and fourth is not third
    assert not second.connection.closed
