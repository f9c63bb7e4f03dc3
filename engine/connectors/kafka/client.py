"""What is asked of the brokers: which partitions a topic has, how far they go, and their messages; confluent-kafka does it."""

from __future__ import annotations

import importlib
import logging
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

from engine.connectors.kafka.settings import KafkaSettings
from engine.connectors.named_secrets import NamedSecret
from engine.errors import SourceError

ANSWER_SECONDS = 10.0
"""For so long an answer is waited for: about a topic, and then about its offsets."""
SILENT_SECONDS = 30.0
"""For so long messages that are there are waited for."""
BATCH_MESSAGES = 50_000
BATCH_BYTES = 64 << 20
"""A commit takes messages up to so many, or so many bytes of them."""
QUEUE_KIBIBYTES = 32 << 10
QUEUE_MESSAGES = 20_000
"""So much is fetched ahead of what is taken; each message takes some hundred bytes besides its own."""
REFILL_MS = 5
"""So soon it is looked again whether more may be fetched ahead; the library's own second lets each commit wait for it."""
FIRST_MESSAGES = 100
"""So many are taken at once before it is known how large they are."""
INSTALL = "the connector kafka needs confluent-kafka: pip install 'tideline[kafka]'"
_LOG = logging.getLogger(__name__)
_LOG_LEVEL = 2  # of syslog: what librdkafka has to say reaches the errors of this module
_WAIT = 0.25
_ELECTING = (
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "FENCED_LEADER_EPOCH",
    "OFFSET_NOT_AVAILABLE",
)
"""What brokers answer about a partition that gets its leader just now, as one does that was made a moment ago."""


class OffsetSpan(NamedTuple):
    """What a partition holds: from its first offset up to where messages of ended transactions end."""

    begin: int
    end: int


@dataclass(frozen=True)
class TopicState:
    """A topic as the brokers tell of it."""

    topic_id: str
    partitions: Mapping[int, OffsetSpan]


class MessagesGone(SourceError):
    """The broker has removed messages that are asked for."""


@dataclass
class MessageBatch:
    """Messages of a partition in their order, and the offset behind them; what is between was aborted, or is no message."""

    partition: int
    messages: list[Any]
    next: int
    size: int = 0


def load_kafka() -> Any:
    """Return the module confluent_kafka; raises SourceError with what to install where it is missing."""
    try:
        return importlib.import_module("confluent_kafka")
    except ImportError as error:
        raise SourceError(INSTALL) from error


@dataclass
class KafkaClient:
    """Asks about one topic, over connections that stay open; threads may share it."""

    settings: KafkaSettings
    _words: list[str] = field(default_factory=list)
    _admin: Any = None

    def look_at_topic(self) -> TopicState:
        """Return the topic with its partitions; raises SourceError if the brokers do not answer, or have no such topic."""
        found = self.describe_topic()
        numbers = [one.id for one in found.partitions]
        module = importlib.import_module("confluent_kafka.admin")
        begins = self._list_offsets(numbers, module.OffsetSpec.earliest())
        ends = self._list_offsets(numbers, module.OffsetSpec.latest())
        spans = {
            number: OffsetSpan(begins[number], max(ends[number], begins[number]))
            for number in sorted(numbers)
        }
        return TopicState(str(found.topic_id), spans)

    def list_topics(self) -> list[str]:
        """Return the topics that this client may describe, but for the brokers' own; raises SourceError without an answer."""
        try:
            found = self.open_admin().list_topics(timeout=ANSWER_SECONDS).topics
        except load_kafka().KafkaException as error:
            self._open_admin_events()
            raise self.build_error("list topics", error.args[0]) from error
        return sorted(
            name for name, topic in found.items() if topic.error is None and not name.startswith("__")
        )

    def describe_topic(self, *, rights: bool = False) -> Any:
        """Return the topic as the library describes it, with what this client may do if `rights`; raises SourceError."""
        admin = self.open_admin()
        asked = admin.describe_topics(
            load_kafka().TopicCollection([self.settings.topic]),
            include_authorized_operations=rights,
            request_timeout=ANSWER_SECONDS,
        )
        return self.wait_for(asked[self.settings.topic], "describe the topic")

    def list_bounds(self, partitions: Sequence[int]) -> dict[int, OffsetSpan]:
        """Return where partitions begin and end, with what belongs to transactions that are open; raises SourceError."""
        module = importlib.import_module("confluent_kafka.admin")
        begins = self._list_offsets(partitions, module.OffsetSpec.earliest(), committed=False)
        ends = self._list_offsets(partitions, module.OffsetSpec.latest(), committed=False)
        return {number: OffsetSpan(begins[number], ends[number]) for number in partitions}

    def list_ends(self, partitions: Sequence[int]) -> dict[int, int]:
        """Return where partitions end, with what belongs to transactions that are open; raises SourceError."""
        module = importlib.import_module("confluent_kafka.admin")
        return self._list_offsets(partitions, module.OffsetSpec.latest(), committed=False)

    def find_offsets_at(self, partitions: Sequence[int], milliseconds: int) -> dict[int, int]:
        """Return the first offsets from a time on; partitions without such a message are left out."""
        module = importlib.import_module("confluent_kafka.admin")
        at = max(milliseconds, 0)  # brokers take -1 for the end, and -2 for the beginning
        found = self._list_offsets(partitions, module.OffsetSpec.for_timestamp(at))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def open_reader(self) -> KafkaReader:
        """Return what reads messages."""
        return KafkaReader(self)

    def build_config(self) -> dict[str, Any]:
        """Return the settings as librdkafka has them; raises SourceError for a secret that is not set."""
        settings, security = self.settings, self.settings.security
        config: dict[str, Any] = {
            "bootstrap.servers": settings.servers,
            "client.id": "tideline",
            "security.protocol": security.protocol,
            "socket.connection.setup.timeout.ms": int(ANSWER_SECONDS * 1000),
            "reconnect.backoff.max.ms": 2_000,
            "log_level": _LOG_LEVEL,
            "logger": _LOG,
            "error_cb": _note_errors_of(weakref.ref(self)),
        }
        if security.mechanism:
            config["sasl.mechanisms"] = security.mechanism
            config["sasl.username"] = security.username
            config["sasl.password"] = NamedSecret(security.password_variable, "password_variable").read()
        if security.ca_file:
            config["ssl.ca.location"] = security.ca_file
        if security.key_file:
            config["ssl.certificate.location"] = security.certificate_file
            config["ssl.key.location"] = security.key_file
        if security.key_password_variable:
            secret = NamedSecret(security.key_password_variable, "ssl_key_password_variable").read()
            config["ssl.key.password"] = secret
        return config

    def build_error(self, doing: str, error: object) -> SourceError:
        """Return the error of a request, with what the connections had to say."""
        code, said = getattr(error, "code", lambda: None)(), getattr(error, "str", lambda: str(error))()
        kafka = load_kafka()
        topic = self.settings.topic
        if code == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            return SourceError(
                f"{self.settings.address}: there is no such topic: create it, or correct topic = '{topic}'"
            )
        if code == kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return SourceError(
                f"{self.settings.address}: it may not be read or described: allow Read and Describe of the topic to "
                f"{self.settings.security.username or 'this client'}"
            )
        words = "; ".join(dict.fromkeys(self._words[-3:]))
        why = f" ({words})" if words else ""
        return SourceError(f"{self.settings.address}: it could not {doing}: {said}{why}")

    def forget_errors(self) -> None:
        """Forget what connections had to say: what follows is another request."""
        self._words.clear()

    def open_admin(self) -> Any:
        """Return what administers topics and groups; raises SourceError."""
        if self._admin is None:
            load_kafka()
            module = importlib.import_module("confluent_kafka.admin")
            try:
                self._admin = module.AdminClient(self.build_config())
            except load_kafka().KafkaException as error:
                raise self.build_error("be set up", error.args[0]) from error
        self.forget_errors()
        return self._admin

    def _note_error(self, error: Any) -> None:
        words = error.str()
        is_said = error.code() == load_kafka().KafkaError._ALL_BROKERS_DOWN  # by the errors of each
        if words and not is_said and words not in self._words:
            self._words.append(words)

    def _list_offsets(
        self, partitions: Sequence[int], spec: Any, *, committed: bool = True
    ) -> dict[int, int]:
        kafka = load_kafka()
        level = kafka.IsolationLevel.READ_COMMITTED if committed else kafka.IsolationLevel.READ_UNCOMMITTED
        asked = {kafka.TopicPartition(self.settings.topic, number): spec for number in partitions}
        electing = {getattr(kafka.KafkaError, name) for name in _ELECTING}
        ends = time.monotonic() + ANSWER_SECONDS
        found: dict[int, int] = {}
        while asked:
            answers = self.open_admin().list_offsets(
                asked, isolation_level=level, request_timeout=ANSWER_SECONDS
            )
            for at, answer in answers.items():
                try:
                    found[at.partition] = self.wait_for(answer, "list offsets").offset
                except SourceError as error:
                    said = error.__cause__
                    code = said.args[0].code() if isinstance(said, kafka.KafkaException) and said else None
                    if code not in electing or time.monotonic() > ends:
                        raise
            asked = {at: spec for at in asked if at.partition not in found}
            if asked:
                time.sleep(_WAIT)
        return found

    def wait_for(self, future: Future[Any], doing: str) -> Any:
        """Return the answer to a request; raises SourceError."""
        kafka = load_kafka()
        try:
            return future.result(ANSWER_SECONDS * 2)
        except kafka.KafkaException as error:
            self._open_admin_events()
            raise self.build_error(doing, error.args[0]) from error
        except TimeoutError as error:
            raise self.build_error(doing, "no answer") from error

    def _open_admin_events(self) -> None:
        """Let what connections have to say come in."""
        if self._admin is not None:
            self._admin.poll(0)


def _note_errors_of(client: weakref.ref[KafkaClient]) -> Callable[[Any], None]:
    """Return what connections tell their errors; it holds no client, so a client and its connections end with their last user."""

    def note(error: Any) -> None:
        there = client()
        if there is not None:
            there._note_error(error)

    return note


class KafkaReader:
    """Reads partitions one after the other, none of which it shares with a consumer group."""

    def __init__(self, client: KafkaClient) -> None:
        kafka = load_kafka()
        self._client, self._kafka = client, kafka
        config = client.build_config() | {
            "group.id": "tideline",  # asked for by the library; no group is joined, and no offset committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": QUEUE_KIBIBYTES,
            "queued.min.messages": QUEUE_MESSAGES,
            "fetch.queue.backoff.ms": REFILL_MS,
            "fetch.message.max.bytes": 1 << 20,
            "fetch.wait.max.ms": 100,
            "check.crcs": True,
        }
        try:
            self._consumer = kafka.Consumer(config)
        except kafka.KafkaException as error:
            raise client.build_error("be set up", error.args[0]) from error
        self._at: tuple[int, int] | None = None
        self._average = BATCH_BYTES // FIRST_MESSAGES

    def __enter__(self) -> KafkaReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the consumer."""
        self._consumer.close()

    def read(self, partition: int, at: int, end: int, most: int) -> MessageBatch:
        """Return what comes next, `most` messages about, on the way to an offset that is there.

        Raises MessagesGone for what was removed, SourceError if the brokers do not give what there is.
        """
        if self._at != (partition, at):
            topic = self._client.settings.topic
            self._consumer.assign([self._kafka.TopicPartition(topic, partition, at)])
        batch = MessageBatch(partition, [], at)
        deadline = time.monotonic() + SILENT_SECONDS
        most = min(most, BATCH_MESSAGES)
        while batch.next < end and len(batch.messages) < most and batch.size < BATCH_BYTES:
            events = self._take_events(min(most - len(batch.messages), end - batch.next), batch.size)
            before = batch.next
            self._add_events(batch, events)
            if batch.next > before:
                deadline = time.monotonic() + SILENT_SECONDS
            elif time.monotonic() > deadline:
                raise self._client.build_error(
                    f"read partition {partition} from offset {batch.next} to {end}",
                    f"nothing came within {SILENT_SECONDS:g} seconds",
                )
        self._at = (partition, batch.next)
        return batch

    def _take_events(self, most: int, size: int) -> list[Any]:
        """Return messages that are there, or wait for one; so few that they fit into what a batch may hold."""
        few = max(1, min(most, (BATCH_BYTES - size) // max(self._average, 1)))
        found: list[Any] = self._consumer.consume(few, 0)
        if not found:
            event = self._consumer.poll(_WAIT)
            found = [] if event is None else [event]
        return found

    def _add_events(self, batch: MessageBatch, events: Sequence[Any]) -> None:
        errors = [error for event in events if (error := event.error()) is not None]
        messages = [event for event in events if event.error() is None] if errors else list(events)
        if messages:
            size = sum(map(len, messages)) + 100 * len(messages)
            batch.messages += messages
            batch.size += size
            batch.next = messages[-1].offset() + 1
            self._average = max(size // len(messages), 1)
        for error in errors:
            self._take_error(batch, error, events)

    def _take_error(self, batch: MessageBatch, error: Any, events: Sequence[Any]) -> None:
        code = error.code()
        if code == self._kafka.KafkaError._PARTITION_EOF:
            ends = [one.offset() for one in events if one.error() is not None and one.error().code() == code]
            batch.next = max(batch.next, *ends)
        elif code in (self._kafka.KafkaError._AUTO_OFFSET_RESET, self._kafka.KafkaError.OFFSET_OUT_OF_RANGE):
            raise MessagesGone(f"{self._client.settings.address}: partition {batch.partition}: {error.str()}")
        elif code not in (
            self._kafka.KafkaError._ALL_BROKERS_DOWN,
            self._kafka.KafkaError._TRANSPORT,
            self._kafka.KafkaError._TIMED_OUT,
        ):
            raise self._client.build_error(f"read partition {batch.partition}", error)
