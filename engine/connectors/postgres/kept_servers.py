"""Connections that stay open between the polls of a store: a new one costs both sides more than what it is then asked."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from engine.connectors.postgres.server import PostgresServer
from engine.connectors.postgres.settings import PostgresSettings
from engine.hummock import Hummock


@dataclass
class _KeptServers:
    """The connections of one store that nobody uses at the moment, by what they were opened with."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    idle: dict[PostgresSettings, list[PostgresServer]] = field(default_factory=dict)

    def take(self, settings: PostgresSettings) -> PostgresServer | None:
        """Return a connection that answers, None if there is none."""
        while True:
            with self.lock:
                kept = self.idle.get(settings)
                server = kept.pop() if kept else None
            if server is None or server.is_alive():
                return server
            server.close()

    def keep(self, settings: PostgresSettings, server: PostgresServer) -> None:
        with self.lock:
            self.idle.setdefault(settings, []).append(server)

    def close(self) -> None:
        """Close them all."""
        for kept in self.idle.values():
            for server in kept:
                server.close()


_KEPT: weakref.WeakKeyDictionary[Hummock, _KeptServers] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


@contextmanager
def lend_server(store: Hummock, settings: PostgresSettings) -> Iterator[PostgresServer]:
    """Give a connection for a block; it is kept for the next block that asks for it, unless this one is left by an error."""
    with _LOCK:
        if store not in _KEPT:
            _KEPT[store] = found = _KeptServers()
            weakref.finalize(store, found.close)
    kept = _KEPT[store]
    # one connection reads any table of the database
    opened_with = replace(settings, schema="", table="", slot="", publication="")
    server = kept.take(opened_with) or PostgresServer(settings)
    server.settings = server.address = settings
    try:
        yield server
    except BaseException:
        server.close()
        raise
    kept.keep(opened_with, server)
