"""A topic of Kafka as the target of a sink: each epoch of the view is one transaction, with the position that it brings.

Method: one producer at a time has the sink's transactional id, and who opens it ends the one before. It reads the position once,
and knows it from then on. What the position has is not sent again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from engine.connectors.kafka.client import KafkaClient
from engine.connectors.kafka.sink.encoding import EncodedMessage, MessageEncoder, MessageShape, NullKey
from engine.connectors.kafka.sink.positions import (
    EPOCH_HEADER,
    SINK_HEADER,
    START_HEADER,
    DeliveredPosition,
    DeliverySearch,
    TopicNote,
    decode_note,
    encode_note,
)
from engine.connectors.kafka.sink.producer import SinkProducer
from engine.connectors.kafka.sink.settings import parse_sink_settings
from engine.connectors.kafka.sink.topics import FoundTopic, NoSuchTopic, create_topic, find_topic, read_rules
from engine.connectors.sinks.contract import DeliveryResult, SinkBatch
from engine.connectors.sinks.known_epochs import require_known_epoch
from engine.connectors.sinks.options import SinkOptions
from engine.errors import Conflict, SinkError, SourceError
from engine.hummock import Hummock
from engine.hummock.epoch import format_epoch
from engine.log_store.changes import Changes
from engine.log_store.sink import LogRange
from engine.meta.status.sinks import find_sink_source
from engine.sql.catalog import Relation

APP = "app"
"""The option of a sink's relation that names its transactions and its group, whatever becomes of the store's address."""
KEY = "key"
"""The option of a sink's relation that names the columns of its messages' keys."""
Header = tuple[str, bytes]


def build_shape(relation: Relation) -> MessageShape:
    """Return what the messages of a sink look like."""
    settings = parse_sink_settings(relation.options)
    upsert = SinkOptions.of(relation.options).upsert
    return MessageShape(
        relation.name,
        find_sink_source(relation),
        relation.columns,
        settings.key,
        settings.format,
        settings.key_format,
        upsert,
        tombstones=upsert,
    )


class KafkaSink:
    """Writes the changes of a view to a topic; the producer stays open from one delivery to the next."""

    each_epoch = True
    promises = False

    def __init__(self, store: Hummock, relation: Relation, start: int) -> None:
        self.start = start
        self._store, self._relation = store, relation
        self._settings = parse_sink_settings(relation.options)
        self._options = SinkOptions.of(relation.options)
        self._encoder = MessageEncoder(build_shape(relation))
        self._client = KafkaClient(self._settings.connection)
        self._producer: SinkProducer | None = None
        self._position = DeliveredPosition()

    def take(self, portion: SinkBatch) -> DeliveryResult:
        """Write a range, once; durable when it returns. Raises Conflict where the sink began anew meanwhile, SinkError."""
        try:
            return self._take(portion)
        except SourceError as error:
            self.close()
            raise SinkError(f"sink {self._relation.name}: {error}") from error
        except BaseException:
            self.close()
            raise

    def _take(self, portion: SinkBatch) -> DeliveryResult:
        note = decode_note(portion.note)
        topic = self._look_at_topic(portion.log_range, note)
        producer = self._open_producer(portion.log_range, topic, note)
        done = self._count_done(portion.log_range)
        rows = 0
        if done is not None:
            self._check_topic(topic)
            rows = self._write(producer, portion, topic, done)
        numbers = range(topic.partitions)
        ends = TopicNote(topic.topic_id, self._client.list_ends(numbers)) if done is not None else note
        return DeliveryResult(rows, note="" if ends is None else encode_note(ends))

    def _look_at_topic(self, part: LogRange, note: TopicNote | None) -> FoundTopic:
        """Return the topic, which the first delivery makes where that was asked for; raises SinkError, SourceError."""
        name, address = self._relation.name, self._settings.connection.address
        try:
            topic = find_topic(self._client)
        except NoSuchTopic:
            if self._settings.creates and self._is_first(part) and note is None:
                self.close()  # of a topic that was there the producer knows the partitions
                return create_topic(self._client, self._settings, compact=self._settings.is_upsert)
            if note is None:
                raise
            raise SinkError(
                f"sink {name}: {address}: there is no such topic any more: create it, and ALTER SINK {name} RESET brings all "
                "rows to it"
            ) from None
        if note is not None and note.topic_id != topic.topic_id:
            raise SinkError(
                f"sink {name}: {address} was deleted and made again (its id was {note.topic_id}, and is {topic.topic_id} now): "
                f"ALTER SINK {name} RESET brings all rows to it"
            )
        return topic

    def _is_first(self, part: LogRange) -> bool:
        """Tell whether a range is the first one of this beginning of the sink."""
        return part.snapshot or (part.after <= self.start and not self._options.snapshot)

    def _open_producer(self, part: LogRange, topic: FoundTopic, note: TopicNote | None) -> SinkProducer:
        """Return the producer, with the position where the brokers have it; raises Conflict, SinkError."""
        if self._producer is not None and self._fits(part):
            return self._producer
        self.close()  # another process has delivered since, so it has taken over
        self._producer = producer = SinkProducer(
            self._client,
            self._settings,
            self._relation.name,
            self._relation.options[APP],
            read_rules(self._client).batch_bytes,
        )
        position, name = producer.read_position(), self._relation.name
        if position.start > self.start:
            raise Conflict(
                f"sink {name}: its position at {self._settings.connection.servers} says that it began anew; if the store was "
                f"put back, ALTER SINK {name} RESET"
            )
        if position.start < self.start and not self._is_first(part):
            search = DeliverySearch(self._client, name, self.start)
            found = search.find_last_epoch(list(range(topic.partitions)), note)
            epoch = part.after if found is None else max(found, part.after)
            partitions = topic.partitions if note is None else len(note.ends)
            position = DeliveredPosition(self.start, epoch, None, topic.topic_id, partitions)
        self._position = position
        return producer

    def _fits(self, part: LogRange) -> bool:
        position = self._position
        return position.start == self.start and position.epoch >= part.after

    def _count_done(self, part: LogRange) -> int | None:
        """Return how many rows of a range are there, None where all are; raises SinkError where both ends do not fit."""
        position, name = self._position, self._relation.name
        if position.start < self.start:
            return 0
        if part.snapshot and position.epoch == part.upto:
            return position.rows  # None where all first rows are there
        before = part.upto if part.snapshot else part.after
        if position.epoch < before or position.rows is not None:
            raise SinkError(
                f"sink {name}: its position at {self._settings.connection.servers} is epoch {format_epoch(position.epoch)}, "
                f"which does not fit to {format_epoch(before)}, which was delivered: were the brokers put back? ALTER SINK "
                f"{name} RESET brings all rows again"
            )
        if position.epoch == before:
            return 0
        if position.epoch != part.upto:
            require_known_epoch(
                self._store, self._relation, self._settings.connection.address, position.epoch, before
            )
        return None

    def _check_topic(self, topic: FoundTopic) -> None:
        """Raise SinkError where keys would go to other partitions than before."""
        before, name = self._position, self._relation.name
        if before.start < self.start or not self._settings.key or before.partitions == topic.partitions:
            return
        raise SinkError(
            f"sink {name}: {self._settings.connection.address} has {topic.partitions} partitions, and had {before.partitions}: "
            f"keys would go to other partitions than before, where readers see their messages in another order. ALTER SINK "
            f"{name} RESET goes on with {topic.partitions}, and brings all rows; older messages stay where they are"
        )

    def _write(self, producer: SinkProducer, portion: SinkBatch, topic: FoundTopic, done: int) -> int:
        """Write what is not there in one transaction, first rows in several; return how many rows they were."""
        part = portion.log_range
        headers = [
            (EPOCH_HEADER, b"%d" % part.upto),
            (SINK_HEADER, self._relation.name.encode()),
            (START_HEADER, b"%d" % self.start),
        ]
        if not part.snapshot:
            rows = self._send(producer, portion.changes, headers, part)
            self._commit(producer, DeliveredPosition(self.start, part.upto, None, *topic[:2]))
            return rows
        rows = 0
        pieces = _split(_skip(portion.changes, done), self._settings.transaction_rows)
        for is_last, piece in pieces:
            count = self._send(producer, iter(piece), headers, part)
            rows += count
            reached = None if is_last else done + rows
            self._commit(producer, DeliveredPosition(self.start, part.upto, reached, *topic[:2]))
        return rows

    def _send(
        self, producer: SinkProducer, changes: Iterator[Changes], headers: list[Header], part: LogRange
    ) -> int:
        """Begin a transaction and send changes; return how many rows they were."""
        producer.begin()
        rows = 0
        for change in changes:
            rows += len(change)
            producer.send(self._encode(change, part), headers)
        return rows

    def _encode(self, change: Changes, part: LogRange) -> Iterator[EncodedMessage]:
        try:
            yield from self._encoder.encode(change, part.upto, snapshot=part.snapshot)
        except NullKey as error:
            raise SinkError(
                f"sink {self._relation.name}: column {error} of the key is null, and a key that is a text has no null: "
                f"COALESCE it in the view, or create the sink with key_format = 'json'"
            ) from error

    def _commit(self, producer: SinkProducer, position: DeliveredPosition) -> None:
        producer.commit(position)
        self._position = position

    def close(self) -> None:
        """End the producer, if there is one; the next range opens another."""
        producer, self._producer = self._producer, None
        self._position = DeliveredPosition()
        if producer is not None:
            producer.close()


def _skip(changes: Iterator[Changes], rows: int) -> Iterator[Changes]:
    """Yield changes but for the first rows."""
    for change in changes:
        if rows >= len(change):
            rows -= len(change)
            continue
        yield _slice(change, rows, len(change)) if rows else change
        rows = 0


def _split(changes: Iterator[Changes], rows: int) -> Iterator[tuple[bool, list[Changes]]]:
    """Yield changes in pieces of so many rows, and whether each is the last; of no changes one piece, which is empty."""
    pieces = itertools.chain.from_iterable(
        (_slice(change, first, first + rows) for first in range(0, len(change), rows)) for change in changes
    )
    held: list[Changes] = []
    count = 0
    for piece in pieces:
        left = rows - count
        if left == 0:
            yield False, held
            held, count, left = [], 0, rows
        if len(piece) > left:
            yield False, [*held, _slice(piece, 0, left)]
            piece, held, count = _slice(piece, left, len(piece)), [], 0
        held.append(piece)
        count += len(piece)
    yield True, held


def _slice(change: Changes, first: int, end: int) -> Changes:
    return Changes(
        change.operations[first:end],
        change.rows.slice(first, end - first),
        change.old.slice(first, end - first),
    )
