"""A statement's text, and that of a view that it reads, is parsed once on its way through a session."""

from __future__ import annotations

import pytest
import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.session import Session
from engine.sql.dialect import Dialect
from engine.sql.parsing import tree_parser
from engine.sql.statements import view_query

TWO = "SELECT id FROM bid WHERE id = 1; SELECT id FROM bid WHERE id = 2"
STEPS = (
    ("INSERT INTO bid VALUES (1, 7, 30)", 1),
    ("SELECT id, price FROM bid WHERE id = 1", 1),
    (TWO, 2),
    ("UPDATE bid SET price = 31 WHERE id = 1", 1),
    ("CREATE VIEW v AS SELECT auction, price * 2 AS p FROM bid", 1),
    ("SELECT * FROM v", 2),
    ("SELECT v.p FROM v JOIN v AS w ON v.auction = w.auction", 1),
    ("CREATE MATERIALIZED VIEW top AS SELECT auction, p FROM v WHERE p > 3", 1),
    ("FLUSH", 0),
    ("DESCRIBE v", 1),
)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are parsed while a test runs."""
    texts, parse = list[str](), tree_parser.parse_exactly

    def parse_and_note(text: str, dialect: Dialect) -> exp.Expr:
        texts.append(text)
        return parse(text, dialect)

    monkeypatch.setattr(tree_parser, "parse_exactly", parse_and_note)
    view_query._parse_query.cache_clear()
    return texts


def test_a_text_is_parsed_once(session: Session, parsed: list[str]) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    for text, times in STEPS:
        parsed.clear()
        session.sql(text, build=False)
        assert len(parsed) == times, (text, parsed)
    session.sql("CREATE SCHEMA s; SET search_path = 's'")
    parsed.clear()
    assert session.sql("SELECT 1 AS one").to_pylist() == [{"one": 1}]  # type: ignore[union-attr]
    assert len(parsed) == 1, "the search path says nothing new of it"


def test_a_view_that_is_read_twice_stays_as_it_was_parsed(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("INSERT INTO bid VALUES (1, 7, 30), (2, 7, 50)")
    session.sql(
        "CREATE VIEW v AS WITH w AS (SELECT auction, price FROM bid) SELECT auction, sum(price) AS s FROM w GROUP BY auction"
    )
    query = view_query.parse_view_query(session.catalog.get("v"))
    text = repr(query)
    for _ in range(2):
        assert session.sql("SELECT a.s FROM v AS a JOIN v AS b ON a.auction = b.auction").to_pylist() == [
            {"s": 80}
        ]  # type: ignore[union-attr]
        session.sql("DESCRIBE v")
        session.sql("EXPLAIN SELECT * FROM v WHERE s > 3")
    session.sql("CREATE MATERIALIZED VIEW m AS SELECT * FROM v", build=False)
    assert view_query.parse_view_query(session.catalog.get("v")) is query and repr(query) == text


def test_each_of_several_statements_is_read_as_the_session_is_by_then(session: Session) -> None:
    session.sql(
        "CREATE SCHEMA s; SET search_path = 's'; CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (1)"
    )
    assert "s.t" in session.catalog.relations
    found = session.sql("SET dialect = 'postgres'; SELECT '1'::int AS one; RESET ALL; SELECT `id` FROM s.t")
    assert found is not None and found.to_pylist() == [{"id": 1}]
    with pytest.raises(SqlError):
        session.sql("INSERT INTO s.t VALUES (2); SELECT FROM WHERE")
    assert session.sql("SELECT count(*) AS n FROM s.t").to_pylist() == [{"n": 1}]  # type: ignore[union-attr]
