"""A transactional producer: messages and the position of a sink in one transaction, and what its errors mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, TypeVar

from engine.connectors.kafka.client import ANSWER_SECONDS, KafkaClient, load_kafka
from engine.connectors.kafka.sink.positions import DeliveredPosition, decode_delivered, encode_delivered
from engine.connectors.kafka.sink.settings import TopicSettings
from engine.errors import SinkError, SourceError

INIT_SECONDS = 60.0
"""For so long the end of an earlier producer's transaction is waited for."""
COMMIT_SECONDS = 60.0
RETRY_MS = 10
"""Brokers say at once that the transaction before is not quite over: asked again so soon, an epoch takes 10 ms, and not 100."""
QUEUE_KIBIBYTES = 64 << 10
BATCH_BYTES = 1_000_000
Answer = TypeVar("Answer")


class ProducerFenced(SinkError):
    """Another producer has the sink's transactional id by now, or the brokers have ended the transaction."""


class MessageTooLarge(SinkError):
    """A message is larger than the sink, or the topic, takes."""


class CommitUnsure(SinkError):
    """Whether a transaction was committed is not known: it is there as a whole or not at all."""


class SinkProducer:
    """The producer of one sink, which ends an earlier one of it; `app` names both its transactions and its group.

    Messages are sent in batches of `batch_bytes` at most, as the topic takes them; one that is larger goes alone.
    """

    def __init__(
        self,
        client: KafkaClient,
        settings: TopicSettings,
        sink: str,
        app: str,
        batch_bytes: int | None = None,
    ) -> None:
        self.client, self.settings, self.sink, self._app = client, settings, sink, app
        self._kafka = load_kafka()
        self._began = 0.0
        self._is_open = False
        milliseconds = settings.transaction_seconds * 1000
        config = client.build_config() | {
            "transactional.id": app,
            "transaction.timeout.ms": milliseconds,
            "message.timeout.ms": milliseconds,
            "partitioner": "murmur2_random",
            "compression.type": settings.compression,
            "message.max.bytes": settings.max_message_bytes,
            "batch.size": min(BATCH_BYTES, batch_bytes or BATCH_BYTES),
            "linger.ms": 5,
            "retry.backoff.ms": RETRY_MS,
            "queue.buffering.max.kbytes": QUEUE_KIBIBYTES + settings.max_message_bytes // 1024,
            "queue.buffering.max.messages": 200_000,
        }
        of_group = client.build_config() | {
            "group.id": app,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",  # a position of a transaction that ends is waited for
            "retry.backoff.ms": RETRY_MS,
        }
        try:
            self._producer = self._kafka.Producer(config)
            self._consumer = self._kafka.Consumer(of_group)
        except self._kafka.KafkaException as error:
            raise self._build_error("be set up", error.args[0]) from error
        self._group = self._consumer.consumer_group_metadata()
        client.forget_errors()
        self._call("begin to write", lambda: self._producer.init_transactions(INIT_SECONDS))

    def __enter__(self) -> SinkProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connections; what was not committed is aborted."""
        if self._is_open:
            self.abort()
        self._consumer.close()
        self._producer.purge()
        self._serve(0)

    def read_position(self) -> DeliveredPosition:
        """Return where the sink is by the brokers, which is the beginning where they have no position; raises SinkError."""
        at = self._kafka.TopicPartition(self.settings.connection.topic, 0)
        (found,) = self._call(
            "read the sink's position", lambda: self._consumer.committed([at], timeout=INIT_SECONDS)
        )
        if found.error is not None:
            raise self._build_error("read the sink's position", found.error)
        return decode_delivered(found.metadata if found.offset >= 0 else None)

    def begin(self) -> None:
        """Begin a transaction."""
        self._call("begin a transaction", self._producer.begin_transaction)
        self._is_open, self._began = True, time.monotonic()

    def send(
        self, messages: Iterable[tuple[bytes | None, bytes | None]], headers: list[tuple[str, bytes]]
    ) -> None:
        """Hand over messages of the transaction, each a key and a value; raises MessageTooLarge, SinkError."""
        topic, produce = self.settings.connection.topic, self._producer.produce
        for key, value in messages:
            try:
                produce(topic, value, key, headers=headers)
            except (BufferError, self._kafka.KafkaException):
                self._send_patiently(key, value, headers)

    def _send_patiently(
        self, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
    ) -> None:
        """Hand over a message that was not taken, once there is room; raises MessageTooLarge, SinkError."""
        topic = self.settings.connection.topic
        while True:
            try:
                self._producer.produce(topic, value, key, headers=headers)
                return
            except BufferError:
                self._serve(0.1)
                if time.monotonic() - self._began > self.settings.transaction_seconds + COMMIT_SECONDS:
                    raise self._build_error("write messages", "the brokers do not take them") from None
            except self._kafka.KafkaException as error:
                code = error.args[0].code()
                if code == self._kafka.KafkaError.MSG_SIZE_TOO_LARGE:
                    raise self._build_too_large(key, value) from error
                raise self._build_error("write a message", error.args[0]) from error

    def commit(self, position: DeliveredPosition) -> None:
        """Commit the transaction with the position; raises ProducerFenced, CommitUnsure, SinkError."""
        self.send_position(position)
        try:
            self._call("commit", lambda: self._producer.commit_transaction(COMMIT_SECONDS))
        except ProducerFenced:
            raise
        except SinkError as error:
            cause = getattr(error.__cause__, "args", [None])[0]
            if getattr(cause, "txn_requires_abort", lambda: False)():
                raise
            self._is_open = False
            raise CommitUnsure(
                f"{error}; whether it was committed the next attempt finds out by the sink's position"
            ) from error
        self._is_open = False

    def send_position(self, position: DeliveredPosition) -> None:
        """Make the position a part of the transaction; its offset is the epoch, which is behind the end of any partition."""
        topic = self.settings.connection.topic
        at = self._kafka.TopicPartition(topic, 0, position.epoch, encode_delivered(position))
        self._call(
            "write the sink's position",
            lambda: self._producer.send_offsets_to_transaction([at], self._group, ANSWER_SECONDS),
        )

    def abort(self) -> None:
        """Abort the transaction; what cannot be is aborted by the brokers, or by the next producer of the sink."""
        self._is_open = False
        try:
            self._producer.purge()
            self._producer.abort_transaction(ANSWER_SECONDS)
        except self._kafka.KafkaException:
            return

    def _serve(self, seconds: float) -> None:
        """Let come in what the connections have to say; an error that ends the producer is told by the next request as well."""
        try:
            self._producer.poll(seconds)
        except self._kafka.KafkaException:
            return

    def _find_cause(self, error: Any) -> Any:
        """Return why a producer is at its end, where a request tells only that it is."""
        if getattr(error, "code", lambda: None)() != self._kafka.KafkaError._FATAL:
            return error
        try:
            self._producer.abort_transaction(ANSWER_SECONDS)
        except self._kafka.KafkaException as cause:
            return cause.args[0]
        return error

    def _call(self, doing: str, ask: Callable[[], Answer]) -> Answer:
        """Return the answer to a request, which is repeated while that may help; raises SinkError."""
        ends = time.monotonic() + COMMIT_SECONDS
        while True:
            try:
                return ask()
            except self._kafka.KafkaException as error:
                its = error.args[0]
                self._serve(0)
                if not its.retriable() or time.monotonic() > ends:
                    raise self._build_error(doing, its) from error

    def _build_too_large(self, key: bytes | None, value: bytes | None) -> MessageTooLarge:
        size, shown = len(key or b"") + len(value or b""), (key or b"")[:200].decode(errors="replace")
        return MessageTooLarge(
            f"sink {self.sink}: the message of the key {shown or '(none)'} has {size:,} bytes, and the sink writes "
            f"{self.settings.max_message_bytes:,} at most: make the row smaller in the view, or create the sink with "
            f"max_message_bytes = '{size + 10_000}', and let the topic take that (max.message.bytes)"
        )

    def _build_error(self, doing: str, error: Any) -> SinkError:
        """Return the error of a request."""
        error = self._find_cause(error)
        kinds, code = self._kafka.KafkaError, getattr(error, "code", lambda: None)()
        connection, sink = self.settings.connection, self.sink
        who = connection.security.username or "this client"
        if code in (kinds._FENCED, kinds.INVALID_PRODUCER_EPOCH, kinds.PRODUCER_FENCED):
            took = time.monotonic() - self._began if self._is_open else 0.0
            if took >= self.settings.transaction_seconds:
                return ProducerFenced(
                    f"sink {sink}: the brokers have ended a transaction that took {took:.0f} seconds: create the sink with a "
                    f"larger transaction_seconds than {self.settings.transaction_seconds}"
                )
            return ProducerFenced(
                f"sink {sink}: another process delivers it, and has taken over: this one has written nothing more, and tries "
                "again later; let one process deliver a sink"
            )
        told = {
            kinds.MSG_SIZE_TOO_LARGE: f"{connection.address} does not take a message of this size: raise max.message.bytes of "
            f"the topic, which has to take max_message_bytes ({self.settings.max_message_bytes}) of the sink",
            kinds.RECORD_LIST_TOO_LARGE: f"{connection.address} does not take a batch of this size: raise segment.bytes",
            kinds.INVALID_TRANSACTION_TIMEOUT: f"the brokers do not allow transaction_seconds = "
            f"{self.settings.transaction_seconds}: make it smaller, or raise transaction.max.timeout.ms there",
            kinds.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"it may not write transactions: allow Write and Describe of the "
            f"transactional id {self._app} to {who}",
            kinds.GROUP_AUTHORIZATION_FAILED: f"it may not keep its position: allow Read of the group {self._app} to {who}",
            kinds.TOPIC_AUTHORIZATION_FAILED: f"it may not write: allow Write and Describe of the topic {connection.topic} to "
            f"{who}",
            kinds.CLUSTER_AUTHORIZATION_FAILED: f"it may not write: allow IdempotentWrite of the cluster to {who}",
            kinds.INVALID_RECORD: f"{connection.address} refuses a message: a compacted topic takes none without a key",
        }.get(code)
        if told is not None:
            return (
                MessageTooLarge(f"sink {sink}: {told}")
                if code == kinds.MSG_SIZE_TOO_LARGE
                else SinkError(f"sink {sink}: {told}")
            )
        found: SourceError = self.client.build_error(doing, error)
        return SinkError(f"sink {sink}: {found}")
