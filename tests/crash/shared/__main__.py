"""Random programs on Spark whose driver crashes, with the fragments of a run computed in one task, or each by itself.

`python -m tests.crash.shared [--one-task on|off|both] SEED …` replays some; `range FIRST LAST` runs a range of them, all on
one Spark session.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from engine.runtime.spark.session import connect
from tests.crash.broken import Broken
from tests.crash.shared.program import SharedProgram
from tests.uncompiled import interpreting

FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java's second compiler takes a core for itself for the first minutes."""


def main() -> None:
    """Replay the seeds named on the command line, or a range FIRST LAST after the word `range`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one-task", choices=("on", "off", "both"), default="both")
    parser.add_argument("words", nargs="+", metavar="SEED | range FIRST LAST")
    options = parser.parse_args()
    words = options.words
    seeds = range(int(words[1]), int(words[2])) if words[0] == "range" else [int(word) for word in words]
    ways = {"on": (True,), "off": (False,), "both": (True, False)}[options.one_task]
    with tempfile.TemporaryDirectory(prefix="tideline-", ignore_cleanup_errors=True) as folder:
        os.environ.update({"TIDELINE_CACHE_DIR": f"{folder}/cache", "SPARK_LOCAL_DIRS": folder})
        os.environ.setdefault("TIDELINE_DRIVER_MEMORY", "2g")
        os.environ.setdefault("JDK_JAVA_OPTIONS", FIRST_COMPILER)
        failed = _run_all(seeds, ways)
    sys.exit(1 if failed else 0)


def _run_all(seeds: range | list[int], ways: tuple[bool, ...]) -> int:
    """Run seeds each way and print a line for each; return how many have failed."""
    os.fsync = lambda descriptor: None  # type: ignore[assignment]  # nobody cuts the power
    with interpreting():
        spark = connect("local[2]")
    spark.sparkContext.setLogLevel("OFF")  # tasks fail on purpose
    failed, began = 0, time.perf_counter()
    done: list[SharedProgram] = []
    for seed in seeds:
        for one_task in ways:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                program = SharedProgram(seed, Path(folder), spark, one_task=one_task)
                failed += _run_one(program)
                done.append(program)
    spark.stop()
    seconds = (time.perf_counter() - began) / max(len(done), 1)
    shared, alone = (sum(one.shared for one in done), sum(one.alone for one in done))
    crashes, runs = sum(one.crashes for one in done), sum(one.runs for one in done)
    print(
        f"{len(done) - failed} of {len(done)} programs fine, {seconds:.1f} s each: {runs} runs, {crashes} crashes"
    )
    print(f"{shared} fragments came from shared actions, {alone} did not", flush=True)
    strange = (ways == (True,) and not shared) or (ways == (False,) and shared)
    if strange:
        print(f"that is not what --one-task {'on' if ways[0] else 'off'} asks for", flush=True)
    return failed + bool(strange)


def _run_one(program: SharedProgram) -> bool:
    """Run one program, print what there is to say, and return whether it has failed."""
    began, way = time.perf_counter(), "on" if program.one_task else "off"
    try:
        program.run()
    except Broken:
        print(f"seed {program.seed} {way} FAILED\n{traceback.format_exc()}", flush=True)
        return True
    judge, seconds = program.judge, time.perf_counter() - began
    print(
        f"seed {program.seed} {way}: {len(program.views)} views, {program.runs} runs, {program.crashes} crashes, "
        f"{program.shared} of {program.shared + program.alone} fragments shared, {judge.in_time} in time, "
        f"{judge.kept_back} kept back, {seconds:.1f} s, fine",
        flush=True,
    )
    return False


if __name__ == "__main__":
    main()
