"""One executor with one core against two with one core each: epochs of a million changes, a first build, a backfill.

`python -m benchmarks.scale_out [--rows 10000000] [--base 2000000] [--changes 1000000] [--epochs 5] [--executors 1 2]`

For each number of executors it starts a standalone Spark on loopback (a master, workers with one core and one executor each) and
a driver in a process of its own, over a new store. Where the system allows, each worker is bound to a processor of its own; the
driver is not, so on a machine of two processors it shares one with the second worker. The cases are those of `benchmarks.epochs`:
an epoch is `Session.flush()` of what has been written. The first build and the backfill, which goes step by step, are of views
over `--rows` rows. Each view is compared with DuckDB's answer. `driver` is what passed through the driver, of a flush and of
rows alike. Ends with 1 where two executors are less than 1.6 x as fast as one.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.epoch_cases import Case, Categories, Groups, Orders
from benchmarks.epochs import cpu_seconds
from engine.jars import pyspark_folder
from engine.session import Session

LIMIT = 1.6
WARM_UP = 1
ROOT = Path(__file__).resolve().parents[1]
EPOCHS: tuple[type[Case], ...] = (Groups, Categories, Orders)
BUILDS = {"first build": sys.maxsize, "backfill": 1_000_000}
"""What is made over all rows, and from how many rows on a view is made step by step."""
EXECUTOR_MEMORY, WORKER_MEMORY, DRIVER_MEMORY = "3g", "4g", "2g"
DEADLINE = 60.0


@dataclass(frozen=True)
class Part:
    """One thing that was measured: seconds of the wall, of the driver's processors, and bytes through the driver."""

    name: str
    seconds: float
    driver_cpu: float
    driver_bytes: int


@contextmanager
def standalone(workers: int) -> Iterator[dict[str, str]]:
    """Run a standalone Spark of one-core workers on loopback; gives what a driver has in its environment for it."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="tideline-spark-")))
        conf = folder / "conf"
        conf.mkdir()
        settings = {"spark.executor.memory": EXECUTOR_MEMORY, "spark.executor.cores": "1"}
        (conf / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in settings.items()))
        own = {
            **os.environ,
            "SPARK_HOME": str(pyspark_folder()),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "TIDELINE_DRIVER_MEMORY": DRIVER_MEMORY,
        }
        port = _free_port()
        master = f"spark://127.0.0.1:{port}"
        command = [str(pyspark_folder() / "bin" / "spark-class")]
        words = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        opened.enter_context(_running([*command, *words, "--webui-port", "0"], own, folder / "master.log"))
        _await(folder / "master.log", "I have been elected leader")
        for number in range(workers):
            words = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
            words += ["--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(folder / f"work{number}")]
            log = folder / f"worker{number}.log"
            opened.enter_context(_running([*_bound(number), *command, *words, master], own, log))
            _await(log, "Successfully registered")
        yield own | {"SPARK_REMOTE": master}


def _bound(number: int) -> list[str]:
    """Return what binds a worker to a processor of its own, if the machine has one for it."""
    processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return ["taskset", "--cpu-list", str(processors[number])] if number < len(processors) else []


@contextmanager
def _running(words: Sequence[str], own: Mapping[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as told:
        process = subprocess.Popen(
            words, env=dict(own), stdin=subprocess.DEVNULL, stdout=told, stderr=told, start_new_session=True
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def _await(log: Path, line: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while line not in log.read_text():
        if time.monotonic() > deadline:
            raise TimeoutError(f'no "{line}" within {DEADLINE:.0f} s:\n{log.read_text()[-3000:]}')
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def driven(given: argparse.Namespace) -> None:
    """The driver: measure everything over the Spark of the environment; prints a line of JSON for each part."""
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
        for make in EPOCHS:
            _tell(epochs(make(given.base), Path(folder), given.changes, given.epochs))
        for part in builds(Categories(given.rows), Path(folder)):
            _tell(part)


def epochs(case: Case, folder: Path, changes: int, count: int) -> Part:
    """Measure epochs of one case; the median counts."""
    with Session((folder / case.name).as_uri(), backfill_rows=sys.maxsize) as session:
        _write(session, case)
        session.sql(f"CREATE MATERIALIZED VIEW {case.view} AS {case.query}")
        measured = []
        for _ in range(WARM_UP + count):
            for change in case.epoch(changes):
                session.write(change.table, change.rows, mode=change.mode)
            measured.append(_flushed(f"{case.name}: {changes:,} changes", session))
        compare(session, case, case.view)
    kept = measured[WARM_UP:]
    typical = statistics.median_low([part.seconds for part in kept])
    return next(part for part in kept if part.seconds == typical)


def builds(case: Case, folder: Path) -> Iterator[Part]:
    """Measure the first content of a view over all rows, at once and step by step."""
    for number, (name, backfill_rows) in enumerate(BUILDS.items()):
        with Session((folder / "builds").as_uri(), backfill_rows=backfill_rows) as session:
            if number == 0:
                _write(session, case)
                session.computing  # noqa: B018  # a Spark that has started
            started, burnt = time.perf_counter(), cpu_seconds()
            view = f"{case.view}_{number}"
            session.sql(f"CREATE MATERIALIZED VIEW {view} AS {case.query}", build=False)
            part = _flushed(f"{name}: {case.rows:,} rows", session)
            seconds, burnt = time.perf_counter() - started, cpu_seconds() - burnt
            compare(session, case, view)
            session.sql(f"DROP MATERIALIZED VIEW {view}")
        yield Part(part.name, seconds, burnt, part.driver_bytes)


def _write(session: Session, case: Case) -> None:
    for table, ddl in case.ddl.items():
        session.sql(ddl)
        for chunk in case.content(table):
            session.write(table, chunk, mode="insert")


def _flushed(name: str, session: Session) -> Part:
    started, burnt = time.perf_counter(), cpu_seconds()
    before = session.store.counters.values().get("driver_bytes", 0)
    session.flush().raise_for_errors()
    passed = int(session.store.counters.values()["driver_bytes"] - before)
    return Part(name, time.perf_counter() - started, cpu_seconds() - burnt, passed)


def compare(session: Session, case: Case, view: str) -> None:
    """Raise AssertionError unless a view holds what DuckDB computes over the case's tables."""
    with duckdb.connect() as batch:
        for table in case.ddl:
            batch.register(table, _without_zones(pa.concat_tables(case.content(table))))
        columns = ", ".join(row[0] for row in batch.execute(f"DESCRIBE {case.query}").fetchall())
        batch.register("found", session.sql(f"SELECT {columns} FROM {view}"))
        asked = f"(SELECT {columns} FROM ({case.query}))"
        wrong = batch.execute(
            f"SELECT count(*) FROM ((FROM found EXCEPT ALL {asked}) UNION ALL ({asked} EXCEPT ALL FROM found))"
        ).fetchall()
    assert wrong == [(0,)], f"{view} differs from DuckDB's answer in {wrong[0][0]} rows"


def _without_zones(rows: pa.Table) -> pa.Table:
    """Return rows whose times are UTC without saying so; with zones DuckDB needs an extension of its own."""
    zoned = [pa.types.is_timestamp(column.type) for column in rows.schema]
    types = [
        pa.timestamp("us") if is_zoned else column.type
        for column, is_zoned in zip(rows.schema, zoned, strict=True)
    ]
    return rows.cast(pa.schema(list(zip(rows.column_names, types, strict=True))))


def _tell(part: Part) -> None:
    print(json.dumps(asdict(part)), flush=True)


def measured(given: argparse.Namespace, workers: int, console: Console) -> dict[str, Part]:
    """Return the parts by name with so many executors."""
    found = {}
    with standalone(workers) as own:
        words = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale_out", "--driven"]
        for name in ("rows", "base", "changes", "epochs"):
            words += [f"--{name}", str(getattr(given, name))]
        with subprocess.Popen(words, env=own, stdout=subprocess.PIPE, text=True, cwd=ROOT) as driver:
            assert driver.stdout is not None
            for line in driver.stdout:
                part = Part(**json.loads(line))
                found[part.name] = part
                console.print(
                    f"  {workers} executor(s): {part.name} in {part.seconds:.1f} s", highlight=False
                )
        if driver.returncode:
            raise SystemExit(f"the driver ended with {driver.returncode}")
    return found


def parsed() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--base", type=int, default=2_000_000)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--driven", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure with each number of executors and print both, with their ratio."""
    given = parsed()
    if given.driven:
        driven(given)
        return 0
    console = Console(width=140 if not sys.stdout.isatty() else None)
    found = {workers: measured(given, workers, console) for workers in given.executors}
    few, many = min(found), max(found)
    shown = Table(
        *["", *(f"{n} executor(s) s" for n in found), "times as fast", "driver's CPU s", "driver's bytes"]
    )
    for column in shown.columns[1:]:
        column.justify = "right"
    slow = []
    for name, part in found[many].items():
        ratio = found[few][name].seconds / part.seconds
        slow += [name] if ratio < LIMIT else []
        seconds = [f"{found[n][name].seconds:.2f}" for n in found]
        shown.add_row(name, *seconds, f"{ratio:.2f}", f"{part.driver_cpu:.1f}", f"{part.driver_bytes:,}")
    console.print(shown)
    console.print(f"{os.cpu_count()} processors on this machine, driver and executors on it", highlight=False)
    if few == many:
        return 0
    console.print(
        f"at least {LIMIT} x: " + ("all" if not slow else "not " + ", ".join(slow)), highlight=False
    )
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
