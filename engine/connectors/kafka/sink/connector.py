"""The connector of sinks that write to a topic of Kafka."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import msgspec
import xxhash
from pyspark.sql import SparkSession

from engine.connectors.contract.connector import StatementProblem
from engine.connectors.kafka.client import KafkaClient
from engine.connectors.kafka.sink.encoding import explain_key_column
from engine.connectors.kafka.sink.positions import DeliveredPosition
from engine.connectors.kafka.sink.producer import SinkProducer
from engine.connectors.kafka.sink.settings import (
    CONNECTOR,
    SINK_OPTIONS,
    TopicSettings,
    parse_sink_settings,
    validate_sink_options,
)
from engine.connectors.kafka.sink.target import APP, KEY, KafkaSink
from engine.connectors.kafka.sink.topics import NoSuchTopic, find_topic, read_rules
from engine.connectors.sinks.contract import SinkConnector, SinkTarget, TargetContext
from engine.connectors.sinks.option_parsing import build_option_error
from engine.connectors.sinks.options import SinkOptions
from engine.errors import SinkError, SourceError
from engine.sql.catalog import Relation
from engine.sql.statements.ddl.sink_statements import CreateSink


class KafkaSinkConnector(SinkConnector):
    """Topics of Kafka: each epoch is one transaction, which counts once."""

    name = CONNECTOR
    options = SINK_OPTIONS
    title = "Of topics of Kafka"
    each_epoch = KafkaSink.each_epoch
    alone = True
    place = "topic"

    def resolve_options(self, statement: CreateSink) -> dict[str, str]:
        """Return the address of the topic, and what its messages look like."""
        options = statement.options
        if options.get("vnode_groups", "1") != "1":
            message = "readers of their own would write parts of an epoch"
            hint = "leave vnode_groups out: an epoch is one transaction"
            raise build_option_error(statement, "vnode_groups", message, hint)
        own = {name: value for name, value in options.items() if name in SINK_OPTIONS}
        if (wrong := validate_sink_options(own)) is not None:
            raise _build_error(statement, wrong)
        settings = parse_sink_settings(own)
        place = settings.connection
        return {
            **own,
            "connector": CONNECTOR,
            "url": f"kafka://{place.servers}/{place.topic}",
            "format": settings.format,
        }

    def prepare(
        self, store_url: str, relation: Relation, statement: CreateSink, spark: Callable[[], SparkSession]
    ) -> Relation:
        """Return the sink with its key and its name at the brokers, once these were asked whether they take the messages."""
        settings = parse_sink_settings(relation.options)
        app = _build_app(store_url, relation.name, settings.connection.topic)
        key = _choose_key(relation, statement, settings)
        if key:
            quoted = ", ".join(f"`{name.replace('`', '``')}`" for name in key)
            relation = msgspec.structs.replace(relation, options={**relation.options, KEY: quoted})
        try:
            problem = _find_problem(settings, relation.name, app, with_key=bool(key))
        except (SinkError, SourceError) as error:
            raise build_option_error(
                statement, "bootstrap_servers", str(error), "put this right, and create the sink again"
            ) from error
        if problem is not None:
            raise _build_error(statement, problem)
        return msgspec.structs.replace(relation, options={**relation.options, APP: app})

    def open_target(self, opening: TargetContext) -> KafkaSink:
        """Open the topic, which is connected to by the first delivery."""
        return KafkaSink(opening.store, opening.relation, opening.start)

    def close_target(self, target: SinkTarget) -> None:
        """End the producer."""
        assert isinstance(target, KafkaSink)
        target.close()


def _build_app(store_url: str, sink: str, topic: str) -> str:
    """Return the name of a sink at the brokers, in the characters that all of them take.

    With the topic in it, stores on several machines whose addresses are alike fence each other only where they write one topic.
    """
    return f"tideline/{xxhash.xxh64_hexdigest(store_url)}/{quote(sink, safe='')}/{topic}"


def _build_error(statement: CreateSink, problem: StatementProblem) -> Exception:
    where = problem.option if problem.option in statement.places else "connector"
    return build_option_error(statement, where, problem.message, problem.hint)


def _choose_key(relation: Relation, statement: CreateSink, settings: TopicSettings) -> tuple[str, ...]:
    """Return the columns of the messages' keys, none for messages without one; raises SqlError."""
    own = tuple(relation.primary_key)
    changes = SinkOptions.of(relation.options).upsert

    def refuse(option: str, message: str, hint: str) -> Exception:
        return _build_error(statement, StatementProblem(option, message, hint))

    if changes and settings.format == "json" and not settings.is_upsert:
        hint = (
            "envelope = 'upsert': by key, with a message without a value for a deletion; or format = 'debezium': each change "
            "with the row before it; or type = 'append-only' with force_append_only = 'true': deletions are left out"
        )
        message = "rows of the view change and go, which objects of JSON alone do not tell"
        raise refuse("format", message, hint)
    columns = {column.name: column for column in relation.columns}
    found = []
    for name in settings.key:
        near = [one for one in columns if one.lower() == name.lower()]
        match = name if name in columns else near[0] if len(near) == 1 else None
        if match is None:
            raise refuse("key", f"key names {name}, which is no column", f"columns are {', '.join(columns)}")
        if match in found:
            raise refuse("key", f"key names {name} twice", "name each column once")
        found.append(match)
    key = tuple(found) or own
    missing = [name for name in own if name not in key]
    if changes and missing:
        message = (
            f"key lacks {', '.join(missing)} of the view's key ({', '.join(own)}), so two rows could have one"
        )
        raise refuse("key", message, "name all columns of the view's key, or leave key out")
    if not key and (changes or settings.is_upsert):
        message = "the view has no key, by which a reader would find its rows"
        raise refuse(
            "key", message, f"write key = '{next(iter(columns))}' with the columns that tell rows apart"
        )
    if settings.key_format == "text" and len(key) != 1:
        option = "key" if settings.key else "key_format"
        message = f"a key that is a text is one column, and the key has {len(key)}"
        raise refuse(option, message, "write key_format = 'json', or a key of one column")
    for name in key:
        if (why := explain_key_column(columns[name])) is not None:
            raise refuse("key", f"{why}: it can't be in the key", f"CAST {name} to STRING in the view")
    return key


def _find_problem(settings: TopicSettings, sink: str, app: str, *, with_key: bool) -> StatementProblem | None:
    """Return the first reason why a topic cannot take the messages of a sink; raises SinkError, SourceError."""
    client = KafkaClient(settings.connection)
    name = settings.connection.topic
    try:
        topic = find_topic(client, rights=True)
    except NoSuchTopic as error:
        if not settings.creates:
            hint = f"create the topic, correct topic = '{name}', or add create_topic = 'true'"
            return StatementProblem("topic", str(error), hint)
    else:
        if not topic.may_write:
            who = settings.connection.security.username or "this client"
            message = f"{settings.connection.address} may not be written"
            return StatementProblem("topic", message, f"allow Write of the topic to {who}")
        if not with_key and read_rules(client).is_compacted:
            message = f"the topic {name} is compacted, and takes no messages without a key"
            hint = "write key = '…', or name a topic with cleanup.policy = delete"
            return StatementProblem("topic", message, hint)
        with SinkProducer(client, settings, sink, app) as producer:
            producer.read_position()
            producer.begin()  # asks for the rights to transactions and to the group; it is aborted
            producer.send_position(DeliveredPosition())
    return None
