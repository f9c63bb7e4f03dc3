"""How far a Delta table is taken, as the text of its offset."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from engine.connectors.contract.offsets import SourceOffset
from engine.connectors.delta.steps import DeltaPosition


@dataclass(frozen=True)
class DeltaOffset:
    """Where a source stands; `told` are the columns of which it was said that they are left out."""

    at: DeltaPosition
    told: tuple[str, ...] = field(default=())


def encode_offset(offset: DeltaOffset) -> str:
    """Return the text of an offset."""
    return msgspec.json.encode(offset).decode()


def decode_offset(offset: SourceOffset | None) -> DeltaOffset | None:
    """Return what an offset says; None before the first one."""
    return None if offset is None else msgspec.json.decode(offset.text, type=DeltaOffset)
