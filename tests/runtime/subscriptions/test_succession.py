"""Views that are replaced, renamed or made anew below their subscriptions; needs Spark."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from engine.changes import commit_together
from engine.errors import SqlError, SubscriptionError
from engine.session import Session
from tests.runtime.subscriptions.judge import Bag, shown, told

FIRST = "SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g"
FEWER = "SELECT g, sum(n) AS total, count(*) AS c FROM t WHERE n % 3 = 0 GROUP BY g"


@pytest.fixture
def shop(session: Session) -> Session:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
    session.write("t", pa.table({"id": range(40), "g": [i % 4 for i in range(40)], "n": range(40)}))
    session.sql(f"CREATE MATERIALIZED VIEW v AS {FIRST}")
    return session


@pytest.mark.parametrize(
    "statement",
    [f"ALTER MATERIALIZED VIEW v AS {FEWER}", f"CREATE OR REPLACE MATERIALIZED VIEW v AS {FEWER}"],
)
def test_a_view_by_another_query_gives_its_subscribers_exactly_the_difference(
    shop: Session, statement: str
) -> None:
    shop.sql("CREATE SUBSCRIPTION s FROM v")
    bag = Bag()
    for item in shop.subscribe("s", since="full"):
        bag.apply(item.changes)
    following = shop.subscribe("v")
    shop.sql("INSERT INTO t VALUES (100, 0, 7)")
    shop.flush().raise_for_errors()
    before = shown(shop, "v")
    table_id = shop.store.version.tables["v"].table_id
    shop.sql(statement)
    shop.flush().raise_for_errors()
    after = shown(shop, "v")
    assert before != after and shop.store.version.tables["v"].table_id == table_id
    epochs = []
    for item in shop.subscribe("s"):
        bag.apply(item.changes)
        epochs.append(item)
        assert bag.listed() == shown(shop, "v", item.epoch)
    assert bag.listed() == after
    assert len(epochs) == 2  # the write, and the difference: four groups are updated, none goes and comes
    assert sorted(set(epochs[-1].changes.column("op").to_pylist())) == ["UpdateDelete", "UpdateInsert"]
    assert [item.changes for item in following] == [item.changes for item in epochs]
    shop.sql("INSERT INTO t VALUES (101, 0, 8), (102, 9, 2)")
    shop.flush().raise_for_errors()
    for item in shop.subscribe("s"):
        bag.apply(item.changes)
    assert bag.listed() == shown(shop, "v")


def test_random_successors_between_random_writes(shop: Session) -> None:
    rng = random.Random(11)
    shop.sql("CREATE SUBSCRIPTION s FROM v")
    bag = Bag()
    for item in shop.subscribe("s", since="full"):
        bag.apply(item.changes)
    for step in range(12):
        ids = rng.sample(range(60), 6)
        rows = {"id": ids, "g": [rng.randrange(5) for _ in ids], "n": [rng.randrange(50) for _ in ids]}
        shop.write("t", pa.table(rows))
        shop.write("t", pa.table({"id": rng.sample(range(60), 3)}), mode="delete")
        if step % 3 == 1:
            shop.sql(f"ALTER MATERIALIZED VIEW v AS {rng.choice([FIRST, FEWER])}", build=rng.random() < 0.5)
        shop.flush().raise_for_errors()
        for item in shop.subscribe("s"):
            bag.apply(item.changes)
            assert bag.listed() == shown(shop, "v", item.epoch)
    shop.flush().raise_for_errors()
    for item in shop.subscribe("s"):
        bag.apply(item.changes)
    assert bag.listed() == shown(shop, "v")


def test_a_query_of_another_key_is_refused_and_the_subscription_stays(shop: Session) -> None:
    shop.sql("CREATE SUBSCRIPTION s FROM v")
    with pytest.raises(SqlError):
        shop.sql("ALTER MATERIALIZED VIEW v AS SELECT n, max(g) AS largest FROM t GROUP BY n")
    shop.sql("INSERT INTO t VALUES (100, 0, 7)")
    shop.flush().raise_for_errors()
    assert len(told(shop, "s")) == 2


def test_a_renamed_view_and_two_that_are_swapped_keep_their_subscriptions(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW w AS {FEWER}")
    shop.sql("CREATE SUBSCRIPTION s FROM v WITH (retention = '2 days')")
    following = shop.subscribe("v")
    shop.sql("ALTER MATERIALIZED VIEW v RENAME TO x")
    assert "FROM x WITH" in shop.sql("SHOW CREATE SUBSCRIPTION s").to_pylist()[0]["create_statement"]
    shop.sql("INSERT INTO t VALUES (100, 0, 7)")
    shop.flush().raise_for_errors()
    changes = [("UpdateDelete", (0, 180, 10)), ("UpdateInsert", (0, 187, 11))]
    assert told(shop, "s") == changes
    assert next(following).changes.num_rows == 2
    shop.sql("ALTER MATERIALIZED VIEW x SWAP WITH w")
    shop.sql("INSERT INTO t VALUES (101, 0, 1)")
    shop.flush().raise_for_errors()
    assert shop.sql("SHOW SUBSCRIPTIONS").to_pylist()[0]["from"] == "w"  # the one that was x, and v before
    assert told(shop, "s") == [("UpdateDelete", (0, 187, 11)), ("UpdateInsert", (0, 188, 12))]
    assert next(following).changes.num_rows == 2


def test_a_view_that_is_created_again_is_told_as_another_one(shop: Session) -> None:
    shop.sql("CREATE SUBSCRIPTION s FROM v")
    following = shop.subscribe("v")
    with pytest.raises(SqlError, match="subscription s"):
        shop.sql("DROP MATERIALIZED VIEW v")
    with commit_together(shop):
        shop.sql("DROP MATERIALIZED VIEW v CASCADE")
        shop.sql(f"CREATE MATERIALIZED VIEW v AS {FEWER}", build=False)
        shop.sql("CREATE SUBSCRIPTION s FROM v")
    assert shop.sql("SHOW SUBSCRIPTIONS").to_pylist()[0]["phase"] == "waiting"
    with pytest.raises(SqlError, match="not been computed"):
        shop.subscribe("s")
    shop.flush().raise_for_errors()
    with pytest.raises(SubscriptionError, match="dropped, or made anew"):
        next(following)
    following.close()
    bag = Bag()
    for item in shop.subscribe("s"):
        assert item.snapshot  # it was made before there were rows: all of them come first
        bag.apply(item.changes)
    assert bag.listed() == shown(shop, "v")


@pytest.mark.long
def test_a_view_over_a_bag_and_one_on_window_close(session: Session) -> None:
    session.sql(
        "CREATE TABLE e (at TIMESTAMP, v BIGINT, WATERMARK FOR at AS at - INTERVAL '1' MINUTE) APPEND ONLY"
    )
    session.sql(
        "CREATE MATERIALIZED VIEW closed AS SELECT window_start, count(*) AS n FROM "
        "TUMBLE(e, at, INTERVAL '10' MINUTES) GROUP BY window_start EMIT ON WINDOW CLOSE"
    )
    session.sql("CREATE MATERIALIZED VIEW plain AS SELECT v FROM e UNION ALL SELECT v FROM e WHERE v > 1")
    bags = {name: Bag() for name in ("closed", "plain")}
    for name in bags:
        session.sql(f"CREATE SUBSCRIPTION s_{name} FROM {name}")
    for minute in (0, 1, 12, 13, 30):
        session.sql(
            f"INSERT INTO e VALUES (TIMESTAMP '2026-01-01 00:{minute:02}:00', {minute % 3}), "
            f"(TIMESTAMP '2026-01-01 00:{minute:02}:00', 2)"
        )
        session.flush().raise_for_errors()
        for name, bag in bags.items():
            for item in session.subscribe(f"s_{name}"):
                bag.apply(item.changes)
            assert bag.listed() == shown(session, name)
    assert bags["closed"].listed() and len(bags["plain"].listed()) > 10
