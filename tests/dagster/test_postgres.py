"""Dagster's instance in PostgreSQL: runs by the sensor and by a driver, as with its files."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_tideline.services import Services, build_project_environment, find_free_port
from dagster_tideline.settings import Settings
from engine.cli.new_project import make_project
from engine.hummock import Hummock
from engine.session import Session
from tests.dagster.served import JAVA, Served, until

pytestmark = pytest.mark.postgres

STORAGE = """
storage:
  postgres:
    postgres_db:
      scheme: postgresql+psycopg2
      hostname: 127.0.0.1
      port:
        env: DAGSTER_PG_PORT
      username: dagster
      password:
        env: DAGSTER_PG_PASSWORD
      db_name: dagster
"""
"""What docs/dagster.md says, but for the port."""
PASSWORD = "no-secret-of-anybody"
RUNS = "SELECT count(*) FROM runs WHERE pipeline_name = '{job}'"


@dataclass
class Server:
    """A PostgreSQL with an empty database `dagster`, its port, and the folder of its programs."""

    port: int
    programs: Path

    def ask(self, query: str) -> str:
        """Return the answer to a query, with no titles."""
        return subprocess.run(
            [
                self.programs / "psql",
                "-XtA",
                "-h",
                "127.0.0.1",
                "-p",
                str(self.port),
                "-U",
                "dagster",
                "-c",
                query,
                "dagster",
            ],
            env={**os.environ, "PGPASSWORD": PASSWORD},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()


def programs() -> Path:
    """Return the folder of PostgreSQL's programs, or skip with what is missing."""
    if importlib.util.find_spec("dagster_postgres") is None:
        pytest.skip("dagster-postgres is not installed: `make postgres` does it")
    found = [Path(path).parent for path in [shutil.which("initdb")] if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        pytest.skip("there is no PostgreSQL on this machine: install the system's package `postgresql`")
    return found[-1]


@pytest.fixture
def server() -> Iterator[Server]:
    there, port, user = programs(), find_free_port(), None
    if os.geteuid() == 0:  # which PostgreSQL refuses to run as
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and this machine has no user `postgres`")
    with tempfile.TemporaryDirectory(
        prefix="tideline-postgres-"
    ) as name:  # that user may not look into tmp_path
        folder, secret = Path(name), Path(name) / "password"
        secret.write_text(PASSWORD)
        if user is not None:
            for path in (folder, secret):
                os.chown(path, user.pw_uid, user.pw_gid)

        def run(program: str, *arguments: str) -> None:
            subprocess.run(
                [there / program, *arguments],
                user=user.pw_uid if user else None,
                group=user.pw_gid if user else None,
                cwd=folder,
                env={**os.environ, "PGPASSWORD": PASSWORD},
                stdout=subprocess.DEVNULL,
                check=True,
            )

        data = str(folder / "data")
        run("initdb", "-D", data, "-U", "dagster", "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        run("pg_ctl", "-D", data, "-l", str(folder / "log"), "-w", "-o", options, "start")
        try:
            run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "dagster", "dagster")
            yield Server(port, there)
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")


@pytest.mark.parametrize("runs", ["tick", "driver"])
def test_runs_of_a_project_are_kept_in_postgresql(
    tmp_path: Path, spark: SparkSession, server: Server, runs: str
) -> None:
    home = tmp_path / "shop"
    make_project(home)
    with (home / "dagster.yaml").open("a") as file:
        file.write(STORAGE)
    settings = Settings(project=home, home=home, assets=home / "assets", store=(home / "store").as_uri())
    environment = {
        **build_project_environment(settings),
        "TIDELINE_RUNS": runs,
        "TIDELINE_DRIVER_MEMORY": "1g",
        "JDK_JAVA_OPTIONS": JAVA,
        "DAGSTER_PG_PORT": str(server.port),
        "DAGSTER_PG_PASSWORD": PASSWORD,
    }
    with Services(home, environment, home) as services, Hummock.open(settings.store) as store:
        project = Served(home, services, services.start_dagster())

        def has(count: int) -> bool:
            tables = store.refresh().tables
            if not {"orders", "sales_by_shop"} <= tables.keys() or tables["orders"].row_count != count:
                return False
            return (tables["sales_by_shop"].committed_epoch or 0) >= (tables["orders"].last_change or 0)

        project.land("orders", "1.csv", "id,shop,price\n1,north,10.50\n2,south,7\n")
        until(lambda: has(2), "the first rows")
        project.land("orders", "2.csv", "id,shop,price\n3,north,1\n")
        until(lambda: has(3), "the others")
        job = "epoch_run" if runs == "tick" else "driver"
        asked = project.runs(job)
        assert int(server.ask(RUNS.format(job=job))) == len(asked) >= 1
        if runs == "tick":
            until(lambda: {run["status"] for run in project.runs(job)} == {"SUCCESS"}, "success")
            query = "SELECT count(DISTINCT asset_key) FROM event_logs WHERE asset_key LIKE '%s%'"
            assert int(server.ask(query)) >= 2
        text = project.page.log.read_text(errors="replace")
        assert PASSWORD not in text and "Traceback" not in text
    assert not list((home / ".tideline" / "dagster").rglob("*.db"))
    with Session(settings.store, spark) as session:
        found = session.sql("SELECT * FROM sales_by_shop")
        assert found is not None and found.num_rows == 2
