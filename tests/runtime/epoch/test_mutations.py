"""Mutations at work: pause, resume, throttle and update are queued in the store and taken by the domain's next barrier."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.errors import EpochFailed, SqlError
from engine.meta.domains.mutation import read_control
from engine.meta.epochs.barrier import Barrier, find_open_barrier
from engine.session import Session

ALTER = "ALTER MATERIALIZED VIEW"


def sales(ids: list[int]) -> pa.Table:
    return pa.table({"id": ids, "shop": [1 + i % 2 for i in ids], "price": [i * 10 for i in ids]})


@pytest.fixture
def shop(session: Session) -> Session:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT)")
    session.write("sale", sales([1, 2, 3]))
    session.sql("CREATE MATERIALIZED VIEW by_shop AS SELECT shop, count(*) AS n FROM sale GROUP BY shop")
    session.sql("CREATE MATERIALIZED VIEW shops AS SELECT count(*) AS n FROM by_shop")
    session.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(price) AS s FROM sale")
    return session


def test_a_paused_view_rests_until_it_is_resumed_and_its_readers_say_why_they_wait(shop: Session) -> None:
    shop.sql(f"{ALTER} by_shop PAUSE")
    (wait,) = shop.waits()
    assert (wait.domain, wait.kind) == ("by_shop", "due") and "mutation pause by_shop" in wait.reason
    shop.write("sale", pa.table({"id": [4], "shop": [7], "price": [5]}))
    report = shop.flush()
    assert report["by_shop"].mutations == ("pause by_shop",) and "RESUME" in str(report["by_shop"].waits_for)
    assert shop.sql("SELECT s FROM total").to_pylist() == [{"s": 65}]
    assert shop.sql("SELECT n FROM shops").to_pylist() == [{"n": 2}]
    found = {wait.domain: wait for wait in shop.waits()}
    assert found["by_shop"].kind == "paused" and found["shops"].kind == "upstream"
    assert "waits for by_shop: paused" in found["shops"].reason
    assert "paused" in str(shop.flush(eager=False)["shops"].waits_for)
    with Session(shop.url, shop.spark) as other:  # what was asked for is in the store
        other.resume("by_shop")
        assert other.flush()["by_shop"].mutations == ("resume by_shop",)
        assert other.sql("SELECT n FROM shops").to_pylist() == [{"n": 3}] and other.waits() == ()


def test_mutations_are_taken_in_their_order_each_by_a_barrier_of_its_own(shop: Session) -> None:
    for verb in ("PAUSE", "RESUME", "PAUSE", "RESUME"):
        shop.sql(f"{ALTER} total {verb}")
    before = shop.store.refresh().number
    assert [asked.number for asked in read_control(shop.store.version, "total").asked] == [1, 2, 3, 4]
    report = shop.flush()
    assert report["total"].mutations == ("pause total", "resume total", "pause total", "resume total")
    control, epoch = read_control(shop.store.version, "total"), report["total"].epoch
    assert control.taken == 4 and not control.asked and not control.paused and epoch is not None
    assert control.barrier == Barrier(epoch, epoch, "checkpoint", "resume")
    assert shop.store.version.number >= before + 4


def test_a_pause_reaches_a_view_that_fails(shop: Session) -> None:
    shop.sql("CREATE MATERIALIZED VIEW share AS SELECT id, price / shop AS part FROM sale")
    shop.write("sale", pa.table({"id": [9], "shop": [0], "price": [1]}))
    assert shop.flush()["share"].error is not None
    shop.pause("share")
    assert shop.flush(eager=False)["share"].mutations == ("pause share",)
    assert next(w for w in shop.waits() if w.domain == "share").kind == "paused"


def test_a_pause_holds_for_all_views_of_a_domain_and_outlives_the_one_it_was_asked_for(shop: Session) -> None:
    for name in ("one", "two"):
        shop.sql(
            f"CREATE MATERIALIZED VIEW {name} WITH (domain = 'both') AS SELECT id, price AS {name} FROM sale"
        )
    shop.pause("one")
    shop.write("sale", sales([5]))
    report = shop.flush()
    assert report["two"].waits_for == report["one"].waits_for is not None
    shop.sql("DROP MATERIALIZED VIEW one")
    assert read_control(shop.store.refresh(), "both").paused == "two"
    shop.resume("two")
    assert not shop.flush().failed and shop.waits() == ()
    shop.sql("DROP MATERIALIZED VIEW two")
    assert "control/both" not in shop.store.refresh().catalog


def test_an_epoch_is_opened_by_a_barrier_and_closed_by_its_checkpoint(shop: Session) -> None:
    seen = []
    compute = shop._runner.executor.compute

    def watched(task):  # type: ignore[no-untyped-def]
        seen.append(find_open_barrier(shop.store.refresh(), "total"))
        return compute(task)

    shop._runner.executor.compute = watched  # type: ignore[method-assign]
    prev = shop.flush()["total"].epoch
    shop.write("sale", sales([6]))
    report = shop.flush(["total"])
    (opened,) = seen
    assert opened is not None and opened.barrier == Barrier(prev, report["total"].epoch)  # type: ignore[arg-type]
    assert report["total"].barrier == opened.barrier.text
    assert find_open_barrier(shop.store.refresh(), "total") is None


def test_a_new_name_takes_a_pause_along(shop: Session) -> None:
    shop.pause("total")
    shop.flush()
    shop.sql(f"{ALTER} total RENAME TO everything")
    assert read_control(shop.store.refresh(), "everything").paused == "everything"
    assert "control/total" not in shop.store.version.catalog
    shop.resume("everything")
    shop.write("sale", sales([8]))
    assert not shop.flush().failed and shop.sql("SELECT s FROM everything").to_pylist() == [{"s": 140}]


def test_a_mutation_of_what_is_no_materialized_view_is_refused(shop: Session) -> None:
    with pytest.raises(SqlError, match="there is no materialized view nobody"):
        shop.pause("nobody")
    with pytest.raises(SqlError, match="a table cannot be controlled"):
        shop.resume("sale")


def test_wait_returns_when_views_are_whole_and_names_what_is_not_after_its_time(shop: Session) -> None:
    shop.sql("CREATE MATERIALIZED VIEW later WITH (background = 'true') AS SELECT id FROM sale")
    shop.throttle("later", 0)
    with pytest.raises(EpochFailed, match=r"later: backfilling.*paused by backfill_rate_limit = 0"):
        shop.sql("WAIT FOR later WITHIN 0.1 SECONDS")
    shop.throttle("later", None)
    shop.sql("WAIT")
    assert shop.sql("SELECT count(*) AS n FROM later").to_pylist() == [{"n": 3}]
    with pytest.raises(SqlError, match="a time is expected"):
        shop.sql("WAIT WITHIN ten SECONDS")
