"""Every refused statement tells its place: in the list of VALUES the value, elsewhere the name that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import DuplicateKey, InvalidRow, SqlError, TidelineError
from engine.session import Session

NUMBERS = "id INT PRIMARY KEY, n SMALLINT, d DECIMAL(5, 2), f FLOAT, g DOUBLE NOT NULL DEFAULT 0"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Session]:
    """A store with one table; no Spark is started."""
    with Session((tmp_path / "store").as_uri()) as opened:
        opened.sql(f"CREATE TABLE t ({NUMBERS})")
        opened.sql("INSERT INTO t (id) VALUES (1)")
        yield opened


# (statement, what the caret stands under)
REFUSED = [
    ("INSERT INTO t (id, n) VALUES (2, 1), (NULL, 2)", "NULL, 2"),
    ("INSERT INTO t (id, g) VALUES (2, NULL)", "NULL)"),
    ("INSERT INTO t (id, n) VALUES (2, 70000)", "70000"),
    ("INSERT INTO t (id, n) VALUES (2, -32769)", "32769"),
    ("INSERT INTO t (id, d) VALUES (2, 12345.5)", "12345.5"),
    ("INSERT INTO t (id, f) VALUES (2, 1e39)", "1e39"),
    ("INSERT INTO t (id, g) VALUES (2, 1e999)", "1e999"),
    ("INSERT INTO t (id) VALUES (3), (1)", "VALUES"),
    ("INSERT INTO t (id) VALUES (3), (3)", "VALUES"),
    ("WAIT FOR t, nope", "t, nope"),
    ("WAIT FOR nope", "nope"),
    ("ALTER MATERIALIZED VIEW nope PAUSE", "nope"),
    ("ALTER TABLE nope RENAME TO x", "nope"),
    ("ALTER TABLE t DROP COLUMN nope", "nope"),
    ("DROP TABLE nope", "nope"),
    ("DROP SINK nope", "nope"),
    ("COMMENT ON TABLE nope IS 'nope'", "nope IS"),
    ("COMMENT ON COLUMN t.nope IS 'x'", "nope"),
    ("SHOW CREATE TABLE nope", "nope"),
    ("SHOW COLUMNS FROM nope", "nope"),
    ("SHOW nope", "nope"),
    ("DESCRIBE nope", "nope"),
    ("EXPLAIN SELECT * FROM nope", "nope"),
    ("CREATE SINK s FROM nope INTO t", "nope"),
    ("CREATE SINK s FROM t INTO nope", "nope"),
    ("CREATE INDEX i ON nope (n)", "nope"),
    ("CREATE INDEX i ON t (nope)", "nope"),
    ("ALTER SINK nope PAUSE", "nope"),
    ("UPDATE nope SET n = 1", "nope"),
    ("/* of nope */ DELETE FROM nope", "nope"),
    ("SET nope = 1", "nope"),
    ("FLUSH nope", "FLUSH"),
]


@pytest.mark.parametrize(("statement", "at"), REFUSED)
def test_a_refused_statement_tells_its_place(world: Session, statement: str, at: str) -> None:
    with pytest.raises(SqlError) as refused:
        world.sql(statement)
    error = refused.value
    assert error.line == 1 and statement[error.column - 1 :].startswith(at)
    assert "^" in str(error)


def test_rows_that_do_not_fit_are_still_errors_of_rows(world: Session) -> None:
    with pytest.raises(InvalidRow):
        world.sql("INSERT INTO t (id) VALUES (NULL)")
    with pytest.raises(DuplicateKey):
        world.sql("INSERT INTO t (id) VALUES (1)")


def test_the_place_is_of_the_line_in_which_the_value_stands(world: Session) -> None:
    with pytest.raises(SqlError) as refused:
        world.sql("INSERT INTO t (id, n) VALUES\n  (2, 1),\n  (3, 99999)")
    assert (refused.value.line, refused.value.column) == (3, 7)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 3000 + "id" + ")" * 3000 + " FROM t",
        "SELECT id" + " + 1" * 3000 + " AS a FROM t",
        "SELECT " + "abs(" * 3000 + "id" + ")" * 3000 + " AS a FROM t",
        "SELECT id FROM t WHERE " + "NOT " * 3000 + "id > 1",
        "CREATE MATERIALIZED VIEW v AS SELECT id FROM " + "(SELECT id FROM " * 3000 + "t" + ")" * 3000,
    ],
    ids=["parentheses", "sum", "calls", "negations", "subqueries"],
)
def test_a_statement_that_is_nested_too_deeply_is_refused(world: Session, text: str) -> None:
    with pytest.raises(TidelineError, match="nested too deeply"):
        world.sql(text)


def test_a_long_expression_is_bound_in_time_that_follows_its_length(world: Session) -> None:
    for text in ("id" + " + 1" * 100, "abs(" * 100 + "id" + ")" * 100):
        plan = world.sql(f"EXPLAIN SELECT {text} AS a FROM t")
        assert plan is not None and plan.num_rows
