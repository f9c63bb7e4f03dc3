"""What a sink was created with, as the catalog keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.log_store.sink import VNODES
from engine.sql.catalog import Relation
from engine.sql.statements.options.option_text import parse_list

OPERATION, EPOCH = "_op", "_epoch"
"""The columns that files of changes have beside those of the view."""
FORMATS = ("parquet", "jsonl")
Compression = Literal["none", "gzip", "zstd"]
COMPRESSIONS: Mapping[str, str] = {"none": "", "gzip": ".gz", "zstd": ".zst"}
"""How files are compressed, and what their names end in if it is as a whole."""
TYPES = ("upsert", "append-only")
ROWS_PER_FILE = 500_000
RETENTION_SECONDS = 7 * 86_400.0
COMMON_OPTIONS: Mapping[str, str] = {
    "connector": "'file', 'delta', 'postgres' or 'kafka'; left out where the sink goes INTO a table",
    "type": "upsert: changes with what they are; append-only: just rows, the default where rows are only added",
    "force_append_only": "true: of a changed row its new version is a row, deletions are left out; false without it",
    "snapshot": "false: begin with the next change, not with the rows as they are; true without it",
    "retention": "how long a failing or paused sink may hold the view's log, such as '2 days'; 7 days without it",
    "vnode_groups": f"the number of readers, each for the keys of some vnodes, 1 to {VNODES}; 1 without it",
}
"""The options of all sinks and what they mean; `docs/reference.md` is made of this."""


@dataclass(frozen=True)
class SinkOptions:
    """What a sink was created with; `into` or `url` says where its rows go, and `connector` how: "table" or one's name."""

    connector: str
    into: str | None
    url: str
    format: str
    upsert: bool
    force_append_only: bool
    snapshot: bool
    retention_seconds: float
    vnode_groups: int
    rows_per_file: int
    compression: Compression
    partition_by: tuple[str, ...]
    cluster_by: tuple[str, ...]

    @property
    def has_operations(self) -> bool:
        """Whether each row comes with what became of it, in columns of its own."""
        return self.connector == "file" and self.upsert

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SinkOptions:
        """Return the options as the catalog keeps them."""
        return cls(
            connector="table" if "into" in options else options.get("connector", "file"),
            into=options.get("into"),
            url=options.get("url", ""),
            format=options.get("format", FORMATS[0]),
            upsert=options["type"] == "upsert",
            force_append_only=options.get("force_append_only") == "true",
            snapshot=options.get("snapshot", "true") == "true",
            retention_seconds=float(options["retention"]),
            vnode_groups=int(options.get("vnode_groups", "1")),
            rows_per_file=int(options.get("rows_per_file", ROWS_PER_FILE)),
            compression=_find_compression(options),
            partition_by=parse_list(options.get("partition_by", "")),
            cluster_by=parse_list(options.get("cluster_by", "")),
        )


def _find_compression(options: Mapping[str, str]) -> Compression:
    said = options.get("compression", default_compression(options.get("format", FORMATS[0])))
    return "gzip" if said == "gzip" else "zstd" if said == "zstd" else "none"


def default_compression(form: str) -> str:
    """Return how files of a format are compressed where nothing is said."""
    return "zstd" if form == "parquet" else "none"


def list_log_columns(relation: Relation) -> list[str]:
    """Return the columns of a sink's source, as they are stored, that it delivers."""
    own = (OPERATION, EPOCH) if SinkOptions.of(relation.options).has_operations else ()
    return [column.storage_name for column in relation.columns if column.name not in own]
