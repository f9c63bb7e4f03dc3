"""What epochs pass through the driver is counted: answers of tasks, rows that are copied there, and those that are checked."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pandera.pandas import Check, Column, DataFrameSchema

from engine.operators.context import SMALL_CHANGE_ROWS
from engine.runtime.epoch.prepared_frames import MOST_SHARED_ROWS
from engine.session import Session

ANSWERS = 20_000
Counted = DataFrameSchema({"n": Column(checks=Check.ge(0))})


def rows(count: int, first: int = 0) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": ids, "grp": [one % 50_000 for one in ids], "n": [one % 7 for one in ids]})


@pytest.mark.long
def test_the_rows_of_a_large_epoch_do_not_pass_through_the_driver(session: Session) -> None:
    """Some 5 MB of changes and 50,000 changed groups: the driver sees names of files, counts and bounds of keys."""
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, grp BIGINT, n BIGINT)")
    session.write("t", rows(10))
    session.sql(
        "CREATE MATERIALIZED VIEW sums AS SELECT grp, sum(n) AS n, max(id) AS last FROM t GROUP BY grp"
    )
    session.write("t", rows(SMALL_CHANGE_ROWS + 50_000))
    report = session.flush()["sums"]
    assert report.rows_out >= 49_990
    assert 0 < report.driver_bytes < ANSWERS


def test_an_empty_epoch_passes_nothing(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, grp BIGINT, n BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW sums AS SELECT grp, sum(n) AS n FROM t GROUP BY grp")
    session.flush()
    assert session.flush()["sums"].driver_bytes == 0


def test_what_is_copied_to_an_index_is_counted(session: Session) -> None:
    """A change of a joined table that is too large for a shared action is copied to its index by the driver, rows and all."""
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, grp BIGINT, n BIGINT)")
    session.sql("CREATE TABLE named (id BIGINT PRIMARY KEY, code BIGINT, name STRING)")
    session.write("named", pa.table({"id": [1], "code": [1], "name": ["one"]}))
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT t.id, name FROM t JOIN named ON t.grp = named.code")
    many = MOST_SHARED_ROWS + 10_000
    session.write("t", rows(many))
    report = session.flush()
    assert report.driver_bytes >= many * 2 * 8
    assert 0 < report["v"].driver_bytes < ANSWERS


def test_rows_that_a_schema_checks_are_counted(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, grp BIGINT, n BIGINT)")
    session.sql(
        "CREATE MATERIALIZED VIEW v WITH (pandera = 'tests.runtime.epoch.test_driver_bytes:Counted') "
        "AS SELECT grp, sum(n) AS n FROM t GROUP BY grp"
    )
    few = 2_000
    session.write("t", rows(few))
    before = session.store.metrics()
    report = session.flush()
    passed = session.store.metrics().since(before).driver_bytes
    assert passed["check v"] == few * 2 * 8
    assert report["v"].driver_bytes >= few * 2 * 8
    assert report.driver_bytes == passed["check v"] + passed["epoch v"]
