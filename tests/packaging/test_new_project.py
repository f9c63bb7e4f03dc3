"""The built wheel in an environment of its own: a project of a user's own is made, checked, tested, and takes a CSV."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("engine", "dagster_tideline", "tideline")
LONGEST_SECONDS = 600
"""From an empty environment to a view of the user's own CSV."""
VIEW = """\
CREATE TABLE visits (id BIGINT PRIMARY KEY, page STRING) WITH (connector = 'landing', path = 'landing/visits');
CREATE MATERIALIZED VIEW visits_by_page AS SELECT page, count(*) AS visits FROM visits GROUP BY page;
"""


@dataclass
class Environment:
    """A virtual environment with the wheel; what the wheel depends on is borrowed from the one of these tests."""

    python: Path
    wheel: Path
    home: Path

    def run(self, *command: str, folder: Path | None = None) -> str:
        """Run a program of the environment and return what it prints; fails with that if it fails."""
        return self.finished(*command, folder=folder).stdout

    def finished(
        self, *command: str, folder: Path | None = None, status: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment to its end; fails with what it prints if it ends with another status."""
        own = {
            k: v for k, v in os.environ.items() if not k.startswith(("TIDELINE_", "DAGSTER_", "SPARK_REMOTE"))
        }
        own.pop("PYTHONPATH", None)
        done = subprocess.run(
            [str(self.python.parent / command[0]), *command[1:]],
            cwd=folder or self.home,
            env={
                **own,
                "PATH": f"{self.python.parent}{os.pathsep}{own['PATH']}",
                "TIDELINE_JARS": str(ROOT / "jars"),
                "PYSPARK_PYTHON": str(self.python),
                "COLUMNS": "200",
            },
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
            check=False,
        )
        message = f"{' '.join(command)}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        assert done.returncode == status, message
        return done


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this project in a folder."""
    source = folder / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    for name in ("dagster_project", "assets", "resources"):  # beside the packages, as in the repository
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
    ]
    subprocess.run([*build, str(source)], check=True, capture_output=True, timeout=LONGEST_SECONDS)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(folder)
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    site = Path(
        subprocess.check_output(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        ).strip()
    )
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True, timeout=LONGEST_SECONDS)
    # A line of a .pth file puts the packages there on the path, but not what their own .pth files name: the repository.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    scripts = {
        "tideline": "engine.cli:main",
        "dg": "dagster_dg_cli.cli:main",
        "dagster": "dagster.__main__:main",
    }
    for name, entry in scripts.items():
        module, function = entry.split(":")
        script = python.parent / name
        script.write_text(
            f"#!{python}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
        )
        script.chmod(0o755)
    return Environment(python, wheel, folder)


@pytest.fixture(scope="module")
def project(environment: Environment) -> Iterator[Path]:
    environment.run("tideline", "init", "shop-of-mine")
    yield environment.home / "shop-of-mine"


@pytest.mark.long
def test_the_wheel_holds_the_packages_and_nothing_of_this_project(environment: Environment) -> None:
    with zipfile.ZipFile(environment.wheel) as wheel:
        tops = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info" not in name}
        names = set(wheel.namelist())
    assert tops == set(PACKAGES)
    template = {path.relative_to(ROOT).as_posix() for path in (ROOT / "engine/cli/project").rglob("*")}
    assert {name for name in template if (ROOT / name).is_file() and "__pycache__" not in name} <= names


@pytest.mark.long
def test_it_is_the_wheel_that_is_used(environment: Environment) -> None:
    found = environment.run("python", "-c", "import tideline, engine; print(engine.__file__)")
    assert str(environment.home) in found


@pytest.mark.long
def test_dagster_takes_the_project(environment: Environment, project: Path) -> None:
    environment.run("dg", "check", "defs", folder=project)
    environment.run("dagster", "definitions", "validate", folder=project)
    assert "sales_by_shop" in environment.run("dg", "list", "defs", folder=project)
    assert "TidelineModelsComponent" in environment.run("dg", "list", "components", folder=project)


@pytest.mark.long
def test_wrong_models_are_told_with_file_line_and_caret_and_stop_no_other(environment: Environment) -> None:
    environment.run("tideline", "init", "wrong-models")
    project = environment.home / "wrong-models"
    header = "-- Told.\n-- tags: no good\nCREATE MATERIALIZED VIEW header AS SELECT shop FROM orders;\n"
    (project / "assets" / "header.sql").write_text(header)
    statement = "CREATE MATERIALIZED VIEW statement AS\nSELECT shop FROM orders WHERE (;\n"
    (project / "assets" / "statement.sql").write_text(statement)
    query = "CREATE MATERIALIZED VIEW query AS SELECT shop,\n  pric FROM orders;\n"
    reader = "CREATE MATERIALIZED VIEW reader AS SELECT shop FROM query;\n"
    (project / "assets" / "query.sql").write_text("-- Prices.\n" + query + reader)
    output = environment.finished("dg", "check", "defs", folder=project, status=1).stdout
    assert "3 models of 6 can't be used" in output
    assert "header.sql: " in output and "statement.sql: " in output
    assert "  line 2, column 10:\n    -- tags: no good\n             ^\n" in output, output
    shown = statement.splitlines()[1]
    assert f"  line 2, column 31:\n    {shown}\n    {' ' * 30}^\n" in output, output
    assert (
        "query.sql: there is no column pric\n  line 3, column 3:\n      pric FROM orders;\n      ^\n"
        in output
    ), output
    listed = environment.run("dg", "list", "defs", folder=project)
    assert all(name in listed for name in ("orders", "sales_by_shop", "header", "statement", "reader"))
    assert "can't be used" in listed
    validated = environment.finished("dagster", "definitions", "validate", folder=project, status=1)
    assert "statement.sql: " in validated.stderr + validated.stdout


@pytest.mark.long
def test_the_tests_of_the_project_pass(environment: Environment, project: Path) -> None:
    assert "1 passed" in environment.run(
        "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=project
    )


@pytest.mark.long
def test_a_view_of_a_file_of_ones_own_is_current(environment: Environment, project: Path) -> None:
    (project / "assets" / "visits.sql").write_text(VIEW)
    (project / "landing" / "visits").mkdir(parents=True)
    (project / "landing" / "visits" / "1.csv").write_text("id,page\n1,home\n2,home\n3,news\n")
    environment.run(
        "dagster", "job", "execute", "-m", "dagster_project.definitions", "-j", "epoch_run", folder=project
    )
    found = environment.run(
        "tideline", "sql", "SELECT * FROM visits_by_page ORDER BY page", "--format", "csv", folder=project
    )
    assert found.replace('"', "").split() == ["page,visits", "home,2", "news,1"]


def test_a_second_project_of_the_name_is_refused(environment: Environment, project: Path) -> None:
    assert (project / "assets").is_dir()
    with pytest.raises(AssertionError, match="is there already and not empty"):
        environment.run("tideline", "init", "shop-of-mine")


def test_the_instance_is_set_up_as_in_this_repository() -> None:
    def settings(path: Path) -> list[str]:
        return [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]

    assert settings(ROOT / "dagster.yaml") == settings(ROOT / "engine/cli/project/dagster.yaml")
