"""From a file that lands to the views that show it, through Dagster: with a run for each change, and with a driver.

`python -m benchmarks.freshness [--modes driver tick] [--epochs 60]` starts Dagster (and for `tick` a warm Spark) over a project
of its own in a temporary folder: the demo's flights and its eight views. After the bulk it drops a file of some flights each
second, or as soon as the one before is visible, and prints how long each took.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from dagster_tideline.models import load_models
from dagster_tideline.pending import find_pending
from dagster_tideline.services import Services, project_environment
from dagster_tideline.settings import Settings
from demo.dataset import ACTUALS, load_dataset
from demo.replay import DAY, Replay
from engine.hummock import Hummock

BULK_UNTIL = datetime.date(2013, 12, 15)
PROJECT = Path(__file__).resolve().parents[1]
MOST_SECONDS = 300.0
LOOK_SECONDS = 0.02


def main() -> int:
    """Measure each mode, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", nargs="+", choices=("driver", "tick"), default=["driver", "tick"])
    parser.add_argument("--epochs", type=int, default=60)
    given = parser.parse_args()
    for mode in given.modes:
        with tempfile.TemporaryDirectory() as home:
            seconds = measure(Path(home), mode, given.epochs)
        last = sorted(seconds)[max(0, round(0.99 * len(seconds)) - 1)]
        print(
            f"{mode:6}  {len(seconds)} files: median {statistics.median(seconds):.2f} s, "
            f"99 of 100 within {last:.2f} s, longest {max(seconds):.2f} s",
            flush=True,
        )
    return 0


def measure(home: Path, mode: str, epochs: int) -> list[float]:
    """Return for each file the seconds until every view reflects it."""
    settings = Settings(
        project=PROJECT, home=home, assets=PROJECT / "assets", store=(home / ".tideline" / "store").as_uri()
    )
    environment = {**project_environment(settings), "TIDELINE_RUNS": mode}
    os.environ.update(environment)
    models = load_models(settings.assets)
    dataset = load_dataset()
    replay = Replay(dataset, home / "landing", BULK_UNTIL)
    with Services(home, environment, PROJECT) as services:
        if mode == "tick":
            services.spark_connect()
        services.dagster()
        with Hummock.open(environment["TIDELINE_STORE"]) as store:

            def visible(since: float) -> float:
                while find_pending(store, models):
                    for service in services.started:
                        service.check()
                    if time.monotonic() - since > MOST_SECONDS:
                        raise SystemExit(
                            f"not visible after {MOST_SECONDS:.0f} s: {find_pending(store, models).reason}"
                        )
                    time.sleep(LOOK_SECONDS)
                return time.monotonic() - since

            replay.bulk()
            print(f"{mode:6}  start, models and first content: {visible(time.monotonic()):.1f} s", flush=True)
            rows = dataset.flights_between(BULK_UNTIL + DAY, BULK_UNTIL + DAY * 3).select(ACTUALS)
            size = max(1, rows.num_rows // epochs)
            found = []
            for n in range(epochs):
                began = time.monotonic()
                replay.drop(f"flights/freshness-{n:04}.csv", rows.slice(n * size, size))
                found.append(visible(began))
                time.sleep(max(0.0, began + 1.0 - time.monotonic()))
    return found


if __name__ == "__main__":
    sys.exit(main())
