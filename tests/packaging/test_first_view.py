"""From an empty environment to a current view of a CSV file of one's own, by the clock."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.packaging.test_new_project import LONGEST_SECONDS, VIEW, build_wheel


@pytest.mark.install
def test_a_view_of_ones_own_file_is_current_within_ten_minutes_of_an_empty_environment(
    tmp_path: Path,
) -> None:
    wheel = build_wheel(tmp_path)
    own = {
        k: v for k, v in os.environ.items() if not k.startswith(("TIDELINE_", "DAGSTER_", "SPARK_", "PYTHON"))
    }
    programs, project = tmp_path / "venv" / "bin", tmp_path / "mine"
    own["PATH"] = f"{programs}{os.pathsep}{own['PATH']}"
    lines: list[str] = []

    def run(*command: str, folder: Path = tmp_path) -> str:
        left = LONGEST_SECONDS - (time.monotonic() - began)
        done = subprocess.run(
            command, cwd=folder, env=own, capture_output=True, text=True, timeout=left, check=False
        )
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        lines.append(f"{time.monotonic() - began:6.0f} s  {Path(command[0]).name} {' '.join(command[1:4])}")
        return done.stdout

    began = time.monotonic()
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    run(str(programs / "python"), "-m", "pip", "install", "--quiet", str(wheel))
    run(str(programs / "tideline"), "init", "mine")
    (project / "assets" / "visits.sql").write_text(VIEW)
    (project / "landing" / "visits").mkdir(parents=True)
    (project / "landing" / "visits" / "1.csv").write_text("id,page\n1,home\n2,home\n3,news\n")
    job = ("-m", "dagster_project.definitions", "-j", "epoch_run")
    run(str(programs / "dagster"), "job", "execute", *job, folder=project)
    query = "SELECT * FROM visits_by_page ORDER BY page"
    found = run(str(programs / "tideline"), "sql", query, "--format", "csv", folder=project)
    print("", *lines, sep="\n")
    assert found.replace('"', "").split() == ["page,visits", "home,2", "news,1"]
    # what the environment was given is all that Dagster's own programs need there
    assert "All definitions loaded successfully" in run(str(programs / "dg"), "check", "defs", folder=project)
    run(str(programs / "dagster"), "definitions", "validate", folder=project)
    listed = run(str(programs / "dg"), "list", "defs", folder=project)
    assert all(
        name in listed for name in ("orders", "sales_by_shop", "visits", "visits_by_page", "epoch_run")
    )
