"""The hidden views of checks: planned with their view, seen by nobody, renamed and dropped with it; wrong checks are refused."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session

QUERY = "SELECT shop, sum(price) AS total, count(*) AS n, array(sum(price)) AS prices FROM sale GROUP BY shop"
CHECKS = "not_null(shop); unique(total); big: n < 9 warn; falls_at_most(0.5); one: SELECT shop FROM v WHERE n > total"


@pytest.fixture
def sales(session: Session) -> Session:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop STRING, price INT)")
    session.sql("INSERT INTO sale VALUES (1, 'a', 5), (2, 'b', 7)")
    return session


def create(checks: str, name: str = "v", query: str = QUERY, options: str = "") -> str:
    literal = checks.replace("'", "''")
    return f"CREATE MATERIALIZED VIEW {name} WITH (checks = '{literal}'{options}) AS {query}"


WRONG = [
    ("not_null(colour)", "v has no column colour", "not_null"),
    ("n > 0; unique(shop, colour)", "v has no column colour", "unique"),
    ("colour > 1", "check check_1: there is no column colour", "colour"),
    ("n >= 0; n >", "check check_2", "n >"),
    ("n + 1", "the condition is of type bigint, not true or false", "n + 1"),
    ("shop > '0' AND upper(n, 2)", "check check_1: the statement cannot be parsed", ")"),
    ("sum(n) > 1", "this is no condition on a row", "sum"),
    ("n > (SELECT 1)", "this is no condition on a row", "n >"),
    ("row_number() OVER (ORDER BY n) < 3", "this is no condition on a row", "row_number"),
    ("n > 0) OR (n < 9", "closes a parenthesis that is not open", ") OR"),
    ("accepted(n, 1, shop)", r"accepted\(n\) takes values only", "accepted"),
    ("unique(prices)", "prices is an array", "unique"),
    ("one: SELECT shop FROM sale", "check one reads sale", "one"),
    ("one: SELECT 1 AS x", "check one does not read v", "one"),
    ("one: SELECT shop FROM w", "there is no table or view w", "w"),
    ("one: SELECT shop, colour FROM v", "there is no column colour", "colour"),
    ("one: SELECT shop, n AS shop FROM v", "two columns are named shop", "n AS"),
    ("one: SELECT rand() AS x FROM v", "another value each time", "rand"),
    ("n > now()", "another value each time", "now"),
]


@pytest.mark.parametrize(("checks", "says", "at"), WRONG)
def test_a_wrong_check_is_refused_with_its_place_and_leaves_no_trace(
    sales: Session, checks: str, says: str, at: str
) -> None:
    with pytest.raises(SqlError, match=says) as error:
        sales.sql(create(checks))
    assert error.value.hint and error.value.line == 1
    assert create(checks)[error.value.column - 1 :].startswith(at), str(error.value)
    assert "checked_rows" not in str(error.value)
    assert list(sales.catalog.relations) == ["sale"]


@pytest.mark.long
def test_what_checks_are_kept_by_is_seen_in_the_plan_alone(sales: Session) -> None:
    sales.sql(create(CHECKS))
    shown = [row["name"] for row in sales.sql("SHOW ALL").to_pylist()]
    assert shown == ["sale", "v"] and [one.name for one in sales.status()] == ["sale", "v"]
    sales.sql("INSERT INTO sale VALUES (3, 'c', 8)")
    assert [one.view for one in sales.flush().views] == ["v"]
    names = sales.sql("SELECT table_name FROM information_schema.tables WHERE table_name LIKE '%check%'")
    assert names.num_rows == 0
    with pytest.raises(SqlError, match="there is no table or view _check_1_v"):
        sales.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM _check_1_v")
    plans = [
        row["plan"]
        for row in sales.sql(
            f"EXPLAIN INCREMENTAL {create(CHECKS, 'v2').replace('FROM v ', 'FROM v2 ')}"
        ).to_pylist()
    ]
    assert "check big (warn): n < 9; kept by _check_1_v2, _count_1_v2" in plans
    assert any(line.startswith("check _check_2_v2: rule linear") for line in plans)


def test_a_check_of_the_key_alone_costs_nothing(sales: Session) -> None:
    sales.sql(create("unique(shop, n)"))
    assert not [name for name in sales.catalog.relations if name.startswith(("_check", "_count"))]
    assert sales.flush(["v"])["v"].checks["unique_shop_n"].passed


@pytest.mark.long
def test_checks_get_another_name_with_their_view_and_go_on(sales: Session) -> None:
    sales.sql(create(CHECKS))
    sales.sql("CREATE MATERIALIZED VIEW other AS SELECT id, price FROM sale")
    sales.sql("ALTER MATERIALIZED VIEW v RENAME TO w")
    statement = sales.sql("SHOW CREATE MATERIALIZED VIEW w").to_pylist()[0]["create_statement"]
    assert "SELECT shop FROM w AS v WHERE n > total" in statement
    sales.sql("ALTER MATERIALIZED VIEW w SWAP WITH other")
    sales.sql("INSERT INTO sale VALUES (3, 'c', 7)")
    report = sales.flush()
    assert report["other"].error is not None and "check unique_total of other" in report["other"].error
    assert report["w"].error is None
    sales.sql("UPDATE sale SET price = 9 WHERE id = 3")
    assert sales.flush()["other"].error is None
    with pytest.raises(SqlError, match="checks of other name its columns"):
        sales.sql("ALTER MATERIALIZED VIEW other RENAME COLUMN n TO m")
    sales.sql("DROP MATERIALIZED VIEW other")
    assert sorted(sales.catalog.relations) == ["sale", "w"]
    version = sales.store.refresh()
    assert sorted(version.tables) == ["sale", "w"]
    assert not [key for key in version.catalog if key.startswith(("checks/", "failure/", "barrier/"))]


def test_checks_commit_with_the_domain_that_their_view_names(sales: Session) -> None:
    sales.sql("CREATE MATERIALIZED VIEW d1 WITH (domain = 'd') AS SELECT id, price FROM sale")
    sales.sql(create("total < 20", options=", domain = 'd'"))
    sales.sql("INSERT INTO sale VALUES (3, 'a', 30)")
    report = sales.flush()
    assert "check check_1 of v" in (report["d1"].error or "") and report["d1"].error == report["v"].error
    sales.sql("DELETE FROM sale WHERE id = 3")
    assert sales.flush()["d1"].error is None


def test_names_as_they_were_written_are_found(sales: Session) -> None:
    sales.dialect = "postgres"
    sales.sql('CREATE TABLE odd ("Id" int PRIMARY KEY, "a b" text, plain int)')
    sales.sql("""INSERT INTO odd VALUES (1, 'x', 1)""")
    checks = 'not_null("a b", PLAIN); accepted("a b", \'x\'); "Id" > 0; unique("a b"); s: SELECT "Id" FROM "V w" WHERE plain::text = \'5\''
    sales.sql(create(checks, '"V w"', "SELECT * FROM odd"))
    sales.sql("INSERT INTO odd VALUES (-2, 'x', null), (3, null, 5)")
    results = sales.flush()["V w"].checks
    assert {name: one.rows for name, one in results.items()} == {
        "not_null_a_b_plain": 2,
        "accepted_a_b": 0,
        "check_3": 1,
        "unique_a_b": 1,
        "s": 1,
    }
    assert results["check_3"].sample == ("Id = -2",) and results["unique_a_b"].sample == ("a b = 'x'",)
