"""EXPLAIN INCREMENTAL says where small epochs will be computed, as their reports say afterwards."""

from __future__ import annotations

import itertools

import pytest

from engine.session import Session

VIEWS = {
    "sums": "SELECT a.item, sum(b.price) AS s FROM bid b JOIN auction a ON b.auction = a.id GROUP BY a.item",
    "sounds": "SELECT id, soundex(word) AS sound FROM bid",
    "dearest": "SELECT id, price FROM bid ORDER BY price DESC LIMIT 1",
    "second": "SELECT id, price FROM bid ORDER BY price DESC LIMIT 1 OFFSET 1",
    "above": "SELECT id FROM bid WHERE price > (SELECT avg(price) FROM bid)",
    "pairs": "SELECT b.id, a.id AS other FROM bid b LEFT JOIN auction a ON a.id > b.auction",
    "recent": "SELECT id FROM bid WHERE at > now() - INTERVAL 1 HOUR",
}


@pytest.fixture
def project(session: Session) -> Session:
    session.sql(
        "CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT, word STRING, at TIMESTAMP)"
    )
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, item STRING)")
    return session


def forecast(session: Session, text: str) -> dict[str, str]:
    """Return what EXPLAIN says of each fragment of a statement."""
    lines = session.sql(f"EXPLAIN INCREMENTAL {text}").column("plan").to_pylist()
    return {
        header.split(":")[0].split()[1]: way.removeprefix("  small epochs: ")
        for header, way in itertools.pairwise(lines)
        if way.startswith("  small epochs: ")
    }


@pytest.mark.long
def test_epochs_are_computed_where_explain_says(project: Session) -> None:
    expected = {
        name: forecast(project, f"CREATE MATERIALIZED VIEW {name} AS {text}") for name, text in VIEWS.items()
    }
    for name, text in VIEWS.items():
        project.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    for n in range(3):
        project.sql(f"INSERT INTO bid VALUES ({n}, {n}, {n * 10}, 'a', now())")
        project.sql(f"INSERT INTO auction VALUES ({n}, 'x')")
        report = project.flush()
        report.raise_for_errors()
    for name in VIEWS:
        for table, way in report[name].ways.items():
            if way != "nowhere: nothing has changed" and not way.startswith("own action on Arrow: an input"):
                assert way == expected[name][table], table
    assert expected["sums"] == {"sums": "shared action"}
    assert expected["sounds"]["sounds"] == "own action with Spark: it computes soundex(`bid:word`)"


def test_what_reads_nothing_that_changes_is_computed_nowhere(project: Session) -> None:
    assert forecast(project, "VALUES (1), (2)") == {"explained": "nowhere: nothing that it reads changes"}
