"""The spec of a pipeline: what Spark takes is taken, and its globs find the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.pipelines.spec import PipelineError, read_spec
from tests.pipelines.projects import write_project


def test_a_spec_says_names_configuration_and_files(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    (tmp_path / "transformations" / "__pycache__").mkdir()
    (tmp_path / "transformations" / "__pycache__" / "x.py").touch()
    found = read_spec(tmp_path)
    assert found == read_spec(path)
    assert (found.name, found.catalog, found.database) == ("shop", "spark_catalog", "shop")
    assert found.configuration["shop.least"] == "100"
    names = [file.relative_to(found.folder).as_posix() for file in found.files]
    assert names == [
        "transformations/marts/gold.sql",
        "transformations/silver.py",
        "transformations/streams.py",
    ]


def test_schema_is_another_word_for_database(tmp_path: Path) -> None:
    path = write_project(tmp_path, {"spark-pipeline.yml": "name: a\nstorage: b\nschema: c\n"})
    assert (read_spec(path).database, read_spec(path).files) == ("c", ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("storage: b", "PIPELINE_SPEC_MISSING_REQUIRED_FIELD"),
        ("name: a\nstorage: b\nother: c", "PIPELINE_SPEC_UNEXPECTED_FIELD"),
        ("name: a\nstorage: b\nlibraries:\n  - glob: {include: 'a/*/b.py'}", "INVALID_GLOB"),
        ("name: [", "ParserError"),
        ("", "is no spec of a pipeline"),
    ],
)
def test_a_wrong_spec_is_told_as_spark_tells_it(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=message):
        read_spec(write_project(tmp_path, {"spark-pipeline.yml": text}))


def test_a_folder_has_one_spec(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="has no spec"):
        read_spec(tmp_path)
    with pytest.raises(PipelineError, match="there is no spec"):
        read_spec(tmp_path / "other.yml")
    for name in ("spark-pipeline.yml", "spark-pipeline.yaml"):
        (tmp_path / name).write_text("name: a\nstorage: b")
    with pytest.raises(PipelineError, match="several specs"):
        read_spec(tmp_path)
