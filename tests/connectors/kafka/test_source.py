"""Tables follow topics of a real broker: what is committed there comes once, and what is lost is told."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.connectors.contract.connector import SourceReport
from engine.connectors.kafka import client, looks
from engine.connectors.kafka.broker import KafkaBroker, find_free_port
from engine.connectors.source_trial import try_source
from engine.connectors.sources import compute_pending_digest, open_source, poll_all
from engine.errors import SourceError, SqlError
from engine.session import Session
from tests.connectors.kafka.server import PASSWORD_VARIABLE, USER, Topic, make_topic, start_broker

pytestmark = pytest.mark.kafka
PAIR = "id BIGINT PRIMARY KEY, n BIGINT"
BAG = "id BIGINT, n BIGINT"


def create(session: Session, topic: Topic, columns: str = PAIR, clause: str = "", **more: str) -> None:
    session.sql(f"CREATE TABLE t ({columns}) {clause} WITH ({topic.options(**more)})")


def poll(session: Session) -> SourceReport:
    (report,) = poll_all(session.catalog, session.store)
    return report


def take(session: Session) -> SourceReport:
    """Poll, and expect that nothing stops it."""
    report = poll(session)
    assert report.error is None, report.error
    return report


def held(session: Session) -> list[tuple[Any, ...]]:
    session.store.refresh()
    rows = (row for batch in session.store.iter("t") for row in batch.to_pylist())
    return sorted(tuple(v for name, v in row.items() if not name.startswith("_")) for row in rows)


def letters(session: Session) -> list[tuple[Any, ...]]:
    found = session.sql("SELECT file, line, reason FROM _dead_letter ORDER BY file, line")
    return [tuple(row.values()) for row in found.to_pylist()]


def is_pending(session: Session) -> bool:
    session.store.refresh()
    return compute_pending_digest(session.catalog, session.store)[0] > 0


def test_objects_come_in_the_order_of_their_partition_and_once(lake: Session) -> None:
    topic = make_topic(2)
    create(lake, topic)
    topic.write_json({"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 1, "n": 3})
    topic.write_json({"id": 3, "n": 4}, partition=1)
    assert is_pending(lake)
    assert (take(lake).rows, held(lake)) == (4, [(1, 3), (2, 2), (3, 4)])
    assert not is_pending(lake) and take(lake).epoch is None
    topic.write_json({"id": 2, "n": None})
    take(lake)
    assert held(lake) == [(1, 3), (2, None), (3, 4)]


def test_a_view_follows(lake: Session, topic: Topic) -> None:
    create(lake, topic, BAG)
    lake.sql("CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n")
    topic.write_json({"id": 1, "n": 1}, {"id": 1, "n": 1}, {"id": 2, "n": 2})
    take(lake)
    lake.flush().raise_for_all()
    assert lake.sql("SELECT n, c FROM v ORDER BY n").to_pylist() == [{"n": 1, "c": 2}, {"n": 2, "c": 1}]


def test_aborted_transactions_are_never_seen_and_leave_nothing_pending(lake: Session, topic: Topic) -> None:
    create(lake, topic)
    topic.write_transaction([(None, json.dumps({"id": n, "n": n})) for n in range(5)])
    topic.write_transaction([(None, json.dumps({"id": n, "n": -1})) for n in range(9)], commit=False)
    assert take(lake).rows == 5
    assert held(lake) == [(n, n) for n in range(5)] and not is_pending(lake)
    topic.write_transaction([(None, "nonsense")], commit=False)
    assert take(lake).dead_rows == 0 and not is_pending(lake)


def test_bad_messages_are_set_aside_with_their_place(lake: Session, topic: Topic) -> None:
    create(lake, topic)
    topic.write(
        (None, "{"), (None, '{"id": "x"}'), (None, None), (None, '{"n": 1}'), (None, '{"id": 7, "n": 7}')
    )
    report = take(lake)
    assert (report.rows, report.dead_rows, held(lake)) == (1, 4, [(7, 7)])
    found = letters(lake)
    assert [(place, line) for place, line, _ in found] == [(f"{topic.name}[0]", at) for at in range(4)]
    assert 'column id: "x" is no BIGINT' in found[1][2] and "has no value" in found[2][2]


def test_tombstones_delete_and_keys_are_the_primary_key(lake: Session, topic: Topic) -> None:
    create(lake, topic, envelope="upsert")
    topic.write(("1", '{"n": 1}'), ("2", '{"id": 9, "n": 2}'), ('{"id": 3}', '{"n": 3}'), (None, '{"n": 4}'))
    assert (take(lake).dead_rows, held(lake)) == (1, [(1, 1), (2, 2), (3, 3)])
    topic.write(("1", None), ("2", '{"n": 5}'), ("4", None), ("x", None))
    assert (take(lake).dead_rows, held(lake)) == (1, [(2, 5), (3, 3)])


def test_changes_of_debezium_are_followed(lake: Session, topic: Topic) -> None:
    create(lake, topic, format="debezium")
    rows = [{"op": "c", "after": {"id": n, "n": n}} for n in range(3)]
    changes = [
        {"op": "d", "before": {"id": 0}},
        {"payload": {"op": "u", "after": {"id": 1, "n": 9}}, "schema": {}},
    ]
    topic.write(*((None, json.dumps(one)) for one in [*rows, *changes]), ("k", None))
    take(lake)
    assert held(lake) == [(1, 9), (2, 2)]


def test_an_append_only_table_takes_a_key_once(lake: Session, topic: Topic) -> None:
    create(lake, topic, PAIR, "APPEND ONLY")
    topic.write_json({"id": 1, "n": 1}, {"id": 1, "n": 2})
    take(lake)
    topic.write_json({"id": 1, "n": 3}, {"id": 2, "n": 4})
    take(lake)
    assert held(lake) == [(1, 1), (2, 4)] and [line for _, line, _ in letters(lake)] == [1, 2]


def test_columns_tell_of_messages_and_may_be_the_key(lake: Session) -> None:
    topic = make_topic(2)
    columns = "p INT, o BIGINT, k STRING, at TIMESTAMP, h JSONB, n BIGINT, PRIMARY KEY (p, o)"
    options = {"partition_column": "p", "offset_column": "o", "key_column": "k", "timestamp_column": "at"}
    create(lake, topic, columns, **options, headers_column="h")
    before = time.time()
    topic.write(("a", '{"n": 1, "p": 77}', 0, [("x", b"1")]), (None, '{"n": 2}', 1))
    take(lake)
    found = sorted(held(lake))
    assert [(p, o, k, h, n) for p, o, k, _, h, n in found] == [
        (0, 0, "a", '[{"key": "x", "value": "1"}]', 1),
        (1, 0, None, None, 2),
    ]
    assert all(abs(row[3].timestamp() - before) < 600 for row in found)


def test_one_poll_takes_a_bounded_number_and_tells_how_far_it_is_behind(lake: Session, topic: Topic) -> None:
    create(lake, topic, BAG, poll_messages="10")
    topic.write_json(*({"id": n, "n": n} for n in range(25)))
    assert take(lake).rows == 10 and is_pending(lake)
    (note,) = {
        row["note"] for row in lake.sql("SELECT note FROM _source_offsets WHERE split = '0'").to_pylist()
    }
    assert note == "partition 0 is 15 messages behind"
    assert [take(lake).rows for _ in range(3)] == [10, 5, 0] and not is_pending(lake)
    assert held(lake) == [(n, n) for n in range(25)]


def test_a_commit_takes_bounded_bytes(lake: Session, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "BATCH_BYTES", 3_000)
    create(lake, topic, "id BIGINT PRIMARY KEY, v STRING")
    topic.write_json(*({"id": n, "v": "x" * 1_000} for n in range(20)))
    take(lake)
    assert len(held(lake)) == 20 and len(lake.store.version.tables["t"].log) >= 5


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"startup_mode": "latest"}, [10]),
        ({"startup_mode": "offsets", "startup_offsets": "0:2"}, [2, 3, 10]),
        ({"startup_mode": "timestamp", "startup_timestamp": "2020-01-01 00:00:00+00:00"}, [0, 1, 2, 3, 10]),
        ({"startup_mode": "timestamp", "startup_timestamp": "2100-01-01 00:00:00+00:00"}, [10]),
        (
            {"startup_mode": "timestamp", "startup_timestamp": "1969-12-31 23:59:59.999+00:00"},
            [0, 1, 2, 3, 10],
        ),
    ],
)
def test_a_table_begins_where_it_is_told_to(
    lake: Session, topic: Topic, more: dict[str, str], expected: list[int]
) -> None:
    topic.write_json(*({"id": n, "n": n} for n in range(4)))
    create(lake, topic, **more)
    take(lake)
    topic.add_partitions(2)
    topic.write_json({"id": 10, "n": 10})
    topic.write_json({"id": 20, "n": 20}, partition=1)
    take(lake)
    assert [row[0] for row in held(lake)] == [*expected, 20], (
        "a partition that came later is read from its beginning"
    )


def test_offsets_that_are_not_there_are_told_before_anything_is_made(lake: Session, topic: Topic) -> None:
    with pytest.raises(SqlError, match="begins partition 0 at 5, but it holds offsets 0 to 0"):
        create(lake, topic, startup_mode="offsets", startup_offsets="0:5")
    with pytest.raises(SqlError, match="begins partition 3 at 0, but it is not there"):
        create(lake, topic, startup_mode="offsets", startup_offsets="3:0")


def test_a_topic_that_is_not_there_and_a_broker_that_is_away_are_told(lake: Session, topic: Topic) -> None:
    with pytest.raises(SqlError, match="there is no such topic: create it"):
        lake.sql(f"CREATE TABLE t ({PAIR}) WITH ({topic.options(topic='nowhere')})")
    with pytest.raises(SqlError, match="could not describe the topic"):
        create(lake, topic, bootstrap_servers=f"127.0.0.1:{find_free_port()}")
    assert "t" not in lake.catalog.relations


def test_what_retention_removed_is_told_and_resync_goes_on(lake: Session, topic: Topic) -> None:
    create(lake, topic)
    topic.write_json(*({"id": n, "n": n} for n in range(3)))
    take(lake)
    topic.write_json(*({"id": n, "n": n} for n in range(3, 8)))
    topic.remove_before(6)
    error = poll(lake).error or ""
    assert "offsets 3 to 5 (3 of them) are gone" in error and "ALTER TABLE t RESYNC" in error
    lake.sql("ALTER TABLE t RESYNC")
    assert held(lake) == [(6, 6), (7, 7)]
    topic.write_json({"id": 9, "n": 9})
    take(lake)
    assert held(lake) == [(6, 6), (7, 7), (9, 9)]


def test_a_table_may_go_on_behind_what_was_removed(lake: Session, topic: Topic) -> None:
    create(lake, topic, BAG, on_lost="earliest")
    topic.write_json({"id": 1, "n": 1})
    take(lake)
    topic.write_json(*({"id": n, "n": n} for n in range(2, 6)))
    topic.remove_before(4)
    report = take(lake)
    assert any("offsets 1 to 3 (3 of them) are gone" in warning for warning in report.warnings)
    assert held(lake) == [(1, 1), (5, 5)]
    assert letters(lake)[0][:2] == (f"{topic.name}[0]", 1)


def test_a_topic_that_was_made_again_is_told(lake: Session, topic: Topic) -> None:
    create(lake, topic)
    topic.write_json({"id": 1, "n": 1}, {"id": 2, "n": 2})
    take(lake)
    topic.remove()
    assert "there is no such topic" in (poll(lake).error or "")
    topic.make()
    topic.write_json({"id": 3, "n": 3})
    assert "was deleted and made again" in (poll(lake).error or "")
    lake.sql("ALTER TABLE t RESYNC")
    assert held(lake) == [(3, 3)] and poll(lake).error is None


def test_a_table_may_go_on_with_a_topic_that_was_made_again(lake: Session, topic: Topic) -> None:
    create(lake, topic, BAG, on_lost="earliest")
    topic.write_json({"id": 1, "n": 1}, {"id": 2, "n": 2})
    take(lake)
    topic.remove()
    topic.make()
    topic.write_json({"id": 3, "n": 3})
    assert any("made again" in warning for warning in take(lake).warnings)
    assert held(lake) == [(1, 1), (2, 2), (3, 3)]


class _Behind:
    """Looks at a topic for one poll as it was before another process has seen more of it, and has taken that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
        self._look, self._change, self._patch = client.KafkaClient.look_at_topic, change, monkeypatch
        monkeypatch.setattr(client.KafkaClient, "look_at_topic", lambda one: self.look(one))

    def look(self, one: client.KafkaClient) -> client.TopicState:
        found = self._look(one)
        self._patch.setattr(client.KafkaClient, "look_at_topic", self._look)
        self._change()
        return found


@pytest.mark.parametrize("on_lost", ["fail", "earliest"])
@pytest.mark.parametrize("again", [False, True])
def test_what_another_process_took_meanwhile_is_no_loss(
    lake: Session, topic: Topic, monkeypatch: pytest.MonkeyPatch, on_lost: str, again: bool
) -> None:
    create(lake, topic, BAG, on_lost=on_lost)
    topic.write_json({"id": 1, "n": 1})
    take(lake)
    rows = [(1, 1), (2, 2), (3, 3)]

    def go_on() -> None:
        if again and on_lost == "earliest":
            topic.remove()
            topic.make()
        topic.write_json(*({"id": n, "n": n} for n, _ in rows[1:]))
        with Session(lake.url) as other:
            take(other)

    _Behind(monkeypatch, go_on)
    assert take(lake).rows == 0
    take(lake)
    assert held(lake) == rows
    assert len(letters(lake)) == (1 if again and on_lost == "earliest" else 0)


def test_a_time_that_messages_reach_during_the_first_poll_begins_with_them(
    lake: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(**{"retention.ms": "-1"})
    old = ('{"id": 1, "n": 1}', 0, None, 1)
    topic.write((None, *old))
    create(lake, topic, BAG, startup_mode="timestamp", startup_timestamp="2001-01-01 00:00:00+00:00")
    _Behind(monkeypatch, lambda: topic.write((None, *old), (None, '{"id": 3, "n": 0}')))
    take(lake)
    take(lake)
    assert held(lake) == [(3, 0)]


def test_resync_of_a_bag_takes_the_rows_of_the_topic(lake: Session, topic: Topic) -> None:
    create(lake, topic, BAG)
    topic.write_json({"id": 1, "n": 1}, {"id": 1, "n": 1}, {"id": 2, "n": 2})
    take(lake)
    topic.remove_before(1)
    lake.sql("ALTER TABLE t RESYNC")
    assert held(lake) == [(1, 1), (2, 2)]


def test_a_user_with_a_password_connects(
    lake: Session, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure = {
        "bootstrap_servers": topic.broker.get_address("SASL"),
        "security_protocol": "sasl_plaintext",
        "sasl_mechanism": "PLAIN",
        "username": USER,
        "password_variable": PASSWORD_VARIABLE,
    }
    create(lake, topic, **secure)
    topic.write_json({"id": 1, "n": 1})
    take(lake)
    assert held(lake) == [(1, 1)]
    monkeypatch.setenv("TIDELINE_TESTS_WRONG", "wrong")
    with pytest.raises(SqlError, match="uthentication") as raised:
        lake.sql(
            f"CREATE TABLE u ({PAIR}) WITH ({topic.options(**{**secure, 'password_variable': 'TIDELINE_TESTS_WRONG'})})"
        )
    assert "'wrong'" not in str(raised.value)


def test_the_trial_says_what_works(lake: Session, topic: Topic) -> None:
    create(lake, topic)
    topic.write_json({"id": 1, "n": 1}, {"id": 2, "n": 2})
    relation = lake.catalog.get("t")
    words = [one.words for one in try_source(lake.store, relation, lake.open_spark)]
    assert "answers" in words[0] and "about 2 messages" in words[1] and "begins where" in words[2]
    take(lake)
    topic.write_json({"id": 3, "n": 3})
    assert try_source(lake.store, relation, lake.open_spark)[-1].words.endswith("1 messages behind")
    topic.remove_before(3)
    last = try_source(lake.store, relation, lake.open_spark)[-1]
    assert not last.works and "stands at offset 2, but holds 3 to 3" in last.words


@pytest.mark.long
def test_a_broker_that_is_away_is_told_others_go_on_and_it_is_resumed(lake: Session, tmp_path: Path) -> None:
    broker = start_broker(tmp_path / "broker")
    assert isinstance(broker, KafkaBroker)
    try:
        topic = Topic(broker, "away")
        topic.make()
        create(lake, topic)
        topic.write_json({"id": 1, "n": 1})
        take(lake)
        (tmp_path / "in").mkdir()
        lake.sql(f"CREATE TABLE other ({PAIR}) WITH (connector = 'landing', path = '{tmp_path / 'in'}')")
        broker.kill()
        (tmp_path / "in" / "a.csv").write_text("id,n\n1,1\n")
        by_name = {report.table: report for report in poll_all(lake.catalog, lake.store)}
        assert "could not describe the topic" in (by_name["t"].error or "") and by_name["other"].rows == 1
        (row,) = lake.sql("SELECT error FROM _source_offsets WHERE split = ''").to_pylist()
        assert "could not describe the topic" in row["error"]
        relation = lake.catalog.get("t")
        first = open_source(lake.store, relation).list_pending()
        assert first == open_source(lake.store, relation).list_pending(), (
            "it is asked again after a while only"
        )
        broker.start()
        topic.write_json({"id": 2, "n": 2})
        looks.get_client(lake.store, open_source(lake.store, relation).settings)
        deadline = time.monotonic() + 60
        while len(held(lake)) < 2:
            poll_all(lake.catalog, lake.store)
            assert time.monotonic() < deadline, "it is not resumed"
        (row,) = lake.sql("SELECT error FROM _source_offsets WHERE split = ''").to_pylist()
        assert row["error"] == ""
    finally:
        broker.kill()


def test_rows_of_an_append_only_table_are_not_synchronised_again(lake: Session, topic: Topic) -> None:
    create(lake, topic, BAG, "APPEND ONLY")
    with pytest.raises(SourceError, match="is APPEND ONLY: its rows do not come again"):
        lake.sql("ALTER TABLE t RESYNC")
