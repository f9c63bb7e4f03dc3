"""Seconds of an epoch of one small view, and of eight, in a process with Spark in it and in one that reaches it by Spark Connect.

`python -m benchmarks.over_connect [--epochs 40]` runs the two beside each other, epoch by epoch in turn, each in a process of its
own that stays, over the demo's flights; then it compares their views. The limit is 1.5.
"""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from dagster_tideline.models.loader import load_models
from dagster_tideline.services import Services
from dagster_tideline.sync import sync_models
from demo.dataset import ACTUALS, load_dataset
from demo.replay import DAY, Replay
from engine.connectors.sources import poll_all
from engine.session import Session

PROJECT = Path(__file__).resolve().parents[1]
BULK_UNTIL = datetime.date(2013, 12, 15)
ONE = "delay_by_carrier_day"
HOWS = ("in process", "by Connect")
WARM_EPOCHS = 6
LIMIT = 1.5


def run_worker(pipe: Connection, home: Path, spark: str) -> None:
    """Take a file an epoch, whenever asked, and answer with the seconds; at the end with the views."""
    os.environ["TIDELINE_HOME"] = str(home)
    with Session((home / "store").as_uri(), spark) as session:
        sync_models(session, load_models(home / "assets"))
        replay = Replay(load_dataset(), home / "landing", BULK_UNTIL)
        replay.drop_bulk()
        poll_all(session.catalog, session.store)
        session.flush().raise_for_errors()
        rows = replay.dataset.select_flights(BULK_UNTIL + DAY, BULK_UNTIL + DAY * 8).select(ACTUALS)
        views = [n for n, r in session.catalog.relations.items() if r.kind == "materialized view"]
        pipe.send(len(views))
        while (number := pipe.recv()) is not None:
            replay.drop_file(f"flights/epoch-{number:05}.csv", rows.slice(number * 12, 12))
            poll_all(session.catalog, session.store)
            began = time.perf_counter()
            session.flush().raise_for_errors()
            pipe.send(time.perf_counter() - began)
        pipe.send({view: _sort_rows(session.sql(f"SELECT * FROM {view}")) for view in views})


def _sort_rows(rows: pa.Table | None) -> pa.Table:
    assert rows is not None
    names = sorted(rows.column_names)
    return rows.select(names).sort_by([(name, "ascending") for name in names])


def measure(home: Path, address: str, views: int, epochs: int) -> float:
    """Run epochs in both ways in turn, print a line for each, and return how many times as long one takes by Connect."""
    context = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    for how, spark in zip(HOWS, ("local[*]", address), strict=True):
        folder = home / f"{how}-{views}"
        shutil.copytree(PROJECT / "assets", folder / "assets")
        if views == 1:
            for model in (folder / "assets").rglob("*.sql"):
                text = model.read_text()
                if "MATERIALIZED VIEW" in text and model.stem != ONE:
                    model.unlink()
        pipe, other = context.Pipe()
        context.Process(target=run_worker, args=(other, folder, spark), daemon=True).start()
        assert pipe.recv() == views
        pipes.append(pipe)
    seconds: list[list[float]] = [[], []]
    for number in range(WARM_EPOCHS + epochs):
        for took, pipe in zip(seconds, pipes, strict=True):
            pipe.send(number)
            took.append(pipe.recv())
    found = []
    for pipe in pipes:
        pipe.send(None)
        found.append(pipe.recv())
    if found[0] != found[1]:
        raise SystemExit(
            f"the views differ: {[name for name in found[0] if found[0][name] != found[1][name]]}"
        )
    medians = [statistics.median(took[WARM_EPOCHS:]) for took in seconds]
    ratio = medians[1] / medians[0]
    medians_text = ", ".join(f"{how} {median:.3f} s" for how, median in zip(HOWS, medians, strict=True))
    print(
        f"{views} views, {epochs} epochs of 12 rows: {medians_text}: {ratio:.2f} x (limit {LIMIT}); views are equal",
        flush=True,
    )
    return ratio


def main() -> int:
    """Measure one view and eight."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tideline-connect-") as folder:
        home = Path(folder)
        with Services(home, {"TIDELINE_STORE": ""}, PROJECT) as services:
            services.start_spark_connect()
            os.environ.update(services.environment)
            address = os.environ.pop("SPARK_REMOTE")
            for views in (1, 8):
                measure(home, address, views, given.epochs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
