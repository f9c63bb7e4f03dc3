"""The machine's Java and jars: what is missing is told in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from engine import jars
from engine.errors import EnvironmentNotReady


def fake_java(folder: Path, output: str) -> Path:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    java.chmod(0o755)
    return folder


def test_missing_jars_are_named_with_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_JARS", str(tmp_path))
    with pytest.raises(EnvironmentNotReady, match="run `make setup`") as caught:
        jars.find_jar_paths()
    assert "\n" not in str(caught.value)
    assert "delta-storage" in str(caught.value)


def test_a_page_of_a_proxy_is_no_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELINE_JARS", str(tmp_path))
    for name in jars.JARS:
        (tmp_path / name).write_bytes(b"<html>")
    with pytest.raises(EnvironmentNotReady):
        jars.find_jar_paths()


def fetched(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).write_bytes(b"PK\x03\x04")


def test_the_jars_of_s3a_are_used_where_all_of_them_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_JARS", str(tmp_path))
    fetched(tmp_path, jars.JARS)
    *most, last = [one.jar for one in jars.S3A]
    fetched(tmp_path, most)
    assert not jars.has_s3a() and [Path(path).name for path in jars.find_jar_paths()] == list(jars.JARS)
    fetched(tmp_path, [last])
    assert jars.has_s3a() and [Path(path).name for path in jars.find_jar_paths()] == [*jars.JARS, *most, last]


def test_hadoop_aws_is_of_the_hadoop_that_spark_has() -> None:
    spark = jars.find_pyspark_folder() / "jars"
    assert (spark / f"hadoop-client-api-{jars.HADOOP_VERSION}.jar").is_file()


def test_an_option_that_is_not_known_fetches_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["jars", "--s3"])
    assert jars.main() == 2 and "[--s3a]" in capsys.readouterr().err


def test_an_old_java_is_refused_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, 'openjdk version "1.8.0_352"')))
    with pytest.raises(EnvironmentNotReady, match="Java 17 or newer, but `java` is 8"):
        jars.check_java()


def test_no_java_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    jars._read_java_output.cache_clear()
    with pytest.raises(EnvironmentNotReady, match="there is none on the PATH"):
        jars.check_java()
