"""Streams in texts, and which queries over them give the rows of the query."""

from __future__ import annotations

import pytest
import sqlglot

from engine.pipelines.streams import find_stream_problem, mask_streams


@pytest.mark.parametrize(
    ("text", "plain", "tables"),
    [
        ("SELECT * FROM STREAM a.b x", "SELECT * FROM        a.b x", ["a.b"]),
        ("SELECT * FROM STREAM(a) x", "SELECT * FROM        a  x", ["a"]),
        ("SELECT stream FROM stream", "SELECT stream FROM stream", []),
        ("SELECT * FROM a JOIN STREAM b", "SELECT * FROM a JOIN        b", ["b"]),
    ],
)
def test_the_word_stream_is_taken_out(text: str, plain: str, tables: list[str]) -> None:
    masked, places = mask_streams(text)
    assert masked == plain
    assert [masked[at:].split()[0] for at in sorted(places)] == tables


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("SELECT a + 1 AS b FROM t WHERE a > 1", ""),
        ("SELECT explode(a) AS b FROM (SELECT a FROM t UNION ALL SELECT a FROM u) AS v", ""),
        ("SELECT a FROM t WHERE a IN (1, 2)", ""),
        ("SELECT count(*) AS n FROM t", "an aggregate"),
        ("SELECT count_if(a) AS n FROM t", "an aggregate"),
        ("SELECT a FROM t GROUP BY a", "an aggregate"),
        ("SELECT DISTINCT a FROM t", "DISTINCT"),
        ("SELECT t.a FROM t JOIN u ON t.a = u.a", "a join"),
        ("SELECT t.a FROM t, u", "a join"),
        ("SELECT row_number() OVER (ORDER BY a) AS n FROM t", "a window"),
        ("SELECT a FROM t ORDER BY a", "an order"),
        ("SELECT a FROM t LIMIT 3", "a limit"),
        ("SELECT a FROM t UNION SELECT a FROM u", "a set operation"),
        ("SELECT a FROM t EXCEPT SELECT a FROM u", "a set operation"),
        ("SELECT a FROM t WHERE a IN (SELECT a FROM u)", "a subquery"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u)", "a subquery"),
        ("SELECT a FROM t WHERE a > (SELECT max(b) FROM u)", "a"),
    ],
)
def test_only_queries_of_a_row_at_a_time_are_streams(text: str, problem: str) -> None:
    found = find_stream_problem(sqlglot.parse_one(text, read="spark"))
    assert problem in found and bool(found) == bool(problem)
