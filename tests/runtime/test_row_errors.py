"""A row on which an expression fails: the view stops and names the row, or shows null."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import EpochFailed
from engine.meta.domains.failures import list_failures
from engine.runtime.epoch import failing_row
from engine.session import Session
from tests.runtime.writes.test_dml import rows


@pytest.fixture
def parts(session: Session) -> Session:
    session.sql("CREATE TABLE part (id BIGINT PRIMARY KEY, a INT, b INT, t STRING)")
    session.sql("INSERT INTO part VALUES (1, 10, 5, '7'), (2, 8, 2, '9')")
    return session


FAILING = {
    "summed": "SELECT t, sum(a / b) AS r FROM part GROUP BY t",
    "joined": "SELECT p.id, q.a / p.b AS r FROM part p JOIN part q ON p.id = q.id",
}


def test_a_failing_epoch_names_the_row_and_loses_nothing(parts: Session) -> None:
    for name, query in FAILING.items():
        parts.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
    parts.sql("FLUSH")
    before = {name: sorted(map(str, rows(parts, f"SELECT * FROM {name}"))) for name in FAILING}
    parts.sql("INSERT INTO part VALUES (10, 1, 1, '1'), (77, 1, 0, 'x')")
    report = parts.flush()
    for name in FAILING:
        assert "{'id': 77}" in (report[name].error or "") and "on_row_error" in (report[name].error or "")
        assert sorted(map(str, rows(parts, f"SELECT * FROM {name}"))) == before[name]
    parts.sql("DELETE FROM part WHERE id = 77")
    parts.sql("FLUSH")
    for name, query in FAILING.items():
        assert sorted(map(str, rows(parts, f"SELECT * FROM {name}"))) == sorted(map(str, rows(parts, query)))


def test_a_first_build_names_the_row_too(parts: Session) -> None:
    parts.sql("INSERT INTO part VALUES (5, 1, 0, '1')")
    with pytest.raises(EpochFailed, match=r"row of part with key \{'id': 5\}"):
        parts.sql("CREATE MATERIALIZED VIEW v AS SELECT t, sum(a / b) AS r FROM part GROUP BY t")
    assert rows(parts, "SHOW ALL") == [("part", "table")]


@pytest.mark.parametrize("policy", ["auto", "full"])
def test_with_null_a_failing_expression_is_null_in_a_list_too(session: Session, policy: str) -> None:
    session.dialect = "risingwave"
    session.sql("CREATE TABLE part (id BIGINT PRIMARY KEY, g INT, t VARCHAR)")
    session.sql(
        f"CREATE MATERIALIZED VIEW v WITH (on_row_error = 'null', refresh_policy = '{policy}') AS "
        "SELECT g, array_agg(t::int ORDER BY id) AS l, max_by(id, t::int) AS m, mode() WITHIN GROUP (ORDER BY t::int) AS o, "
        "string_agg((10 / t::int)::varchar, ',' ORDER BY id) AS s FROM part GROUP BY g"
    )
    session.sql("INSERT INTO part VALUES (1, 1, '5'), (2, 1, 'x'), (3, 1, '2'), (4, 1, '0')")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM v") == [(1, [5, None, 2, 0], 1, 0, "2,5")]


@pytest.mark.parametrize("policy", ["auto", "full"])
def test_with_null_a_failing_expression_is_null(parts: Session, policy: str) -> None:
    parts.sql(
        f"CREATE MATERIALIZED VIEW v WITH (on_row_error = 'null', refresh_policy = '{policy}') AS "
        "SELECT id, a / b AS r, a DIV b AS d, a % b AS m, CAST(t AS INT) AS n, -a * 2 AS o, a * 1000000000 AS big FROM part "
        "WHERE CAST(t AS INT) > 1 OR b = 0"
    )
    parts.sql("INSERT INTO part VALUES (3, 7, 0, 'x'), (4, 7, 7, 'x')")
    parts.sql("FLUSH")
    assert rows(parts, "SELECT * FROM v ORDER BY id") == [
        (1, 2.0, 2, 0, 7, -20, None),
        (2, 4.0, 4, 0, 9, -16, None),
        (3, None, None, None, None, -14, None),
    ]


def test_null_is_the_rule_of_risingwave(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "s").as_uri(), spark, "risingwave") as s:
        s.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, b INT)")
        s.sql("CREATE MATERIALIZED VIEW v AS SELECT id, a / b AS q FROM t")
        s.sql("CREATE MATERIALIZED VIEW w WITH (on_row_error = 'fail') AS SELECT id, a / b AS q FROM t")
        s.sql("INSERT INTO t VALUES (1, 7, 2), (2, 7, 0)")
        report = s.flush()
        assert rows(s, "SELECT * FROM v ORDER BY id") == [(1, 3), (2, None)]
        assert report["v"].error is None and "'id': 2" in (report["w"].error or "")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is tried to find out which row fails: one entry a small job; an entry that can be called is called at each."""
    tried: list[object] = []
    as_frame = failing_row.as_frame

    def counted(frame):  # type: ignore[no-untyped-def]
        for entry in [one for one in tried if callable(one)]:
            entry()
        tried.append(frame)
        return as_frame(frame)

    monkeypatch.setattr(failing_row, "as_frame", counted)
    return tried


@pytest.mark.long
def test_the_row_that_failed_is_tried_first_and_searched_no_more(parts: Session, asked: list[object]) -> None:
    parts.sql("CREATE MATERIALIZED VIEW v AS SELECT id, a / b AS r FROM part")
    parts.sql("INSERT INTO part SELECT id, 1, IF(id = 177, 0, 1), 'x' FROM range(100, 356)")
    named = "row of part with key {'id': 177}"
    assert named in (parts.flush()["v"].error or "") and len(asked) > 3
    asked.clear()
    assert named in (parts.flush()["v"].error or "") and asked == []  # nothing has changed
    parts.sql("INSERT INTO part VALUES (1000, 1, 1, 'x')")
    assert named in (parts.flush()["v"].error or "") and asked == []  # nothing that the row depends on has
    assert named in list_failures(parts.store.refresh())["v"].error
    parts.sql("UPDATE part SET b = IF(id = 177, 1, 0) WHERE id IN (177, 178)")
    assert "row of part with key {'id': 178}" in (parts.flush()["v"].error or "")
    parts.sql("DELETE FROM part WHERE b = 0")
    assert parts.flush()["v"].error is None and not list_failures(parts.store.refresh())


@pytest.mark.long
def test_a_row_that_depends_on_others_is_tried_by_itself(parts: Session, asked: list[object]) -> None:
    parts.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT p.id, q.a / p.b AS r FROM part p JOIN part q ON p.id = q.id"
    )
    parts.sql("INSERT INTO part SELECT id, 1, IF(id = 177, 0, 1), 'x' FROM range(100, 356)")
    named = "row of part with key {'id': 177}"
    assert named in (parts.flush()["v"].error or "") and len(asked) > 3
    asked.clear()
    parts.sql("INSERT INTO part VALUES (1000, 1, 1, 'x')")
    assert named in (parts.flush()["v"].error or "") and 1 <= len(asked) <= 2


@pytest.mark.long
def test_what_failed_is_told_with_its_row_after_a_restart_as_well(
    parts: Session, spark: SparkSession, asked: list[object]
) -> None:
    parts.sql("CREATE MATERIALIZED VIEW v AS SELECT id, a / b AS r FROM part")
    parts.sql("INSERT INTO part VALUES (9, 1, 0, 'x'), (10, 1, 1, 'x'), (11, 1, 1, 'x')")
    parts.flush()
    asked.clear()
    with Session(parts.url, spark) as other:
        assert "{'id': 9}" in (other.flush()["v"].error or "") and asked == []


@pytest.mark.long
def test_nobody_waits_for_the_search_of_another_views_row(parts: Session, asked: list[object]) -> None:
    parts.sql("CREATE MATERIALIZED VIEW bad AS SELECT id, a / b AS r FROM part")
    for name in ("one", "two", "three"):
        parts.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT id, a + b AS r FROM part")
    seen: list[int] = []
    shown = Session(parts.url)  # another reader

    def visible() -> None:
        for name in ("one", "two", "three"):
            (count,) = shown.sql(f"SELECT id FROM {name}", policy="latest").to_pydict().values()  # type: ignore[union-attr]
            seen.append(len(count))

    asked.append(visible)
    parts.sql("INSERT INTO part VALUES (9, 1, 0, 'x'), (10, 1, 1, 'x')")
    assert "{'id': 9}" in (parts.flush()["bad"].error or "")
    assert seen and set(seen) == {4}
    shown.close()


@pytest.mark.parametrize("policy", ["auto", "full"])
def test_with_null_the_contrary_of_a_value_keeps_its_type_and_all_of_its_digits(
    session: Session, policy: str
) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(38, 18), f DOUBLE, n INT, at TIMESTAMP)")
    session.sql(
        f"CREATE MATERIALIZED VIEW v WITH (on_row_error = 'null', refresh_policy = '{policy}') AS "
        "SELECT id, CAST(-d AS STRING) AS d, CAST(-f AS STRING) AS f, -n AS n, at + (-INTERVAL '1' DAY) < at AS before FROM t"
    )
    session.sql(
        "INSERT INTO t VALUES (1, 1.000000000000000001, 0.0D, 5, TIMESTAMP '2026-01-02 00:00:00'), "
        "(2, NULL, NULL, -2147483648, NULL)"
    )
    session.flush().raise_for_errors()
    assert sorted(rows(session, "SELECT * FROM v")) == [
        (1, "-1.000000000000000001", "-0.0", -5, True),
        (2, None, None, None, None),
    ]


def test_a_row_is_named_by_a_date_that_python_has_not(session: Session) -> None:
    session.sql("CREATE TABLE stay (day DATE PRIMARY KEY, n INT)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT day, 10 / n AS r FROM stay")
    session.sql("INSERT INTO stay VALUES (DATE'+12921-08-18', 0)")
    assert "key {'day': '+12921-08-18'}" in (session.flush()["v"].error or "")
