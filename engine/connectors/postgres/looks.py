"""Whether the log has something for the tables of a slot: asked several times a second, over a connection that stays open."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.connectors.postgres.server import PostgresServer, SlotBusy
from engine.connectors.postgres.settings import PostgresSettings
from engine.errors import SourceError
from engine.hummock import Hummock

QUICK_SECONDS = 0.02
REST = 4.0
"""A look that took longer than that is repeated only after so many times as long."""


@dataclass
class _SlotLook:
    """What the last look has found, for which tables and position, and how far the log went then."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    server: PostgresServer | None = None
    asked: object = None
    written: int = -1
    found: str | None = None
    due: float = float("-inf")

    def close(self) -> None:
        """Close the connection."""
        if self.server is not None:
            self.server.close()
            self.server = None


_LOOKS: weakref.WeakKeyDictionary[Hummock, dict[str, _SlotLook]] = weakref.WeakKeyDictionary()


def look_for_changes(
    store: Hummock, settings: Sequence[PostgresSettings], position: int, idle_bytes: int
) -> str | None:
    """Return a text that stays the same until what is there is taken, None if nothing is there; raises SourceError."""
    looks = _LOOKS.setdefault(store, {})
    group = settings[0].group
    if group not in looks:
        looks[group] = look = _SlotLook()
        weakref.finalize(store, look.close)
    look = looks[group]
    with look.lock:
        try:
            return _look(look, settings, position, idle_bytes)
        except SlotBusy:
            return look.found  # whoever reads it may take what is there
        except SourceError:
            look.close()
            raise


def _look(
    look: _SlotLook, settings: Sequence[PostgresSettings], position: int, idle_bytes: int
) -> str | None:
    asked = (position, tuple(settings))
    if look.asked != asked:
        look.asked, look.written, look.found, look.due = asked, -1, None, float("-inf")
    began = time.monotonic()
    if look.found is not None or began < look.due:
        return look.found
    if look.server is None or look.server.connection.closed:
        look.server = PostgresServer(settings[0])
    slot = look.server.read_slot()
    if slot is None or slot.is_lost or slot.confirmed is None:
        return "the slot is gone or lost"
    if slot.confirmed != position or slot.flushed < position:
        return f"the slot is at {slot.confirmed}, the tables at {position}"
    if slot.flushed == look.written:
        return None
    if slot.flushed - slot.confirmed > idle_bytes:
        look.found = f"log behind {position}"
        return look.found
    if look.server.find_unpublished(settings):
        return "a table is not published as a whole"
    publications = list(dict.fromkeys(one.publication for one in settings))
    tables = [one.sql_name for one in settings]
    if look.server.has_changes(publications, tables):
        look.found = f"changes behind {position}"
    look.written = slot.flushed
    took = time.monotonic() - began
    look.due = time.monotonic() + took * REST if took > QUICK_SECONDS else float("-inf")
    return look.found
