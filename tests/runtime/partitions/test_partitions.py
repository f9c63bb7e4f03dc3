"""Partitions of a view: a poison one is left behind with its error, all others go on, and it comes back by itself."""

from __future__ import annotations

import pytest

from engine.errors import EpochFailed, UnsupportedSql
from engine.hummock.back_off import BackOff
from engine.meta.domains import quarantine
from engine.meta.domains.quarantine import read_quarantine
from engine.session import Session
from tests.runtime.writes.test_dml import rows

VIEWS = {
    "64 groups of vnodes": (
        "CREATE MATERIALIZED VIEW v WITH (partitions = 64) AS "
        "SELECT tenant, sum(a DIV b) AS r, count(*) AS n FROM t GROUP BY tenant"
    ),
    "a column": (
        "CREATE MATERIALIZED VIEW v WITH (partition_by = 'tenant') AS "
        "SELECT tenant, sum(a DIV b) AS r, count(*) AS n FROM t GROUP BY tenant"
    ),
}
TRUTH = "SELECT tenant, CAST(sum(a DIV b) AS BIGINT) AS r, count(*) AS n FROM t WHERE b <> 0 GROUP BY tenant"
SHOWN = "SELECT tenant, CAST(r AS BIGINT) AS r, n FROM v ORDER BY tenant"
TENANTS, EACH = 64, 5


@pytest.fixture
def tenants(session: Session) -> Session:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, tenant BIGINT, a BIGINT, b BIGINT)")
    values = ", ".join(f"({i}, {i % TENANTS}, {i}, 1)" for i in range(TENANTS * EACH))
    session.sql(f"INSERT INTO t VALUES {values}")
    return session


@pytest.mark.parametrize("cut", VIEWS)
@pytest.mark.long
def test_one_poison_partition_of_64_is_left_behind_and_comes_back_alone(tenants: Session, cut: str) -> None:
    tenants.sql(VIEWS[cut])
    before = dict((tenant, (r, n)) for tenant, r, n in rows(tenants, SHOWN))
    assert len(before) == TENANTS
    everyone = {p.epoch for p in tenants.partitions("v")}
    assert len(tenants.partitions("v")) == 64 and len(everyone) == 1
    old = everyone.pop()

    poison = 7
    tenants.sql("INSERT INTO t VALUES " + ", ".join(f"({1000 + i}, {i}, 10, 1)" for i in range(TENANTS)))
    tenants.sql(f"INSERT INTO t VALUES (2000, {poison}, 1, 0)")
    report = tenants.flush()["v"]
    assert report.error is None and len(report.quarantined) == 1
    ((key, text),) = report.quarantined.items()
    assert "DIVIDE_BY_ZERO" in text and "{'id': 2000}" in text
    status = next(s for s in tenants.status() if s.name == "v")
    assert "DIVIDE_BY_ZERO" in (status.last_error or "") and f"partition {key} " in (status.last_error or "")
    assert [w.kind for w in tenants.waits()] == ["quarantined"]
    mates = {tenant for tenant in before if partition_of(tenants, cut, tenant) == key}
    assert poison in mates
    now = dict((tenant, (r, n)) for tenant, r, n in rows(tenants, SHOWN))
    assert {t: now[t] for t in mates} == {t: before[t] for t in mates}
    assert all(now[t] == (before[t][0] + 10, before[t][1] + 1) for t in set(before) - mates)
    epochs = {p.partition: p.epoch for p in tenants.partitions("v")}
    assert epochs.pop(key) == old and set(epochs.values()) == {report.epoch}

    for step in range(1):  # the others go on; the quarantined partition is not looked for again
        tenants.sql(
            "INSERT INTO t VALUES " + ", ".join(f"({3000 + 100 * step + i}, {i}, 1, 1)" for i in range(64))
        )
        assert tenants.flush(eager=False)["v"].error is None
    with pytest.raises(EpochFailed, match=f"partition {key} "):
        tenants.sql("FLUSH")

    tenants.sql("DELETE FROM t WHERE id = 2000")
    fixed = tenants.materialize("v", key)["v"]
    assert fixed.quarantined == {} and tenants.waits() == ()
    assert rows(tenants, SHOWN) == rows(tenants, TRUTH + " ORDER BY tenant")
    inputs = sum(1 for (tenant,) in rows(tenants, "SELECT tenant FROM t") if tenant in mates)
    assert fixed.partition_rows_read == inputs
    assert fixed.partition_rows_written == fixed.rows_out == len(mates)
    tenants.sql("FLUSH")


def partition_of(session: Session, cut: str, tenant: int) -> str:
    if cut == "a column":
        return str(tenant)
    table = session.spark.sql(f"SELECT shiftright(xxhash64({tenant}L), 58) + 32").collect()
    return str(table[0][0])


REFUSED = {
    "SELECT id, sum(a) AS s FROM t GROUP BY id": ("id", None),
    "SELECT 1 AS one, sum(a) AS s FROM t": ("one", "the aggregate has no GROUP BY"),
    "SELECT tenant, n, count(*) AS c FROM (SELECT tenant, count(*) AS n FROM t GROUP BY tenant) AS x GROUP BY tenant, n": (
        "n",
        "the aggregate: .* is not among its GROUP BY columns",
    ),
    "SELECT x.id, x.tenant, y.a FROM t AS x JOIN t AS y ON x.tenant = y.id": ("id", "the join on tenant"),
    "SELECT id, a / 2.5D AS half FROM t": ("half", "is double"),
}


@pytest.mark.parametrize("query", REFUSED)
def test_a_view_is_cut_only_where_every_operator_works_within_a_partition(
    session: Session, query: str
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, tenant BIGINT, a BIGINT, b BIGINT)")
    by, message = REFUSED[query]
    text = f"CREATE MATERIALIZED VIEW v WITH (partition_by = '{by}') AS {query}"
    if message is None:
        session.sql(text, build=False)
        return
    with pytest.raises(UnsupportedSql, match=message):
        session.sql(text, build=False)


@pytest.mark.long
def test_a_poison_row_in_a_backfill_leaves_its_partition_without_content_until_it_is_mended(
    tenants: Session,
) -> None:
    tenants._runner.backfill.largest_step = (
        120  # of 321 rows: some steps come before the poison, some behind it
    )
    tenants.sql("INSERT INTO t VALUES (2000, 7, 1, 0)")
    text = VIEWS["a column"].replace("'tenant')", "'tenant', background = 'true')")
    tenants.sql(text, build=False)
    report = tenants.flush(background_seconds=300)["v"]
    assert report.error is None and list(report.quarantined) == ["7"]
    assert "DIVIDE_BY_ZERO" in report.quarantined["7"] and "{'id': 2000}" in report.quarantined["7"]
    healthy = f"SELECT * FROM ({TRUTH}) AS q WHERE tenant <> 7 ORDER BY tenant"
    assert rows(tenants, SHOWN) == rows(tenants, healthy)
    tenants.sql("DELETE FROM t WHERE id = 2000")
    tenants.sql("FLUSH")
    assert rows(tenants, SHOWN) == rows(tenants, TRUTH + " ORDER BY tenant")


@pytest.mark.long
def test_a_row_that_leaves_a_quarantined_partition_is_counted_once_below(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, tenant BIGINT, a BIGINT, b BIGINT)")
    session.sql(
        "CREATE MATERIALIZED VIEW v WITH (partition_by = 'tenant') AS SELECT id, tenant, a DIV b AS r FROM t"
    )
    session.sql("CREATE MATERIALIZED VIEW below AS SELECT count(*) AS n, sum(r) AS s FROM v")
    session.sql("INSERT INTO t VALUES (1, 7, 10, 1), (2, 8, 20, 1)")
    session.flush().raise_for_errors()
    session.sql("INSERT INTO t VALUES (3, 7, 1, 0)")
    assert set(session.flush()["v"].quarantined) == {"7"}

    session.sql("UPDATE t SET tenant = 8 WHERE id = 1")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT n, s FROM below") == [(2, 30)]
    session.sql("UPDATE t SET b = 1 WHERE id = 3")
    session.flush().raise_for_errors()
    assert not session.flush()["v"].quarantined
    assert rows(session, "SELECT n, s FROM below") == [(3, 31)]


@pytest.mark.parametrize("cut", VIEWS)
@pytest.mark.long
def test_more_than_eight_poison_partitions_stop_no_view_and_come_back(tenants: Session, cut: str) -> None:
    tenants.sql(VIEWS[cut])
    poison = range(0, TENANTS, 6)  # 11 of 64
    tenants.sql("INSERT INTO t VALUES " + ", ".join(f"({1000 + i}, {i}, 10, 1)" for i in range(TENANTS)))
    tenants.sql("INSERT INTO t VALUES " + ", ".join(f"({2000 + i}, {i}, 1, 0)" for i in poison))
    report = tenants.flush()["v"]
    left = {partition_of(tenants, cut, tenant) for tenant in poison}
    assert report.error is None and set(report.quarantined) == left and len(left) > 8
    assert all("DIVIDE_BY_ZERO" in text for text in report.quarantined.values())
    assert "with key {'id': 2" in "".join(report.quarantined.values())
    mates = [t for t in range(TENANTS) if partition_of(tenants, cut, t) in left]
    healthy = f"WHERE tenant NOT IN ({', '.join(map(str, mates))})"
    assert rows(tenants, SHOWN.replace("ORDER", f"{healthy} ORDER")) == rows(
        tenants, f"SELECT * FROM ({TRUTH}) AS q {healthy} ORDER BY tenant"
    )
    tenants.sql("DELETE FROM t WHERE b = 0")
    tenants.sql("FLUSH")
    assert rows(tenants, SHOWN) == rows(tenants, TRUTH + " ORDER BY tenant")


@pytest.mark.long
def test_a_poison_row_that_comes_and_goes_while_another_partition_waits_is_seen_to_be_gone(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        quarantine, "RETRIES", BackOff(3600.0, 3600.0)
    )  # longer than this test, on any machine
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, tenant BIGINT, a BIGINT, b BIGINT)")
    session.sql("INSERT INTO t VALUES (1, 1, 10, 5), (2, 2, 10, 5)")
    session.sql(VIEWS["a column"])
    session.sql("INSERT INTO t VALUES (20, 2, 1, 0)")
    assert set(session.flush()["v"].quarantined) == {"2"}
    session.sql("INSERT INTO t VALUES (10, 1, 1, 0)")
    assert set(session.flush(eager=False)["v"].quarantined) == {"1", "2"}
    tried = {key: one.tried for key, one in read_quarantine(session.store.refresh(), "v").items()}
    assert tried["2"] < tried["1"]
    session.sql("DELETE FROM t WHERE id = 10")
    assert set(session.flush()["v"].quarantined) == {"2"}
    session.sql("DELETE FROM t WHERE id = 20")
    assert session.flush()["v"].quarantined == {}
    assert rows(session, SHOWN) == [(1, 2, 1), (2, 2, 1)]
