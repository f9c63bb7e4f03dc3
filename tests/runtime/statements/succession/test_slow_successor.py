"""A view that gets another query waits for the last epoch of a successor that is much slower than runs follow each other."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.hummock import Table, TableVersion, Version
from engine.hummock.catalog_entries import CatalogEntries
from engine.hummock.epoch import epoch_at
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.catalog.successions import SUCCESSIONS, Succession, list_successions
from engine.runtime.domains.flush import CATCHES_UP
from engine.runtime.domains.flush_planning import list_awaiting_successors
from engine.runtime.executor import FragmentTask, TaskResult
from engine.session import Session
from engine.sql.catalog import Catalog

MOST_SECONDS = 60.0


def test_a_slow_successor_takes_over_beside_a_driver(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session((tmp_path / "store").as_uri(), spark, epochs_in_flight=4) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
        session.write("t", pa.table({"id": [0], "n": [0]}))
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n")
        session.flush().raise_for_errors()
        compute = session._runner.executor.compute

        def compute_slowly(task: FragmentTask) -> TaskResult:
            if "_next_v" in task.fragment.table:
                time.sleep(1.0)
            return compute(task)

        monkeypatch.setattr(session._runner.executor, "compute", compute_slowly)
        session.sql("ALTER MATERIALIZED VIEW v AS SELECT n, count(*) + 1 AS c FROM t GROUP BY n", build=False)
        ends, number, waits = time.monotonic() + MOST_SECONDS, 0, set()
        while list_successions(session.store.refresh()):
            assert time.monotonic() < ends, "it never takes over"
            number += 1
            session.write("t", pa.table({"id": [number], "n": [number % 3]}))
            report = session.flush(wait=False)
            report.raise_for_errors()
            waits.add(report["v"].waits_for)
        assert CATCHES_UP in waits
        session.flush().raise_for_errors()
        found = session.sql("SELECT v.n, v.c - 1 AS c FROM v")
        expected = session.sql("SELECT n, count(*) AS c FROM t GROUP BY n")
        assert found is not None and expected is not None
        assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


@pytest.mark.parametrize(
    ("behind", "seconds", "held", "waits"),
    [
        (1, 1.0, "", True),
        (1, 61.0, "", False),
        (61, 1.0, "", False),
        (1, 1.0, "the gate is x", False),
        (1, None, "", False),
    ],
)
def test_a_view_waits_for_one_that_is_near_and_at_work(
    behind: int, seconds: float | None, held: str, waits: bool
) -> None:
    made = Table("v", pa.schema([("n", pa.int64())]), ("n",))
    now = 1_800_000_000
    tables = {
        "v": TableVersion(made, 1, epoch_at(now)),
        "_next_v": TableVersion(made, 2, epoch_at(now - behind)),
    }
    entries = SUCCESSIONS.record("v", Succession("_next_v", {}, held=held))
    version = Version(epoch=epoch_at(now), tables=tables, catalog=CatalogEntries().apply_changes(entries))
    busy = {} if seconds is None else {"_next_v": seconds}
    found = list_awaiting_successors(version, StoredCatalog(Catalog({}), {}), busy)
    assert found == (("v",) if waits else ())
