"""From a file that lands to the views that show it, as a driver and as runs of their own bring them on, undisturbed and not.

`python -m benchmarks.freshness [--modes driver tick kill slow flight]` starts Dagster (and for `tick` a warm Spark)
over a project of its own in a temporary folder: the demo's flights and its eight views. After the bulk it drops a file of some
flights each second, or as soon as the one before is visible.

- `driver`, `tick`: how long each file took until all views show it.
- `kill`: the driver is killed again and again; how long until a file that lands then is visible.
- `slow`: the eight views beside one that takes five seconds an epoch, as it waits for something or as it computes, and how long
  they take alone; then the driver is killed again and again.
- `flight`: epochs a second of a session as a driver has it, in this process, over a store that takes 80 ms longer to answer,
  with several epochs in flight and with one.

After each mode all views are compared with their queries over all rows, by Spark and by DuckDB.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
import pyarrow as pa
from dagster import DagsterRunStatus, RunsFilter

from dagster_tideline.driver.driver_job import DRIVER_RUN, READY_TAG
from dagster_tideline.models.loader import Model, load_models
from dagster_tideline.runs.asset_builder import WORKER_TAG
from dagster_tideline.runs.pending import DRIVER_RETRIES, find_pending
from dagster_tideline.services import Services, build_project_environment, get_dagster_home
from dagster_tideline.settings import Settings
from dagster_tideline.sync import sync_models
from demo.dataset import ACTUALS, load_dataset
from demo.replay import DAY, Replay
from demo.verify import verify
from engine.connectors.polling import SourcePoller
from engine.connectors.sources import poll_all
from engine.hummock import Hummock, Version
from engine.runtime.spark.session import connect
from engine.session import Session

BULK_UNTIL = datetime.date(2013, 12, 15)
PROJECT = Path(__file__).resolve().parents[1]
MODES = ("driver", "tick", "kill", "slow", "flight")
MOST_SECONDS = 300.0
LOOK_SECONDS = 0.02
DELAY_MS = 80
IN_FLIGHT = 4
SLOW = "slow_view"
SLOW_SECONDS = 5
SLOW_MODELS = {
    "waits": """CREATE MATERIALIZED VIEW slow_view WITH (pandera = 'slow_checks:schema') AS
SELECT carrier, count(*) AS n FROM flights GROUP BY carrier;
""",
    "computes": """CREATE MATERIALIZED VIEW slow_view WITH (refresh_policy = 'full') AS
SELECT carrier, sum(length(tailnum) + n % 7) AS s FROM (
  SELECT carrier, tailnum, explode(sequence(1, 300)) AS n FROM flights
) AS many GROUP BY carrier;
""",
}
"""A view whose rows are judged by something that takes its time to answer, and one that keeps a core busy."""
SLOW_CHECKS = f"""import time

import pandera.pandas as pandera


def answers(frame: object) -> bool:
    time.sleep({SLOW_SECONDS})
    return True


schema = pandera.DataFrameSchema({{}}, checks=pandera.Check(answers))
"""


def main() -> int:
    """Measure each mode, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=3, help="drivers that mode kill kills")
    parser.add_argument("--kills-beside", type=int, default=20, help="drivers that mode slow kills")
    given = parser.parse_args()
    for mode in given.modes:
        with tempfile.TemporaryDirectory(prefix="tideline-freshness-") as folder:
            home = Path(folder)
            if mode in ("driver", "tick"):
                with run_project(home, mode) as project:
                    print(format_seconds(mode, project.land_files(given.epochs)), flush=True)
            elif mode == "kill":
                measure_kills(home, given.kills)
            elif mode == "slow":
                measure_beside_slow(home, given.epochs // 2, given.kills_beside)
            else:
                measure_in_flight(home, given.epochs)
            if mode != "slow":
                check_views(home)
    return 0


def format_seconds(what: str, seconds: Sequence[float]) -> str:
    """Return how long files took, as a line."""
    last = sorted(seconds)[max(0, round(0.99 * len(seconds)) - 1)]
    return (
        f"{what:6}  {len(seconds)} files: median {statistics.median(seconds):.2f} s, "
        f"99 of 100 within {last:.2f} s, longest {max(seconds):.2f} s"
    )


@dataclass
class BenchmarkProject:
    """A project whose services run: its models, its store, and the files that are to land."""

    home: Path
    services: Services
    store: Hummock
    models: list[Model]
    replay: Replay
    dropped: int = 0
    left_out: Collection[str] = ()
    rows: pa.Table = field(init=False)

    def __post_init__(self) -> None:
        data = self.replay.dataset
        self.rows = data.select_flights(BULK_UNTIL + DAY, BULK_UNTIL + DAY * 8).select(ACTUALS)

    def drop_file(self, rows: int = 12) -> None:
        """Land one more file of some flights."""
        part = self.rows.slice(self.dropped * rows, rows)
        assert part.num_rows, "there are no more flights to land"
        self.replay.drop_file(f"flights/freshness-{self.dropped:05}.csv", part)
        self.dropped += 1

    def await_visible(self, since: float) -> float:
        """Wait until all views, but those that are left out, show what has landed; return the seconds since then."""
        while pending := find_pending(self.store, self.models, busy=self.left_out):
            for service in self.services.started:
                service.check()
            if time.monotonic() - since > MOST_SECONDS:
                raise SystemExit(f"not visible after {MOST_SECONDS:.0f} s: {pending.reason}")
            time.sleep(LOOK_SECONDS)
        return time.monotonic() - since

    def land_files(self, files: int) -> list[float]:
        """Land a file each second, or as soon as the one before is visible; return how long each took."""
        found = []
        for _ in range(files):
            began = time.monotonic()
            self.drop_file()
            found.append(self.await_visible(began))
            time.sleep(max(0.0, began + 1.0 - time.monotonic()))
        return found

    def kill_driver(self) -> bool:
        """Kill the process of the driver that is at work; tell whether there was one."""
        with dg.DagsterInstance.from_config(str(get_dagster_home(self.home))) as instance:
            started = RunsFilter(job_name=DRIVER_RUN, statuses=[DagsterRunStatus.STARTED])
            for run in instance.get_runs(started):
                pid = run.tags.get(WORKER_TAG, "").rpartition(":")[2]
                if pid.isdigit() and READY_TAG in run.tags:
                    os.kill(int(pid), signal.SIGKILL)
                    return True
        return False


@contextmanager
def run_project(home: Path, mode: str, extra: str = "") -> Iterator[BenchmarkProject]:
    """Start a project's services, land the bulk and wait until it is visible; `extra` is a further model's text."""
    assets = PROJECT / "assets"
    if extra:
        assets = home / "assets"
        shutil.copytree(PROJECT / "assets", assets)
        (assets / "extra.sql").write_text(extra)
        (home / "slow_checks.py").write_text(SLOW_CHECKS)
    settings = Settings(project=PROJECT, home=home, assets=assets, store=_get_store(home))
    environment = {
        **build_project_environment(settings),
        "TIDELINE_RUNS": mode,
        "TIDELINE_ASSETS": str(assets),
    }
    environment["PYTHONPATH"] = os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")])
    os.environ.update(environment)
    models = load_models(settings.assets)
    replay = Replay(load_dataset(), home / "landing", BULK_UNTIL)
    with Services(home, environment, PROJECT) as services:
        if mode == "tick":
            services.start_spark_connect()
        services.start_dagster()
        with Hummock.open(settings.store) as store:
            project = BenchmarkProject(home, services, store, models, replay)
            replay.drop_bulk()
            seconds = project.await_visible(time.monotonic())
            print(f"{mode:6}  start, models and first content: {seconds:.1f} s", flush=True)
            yield project


def measure_kills(home: Path, kills: int) -> None:
    """Kill the driver, land a file, and wait for it, again and again."""
    with run_project(home, "driver") as project:
        project.land_files(5)
        found = []
        for _ in range(kills):
            assert project.kill_driver(), "no driver is at work"
            began = time.monotonic()
            project.drop_file()
            found.append(project.await_visible(began))
            project.land_files(3)
        seconds_text = ", ".join(f"{seconds:.1f}" for seconds in found)
        print(f"kill    {kills} drivers killed: the next file was visible after {seconds_text} s", flush=True)


def measure_beside_slow(home: Path, epochs: int, kills: int) -> None:
    """Land files without a slow view, beside one that waits and one that computes, and kill drivers beside the first."""
    medians = {}
    for kind in ("alone", *SLOW_MODELS):
        with run_project(home / kind, "driver", SLOW_MODELS.get(kind, "")) as project:
            project.left_out = (SLOW,)
            found = project.land_files(epochs)
            medians[kind] = statistics.median(found)
            print(format_seconds(kind, found), flush=True)
            done = 0
            while kind == "waits" and done < kills:
                done += project.kill_driver()
                project.drop_file()
                time.sleep(1.0)
            project.left_out = ()
            seconds = project.await_visible(time.monotonic())
            print(f"{kind:8}  {done} drivers killed; all visible after {seconds:.1f} s", flush=True)
        check_views(home / kind)
    for kind in SLOW_MODELS:
        ratio = medians[kind] / medians["alone"]
        limit = " (limit 1.2)" if kind == "waits" else ", which keeps a core busy"
        print(f"slow    median beside a view that {kind}{limit}: {ratio:.2f} x", flush=True)


def measure_in_flight(home: Path, epochs: int) -> None:
    """Commit epoch after epoch in this process over a store that takes longer to answer, with and without epochs in flight."""
    os.environ["TIDELINE_HOME"] = str(home)
    models = load_models(PROJECT / "assets")
    replay = Replay(load_dataset(), home / "landing", BULK_UNTIL)
    with Session(_get_store(home), "local[*]") as session:
        sync_models(session, models)
        replay.drop_bulk()
        poll_all(session.catalog, session.store)
        session.flush().raise_for_errors()
    rows = replay.dataset.select_flights(BULK_UNTIL + DAY, BULK_UNTIL + DAY * 8).select(ACTUALS)
    speeds: dict[int, list[float]] = {1: [], IN_FLIGHT: []}
    parts = (rows.slice(at, 12) for at in range(0, rows.num_rows, 12))
    for number in range(4):
        most = (1, IN_FLIGHT)[number % 2]
        os.environ["TIDELINE_STORE_DELAY_MS"] = str(DELAY_MS)
        try:
            with Session(_get_store(home), "local[*]", epochs_in_flight=most) as session:
                speeds[most].append(_measure_epoch_rate(session, replay, parts, epochs // 4, most))
        finally:
            del os.environ["TIDELINE_STORE_DELAY_MS"]
        print(
            f"flight  {most} in flight, {DELAY_MS} ms a request: {speeds[most][-1]:.2f} epochs a second",
            flush=True,
        )
    ratio = statistics.median(speeds[IN_FLIGHT]) / statistics.median(speeds[1])
    print(
        f"flight  {IN_FLIGHT} epochs in flight: {ratio:.2f} x as many a second as one (limit 2)", flush=True
    )


def _measure_epoch_rate(
    session: Session, replay: Replay, parts: Iterator[pa.Table], epochs: int, most: int
) -> float:
    """Land a file an epoch; with more than one in flight the next file lands while an epoch is computed, as in a driver."""
    tables = [name for name, relation in session.catalog.relations.items() if relation.kind == "table"]
    polling = (
        SourcePoller(session.store, tables, session.epochs.store.refresh, DRIVER_RETRIES)
        if most > 1
        else None
    )
    on_their_way: deque[Future[Version] | None] = deque()
    began = 0.0

    def drop_next() -> None:
        replay.drop_file(f"flights/flight-{most}-{time.time_ns()}.csv", next(parts))

    if polling is not None:
        drop_next()
    for n in range(5 + epochs):
        if n == 5:
            began = time.monotonic()
        if polling is None:
            drop_next()
            reports = poll_all(session.catalog, session.store)
        else:
            assert polling.wait(MOST_SECONDS), "no file was landed"
            reports = polling.take_reports()
            if n < 4 + epochs:
                drop_next()
        assert sum(report.rows for report in reports), "an epoch had nothing to take"
        session.flush(eager=False, wait=False).raise_for_errors()
        on_their_way.append(session.epochs.commit_in_flight)
        if len(on_their_way) >= most and (first := on_their_way.popleft()) is not None:
            first.result()
    session.flush().raise_for_errors()
    seconds = time.monotonic() - began
    if polling is not None:
        polling.close()
    return epochs / seconds


def check_views(home: Path) -> None:
    """Compare all views of a project's store with their queries over all rows; raises SystemExit if one differs."""
    assets = home / "assets" if (home / "assets").is_dir() else PROJECT / "assets"
    models = load_models(assets)
    with Hummock.open(_get_store(home)) as store:
        verdicts = verify(store, models, connect("local[*]"))
    wrong = [f"{v.view} by {v.engine}: {v.difference}" for v in verdicts if not v.is_equal]
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"        all views equal: {len(verdicts)} comparisons by Spark and DuckDB", flush=True)


def _get_store(home: Path) -> str:
    return (home / ".tideline" / "store").as_uri()


if __name__ == "__main__":
    sys.exit(main())
