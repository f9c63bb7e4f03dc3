"""A client of Spark Connect ends when its program does, whatever its server computes for it then."""

from pathlib import Path

import pytest

from tests.runtime.spark.conftest import said

UNDER_WAY = """
import socket
import sys
import threading

from engine.runtime.spark.session import connect

spark = connect(sys.stdin.readline().strip())
rows = spark.range(2_000_000).toLocalIterator()
next(rows)
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]


def call(batches):
    with socket.create_connection(("127.0.0.1", port)) as caller:
        caller.recv(1)  # until the program has ended
    yield from batches


threading.Thread(target=spark.range(1).mapInArrow(call, "id BIGINT").toArrow, daemon=True).start()
listener.settimeout(120)
task, _ = listener.accept()
print("ends", flush=True)
"""


@pytest.mark.long
def test_a_program_ends_while_its_server_computes_for_it(address: str, tmp_path: Path) -> None:
    assert said(UNDER_WAY, address, tmp_path).splitlines()[-1:] == ["ends"]
