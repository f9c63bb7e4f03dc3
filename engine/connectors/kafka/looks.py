"""Whether a topic holds more: asked several times a second by connections that stay open, and rarely of brokers that are away."""

from __future__ import annotations

import threading
import time
import weakref
from dataclasses import dataclass, field

from engine.connectors.kafka.client import KafkaClient, TopicState
from engine.connectors.kafka.settings import KafkaSettings
from engine.errors import SourceError
from engine.hummock import Hummock

QUICK_SECONDS = 0.02
REST = 4.0
"""A look that took longer than that is repeated only after so many times as long."""
AWAY_SECONDS = 30.0
"""Brokers that did not answer are asked again after so long at the latest, at first after a second."""


@dataclass
class _TopicLook:
    """The last look at a topic, and when the next one is due."""

    client: KafkaClient
    lock: threading.Lock = field(default_factory=threading.Lock)
    found: TopicState | None = None
    error: SourceError | None = None
    due: float = float("-inf")
    pause: float = 0.0


_LOOKS: weakref.WeakKeyDictionary[Hummock, dict[KafkaSettings, _TopicLook]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def get_client(store: Hummock, settings: KafkaSettings) -> KafkaClient:
    """Return what asks about a topic; tables of a store with the same settings share it."""
    return _get_look(store, settings).client


def look_for_messages(store: Hummock, client: KafkaClient, *, fresh: bool = False) -> TopicState:
    """Return the topic as it was a moment ago at the earliest, or is now; raises SourceError if its brokers do not answer."""
    look = _get_look(store, client.settings)
    with look.lock:
        began = time.monotonic()
        if began >= look.due or (fresh and look.error is None):
            try:
                look.found, look.error, look.pause = client.look_at_topic(), None, 0.0
                took = time.monotonic() - began
                look.due = time.monotonic() + (took * REST if took > QUICK_SECONDS else 0.0)
            except SourceError as error:
                look.found, look.error = None, error
                look.pause = min(max(look.pause * 2, 1.0), AWAY_SECONDS)
                look.due = time.monotonic() + look.pause
        if look.error is not None or look.found is None:
            raise look.error or SourceError(f"{client.settings.address} was not asked")
        return look.found


def _get_look(store: Hummock, settings: KafkaSettings) -> _TopicLook:
    with _LOCK:
        looks = _LOOKS.setdefault(store, {})
        if settings not in looks:
            looks[settings] = _TopicLook(KafkaClient(settings))
        return looks[settings]
