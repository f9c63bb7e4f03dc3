"""What goes wrong around Dagster's services ends with a clear word and right views: cancelled, reloaded, killed, full, cut off."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from dagster_tideline.code_server import start_lost_code
from dagster_tideline.runs.run_log import CANCELLED_TEXT
from engine.errors import EnvironmentNotReady
from engine.hummock import Hummock
from engine.meta.domains.failures import list_failures
from engine.session import Session
from tests.dagster.served import ENDED, served, until
from tests.proxy import proxy

pytestmark = pytest.mark.crash

TABLE = "CREATE TABLE item (id BIGINT PRIMARY KEY, n BIGINT) WITH (connector = 'landing', path = 'landing/item');\n"
TOTALS = "SELECT n % 3 AS g, count(*) AS c, sum(n) AS s FROM item GROUP BY n % 3"
PAIRS = "SELECT count(*) AS c FROM item a JOIN item b ON (a.n * 7919 + b.n * 104729) % 1000003 < 3"
"""It tries every pair of rows: of some thousand rows for many seconds."""
MANY, FEW = 8_000, 50
JOBS = {"tick": "epoch_run", "driver": "driver"}


def view(name: str, query: str) -> str:
    return f"CREATE MATERIALIZED VIEW {name} AS {query};\n"


def rows(first: int, end: int) -> str:
    return "id,n\n" + "".join(f"{n},{n * 7}\n" for n in range(first, end))


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Hummock]:
    with Hummock.open((tmp_path / ".tideline" / "store").as_uri()) as store:
        yield store


def is_current(store: Hummock, *names: str) -> bool:
    """Tell whether views have content, and no newer change of `item` is without them."""
    tables = store.refresh().tables
    newest = tables["item"].last_change if "item" in tables else None
    return bool(newest) and all(
        name in tables and (tables[name].committed_epoch or 0) >= newest for name in names
    )


def judge(url: str, spark: SparkSession, count: int, **views: str) -> None:
    """Hold every view against DuckDB's answer to its query over the table, which has `count` rows, each of another key."""
    with Session(url, spark) as session, duckdb.connect() as batch:
        item = session.sql("SELECT * FROM item")
        assert item is not None and (item.num_rows, len(set(item["id"].to_pylist()))) == (count, count)
        batch.register("item", item)
        for name, query in views.items():
            kept = session.sql(f"SELECT * FROM {name}")
            assert kept is not None
            rows_kept = sorted(tuple(row.values()) for row in kept.to_pylist())
            assert rows_kept == sorted(batch.execute(query).fetchall()), name


def processes(home: Path) -> dict[int, str]:
    """Return the processes that have this project in their environment, with their command lines."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment, words = (folder / "environ").read_bytes(), (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if f"TIDELINE_HOME={home}\0".encode() in environment and words:
                found[int(folder.name)] = words.replace(b"\0", b" ").decode()
    return found


def seconds_of(process: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("runs", ["tick", "driver"])
def test_a_run_that_is_cancelled_in_the_page_leaves_nothing_behind_and_the_next_goes_on(
    tmp_path: Path, spark: SparkSession, stored: Hummock, runs: str
) -> None:
    models = {"m.sql": TABLE + view("totals", TOTALS) + view("pairs", PAIRS)}
    at_once = {"TIDELINE_SENSOR_WAIT": "0"}  # no tick that looks on while its sensor is stopped
    with served(tmp_path, models, runs=runs, warm=runs == "tick", environment=at_once) as project:
        project.land("item", "1.csv", rows(0, MANY))
        until(lambda: is_current(stored, "totals"), "totals")
        (run,) = project.runs(JOBS[runs], "STARTED")
        project.stop_sensors()
        before = processes(tmp_path)
        started = {pid: words for pid, words in before.items() if "java" in words}
        until(lambda: "barrier/pairs" in stored.refresh().catalog, "the second view's turn")
        spent = sum(map(seconds_of, started))
        until(lambda: sum(map(seconds_of, started)) > spent + 2, "work")
        project.terminate(run["runId"])
        until(lambda: project.run(run["runId"])["status"] in ENDED, "its end", 30)
        assert project.run(run["runId"])["status"] == "CANCELED"
        assert CANCELLED_TEXT in project.log(run["runId"])
        assert not list_failures(stored.refresh())
        assert "pairs" not in stored.version.tables
        if runs == "tick":  # the Spark that runs share lives, and is at rest
            (server,) = started
            resting(server)
        else:
            until(lambda: not [w for w in processes(tmp_path).values() if "java" in w], "Spark's end", 60)
        workers = [w for w in processes(tmp_path).values() if "multiprocessing.spawn" in w]
        until(lambda: not workers or not still(tmp_path, workers), "the end of the run's process", 60)
        project.land("item", "2.csv", rows(MANY, MANY + FEW))
        project.start_sensors()
        until(lambda: has_rows(stored, MANY + FEW) and is_current(stored, "totals", "pairs"), "both views")
    until(lambda: not processes(tmp_path), "the end of all processes", 30)
    judge(stored.url, spark, MANY + FEW, totals=TOTALS, pairs=PAIRS)


def still(home: Path, words: list[str]) -> bool:
    return any(one in words for one in processes(home).values())


def resting(process: int) -> None:
    """Wait until a process uses next to no processor time for two seconds."""
    seen = [seconds_of(process)]

    def rests() -> bool:
        seen.append(seconds_of(process))
        return len(seen) > 20 and seen[-1] - seen[-20] < 0.5

    until(rests, "rest", 60)


@pytest.mark.parametrize("runs", ["tick", "driver"])
def test_definitions_that_are_loaded_again_during_a_run_disturb_nothing(
    tmp_path: Path, spark: SparkSession, stored: Hummock, runs: str
) -> None:
    models = {"m.sql": TABLE + view("totals", TOTALS) + view("pairs", PAIRS)}
    changed = TOTALS.replace("% 3", "% 5")
    with served(tmp_path, models, runs=runs, warm=runs == "tick") as project:
        project.land("item", "1.csv", rows(0, MANY))
        until(lambda: is_current(stored, "totals"), "totals")
        (run,) = project.runs(JOBS[runs], "STARTED")
        project.model("m.sql", TABLE + view("totals", changed) + view("pairs", PAIRS))
        project.reload()
        project.land("item", "2.csv", rows(MANY, MANY + FEW))
        until(
            lambda: (
                has_rows(stored, MANY + FEW)
                and is_current(stored, "totals", "pairs")
                and "% 5" in stored.version.catalog["relation/totals"]
            ),
            "the changed view and the other",
        )
        until(lambda: project.run(run["runId"])["status"] in ENDED, "the run's end")
        assert project.run(run["runId"])["status"] == "SUCCESS", project.log(run["runId"])
        assert "Spark shows what it does at http://127.0.0.1:" in project.log(run["runId"])
    judge(stored.url, spark, MANY + FEW, totals=changed, pairs=PAIRS)


@pytest.mark.parametrize("words", ["dagster._daemon", "dagster_webserver"])
def test_a_daemon_or_page_that_is_killed_ends_the_services_with_its_name_and_the_next_start_goes_on(
    tmp_path: Path, spark: SparkSession, stored: Hummock, words: str
) -> None:
    models = {"m.sql": TABLE + view("totals", TOTALS)}
    with served(tmp_path, models, runs="driver") as project:
        project.land("item", "1.csv", rows(0, 100))
        until(lambda: is_current(stored, "totals"), "totals")
        kill(tmp_path, words)
        until(lambda: project.page.process.poll() is not None, "the services' end", 60)
        name = words.removeprefix("dagster").lstrip("._")
        with pytest.raises(EnvironmentNotReady, match=f"{name} process shut down unexpectedly"):
            project.page.check()
        project.land("item", "2.csv", rows(100, 200))
    until(lambda: not processes(tmp_path), "the end of all processes", 30)
    with served(tmp_path, models, runs="driver"):
        until(lambda: has_rows(stored, 200) and is_current(stored, "totals"), "totals")
    judge(stored.url, spark, 200, totals=TOTALS)


@pytest.mark.parametrize("words", ["dagster api grpc", "dagster code-server"])
def test_code_servers_that_are_killed_are_started_again(
    tmp_path: Path, spark: SparkSession, stored: Hummock, words: str
) -> None:
    models = {"m.sql": TABLE + view("totals", TOTALS)}
    with served(tmp_path, models, runs="tick") as project:
        project.land("item", "1.csv", rows(0, 100))
        until(lambda: is_current(stored, "totals"), "totals")
        until(lambda: not project.runs("epoch_run", "STARTED"), "the run's end")
        kill(tmp_path, words)
        project.land("item", "2.csv", rows(100, 200))
        if words == "dagster api grpc":
            until(lambda: start_lost_code(project.page.address), "the loss")
        until(lambda: has_rows(stored, 200) and is_current(stored, "totals"), "totals")
    until(lambda: not processes(tmp_path), "the end of all processes", 30)
    judge(stored.url, spark, 200, totals=TOTALS)


def kill(home: Path, words: str) -> None:
    """Kill the processes of a project that have these words in their command line."""
    (process,) = [pid for pid, command in processes(home).items() if words in command]
    os.kill(process, signal.SIGKILL)


def has_rows(store: Hummock, count: int) -> bool:
    """Tell whether `item` has so many rows; they are only inserted."""
    return store.refresh().tables["item"].row_count == count


def mounted(folder: Path, size: str) -> None:
    """Mount a small file system, or skip the test with the reason."""
    folder.mkdir(parents=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Callable[[str, str], Path]]:
    """A function that makes a folder of the project a small file system of its own."""
    made: list[Path] = []

    def make(name: str, size: str) -> Path:
        folder = tmp_path / name
        mounted(folder, size)
        made.append(folder)
        return folder

    yield make
    for folder in made:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Use up what room a folder has."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            return path
    raise AssertionError("a file system has no end")


@pytest.mark.parametrize("runs", ["tick", "driver"])
def test_a_store_without_room_is_told_and_goes_on_when_there_is_room(
    tmp_path: Path, spark: SparkSession, small: Callable[[str, str], Path], runs: str
) -> None:
    folder = small("room", "40m")
    url = (folder / "store").as_uri()
    models = {"m.sql": TABLE + view("totals", TOTALS)}
    cache = small("cache", "64k")  # what does not fit there costs speed, and nothing else
    with served(tmp_path, models, runs=runs, store=url) as project, Hummock.open(url) as store:
        project.land("item", "1.csv", rows(0, 100))
        until(lambda: is_current(store, "totals"), "totals")
        filler = fill(folder)
        project.land("item", "2.csv", rows(100, 20_000))

        def has_error() -> bool:
            logs = [project.log(run["runId"]) for run in project.runs(JOBS[runs])]
            return any("No space left" in log and "Make room there" in log for log in logs)

        until(has_error, "the error")
        assert cache.is_dir() and store.refresh().tables["item"].row_count == 100
        filler.unlink()
        until(
            lambda: store.refresh().tables["item"].row_count == 20_000 and is_current(store, "totals"), "all"
        )
        if runs == "driver":
            assert len(project.runs("driver")) == 1
    judge(url, spark, 20_000, totals=TOTALS)


def test_an_instance_without_room_is_told_and_goes_on_when_there_is_room(
    tmp_path: Path, spark: SparkSession, stored: Hummock, small: Callable[[str, str], Path]
) -> None:
    models = {"m.sql": TABLE + view("totals", TOTALS)}
    folder = small(".tideline/dagster", "40m")
    with served(tmp_path, models, runs="driver", environment={"TIDELINE_EVENT_SECONDS": "0"}) as project:
        project.land("item", "1.csv", rows(0, 100))
        until(lambda: is_current(stored, "totals"), "totals")
        filler = fill(folder)
        project.land("item", "2.csv", rows(100, 200))
        until(lambda: "full" in project.page.log.read_text(errors="replace"), "the error")
        filler.unlink()
        until(
            lambda: stored.refresh().tables["item"].row_count == 200 and is_current(stored, "totals"), "all"
        )
        project.land("item", "3.csv", rows(200, 300))
        until(
            lambda: stored.refresh().tables["item"].row_count == 300 and is_current(stored, "totals"), "all"
        )
    judge(stored.url, spark, 300, totals=TOTALS)


@pytest.mark.s3
@pytest.mark.parametrize("how", ["refuse", "hang"])
def test_a_driver_outlives_a_minute_without_its_bucket(
    tmp_path: Path, spark: SparkSession, s3_server: str, how: str
) -> None:
    url = f"s3://tideline/{uuid.uuid4().hex}"
    models = {"m.sql": TABLE + view("totals", TOTALS)}
    with proxy(int(s3_server.rpartition(":")[2])) as door:
        environment = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{door.port}"}
        with (
            served(tmp_path, models, runs="driver", store=url, environment=environment) as project,
            Hummock.open(url) as store,
        ):
            project.land("item", "1.csv", rows(0, 100))
            until(lambda: is_current(store, "totals"), "totals")
            (run,) = project.runs("driver")
            getattr(door, how)()
            project.land("item", "2.csv", rows(100, 5_000))
            until(lambda: "is asked again" in project.log(run["runId"]), "what it waits for")
            until(lambda: "looks again" in project.log(run["runId"]), "a minute without an answer")
            door.serve()
            until(
                lambda: store.refresh().tables["item"].row_count == 5_000 and is_current(store, "totals"),
                "all",
            )
            assert [(one["runId"], one["status"]) for one in project.runs("driver")] == [
                (run["runId"], "STARTED")
            ]
    judge(url, spark, 5_000, totals=TOTALS)
