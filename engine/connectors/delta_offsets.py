"""How far a Delta table is taken, as the text of its offset."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from engine.connectors.delta_steps import Position
from engine.connectors.offsets import Offset


@dataclass(frozen=True)
class Standing:
    """Where a source stands; `told` are the columns of which it was said that they are left out."""

    at: Position
    told: tuple[str, ...] = field(default=())


def text_of(standing: Standing) -> str:
    """Return the text of an offset."""
    return msgspec.json.encode(standing).decode()


def standing_of(offset: Offset | None) -> Standing | None:
    """Return what an offset says; None before the first one."""
    return None if offset is None else msgspec.json.decode(offset.text, type=Standing)
