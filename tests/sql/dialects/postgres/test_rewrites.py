"""regexp_matches, separators of rows and fractions that are calculated: what PostgreSQL gives, in views and in queries answered once."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.session import Session
from engine.sql.bind.binder import bind
from engine.sql.statements.reader import Select, parse_statement
from tests.sql.catalog import small_catalog


@pytest.fixture
def words(session: Session) -> Session:
    """A session over a few texts, in PostgreSQL's dialect."""
    session.dialect = "postgres"
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, s TEXT, sep TEXT, n INT)")
    session.sql(
        "INSERT INTO t VALUES (1, 'a1 b2', '-', 10), (2, 'c3', '+', 20), (3, 'none', NULL, 30), (4, NULL, '/', NULL)"
    )
    return session


def _both(session: Session, query: str) -> list[tuple]:
    """Return the rows of a query, which are those of a view of it."""
    session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    answers = []
    for text in (query, "SELECT * FROM v"):
        found = session.sql(text)
        assert found is not None
        answers.append(sorted((tuple(row.values()) for row in found.to_pylist()), key=repr))
    session.sql("DROP MATERIALIZED VIEW v")
    assert answers[0] == answers[1]
    return answers[0]


def test_each_match_is_a_row_with_the_array_of_its_groups(words: Session) -> None:
    assert _both(words, "SELECT id, regexp_matches(s, '([a-z])([0-9])', 'g') AS m FROM t") == [
        (1, ["a", "1"]),
        (1, ["b", "2"]),
        (2, ["c", "3"]),
    ]
    assert _both(words, "SELECT id, regexp_matches(s, '[A-Z][0-9]', 'i') AS m FROM t") == [
        (1, ["a1"]),
        (2, ["c3"]),
    ]


def test_the_groups_of_all_matches_can_be_unnested(words: Session) -> None:
    query = "SELECT m, count(*) AS n FROM (SELECT unnest(regexp_matches(s, '([a-z])[0-9]', 'g')) AS m FROM t) x GROUP BY m"
    assert _both(words, query) == [("a", 1), ("b", 1), ("c", 1)]


def test_a_separator_of_each_row_stands_before_its_value(words: Session) -> None:
    assert _both(words, "SELECT string_agg(s, sep ORDER BY id) AS j FROM t") == [("a1 b2+c3none",)]
    assert _both(words, "SELECT string_agg(s, sep ORDER BY id DESC) AS j FROM t WHERE id < 3") == [
        ("c3-a1 b2",)
    ]


def test_a_fraction_may_be_calculated_and_may_be_null(words: Session) -> None:
    query = (
        "SELECT percentile_disc(0.25 + 1.0 / 4) WITHIN GROUP (ORDER BY n) AS half, "
        "percentile_cont(NULL) WITHIN GROUP (ORDER BY n) AS nothing, percentile_cont(0.3 + NULL) WITHIN GROUP (ORDER BY n) AS no FROM t"
    )
    words.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    found = words.sql("SELECT * FROM v")
    assert found is not None
    assert found.to_pylist() == [{"half": 20, "nothing": None, "no": None}]


def test_functions_of_postgres_mean_what_they_mean_there(words: Session) -> None:
    words.sql("CREATE TABLE f (id INT PRIMARY KEY, a INT[], j JSONB, b BYTEA, s TEXT)")
    document = '{"k": [1, "x", null, {"y": 2}], "m": true}'
    words.sql("INSERT INTO f VALUES (1, ARRAY[3, 1, 3, NULL], ?, ?, ?)", [document, b"\x00\xff", "o'k"])
    words.sql("INSERT INTO f VALUES (2, CAST(ARRAY[] AS INT[]), '[]', NULL, NULL)")
    expected: dict[str, tuple] = {
        "num_nulls(a, b, s, NULL)": (1, 3),
        "num_nonnulls(a, b, s)": (3, 1),
        "array_positions(a, 3)": ([1, 3], []),
        "array_positions(a, NULL)": ([4], []),
        "array_replace(a, 3, 9)": ([9, 1, 9, None], []),
        "array_replace(a, NULL, 0)": ([3, 1, 3, 0], []),
        "array_lower(a, 1)": (1, None),
        "array_upper(a, 1)": (4, None),
        "trim_array(ARRAY[1, 2, 3], id)": ([1, 2], [1]),
        "jsonb_typeof(j)": ("object", "array"),
        "jsonb_typeof(jsonb_extract_path(j, 'm'))": ("boolean", None),
        "jsonb_extract_path_text(j, 'k', '1')": ("x", None),
        "jsonb_extract_path_text(j, 'k', '3', 'y')": ("2", None),
        "quote_nullable(s)": ("'o''k'", "NULL"),
        "get_byte(b, 1)": (255, None),
        "convert_from(convert_to(s, 'UTF8'), 'utf-8')": ("o'k", None),
    }
    query = "SELECT id, " + ", ".join(f"{text} AS c{n}" for n, text in enumerate(expected)) + " FROM f"
    rows = _both(words, query)
    assert {text: tuple(row[n] for row in rows) for n, text in enumerate(expected, 1)} == expected


def test_functions_that_give_rows_do_so_in_select_and_in_from(words: Session) -> None:
    words.sql("CREATE TABLE f (id INT PRIMARY KEY, a INT[], j JSONB, s TEXT)")
    words.sql(
        "INSERT INTO f VALUES (1, ARRAY[7, 8], ?, 'a, b'), (2, NULL, '[]', '')", ['[1, "x", null, {"y": 2}]']
    )
    assert _both(words, "SELECT id, generate_subscripts(a, 1) AS n FROM f") == [(1, 1), (1, 2)]
    elements = [("1",), ('"x"',), ("null",), ('{"y": 2}',)]
    assert _both(words, "SELECT jsonb_array_elements(j) AS e FROM f") == sorted(elements, key=repr)
    texts = _both(words, "SELECT id, e FROM f, jsonb_array_elements_text(j) AS e WHERE e <> 'x'")
    assert texts == [(1, "1"), (1, '{"y": 2}')]
    assert _both(words, "SELECT id, regexp_split_to_table(s, ', *') AS w FROM f") == [
        (1, "a"),
        (1, "b"),
        (2, ""),
    ]
    assert _both(words, "SELECT id, string_to_table(s, ', ') AS w FROM f") == [(1, "a"), (1, "b")]


@pytest.mark.parametrize(
    ("query", "says", "place"),
    [
        ("SELECT array_upper(array[1], 2) FROM bid", "a second dimension of an array", (1, 8)),
        ("SELECT convert_from(note, 'latin1') FROM bid", "the encoding latin1", (1, 8)),
        (
            "SELECT jsonb_build_object(note) FROM bid",
            "jsonb_build_object with a key that has no value",
            (1, 8),
        ),
        ("SELECT '{'::jsonb FROM bid", "'{' is no JSON", (1, 8)),
        ("SELECT note::jsonb::date FROM bid", "jsonb as DATE", (1, 8)),
        (
            "SELECT regexp_matches(note, item) FROM bid, auction",
            "a pattern or flags that are not written out",
            (1, 8),
        ),
        ("SELECT regexp_matches(note, 'a', 'x') FROM bid", "regexp_matches with the flags x", (1, 8)),
        ("SELECT regexp_matches(note, '(a') FROM bid", "a pattern that cannot be read", (1, 8)),
        ("SELECT regexp_matches(note) FROM bid", "regexp_matches with 1 values", (1, 8)),
        ("SELECT string_agg(DISTINCT note, item) FROM bid, auction", "DISTINCT with a separator", (1, 28)),
        (
            "SELECT percentile_cont(0.5 + 0.6) WITHIN GROUP (ORDER BY price) FROM bid",
            "0.5 + 0.6 is no fraction",
            (1, 24),
        ),
        (
            "SELECT percentile_cont(price) WITHIN GROUP (ORDER BY price) FROM bid",
            "price is no fraction",
            (1, 24),
        ),
        (
            "SELECT id FROM bid ORDER BY id LIMIT 9223372036854775808",
            "9223372036854775808 as a number of rows",
            (1, 32),
        ),
    ],
)
def test_what_cannot_be_said_is_told_with_its_place(query: str, says: str, place: tuple[int, int]) -> None:
    statement = parse_statement(query, "postgres")
    assert isinstance(statement, Select)
    with pytest.raises(SqlError) as caught:
        bind(statement.query, small_catalog(), dialect="postgres", sql=query)
    assert says in caught.value.message
    assert (caught.value.line, caught.value.column) == place
