"""Whether tasks see a folder is asked by a file that lies in it; real machines that do not are tried in tests/cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.runtime.spark import shared_folders
from engine.runtime.spark.shared_folders import find_sharing_fault, find_visibility_fault, is_in_this_process
from tests.runtime.spark.elsewhere import apart_from_here, on_another_disk


def test_a_spark_of_this_process_is_not_asked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_folders, "collect_task_answers", lambda *_: pytest.fail("asked"))
    assert is_in_this_process(spark)
    assert (
        find_visibility_fault(spark, tmp_path, "nothing") is None
        and find_sharing_fault(spark, tmp_path) is None
    )


def test_tasks_that_see_a_folder_find_what_is_in_it_and_nothing_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart_from_here(monkeypatch)
    (tmp_path / "there").write_text("x" * 100_000)
    assert find_visibility_fault(spark, tmp_path, "there") is None
    assert (
        find_sharing_fault(spark, tmp_path) is None
        and find_sharing_fault(spark, tmp_path / "not/yet/there") is None
    )
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_tasks_that_find_another_file_do_not_see_the_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_another_disk(monkeypatch)
    (tmp_path / "there").write_text("x")
    for fault in (find_visibility_fault(spark, tmp_path, "there"), find_sharing_fault(spark, tmp_path)):
        assert fault is not None and fault.what.endswith(f"does not see {tmp_path}, a folder of this machine")
        assert "s3://bucket/prefix" in fault.now
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_tasks_that_may_not_write_are_told_apart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart_from_here(monkeypatch)
    seen = shared_folders.FolderFindings("w1", sees=True, writes=False)
    answers = [shared_folders.encode_findings(seen).column(0)[0].as_py()]
    monkeypatch.setattr(shared_folders, "collect_task_answers", lambda *_: answers)
    (tmp_path / "there").write_text("x")
    assert find_visibility_fault(spark, tmp_path, "there") is None
    fault = find_sharing_fault(spark, tmp_path)
    assert fault is not None and f"the executor on w1 of local[2] may not write to {tmp_path}" in fault.what


def test_a_folder_that_this_process_cannot_write_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart_from_here(monkeypatch)
    (tmp_path / "file").write_text("")
    fault = find_sharing_fault(spark, tmp_path / "file" / "in")
    assert fault is not None and "can't be written" in fault.what
