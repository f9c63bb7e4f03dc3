"""The machine's Java and jars: what is missing is told in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import jars
from engine.errors import EnvironmentNotReady


def fake_java(folder: Path, told: str) -> Path:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    java.chmod(0o755)
    return folder


def test_missing_jars_are_named_with_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_JARS", str(tmp_path))
    with pytest.raises(EnvironmentNotReady, match="run `make setup`") as caught:
        jars.jar_paths()
    assert "\n" not in str(caught.value)
    assert "delta-storage" in str(caught.value)


def test_a_page_of_a_proxy_is_no_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_JARS", str(tmp_path))
    for name in jars.JARS:
        (tmp_path / name).write_bytes(b"<html>")
    with pytest.raises(EnvironmentNotReady):
        jars.jar_paths()


def test_an_old_java_is_refused_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, 'openjdk version "1.8.0_352"')))
    with pytest.raises(EnvironmentNotReady, match="Java 17 or newer, but `java` is 8"):
        jars.check_java()


def test_no_java_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    jars._java_told.cache_clear()
    with pytest.raises(EnvironmentNotReady, match="there is none on the PATH"):
        jars.check_java()
