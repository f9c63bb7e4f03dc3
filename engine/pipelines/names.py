"""Names of a pipeline: which dataset of its own, or which table of the store, a name in a query means."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from engine.pipelines.elements import Dataset
from engine.pipelines.spec import PipelineError

FILE_FORMATS = frozenset(
    ("parquet", "csv", "json", "delta", "orc", "avro", "text", "binaryfile", "xml", "iceberg")
)
"""What Spark reads as the format of files where a database would stand: `parquet.`/path``."""
_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
_NAME = re.compile(r"[A-Za-z0-9_]+")


@dataclass(frozen=True)
class KnownTable:
    """A table that stands for what a pipeline reads: its columns, None where they are not known, and whether rows are only added.

    `path` is the address of what it follows, `connector` by what.
    """

    name: str
    columns: tuple[str, ...] | None = None
    append_only: bool = False
    connector: str = ""
    path: str = ""


def split_name(text: str) -> tuple[str, ...]:
    """Return the parts of a name as Spark writes it."""
    return tuple(
        found[1].replace("``", "`") if found[1] is not None else found[2].strip()
        for found in _PART.finditer(text)
    )


class DatasetNames:
    """Relations of a pipeline's datasets by their names, and what else names of its queries mean.

    `said` are the tables that the user says stand for a table, a path or a dataset; `known` those that are there.
    """

    def __init__(
        self, datasets: Sequence[Dataset], said: Mapping[str, str], known: Iterable[KnownTable], folder: Path
    ) -> None:
        self.known = {one.name: one for one in known}
        self._folder = folder
        self._said = {key.lower(): name for key, name in said.items()}
        self._said_paths = {_normalize_path(key, folder): name for key, name in said.items()}
        self.own = {_qualify(one): one for one in reversed(datasets)}
        counts = Counter(one.name[-1].lower() for one in self.own.values())
        self.relations = {
            key: key[-1] if counts[key[-1]] == 1 else f"{key[-2] or 'temporary'}_{key[-1]}"
            for key in self.own
        }
        self.replaced = {
            key: self._said[words] for key in self.own for words in _list_keys(key) if words in self._said
        }

    def find_relation(self, dataset: Dataset) -> str:
        """Return the relation of a dataset; raises PipelineError for a name that none can have, or that another has."""
        key = _qualify(dataset)
        if self.own[key] is not dataset:
            raise PipelineError(f"{'.'.join(dataset.name)} is defined twice: at {self.own[key].place}, too")
        name = self.relations[key]
        if _NAME.fullmatch(name) is None:
            raise PipelineError(f'"{name}" is no name of a relation: use letters, digits and _')
        return name

    def find_replacement(self, dataset: Dataset) -> str | None:
        """Return the table that the user says stands for a dataset."""
        return self.replaced.get(_qualify(dataset))

    def find_said(self, parts: tuple[str, ...]) -> Dataset | None:
        """Return the dataset that a user's words mean: its name, or that with its database, or with its catalog, too."""
        words = ".".join(_fold(parts))
        return next((one for key, one in self.own.items() if words in _list_keys(key)), None)

    def find_dataset(self, parts: tuple[str, ...], home: tuple[str, str]) -> Dataset | None:
        """Return the dataset of the pipeline that a name means, None for another table."""
        keys = [(*home[: max(3 - len(parts), 0)], *parts)] if len(parts) <= 3 else []
        if len(parts) == 1:
            keys.insert(0, ("", "", parts[0]))
        return next((self.own[key] for key in (_fold(one) for one in keys) if key in self.own), None)

    def find_table(self, parts: tuple[str, ...], home: tuple[str, str]) -> KnownTable:
        """Return the table that stands for one that is not the pipeline's."""
        key = _fold((*home[: max(3 - len(parts), 0)], *parts))
        name = next((self._said[one] for one in _list_keys(key) if one in self._said), None)
        if name is None:
            name = key[-1] if key[-1] not in self.relations.values() else "_".join(key[-2:])
        return self.known.get(name, KnownTable(name))

    def find_path(self, form: str, path: str) -> KnownTable:
        """Return the table that stands for files; raises PipelineError if none does."""
        place = _normalize_path(path, self._folder)
        name = self._said_paths.get(place)
        if name is not None:
            return self.known.get(name, KnownTable(name))
        followed = [
            one
            for one in self.known.values()
            if one.connector == form == "delta"
            and one.path
            and _normalize_path(one.path, Path.cwd()) == place
        ]
        if followed:
            return followed[0]
        connector = form if form == "delta" else "landing"
        raise PipelineError(
            f"it reads the {form} files of {path}, and no table stands for them: make one WITH (connector = '{connector}'), and "
            "name it under `tables` for that path, or for this dataset"
        )


def _qualify(dataset: Dataset) -> tuple[str, ...]:
    """Return a dataset's catalog, database and name in lower case; temporary views and sinks are in no database."""
    if dataset.kind in ("temporary view", "sink"):
        return _fold(("", "", dataset.name[-1]))
    return _fold((*dataset.home[: max(3 - len(dataset.name), 0)], *dataset.name[-3:]))


def _fold(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)


def _list_keys(parts: Sequence[str]) -> list[str]:
    """Return under which words a user may say a table: the longest first."""
    return [".".join(parts[at:]) for at in range(len(parts)) if all(parts[at:])]


def _normalize_path(path: str, folder: Path) -> str:
    """Return one address of a path by which two are compared."""
    address = urlsplit(path)
    if address.scheme in ("", "file"):
        return str((folder / unquote(address.path if address.scheme else path)).resolve())
    return path.replace("s3a://", "s3://").rstrip("/")
