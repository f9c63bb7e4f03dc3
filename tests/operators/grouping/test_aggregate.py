"""Groups that are computed again from their rows."""

from __future__ import annotations

import pytest

from engine.session import Session
from tests.oracle.batch import content

CALLS = "count(DISTINCT 10 % n) AS c, array_sort(collect_list(10 div n)) AS l, median(10 % n) AS m, percentile(n, 1 - 0.5) AS p"
VIEWS = {
    "whole": f"SELECT {CALLS} FROM bid WHERE n <> 0",
    "parts": f"SELECT k, {CALLS} FROM bid WHERE n <> 0 GROUP BY k",
    "spread": "SELECT k, var_pop(10 % n) AS v, count(DISTINCT id) AS c FROM bid WHERE n <> 0 GROUP BY k",
}


@pytest.mark.long
def test_what_a_call_computes_fails_on_no_row_that_a_filter_leaves_out(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, k BIGINT, n BIGINT)")
    session.sql("INSERT INTO bid VALUES (1, 1, 4), (2, 1, 0)")
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    session.flush().raise_for_errors()
    session.sql("INSERT INTO bid VALUES (3, 1, 3)")
    session.flush().raise_for_errors()
    found = {"c": 2, "l": [2, 3], "m": 1.5, "p": 3.5}
    assert content(session, "whole").to_pylist() == [found]
    assert content(session, "parts").to_pylist() == [{"k": 1, **found}]
    assert content(session, "spread").to_pylist() == [{"k": 1, "v": 0.25, "c": 2}]
    session.sql("DELETE FROM bid WHERE n <> 0")
    session.flush().raise_for_errors()
    assert content(session, "whole").to_pylist() == [{"c": 0, "l": [], "m": None, "p": None}]
    assert content(session, "parts").to_pylist() == []


DIVIDING = {
    "of parts": "SELECT k, avg(x) AS a, 60 / count(n) AS v, 60 / sum(n) AS s FROM bid GROUP BY k",
    "of others": "SELECT k + 1 AS l, avg(x) AS a, 60 / count(DISTINCT n) AS v FROM bid GROUP BY k + 1",
    "of some": "SELECT k, avg(x) AS a FROM bid GROUP BY k HAVING 60 / count(n) > 1",
}


def test_nothing_is_computed_of_a_group_that_has_gone(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, k BIGINT, n BIGINT, x DOUBLE)")
    session.sql("INSERT INTO bid VALUES (1, 1, 4, 0.5), (2, 2, 5, 1.5)")
    for number, query in enumerate(DIVIDING.values()):
        session.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}", build=False)
    session.flush().raise_for_errors()
    for text in ("DELETE FROM bid WHERE k = 2", "UPDATE bid SET k = 3", "DELETE FROM bid"):
        session.sql(text)
        session.flush().raise_for_errors()
        for number, (name, query) in enumerate(DIVIDING.items()):
            found = session.sql(f"SELECT * FROM v{number}").to_pylist()
            assert found == session.sql(query).to_pylist(), name
