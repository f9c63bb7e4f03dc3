"""A client of Spark Connect ends when its program does, whatever its server computes for it then."""

from pathlib import Path

from tests.runtime.spark.conftest import said

UNDER_WAY = """
import sys
import threading
import time

from engine.runtime.spark.session import connect

spark = connect(sys.stdin.readline().strip())
rows = spark.range(2_000_000).toLocalIterator()
next(rows)
sent = threading.Event()


def compute():
    frame = spark.range(10**12).selectExpr("sum(id * id % 7)")
    sent.set()
    frame.toArrow()


threading.Thread(target=compute, daemon=True).start()
assert sent.wait(60)
time.sleep(1)  # until the answer is waited for: without it the program would end before there is anything to close
print("ends", flush=True)
"""


def test_a_program_ends_while_its_server_computes_for_it(address: str, tmp_path: Path) -> None:
    assert said(UNDER_WAY, address, tmp_path).splitlines()[-1:] == ["ends"]
