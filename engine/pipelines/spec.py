"""The spec of a pipeline: its name, its configuration, and the files that its globs find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.pipelines.cli import PIPELINE_SPEC_FILE_NAMES, load_pipeline_spec

from engine.errors import TidelineError

DEFAULT_CATALOG, DEFAULT_DATABASE = "spark_catalog", "default"
"""Where Spark puts what has no other place."""


class PipelineError(TidelineError):
    """A pipeline, or an element of one, that cannot be taken, and why."""


@dataclass(frozen=True)
class PipelineSpec:
    """A pipeline's spec; `files` are those that it names, in the order of their paths."""

    name: str
    folder: Path
    files: tuple[Path, ...]
    catalog: str = DEFAULT_CATALOG
    database: str = DEFAULT_DATABASE
    configuration: Mapping[str, str] = field(default_factory=dict)


def read_spec(path: Path) -> PipelineSpec:
    """Return the spec of a file, or of the one in a folder; raises PipelineError for one that Spark would not take."""
    file = _find_file(path)
    try:
        found = load_pipeline_spec(file)
    except Exception as error:  # those of YAML, of the file, and what a wrong shape of it leads to
        raise PipelineError(f"{file} is no spec of a pipeline: {type(error).__name__}: {error}") from error
    folder = file.resolve().parent
    files = {
        one
        for library in found.libraries
        for one in folder.glob(library.include)
        if one.is_file() and "__pycache__" not in one.parts
    }
    return PipelineSpec(
        found.name,
        folder,
        tuple(sorted(files)),
        found.catalog or DEFAULT_CATALOG,
        found.database or DEFAULT_DATABASE,
        found.configuration,
    )


def _find_file(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise PipelineError(f"there is no spec {path}: name a {' or '.join(PIPELINE_SPEC_FILE_NAMES)}")
    found = [path / name for name in PIPELINE_SPEC_FILE_NAMES if (path / name).is_file()]
    if len(found) != 1:
        number = "no spec" if not found else "several specs"
        raise PipelineError(f"{path} has {number}: name one {' or '.join(PIPELINE_SPEC_FILE_NAMES)}")
    return found[0]
