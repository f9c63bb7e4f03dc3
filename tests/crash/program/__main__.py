"""A random program against control plane and storage engine, crashed at random object-store calls, checked against batch runs.

`python -m tests.crash.program SEED` replays one; the same seed gives the same program, failures and crashes. With
`--executor spark` the program runs in processes on Spark that are killed (`tests.crash.processes`).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.crash.broken import Broken
from tests.crash.processes import ProcessProgram
from tests.crash.program.steps import Program


def main() -> None:
    """Replay the seeds named on the command line, or a range FIRST LAST after the word `range`."""
    os.environ.setdefault("TIDELINE_VERIFY", "1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executor", choices=("reference", "spark"), default="reference")
    parser.add_argument("--spark", default="local[2]", help="where the processes of --executor spark run")
    parser.add_argument(
        "--jobs", type=int, default=1, help="programs at the same time, each in a process of its own"
    )
    parser.add_argument("words", nargs="+", metavar="SEED | range FIRST LAST")
    options = parser.parse_args()
    words = options.words
    seeds = range(int(words[1]), int(words[2])) if words[0] == "range" else [int(word) for word in words]
    one = partial(_replayed, options.executor, options.spark)
    with ProcessPoolExecutor(max(options.jobs, 1)) as pool:
        outcomes = pool.map(one, seeds) if options.jobs > 1 else map(one, seeds)
        failed = 0
        for failure, message in outcomes:
            failed += failure
            print(message, flush=True)
    print(f"{len(seeds) - failed} of {len(seeds)} seeds fine", flush=True)
    sys.exit(1 if failed else 0)


def _replayed(executor: str, spark: str, seed: int) -> tuple[bool, str]:
    """Run one seed; return whether it failed and what there is to say."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            if executor == "spark":
                processes = ProcessProgram(seed, Path(folder), spark)
                processes.run()
                return False, f"seed {seed}: {processes.kills} killed, {processes.stops} stopped, fine"
            program = Program(seed, Path(folder))
            program.run()
            steps, manifests = len(program.trace), program.store.version.number
            return False, f"seed {seed}: {steps} steps, {manifests} manifests, fine"
    except Broken:
        return True, f"seed {seed} FAILED\n{traceback.format_exc()}"


if __name__ == "__main__":
    main()
