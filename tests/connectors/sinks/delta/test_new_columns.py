"""Views with a Delta table that get other columns: the table follows in the commit that brings the difference."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from engine.connectors.delta.sink.target import DeltaSink
from engine.errors import SqlError
from engine.meta.status.sinks import read_sink_state
from engine.session import Session
from tests.connectors.sinks.delta.logs import actions, columns, counted, operations, rows
from tests.connectors.sinks.delta.test_rows import brought, content
from tests.long_rest import mark_rest_long
from tests.runtime.statements.succession.test_random_changes import change
from tests.runtime.statements.succession.test_take_over import check_nothing_is_left

FIRST = "SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g"
ADDED = "SELECT g, max(n) AS top, sum(n) AS total, count(*) AS c FROM t GROUP BY g"
GONE = "SELECT g, sum(n) AS total FROM t GROUP BY g"
OTHER = "SELECT g, sum(n) AS total, min(n) AS least FROM t GROUP BY g"
NULLS = "SELECT g, sum(n) AS total, CAST(NULL AS BIGINT) AS nothing FROM t GROUP BY g"


def fill(session: Session, folder: Path, more: str = "") -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
    session.sql("CREATE TABLE u (g BIGINT PRIMARY KEY, f BIGINT)")
    session.write("t", pa.table({"id": range(40), "g": [i % 4 for i in range(40)], "n": range(40)}))
    session.sql(
        f"CREATE MATERIALIZED VIEW v WITH (connector = 'delta', path = '{folder}/v'{more}) AS {FIRST}"
    )
    session.sinks.wait(120)
    brought(session)


def shown(session: Session, folder: Path) -> Counter:
    """Return the rows of a Delta table by the columns that its view shows; of the others none holds a value.

    A column in which no row has a value comes with the next change of a row.
    """
    from deltalake import DeltaTable

    whole = DeltaTable(str(folder / "v")).to_pyarrow_table()
    names = [column.name for column in session.catalog.get("v").visible_columns]
    if "nothing" in {*names} - {*whole.column_names}:
        whole = whole.append_column("nothing", pa.nulls(whole.num_rows, pa.int64()))
    for name in set(whole.column_names) - set(names):
        assert whole[name].null_count == whole.num_rows, name
    return counted(whole.select(names))


@pytest.mark.parametrize("seed", mark_rest_long(range(1, 6)))
def test_the_table_is_as_the_view_after_each_change(session: Session, tmp_path: Path, seed: int) -> None:
    rng, now = random.Random(seed), FIRST
    fill(session, tmp_path)
    queries = [OTHER] if seed == 1 else [rng.choice([FIRST, ADDED, GONE, OTHER, NULLS]) for _ in range(8)]
    for query in queries:
        before = len(operations(tmp_path / "v"))
        session.sql(f"ALTER MATERIALIZED VIEW v AS {query}")
        session.sinks.wait(120)
        brought(session)
        done = operations(tmp_path / "v")[before:]
        assert done == ["MERGE"] or (not done and (query == now or NULLS in (query, now))), (query, done)
        assert shown(session, tmp_path) == content(session, "v"), query
        for _ in range(rng.randrange(3)):
            change(session, rng)
            brought(session)
            assert shown(session, tmp_path) == content(session, "v"), query
        now = query
    assert operations(tmp_path / "v").count("CREATE OR REPLACE TABLE AS SELECT") == 1
    assert {"g", "total", "c", "top", "least"} >= {*columns(tmp_path / "v")} - {"nothing"}
    check_nothing_is_left(session)
    if seed == 1:
        return
    session.sql("ALTER SINK v_delta RESET")
    session.sinks.wait(120)
    brought(session)
    assert rows(tmp_path / "v") == content(session, "v")


@pytest.mark.long
def test_a_column_gets_the_name_of_one_that_went(session: Session, tmp_path: Path) -> None:
    fill(session, tmp_path)
    texts = "SELECT g, sum(n) AS total, CAST(max(n) AS STRING) AS top FROM t GROUP BY g"
    for query in (texts, GONE):
        session.sql(f"ALTER MATERIALIZED VIEW v AS {query}")
        brought(session)
    session.sql("ALTER MATERIALIZED VIEW v RENAME COLUMN total TO top")
    session.sinks.wait(120)
    brought(session)
    session.sql("ALTER MATERIALIZED VIEW v AS SELECT g, sum(n) AS top, min(n) AS least FROM t GROUP BY g")
    session.sinks.wait(120)
    brought(session)
    change(session, random.Random(1))
    brought(session)
    assert rows(tmp_path / "v") == content(session, "v")


@pytest.mark.long
def test_a_range_that_was_promised_before_comes_before(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(session, tmp_path)
    change(session, random.Random(1))
    with monkeypatch.context() as patch:

        def fail(self: DeltaSink, portion: object) -> None:
            raise OSError("no disk")

        patch.setattr(DeltaSink, "take", fail)
        session.flush(sink_seconds=120)
        assert read_sink_state(session.store.version, "v_delta").promise is not None
        session.sql(f"ALTER MATERIALIZED VIEW v AS {OTHER}")
    change(session, random.Random(2))
    brought(session)
    assert shown(session, tmp_path) == content(session, "v")
    assert "least" in columns(tmp_path / "v")
    done = [one["commitInfo"]["operation"] for one in actions(tmp_path / "v") if "commitInfo" in one]
    assert done == ["CREATE OR REPLACE TABLE AS SELECT", "MERGE", "MERGE"]


@pytest.mark.parametrize(
    ("more", "query", "reason"),
    [
        (
            "",
            "SELECT g, CAST(sum(n) AS DOUBLE) AS total FROM t GROUP BY g",
            "column total of its Delta table is bigint",
        ),
        ("", "SELECT g, sum(n) AS `a total` FROM t GROUP BY g", "no columns with names like a total"),
        (
            "",
            "SELECT g, INTERVAL '1' DAY AS step, sum(n) AS total FROM t GROUP BY g",
            "Delta has no type INTERVAL",
        ),
        (", cluster_by = 'c'", GONE, "cluster_by of its Delta table names its column c"),
    ],
)
@pytest.mark.long
def test_what_the_table_cannot_follow_is_refused_by_name(
    session: Session, tmp_path: Path, more: str, query: str, reason: str
) -> None:
    fill(session, tmp_path, more)
    with pytest.raises(SqlError, match=reason):
        session.sql(f"ALTER MATERIALIZED VIEW v AS {query}")
    assert content(session, "v") == shown(session, tmp_path)
