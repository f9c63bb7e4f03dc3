"""What a delivery brings to a topic of a real broker: each epoch whole and once, whatever fails, is repeated or comes late."""

from __future__ import annotations

import gc
import importlib
import json
import random
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.connectors.kafka.broker import KafkaBroker
from engine.connectors.kafka.sink import producer
from engine.connectors.kafka.sink.producer import CommitUnsure, SinkProducer
from engine.connectors.sources import poll_all
from engine.errors import SinkError, SqlError
from engine.hummock import Commit, Hummock
from engine.session import Session
from tests.connectors.kafka.server import (
    PASSWORD,
    PASSWORD_VARIABLE,
    SECONDS,
    USER,
    Topic,
    make_topic,
    open_admin,
    start_broker,
)
from tests.connectors.kafka.sink.topics import Seen, check_epochs, read_committed
from tests.connectors.sinks.deliveries import deliver, find_error, put

pytestmark = pytest.mark.kafka


def create(session: Session, into: Topic, table: str = "t", **options: str) -> None:
    """Create the sink s without running it."""
    session.sql(f"CREATE SINK s FROM {table} WITH ({into.options(**options)})", build=False)


def make(session: Session, topic: Topic, **options: str) -> None:
    """Create the sink s of upserts, and deliver its first rows."""
    create(session, topic, envelope="upsert", **options)
    deliver(session)


def held(session: Session, table: str) -> list[tuple[Any, ...]]:
    session.store.refresh()
    rows = (row for batch in session.store.iter(table) for row in batch.to_pylist())
    told = (tuple(v for name, v in row.items() if not name.startswith("_")) for row in rows)
    return sorted(told, key=repr)


def fail_acknowledgements(patch: pytest.MonkeyPatch) -> None:
    commit = Hummock.commit

    def fail(store: Hummock, asked: Commit) -> Any:
        if asked.acks:
            raise OSError("the store is away")
        return commit(store, asked)

    patch.setattr(Hummock, "commit", fail)


def forget_position(topic: Topic, session: Session) -> None:
    """Remove what the brokers keep of the sink's position, as they do when it was not written for days."""
    app = session.catalog.get("s").options["app"]
    client = open_admin(topic.broker)
    client.delete_consumer_groups([app])[app].result(SECONDS)


@pytest.mark.parametrize("form", [{"envelope": "upsert"}, {"format": "debezium"}], ids=["upsert", "debezium"])
def test_what_a_sink_writes_a_table_reads_back(source: Session, form: dict[str, str]) -> None:
    topic = make_topic(3)
    create(source, topic, **form)
    source.sql(f"CREATE TABLE back (id BIGINT PRIMARY KEY, v STRING) WITH ({topic.options(**form)})")
    for changes in ({}, {1: "x", 2: None, 4: "d"}, {4: None, 2: "again"}, {n: f"v{n}" for n in range(50)}):
        put(source, changes)
        deliver(source)
        (report,) = poll_all(source.catalog, source.store)
        assert (report.error, report.dead_rows) == (None, 0)
        assert held(source, "back") == held(source, "t")


def test_rows_that_are_only_added_come_without_keys(lake: Session) -> None:
    topic = make_topic(2)
    lake.sql("CREATE TABLE log (v STRING, n INT) APPEND ONLY")
    create(lake, topic, "log")
    lake.sql(f"CREATE TABLE back (v STRING, n INT) WITH ({topic.options()})")
    lake.sql("INSERT INTO log VALUES ('a', 1), ('a', 1), (NULL, NULL)")
    deliver(lake)
    (report,) = poll_all(lake.catalog, lake.store)
    assert (report.rows, report.error) == (3, None)
    assert sorted(map(repr, held(lake, "back"))) == ["('a', 1)", "('a', 1)", "(None, None)"]
    assert {one.key for one in read_committed(topic)} == {None}


def test_a_key_of_other_columns_says_the_partition_as_java_does(lake: Session) -> None:
    topic = make_topic(7)
    lake.sql("CREATE TABLE log (v STRING, n INT) APPEND ONLY")
    create(lake, topic, "log", key="V", key_format="text")
    lake.sql("INSERT INTO log VALUES ('21', 1), ('foobar', 2), ('a-little-bit-long-string', 3)")
    deliver(lake)
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    found = {one.key: one.partition for one in read_committed(topic)}
    assert found == {key: (its & 0x7FFFFFFF) % 7 for key, its in hashes.items()}


def test_each_message_names_its_epoch_and_its_sink(source: Session, topic: Topic) -> None:
    make(source, topic)
    put(source, {1: "x", 9: "y"})
    deliver(source)
    seen = read_committed(topic)
    (row,) = source.sql("SHOW SINKS").to_pylist()
    assert row["to"] == f"kafka://{topic.broker.address}/{topic.name}"
    assert [one.epoch for one in seen[-2:]] == [row["epoch"]] * 2
    assert {one.headers["tideline.sink"] for one in seen} == {b"s"}
    assert len({one.headers["tideline.start"] for one in seen}) == 1
    source.sql("DROP SINK s")
    make(source, topic)
    assert len(read_committed(topic)) == len(seen) + 4


def test_first_rows_that_stop_in_the_middle_go_on_there(
    source: Session, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(source, {n: f"v{n}" for n in range(10)})
    create(source, topic, envelope="upsert", transaction_rows="3")
    commit, count = SinkProducer.commit, [0]

    def stop(producer: SinkProducer, position: Any) -> None:
        count[0] += 1
        if count[0] == 3:
            raise SinkError("stopped")
        commit(producer, position)

    with monkeypatch.context() as patch:
        patch.setattr(SinkProducer, "commit", stop)
        assert find_error(source) == "stopped"
    assert len(read_committed(topic)) == 6
    put(source, {1: "later"})
    deliver(source)
    assert check_epochs(read_committed(topic)) == dict(held(source, "t"))
    assert len(read_committed(topic)) == 11


def test_what_was_there_before_is_left_out_without_a_snapshot(source: Session, topic: Topic) -> None:
    make(source, topic, snapshot="false")
    put(source, {9: "new"})
    deliver(source)
    assert [one.key for one in read_committed(topic)] == [b'{"id":9}']


def test_a_transaction_that_is_aborted_is_never_seen(
    source: Session, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(source, topic)
    put(source, {1: "x", 2: None})
    with monkeypatch.context() as patch:

        def fail(producer: SinkProducer, position: Any) -> None:
            producer._producer.flush(SECONDS)  # so that the messages stand in the topic
            raise SinkError("before the commit")

        patch.setattr(SinkProducer, "commit", fail)
        assert find_error(source) == "before the commit"
    assert len(read_committed(topic)) == 3
    deliver(source)
    assert check_epochs(read_committed(topic)) == {1: "x", 3: "c"}


def test_a_commit_whose_answer_is_lost_counts_once(
    source: Session, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(source, topic)
    commit, committed = SinkProducer.commit, [True, False]

    def lose(producer: SinkProducer, position: Any) -> None:
        if committed.pop():
            commit(producer, position)
        raise CommitUnsure("the answer was lost")

    for number in range(2):
        put(source, {1: f"n{number}"})
        with monkeypatch.context() as patch:
            patch.setattr(SinkProducer, "commit", lose)
            assert find_error(source) == "the answer was lost"
        put(source, {2: f"n{number}"})
        deliver(source)
    assert check_epochs(read_committed(topic)) == {1: "n1", 2: "n1", 3: "c"}
    assert len(read_committed(topic)) == 7


def test_a_process_that_was_overtaken_is_fenced_and_told(
    source: Session, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(source, topic)
    put(source, {1: "x"})
    commit, waits = SinkProducer.commit, [True]

    def overtake(producer: SinkProducer, position: Any) -> None:
        if waits and waits.pop():
            producer._producer.flush(SECONDS)
            with Session(source.url) as other:
                deliver(other)
                put(other, {2: "y"})
                deliver(other)
        commit(producer, position)

    monkeypatch.setattr(SinkProducer, "commit", overtake)
    assert "another process delivers it, and has taken over" in find_error(source)
    put(source, {3: "z"})
    deliver(source)
    assert check_epochs(read_committed(topic)) == {1: "x", 2: "y", 3: "z"}
    assert len(read_committed(topic)) == 6


def test_two_processes_in_turns_bring_each_change_once(source: Session, topic: Topic) -> None:
    make(source, topic)
    with Session(source.url) as other:
        for number in range(6):
            put(source, {1: f"n{number}", 100 + number: "new"})
            deliver(other if number % 2 else source)
    assert check_epochs(read_committed(topic)) == dict(held(source, "t"))


def test_a_process_that_was_overtaken_before_it_writes_is_told_as_well(
    source: Session, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(source, topic)
    put(source, {1: "x"})
    kafka, send, waits = importlib.import_module("confluent_kafka"), SinkProducer.send, [True]

    def overtake(producer: SinkProducer, *message: Any) -> None:
        if waits and waits.pop():
            with Session(source.url) as other:
                deliver(other)
            producer._producer.produce(topic.name, b"late", b"late")
            with suppress(kafka.KafkaException):  # so that the producer knows it before the next message
                producer._producer.flush(SECONDS)
        send(producer, *message)

    monkeypatch.setattr(SinkProducer, "send", overtake)
    assert "another process delivers it, and has taken over" in find_error(source)
    deliver(source)
    assert check_epochs(read_committed(topic)) == {1: "x", 2: "b", 3: "c"}


@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside-others"])
def test_a_position_that_the_brokers_forget_is_found_in_the_topic(
    source: Session, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    topic = make_topic(2)
    make(source, topic)
    for lost in (True, False):  # a delivery that was not acknowledged, and none
        put(source, {1: f"{lost}", 7: "came"} if lost else {1: "more", 7: None})
        if lost:
            with monkeypatch.context() as patch:
                fail_acknowledgements(patch)
                assert "the store is away" in find_error(source)
            put(source, {2: "later"})
        if others:
            topic.write((b"k", b"{}"), partition=1)
        forget_position(topic, source)
        source.sinks._deliveries.clear()  # as another process
        deliver(source)
    rows = [one for one in read_committed(topic) if one.headers]
    assert check_epochs(rows) == dict(held(source, "t"))


def test_a_position_that_nothing_tells_any_more_asks_for_a_reset(source: Session, topic: Topic) -> None:
    make(source, topic)
    topic.write(*[(b"k", b"{}")] * 5)
    topic.remove_before(7)
    forget_position(topic, source)
    source.sinks._deliveries.clear()
    put(source, {1: "x"})
    said = find_error(source)
    assert "forgotten how far it is" in said and "RESET" in said
    source.sql("ALTER SINK s RESET")
    deliver(source)
    assert check_epochs(one for one in read_committed(topic) if one.headers) == dict(held(source, "t"))


def test_partitions_that_are_added_stop_keys_and_nothing_else(source: Session) -> None:
    keyed, plain = make_topic(), make_topic()
    make(source, keyed)
    source.sql("CREATE TABLE log (v STRING) APPEND ONLY")
    source.sql(f"CREATE SINK plain FROM log WITH ({plain.options()})")
    source.sql("INSERT INTO log VALUES ('a')")
    deliver(source)
    for topic in (keyed, plain):
        topic.add_partitions(3)
    source.sql("INSERT INTO log VALUES ('b')")
    put(source, {1: "x"})
    said = find_error(source)
    assert "has 3 partitions, and had 1" in said and "RESET" in said
    assert len(read_committed(plain)) == 2
    source.sql("ALTER SINK s RESET")
    deliver(source)
    start = max(int(one.headers["tideline.start"]) for one in read_committed(keyed))
    newest = [one for one in read_committed(keyed) if int(one.headers["tideline.start"]) == start]
    assert check_epochs(newest) == {1: "x", 2: "b", 3: "c"}


def test_partitions_that_are_added_are_seen_where_the_position_is_forgotten(
    source: Session, topic: Topic
) -> None:
    make(source, topic)
    topic.add_partitions(3)
    forget_position(topic, source)
    source.sinks._deliveries.clear()
    put(source, {1: "x"})
    assert "has 3 partitions, and had 1" in find_error(source)


def test_a_position_that_another_tool_has_written_over_is_found_in_the_topic(
    source: Session, topic: Topic
) -> None:
    make(source, topic)
    kafka, app = importlib.import_module("confluent_kafka"), source.catalog.get("s").options["app"]
    group = kafka.Consumer({"bootstrap.servers": topic.broker.address, "group.id": app, "log_level": 0})
    group.commit(offsets=[kafka.TopicPartition(topic.name, 0, 3, "by hand")], asynchronous=False)
    group.close()
    source.sinks._deliveries.clear()
    put(source, {1: "x"})
    deliver(source)
    assert check_epochs(read_committed(topic)) == {1: "x", 2: "b", 3: "c"}


def test_a_message_may_be_larger_than_what_waits_to_be_sent(
    source: Session, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "QUEUE_KIBIBYTES", 100)
    create(source, topic, envelope="upsert", transaction_seconds="5", compression="none")
    put(source, {4: "x" * 300_000, 5: "y" * 300_000})
    deliver(source)
    assert check_epochs(read_committed(topic)) == dict(held(source, "t"))


def test_sinks_of_two_stores_with_one_address_do_not_fence_each_other(tmp_path: Path) -> None:
    here, there = tmp_path / "store", tmp_path / "other machine"
    topics = make_topic(), make_topic()
    for topic in topics:
        with Session(here.as_uri()) as session:
            session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
            make(session, topic)
        if not there.exists():
            here.rename(there)
    with Session(there.as_uri()) as one, Session(here.as_uri()) as two:
        for number in range(3):
            for session in (one, two):
                put(session, {number: "new"})
                deliver(session)
    for topic in topics:
        assert check_epochs(read_committed(topic)) == dict.fromkeys(range(3), "new")


def test_a_sink_that_is_gone_or_begins_anew_leaves_no_connection(source: Session, topic: Topic) -> None:
    def list_threads() -> list[str]:
        names = (path.read_text() for path in Path("/proc/self/task").glob("*/comm"))
        return [name for name in names if name.startswith("rdk:")]

    gc.collect()
    gc.disable()
    try:
        before = len(list_threads())
        make(source, topic)
        open_ones = len(list_threads())
        assert open_ones > before
        for number in range(3):
            source.sql("ALTER SINK s RESET")
            put(source, {1: f"n{number}"})
            deliver(source)
            assert len(list_threads()) <= open_ones
        source.sql("DROP SINK s")
        deliver(source)
        assert len(list_threads()) <= before
        make(source, topic)
        source.sinks.close()
        assert len(list_threads()) <= before
    finally:
        gc.enable()


def test_names_of_sinks_and_columns_may_have_any_characters(lake: Session, topic: Topic) -> None:
    lake.sql(
        'CREATE TABLE t (`a.b"c` STRING, `ключ ``q` STRING, n BIGINT, PRIMARY KEY (`a.b"c`, `ключ ``q`))'
    )
    options = topic.options(envelope="upsert")
    lake.sql(f'CREATE SINK `Сток "x" \' y` FROM t WITH ({options})', build=False)
    lake.write("t", pa.table({'a.b"c': ["1"], "ключ `q": ["ä\n"], "n": [1]}))
    deliver(lake)
    (message,) = read_committed(topic)
    assert json.loads(message.key or b"") == {'a.b"c': "1", "ключ `q": "ä\n"}
    assert message.headers["tideline.sink"].decode() == 'сток "x" \' y'


def test_a_topic_that_is_gone_or_made_again_is_told(source: Session, topic: Topic) -> None:
    make(source, topic)
    topic.remove()
    put(source, {1: "x"})
    said = find_error(source)
    assert "no such topic any more" in said and "RESET" in said
    topic.make()
    said = find_error(source)
    assert "was deleted and made again" in said and "RESET" in said
    source.sql("ALTER SINK s RESET")
    deliver(source)
    assert check_epochs(read_committed(topic)) == {1: "x", 2: "b", 3: "c"}


def test_a_topic_is_made_where_that_is_asked_for(source: Session) -> None:
    topic = Topic(make_topic().broker, f"{make_topic().name}_new")
    make(source, topic, create_topic="true", topic_partitions="3")
    assert check_epochs(read_committed(topic)) == {1: "a", 2: "b", 3: "c"}
    admin = importlib.import_module("confluent_kafka.admin")
    client, resource = open_admin(topic.broker), admin.ConfigResource(admin.ResourceType.TOPIC, topic.name)
    found = client.describe_configs([resource])[resource].result(SECONDS)
    assert found["cleanup.policy"].value == "compact"
    assert len(client.list_topics(topic.name, timeout=SECONDS).topics[topic.name].partitions) == 3
    topic.remove()
    put(source, {1: "x"})
    assert "no such topic any more" in find_error(source)
    source.sql("ALTER SINK s RESET")
    deliver(source)
    assert check_epochs(read_committed(topic)) == {1: "x", 2: "b", 3: "c"}


def test_a_message_that_is_too_large_is_told_by_its_key(source: Session, topic: Topic) -> None:
    make(source, topic, max_message_bytes="2000")
    put(source, {7: "x" * 3000})
    said = find_error(source)
    assert '{"id":7}' in said and "max_message_bytes" in said and "2,000" in said
    put(source, {7: None})
    assert '{"id":7}' in find_error(source)  # its epoch is a part of the log: what waits is not netted
    source.sql("ALTER SINK s RESET")
    deliver(source)
    assert len(read_committed(topic)) == 6


def test_a_topic_that_takes_less_is_told(source: Session) -> None:
    topic = make_topic(1, **{"max.message.bytes": "1000"})
    make(source, topic, compression="none")
    put(source, {7: "x" * 3000})
    said = find_error(source)
    assert "max.message.bytes" in said and "RESET" not in said


def test_many_small_rows_go_to_a_topic_that_takes_small_batches(source: Session) -> None:
    topic = make_topic(1, **{"max.message.bytes": "2000"})
    make(source, topic, compression="none")
    put(source, {number: "x" * 30 for number in range(500)})
    deliver(source)
    assert check_epochs(read_committed(topic)) == dict(held(source, "t"))


def test_a_transaction_that_takes_too_long_is_told(
    source: Session, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(source, topic, transaction_seconds="1")
    put(source, {1: "x"})
    commit, paused = SinkProducer.commit, threading.Event()

    def wait(producer: SinkProducer, position: Any) -> None:
        producer._producer.flush(SECONDS)
        paused.wait(12)  # brokers look for such transactions every ten seconds
        commit(producer, position)

    with monkeypatch.context() as patch:
        patch.setattr(SinkProducer, "commit", wait)
        assert "larger transaction_seconds than 1" in find_error(source)
    deliver(source)
    assert check_epochs(read_committed(topic)) == {1: "x", 2: "b", 3: "c"}


def test_a_row_whose_key_is_null_is_told_where_the_key_is_a_text(lake: Session, topic: Topic) -> None:
    lake.sql("CREATE TABLE log (v STRING, n INT) APPEND ONLY")
    create(lake, topic, "log", key="v", key_format="text")
    lake.sql("INSERT INTO log VALUES (NULL, 1)")
    said = find_error(lake)
    assert "column v of the key is null" in said and "COALESCE" in said


def test_brokers_that_are_killed_and_come_back_leave_each_change_once(
    source: Session, tmp_path: Path
) -> None:
    found = start_broker(tmp_path / "broker")
    if isinstance(found, str):
        pytest.skip(found)
    broker: KafkaBroker = found
    try:
        topic = Topic(broker, "t")
        topic.make(2)
        make(source, topic)
        for number in range(3):
            put(source, {1: f"n{number}", 10 + number: "new"})
            delivering = threading.Thread(target=source.sinks.run, kwargs={"wait_seconds": 60})
            source.store.refresh()
            delivering.start()
            broker.kill()
            put(source, {2: f"n{number}", 9 + number: None})
            broker.start()
            delivering.join()
        for _ in range(5):  # an attempt may come while the broker ends the transaction of the one before
            source.store.refresh()
            states = [(report.error, report.lag_rows) for report in source.sinks.run(wait_seconds=120)]
            if states == [(None, 0)]:
                break
            source.sinks.wait(120)  # a run does not wait again for a delivery that took longer
        assert states == [(None, 0)]
        assert check_epochs(read_committed(topic)) == dict(held(source, "t"))
    finally:
        broker.kill()


def test_the_password_is_read_where_the_sink_runs_and_kept_nowhere(
    source: Session, topic: Topic, tmp_path: Path
) -> None:
    options = {
        "bootstrap_servers": topic.broker.get_address("SASL"),
        "security_protocol": "sasl_plaintext",
        "sasl_mechanism": "PLAIN",
        "username": USER,
        "password_variable": PASSWORD_VARIABLE,
    }
    make(source, topic, **options)
    assert len(read_committed(topic)) == 3
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("settings", "options", "words"),
    [
        ({}, {"topic": "no_such_topic"}, ("there is no such topic", "create_topic = 'true'")),
        ({}, {"transaction_seconds": "901"}, ("no number from 1 to 900",)),
        ({"cleanup.policy": "compact"}, {"table": "log"}, ("is compacted", "key = '…'")),
    ],
)
def test_a_sink_that_cannot_be_is_refused_with_nothing_made(
    source: Session, settings: dict[str, str], options: dict[str, str], words: tuple[str, ...]
) -> None:
    topic = make_topic(1, **settings)
    source.sql("CREATE TABLE log (v STRING) APPEND ONLY")
    given = dict(options)
    table = given.pop("table", "t")
    with pytest.raises(SqlError) as raised:
        create(source, topic, table, **({} if table == "log" else {"envelope": "upsert"}), **given)
    assert all(word in str(raised.value) for word in words), raised.value
    assert "s" not in source.catalog.relations


def test_two_sinks_do_not_write_one_topic(source: Session, topic: Topic) -> None:
    make(source, topic)
    with pytest.raises(SqlError, match="no two sinks write one topic there"):
        source.sql(f"CREATE SINK again FROM t WITH ({topic.options(envelope='upsert')})")


def test_a_view_of_one_row_is_one_key(source: Session, topic: Topic) -> None:
    source.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, max(v) AS m FROM t")
    with pytest.raises(SqlError, match="has no key"):
        create(source, topic, "n", envelope="upsert")
    create(source, topic, "n", envelope="upsert", key="n")
    deliver(source)
    put(source, {9: "z"})
    source.flush()
    deliver(source)
    told = [(one.key, one.value and json.loads(one.value)) for one in read_committed(topic)]
    assert told == [
        (b'{"n":3}', {"n": 3, "m": "c"}),
        (b'{"n":3}', None),
        (b'{"n":4}', {"n": 4, "m": "z"}),
    ]


def test_random_changes_are_there_after_each_delivery(source: Session) -> None:
    chance, topic = random.Random(7), make_topic(3)
    make(source, topic)
    rows: dict[int, str] = {1: "a", 2: "b", 3: "c"}
    for number in range(12):
        for part in range(chance.randrange(1, 4)):
            keys = chance.sample(range(30), chance.randrange(1, 9))
            changes = {key: None if chance.random() < 0.4 else f"v{number}_{part}" for key in keys}
            put(source, changes)
            rows = {key: value for key, value in {**rows, **changes}.items() if value is not None}
        deliver(source)
    seen: list[Seen] = read_committed(topic)
    assert check_epochs(seen) == rows
