"""EXPLAIN with options, INSERT of defaults, ALTER COLUMN and CANCEL JOBS, as they are read in every dialect."""

from __future__ import annotations

import pytest
import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.statements import reader as st
from engine.sql.statements.session.session_statements import CancelJobs, ShowJobs
from engine.sql.statements.statement_types import Alter, AlterColumn, Explain, Insert, NoMeaning, RenameTo

DIALECTS = ("spark", "postgres", "risingwave")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("text", "incremental"),
    [
        ("EXPLAIN SELECT a FROM t", False),
        ("EXPLAIN VERBOSE SELECT a FROM t", False),
        ("EXPLAIN EXTENDED SELECT a FROM t", False),
        ("explain (verbose, format text, analyze false) select a from t", False),
        ("EXPLAIN (PHYSICAL) SELECT a FROM t", True),
        ("EXPLAIN INCREMENTAL SELECT a FROM t", True),
        ("EXPLAIN (TRACE, DISTSQL) (SELECT a FROM t)", True),
        ("EXPLAIN (SELECT a FROM t)", False),
        ("EXPLAIN INSERT INTO u SELECT a FROM t", False),
        ("EXPLAIN CREATE TABLE u AS SELECT a FROM t", False),
        ("EXPLAIN CREATE SINK s AS SELECT a FROM t WITH (connector = 'file')", False),
        ("EXPLAIN CREATE VIEW v AS SELECT a FROM t", False),
    ],
)
def test_explain_takes_the_options_of_all_dialects(dialect: str, text: str, incremental: bool) -> None:
    found = st.parse_statement(text, dialect)
    assert isinstance(found, Explain)
    assert found.incremental == incremental
    assert isinstance(found.target, exp.Query)
    assert found.target.find(exp.Table).name == "t"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "says", "place"),
    [
        ("EXPLAIN ANALYZE SELECT 1", "EXPLAIN ANALYZE is not offered", (1, 9)),
        ("EXPLAIN (VERBOSE,\n ANALYZE true) SELECT 1", "EXPLAIN ANALYZE is not offered", (2, 2)),
        ("EXPLAIN (FORMAT json) SELECT 1", "EXPLAIN (FORMAT JSON) is not offered", (1, 10)),
        ("EXPLAIN (VERBOSE, QUICK) SELECT 1", "EXPLAIN has no option QUICK", (1, 19)),
        ("EXPLAIN VERBOSE DROP TABLE t", "EXPLAIN takes a SELECT", (1, 17)),
        ("EXPLAIN INSERT INTO t VALUES (1)", "EXPLAIN takes a SELECT", (1, 9)),
        ("ALTER TABLE t ALTER COLUMN a TYPE BIGINT", "the type of a column stays as it is", (1, 30)),
        ("ALTER TABLE t ALTER a SET DATA TYPE INT", "the type of a column stays as it is", (1, 23)),
        ("ALTER TABLE t ALTER a SET DEFAULT b", "the DEFAULT of a reads b", (1, 35)),
        ("ALTER TABLE t ALTER a SLEEP", "ALTER COLUMN … SLEEP is not offered", (1, 23)),
        ("CANCEL JOBS x", "the number of a job is missing", (1, 13)),
        ("CANCEL QUERIES", "CANCEL QUERIES is not offered", (1, 8)),
    ],
)
def test_what_is_not_offered_is_told_with_its_place(text: str, says: str, place: tuple[int, int]) -> None:
    for dialect in DIALECTS:
        with pytest.raises(SqlError) as caught:
            st.parse_statement(text, dialect)
        assert says in caught.value.message
        assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize("dialect", DIALECTS)
def test_insert_takes_default_values_and_overriding(dialect: str) -> None:
    found = st.parse_statement("INSERT INTO t DEFAULT VALUES", dialect)
    assert isinstance(found, Insert)
    assert [row.expressions for row in found.rows.expressions] == [[]]
    for text in (
        "INSERT INTO t (a) OVERRIDING SYSTEM VALUE VALUES (1)",
        "INSERT INTO t OVERRIDING USER VALUE SELECT 1",
        "INSERT INTO s.t (a, b) OVERRIDING USER VALUE VALUES ('overriding user value', 2)",
    ):
        assert isinstance(st.parse_statement(text, dialect), Insert)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 1 + 2", AlterColumn("a", "default", "1 + 2")),
        ("ALTER TABLE t ALTER a DROP DEFAULT", AlterColumn("a", "default")),
        ("ALTER TABLE t ALTER a SET NOT NULL", AlterColumn("a", "not null")),
        ("ALTER TABLE t ALTER COLUMN a DROP NOT NULL", AlterColumn("a", "nullable")),
        ("ALTER TABLE t SET SCHEMA s", RenameTo("s.t")),
        ("ALTER MATERIALIZED VIEW s.v SET SCHEMA u", RenameTo("u.v")),
    ],
)
def test_alter_of_columns_and_schemas(dialect: str, text: str, action: object) -> None:
    found = st.parse_statement(text, dialect)
    assert isinstance(found, Alter)
    assert found.action == action


def test_what_means_nothing_here_is_taken() -> None:
    for text in (
        "ALTER TABLE t OWNER TO someone",
        "ALTER VIEW v OWNER TO CURRENT_USER",
        "ALTER TABLE t SET PARALLELISM = 4",
        "ALTER TABLE t SET source_rate_limit TO 100",
        "ALTER INDEX i SET PARALLELISM TO ADAPTIVE",
    ):
        found = st.parse_statement(text, "risingwave")
        assert isinstance(found, Alter)
        assert isinstance(found.action, NoMeaning)


def test_jobs_are_shown_and_cancelled_by_number() -> None:
    for dialect in DIALECTS:
        assert isinstance(st.parse_statement("SHOW JOBS", dialect), ShowJobs)
        found = st.parse_statement("CANCEL JOBS 1, 22", dialect)
        assert isinstance(found, CancelJobs)
        assert found.numbers == (1, 22)
