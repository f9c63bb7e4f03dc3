"""A window that has no meaning, or none that can be kept, is refused with its place and with what to write instead."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.bind.binder import bind
from engine.sql.dialect import Dialect
from engine.sql.statements.reader import CreateMaterializedView, parse_statement
from tests.sql.catalog import small_catalog

# (what stands after SELECT, what the message says, the text that the caret stands under, a word of the remedy)
WRONG = (
    (
        "id FROM bid WHERE row_number() OVER (ORDER BY id) = 1",
        "a window function in WHERE",
        "row_number",
        "QUALIFY",
    ),
    (
        "count(*) AS n FROM bid GROUP BY rank() OVER (ORDER BY id)",
        "window function in GROUP BY",
        "rank",
        "subquery",
    ),
    (
        "rank() OVER (ORDER BY id) AS r, count(*) AS n FROM bid GROUP BY r",
        "in GROUP BY",
        "rank",
        "subquery in FROM",
    ),
    (
        "rank() OVER (ORDER BY id) AS r, count(*) AS n FROM bid GROUP BY 1",
        "in GROUP BY",
        "rank",
        "subquery in FROM",
    ),
    (
        "auction FROM bid GROUP BY auction HAVING sum(count(*)) OVER () > 1",
        "window function in HAVING",
        "sum",
        "subquery",
    ),
    (
        "b.id FROM bid b JOIN auction a ON a.id = rank() OVER (ORDER BY b.id)",
        "in ON",
        "rank",
        "subquery in FROM",
    ),
    (
        "sum(rank() OVER (ORDER BY id)) OVER () AS r FROM bid",
        "inside a window function",
        "rank",
        "inner one in a subquery",
    ),
    ("sum(rank() OVER (ORDER BY id)) AS r FROM bid", "inside an aggregate", "rank", "aggregate that"),
    (
        "id, lag(price, -1) OVER (ORDER BY id) AS l FROM bid",
        "-1 as the offset of lag",
        "1)",
        "lead looks the other way",
    ),
    (
        "id, lead(price, auction) OVER (ORDER BY id) AS l FROM bid",
        "auction as the offset of lead",
        "auction)",
        "from 0",
    ),
    (
        "id, ntile(0) OVER (ORDER BY id) AS l FROM bid",
        "0 as the number of buckets",
        "0)",
        "whole number from 1",
    ),
    ("id, ntile(auction) OVER (ORDER BY id) AS l FROM bid", "number of buckets", "auction)", "from 1"),
    (
        "id, nth_value(price, 0) OVER (ORDER BY id) AS l FROM bid",
        "0 as the row of nth_value",
        "0)",
        "from 1",
    ),
    (
        "id, rank(price) OVER (ORDER BY id) AS l FROM bid",
        "rank takes 0 arguments, 1 are given",
        "rank",
        "those",
    ),
    ("id, rank() OVER (PARTITION BY auction) AS l FROM bid", "rank needs an order", "rank", "ORDER BY"),
    ("id, lag(price) OVER () AS l FROM bid", "lag needs an order", "lag", "ORDER BY"),
    (
        "id, rank() FILTER (WHERE price > 1) OVER (ORDER BY id) AS l FROM bid",
        "FILTER of rank",
        "rank",
        "CASE",
    ),
    ("id, sum(price) IGNORE NULLS OVER (ORDER BY id) AS l FROM bid", "IGNORE NULLS in sum", "sum", "take"),
    ("id, upper(note) OVER (ORDER BY id) AS l FROM bid", "upper over a window", "upper", "aggregates"),
    (
        "id, count(DISTINCT price) OVER (PARTITION BY auction) AS l FROM bid",
        "DISTINCT in count",
        "count",
        "FROM",
    ),
    (
        "id, percentile_cont(0.5) WITHIN GROUP (ORDER BY price) OVER (PARTITION BY auction) AS l FROM bid",
        "WITHIN GROUP of percentile_cont",
        "percentile_cont",
        "join it",
    ),
    (
        "id, median(price) OVER (PARTITION BY auction ORDER BY id) AS l FROM bid",
        "median over a part",
        "median",
        "frame",
    ),
    (
        "id, array_agg(note ORDER BY id) OVER (PARTITION BY auction) AS l FROM bid",
        "ORDER BY inside",
        "array_agg",
        "OVER",
    ),
    ("id, sum(prise) OVER (ORDER BY id) AS l FROM bid", "no column prise", "prise", "price"),
    ("id, sum(price) OVER (PARTITION BY nope) AS l FROM bid", "no column nope", "nope", "note"),
    ("id, sum(price) OVER (ORDER BY rand()) AS l FROM bid", "another value each time", "rand", "column"),
    (
        "auction, sum(price) OVER (ORDER BY auction) AS l FROM bid GROUP BY auction",
        "neither grouped",
        "price",
        "GROUP BY",
    ),
    ("lag(price) AS s FROM bid", "lag without a window", "lag", "OVER"),
    ("row_number() AS s FROM bid", "row_number without a window", "row_number", "OVER"),
    ("id FROM bid QUALIFY price > 3", "QUALIFY without a window function", "QUALIFY", "WHERE"),
    ("id, sum(price) OVER w AS l FROM bid", "no window w", "w AS", "WINDOW"),
    (
        "id, sum(price) OVER v AS l FROM bid WINDOW w AS (ORDER BY id)",
        "no window v",
        "v AS",
        "windows are w",
    ),
    (
        "id, sum(price) OVER w AS l FROM bid WINDOW w AS (PARTITION BY id), w AS (ORDER BY id)",
        "two windows are named w",
        "w AS (ORDER",
        "of its own",
    ),
    (
        "id, sum(price) OVER (w PARTITION BY auction) AS l FROM bid WINDOW w AS (ORDER BY id)",
        "PARTITION BY beside",
        "w PARTITION",
        "whole window",
    ),
    (
        "id, sum(price) OVER (w ORDER BY auction) AS l FROM bid WINDOW w AS (ORDER BY id)",
        "has ORDER BY already",
        "w ORDER",
        "whole window",
    ),
    ("id FROM bid FETCH FIRST 3 ROWS WITH TIES", "WITH TIES without ORDER BY", "FETCH", "ORDER BY"),
)
# (the order and the frame of sum(price) OVER (…), what the message says, the text under the caret, a word of the remedy)
FRAMES = (
    ("ORDER BY id, price RANGE 1 PRECEDING", "over 2 expressions", "1 PRECEDING", "just one"),
    ("PARTITION BY id RANGE 1 PRECEDING", "over 0 expressions", "1 PRECEDING", "just one"),
    ("ORDER BY note RANGE 1 PRECEDING", "offset over string", "1 PRECEDING", "a number, a date"),
    ("ORDER BY id RANGE INTERVAL '1' DAY PRECEDING", "as an offset of a frame", "'1'", "number"),
    ("ORDER BY id RANGE BETWEEN -1 PRECEDING AND CURRENT ROW", "-1 as an offset", "1 PRECEDING", "negative"),
    ("ORDER BY id ROWS BETWEEN 1 FOLLOWING AND CURRENT ROW", "ends before it starts", "1 FOLL", "order"),
    ("ORDER BY id ROWS BETWEEN CURRENT ROW AND 1 PRECEDING", "ends before it starts", "1 PREC", "order"),
    (
        "ORDER BY id ROWS BETWEEN UNBOUNDED FOLLOWING AND CURRENT ROW",
        "starts at UNBOUNDED FOLLOWING",
        "ROWS",
        "order",
    ),
    (
        "ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED PRECEDING",
        "ends at UNBOUNDED PRECEDING",
        "ROWS",
        "order",
    ),
    ("ORDER BY id ROWS 1.5 PRECEDING", "1.5 as an offset", "1.5", "whole number"),
    (
        "ORDER BY id ROWS BETWEEN price PRECEDING AND CURRENT ROW",
        "price as an offset",
        "price PREC",
        "whole number",
    ),
    ("ORDER BY id ROWS 3000000000 PRECEDING", "3000000000 rows", "3000000000", "UNBOUNDED"),
    ("PARTITION BY id GROUPS 1 PRECEDING", "GROUPS without ORDER BY", "1 PRECEDING", "add ORDER BY"),
    (
        "ORDER BY price ROWS BETWEEN 20 PRECEDING AND 2 PRECEDING EXCLUDE TIES",
        "EXCLUDE TIES beside ROWS that cut peers in two, over more than 16 rows,",
        "sum(price)",
        "write GROUPS",
    ),
    (
        "ORDER BY CAST(price AS DOUBLE) RANGE BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE GROUP",
        "EXCLUDE beside RANGE with an offset over double",
        "sum(price)",
        "CAST the order to DECIMAL",
    ),
    (
        "ORDER BY DATE '2024-01-01' + CAST(price AS INT) RANGE BETWEEN INTERVAL '1' MONTH PRECEDING AND CURRENT ROW EXCLUDE TIES",
        "EXCLUDE beside an offset in months",
        "sum(price)",
        "in days",
    ),
)


def refused(text: str, dialect: Dialect) -> SqlError:
    """Return the error with which the query of a view is refused."""
    statement = parse_statement(f"CREATE MATERIALIZED VIEW v AS\n{text}", dialect)
    assert isinstance(statement, CreateMaterializedView)
    with pytest.raises(SqlError) as caught:
        bind(statement.query, small_catalog(), dialect=dialect, sql=statement.sql)
    return caught.value


@pytest.mark.parametrize(("query", "says", "under", "remedy"), WRONG)
def test_a_wrong_window_is_refused_where_it_stands(query: str, says: str, under: str, remedy: str) -> None:
    check(f"SELECT {query}", says, under, remedy)


@pytest.mark.parametrize(("window", "says", "under", "remedy"), FRAMES)
def test_a_wrong_frame_is_refused_where_it_stands(window: str, says: str, under: str, remedy: str) -> None:
    check(f"SELECT id, sum(price) OVER ({window}) AS s FROM bid", says, under, remedy)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("stddev(price)", "stddev beside EXCLUDE"),
        ("approx_count_distinct(price)", "approx_count_distinct beside EXCLUDE"),
        ("corr(price, id)", "corr beside EXCLUDE"),
    ],
)
def test_a_function_of_which_no_parts_can_be_put_together_is_refused(call: str, says: str) -> None:
    window = "PARTITION BY auction ORDER BY price RANGE UNBOUNDED PRECEDING EXCLUDE TIES"
    check(f"SELECT id, {call} OVER ({window}) AS s FROM bid", says, call, "take it apart by count, sum")


def check(text: str, says: str, under: str, remedy: str) -> None:
    for dialect in ("spark", "postgres", "risingwave"):
        if "IGNORE NULLS" in text and dialect != "spark":
            continue
        error = refused(text, dialect)
        assert says in error.message, (dialect, error.message)
        assert remedy in error.hint, (dialect, error.hint)
        shown = text[error.column - 1 :]
        assert error.line == 2 and shown.startswith(under), (dialect, error.line, shown)


def test_a_frame_that_ends_before_it_starts_is_refused_in_spark_and_has_no_rows_in_postgres() -> None:
    text = "SELECT id, sum(price) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 2 PRECEDING) AS s FROM bid"
    assert "a frame that ends before it starts" in refused(text, "spark").message
    statement = parse_statement(f"CREATE MATERIALIZED VIEW v AS {text}", "postgres")
    assert isinstance(statement, CreateMaterializedView)
    assert bind(statement.query, small_catalog(), dialect="postgres", sql=statement.sql).columns


def test_a_frame_of_a_function_that_has_none_is_refused_in_spark_and_means_nothing_in_postgres() -> None:
    text = "SELECT id, rank() OVER (ORDER BY id ROWS 1 PRECEDING) AS r FROM bid"
    assert "a frame for rank" in refused(text, "spark").message
    statement = parse_statement(f"CREATE MATERIALIZED VIEW v AS {text}", "postgres")
    assert isinstance(statement, CreateMaterializedView)
    assert bind(statement.query, small_catalog(), dialect="postgres", sql=statement.sql).columns
