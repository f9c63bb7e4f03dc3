"""What telling OpenTelemetry costs an epoch: the same changes in processes that take turns, with variables OTEL_… and without.

`python -m benchmarks.telemetry [--changes 1000] [--rounds 60] [--base FOLDER] [--endpoint URL]`

Each process has a Spark and a store of its own, with two views over 200,000 bids. `--base` adds a process of another checkout,
such as one before a change. Without `--endpoint` what is told goes to a collector of this program, which reads and drops it.
It prints the median seconds of a flush, and the median of the ratios of flushes of the same round. Exit status 1: with telemetry
an epoch takes more than 5 % longer.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST = 1.05
BIDS = 200_000

CHILD = """
import os, sys, time
import pyarrow as pa
from engine.session import Session
bids, changes = int(sys.argv[2]), int(sys.argv[3])
def rows(first, count):
    ids = range(first, first + count)
    return pa.table({"id": [*ids], "auction": [id * 7 % 50000 for id in ids], "price": [id * 13 % 999 for id in ids]})
with Session(sys.argv[1]) as session:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.write("bid", rows(0, bids))
    session.sql("CREATE MATERIALIZED VIEW top AS SELECT auction, max(price) AS best, count(*) AS n FROM bid GROUP BY auction")
    session.sql("CREATE MATERIALIZED VIEW by_best AS SELECT best, count(*) AS auctions FROM top GROUP BY best")
    session.flush().raise_for_errors()
    for turn, _ in enumerate(sys.stdin):
        session.write("bid", rows(bids + turn * changes, changes))
        started, cpu = time.perf_counter(), time.process_time()
        session.flush().raise_for_errors()
        print(time.perf_counter() - started, time.process_time() - cpu, flush=True)
        if turn % 20 == 19:
            session.compact()
    print("opentelemetry" in sys.modules, flush=True)
"""


class Turns:
    """A process that computes an epoch when it is asked to."""

    def __init__(self, checkout: Path, folder: Path, changes: int, variables: dict[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", CHILD, folder.as_uri(), str(BIDS), str(changes)],
            cwd=checkout,
            env={**kept, **variables, "PYTHONPATH": str(checkout), "TIDELINE_DRIVER_MEMORY": "1g"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.seconds: list[float] = []
        self.processor: list[float] = []

    def take(self) -> tuple[float, float]:
        """Return the seconds of one more epoch, and those of the driver's processor."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        seconds, processor = self._process.stdout.readline().split()
        return float(seconds), float(processor)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> int:
    """Measure, print, and return 1 where telemetry costs more than it may."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--endpoint")
    asked = parser.parse_args()
    with ExitStack() as stack:
        endpoint = asked.endpoint
        if endpoint is None:
            from tests.telemetry.collector import run_collector

            endpoint, _ = stack.enter_context(run_collector())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
        kinds = {"off": (ROOT, {}), "on": (ROOT, told)}
        if asked.base is not None:
            kinds["base"] = (asked.base.resolve(), {})
        turns: dict[str, Turns] = {}
        for name, (checkout, variables) in kinds.items():
            turns[name] = Turns(checkout, folder / name, asked.changes, variables)
            stack.callback(turns[name].close)
        order = list(turns)
        for number in range(asked.rounds + 5):
            random.shuffle(order)
            for name in order:
                seconds, processor = turns[name].take()
                if number >= 5:  # the first ones compile
                    turns[name].seconds.append(seconds)
                    turns[name].processor.append(processor)
    print(f"{asked.changes:,} changes, {asked.rounds} rounds; medians")
    for name, one in turns.items():
        print(
            f"{name:<5} flush {statistics.median(one.seconds) * 1000:6.1f} ms, "
            f"driver's processor {statistics.median(one.processor) * 1000:6.1f} ms"
        )
    for name, other in (("on", "off"), ("off", "base")):
        if other in turns:
            pairs = zip(turns[name].seconds, turns[other].seconds, strict=True)
            ratio = statistics.median(mine / theirs for mine, theirs in pairs)
            print(f"{name} / {other}: {ratio:.3f}")
    pairs = zip(turns["on"].seconds, turns["off"].seconds, strict=True)
    return int(statistics.median(mine / theirs for mine, theirs in pairs) > MOST)


if __name__ == "__main__":
    sys.exit(main())
