"""Processes that poll three tables and keep views over them are killed at random moments, while transactions go on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.connectors.conformance import test_kill
from tests.connectors.postgres.server import Database
from tests.connectors.postgres.test_random import BALANCE, COLUMNS, QUERY, SETUP, check, look, transact

pytestmark = [pytest.mark.postgres, pytest.mark.crash]
KILLS = 6


def test_views_over_tables_whose_processes_are_killed_are_what_postgresql_answers(
    database: Database, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_kill, "KILLS", KILLS)
    chance = random.Random(7)
    database.run(*SETUP)
    with Session((tmp_path / "views").as_uri(), spark) as session, database.connect() as writer:
        for name, columns in COLUMNS.items():
            session.sql(f"CREATE TABLE {name} ({columns}) WITH ({database.options(f'public.{name}')})")
        session.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
        session.sql(f"CREATE MATERIALIZED VIEW balance AS {BALANCE}")
        killed = test_kill.killed_while(
            session.url, "poll", True, lambda _: transact(writer, chance), random.Random(8)
        )
        assert killed >= KILLS // 2
        for _ in range(2):
            session.store.refresh()
            assert not [one.error for one in session.poll() if one.error]
        check(session, database)
        assert [row[1] or 0 for row in look(session, "balance")] in ([0], [])
