"""One executor with one core against two with one core each: epochs of a million changes, a first build, a backfill.

`python -m benchmarks.scale_out [--rows 10000000] [--base 2000000] [--changes 1000000] [--epochs 5] [--builds 3]
[--executors 1 2] [--cases groups categories wide "first build" backfill] [--apart]`

For each number of executors it starts a standalone Spark on loopback (a master, workers with one core and one executor each) and
a driver in a process of its own, over a new store. Where the system allows, each worker is bound to a processor of its own; the
driver is not, so on a machine of two processors it shares one with the second worker. Stores and what Spark moves are in memory
where the machine has a folder there: it has one disk, whatever the number of executors. The cases are those of
`benchmarks.epochs`: an epoch is `Session.flush()` of what has been written. The first build and the backfill, which goes
step by step, are of views over `--rows` rows.

The clusters take turns, round by round, while the others rest: what else the machine does meets all of them. Of seconds the
median of the rounds is shown, and of how many times as fast the most executors are the median, too. The first rounds do not
count: executors that have just started compile their code. Each view is compared with DuckDB's answer. `driver` is what passed
through the driver, of a flush and of rows alike. Ends with 1 where two executors are less than 1.6 x as fast as one.

With `--apart`, two clusters of one executor each, which share no driver, store or row, then do the same round at the same time,
each executor on a processor of its own. How many times as much they get done as one cluster alone is what this machine gives to
work that has no serial part at all; `apart` shows it, and no executors of one driver can do more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.epoch_cases import BenchmarkCase, BidGroups, Categories, Orders
from benchmarks.processors import measure_machine, measure_processors
from engine.jars import find_pyspark_folder
from engine.session import Session

LIMIT = 1.6
EPOCHS_WARM_UP, BUILDS_WARM_UP = 4, 1
"""Rounds that do not count."""
ROOT = Path(__file__).resolve().parents[1]
EPOCHS: tuple[type[BenchmarkCase], ...] = (BidGroups, Categories, Orders)
BUILDS = {"first build": sys.maxsize, "backfill": 1_000_000}
"""What is made over all rows, and from how many rows on a view is made step by step."""
EXECUTOR_MEMORY, WORKER_MEMORY, DRIVER_MEMORY = "3g", "4g", "2g"
DEADLINE = 60.0
ROOM_BYTES = 8 << 30
APART = -2
"""Stands where a number of executors does, for two clusters of one executor each that work at the same time."""


@dataclass(frozen=True)
class Measurement:
    """One thing that was measured: seconds of the wall, of processors (the driver's, the machine's), bytes through the driver."""

    name: str
    seconds: float
    driver_cpu: float
    machine_cpu: float
    driver_bytes: int


def find_memory_folder() -> str | None:
    """Return a folder that is in memory and has room for both stores, and what Spark moves; None where there is none.

    All executors of a machine write to one disk, which a second one does not make faster.
    """
    folder = Path("/dev/shm")
    return str(folder) if folder.is_dir() and shutil.disk_usage(folder).free >= ROOM_BYTES else None


@contextmanager
def run_standalone(
    workers: int, scratch: str | None = None, first_processor: int = 0
) -> Iterator[dict[str, str]]:
    """Run a standalone Spark of one-core workers on loopback; gives what a driver has in its environment for it.

    What tasks move is written beneath `scratch`, a folder, if one is given. Workers are bound to processors from the first on.
    """
    with ExitStack() as opened:
        made = tempfile.TemporaryDirectory(prefix="tideline-spark-", dir=scratch)
        folder = Path(opened.enter_context(made))
        conf = folder / "conf"
        conf.mkdir()
        settings = {"spark.executor.memory": EXECUTOR_MEMORY, "spark.executor.cores": "1"}
        (conf / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in settings.items()))
        own = {
            **os.environ,
            "SPARK_HOME": str(find_pyspark_folder()),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_LOCAL_DIRS": str(folder),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "TIDELINE_DRIVER_MEMORY": DRIVER_MEMORY,
        }
        port = _find_free_port()
        master = f"spark://127.0.0.1:{port}"
        command = [str(find_pyspark_folder() / "bin" / "spark-class")]
        words = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        opened.enter_context(
            _run_process([*command, *words, "--webui-port", "0"], own, folder / "master.log")
        )
        _await(folder / "master.log", "I have been elected leader")
        for number in range(workers):
            bound = _bind_worker(first_processor + number)
            words = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
            words += ["--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", str(folder / f"work{number}")]
            log = folder / f"worker{number}.log"
            opened.enter_context(_run_process([*bound, *command, *words, master], own, log))
            _await(log, "Successfully registered")
        yield own | {"SPARK_REMOTE": master}


def _bind_worker(number: int) -> list[str]:
    """Return what binds a worker to a processor of its own, if the machine has one for it."""
    processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return ["taskset", "--cpu-list", str(processors[number])] if number < len(processors) else []


@contextmanager
def _run_process(words: Sequence[str], own: Mapping[str, str], log: Path) -> Iterator[None]:
    with log.open("wb") as log_file:
        process = subprocess.Popen(
            words,
            env=dict(own),
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
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


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_driver(given: argparse.Namespace) -> None:
    """The driver: prepare or measure a round for each line that comes, over the Spark of the environment.

    It prints a line of JSON for each: null for a round that stands ready, then what was measured.
    """
    with tempfile.TemporaryDirectory(prefix="tideline-bench-", dir=find_memory_folder()) as folder:
        measuring = measure_rounds(given, Path(folder))
        for _ in sys.stdin:
            part = next(measuring)
            print(json.dumps(part and asdict(part)), flush=True)
        measuring.close()


def plan_rounds(given: argparse.Namespace) -> Iterator[bool]:
    """Yield for each round of a driver, in their order, whether it counts."""
    for _ in list_epoch_cases(given):
        yield from [False] * EPOCHS_WARM_UP + [True] * given.epochs
    for _ in list_builds(given):
        yield from [False] * BUILDS_WARM_UP + [True] * given.builds


def measure_rounds(given: argparse.Namespace, folder: Path) -> Generator[Measurement | None]:
    """Yield None when a round stands ready, and then what has been measured, for each round."""
    for make in list_epoch_cases(given):
        yield from measure_epochs(make(given.base), folder, given.changes, EPOCHS_WARM_UP + given.epochs)
    if names := list_builds(given):
        yield from measure_builds(names, Categories(given.rows), folder, BUILDS_WARM_UP + given.builds)


def list_epoch_cases(given: argparse.Namespace) -> list[type[BenchmarkCase]]:
    """Return the cases of which epochs are measured."""
    return [case for case in EPOCHS if case.name in given.cases]


def list_builds(given: argparse.Namespace) -> list[str]:
    """Return what is made over all rows and measured."""
    return [name for name in BUILDS if name in given.cases]


def measure_epochs(
    case: BenchmarkCase, folder: Path, changes: int, count: int
) -> Iterator[Measurement | None]:
    """Measure epochs of one case."""
    with Session((folder / case.name).as_uri(), backfill_rows=sys.maxsize) as session:
        _write(session, case)
        session.sql(f"CREATE MATERIALIZED VIEW {case.view} AS {case.query}")
        for number in range(count):
            for change in case.generate_changes(changes):
                session.write(change.table, change.rows, mode=change.mode)
            yield None
            part = _measure(
                f"{case.name}: {changes:,} changes", session, lambda: session.flush().raise_for_errors()
            )
            if number == count - 1:
                compare(session, case, case.view)
            yield part


def measure_builds(
    names: Sequence[str], case: BenchmarkCase, folder: Path, count: int
) -> Iterator[Measurement | None]:
    """Measure the first content of views over all rows, at once and step by step."""
    store = (folder / "builds").as_uri()
    with Session(store) as session:
        _write(session, case)
    for name in names:
        for _ in range(count):
            yield from _measure_build(name, case, store)


def _measure_build(name: str, case: BenchmarkCase, store: str) -> Iterator[Measurement | None]:
    """Measure one first content of a view, from its statement on, with a Spark that has started."""
    with Session(store, backfill_rows=BUILDS[name]) as session:
        session.computing  # noqa: B018  # starts Spark
        yield None

        def build() -> None:
            session.sql(f"CREATE MATERIALIZED VIEW {case.view} AS {case.query}", build=False)
            session.flush().raise_for_errors()

        part = _measure(f"{name}: {case.rows:,} rows", session, build)
        compare(session, case, case.view)
        session.sql(f"DROP MATERIALIZED VIEW {case.view}")
    yield part


def _write(session: Session, case: BenchmarkCase) -> None:
    for table, ddl in case.ddl.items():
        session.sql(ddl)
        for chunk in case.generate_content(table):
            session.write(table, chunk, mode="insert")


def _measure(name: str, session: Session, work: Callable[[], None]) -> Measurement:
    started, driver, machine = time.perf_counter(), measure_processors().total, measure_machine()
    before = session.store.metrics()
    work()
    passed = sum(session.store.metrics().since(before).driver_bytes.values())
    seconds = time.perf_counter() - started
    return Measurement(
        name, seconds, measure_processors().total - driver, measure_machine() - machine, passed
    )


def compare(session: Session, case: BenchmarkCase, view: str) -> None:
    """Raise AssertionError unless a view holds what DuckDB computes over the case's tables."""
    with duckdb.connect() as batch:
        for table in case.ddl:
            batch.register(table, _strip_zones(pa.concat_tables(case.generate_content(table))))
        columns = ", ".join(row[0] for row in batch.execute(f"DESCRIBE {case.query}").fetchall())
        batch.register("found", session.sql(f"SELECT {columns} FROM {view}"))
        expected = f"(SELECT {columns} FROM ({case.query}))"
        wrong = batch.execute(
            f"SELECT count(*) FROM ((FROM found EXCEPT ALL {expected}) UNION ALL ({expected} EXCEPT ALL FROM found))"
        ).fetchall()
    assert wrong == [(0,)], f"{view} differs from DuckDB's answer in {wrong[0][0]} rows"


def _strip_zones(rows: pa.Table) -> pa.Table:
    """Return rows whose times are UTC without saying so; with zones DuckDB needs an extension of its own."""
    zoned = [pa.types.is_timestamp(column.type) for column in rows.schema]
    types = [
        pa.timestamp("us") if is_zoned else column.type
        for column, is_zoned in zip(rows.schema, zoned, strict=True)
    ]
    return rows.cast(pa.schema(list(zip(rows.column_names, types, strict=True))))


class Driver:
    """A driver in a process of its own, which measures rounds when asked."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def request(self) -> None:
        """Have it go on: to the next round that stands ready, or to measure that."""
        assert self._process.stdin is not None
        self._process.stdin.write("next\n")
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any] | None:
        """Wait for what it has to say to a request."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the driver ended with {self._process.wait()}")
        found: dict[str, Any] | None = json.loads(line)
        return found


@contextmanager
def start_driver(given: argparse.Namespace, workers: int, first_processor: int = 0) -> Iterator[Driver]:
    """Start a cluster of so many executors and its driver."""
    with run_standalone(workers, find_memory_folder(), first_processor) as own:
        words = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale_out", "--driven"]
        for name in ("rows", "base", "changes", "epochs", "builds"):
            words += [f"--{name}", str(getattr(given, name))]
        words += ["--cases", *given.cases]
        with subprocess.Popen(
            words, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as process:
            assert process.stdin is not None
            yield Driver(process)
            process.stdin.close()


def measure_at_once(drivers: Sequence[Driver]) -> Measurement:
    """Have drivers measure their next round at the same time; gives the last one's seconds."""
    for driver in drivers:
        driver.request()
        driver.receive()
    for driver in drivers:
        driver.request()
    parts = [Measurement(**(driver.receive() or {})) for driver in drivers]
    return max(parts, key=lambda part: part.seconds)


def measure_all(given: argparse.Namespace, console: Console) -> dict[str, dict[int, list[Measurement]]]:
    """Return the rounds that count of each part, by the number of executors, which took turns; those apart are `APART`."""
    found: dict[str, dict[int, list[Measurement]]] = {}
    with ExitStack() as opened:
        drivers = {n: [opened.enter_context(start_driver(given, n))] for n in given.executors}
        if given.apart:
            drivers[APART] = [opened.enter_context(start_driver(given, 1, number)) for number in range(2)]
        for counts in plan_rounds(given):
            for workers, measured in drivers.items():
                part = measure_at_once(measured)
                if counts:
                    found.setdefault(part.name, {}).setdefault(workers, []).append(part)
                line = f"  {name_cluster(workers)}: {part.name} in {part.seconds:.2f} s"
                console.print(line if counts else f"{line}, which does not count", highlight=False)
    return found


def name_cluster(workers: int) -> str:
    """Return what a number of executors is called."""
    return "two apart" if workers == APART else f"{workers} executor(s)"


def parse_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--base", type=int, default=2_000_000)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--builds", type=int, default=3)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2])
    cases = [*(case.name for case in EPOCHS), *BUILDS]
    parser.add_argument("--cases", nargs="+", choices=cases, default=cases)
    parser.add_argument("--apart", action="store_true", help="also two clusters at once that share nothing")
    parser.add_argument("--driven", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _compare_seconds(some: Sequence[Measurement], others: Sequence[Measurement]) -> float:
    """Return the median of how many times as long rounds took as others, which took turns with them."""
    pairs = zip(some, others, strict=True)
    return statistics.median([one.seconds / other.seconds for one, other in pairs])


def main() -> int:
    """Measure with each number of executors and print both, with their ratio."""
    given = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends what was started
    if given.driven:
        run_driver(given)
        return 0
    console = Console(width=140 if not sys.stdout.isatty() else None)
    found = measure_all(given, console)
    few, many = min(given.executors), max(given.executors)
    names = [f"{name_cluster(workers)} s" for workers in given.executors]
    apart = ["apart"] if given.apart else []
    table = Table("", *names, "times as fast", *apart, "CPU s of each", "driver's CPU s", "driver's bytes")
    for column in table.columns[1:]:
        column.justify = "right"
    slow = []
    for name, parts in found.items():
        ratio = _compare_seconds(parts[few], parts[many])
        slow += [name] if ratio < LIMIT else []
        medians = [statistics.median(part.seconds for part in parts[n]) for n in given.executors]
        cells = [*(f"{s:.2f}" for s in medians), f"{ratio:.2f}"]
        if given.apart:
            cells.append(f"{2 * _compare_seconds(parts[few], parts[APART]):.2f}")
        cells.append(
            " ".join(
                f"{statistics.median(part.machine_cpu for part in parts[n]):.2f}" for n in given.executors
            )
        )
        cells.append(f"{statistics.median(part.driver_cpu for part in parts[many]):.1f}")
        table.add_row(name, *cells, f"{max(part.driver_bytes for part in parts[many]):,}")
    console.print(table)
    console.print(f"{os.cpu_count()} processors on this machine, driver and executors on it", highlight=False)
    if few == many:
        return 0
    console.print(
        f"at least {LIMIT} x: " + ("all" if not slow else "not " + ", ".join(slow)), highlight=False
    )
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
