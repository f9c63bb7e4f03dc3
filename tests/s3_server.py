"""An S3 server for tests, on loopback or as a process at another address: moto, with the one promise of S3 that it lacks."""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer


@contextmanager
def s3_server(address: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Run the server; yields its address. Puts take turns.

    moto looks whether an object is there and creates it in two steps, so that on a busy machine several puts with
    `If-None-Match: *` win (4 of 60 keys, 8 threads); of those that S3 and Ceph get, one does.
    """
    put, lock = S3Response.put_object, threading.Lock()

    @functools.wraps(put)
    def in_turn(response: S3Response):  # type: ignore[no-untyped-def]
        with lock:
            return put(response)

    S3Response.put_object = in_turn  # type: ignore[method-assign]
    server = ThreadedMotoServer(ip_address=address, port=port, verbose=False)
    try:
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        S3Response.put_object = put  # type: ignore[method-assign]


if __name__ == "__main__":  # a process of its own: its address and port
    with s3_server(sys.argv[1], int(sys.argv[2])) as url:
        print(url, flush=True)
        signal.pause()
