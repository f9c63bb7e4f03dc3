"""A project made by `tideline init`, served by Dagster and a warm Spark on loopback, and a browser that looks at it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster import RunsFilter

from dagster_tideline.services import Services, build_project_environment, find_free_port, get_dagster_home
from dagster_tideline.settings import Settings
from engine.cli.new_project import make_project

if TYPE_CHECKING:
    from playwright.sync_api import Page

collect_ignore_glob = [] if importlib.util.find_spec("playwright") else ["test_*.py"]
"""`make browser` installs what only these tests need."""
SCREENS = Path(__file__).parents[2] / "build" / "screens"
"""Where the pictures are kept, for people to look at."""
QUIET = (
    "--no-sandbox",  # of root, as on many machines that test
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT_SECONDS = 120.0
MODELS = """\
-- group: till
CREATE TABLE takings (id INT PRIMARY KEY, day STRING, cents INT) WITH (connector = 'landing', path = 'landing/takings');
CREATE MATERIALIZED VIEW takings_by_day WITH (partition_by = 'day') AS
SELECT day, sum(100 / cents) AS rate FROM takings GROUP BY day;
CREATE MATERIALIZED VIEW takings_seen WITH (checks = 'positive: cents > 0; small: cents < 5 warn') AS
SELECT id, day, cents FROM takings;
CREATE MATERIALIZED VIEW misspelt AS SELECT shopp FROM takings;
"""


@dataclass
class Served:
    """A project that runs: where its page is, its folder, and Dagster's instance of it."""

    address: str
    home: Path
    instance: dg.DagsterInstance

    def land(self, name: str, text: str) -> None:
        """Drop a file, whole at once."""
        path = self.home / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_text(text)
        part.rename(path)

    def run(self, begins: str) -> dg.DagsterRun:
        """Return the run whose id begins so."""
        return next(run for run in self.instance.get_runs(RunsFilter()) if run.run_id.startswith(begins))


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("browser") / "shop"
    make_project(home)
    (home / "assets" / "till.sql").write_text(MODELS)
    with pytest.MonkeyPatch.context() as patched:
        for name in list(os.environ):
            if name.startswith(("TIDELINE_", "DAGSTER_", "SPARK_REMOTE")):
                patched.delenv(name)
        environment = build_project_environment(Settings.of_environment(home))
        for name, value in environment.items():
            patched.setenv(name, value)
        with Services(home, environment, home) as services:
            services.start_spark_connect()
            page = services.start_dagster(find_free_port())
            with dg.DagsterInstance.from_config(str(get_dagster_home(home))) as instance:
                served = Served(page.address, home, instance)
                served.land("orders/1.csv", "id,shop,price\n1,north,10.50\n2,south,7\n")
                served.land("takings/1.csv", "id,day,cents\n1,mon,5\n2,tue,4\n3,wed,0\n")
                yield served


@pytest.fixture(scope="package")
def browser_page() -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium is not None, "there is no Chromium: install the system's package `chromium`"
    SCREENS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=list(QUIET))
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(WAIT_SECONDS * 1000)
        yield page
        browser.close()
