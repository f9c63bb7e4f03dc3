"""The options of CREATE SINK, checked; a wrong one is an error with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from engine.connectors.landing_folder import project_path
from engine.connectors.sinks.address import check_reachable
from engine.errors import PathNotAllowed, SqlError
from engine.log_store.sink import VNODES
from engine.sql.catalog import Relation
from engine.sql.parsing.refusals import line_and_column
from engine.sql.statements.option_text import listed
from engine.sql.statements.sink_statements import CreateSink

OPERATION, EPOCH = "_op", "_epoch"
"""The columns that files of changes have beside those of the view."""
FORMATS = ("parquet", "jsonl")
TYPES = ("upsert", "append-only")
ROWS_PER_FILE = 500_000
RETENTION_SECONDS = 7 * 86_400.0
FILE_OPTIONS: Mapping[str, str] = {
    "path": "the folder for the files; a relative one starts at TIDELINE_HOME",
    "url": "instead of path: file:///folder or s3://bucket/prefix",
    "format": "parquet (without it) or jsonl",
    "rows_per_file": f"the most rows of one file; {ROWS_PER_FILE:,} without it",
}
DELTA_OPTIONS: Mapping[str, str] = {
    "path": "the folder of the table; a relative one starts at TIDELINE_HOME",
    "url": "instead of path: file:///folder or s3a://bucket/prefix",
    "partition_by": "columns by whose values the files lie in folders, as 'a, b'; where the sink makes the table",
    "cluster_by": "columns by which OPTIMIZE lays rows close together (liquid clustering), as 'a, b'; not with partition_by",
}
COMMON_OPTIONS: Mapping[str, str] = {
    "connector": "'file' or 'delta'; left out where the sink goes INTO a table",
    "type": "upsert: changes with what they are; append-only: just rows, the default where rows are only added",
    "force_append_only": "true: of a changed row its new version is a row, deletions are left out; false without it",
    "snapshot": "false: begin with the next change, not with the rows as they are; true without it",
    "retention": "how long a failing or paused sink may hold the view's log, such as '2 days'; 7 days without it",
    "vnode_groups": f"the number of readers, each for the keys of some vnodes, 1 to {VNODES}; 1 without it",
}
"""The options of all sinks, and those by connector, and what they mean; `docs/reference.md` is made of these tables."""
OF_CONNECTORS: Mapping[str, Mapping[str, str]] = {"file": FILE_OPTIONS, "delta": DELTA_OPTIONS}
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}


@dataclass(frozen=True)
class SinkOptions:
    """What a sink was created with; `into` or `url` says where its rows go, and `connector` how: "table", "file" or "delta"."""

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
            partition_by=listed(options.get("partition_by", "")),
            cluster_by=listed(options.get("cluster_by", "")),
        )


def log_columns(relation: Relation) -> list[str]:
    """Return the columns of a sink's source, as they are stored, that it delivers."""
    own = (OPERATION, EPOCH) if SinkOptions.of(relation.options).has_operations else ()
    return [column.source for column in relation.columns if column.name not in own]


def checked(statement: CreateSink, append_only: bool) -> dict[str, str]:
    """Return the options of a new sink as the catalog keeps them; `append_only` says what its view is. Raises SqlError."""
    given = statement.options
    connector = given.get("connector", "table" if statement.into else "")
    if connector not in (("table",) if statement.into else OF_CONNECTORS):
        hint = "connector = 'file' or 'delta' with a path or url, or INTO a table without connector"
        raise _error(statement, "connector", "the connector of a sink is file or delta", hint)
    known = {**COMMON_OPTIONS, **OF_CONNECTORS.get(connector, {})}
    for name in given:
        if name not in known:
            raise _error(statement, name, f"a sink has no option {name}", f"options are {', '.join(known)}")
    kind = given.get("type", TYPES[1] if append_only else TYPES[0]).lower()
    if kind not in TYPES:
        raise _error(
            statement, "type", f'a sink is of type upsert or append-only, not "{kind}"', "choose one"
        )
    found = {
        "type": kind,
        "force_append_only": _truth(statement, "force_append_only", "false"),
        "snapshot": _truth(statement, "snapshot", "true"),
        "retention": str(_seconds(statement)),
        "vnode_groups": str(_count(statement, "vnode_groups", 1, VNODES)),
    }
    if statement.into:
        return {**found, "into": statement.into}
    if connector == "delta":
        return {**found, **_of_delta(statement)}
    form = given.get("format", FORMATS[0]).lower()
    if form not in FORMATS:
        raise _error(statement, "format", f'format "{form}" is not offered', f"choose {' or '.join(FORMATS)}")
    rows = _count(statement, "rows_per_file", ROWS_PER_FILE, 1 << 31)
    return {
        **found,
        "connector": "file",
        "url": _address(statement),
        "format": form,
        "rows_per_file": str(rows),
    }


def _of_delta(statement: CreateSink) -> dict[str, str]:
    if statement.options.get("vnode_groups", "1") != "1":
        hint = "leave vnode_groups out: the work of one MERGE is divided among Spark's tasks"
        raise _error(statement, "vnode_groups", "readers of their own would meet in one Delta table", hint)
    laid: dict[str, str] = {
        name: statement.options[name] for name in ("partition_by", "cluster_by") if name in statement.options
    }
    if len(laid) == 2:
        raise _error(
            statement, "cluster_by", "a Delta table is partitioned or clustered, not both", "choose one"
        )
    return {"connector": "delta", "url": re.sub(r"^s3:", "s3a:", _address(statement)), **laid}


def _address(statement: CreateSink) -> str:
    path, url = statement.options.get("path"), statement.options.get("url")
    if bool(path) == bool(url):
        hint = "path = 'folder' (relative to TIDELINE_HOME), or url = 'file:///…' or 's3://bucket/prefix'"
        raise _error(statement, "url", f"a {statement.options['connector']} sink needs a path or a url", hint)
    if path and re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path):
        hint = f"write url = '{path}', or path = 'folder'"
        raise _error(statement, "path", f'the path "{path}" is an address', hint)
    if path:
        url = project_path(path).as_uri()
    assert url is not None
    if not re.match(r"(file:///|s3a?://[^/]+)", url):
        raise _error(
            statement, "url", f'"{url}" is no address for files', "write file:///… or s3://bucket/prefix"
        )
    try:
        check_reachable(url)
    except PathNotAllowed as error:
        where = "path" if path else "url"
        raise _error(statement, where, f"the sink may not write there: {error}", "") from error
    return url.rstrip("/")


def _truth(statement: CreateSink, name: str, default: str) -> str:
    value = statement.options.get(name, default).lower()
    if value not in ("true", "false"):
        raise _error(statement, name, f"{name} is true or false", f"write {name} = true")
    return value


def _count(statement: CreateSink, name: str, default: int, most: int) -> int:
    text = statement.options.get(name, str(default))
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise _error(statement, name, f"{name} is a number from 1 to {most}", f"write {name} = {default}")
    return int(text)


def _seconds(statement: CreateSink) -> float:
    text = statement.options.get("retention", str(RETENTION_SECONDS))
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*?)s?\s*", text.lower())
    if found is None or found[2] not in ("", *_UNITS) or float(found[1]) <= 0:
        hint = "write retention = '7 days', or a number of seconds"
        raise _error(statement, "retention", f'retention "{text}" is no time span', hint)
    return float(found[1]) * _UNITS.get(found[2], 1)


def _error(statement: CreateSink, option: str, message: str, hint: str) -> SqlError:
    line, column = line_and_column(statement.sql, statement.places.get(option, 0))
    return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)
