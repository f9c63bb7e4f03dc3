"""Domains at work: atomic commits of several views, failures that stay local and are remembered, and waits with reasons."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.hummock.back_off import BackOff
from engine.meta.domains import failures
from engine.session import Session

POISON = {"id": [99], "shop": [0], "price": [1]}


def sales(ids: list[int]) -> pa.Table:
    return pa.table({"id": ids, "shop": [1 + i % 2 for i in ids], "price": [i * 10 for i in ids]})


@pytest.fixture
def shop(session: Session) -> Session:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)")
    session.write("sale", sales([1, 2, 3]))
    return session


def test_a_view_with_an_inner_aggregate_commits_its_state_and_itself_in_one_manifest(shop: Session) -> None:
    shop.sql(
        "CREATE MATERIALIZED VIEW spread AS SELECT n, count(*) AS shops FROM (SELECT shop, count(*) AS n FROM sale GROUP BY shop) x GROUP BY n"
    )
    shop.write("sale", sales([4, 5]))
    before = shop.store.refresh().number
    assert shop.flush()["spread"].error is None
    assert shop.store.refresh().number == before + 2  # the barrier, and one checkpoint
    assert sorted(shop.sql("SELECT n, shops FROM spread").to_pylist(), key=lambda r: r["n"]) == [
        {"n": 2, "shops": 1},
        {"n": 3, "shops": 1},
    ]


def test_a_failing_view_holds_back_its_readers_and_nobody_else_and_says_why(
    shop: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "RETRIES", BackOff(3600.0, 3600.0))  # longer than this test, on any machine
    shop.sql("CREATE MATERIALIZED VIEW up AS SELECT id, shop, price FROM sale WHERE price > 0")
    shop.sql("CREATE MATERIALIZED VIEW middle AS SELECT id, price / shop AS share FROM up")
    shop.sql("CREATE MATERIALIZED VIEW down AS SELECT count(*) AS n FROM middle")
    shop.sql("CREATE MATERIALIZED VIEW apart AS SELECT sum(price) AS total FROM sale")
    for attempt in (1, 2):
        shop.write("sale", pa.table(POISON | {"price": [3 - attempt]}), mode="upsert")
        report = shop.flush()
        assert "DIVIDE_BY_ZERO" in str(report["middle"].error)
        assert report["up"].error is None and report["apart"].error is None
        (status,) = [s for s in shop.status() if s.name == "middle"]
        assert "DIVIDE_BY_ZERO" in str(status.last_error) and status.lagging, attempt
    found = {wait.domain: wait for wait in shop.waits()}
    assert found["middle"].kind == "failed" and "2 times in a row" in found["middle"].reason
    assert found["down"].kind == "upstream" and found["down"].reason.startswith("waits for middle")
    assert found["down"].until == found["middle"].until is not None
    assert set(found) == {"middle", "down"}
    patient = shop.flush(eager=False)
    assert patient["middle"].error is None and "DIVIDE_BY_ZERO" in str(patient["middle"].waits_for)
    assert shop.sql("SELECT total FROM apart").to_pylist() == [{"total": 61}]
    assert shop.sql("SELECT n FROM down").to_pylist() == [{"n": 3}]
    shop.sql("DELETE FROM sale WHERE id = 99")
    assert not shop.flush().failed and shop.waits() == ()
    assert shop.sql("SELECT n FROM down", policy="global").to_pylist() == [{"n": 3}]
    assert not any(key.startswith("failure/") for key in shop.store.refresh().catalog)


def test_a_dropped_view_leaves_no_memory_of_its_failures(shop: Session) -> None:
    shop.sql("CREATE MATERIALIZED VIEW middle AS SELECT id, price / shop AS share FROM sale")
    shop.write("sale", pa.table(POISON))
    assert shop.flush().failed
    shop.sql("DROP MATERIALIZED VIEW middle")
    assert not any(key.startswith("failure/") for key in shop.store.refresh().catalog)


def test_policies_are_chosen_by_session_and_by_query(shop: Session) -> None:
    shop.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(price) AS s FROM sale")
    shop.write("sale", sales([4]))
    count = "SELECT count(*) AS n FROM sale"
    assert shop.sql(count).to_pylist() == [{"n": 4}]
    assert shop.sql(count, policy="global").to_pylist() == [{"n": 3}]
    both = "SELECT (SELECT count(*) FROM sale) AS n, s FROM total"
    assert shop.sql(both).to_pylist() == [{"n": 3, "s": 60}]
    assert shop.sql(both, policy="latest").to_pylist() == [{"n": 4, "s": 60}]
    shop.sql("SET query_policy = global")
    assert shop.sql(count).to_pylist() == [{"n": 3}]
