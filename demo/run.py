"""`make demo`: lands a year of flights, lets Dagster's sensor keep the views up to date, and proves them right at the end."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import dagster as dg
from rich.table import Table

from dagster_tideline.models.loader import Model, load_models
from dagster_tideline.services import (
    Services,
    build_project_environment,
    find_free_port,
    get_dagster_home,
    prepare_dagster_home,
)
from dagster_tideline.settings import Settings
from demo.dataset import Dataset, load_dataset
from demo.file_counts import RowCount
from demo.replay import DropReport, Replay
from demo.screen import Screen
from demo.stale import find_stale
from demo.verify import ViewVerdict, count_landed_rows, verify
from demo.watch import Watch, open_instance
from engine.runtime.spark.connect import TOKEN_VARIABLE
from engine.runtime.spark.session import connect
from tideline import Session, TidelineError

PROJECT = Path(__file__).resolve().parents[1]
BULK_UNTIL = datetime.date(2013, 12, 15)
BULK_SECONDS = 240.0
STEP_SECONDS = 120.0
LOOK_SECONDS = 0.1
PORT = 3000
GROUP = "flights"


class DemoFailed(TidelineError):
    """The demo did not come to its end, or a view is not what its query gives."""


def main() -> int:
    """Run the demo; 0 only if every view equals its batch recomputation and enough runs succeeded."""
    signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        started = time.monotonic()
        os.environ.setdefault("TIDELINE_ASSETS", str(PROJECT / "assets"))
        os.environ.setdefault("TIDELINE_RUNS", "driver")
        os.environ.setdefault("TIDELINE_EVENT_SECONDS", "2")
        settings = Settings.of_environment(PROJECT)
        home = settings.home
        os.environ.update(build_project_environment(settings))
        dataset = load_dataset()
        models = load_models(settings.assets)
        with Services(home, os.environ, PROJECT) as services:
            clear(home, models)
            began = datetime.datetime.now(datetime.UTC)
            print("starting Dagster and Spark …", flush=True)
            prepare_dagster_home(home, PROJECT)
            spark = None  # a driver has a Spark of its own
            if settings.runs == "tick":
                spark = services.start_spark_connect().address
                os.environ[TOKEN_VARIABLE] = services.environment[TOKEN_VARIABLE]
            page = services.start_dagster(find_free_port(PORT))
            print(f"the Dagster UI is at {page.address} while the demo runs", flush=True)
            play(home, dataset, models, services, spark, began)
        print(
            f"\nall good after {time.monotonic() - started:.0f} s; `make up` opens the UI over what was made"
        )
        return 0
    except KeyboardInterrupt:
        print("ended")
        return 130
    except TidelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def clear(home: Path, models: tuple[Model, ...]) -> None:
    """Drop the demo's tables and views and empty its landing folders; everything else of the project stays."""
    own = [model for model in models if model.group == GROUP]
    with Session(os.environ["TIDELINE_STORE"]) as session:
        for model in own:
            relation = session.catalog.relations.get(model.name)
            if relation is not None:
                session.sql(f"DROP {relation.kind.upper()} {model.name} CASCADE")
    for model in own:
        if model.kind == "table":
            shutil.rmtree(home / model.options["path"], ignore_errors=True)


def play(
    home: Path,
    dataset: Dataset,
    models: tuple[Model, ...],
    services: Services,
    spark: str | None,
    began: datetime.datetime,
) -> None:
    """Drop step after step, each as soon as every view has the one before, then compare and count."""
    replay = Replay(dataset, home / "landing", BULK_UNTIL)
    with (
        Session(os.environ["TIDELINE_STORE"]) as session,
        open_instance(get_dagster_home(home)) as instance,
    ):
        watch = Watch(session.store, instance, models, began)
        steps = replay.steps
        with Screen(len(steps) + 1) as screen:
            seconds = []
            for number, step in enumerate([replay.drop_bulk, *steps], start=1):
                limit = STEP_SECONDS if seconds else BULK_SECONDS
                text, passed = _run_step(screen, watch, services, step, limit)
                screen.show_done(number, f"[{number:2}/{len(steps) + 1}] {text}", watch.list_lines())
                seconds.append(passed)
            screen.show_progress("the last run ends", watch.list_lines())
            if not watch.await_idle(STEP_SECONDS):
                raise DemoFailed(f"the last run did not end within {STEP_SECONDS:.0f} s")
            screen.close()
            screen.say("\ncomparing every view with a batch run of its query, by Spark and by DuckDB …")
            batch = connect(spark)
            try:
                verdicts = verify(session.store, models, batch)
            finally:
                batch.stop()  # before its server: a client without a server waits for it at the program's end
            screen.console.print(_build_verdict_table(verdicts))
            counts = count_landed_rows(session.store, models, home)
            screen.console.print(_build_count_table(counts))
            screen.say(f"\nDagster calls all {_await_fresh(instance, models)} tables and views fresh")
        sensor_runs, failures = watch.list_runs(), watch.list_failures()
        screen.say(
            f"after the bulk, files were in every view after {statistics.median(seconds[1:]):.1f} s (median), "
            f"{max(seconds[1:]):.1f} s at most; runs that the sensor asked for: {len(sensor_runs)}, failed: {len(failures)}"
        )
        _judge(verdicts, counts, sensor_runs, failures)


def _run_step(
    screen: Screen, watch: Watch, services: Services, drop: Callable[[], DropReport], limit: float
) -> tuple[str, float]:
    """Drop files and wait until every view reflects them; returns a line that tells it, and the seconds."""
    dropped = drop()
    began = time.monotonic()
    while watch.find_pending():
        for service in services.started:
            service.check()
        passed = time.monotonic() - began
        if passed > limit:
            reasons = "\n".join(watch.list_failures()[-3:]) or watch.find_pending().reason
            raise DemoFailed(f"{dropped.title} was not taken within {limit:.0f} s: {reasons}")
        screen.show_progress(f"{dropped.title} ({dropped.rows:,} rows)", watch.list_lines())
        time.sleep(LOOK_SECONDS)
    passed = time.monotonic() - began
    text = f"{dropped.title}: {dropped.rows:,} rows in {dropped.files} files, every view is current after {passed:.1f} s"
    return text, passed


def _await_fresh(instance: dg.DagsterInstance, models: tuple[Model, ...]) -> int:
    """Wait until Dagster calls every table and view fresh, as a driver tells of them at distances; return how many there are."""
    names = [model.name for model in models if model.kind != "view"]
    deadline = time.monotonic() + STEP_SECONDS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)  # owners of sensors
        from dagster_project.definitions import defs  # of this environment

        while found := find_stale(instance, defs, names):
            if time.monotonic() > deadline:
                causes_text = "; ".join(f"{name} {', '.join(causes)}" for name, causes in found.items())
                raise DemoFailed(f"Dagster calls assets stale that are current: {causes_text}")
            time.sleep(1)
    return len(names)


def _build_verdict_table(verdicts: list[ViewVerdict]) -> Table:
    table = Table(title="view = its query?", title_justify="left")
    table.add_column("view", no_wrap=True)
    table.add_column("rows", justify="right")
    engines = list(dict.fromkeys(verdict.engine for verdict in verdicts))
    for engine in engines:
        table.add_column(f"batch by {engine}")
    for view in dict.fromkeys(verdict.view for verdict in verdicts):
        own = {verdict.engine: verdict for verdict in verdicts if verdict.view == view}
        said = ["equal" if own[engine].is_equal else own[engine].difference for engine in engines]
        table.add_row(view, f"{next(iter(own.values())).rows:,}", *said)
    return table


def _build_count_table(counts: list[RowCount]) -> Table:
    table = Table(title="table = its files?", title_justify="left")
    table.add_column("table", no_wrap=True)
    for title in ("files", "rows in the files", "rows in the store"):
        table.add_column(title, justify="right")
    for one in counts:
        table.add_row(one.table, f"{one.files:,}", f"{one.landed:,}", f"{one.held:,}")
    return table


def _judge(
    verdicts: list[ViewVerdict], counts: list[RowCount], sensor_runs: list[dg.DagsterRun], failures: list[str]
) -> None:
    wrong = sorted({verdict.view for verdict in verdicts if not verdict.is_equal})
    if wrong:
        raise DemoFailed(f"{', '.join(wrong)} differ from their queries: see the table above")
    lost = [one.table for one in counts if not one.is_equal]
    if lost:
        raise DemoFailed(f"{', '.join(lost)} have other rows than the files that landed: see the table above")
    if failures:
        raise DemoFailed(f"{len(failures)} runs failed, the last one: {failures[0]}")
    if not sensor_runs:
        raise DemoFailed("no run was asked for by the sensor: somebody else has brought the views on")


def _raise_interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
