"""Where a table stands in a topic: which topic it is, and for each partition the offset that is read next."""

from __future__ import annotations

import msgspec

from engine.connectors.contract.offsets import SourceOffset

TOPIC = ""
"""The split whose offset says which topic is followed; the other splits are partitions, by their numbers."""


class TopicPosition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The topic by its id, and where its partitions began that were there at first; others begin at their beginning."""

    topic_id: str
    starts: dict[int, int] = {}


class PartitionPosition(msgspec.Struct, frozen=True):
    """The offset that is read next in a partition of a topic, which is known by its id."""

    next: int
    topic_id: str


def encode_position(position: TopicPosition | PartitionPosition) -> str:
    """Return a position as the text of an offset."""
    return msgspec.json.encode(position).decode()


def decode_topic(offset: SourceOffset | None) -> TopicPosition | None:
    """Return which topic is followed, None before the first commit."""
    return None if offset is None else msgspec.json.decode(offset.text, type=TopicPosition)


def decode_partition(offset: SourceOffset | None) -> PartitionPosition | None:
    """Return where a partition stands, None before its first commit."""
    return None if offset is None else msgspec.json.decode(offset.text, type=PartitionPosition)
