"""A proxy on loopback in front of a server, which can refuse connections, or take them and never answer."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


class Proxy:
    """Passes bytes on between clients and one server; `refuse`, `hang` and `serve` say what it does from now on."""

    def __init__(self, port: int) -> None:
        self._target, self._listener = port, self._listening(0)
        self.port = int(self._listener.getsockname()[1])
        self._open: set[socket.socket] = set()
        self._hangs, self._ended, self._lock = False, False, threading.Lock()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self) -> None:
        """Close the door, and what is open."""
        self._listener.close()
        self._cut()

    def hang(self) -> None:
        """Take connections and say nothing; what is open goes silent, too."""
        self._hangs = True

    def serve(self) -> None:
        """Pass on again."""
        self._hangs = False
        self._cut()  # what has hung has lost bytes
        if self._listener.fileno() == -1:
            self._listener = self._listening(self.port)
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def end(self) -> None:
        """Close everything."""
        self._listener.close()
        self._cut()

    def _listening(self, port: int) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        listener.settimeout(0.2)
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while listener.fileno() != -1:
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            client.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            for source, drain in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, drain), daemon=True).start()

    def _pass(self, source: socket.socket, drain: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not self._hangs:
                    drain.sendall(data)
        for one in (source, drain):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
            with self._lock:
                self._open.discard(one)

    def _cut(self) -> None:
        with self._lock:
            found = list(self._open)
        for one in found:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    """Run a proxy in front of a port of loopback."""
    running = Proxy(port)
    try:
        yield running
    finally:
        running.end()
