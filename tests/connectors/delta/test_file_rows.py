"""Versions without a feed, followed by their files: every kind of Delta table; what its files do not tell is compared, and told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta.source import DeltaSource
from engine.connectors.delta.ways import BY_KEY, BY_ROW_IDS, BY_VECTORS
from engine.connectors.source_trial import try_source
from engine.errors import SourceError, SqlError
from engine.session import Session
from tests.connectors.delta_tables import DeltaTable, SparkDeltaTable, follow, held, poll, run_by_rust, source

VECTORS = "'delta.enableDeletionVectors' = 'true'"
NO_VECTORS = "'delta.enableDeletionVectors' = 'false'"
TRACKED = "'delta.enableRowTracking' = 'true'"
BY_ID = "'delta.columnMapping.mode' = 'id'"
ROWS = "SELECT id, CAST(id % 3 AS INT) AS p, concat('a ', id) AS v FROM range(40)"
CHANGES = [
    "UPDATE {} SET v = 'b' WHERE id < 5",
    "DELETE FROM {} WHERE id BETWEEN 7 AND 9",
    "MERGE INTO {} t USING (SELECT id, CAST(1 AS INT) AS p, 'm' AS v FROM range(38, 44)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, p, v) VALUES (s.id, s.p, s.v)",
    "OPTIMIZE {}",
    "UPDATE {} SET v = NULL, p = NULL WHERE id IN (11, 12)",
    "INSERT OVERWRITE {} (id, p, v) SELECT id, CAST(7 AS INT), 'o' FROM range(5, 20)",
]
TABLES = {
    "tracked": ("id BIGINT, p INT, v STRING", f"{TRACKED}, {VECTORS}", ""),
    "tracked without vectors": ("id BIGINT, p INT, v STRING", f"{TRACKED}, {NO_VECTORS}", "p"),
    "columns by id": ("id BIGINT, p INT, v STRING", f"{BY_ID}, {VECTORS}", "p"),
    "partitions of any text": ("id BIGINT, p INT, v STRING", f"{VECTORS}", "v"),
    "generated": (
        "id BIGINT, p INT, v STRING, g INT GENERATED ALWAYS AS (p + 1), i BIGINT GENERATED ALWAYS AS IDENTITY",
        f"{NO_VECTORS}",
        "",
    ),
    "clustered": ("id BIGINT, p INT, v STRING", f"{TRACKED}, {VECTORS}", ""),
    "checkpoints": (
        "id BIGINT, p INT, v STRING",
        f"{VECTORS}, 'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'",
        "",
    ),
}


@pytest.fixture
def delta(spark: SparkSession, tmp_path: Path) -> Callable[..., DeltaTable]:
    """A function that makes a Delta table."""

    def make(columns: str = "id BIGINT, p INT, v STRING", **said: str) -> DeltaTable:
        return SparkDeltaTable(spark, tmp_path / "delta").make(columns, **said)

    return make


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is compared as a whole from now on."""
    found, plan = list[str](), DeltaSource._plan_comparison

    def note(self: DeltaSource, offset: object) -> object:
        found.append(self.relation.name)
        return plan(self, offset)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaSource, "_plan_comparison", note)
    return found


@pytest.mark.long
@pytest.mark.parametrize("kind", list(TABLES))
def test_every_kind_of_table_is_followed_by_its_files(
    session: Session, delta: Callable[..., DeltaTable], compared: list[str], kind: str
) -> None:
    columns, properties, partitioned = TABLES[kind]
    there = delta(columns, properties=properties, partitioned=partitioned)
    there.sql(*(["ALTER TABLE {} CLUSTER BY (p)"] if kind == "clustered" else []))
    there.sql(f"INSERT INTO {{}} (id, p, v) {ROWS}")
    session.sql(f"CREATE TABLE t (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{there.path}')")
    session.sql(
        f"CREATE SOURCE s (id BIGINT PRIMARY KEY, p INT, v STRING) WITH (connector = 'delta', path = '{there.path}')"
    )
    session.sql("CREATE MATERIALIZED VIEW seen AS SELECT id, p, v FROM s")
    for name in ("t", "s"):
        poll(session, name)
    session.flush().raise_for_all()
    for change in CHANGES:
        there.sql(change)
        assert poll(session).error is None
        assert held(session) == there.rows(), change
        poll(session, "s")
        session.flush().raise_for_all()
        assert held(session, "seen") == there.rows(["id", "p", "v"]), change
    assert not compared


@pytest.mark.long
def test_partitions_of_special_values(
    session: Session, delta: Callable[..., DeltaTable], compared: list[str]
) -> None:
    there = delta("id BIGINT, day DATE, v STRING, t TIMESTAMP", properties=VECTORS, partitioned="v, day, t")
    there.insert(
        "SELECT id, IF(id = 1, NULL, DATE'2026-01-02'), element_at(array('a b', 'x=%', 'ü/é', NULL, 'q\"'), "
        "CAST(1 + id % 5 AS INT)), TIMESTAMP'2026-01-01 01:02:03.5' FROM range(10)"
    )
    follow(session, there, "id BIGINT PRIMARY KEY, day DATE, v STRING, t TIMESTAMP")
    poll(session)
    for change in ("UPDATE {} SET day = DATE'2027-01-01' WHERE id < 4", "DELETE FROM {} WHERE id > 7"):
        there.sql(change)
        poll(session)
        texts = [f"CAST({name} AS STRING)" for name in ("id", "day", "v", "t")]
        assert held(session, columns=", ".join(texts)) == there.rows(texts)
    assert not compared


@pytest.mark.long
def test_many_deleted_rows(session: Session, delta: Callable[..., DeltaTable], compared: list[str]) -> None:
    there = delta("id BIGINT, v STRING", properties=VECTORS)
    there.insert("SELECT /*+ COALESCE(1) */ id, 'a' FROM range(200000)")
    follow(session, there)
    poll(session)
    for change in (
        "DELETE FROM {} WHERE id % 2 = 0",
        "DELETE FROM {} WHERE id BETWEEN 70000 AND 150000",
        "UPDATE {} SET v = 'b' WHERE id % 1000 = 1",
    ):
        there.sql(change)
        poll(session)
        found = session.sql("SELECT count(*) AS n, sum(id) AS s, count_if(v = 'b') AS b FROM t")
        assert found is not None
        assert [tuple(row.values()) for row in found.to_pylist()] == there.rows(
            ["count(*)", "sum(id)", "count_if(v = 'b')"]
        )
    assert not compared


@pytest.mark.long
def test_a_table_without_a_key_follows_row_tracking(
    session: Session, delta: Callable[..., DeltaTable], compared: list[str]
) -> None:
    there = delta("id BIGINT, v STRING", properties=f"{TRACKED}, {VECTORS}")
    there.insert("VALUES (1, 'a'), (1, 'a'), (2, 'b'), (NULL, NULL)")
    follow(session, there, "id BIGINT, v STRING")
    session.sql("CREATE MATERIALIZED VIEW counted AS SELECT id, count(*) AS n FROM t GROUP BY id")
    poll(session)
    for change in (
        "INSERT INTO {} VALUES (1, 'a'), (3, 'c')",
        "UPDATE {} SET v = 'x' WHERE id = 1",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
        "UPDATE {} SET v = 'y' WHERE id IS NULL",
        "DELETE FROM {} WHERE id = 2",
        "OPTIMIZE {}",
        "RESTORE TABLE {} TO VERSION AS OF 2",
    ):
        there.sql(change)
        poll(session)
        assert held(session) == there.rows(), change
        session.flush().raise_for_all()
        counts = there.spark.read.format("delta").load(str(there.path)).groupBy("id").count().collect()
        assert held(session, "counted") == sorted(map(tuple, counts), key=repr), change
    assert not compared
    session.sql("ALTER TABLE t RESYNC")
    assert session.notices == ("0 rows were written",)


def test_a_table_without_a_key_needs_row_tracking(session: Session, delta: Callable[..., DeltaTable]) -> None:
    there = delta("id BIGINT, v STRING", properties=VECTORS)
    with pytest.raises(SqlError, match=r"(?s)needs a PRIMARY KEY.*delta.enableRowTracking"):
        follow(session, there, "id BIGINT, v STRING")


def _read_entry(there: DeltaTable, version: int) -> list[dict[str, Any]]:
    text = (Path(there.path) / "_delta_log" / f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.long
def test_rows_that_a_vector_hides_where_they_were_may_be_copied_elsewhere(
    session: Session, delta: Callable[..., DeltaTable], compared: list[str]
) -> None:
    there = delta("id BIGINT, v STRING", properties=f"{TRACKED}, {VECTORS}")
    there.insert("SELECT /*+ COALESCE(1) */ id, 'a' FROM range(1, 6)")  # version 1
    there.sql(
        "DELETE FROM {} WHERE id < 5",
        "RESTORE TABLE {} TO VERSION AS OF 1",
        "DELETE FROM {} WHERE id = 5",
        "REORG TABLE {} APPLY (PURGE)",
        "RESTORE TABLE {} TO VERSION AS OF 1",
    )
    follow(session, there, "id BIGINT, v STRING")
    poll(session)
    hides = [one for one in _read_entry(there, 2) if "add" in one or "remove" in one]
    copies = [one for one in _read_entry(there, 5) if "add" in one]
    told = [one for one in _read_entry(there, 6) if "commitInfo" in one]
    copies[0]["add"] |= {"dataChange": True, "defaultRowCommitVersion": 7, "baseRowId": 1000}
    told[0]["commitInfo"] |= {"operation": "MERGE", "operationParameters": {}}
    lines = [json.dumps(one) for one in (*told, *hides, *copies)]
    (Path(there.path) / "_delta_log" / f"{7:020}.json").write_text("\n".join(lines))
    there.insert("VALUES (9, 'z')")
    poll(session)
    assert held(session) == there.rows() == [(1, "a"), (2, "a"), (3, "a"), (4, "a"), (5, "a"), (9, "z")]
    assert not compared


@pytest.mark.long
@pytest.mark.parametrize(
    ("key", "vectors"),
    [
        ("id BIGINT PRIMARY KEY", NO_VECTORS),
        ("id BIGINT PRIMARY KEY", VECTORS),
        ("id BIGINT", NO_VECTORS),
        ("id BIGINT", VECTORS),
    ],
)
def test_rows_that_are_restored_and_then_written_again_come(
    session: Session, delta: Callable[..., DeltaTable], compared: list[str], key: str, vectors: str
) -> None:
    there = delta("id BIGINT, v STRING", properties=f"{TRACKED}, {vectors}")
    there.insert("SELECT /*+ COALESCE(1) */ id, 'a' FROM range(5)")
    there.sql("UPDATE {} SET v = 'b' WHERE id = 1", "DELETE FROM {} WHERE id = 2")
    follow(session, there, f"{key}, v STRING")
    poll(session)
    there.sql("RESTORE TABLE {} TO VERSION AS OF 1", f"ALTER TABLE {{}} SET TBLPROPERTIES ({NO_VECTORS})")
    there.sql("UPDATE {} SET v = 'c' WHERE id = 3")
    poll(session)
    assert held(session) == there.rows() == [(0, "a"), (1, "a"), (2, "a"), (3, "c"), (4, "a")]
    assert not compared


@pytest.mark.long
@pytest.mark.parametrize("meanwhile", ["OPTIMIZE {}", "ALTER TABLE {} DROP FEATURE rowTracking"])
def test_ids_that_rows_got_while_row_tracking_was_off(
    session: Session, delta: Callable[..., DeltaTable], meanwhile: str
) -> None:
    off = "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')"
    on = f"ALTER TABLE {{}} SET TBLPROPERTIES ({TRACKED})"
    there = delta("id BIGINT, v STRING", properties=f"{TRACKED}, {VECTORS}")
    there.insert("SELECT id, 'a' FROM range(5)")
    there.sql(
        "INSERT INTO {} VALUES (7, 'a')", "DELETE FROM {} WHERE id = 7", "INSERT INTO {} VALUES (8, 'b')"
    )
    follow(session, there, "id BIGINT, v STRING")
    poll(session)
    there.sql(off, meanwhile, on)
    assert any("other ids while row tracking was off" in text for text in poll(session).warnings)
    assert held(session) == there.rows()
    there.sql("UPDATE {} SET v = 'c' WHERE id < 3")
    poll(session)
    assert held(session) == there.rows()
    there.sql(off)
    poll(session)
    there.sql("DELETE FROM {} WHERE id = 3")
    refused = r"(?s)row tracking of the Delta table is off.*enableRowTracking = true"
    with pytest.raises(SourceError, match=refused):
        poll(session)
    with pytest.raises(SourceError, match=refused):
        session.sql("ALTER TABLE t RESYNC")
    there.sql(on)
    poll(session)
    assert held(session) == there.rows()


@pytest.mark.long
def test_a_column_whose_name_is_written_otherwise_is_the_same(
    session: Session, delta: Callable[..., DeltaTable], compared: list[str]
) -> None:
    there = delta("id BIGINT, v STRING", properties=f"{BY_ID}, {NO_VECTORS}")
    there.insert("SELECT /*+ COALESCE(1) */ id, 'a' FROM range(5)")
    session.sql(
        f"CREATE SOURCE s (id BIGINT PRIMARY KEY, v STRING) WITH (connector = 'delta', path = '{there.path}')"
    )
    session.sql("CREATE MATERIALIZED VIEW seen AS SELECT v, count(*) AS n FROM s GROUP BY v")
    poll(session, "s")
    session.flush().raise_for_all()
    for name in ("v", "id"):
        there.sql(
            f"ALTER TABLE {{}} RENAME COLUMN {name} TO x",
            f"ALTER TABLE {{}} RENAME COLUMN x TO {name.upper()}",
        )
        there.sql(f"UPDATE {{}} SET V = '{name}' WHERE {'ID' if name == 'id' else 'id'} = 1")
        poll(session, "s")
        session.flush().raise_for_all()
        assert held(session, "seen") == sorted([("a", 4), (name, 1)], key=repr)
    assert not compared


@pytest.mark.long
def test_a_folder_whose_name_is_a_pattern(
    session: Session, spark: SparkSession, tmp_path: Path, compared: list[str]
) -> None:
    there = SparkDeltaTable(spark, tmp_path / "a [b] {c}*? %20ü").make(properties=VECTORS)
    there.insert("SELECT id, 'a' FROM range(5)")
    follow(session, there)
    poll(session)
    there.sql("UPDATE {} SET v = 'b' WHERE id = 3", f"ALTER TABLE {{}} SET TBLPROPERTIES ({NO_VECTORS})")
    there.sql("UPDATE {} SET v = 'c' WHERE id = 4")
    poll(session)
    assert held(session) == there.rows()
    assert not compared


@pytest.mark.long
def test_row_tracking_that_is_switched_on_later(
    session: Session, delta: Callable[..., DeltaTable], compared: list[str]
) -> None:
    there = delta(properties=NO_VECTORS)
    there.insert(ROWS)
    follow(session, there, "id BIGINT PRIMARY KEY, p INT, v STRING")
    assert session.notices == (f"t: {BY_KEY}",)
    poll(session)
    there.sql("UPDATE {} SET v = 'b' WHERE id < 3", f"ALTER TABLE {{}} SET TBLPROPERTIES ({TRACKED})")
    there.sql("UPDATE {} SET v = 'c' WHERE id < 6")
    assert BY_ROW_IDS in poll(session).warnings
    assert held(session) == there.rows()
    there.sql("DELETE FROM {} WHERE id = 1")
    assert poll(session).rows == 1
    assert held(session) == there.rows()
    assert not compared


def test_only_what_changed_is_written(
    session: Session, delta: Callable[..., DeltaTable], compared: list[str]
) -> None:
    there = delta(properties=VECTORS)
    there.insert(ROWS)
    follow(session, there, "id BIGINT PRIMARY KEY, p INT, v STRING")
    assert session.notices == (f"t: {BY_VECTORS}",)
    poll(session)
    there.sql("UPDATE {} SET v = 'b' WHERE id < 3")
    assert poll(session).rows == 3
    there.sql(f"ALTER TABLE {{}} SET TBLPROPERTIES ({NO_VECTORS})", "UPDATE {} SET v = 'c' WHERE id = 3")
    assert poll(session).rows == 1
    assert held(session) == there.rows()
    assert not compared


@pytest.mark.long
def test_a_feed_that_was_on_for_a_while_hides_no_rewritten_file(
    session: Session, delta: Callable[..., DeltaTable], compared: list[str]
) -> None:
    there = delta(properties=NO_VECTORS)
    there.insert(ROWS)
    follow(session, there, "id BIGINT PRIMARY KEY, p INT, v STRING")
    poll(session)
    there.insert("VALUES (100, 1, 'new')")
    there.sql(
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "OPTIMIZE {}",
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')",
        "UPDATE {} SET v = 'later' WHERE id IN (3, 100)",
    )
    poll(session)
    assert held(session) == there.rows()
    assert not compared


@pytest.mark.long
def test_files_that_are_gone_are_told_and_the_table_is_compared(
    session: Session, delta: Callable[..., DeltaTable]
) -> None:
    there = delta(properties=NO_VECTORS)
    there.insert(ROWS)
    follow(session, there, "id BIGINT PRIMARY KEY, p INT, v STRING")
    poll(session)
    there.sql("UPDATE {} SET v = 'b' WHERE id < 3")
    run_by_rust(str(there.path), "VACUUM there RETAIN 0 HOURS")
    there.sql("DELETE FROM {} WHERE id = 4")
    tried = try_source(session.store, session.catalog.get("t"), lambda: session.computing)
    assert any("the whole table is compared" in one.words for one in tried), tried
    report = poll(session)
    assert any("the whole table was compared" in text for text in report.warnings), report.warnings
    assert report.rows == 4
    assert held(session) == there.rows()
    assert not source(session).list_pending()
    session.sql(
        f"CREATE SOURCE s (id BIGINT PRIMARY KEY, v STRING) WITH (connector = 'delta', path = '{there.path}')"
    )
    session.sql("CREATE MATERIALIZED VIEW seen AS SELECT id, v FROM s")
    poll(session, "s")
    session.flush().raise_for_all()
    there.sql("UPDATE {} SET v = 'z' WHERE id < 9")
    run_by_rust(str(there.path), "VACUUM there RETAIN 0 HOURS")
    with pytest.raises(SourceError, match=r"can't be read any more.*DROP SOURCE s CASCADE"):
        poll(session, "s")
