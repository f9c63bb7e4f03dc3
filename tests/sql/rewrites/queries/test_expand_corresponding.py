"""UNION, INTERSECT and EXCEPT CORRESPONDING: which columns meet, in maintained views and in queries answered once."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.batch.ad_hoc import to_spark
from engine.sql.bind.binder import bind
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog


def _shown(query: str, dialect: str = "risingwave") -> list[str]:
    statement = parse_statement(query, dialect)
    assert isinstance(statement, Select)
    bound = bind(statement.query, small_catalog(), dialect=dialect, sql=query)
    return [name for name, _ in bound.columns]


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
@pytest.mark.parametrize("word", ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
def test_shared_columns_meet_in_the_order_of_the_left_side(word: str, dialect: str) -> None:
    query = f"SELECT note, id, price FROM bid {word} CORRESPONDING SELECT category AS price, item AS note FROM auction"
    assert _shown(query, dialect) == ["note", "price"]


def test_by_says_which_columns_meet_and_in_which_order() -> None:
    assert _shown("SELECT * FROM bid UNION CORRESPONDING BY (price, id) SELECT * FROM dear") == [
        "price",
        "id",
    ]


def test_a_star_shows_what_a_table_a_view_and_a_with_item_show() -> None:
    assert _shown("SELECT * FROM bid UNION ALL CORRESPONDING SELECT * FROM dear") == ["id", "price"]
    query = "WITH w AS (SELECT price, item FROM bid, auction) SELECT * FROM w EXCEPT CORRESPONDING (SELECT * FROM bid)"
    assert _shown(query) == ["price"]


def test_a_chain_is_read_from_the_left() -> None:
    query = "SELECT id, price FROM bid UNION CORRESPONDING SELECT price FROM bid UNION CORRESPONDING SELECT * FROM bid"
    assert _shown(query) == ["price"]


def test_a_query_answered_once_is_written_out_for_spark() -> None:
    statement = parse_statement("SELECT * FROM bid UNION CORRESPONDING SELECT * FROM dear", "risingwave")
    assert isinstance(statement, Select)
    text = to_spark(statement.query, small_catalog(), "risingwave")
    assert text.count("SELECT `id`, `price` FROM (") == 2
    assert "BY NAME" not in text


@pytest.mark.parametrize(
    ("query", "says", "place"),
    [
        (
            "SELECT id FROM bid UNION CORRESPONDING SELECT item FROM auction",
            "the sides share no column: id and item",
            (1, 20),
        ),
        (
            "SELECT id FROM bid\nUNION CORRESPONDING BY (id) SELECT item FROM auction",
            "the right side has no column id",
            (2, 25),
        ),
        (
            "SELECT id FROM bid UNION CORRESPONDING SELECT * FROM explode(array(1))",
            "the columns of the right side of CORRESPONDING are not known",
            (1, 20),
        ),
        ("SELECT id FROM bid UNION BY NAME SELECT id FROM auction", "BY NAME is not supported", (1, 20)),
    ],
)
def test_what_cannot_meet_is_told_with_its_place(query: str, says: str, place: tuple[int, int]) -> None:
    with pytest.raises(SqlError) as caught:
        _shown(query)
    assert says in caught.value.message
    assert (caught.value.line, caught.value.column) == place
