"""The topic that a sink writes: looked at, made where that was asked for, and why it cannot take the messages."""

from __future__ import annotations

import importlib
import time
from typing import Any, NamedTuple

from engine.connectors.kafka.client import ANSWER_SECONDS, KafkaClient, load_kafka
from engine.connectors.kafka.sink.settings import TopicSettings
from engine.errors import SourceError

COMPACT = "compact"
LOOK_SECONDS = 0.05
_CLEANUP = "cleanup.policy"
_BATCH = "max.message.bytes"


class NoSuchTopic(SourceError):
    """The brokers have no topic of the name."""


class FoundTopic(NamedTuple):
    """A topic as a sink has to know it."""

    topic_id: str
    partitions: int
    may_write: bool


class TopicRules(NamedTuple):
    """Whether a topic keeps the last message of each key alone, and how large batches may be, None where it is not told."""

    is_compacted: bool | None = None
    batch_bytes: int | None = None


def find_topic(client: KafkaClient, *, rights: bool = False) -> FoundTopic:
    """Return the topic; raises NoSuchTopic, SourceError."""
    kafka = load_kafka()
    try:
        found = client.describe_topic(rights=rights)
    except SourceError as error:
        cause = getattr(error.__cause__, "args", [None])[0]
        code = getattr(cause, "code", lambda: None)()
        if code == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise NoSuchTopic(str(error)) from error
        raise
    operations = found.authorized_operations
    may_write = not operations or _list_operations().WRITE in operations
    return FoundTopic(str(found.topic_id), len(found.partitions), may_write)


def create_topic(client: KafkaClient, settings: TopicSettings, *, compact: bool) -> FoundTopic:
    """Create the topic, if no other process has by now, and return it; raises SourceError."""
    kafka, module = load_kafka(), importlib.import_module("confluent_kafka.admin")
    name = settings.connection.topic
    config = {_CLEANUP: COMPACT} if compact else {}
    if settings.max_message_bytes > 1_000_000:
        config["max.message.bytes"] = str(settings.max_message_bytes + 1_000)
    new = module.NewTopic(name, settings.partitions, settings.replication, config=config)
    asked = client.open_admin().create_topics([new], request_timeout=ANSWER_SECONDS)
    try:
        client.wait_for(asked[name], "create the topic")
    except SourceError as error:
        cause = getattr(error.__cause__, "args", [None])[0]
        if getattr(cause, "code", lambda: None)() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    return _await_topic(client)


def _await_topic(client: KafkaClient) -> FoundTopic:
    """Return a topic that was made; not each broker knows it at once."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return find_topic(client)
        except NoSuchTopic:
            if time.monotonic() > deadline:
                raise
            client.open_admin().poll(LOOK_SECONDS)


def read_rules(client: KafkaClient) -> TopicRules:
    """Return what the topic says of the messages that it takes; raises SourceError."""
    kafka, module = load_kafka(), importlib.import_module("confluent_kafka.admin")
    resource = module.ConfigResource(module.ResourceType.TOPIC, client.settings.topic)
    asked = client.open_admin().describe_configs([resource], request_timeout=ANSWER_SECONDS)
    try:
        found = client.wait_for(asked[resource], "read the topic's settings")
    except SourceError as error:
        cause = getattr(error.__cause__, "args", [None])[0]
        # the right to ask may be lacking, and not each broker knows at once a topic that was made
        untold = (kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, kafka.KafkaError.UNKNOWN_TOPIC_OR_PART)
        if getattr(cause, "code", lambda: None)() in untold:
            return TopicRules()
        raise
    policy, most = (found[name].value if name in found else None for name in (_CLEANUP, _BATCH))
    return TopicRules(None if policy is None else COMPACT in policy, int(most) if most else None)


def _list_operations() -> Any:
    return importlib.import_module("confluent_kafka.admin").AclOperation
