"""Two processes that flush the same store at once leave it right: one wins each epoch, the other follows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content

QUERY = "SELECT auction, count(*) AS n, sum(price) AS total, max(price) AS high FROM bid GROUP BY auction"
ABOVE = "SELECT n, count(*) AS auctions FROM top GROUP BY n"


@pytest.mark.parametrize(
    "epochs", [pytest.param(6, id="short"), pytest.param(50, marks=pytest.mark.crash, id="long")]
)
@pytest.mark.long
def test_two_processes_that_flush_at_once_leave_the_views_right(session: Session, epochs: int) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql(f"CREATE MATERIALIZED VIEW top AS {QUERY}")
    session.sql(f"CREATE MATERIALIZED VIEW above AS {ABOVE}")
    racers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.crash.racer", session.url, str(n), str(epochs), "local[1]"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in (1, 2)
    ]
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline().strip() == "ready"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    results = [racer.communicate()[0].strip() for racer in racers]
    assert [result.split()[0] for result in results] == ["done", "done"]
    tables = {"bid": content(session, "bid")}
    assert tables["bid"].num_rows == 2 * epochs * 10
    assert_equal(content(session, "top"), by_duckdb(tables, QUERY), "top")
    assert_equal(
        content(session, "above"), by_duckdb(tables, ABOVE.replace("FROM top", f"FROM ({QUERY}) t")), "above"
    )
