"""The sync log store under a consumer ten times slower than its producer, with crashes: what was lost, memory, barrier delays.

    python -m benchmarks.log_store [chunks] [crashes]

The consumer runs in a thread and sleeps for each chunk ten times as long as the producer does. A barrier's delay is the time from
its arrival at the log store to the moment when the consumer, asking as soon as it is free, has it.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.process_memory import read_high_water_mib
from engine.hummock import Commit, Hummock, Table
from engine.hummock.version import OP
from engine.log_store import Barrier, Chunk, SyncLogStore

BUFFER_BYTES = 4 << 20
ROWS = 1_000
PRODUCER_SECONDS = 0.002
CHUNKS_PER_BARRIER = 50
OUT = Table("out", pa.schema([("place", pa.int64()), ("id", pa.int64())]), ("place",))


@dataclass
class JobResult:
    """What all lives of the job together saw."""

    delays: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    peak_buffered: int = 0
    flushed_rows: int = 0
    wrong: int = 0
    crashes: int = 0


class Life:
    """One process's time between two crashes: a producer, a slow consumer, and the commits that join them."""

    def __init__(self, url: str, chunks: int, measured: JobResult) -> None:
        self.chunks, self.measured = chunks, measured
        self.store = Hummock.open(url)
        if "out" not in self.store.version.tables:
            self.store.create_table("out", OUT.schema, OUT.primary_key)
        self.log = SyncLogStore.open(self.store, "bench", buffer_bytes=BUFFER_BYTES, chunk_rows=ROWS)
        self.sent = int(self.store.version.catalog.get("sent", "0"))
        self.taken = int(self.store.version.catalog.get("taken", "0"))
        self.arrived: dict[int, float] = {}
        self.at_barrier: dict[int, list[int]] = {}
        self.seen = threading.Condition()
        self.dead = False

    def run(self, chunks_until_crash: int | None) -> bool:
        """Go on until all is consumed (True), or until so many chunks were sent (False)."""
        epoch = self.store.version.epoch + 1
        self.log.put_barrier(Barrier(epoch - 1, epoch, "initial"))
        consumer = threading.Thread(target=self._consume)
        consumer.start()
        try:
            sent_here = 0
            while self.taken < self.chunks * ROWS:
                for _ in range(CHUNKS_PER_BARRIER):
                    if self.sent < self.chunks:
                        ids = np.arange(self.sent * ROWS, (self.sent + 1) * ROWS)
                        self.log.put(Chunk(pa.table({"id": ids, "text": ["x" * 20] * ROWS})))
                        self.sent += 1
                        sent_here += 1
                    time.sleep(PRODUCER_SECONDS)
                    if chunks_until_crash is not None and sent_here >= chunks_until_crash:
                        return False
                self._checkpoint(epoch)
                epoch += 1
            return True
        finally:
            self.dead = True
            consumer.join()
            metrics = self.log.metrics
            self.measured.peak_buffered = max(self.measured.peak_buffered, metrics.peak_buffered_bytes)
            self.measured.flushed_rows += metrics.flushed.rows

    def _checkpoint(self, epoch: int) -> None:
        barrier = Barrier(epoch, epoch + 1)
        self.arrived[barrier.curr] = time.perf_counter()
        part = self.log.put_barrier(barrier)
        assert part is not None
        with self.seen:
            self.seen.wait_for(lambda: barrier.curr in self.at_barrier)
        given = self.at_barrier.pop(barrier.curr)
        rows = pa.table(
            {"place": np.arange(self.taken, self.taken + len(given)), "id": pa.array(given, pa.int64())}
        )
        rows = rows.append_column(OP, pa.array([0] * len(given), pa.uint8()))
        own = {"out": tuple(self.store.reader.write_run(OUT, rows))} if given else {}
        taken = self.taken + len(given)
        self.store.commit(
            Commit(writes={**part.writes, **own}, catalog={"sent": str(self.sent), "taken": str(taken)})
        )
        self.log.record_commit(part)
        self.taken = taken

    def _consume(self) -> None:
        given: list[int] = []
        while not self.dead:
            started = time.perf_counter()
            message = self.log.read(timeout=0.02)
            if isinstance(message, Chunk):
                self.measured.reads.append(time.perf_counter() - started)
            if isinstance(message, Barrier):
                if message.curr in self.arrived:
                    self.measured.delays.append(time.perf_counter() - self.arrived[message.curr])
                with self.seen:
                    self.at_barrier[message.curr] = given
                    self.seen.notify_all()
                given = []
            elif isinstance(message, Chunk):
                given += message.rows.column("id").to_pylist()
                time.sleep(10 * PRODUCER_SECONDS * message.rows.num_rows / ROWS)


def main(chunks: int = 1_500, crashes: int = 5) -> None:
    """Run the job with crashes and print what was measured."""
    measured = JobResult()
    before = read_high_water_mib()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TIDELINE_CACHE_DIR", str(Path(folder) / "cache"))
        url = (Path(folder) / "store").as_uri()
        rng = random.Random(7)
        started = time.perf_counter()
        for _ in range(crashes):
            if not Life(url, chunks, measured).run(rng.randrange(60, max(61, chunks // (crashes + 1)))):
                measured.crashes += 1
        last = Life(url, chunks, measured)
        last.run(None)
        seconds = time.perf_counter() - started
        found = [row for batch in last.store.iter("out") for row in batch.column("id").to_pylist()]
        measured.wrong = sum(a != b for a, b in zip(found, range(chunks * ROWS), strict=False))
        missing = chunks * ROWS - len(found)
    delays = np.array(measured.delays) * 1000
    grown = read_high_water_mib() - before
    print(
        f"rows {chunks * ROWS:,}, crashes {measured.crashes}, {seconds:.1f} s, consumer 10 x slower than producer"
    )
    print(f"missing {missing}, out of place {measured.wrong}")
    print(
        f"buffer at most {measured.peak_buffered:,} bytes of {BUFFER_BYTES:,}; rows through references "
        f"{measured.flushed_rows:,}; the process grew by {grown:.0f} MiB"
    )
    print(
        f"barriers {len(delays)}: passed on in {np.median(delays):.1f} ms (median), "
        f"{np.quantile(delays, 0.99):.1f} ms (99 %), {delays.max():.1f} ms (longest)"
    )
    reads = np.array(measured.reads) * 1000
    print(f"reads of a chunk: {np.median(reads):.2f} ms (median), {reads.max():.1f} ms (longest)")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
