"""How long a session takes until its first view and its first change, with an archive of Spark's classes and without one.

`python -m benchmarks.starts [--rounds N]`: each start in a process of its own, the two kinds by turns; medians, their ratio, and
the processor seconds of Python and Java together.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from engine.jars import find_jar_paths
from engine.runtime.spark.local_java import find_archive_path

STAGES = ("spark", "first view", "first change", "second view", "processor")
KINDS = ("archive", "none")


def run_start() -> dict[str, float]:
    """Start once in this process; seconds by stage."""
    from engine.runtime.spark.session import connect
    from engine.session import Session

    laps = [time.perf_counter()]
    with tempfile.TemporaryDirectory() as folder:
        spark = connect("local[*]")
        laps.append(time.perf_counter())
        with Session(Path(folder).as_uri(), spark, dialect="risingwave") as session:
            session.sql("SET implicit_flush = true")
            session.sql("CREATE TABLE t (k INT, v INT)")
            session.sql("CREATE MATERIALIZED VIEW a AS SELECT k, sum(v) AS s FROM t GROUP BY k")
            laps.append(time.perf_counter())
            session.sql("INSERT INTO t VALUES (1, 2), (1, 3)")
            laps.append(time.perf_counter())
            session.sql("CREATE MATERIALIZED VIEW b AS SELECT x.k, y.v FROM t x JOIN t y ON x.k = y.k")
            laps.append(time.perf_counter())
        java = spark._jvm.java.lang.ProcessHandle.current().info().totalCpuDuration().get().toMillis() / 1000  # type: ignore[union-attr]
        spark.stop()
    seconds = dict(zip(STAGES, (after - before for before, after in pairwise(laps)), strict=False))
    return seconds | {"processor": java + time.process_time()}


def measure_start(kind: str) -> dict[str, float]:
    """Start once in a process of its own, without the archive by a folder that has the jars only."""
    with tempfile.TemporaryDirectory() as folder:
        for jar in map(Path, find_jar_paths()):
            (Path(folder) / jar.name).symlink_to(jar)
        environment = dict(os.environ) | ({"TIDELINE_JARS": folder} if kind == "none" else {})
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.starts", "--once"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print a line a stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    if options.once:
        print(json.dumps(run_start()))
        return
    if not find_archive_path().is_file():
        raise SystemExit("there is no archive: run `make setup`")
    seconds: dict[str, list[dict[str, float]]] = {kind: [] for kind in KINDS}
    for number in range(options.rounds):
        for kind in KINDS:
            seconds[kind].append(measure_start(kind))
            print(f"round {number + 1}, {kind}: {seconds[kind][-1]}", file=sys.stderr)
    print(f"{'stage':14}{'archive s':>12}{'none s':>12}{'ratio':>8}")
    for stage in STAGES:
        with_it, without = (statistics.median(lap[stage] for lap in seconds[kind]) for kind in KINDS)
        print(f"{stage:14}{with_it:12.2f}{without:12.2f}{without / with_it:8.2f}")


if __name__ == "__main__":
    main()
