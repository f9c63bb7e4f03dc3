"""Groups that are computed again from their rows."""

from __future__ import annotations

from engine.session import Session
from tests.oracle.batch import content

CALLS = "count(DISTINCT 10 % n) AS c, array_sort(collect_list(10 div n)) AS l, median(10 % n) AS m, percentile(n, 1 - 0.5) AS p"
VIEWS = {
    "whole": f"SELECT {CALLS} FROM bid WHERE n <> 0",
    "parts": f"SELECT k, {CALLS} FROM bid WHERE n <> 0 GROUP BY k",
    "spread": "SELECT k, var_pop(10 % n) AS v, count(DISTINCT id) AS c FROM bid WHERE n <> 0 GROUP BY k",
}


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
