"""DROP of several relations is one commit: all of them go, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.meta.domains.mutation import read_control
from engine.session import Session


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[Session]:
    with Session((tmp_path / "s").as_uri(), dialect="postgres") as session:
        session.sql("CREATE TABLE a (id INT PRIMARY KEY)")
        session.sql("CREATE TABLE b (id INT PRIMARY KEY)")
        session.sql("CREATE VIEW v AS SELECT id FROM a")
        session.sql("CREATE VIEW w AS SELECT id FROM v")
        yield session


def test_all_go_in_one_commit(lone: Session) -> None:
    before = lone.store.refresh().number
    lone.sql("DROP VIEW v, w")
    assert lone.store.refresh().number == before + 1
    lone.sql("DROP TABLE a, b")
    assert lone.store.refresh().number == before + 2
    assert not lone.store.version.tables


def test_one_that_is_read_by_another_relation_keeps_all_of_them(lone: Session) -> None:
    with pytest.raises(SqlError, match="a is read by v"):
        lone.sql("DROP TABLE b, a")
    assert set(lone.store.refresh().tables) == {"a", "b"}


def test_what_reads_them_goes_with_cascade(lone: Session) -> None:
    lone.sql("DROP TABLE IF EXISTS b, missing, a CASCADE")
    assert not lone.store.refresh().tables
    assert "v" not in lone.catalog.relations


def test_a_pause_of_a_dropped_view_passes_to_a_view_not_to_an_index(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, k BIGINT)")
    options = "WITH (domain = 'd')"
    session.sql(f"CREATE MATERIALIZED VIEW counts {options} AS SELECT k, count(*) AS n FROM bid GROUP BY k")
    session.sql(
        f"CREATE MATERIALIZED VIEW known {options} AS SELECT bid.id, c.k FROM counts c JOIN bid ON bid.id = c.n"
    )
    session.sql(f"CREATE MATERIALIZED VIEW last {options} AS SELECT id FROM bid")
    assert any(member.startswith("_index") for member in session.members("d"))
    session.pause("last")
    session.sql("DROP MATERIALIZED VIEW last")
    assert [asked.view for asked in read_control(session.store.refresh(), "d").asked] == ["counts"]
