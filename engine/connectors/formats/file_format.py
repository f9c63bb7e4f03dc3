"""CSV, JSON and Parquet files as batches of raw columns, with the line and the text of every row that is asked for.

What a file's format says of a row (too few fields, no JSON object) is reported here; what a table says of it is not known here.
No more of a file is held than `ReadLimits` allows, and the time of reading follows the file's size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from engine.errors import SourceError
from engine.sql.column_names import match_columns

SUFFIXES = {
    "csv": "csv",
    "tsv": "csv",
    "jsonl": "json",
    "ndjson": "json",
    "json": "json",
    "parquet": "parquet",
}
FORMATS = ("csv", "json", "parquet")
NEUTRAL = "txt"
"""A suffix that says nothing of a format: such files are read where an option names one."""
Codec = Literal["gzip", "zstd", "bz2"]
CODECS: Mapping[str, Codec] = {"gz": "gzip", "zst": "zstd", "bz2": "bz2"}
"""How text files are compressed as a whole, by the suffix behind that of their format."""
LONGEST_RAW = 10_000
OTHER_ENCODING = "if it is in another encoding, give its table the option encoding"
"""What to do about text that is not UTF-8."""


@dataclass(frozen=True)
class BadLine:
    """A line that the format refuses; line 0 stands for the whole file."""

    line: int
    reason: str
    raw: str


@dataclass(frozen=True)
class FileRows:
    """Some rows of a file; `place(i)` is the line (Parquet: the row, from 1) and the text of row i.

    `columns` are those that were asked for, `names` also the others. `records` counts the rows and what the format refuses.
    `absent` says of a column which rows do not have it at all (JSON); neither says what a column that is not there has.
    """

    columns: Mapping[str, pa.Array[Any] | pa.ChunkedArray[Any]]
    rows: int
    locate_row: Callable[[int], tuple[int, str]]
    bad: tuple[BadLine, ...] = ()
    names: tuple[str, ...] = ()
    records: int = 0
    absent: Mapping[str, np.ndarray] = field(default_factory=dict)
    lines: np.ndarray | None = None
    by_row: bool = False
    """Each row has columns of its own (JSON): one that lacks a column says nothing of the file."""
    foreign: np.ndarray | None = None
    """The rows that have columns, but none that was asked for (JSON)."""
    folders: Mapping[str, str | None] = field(default_factory=dict)
    """Values of columns that the names of the file's folders give."""


class MalformedFile(SourceError):
    """A file, or all of it from some place on, can't be read; its message is the reason of its dead letter."""


@dataclass(frozen=True)
class FileOptions:
    """How a file is read: its format and the delimiter of CSV (None and "": by its suffix), and the texts that mean null.

    `wanted` are the columns to read, by the names that their table has for them; None is all. A Parquet file is read by a
    process beside this one, but here, with `row_groups`: some, or () for all of them. Of `documents`, which are json or jsonb,
    each value of a JSON file is kept as the JSON that it is. `quote` and `escape` are of CSV, "" for none; `fields` are the
    names of its fields where it has no header. `encoding` is of text, None for UTF-8. `json` is how values follow each other,
    None where the file shows it; `envelope` what rows lie in, and `order` where in that stands what orders the changes of a key.
    """

    format: str | None = None
    nulls: tuple[str, ...] = ("",)
    delimiter: str = ""
    columns: frozenset[str] | None = None
    documents: frozenset[str] = frozenset()
    row_groups: tuple[int, ...] | None = None
    quote: str = '"'
    escape: str = ""
    fields: tuple[str, ...] | None = None
    encoding: str | None = None
    json: str | None = None
    envelope: str | None = None
    order: str | None = None

    def locate_columns(self, names: Sequence[str], what: str) -> list[int]:
        """Return which columns of a file are read; raises MalformedFile for one that is asked for and stands there twice.

        `what` names them in that error: "the header names".
        """
        columns = dict.fromkeys(name for name in names if name) if self.columns is None else self.columns
        found = match_columns(columns, names)
        if found.twice:
            raise MalformedFile(f"{what} {found.describe_ambiguity()}")
        return found.places

    def adapt_to_file(self, path: str) -> FileOptions:
        """Return the options for a file: a suffix may tell the delimiter."""
        parts = path.lower().split(".")
        if self.delimiter or "tsv" not in (parts[-2:-1] if detect_codec(path) else parts[-1:]):
            return self
        return replace(self, delimiter="\t")


def detect_format(name: str, options: FileOptions) -> str | None:
    """Return the format of a file by its name, or None if its suffix is none that is read."""
    packed = detect_codec(name)
    stem, dot, suffix = (name.rpartition(".")[0] if packed else name).rpartition(".")
    found = SUFFIXES.get(suffix.lower()) if stem and dot else None
    if stem and suffix.lower() == NEUTRAL and options.format != "parquet":
        found = options.format
    if packed and found == "parquet":
        return None  # it is compressed inside
    return found if options.format is None or found == options.format else None


def detect_codec(name: str) -> Codec | None:
    """Return how a file is compressed as a whole, by its name, None if it is not."""
    return CODECS.get(name.rpartition(".")[2].lower())


def format_raw(raw: bytes | str) -> str:
    """Return what stands in a file as text that can be stored: what is no text is escaped, what is long is cut."""
    if isinstance(raw, str):
        raw = raw[: LONGEST_RAW + 1].encode("utf-8", "backslashreplace")
    text = raw[: LONGEST_RAW * 4 + 4].decode("utf-8", "backslashreplace")
    return text if len(text) <= LONGEST_RAW else text[:LONGEST_RAW] + " …"
