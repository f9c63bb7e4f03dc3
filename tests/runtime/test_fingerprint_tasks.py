"""Fingerprints of tables and views of sessions: right after each step of random programs, and read by tasks as by one process."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.hummock import Put
from engine.hummock.rows.fingerprint import add_fingerprints, compute_fingerprint
from engine.runtime import fingerprint_tasks
from engine.runtime.fingerprint_tasks import FingerprintTasks
from engine.runtime.spark.session import EngineSpark
from engine.session import Session
from tests.long_rest import mark_rest_long

VIEWS = {
    "by_group": "SELECT g, count(*) AS n, sum(i) AS total, max(i) AS best FROM t GROUP BY g",
    "linear": "SELECT k, x * 2 AS x, upper(s) AS s FROM t WHERE i > 1",
    "joined": "SELECT t.k, t.x, u.name FROM t JOIN u ON t.g = u.id",
    "outer_joined": "SELECT u.id, t.k AS tk, t.x FROM u LEFT JOIN t ON t.g = u.id",
    "floats": "SELECT g, sum(x) AS x, min(x) AS low FROM t GROUP BY g",
    "distinct_values": "SELECT DISTINCT x, s FROM t",
    "ranked": "SELECT k, g, i FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY i DESC, k) AS r FROM t) WHERE r <= 2",
    "of_bag": "SELECT v, count(*) AS n FROM bag GROUP BY v",
    "over_view": "SELECT n, count(*) AS groups FROM by_group GROUP BY n",
}


def check(session: Session) -> set[str]:
    """Check what each table keeps against a scan of it at that epoch; returns those that are behind."""
    behind = set()
    for name, table in session.store.refresh().tables.items():
        known = table.fingerprint
        assert known is not None or not table.table.has_fingerprint, name
        if known is None:
            continue
        batches = session.store.reader.scan(table, known.epoch)
        found = add_fingerprints(compute_fingerprint(batch, table.schema.names) for batch in batches)
        assert found == known.value, name
        if known.epoch < table.committed_epoch:
            behind.add(name)
    return behind


def run_statement(session: Session, chance: random.Random, added: list[str]) -> None:
    """Make some random change."""
    some, key = chance.randrange(5), chance.randrange(30)
    x = chance.choice(["0.0", "CAST('-0.0' AS DOUBLE)", "1.5", "NULL", "CAST('NaN' AS DOUBLE)"])
    s = chance.choice(["'a'", "''", "NULL", "'ß'"])
    match chance.randrange(10):
        case 0 | 1:
            values = ", ".join(f"({key + n}, {some}, {n}, {x}, {s})" for n in range(chance.randrange(1, 9)))
            session.sql(
                f"INSERT INTO t (k, g, i, x, s) VALUES {values} ON CONFLICT (k) DO UPDATE SET x = excluded.x, i = t.i + 1"
            )
        case 2:
            session.sql(f"UPDATE t SET x = {x}, i = i + 1 WHERE g = {some}")
        case 3:
            session.sql(f"UPDATE t SET k = k + 100 WHERE k < 100 AND g = {some}")
        case 4:
            session.sql(f"DELETE FROM t WHERE k % 7 = {some}")
        case 5:
            session.sql(f"INSERT INTO bag VALUES ({some}), ({some}), (NULL)")
        case 6:
            session.sql(f"DELETE FROM bag WHERE v = {some}")
        case 7:
            names = pa.array([chance.choice(["n", None]) for _ in range(3)], pa.string())
            session.write("u", pa.table({"id": [some, some + 1, some + 2], "name": names}), mode="upsert")
        case 8:
            session.compact(full=chance.random() < 0.5)
        case 9:
            if len(added) < 3:
                added.append(f"c{len(added)}")
                session.sql(f"ALTER TABLE t ADD COLUMN {added[-1]} BIGINT")
            session.sql(f"UPDATE t SET {added[-1]} = {some} WHERE g = {some}")


@pytest.mark.parametrize(("seed", "steps"), mark_rest_long([(1, 4), (1, 14), (2, 14), (3, 14)]))
def test_random_programs_keep_them_right(tmp_path: Path, spark: SparkSession, seed: int, steps: int) -> None:
    chance, added = random.Random(seed), list[str]()
    with Session(tmp_path.as_uri(), spark) as session:
        session.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT, i INT, x DOUBLE, s STRING)")
        session.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, name STRING)")
        session.sql("CREATE TABLE bag (v BIGINT)")
        for name, query in VIEWS.items():
            options = " WITH (partition_by = 'g')" if name == "by_group" else ""
            session.sql(f"CREATE MATERIALIZED VIEW {name}{options} AS {query}")
        for step in range(steps):
            for _ in range(chance.randrange(1, 4)):
                run_statement(session, chance, added)
                check(session)
            session.flush().raise_for_errors()
            behind = check(session)
            assert not behind & {"bag", "ranked"}
            if step % 5 == 4:
                session.store.maintenance.move_fingerprints()
                assert check(session) == set()
        assert all(session.verify_fingerprint(name).is_right for name in ("t", *VIEWS))


@pytest.mark.long
def test_old_rows_of_floats_are_those_that_stand(tmp_path: Path, spark: SparkSession) -> None:
    """Sums of doubles that differ by sixteen powers of ten, small and large epochs by turns: Arrow and Spark take them back.

    A rule that computes an old row in another order of addition than it was computed in would name another one as replaced.
    """
    chance = random.Random(1)
    with Session(tmp_path.as_uri(), spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, x DOUBLE)")
        session.sql(
            "CREATE MATERIALIZED VIEW w AS SELECT id, sum(x) OVER (PARTITION BY g) AS total, stddev(x) OVER (PARTITION BY g) AS d, "
            "avg(x) OVER (PARTITION BY g ORDER BY id) AS a FROM t"
        )
        session.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT g, stddev(x) AS d, avg(x) AS a, sum(x * 0.1D) AS z FROM t GROUP BY g"
        )
        for count in (5_000, 3, 3, 40_000, 3, 200, 3, 1, 2_000):
            ids = list(dict.fromkeys(chance.randrange(40_000) for _ in range(count)))
            x = [chance.random() * 10 ** chance.randrange(-8, 9) for _ in ids]
            session.write("t", pa.table({"id": ids, "g": [n % 37 for n in ids], "x": x}), mode="upsert")
            session.flush().raise_for_errors()
            check(session)
        assert all(session.verify_fingerprint(name).is_right for name in ("t", "v", "w"))


def test_a_view_with_another_query_keeps_it_unless_columns_go(tmp_path: Path, spark: SparkSession) -> None:
    with Session(tmp_path.as_uri(), spark) as session:
        session.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT)")
        session.sql("INSERT INTO t VALUES (1, 5), (2, 6)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT k, g FROM t")
        session.flush().raise_for_errors()
        session.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, g + 1 AS g FROM t")
        session.flush().raise_for_errors()
        check(session)
        assert session.verify_fingerprint("v").is_right
        session.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, g + 1 AS g, k AS twice FROM t")
        session.flush().raise_for_errors()
        assert session.verify_fingerprint("v").is_right
        session.sql("INSERT INTO t VALUES (3, 7)")
        session.flush().raise_for_errors()
        assert session.verify_fingerprint("v").is_right


def test_a_renamed_column_and_one_that_goes(tmp_path: Path, spark: SparkSession) -> None:
    with Session(tmp_path.as_uri(), spark) as session:
        session.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, g BIGINT)")
        session.sql("INSERT INTO t VALUES (1, 5), (2, 6)")
        value = session.fingerprint("t").value
        session.sql("ALTER TABLE t RENAME COLUMN g TO h")
        session.sql("ALTER TABLE t ADD COLUMN n BIGINT")
        assert session.fingerprint("t").value == value
        session.sql("UPDATE t SET h = 7 WHERE k = 1")
        assert check(session) == set()
        assert session.fingerprint("t").value != value
        session.sql("ALTER TABLE t ADD COLUMN d BIGINT DEFAULT 3")
        assert session.verify_fingerprint("t").expected is None
        session.sql("ALTER TABLE t DROP COLUMN h")
        assert "columns changed" in str(session.fingerprint("t").reason)
        assert session.verify_fingerprint("t").expected is None
        session.sql("INSERT INTO t (k, n) VALUES (3, 4)")
        assert check(session) == set()
        assert session.verify_fingerprint("t").is_right


def test_tasks_find_what_one_process_finds(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fingerprint_tasks, "LEAST_ROWS", 1)
    with Session(tmp_path.as_uri(), spark) as session:
        schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
        session.store.create_table("t", schema, ["k"], ["k"])
        session.store.create_table("ordered", schema, ["k"])
        told: list[int] = []
        rows = pa.table({"k": np.arange(5000), "v": [f"v{n % 9}" for n in range(5000)]})
        for name in ("t", "ordered"):
            session.store.ingest_batch({name: Put(rows)})
            session.store.ingest_batch({name: Put(rows.slice(7, 5))})
            tasks = FingerprintTasks(session.store, lambda: EngineSpark.of(spark))
            found = session.store.verify_fingerprint(name, lambda read, _: told.append(read), tasks)
            assert (found.is_right, found.rows) == (True, 5000)
            assert found.found == session.store.verify_fingerprint(name).found
        assert (
            FingerprintTasks(session.store, lambda: None).sum_ranges(
                session.store.version.tables["t"], found.epoch, [], lambda rows: None
            )
            is None
        )
