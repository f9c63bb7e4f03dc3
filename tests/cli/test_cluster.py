"""What `tideline cluster` writes and prints for a Spark on other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cli.commands import main
from engine.runtime.spark import packing
from engine.runtime.spark.session import SETTINGS


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(str(ended.value.code))


def test_pack_says_what_to_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "_list_files", lambda: iter(()))
    archive = tmp_path / "environment.tar.gz"
    assert run("cluster", "pack", str(archive)) == 0
    assert archive.is_file()
    assert f"set TIDELINE_PACKED={archive}" in capsys.readouterr().out
    assert run("cluster", "pack", str(tmp_path / "environment.rar")) == 1


def test_settings_are_a_file_of_properties(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_DRIVER_HOST", "10.0.0.9")
    assert run("cluster", "settings", "spark://10.0.0.2:7077") == 0
    found = dict(line.split(" ", 1) for line in capsys.readouterr().out.splitlines())
    assert found["spark.master"] == "spark://10.0.0.2:7077"
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "10.0.0.9"
    assert found["spark.python.daemon.module"] == "engine.runtime.spark.worker_daemon"
    assert SETTINGS.items() <= found.items()
    monkeypatch.delenv("TIDELINE_DRIVER_HOST")
    assert run("cluster", "settings", "spark://10.0.0.2:7077") == 1
    assert "TIDELINE_DRIVER_HOST" in capsys.readouterr().err
