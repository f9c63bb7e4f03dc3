"""A view that gets another query waits for the last epoch of a successor that is much slower than runs follow each other."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.hummock import Table, TableVersion, Version
from engine.hummock.catalog_entries import CatalogEntries
from engine.hummock.epoch import epoch_at
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.catalog.successions import SUCCESSIONS, Succession, list_successions
from engine.meta.domains.failures import record_failure
from engine.runtime.domains.domain_outcome import DomainOutcome
from engine.runtime.domains.flush import CATCHES_UP
from engine.runtime.domains.flush_planning import list_awaiting_successors
from engine.runtime.domains.lanes import Lanes
from engine.runtime.executor import FragmentTask, TaskResult
from engine.session import Session
from engine.sql.catalog import Catalog, Relation
from tests.long_rest import mark_rest_long

MOST_SECONDS = 60.0


def slow_down(session: Session, monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    """Let epochs of tables with `names` in their names take a second more."""
    compute = session._runner.executor.compute

    def compute_slowly(task: FragmentTask) -> TaskResult:
        if names in task.fragment.table:
            time.sleep(1.0)
        return compute(task)

    monkeypatch.setattr(session._runner.executor, "compute", compute_slowly)


def drive(session: Session) -> set[str | None]:
    """Write rows and run epochs as a driver does until no view has a successor; return for what `v` has waited."""
    ends, number, waits = time.monotonic() + MOST_SECONDS, 0, set()
    while list_successions(session.store.refresh()):
        assert time.monotonic() < ends, "it never takes over"
        number += 1
        session.write("t", pa.table({"id": [number], "n": [number % 3]}))
        report = session.flush(wait=False)
        report.raise_for_errors()
        waits.add(report["v"].waits_for)
    return waits


def test_a_slow_successor_takes_over_beside_a_driver(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session((tmp_path / "store").as_uri(), spark, epochs_in_flight=4) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
        session.write("t", pa.table({"id": [0], "n": [0]}))
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n")
        session.flush().raise_for_errors()
        slow_down(session, monkeypatch, "_next_v")
        session.sql("ALTER MATERIALIZED VIEW v AS SELECT n, count(*) + 1 AS c FROM t GROUP BY n", build=False)
        waits = drive(session)
        assert CATCHES_UP in waits
        session.flush().raise_for_errors()
        found = session.sql("SELECT v.n, v.c - 1 AS c FROM v")
        expected = session.sql("SELECT n, count(*) AS c FROM t GROUP BY n")
        assert found is not None and expected is not None
        assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


NOW = 1_800_000_000
QUERIES = {"t": "", "v": "t", "_next_v": "t", "w": "v", "_next_w": "_next_v", "x": "t", "_next_x": "t"}
"""Relations, and what they read: of the views `v` and `w`, which read each other, and of `x` another one."""


def build_version(
    behind: dict[str, int], *, failing: str | None = None, **successions: Succession
) -> tuple[Version, StoredCatalog]:
    """Return a version of views that are so many seconds behind, with the catalog."""
    names = {name for view in successions for name in (view, f"_next_{view}")}
    made = {name: Table(name, pa.schema([("n", pa.int64())]), ("n",)) for name in names}
    tables = {
        name: TableVersion(table, number, epoch_at(NOW - behind.get(name, 0)))
        for number, (name, table) in enumerate(made.items())
    }
    entries = {}
    for view, one in successions.items():
        entries |= SUCCESSIONS.record(view, one)
    version = Version(epoch=epoch_at(NOW), tables=tables, catalog=CatalogEntries().apply_changes(entries))
    if failing is not None:
        entries = record_failure(version, failing, "1/0", NOW)
        version = replace(version, catalog=version.catalog.apply_changes(entries))
    relations = {
        name: Relation(name=name, kind="materialized view", columns=(), depends_on=(read,) if read else ())
        for name, read in QUERIES.items()
    }
    return version, StoredCatalog(Catalog(relations), {})


@pytest.mark.parametrize(
    ("behind", "seconds", "held", "failing", "waits"),
    [
        (1, 1.0, "", None, True),
        (1, 61.0, "", None, False),
        (61, 1.0, "", None, False),
        (0, 1.0, "", None, False),
        (1, 1.0, "the gate is x", None, False),
        (1, 1.0, "", "_next_v", False),
        (1, 1.0, "", "v", True),
        (1, None, "", None, False),
    ],
)
def test_a_view_waits_for_one_that_is_near_and_at_work(
    behind: int, seconds: float | None, held: str, failing: str | None, waits: bool
) -> None:
    succession = Succession("_next_v", {}, held=held)
    version, stored = build_version({"_next_v": behind}, failing=failing, v=succession)
    busy = {} if seconds is None else {"_next_v": seconds}
    assert list_awaiting_successors(version, stored, busy) == (("v",) if waits else ())


@pytest.mark.parametrize(
    ("late", "changes", "waits"),
    [
        ("_next_w", {}, ("v", "w")),
        ("_next_v", {}, ("v", "w")),
        ("_next_x", {}, ("x",)),
        ("_next_w", {"held": "the gate is x"}, ()),
        ("_next_w", {"copied": True}, ("v", "_next_v")),
        ("_next_v", {"copied": True}, ()),
    ],
)
def test_views_that_read_each_other_wait_for_the_successors_of_all(
    late: str, changes: dict[str, Any], waits: tuple[str, ...]
) -> None:
    """They take over together, and one ends before those that read it."""
    successions = {view: Succession(f"_next_{view}", {}, **changes) for view in "vw"}
    version, stored = build_version({late: 1}, **successions, x=Succession("_next_x", {}))
    assert list_awaiting_successors(version, stored, {late: 1.0}) == waits


@pytest.mark.long
@pytest.mark.parametrize("slow", mark_rest_long(["_next_w", "_next_"]))
def test_slow_successors_of_views_that_read_each_other_take_over_beside_a_driver(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    with Session((tmp_path / "store").as_uri(), spark, epochs_in_flight=4) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
        session.write("t", pa.table({"id": [0], "n": [0]}))
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n")
        session.sql("CREATE MATERIALIZED VIEW w AS SELECT c, count(*) AS k FROM v GROUP BY c")
        session.flush().raise_for_errors()
        slow_down(session, monkeypatch, slow)
        session.sql("ALTER MATERIALIZED VIEW v AS SELECT n, count(*) + 1 AS c FROM t GROUP BY n", build=False)
        session.sql("ALTER MATERIALIZED VIEW w AS SELECT c, count(*) + 1 AS k FROM v GROUP BY c", build=False)
        drive(session)
        session.flush().raise_for_errors()
        found = session.sql("SELECT c - 1 AS c, k - 1 AS k FROM w")
        by_n = "SELECT n, count(*) AS c FROM t GROUP BY n"
        expected = session.sql(f"SELECT c, count(*) AS k FROM ({by_n}) GROUP BY c")
        assert found is not None and expected is not None
        assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


def test_who_waits_for_what_hangs_is_not_waited_for() -> None:
    """A successor that has not begun, since it reads what hangs, is at work for as long as that."""
    lanes, end = Lanes(4, lambda: None, patient=False), threading.Event()

    def work(plan: Any) -> DomainOutcome:
        assert end.wait(MOST_SECONDS)
        return DomainOutcome()

    hangs, reads = (
        SimpleNamespace(name=name, built=False, domain=SimpleNamespace(upstreams=upstreams))
        for name, upstreams in (("x", ()), ("_next_v", ("x",)))
    )
    lanes.run([cast(Any, hangs), cast(Any, reads)], work, threading.Event())
    busy = lanes.list_busy()
    end.set()
    lanes.wait()
    assert set(busy) == {"x", "_next_v"} and min(busy.values()) > 0
