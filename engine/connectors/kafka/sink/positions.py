"""Where a sink stands, as the brokers keep it: up to which epoch its topic has messages, written by their own transaction.

Method: the position is the metadata of an offset of a consumer group that nobody joins, and is sent in the transaction of the
messages. Brokers forget such an offset when it was not written for days (`offsets.retention.minutes`). Then the messages of
the topic say it, from where the topic ended at the last acknowledgement.
"""

from __future__ import annotations

from typing import Any

import msgspec

from engine.connectors.kafka.client import BATCH_MESSAGES, KafkaClient
from engine.errors import SinkError

EPOCH_HEADER = "tideline.epoch"
SINK_HEADER = "tideline.sink"
START_HEADER = "tideline.start"


class DeliveredPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a sink is: `start` is the beginning whose ranges were taken, 0 before the first, `epoch` the end of the last.

    `rows` are the first rows that are there, where not all of them are. `topic_id` and `partitions` are the topic's.
    """

    start: int = 0
    epoch: int = 0
    rows: int | None = None
    topic_id: str = ""
    partitions: int = 0


class TopicNote(msgspec.Struct, frozen=True):
    """What the store keeps with an acknowledgement: how the topic was named and where its partitions ended after it."""

    topic_id: str
    ends: dict[int, int]


def encode_note(note: TopicNote) -> str:
    """Return a note as the store keeps it."""
    return msgspec.json.encode(note).decode()


def decode_note(text: str) -> TopicNote | None:
    """Return a note, None where there is none."""
    return msgspec.json.decode(text, type=TopicNote) if text else None


def encode_delivered(position: DeliveredPosition) -> str:
    """Return a position as metadata of an offset."""
    return msgspec.json.encode(position).decode()


def decode_delivered(metadata: str | None) -> DeliveredPosition:
    """Return the position that metadata say, that of a sink which has delivered nothing for none, or for another's words.

    Tools that move the offsets of groups write metadata of their own; then the position is as good as forgotten.
    """
    try:
        return msgspec.json.decode(metadata or "{}", type=DeliveredPosition, strict=True)
    except msgspec.DecodeError:
        return DeliveredPosition()


class DeliverySearch:
    """Looks for what a sink has delivered behind a note, in the messages themselves."""

    def __init__(self, client: KafkaClient, sink: str, start: int) -> None:
        self._client, self._sink, self._start = client, sink, start

    def find_last_epoch(self, partitions: list[int], note: TopicNote | None) -> int | None:
        """Return the last epoch whose messages stand behind a note, None for none; raises SinkError where that is not known."""
        noted = {} if note is None else note.ends
        bounds = self._client.list_bounds(partitions)
        removed = [n for n in partitions if bounds[n].begin > noted.get(n, 0)]
        if removed:
            settings = self._client.settings
            raise SinkError(
                f"sink {self._sink}: the brokers have forgotten how far it is (offsets.retention.minutes), and partition "
                f"{removed[0]} of {settings.address} has lost messages since its last delivery, which would tell: ALTER SINK "
                f"{self._sink} RESET brings all rows again"
            )
        last: int | None = None
        with self._client.open_reader() as reader:
            for number in partitions:
                at, end = noted.get(number, 0), bounds[number].end
                while at < end:
                    batch = reader.read(number, at, end, BATCH_MESSAGES)
                    for message in batch.messages:
                        epoch = self._find_epoch(message)
                        last = epoch if epoch is not None and (last is None or epoch > last) else last
                    at = batch.next
        return last

    def _find_epoch(self, message: Any) -> int | None:
        """Return the epoch of a message of this beginning of the sink, None for another's."""
        headers = dict(message.headers() or ())
        mine = (
            headers.get(SINK_HEADER) == self._sink.encode()
            and headers.get(START_HEADER) == b"%d" % self._start
        )
        return int(headers[EPOCH_HEADER]) if mine and EPOCH_HEADER in headers else None
