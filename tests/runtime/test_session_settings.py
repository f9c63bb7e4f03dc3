"""SET of what a session does: views that reflect each statement, options of new views, notices, errors with their place."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import EpochFailed, SqlError
from engine.meta.domains.mutation import PARALLELISM
from engine.session import Session


def test_with_implicit_flush_views_reflect_each_statement(session: Session) -> None:
    session.sql("CREATE TABLE t (v BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW s AS SELECT count(*) AS n, sum(v) AS v FROM t")
    session.sql("CREATE MATERIALIZED VIEW above AS SELECT n + 1 AS m FROM s")
    session.sql("SET rw_implicit_flush TO true")
    seen = []
    for text in (
        "INSERT INTO t VALUES (1), (2)",
        "UPDATE t SET v = 5 WHERE v = 2",
        "DELETE FROM t WHERE v = 1",
        "TRUNCATE t",
    ):
        session.sql(text)
        found, above = session.sql("SELECT * FROM s"), session.sql("SELECT m FROM above")
        assert found is not None and above is not None
        seen.append((*found.to_pylist()[0].values(), above.to_pylist()[0]["m"]))
    assert seen == [(2, 3, 3), (2, 6, 3), (1, 5, 2), (0, None, 1)]
    assert session.lagging() == ()
    session.sql("RESET rw_implicit_flush")
    session.sql("INSERT INTO t VALUES (1)")
    assert session.lagging() == ("s", "above")


@pytest.mark.long
def test_a_view_that_cannot_reflect_a_statement_is_told_if_it_reads_the_table(session: Session) -> None:
    for name in ("t", "other"):
        session.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v INT)")
    session.sql("CREATE MATERIALIZED VIEW bad AS SELECT id, 1 / v AS w FROM t")
    session.sql("SET implicit_flush = on")
    with pytest.raises(EpochFailed, match="view bad"):
        session.sql("INSERT INTO t VALUES (1, 0)")
    session.sql("INSERT INTO other VALUES (1, 0)")
    found = session.sql("SELECT count(*) AS n FROM t")
    assert found is not None and found.to_pylist() == [{"n": 1}]


def test_settings_become_options_of_new_views(session: Session) -> None:
    session.sql("CREATE TABLE t (v BIGINT)")
    session.sql("SET streaming_parallelism = 2")
    session.sql("SET background_ddl = true")
    session.sql("CREATE MATERIALIZED VIEW one AS SELECT v FROM t")
    session.sql(
        "CREATE MATERIALIZED VIEW two WITH (parallelism = 1, background = 'false') AS SELECT v FROM t"
    )
    assert session.catalog.get("one").options == {PARALLELISM: "2", "background": "true"}
    assert session.catalog.get("two").options == {PARALLELISM: "1", "background": "false"}


def test_a_setting_without_a_meaning_is_taken_with_a_notice(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "s").as_uri(), spark, "postgres") as s:
        s.sql("SET statement_timeout = '5s'")
        assert [notice.split(":")[0] for notice in s.notices] == ["statement_timeout has no meaning here"]
        shown = s.sql("SHOW statement_timeout")
        assert shown is not None and shown.to_pydict() == {"statement_timeout": ["5s"]}
        assert s.notices == ()
        s.sql("SET LOCAL rw_implicit_flush = true")
        assert "no effect" in s.notices[0]
        shown = s.sql("SHOW rw_implicit_flush")
        assert shown is not None and shown.to_pydict() == {"rw_implicit_flush": ["false"]}
        every = s.sql("SHOW ALL")
        assert every is not None and every.column_names == ["name", "setting", "description"]
        assert {"name": "dialect", "setting": "postgres"}.items() <= every.to_pylist()[
            every.column("name").to_pylist().index("dialect")
        ].items()
        s.sql("SET dialect = spark")
        s.sql("RESET ALL")
        assert s.dialect == "postgres"


@pytest.mark.parametrize(
    ("text", "column", "hint"),
    [
        ("SET rw_implict_flush = true", 5, "rw_implicit_flush"),
        ("SET query_policy = sometimes", 5, "consistent"),
        ("SHOW nothing_at_all", 6, "SHOW VARIABLES"),
        ("RESET dialekt", 7, "dialect"),
        ("SET TIME ZONE 'Europe/Paris'", 1, "from_utc_timestamp"),
    ],
)
def test_a_wrong_setting_is_an_error_with_its_place(
    session: Session, text: str, column: int, hint: str
) -> None:
    with pytest.raises(SqlError) as caught:
        session.sql(text)
    assert caught.value.column == column
    assert hint in caught.value.hint
