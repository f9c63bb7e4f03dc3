"""Other readers of the fuzzer's files, which share nothing with the landing source: DuckDB and pyarrow, each with its defaults.

`python -m tests.connectors.judges --files 2000 --seed 1` tells how often which of them reads what of a file. What a file gives is
rows, or a refusal; a damaged file may also end who reads it, so both read in a process of their own.

A file lands *silently* if all that is told of it is nothing. Then its rows have to be those that a judge reads who shares the
format's rules; they are `against both` if both read the file, read the same, and this is something else.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import json
import re
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from engine.arrow import as_values
from engine.connectors.formats.file_format import FileOptions
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing.file_reader import read_landing_file
from engine.connectors.landing.folder import LandingFolder
from engine.connectors.landing.pending import PendingFile
from engine.connectors.landing.rows import LandingTarget
from tests.connectors.fuzz_landing import Case, rounds

JUDGES = ("duckdb", "pyarrow")
MEMORY = 4 << 30
SECONDS = 60.0
KINDS = {
    "k": pa.string(),
    "name": pa.string(),
    "price": pa.float64(),
    "n": pa.int32(),
    "at": pa.timestamp("us"),
    "tags": pa.list_(pa.int32()),
    "d": pa.decimal128(10, 2),
}
TARGET = LandingTarget("t", pa.schema(list(KINDS.items())), ("k",), frozenset({"k"}))
UNKNOWN = "?"
Row = tuple[str | None, ...]
"""The values of a file's row as texts that are the same for the same value; UNKNOWN is one of another type."""


def text_of(name: str, value: Any) -> str | None:
    """Return a value of a column as a text; nothing and the empty text, which CSV does not tell apart, are None."""
    if value is None or value == "":
        return None
    try:
        match name:
            case "k" | "name":
                return str(value)
            case "price":
                return repr(float(value))
            case "n":
                return str(int(decimal.Decimal(str(value))))
            case "at":
                moment = (
                    value
                    if isinstance(value, datetime.datetime)
                    else datetime.datetime.fromisoformat(str(value))
                )
                return moment.replace(tzinfo=None).isoformat()
            case "tags":
                found = json.loads(value) if isinstance(value, str) else value
                return json.dumps([None if one is None else int(one) for one in found])
            case _:
                return str(decimal.Decimal(str(value)).normalize() + 0)
    except (ArithmeticError, ValueError, TypeError):
        return UNKNOWN


def rows_of(columns: dict[str, Sequence[Any]], rows: int, *, by_row: bool) -> list[Row]:
    """Return the rows of named columns; a column that is not there is null, its case does not count, nor do blanks around it.

    Where rows have names of their own (`by_row`), blanks count, and each has its value under one of those that differ in case
    alone; DuckDB adds numbers to tell them apart.
    """
    lower: dict[str, list[Sequence[Any]]] = {}
    for name, values in columns.items():
        plain = re.sub(r"_\d+$", "", name) if by_row else name.strip()
        lower.setdefault(plain.lower(), []).append(values)
    texts = []
    for name in KINDS:
        given = lower.get(name, []) if by_row or name not in columns else [columns[name]]
        values = [next((one for one in row if one is not None), None) for row in zip(*given, strict=True)]
        texts.append([text_of(name, one) for one in values or [None] * rows])
    return list(zip(*texts, strict=True))


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    reader = duckdb.connect()
    reader.execute("SET threads = 1")
    return reader


def of_duckdb(path: str) -> list[Row]:
    """Return what DuckDB reads of a file."""
    read = {"csv": "read_csv", "parquet": "read_parquet"}.get(path.rpartition(".")[2], "read_json")
    found = _duckdb().execute(f"SELECT * FROM {read}(?)", [path])
    names = [column[0] for column in found.description or ()]
    rows = found.fetchall()
    columns = {name: [row[at] for row in rows] for at, name in reversed(list(enumerate(names)))}
    return rows_of(columns, len(rows), by_row=read == "read_json")


def of_pyarrow(path: str) -> list[Row]:
    """Return what pyarrow reads of a file."""
    match path.rpartition(".")[2]:
        case "csv":
            table = pacsv.read_csv(path)
        case "parquet":
            table = pq.read_table(path, partitioning=None)
        case _:
            table = pajson.read_json(path)
    names = table.schema.names
    columns = {name: as_values(table.column(names.index(name))) for name in names}
    return rows_of(columns, table.num_rows, by_row="json" in path.rpartition(".")[2])


def answer(path: str, judge: str) -> dict[str, Any]:
    """Return a judge's rows of a file, or why it refuses it."""
    try:
        return {"rows": of_duckdb(path) if judge == "duckdb" else of_pyarrow(path)}
    except Exception as error:
        return {"refused": f"{type(error).__name__}: {error}"[:300].encode("utf-8", "replace").decode()}


def serve() -> None:
    """Answer requests, a path and a judge on each line, until there are no more."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        path, judge = json.loads(line)
        print(json.dumps(answer(path, judge)), flush=True)


@dataclass
class Judges:
    """The process of the judges, begun anew where a file has ended it."""

    process: subprocess.Popen[str] | None = None

    def read(self, path: Path, judge: str) -> list[Row] | str:
        """Return a judge's rows of a file, or why there are none."""
        process = self.process
        if process is None or process.poll() is not None:
            process = self.process = subprocess.Popen(
                [sys.executable, "-c", "from tests.connectors.judges import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps([str(path), judge]) + "\n")
            process.stdin.flush()
        output = process.stdout.readline()
        if not output:
            process.wait()
            return "it has ended"
        found = json.loads(output)
        return found["refused"] if "refused" in found else [tuple(row) for row in found["rows"]]

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


@dataclass
class Landed:
    """What the landing source makes of a file: its rows, and the lines that it tells something of."""

    rows: list[Row]
    rejections: list[tuple[int, str]]
    deletes: bool


def landed(folder: Path, case: Case) -> Landed:
    """Read a file as a poll reads it."""
    found = Landed([], [], deletes=False)
    status = (folder / case.name).stat()
    file = PendingFile(case.name, status.st_size, status.st_mtime_ns, place_path=case.name)
    options = FileOptions(columns=frozenset((*KINDS, "_op")))
    for batch in read_landing_file(LandingFolder(folder), file, options, ReadLimits(), lambda: TARGET, 0):
        found.rejections += [(bad.line, bad.reason) for bad in batch.bad]
        if batch.landed is not None:
            table = batch.landed.rows
            found.deletes |= bool(batch.landed.deletes.any())
            columns = {name: as_values(table.column(name)) for name in table.schema.names}
            found.rows += rows_of(columns, table.num_rows, by_row=False)
    return found


def alike(ours: Row, theirs: Row) -> bool:
    """Tell whether two rows are the same, as far as the types of their values are."""
    return all(one == other or UNKNOWN in (one, other) for one, other in zip(ours, theirs, strict=True))


def same(ours: Sequence[Row], theirs: Sequence[Row]) -> bool:
    """Tell whether two readers have read the same rows."""
    return len(ours) == len(theirs) and all(map(alike, ours, theirs))


def classed(ours: Landed, judged: dict[str, list[Row] | str]) -> str:
    """Return what the judges say of a file, in a few words."""
    read = {name: rows for name, rows in judged.items() if not isinstance(rows, str)}
    agree = [name for name, rows in read.items() if same(ours.rows, rows)]
    if ours.deletes:
        return "rows delete others"
    if ours.rejections:
        whole = any(line <= 0 for line, _ in ours.rejections)
        kind = "set aside" if whole and not ours.rows else "told"
        strange = [name for name, rows in read.items() if not _are_among(ours.rows, rows)]
        if len(strange) == len(JUDGES) and same(read["duckdb"], read["pyarrow"]):
            return f"{kind}, what landed is against both"
        return f"{kind}, {_names(read) or 'nobody'} read it"
    if agree:
        return f"landed as {_names(agree)} read it"
    if not read:
        return "landed, nobody else read it"
    if len(read) == len(JUDGES) and same(read["duckdb"], read["pyarrow"]):
        return "landed against both"
    return f"landed, {_names(read)} read something else"


def _are_among(ours: Sequence[Row], theirs: Sequence[Row]) -> bool:
    by_key: dict[str | None, list[Row]] = {}
    for row in theirs:
        by_key.setdefault(row[0], []).append(row)
    return all(any(alike(row, other) for other in by_key.get(row[0], ())) for row in ours)


def _names(judges: Any) -> str:
    return " and ".join(sorted(judges))


@dataclass
class Verdicts:
    """How many files of each format are of which class, and examples of the classes."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def against(self) -> list[str]:
        """Return the files that landed as nobody else reads them, though both judges agree."""
        return [one for (_, kind), some in self.examples.items() if "against both" in kind for one in some]


def run(
    folder: Path,
    files: int,
    seed: int,
    tell: Callable[[str], None] = lambda _: None,
    keep: Path | None = None,
) -> Verdicts:
    """Judge `files` mutated files of each format, and the good ones beside them."""
    found, judges = Verdicts(), Judges()
    try:
        for number, cases in enumerate(rounds(files, seed)):
            for case in cases:
                path = folder / case.name
                path.write_bytes(case.data)
                if not case.data:
                    continue  # somebody is still writing it
                ours = landed(folder, case)
                judged = {judge: judges.read(path, judge) for judge in JUDGES}
                kind = case.name.rpartition(".")[2], classed(ours, judged)
                found.counts[kind] += 1
                some = found.examples.setdefault(kind, [])
                if len(some) < 5 or case.name.startswith("good"):
                    some.append(f"seed {seed}, round {number}: {case.name}: {kind[1]}")
                    if keep is not None:
                        (keep / f"{kind[1].replace(' ', '_').replace(',', '')}-{case.name}").write_bytes(
                            case.data
                        )
                path.unlink()
            tell(f"round {number}: {sum(found.counts.values())} files")
    finally:
        judges.close()
    return found


def main() -> int:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--files", type=int, default=2_000, help="mutated files of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for examples of each class")
    arguments = parser.parse_args()
    if arguments.keep is not None:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        done = run(
            Path(home), arguments.files, arguments.seed, lambda text: print(text, flush=True), arguments.keep
        )
    for (form, kind), count in sorted(done.counts.items()):
        print(f"{count:>7,} {form:<8} {kind}")
    for one in done.against():
        print(one)
    return 1 if done.against() else 0


if __name__ == "__main__":
    sys.exit(main())
