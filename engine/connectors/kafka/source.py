"""The source of Kafka: the partitions of a topic are splits, and the offset of each is committed with the rows before it.

No consumer group is joined. Only messages of committed transactions are read, so offsets have gaps. One more split, which comes
first, says which topic is followed, by its id, and where the partitions began that were there when the table began.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from engine.connectors.contract.connector import PendingSplit, SourceReport, Spark, no_spark
from engine.connectors.contract.intake import Intake, commit_intake, commit_polled
from engine.connectors.contract.offset_source import OffsetSource, StepResult
from engine.connectors.contract.offsets import SourceOffset, build_offset_row, ensure_offsets
from engine.connectors.formats.file_format import format_raw
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.kafka.client import (
    KafkaReader,
    MessageBatch,
    MessagesGone,
    OffsetSpan,
    TopicState,
)
from engine.connectors.kafka.decoding import MessageDecoder, Messages
from engine.connectors.kafka.looks import get_client, look_for_messages
from engine.connectors.kafka.positions import (
    TOPIC,
    PartitionPosition,
    TopicPosition,
    decode_partition,
    decode_topic,
    encode_position,
)
from engine.connectors.kafka.resync import WholeTopic
from engine.connectors.kafka.settings import MOST_MESSAGES, KafkaSettings, read_settings
from engine.connectors.kafka.writes import MessageWriter, TypedMessages, build_target, convert_messages
from engine.errors import SourceError
from engine.hummock import Hummock, Put, TableVersion, Version
from engine.hummock.manifests.preconditions import require_same_tables, require_unaltered, require_unchanged
from engine.hummock.monitoring.driver_traffic import track_bytes
from engine.hummock.writes.batch import write_stream
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.dead_letters import DeadLetter, ensure_dead_letters
from engine.meta.status.source_notes import OFFSETS
from engine.runtime.writes.watermarks import ArrivingRows
from engine.sql.catalog import Relation

MOST_UNKNOWN = 20


@dataclass(frozen=True)
class KafkaStep:
    """What one commit takes: messages, or of the topic itself where it begins; `position` is behind it."""

    position: TopicPosition | PartitionPosition
    batch: MessageBatch | None = None
    note: str = ""
    letters: Sequence[DeadLetter] = ()
    warnings: Sequence[str] = ()


@dataclass
class _PartitionLoss:
    """What a partition holds no more: from where to where messages are missing, why, and where it goes on."""

    first: int
    last: int
    why: str
    goes_on: int

    def describe(self) -> str:
        """Say what is missing."""
        count = self.last - self.first + 1
        return f"offsets {self.first} to {self.last} ({count:,} of them) are gone: {self.why}"


@dataclass
class _Poll:
    """What one poll knows: the topic as it found it, and how many messages it may yet take of each partition."""

    topic: TopicState
    reader: KafkaReader | None = None
    left: dict[int, int] = field(default_factory=dict)


class KafkaSource(OffsetSource[KafkaStep]):
    """One topic that feeds one table."""

    def __init__(self, store: Hummock, relation: Relation) -> None:
        super().__init__(store, relation)
        self.settings = read_settings(relation)
        self.client = get_client(store, self.settings)
        self._poll: _Poll | None = None

    def list_splits(self) -> Sequence[str]:
        """Return the topic, and its partitions as they are by now."""
        if self._poll is None:
            return (TOPIC,)
        return (TOPIC, *map(str, self._poll.topic.partitions))

    def list_pending(self) -> Sequence[PendingSplit]:
        """Return the partitions that hold messages behind their offsets; one request."""
        topic = decode_topic(self.find_offset(TOPIC))
        if topic is None:
            return (PendingSplit(TOPIC, "begin"),)
        try:
            found = look_for_messages(self.store, self.client)
            pending = self._compare(topic, found)
            if any(int(at) > found.partitions[int(split)].end for split, at in pending):
                # somebody has taken more than there was at that look, or the partition has become shorter
                found = look_for_messages(self.store, self.client, fresh=True)
                pending = self._compare(topic, found)
        except SourceError as error:
            return (PendingSplit(TOPIC, str(error)),)  # the poll tells it
        if found.topic_id != topic.topic_id:
            return (PendingSplit(TOPIC, found.topic_id),)
        return pending

    def _compare(self, topic: TopicPosition, found: TopicState) -> list[PendingSplit]:
        """Return the partitions that do not stand at their end."""
        pending = []
        for partition, span in found.partitions.items():
            offset = decode_partition(self.find_offset(str(partition)))
            at = self._find_start(partition, topic, offset, span)
            if at != span.end:
                pending.append(PendingSplit(str(partition), str(at)))
        return pending

    def poll(self, spark: Spark = no_spark) -> SourceReport:
        """Take what there is, a commit for each partition or for as many messages as one commit takes."""
        started = time.perf_counter()
        try:
            return replace(self._take_all(spark), seconds=time.perf_counter() - started)
        finally:
            self._end_poll()

    def resync(self, spark: Spark) -> SourceReport:
        """Write the difference between the table and all that the topic holds now, and go on from there."""
        started = time.perf_counter()
        self.store.refresh()
        ensure_offsets(self.store)
        ensure_dead_letters(self.store)
        if self.relation.append_only or self.relation.watermark is not None:
            what = "is APPEND ONLY" if self.relation.append_only else "has a WATERMARK"
            raise SourceError(f"table {self.relation.name} {what}: its rows do not come again: make it again")
        try:
            report = commit_polled(self.store, self.relation.name, self._resync_once)
        finally:
            self._end_poll()
        return replace(report, seconds=time.perf_counter() - started)

    def record_error(self, error: str) -> None:
        """Keep why the table does not go on, with the topic: one commit, however many partitions there are."""
        version = self.store.refresh()
        table = version.tables.get(self.relation.name)
        if table is not None:
            self.record_split_error(TOPIC, table, error)

    def plan_steps(self, split: str, after: SourceOffset | None) -> Iterator[KafkaStep]:
        """Yield what comes next of a partition, up to where it ended when the poll began."""
        poll = self._require_poll()
        if split == TOPIC:
            before = decode_topic(after)
            if before is not None and before.topic_id != poll.topic.topic_id:
                self._look_again(poll)
            yield from self._plan_topic(poll.topic, before)
            return
        partition = int(split)
        topic = decode_topic(self.find_offset(TOPIC))
        if topic is None or topic.topic_id != poll.topic.topic_id:
            return  # another process is at it, or has seen another topic
        span = poll.topic.partitions[partition]
        position = decode_partition(after)
        at = self._find_start(partition, topic, position, span)
        if at > span.end:
            self._look_again(poll)
            if topic.topic_id != poll.topic.topic_id or partition not in poll.topic.partitions:
                return  # the next poll tells it
            span = poll.topic.partitions[partition]
        loss = self._find_loss(at, span, position)
        if loss is not None:
            at = loss.goes_on
            yield self._go_on(partition, loss)
        elif position is None and at >= span.end:
            yield KafkaStep(PartitionPosition(at, topic.topic_id))
        while at < span.end and poll.left.get(partition, 0) > 0:
            batch = self._read(poll, partition, at, span.end)
            at = batch.next
            poll.left[partition] -= len(batch.messages)
            behind = span.end - at
            note = f"partition {partition} is {behind:,} messages behind" if behind > 0 else ""
            yield KafkaStep(PartitionPosition(at, topic.topic_id), batch, note)

    def ingest_step(
        self, step: KafkaStep, after: SourceOffset | None, version: Version, spark: Spark
    ) -> StepResult:
        """Decode messages, and fold what they hold of each key."""
        if step.batch is None:
            return StepResult(
                encode_position(step.position),
                aside=len(step.letters),
                letters=step.letters,
                warnings=step.warnings,
                note=step.note,
            )
        track_bytes(step.batch.size)
        table = self.find_table(version)
        target = build_target(self.relation, table, self.settings)
        decoder = build_decoder(self.relation, table, self.settings)
        typed = convert_messages(list(decoder.decode(Messages.of_batch(step.batch))), target)
        arrivals = ArrivingRows(self.store, version, self.relation)
        writer = MessageWriter(self.store, self.relation, table, self._describe_place(step.batch.partition))
        operations = writer.build_operations(typed, arrivals)
        letters = writer.build_letters(typed.bad)
        unknown = ", ".join(typed.unknown[:MOST_UNKNOWN])
        return StepResult(
            encode_position(step.position),
            operations=operations,
            system=arrivals.build_writes(),
            rows=writer.rows,
            late=arrivals.late,
            aside=len(letters),
            letters=letters,
            warnings=[f"columns that the table lacks were left out: {unknown}"] if unknown else [],
            note=step.note,
            precondition=arrivals.require_unmoved(require_unchanged(table) if writer.looks_up else None),
            watermarks=arrivals.get_ttl_watermarks(),
        )

    def _resync_once(self) -> SourceReport:
        """Commit the difference, and the offsets behind all that was read."""
        self._end_poll()
        version = self.store.version
        self.relation = load_catalog(version).catalog.get(self.relation.name)
        poll = self._poll = self._begin_poll()
        poll.left = dict.fromkeys(poll.topic.partitions, MOST_MESSAGES)
        table = self.find_table(version)
        target = build_target(self.relation, table, self.settings)
        decoder = build_decoder(self.relation, table, self.settings)

        def convert(batch: MessageBatch) -> TypedMessages:
            return convert_messages(list(decoder.decode(Messages.of_batch(batch))), target)

        def read(partition: int, at: int, end: int) -> MessageBatch:
            return self._read(poll, partition, at, end)

        whole = WholeTopic(self.store, table, poll.topic, read, convert)
        files = write_stream(self.store.reader, table.table, whole.build_operations())
        topic_id = poll.topic.topic_id
        splits = {TOPIC: encode_position(TopicPosition(topic_id))}
        splits |= {
            str(one): encode_position(PartitionPosition(at, topic_id)) for one, at in whole.ends.items()
        }
        rows = [Put(build_offset_row(table, split, SourceOffset(text))) for split, text in splits.items()]
        letters = [
            DeadLetter(self._describe_place(partition), bad.line, format_raw(bad.reason), format_raw(bad.raw))
            for partition, bad in whole.bad
        ]
        checks = [
            require_same_tables({table.name: table}),
            *(self.require_offset(split, self.find_offset(split)) for split in splits),
            require_unaltered(table),
            require_unchanged(table),
        ]
        intake = Intake({OFFSETS: rows}, checks, files=files, letters=letters)
        committed = commit_intake(self.store, version, table, intake)
        return SourceReport(
            self.relation.name, rows=whole.rows, dead_rows=len(letters), epoch=committed.epoch
        )

    def _take_all(self, spark: Spark) -> SourceReport:
        try:
            self._poll = self._begin_poll()
        except SourceError as error:
            told = SourceError(f"table {self.relation.name}: {error}")
            self.record_error(str(told))
            raise told from error
        return super().poll(spark)

    def _begin_poll(self) -> _Poll:
        topic = self.client.look_at_topic()
        share = -(-self.settings.poll_messages // max(len(topic.partitions), 1))
        return _Poll(topic, left=dict.fromkeys(topic.partitions, share))

    def _look_again(self, poll: _Poll) -> None:
        """Look at the topic behind a position that an older look does not know: another process may have seen more of it."""
        try:
            poll.topic = self.client.look_at_topic()
        except SourceError as error:
            raise SourceError(f"table {self.relation.name}: {error}") from error

    def _end_poll(self) -> None:
        poll, self._poll = self._poll, None
        if poll is not None and poll.reader is not None:
            poll.reader.close()

    def _require_poll(self) -> _Poll:
        assert self._poll is not None, "steps are planned while a poll is under way"
        return self._poll

    def _read(self, poll: _Poll, partition: int, at: int, end: int) -> MessageBatch:
        if poll.reader is None:
            poll.reader = self.client.open_reader()
        try:
            return poll.reader.read(partition, at, end, poll.left[partition])
        except MessagesGone as gone:
            raise SourceError(
                f"table {self.relation.name}: {gone}: poll again, which tells what is missing"
            ) from gone
        except SourceError as error:
            raise SourceError(f"table {self.relation.name}: {error}") from error

    def _plan_topic(self, found: TopicState, before: TopicPosition | None) -> Iterator[KafkaStep]:
        """Yield the step that says which topic is followed: the first one, or that of another topic of the name."""
        if before is None:
            yield KafkaStep(TopicPosition(found.topic_id, self._find_starts(found)))
        elif before.topic_id != found.topic_id:
            why = (
                f"the topic {self.settings.topic} was deleted and made again (its id was {before.topic_id}, and is "
                f"{found.topic_id} now)"
            )
            if not self.settings.goes_on:
                raise SourceError(f"table {self.relation.name}: {why}: {self._describe_remedy()}")
            letter = DeadLetter(self.settings.topic, 0, why, "")
            yield KafkaStep(TopicPosition(found.topic_id), letters=[letter], warnings=[why])

    def _find_starts(self, found: TopicState) -> dict[int, int]:
        """Return where partitions begin that do not begin at their beginning."""
        settings = self.settings
        if settings.startup_mode == "latest":
            return {partition: span.end for partition, span in found.partitions.items()}
        if settings.startup_mode == "timestamp":
            offsets = self.client.find_offsets_at(tuple(found.partitions), settings.startup_ms)
            return {
                partition: offsets.get(partition, span.end) for partition, span in found.partitions.items()
            }
        starts = dict(settings.startup_offsets)
        for partition, offset in starts.items():
            span = found.partitions.get(partition)
            if span is None or not span.begin <= offset <= span.end:
                have = "is not there" if span is None else f"holds offsets {span.begin} to {span.end}"
                raise SourceError(
                    f"table {self.relation.name}: startup_offsets begins partition {partition} at {offset}, but it {have}: "
                    "make the table again with offsets that are there"
                )
        return starts

    def _find_start(
        self, partition: int, topic: TopicPosition, position: PartitionPosition | None, span: OffsetSpan
    ) -> int:
        """Return the offset that is read next."""
        if position is not None and position.topic_id == topic.topic_id:
            return position.next
        return topic.starts.get(partition, span.begin)

    def _find_loss(
        self, at: int, span: OffsetSpan, position: PartitionPosition | None
    ) -> _PartitionLoss | None:
        if at < span.begin:
            why = "they were removed by the topic's retention, or by hand, before they were read"
            return _PartitionLoss(at, span.begin - 1, why, span.begin)
        if at > span.end:
            why = "they were read, but the partition ends before them: its broker has lost them, or was restored"
            return _PartitionLoss(span.end, at - 1, why, span.end)
        return None

    def _go_on(self, partition: int, loss: _PartitionLoss) -> KafkaStep:
        """Return the step that tells a loss and goes on; raises SourceError where a loss stops the table."""
        what = f"partition {partition} of {self.settings.topic}: {loss.describe()}"
        if not self.settings.goes_on:
            raise SourceError(f"table {self.relation.name}: {what}: {self._describe_remedy()}")
        letter = DeadLetter(self._describe_place(partition), loss.first, loss.describe(), "")
        position = PartitionPosition(loss.goes_on, self._require_poll().topic.topic_id)
        return KafkaStep(position, letters=[letter], warnings=[what])

    def _describe_remedy(self) -> str:
        name = self.relation.name
        if self.relation.append_only:
            return f"{name} is APPEND ONLY, so make it again, with on_lost = 'earliest' if such losses are to be passed over"
        return (
            f"ALTER TABLE {name} RESYNC makes it what the topic holds now; a table with on_lost = 'earliest' goes on and tells "
            "what is missing"
        )

    def _describe_place(self, partition: int) -> str:
        return f"{self.settings.topic}[{partition}]"


def build_decoder(relation: Relation, table: TableVersion, settings: KafkaSettings) -> MessageDecoder:
    """Return what reads messages for a table as it is."""
    target = build_target(relation, table, settings)
    told = {name.lower() for name in settings.metadata.values()}
    operation = {target.options.operation} if settings.format == "debezium" else set()
    columns = {name for name in target.columns_to_read if name.lower() not in told}
    columns = (columns - {target.options.operation}) | operation
    binary = {column.name for column in relation.columns if column.type == "binary"}
    names = {name.lower(): name for name in target.columns_to_read}
    metadata = {option: names.get(name.lower(), name) for option, name in settings.metadata.items()}
    documents = frozenset(name for name in target.documents if name.lower() not in told)
    kinds = {target.find_file_column(one.name): one.type for one in target.schema}
    return MessageDecoder(
        replace(settings, metadata=metadata),
        ReadLimits.from_environment(),
        frozenset(columns),
        tuple(target.find_file_column(name) for name in target.primary_key),
        documents,
        frozenset(binary),
        {} if target.defaults or documents else kinds,
    )
