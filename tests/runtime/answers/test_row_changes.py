"""What changed between two moments, and in which epochs a row did: by the log as by the snapshots, and as queries of the past say."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.runtime.answers.diff import compare_moments
from engine.session import Session

KEPT = {
    "bid": ["id", "rate", "who", "price"],
    "visit": ["who", "n"],
    "by_rate": ["rate", "n", "total"],
    "both": ["who", "n"],
    "total": ["n", "total"],
    "none": ["id"],
}
"""Tables and views, with the columns that users see: `visit` and `both` are bags, with a hidden key."""
DOUBLES = [None, math.nan, 0.0, -0.0, 2.5]


def write_random(session: Session, draw: random.Random) -> None:
    """Change rows of both tables: updates, also to what is there, deletions, and rows that come back."""
    ids = draw.sample(range(8), 4)
    prices = [draw.choice([None, 10, 20]) for _ in ids]
    rows = {"id": ids, "rate": [draw.choice(DOUBLES) for _ in ids], "who": ["a"] * 4, "price": prices}
    session.write("bid", pa.table(rows, session.store.table("bid").schema))
    session.write("bid", pa.table({"id": pa.array(draw.sample(range(8), 2), pa.int64())}), "delete")
    session.sql(f"UPDATE visit SET n = {draw.randint(1, 3)} WHERE who = 'x'")
    session.sql(f"INSERT INTO visit VALUES ('x', {draw.randint(1, 3)}), (NULL, 1)")
    session.sql("DELETE FROM visit WHERE n = 2")


@pytest.fixture(scope="module")
def shop(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Session, list[int]]]:
    """A session over tables and views that changed at random, and epochs at which all have content."""
    with Session((tmp_path_factory.mktemp("shop") / "store").as_uri(), spark) as opened:
        opened.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, rate DOUBLE, who STRING, price BIGINT)")
        opened.sql("CREATE TABLE visit (who STRING, n BIGINT)")
        opened.sql(
            "CREATE MATERIALIZED VIEW by_rate AS SELECT rate, count(*) AS n, sum(price) AS total FROM bid GROUP BY rate"
        )
        opened.sql(
            "CREATE MATERIALIZED VIEW both AS SELECT who, n FROM visit UNION ALL SELECT who, price FROM bid"
        )
        opened.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(price) AS total FROM bid")
        opened.sql("CREATE MATERIALIZED VIEW none AS SELECT id FROM bid WHERE id < 0")
        draw, epochs = random.Random(5), []
        for step in range(3):
            write_random(opened, draw)
            opened.flush().raise_for_errors()
            epochs.append(opened.common_epoch(*KEPT))
            if step == 1:
                opened.compact()
        yield opened, epochs


def as_told_apart(rows: pa.Table | None) -> Counter[str]:
    """Rows as a bag, NaN and -0.0 as the store tells them apart."""
    assert rows is not None
    plain = [
        [value + 0.0 if isinstance(value, float) else value for value in row.values()]
        for row in rows.to_pylist()
    ]
    return Counter(map(repr, plain))


@pytest.mark.parametrize("view", KEPT)
def test_old_rows_out_and_new_rows_in_make_one_moment_of_the_other(
    shop: tuple[Session, list[int]], view: str
) -> None:
    session, epochs = shop
    columns = KEPT[view]
    for first, last in itertools.combinations_with_replacement(epochs, 2):
        found = session.diff(view, first, last)
        before, after = (
            as_told_apart(session.sql(f"SELECT * FROM {view} FOR SYSTEM_TIME AS OF {epoch}"))
            for epoch in (first, last)
        )
        assert (found.from_epoch, found.to_epoch) == (first, last)
        assert (found.rows_before, found.rows_after) == (before.total(), after.total())
        assert found.unchanged + found.updated + found.deleted == before.total()
        assert found.rows.column_names == ["_op", *columns, *(f"_old_{name}" for name in columns)]
        operations = found.rows.column("_op")
        was = pc.not_equal(operations, "insert")
        old = found.rows.filter(was).select([f"_old_{name}" for name in columns])
        new = found.rows.filter(pc.not_equal(operations, "delete")).select(columns)
        assert before - as_told_apart(old) + as_told_apart(new) == after
        counts = Counter(operations.to_pylist())
        assert (found.inserted, found.deleted, found.updated) == tuple(
            counts[name] for name in ("insert", "delete", "update")
        )


@pytest.mark.parametrize("view", KEPT)
def test_the_log_and_the_snapshots_give_the_same_answer(shop: tuple[Session, list[int]], view: str) -> None:
    session, epochs = shop
    for first, last in itertools.combinations(epochs, 2):
        by_log, by_snapshots = (
            compare_moments(session.store, view, (first, last), by=by) for by in ("log", "snapshots")
        )
        assert by_log.changed_columns == by_snapshots.changed_columns
        assert by_log.rows.schema == by_snapshots.rows.schema
        assert repr(by_log.rows.to_pylist()) == repr(by_snapshots.rows.to_pylist())


def test_no_more_rows_are_held_than_were_asked_for(shop: tuple[Session, list[int]]) -> None:
    session, epochs = shop
    whole = session.diff("bid", epochs[0], limit=None)
    some, none = (session.diff("bid", epochs[0], limit=limit) for limit in (2, 0))
    assert whole.changed == whole.rows.num_rows > 2 and repr(some.rows.to_pylist()) == repr(
        whole.rows.to_pylist()[:2]
    )
    assert none.rows.num_rows == 0 and none.rows.schema == whole.rows.schema and none.changed == whole.changed
    again = pa.Table.from_batches(none.iterate())
    assert repr(again.to_pylist()) == repr(whole.rows.to_pylist())
    assert sum(whole.changed_columns.values()) >= whole.updated


@pytest.mark.parametrize("view", ["bid", "by_rate"])
def test_the_history_of_a_row_is_what_queries_of_the_past_say(
    shop: tuple[Session, list[int]], view: str
) -> None:
    session, epochs = shop
    newest = session.sql(f"SELECT * FROM {view}")
    assert newest is not None
    for row in newest.to_pylist():
        key = row[KEPT[view][0]]
        history = session.blame(view, [key])
        assert repr(history.row) == repr(row) and history.known_from is None and history.first is None
        assert history.changes[-1].operation == "insert" and history.changes[-1].old is None
        times = [change.epoch for change in history.changes]
        assert times == sorted(set(times), reverse=True)
        for newer, older in itertools.pairwise(history.changes):
            assert repr(newer.old) == repr(older.new)
        for epoch in epochs:
            at = next((change.new for change in history.changes if change.epoch <= epoch), None)
            past = session.sql(f"SELECT * FROM {view} FOR SYSTEM_TIME AS OF {epoch}")
            assert past is not None
            assert repr(at) in {repr(one) for one in past.to_pylist()} | {"None"}
            same = [one for one in past.to_pylist() if repr(one[KEPT[view][0]]) == repr(key)]
            assert len(same) == (at is not None)


def test_what_manifests_tell_of_a_change_is_told(shop: tuple[Session, list[int]]) -> None:
    session, _ = shop
    change = session.blame("total", []).changes[0]
    assert change.operation == "update" and change.cause == "write" and change.commit is not None
    assert (change.commit.writer, change.commit.domain) == ("total", "total")
    assert change.commit.epoch >= change.epoch and change.commit.barrier is not None
    assert change.commit.barrier.curr == change.epoch > change.commit.barrier.prev
    session.sql("INSERT INTO bid VALUES (88, 1, 'b', 1)")
    written = session.blame("bid", {"id": "88"}).changes[0].commit
    assert written is not None and written.writer is None and written.barrier is None


def test_a_row_that_is_gone_is_known_by_its_key_and_a_bags_by_its_columns(
    shop: tuple[Session, list[int]],
) -> None:
    session, _ = shop
    session.sql("INSERT INTO bid VALUES (77, 1, 'b', 1)")
    session.sql("DELETE FROM bid WHERE id = 77")
    history = session.blame("bid", 77)
    assert [change.operation for change in history.changes] == ["delete", "insert"] and history.row is None
    session.sql("INSERT INTO visit VALUES ('only', 1)")
    assert [change.new for change in session.blame("visit", {"who": "only"}).changes] == [
        {"who": "only", "n": 1}
    ]


@pytest.mark.parametrize(
    ("view", "moments", "message"),
    [
        ("bidd", (0, None), "there is no table or view bidd.*did you mean bid"),
        ("plain", (0, None), "plain is a view, and keeps no rows of its own"),
        ("bid", ("soon", None), "soon is no moment of the past.*write an epoch"),
        ("bid", ("2021-05-01", None), "table bid was not there yet at 2021-05-01.*it was created after"),
        ("bid", ("now()", "2999-01-01"), "lies in the future.*name no moment to read the newest"),
        ("bid", ("now()", 1 << 60), "of table bid lies in the future"),
    ],
)
def test_moments_that_are_none_are_refused_with_what_to_do(
    shop: tuple[Session, list[int]], view: str, moments: tuple[int | str, int | str | None], message: str
) -> None:
    session, _ = shop
    if view == "plain" and "plain" not in session.catalog.relations:
        session.sql("CREATE VIEW plain AS SELECT id FROM bid")
    with pytest.raises(SqlError, match=f"(?s){message}"):
        session.diff(view, *moments)


def test_the_earlier_moment_comes_first(shop: tuple[Session, list[int]]) -> None:
    session, epochs = shop
    with pytest.raises(SqlError, match=r"is later than .*\n.*name the earlier moment first"):
        session.diff("bid", epochs[1], epochs[0])
    with pytest.raises(SqlError, match="-1 is no number of rows"):
        session.diff("bid", epochs[0], limit=-1)


@pytest.mark.parametrize(
    ("view", "key", "message"),
    [
        ("bid", 999, "bid has no row with id = 999, and never had one"),
        ("none", 1, "none has no row with id = 1, and never had one"),
        ("bid", [1, 2], "the key of bid is id: 2 values were given"),
        ("bid", "x", "'x' is no value of column id of bid, which is bigint"),
        ("bid", 1.5, "1.5 is no value of column id of bid, which is bigint"),
        (
            "visit",
            {"who": "nobody"},
            "visit has no row with who = nobody.*one that is gone is found by its whole key",
        ),
    ],
)
def test_keys_that_name_no_row_are_refused_with_what_to_do(
    shop: tuple[Session, list[int]], view: str, key: Any, message: str
) -> None:
    with pytest.raises(SqlError, match=f"(?s){message}"):
        shop[0].blame(view, key)


def test_rows_are_seen_through_the_columns_of_today(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, b INT, _op STRING)")
    session.sql("INSERT INTO t VALUES (1, 1, 1, 'x'), (2, 2, 2, 'x')")
    before = session.store.version.epoch
    session.sql("UPDATE t SET a = 5 WHERE id = 1")
    session.sql("ALTER TABLE t DROP COLUMN a")
    session.sql("ALTER TABLE t RENAME COLUMN b TO c")
    session.sql("ALTER TABLE t ADD COLUMN d INT DEFAULT 7")
    session.sql("UPDATE t SET c = 9 WHERE id = 2")
    found = session.diff("t", before)
    assert (found.updated, found.unchanged) == (1, 1)
    assert found.changed_columns == {"id": 0, "c": 1, "_op": 0, "d": 0}
    row = found.rows.to_pylist()[0]
    assert (row["c"], row["_old_c"], row["d"], row["_old_d"], row["tideline__op"]) == (9, 2, 7, 7, "x")
    assert session.blame("t", 2).changes[0].columns == ("c",)
    session.sql("ALTER TABLE t RENAME TO u")
    assert all(change.commit is not None for change in session.blame("u", 2).changes)
    session.sql("DROP TABLE u")
    session.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, c INT)")
    session.sql("INSERT INTO u VALUES (2, 3)")
    assert [change.new for change in session.blame("u", 2).changes] == [{"id": 2, "c": 3}]


def test_a_key_may_be_a_time_or_a_document_as_people_write_them(session: Session) -> None:
    session.sql("CREATE TABLE t (at TIMESTAMP PRIMARY KEY, n INT)")
    session.sql("INSERT INTO t VALUES (TIMESTAMP '2026-01-01 00:00:00', 1)")
    assert (
        session.blame("t", "2026-01-01 00:00:00").row == session.blame("t", "2026-01-01T01:00:00+01:00").row
    )
    session.dialect = "postgres"
    session.sql("CREATE TABLE d (id BIGINT PRIMARY KEY, j JSONB)")
    session.sql("""INSERT INTO d VALUES (1, '{"a":1}'), (2, '{"b":1}')""")
    assert session.blame("d", {"j": '{"a" : 1}'}).row == {"id": 1, "j": '{"a": 1}'}
