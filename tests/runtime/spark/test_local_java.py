"""A local Spark starts with the classes that another one has left in an archive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import EnvironmentNotReady
from engine.jars import find_jar_paths
from engine.runtime.spark.local_java import build_driver_settings, find_archive_path, record_archive

START = "from engine.runtime.spark.session import connect; session = connect('local[1]'); session.range(3).count()"
MAPPED = f"""{START}
java = session._jvm.java.lang.ProcessHandle.current().pid()
print([line.rstrip().split(None, 5)[-1] for line in open(f"/proc/{{java}}/maps") if line.rstrip().endswith(".jsa")][-1])
"""


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the jars and nothing else."""
    folder = tmp_path / "jars"
    folder.mkdir()
    for jar in map(Path, find_jar_paths()):
        (folder / jar.name).symlink_to(jar)
    monkeypatch.setenv("TIDELINE_JARS", str(folder))
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="the files that a process maps are told by /proc")
@pytest.mark.long
def test_a_second_start_maps_the_classes_of_the_first(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = jars.rename(jars.with_name('the user\'s "own" jars'))
    monkeypatch.setenv("TIDELINE_JARS", str(jars))
    assert "SharedArchiveFile" not in build_driver_settings()["spark.driver.defaultJavaOptions"]
    assert record_archive(("-c", START))
    assert "-XX:SharedArchiveFile=" in build_driver_settings()["spark.driver.defaultJavaOptions"]
    output = subprocess.run(
        [sys.executable, "-c", MAPPED], capture_output=True, text=True, check=True, timeout=300
    )
    assert output.stdout.splitlines() == [str(find_archive_path())]  # and no warning of Java's
    assert record_archive(("-c", "raise SystemExit(1)"))  # it is there: nothing runs
    assert [path for path in jars.iterdir() if not path.is_symlink()] == [find_archive_path()]


def test_a_program_that_fails_is_told_and_leaves_no_file(jars: Path) -> None:
    with pytest.raises(EnvironmentNotReady, match="Spark did not run: ValueError: no luck"):
        record_archive(("-c", "raise ValueError('no luck')"))
    assert all(path.is_symlink() for path in jars.iterdir())


def test_a_program_that_starts_no_java_leaves_none(jars: Path) -> None:
    assert not record_archive(("-c", "pass"))


def test_options_of_java_do_not_ask_for_another_archive(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = subprocess.run(
        [
            sys.executable,
            "-c",
            "from engine.runtime.spark.local_java import find_archive_path; print(find_archive_path())",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"},
    )
    assert without.stdout.strip() == str(find_archive_path())
    (jars / Path(find_jar_paths()[0]).name).unlink()
    with pytest.raises(EnvironmentNotReady):
        find_archive_path()


def test_a_collector_that_somebody_has_chosen_stays(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xss2m")
    assert "-XX:+UseSerialGC" in build_driver_settings()["spark.driver.defaultJavaOptions"]
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xss2m -XX:+UseParallelGC")
    assert "GC" not in build_driver_settings()["spark.driver.defaultJavaOptions"]
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xss2m")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert "GC" not in build_driver_settings()["spark.driver.defaultJavaOptions"]
