"""Two columns of one name: good where nobody has to choose between them, told with its place where somebody has."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.bind.binder import bind
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog
from tests.sql.test_plans import bound_plan

JOINED = "SELECT * FROM bid b JOIN auction a ON b.auction = a.id"


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
@pytest.mark.parametrize(
    "query",
    [
        f"SELECT id FROM bid x WHERE EXISTS ({JOINED} WHERE a.id = x.auction)",
        f"SELECT id FROM bid x WHERE NOT EXISTS ({JOINED} WHERE a.id = x.auction)",
        f"SELECT id, EXISTS ({JOINED} WHERE a.id = x.auction) AS e FROM bid x",
        f"SELECT price, item FROM ({JOINED}) AS x",
        f"SELECT count(*) AS n FROM ({JOINED}) AS x",
        f"WITH x AS ({JOINED}) SELECT sum(price) AS s FROM x",
        "SELECT x.q + x.r AS z FROM (SELECT price, price FROM bid) AS x (q, r)",
        "WITH x (q, r) AS (SELECT price, price FROM bid) SELECT q + r AS z FROM x",
        "SELECT id, price FROM bid UNION ALL SELECT price, price FROM bid",
        "SELECT price AS k, price AS k2 FROM (SELECT price, auction AS k, id AS k FROM bid) AS x",
        "SELECT (SELECT count(*) FROM (SELECT price AS k, id AS k FROM bid) AS y) AS n, id FROM bid",
    ],
)
def test_equal_names_that_nobody_reads_are_good(query: str, dialect: str) -> None:
    assert bound_plan(query, dialect)


@pytest.mark.parametrize(
    ("query", "says", "at"),
    [
        ("SELECT price, auction AS price FROM bid", "two columns are named price", "auction AS"),
        (JOINED, "two columns are named id", "*"),
        (f"SELECT * FROM ({JOINED}) AS x", "two columns are named id", "*"),
        (f"SELECT x.id FROM ({JOINED}) AS x", "column id is ambiguous", "x.id"),
        (f"SELECT price FROM ({JOINED}) AS x JOIN bid y USING (id)", None, "id)"),
        ("SELECT price AS k, auction AS k FROM bid ORDER BY k", None, "k"),
        ("SELECT price AS k, auction AS k, count(*) AS n FROM bid GROUP BY k", None, "k"),
        (
            "(SELECT price AS k, auction AS k FROM bid UNION ALL SELECT 1, 2) ORDER BY k LIMIT 1",
            None,
            "k LIMIT",
        ),
        ("SELECT price AS k, id AS k FROM bid UNION ALL SELECT 1, 2", "two columns are named k", "id AS k"),
    ],
)
def test_who_has_to_choose_is_told(query: str, says: str | None, at: str) -> None:
    for dialect in ("spark", "postgres"):
        with pytest.raises(SqlError) as caught:
            bound_plan(query, dialect)
        assert caught.value.message == (says or caught.value.message)
        assert query[caught.value.column - 1 :].startswith(at)


def test_a_list_of_names_beside_a_query_makes_equal_names_good() -> None:
    statement = parse_statement("SELECT price AS k, auction AS k FROM bid ORDER BY 2", "spark")
    assert isinstance(statement, Select)
    bound = bind(statement.query, small_catalog(), dialect="spark", sql="", named=True)
    assert [name for name, _ in bound.columns] == ["k", "k"]
    assert len({internal for _, internal in bound.columns}) == 2


def test_an_order_by_a_name_of_two_equal_columns_is_good() -> None:
    assert bound_plan(
        "SELECT q FROM (SELECT price AS k, price AS k, id AS q FROM bid ORDER BY k LIMIT 3) x", "spark"
    )
