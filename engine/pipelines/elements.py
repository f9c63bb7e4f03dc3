"""What the files of a pipeline define: datasets, and the flows that fill them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

DatasetKind = Literal["materialized view", "streaming table", "temporary view", "sink"]

AUTO_CDC = (
    "an AUTO CDC flow is not taken: land its source in a table with that key, where ON CONFLICT with a version column keeps the "
    "newest, and name it under `tables`"
)
"""Why a flow of changes is not taken, and what to do."""


@dataclass(frozen=True)
class Dataset:
    """An output of a pipeline: `name` as it is written, `place` the file and the line where it is.

    `schema` are the names of the columns that it says itself, None if it says none. `home` is the catalog and the database in
    which names without one are looked up where it is defined.
    """

    name: tuple[str, ...]
    kind: DatasetKind
    place: str
    home: tuple[str, str]
    comment: str = ""
    schema: tuple[str, ...] | None = None


@dataclass(frozen=True)
class QueryFlow:
    """What fills a dataset: a frame's tree of operators, or the text of a query; `error` says why there is none.

    `conf` is the configuration that holds for it alone.
    """

    name: str
    target: tuple[str, ...]
    place: str
    home: tuple[str, str]
    relation: Any = None
    text: str = ""
    error: str = ""
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class OtherElement:
    """What is no dataset and no flow of a query, and why it is not taken."""

    kind: str
    name: str
    place: str
    reason: str


@dataclass
class Elements:
    """All that the files of a pipeline define, in their order."""

    datasets: list[Dataset] = field(default_factory=list)
    flows: list[QueryFlow] = field(default_factory=list)
    others: list[OtherElement] = field(default_factory=list)
