"""Pins: epochs that somebody reads; one made by hand ends by itself, so that a dead process does not hold history for ever.

Such a pin carries its end in its name, `<owner> until <ms of epoch time>`; collections take away those that are over.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from engine.hummock.epoch import COUNTER_BITS, seconds_of
from engine.hummock.version import Version

_UNTIL = " until "


@dataclass(frozen=True)
class Pin:
    """A hold on a table's history from `epoch` on, that ends at `until_ms` of epoch time; None: when it is taken away."""

    table: str
    epoch: int
    name: str
    until_ms: int | None

    @property
    def owner(self) -> str:
        """Who made it: of one with an end what was given as its owner, else its name."""
        return self.name if self.until_ms is None else self.name.rpartition(_UNTIL)[0].rpartition(" ")[0]

    @property
    def ends(self) -> float | None:
        """When it ends, in seconds since 1970; None: when it is taken away."""
        return None if self.until_ms is None else seconds_of(self.until_ms << COUNTER_BITS)


def create_pin(table: str, epoch: int, owner: str, until_ms: int) -> Pin:
    """Return a pin that ends at `until_ms`; its name is unique."""
    return Pin(table, epoch, f"{owner} {uuid.uuid4().hex[:12]}{_UNTIL}{until_ms}", until_ms)


def parse_end_ms(name: str) -> int | None:
    """Return when a pin of this name ends, or None for one that is held until it is taken away."""
    _, separator, number = name.rpartition(_UNTIL)
    return int(number) if separator and number.isdigit() else None


def list_pins(version: Version) -> tuple[Pin, ...]:
    """Return all pins of a version."""
    return tuple(
        Pin(table.name, epoch, name, parse_end_ms(name))
        for table in version.tables.values()
        for name, epoch in table.pins.items()
    )


def expire_pins(version: Version, now_ms: int) -> dict[str, dict[str, int | None]]:
    """Return the change of pins that takes away those that are over."""
    found: dict[str, dict[str, int | None]] = {
        table.name: {
            name: None for name in table.pins if (end := parse_end_ms(name)) is not None and end <= now_ms
        }
        for table in version.tables.values()
    }
    return {name: ended for name, ended in found.items() if ended}
