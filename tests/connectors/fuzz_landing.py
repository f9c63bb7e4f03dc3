"""Mutated landing files against the landing source: `python -m tests.connectors.fuzz_landing --files 10000 --seed 1`.

Each round lands mutated files of every format beside good ones and polls once. What must hold is judged by what this module
wrote, not by the reader: every row of a good file is in the table as it was written; of a mutated file every line that is as it
was has landed; each file has a record, and one of which nothing landed is told; the table, read as a whole, is readable; the
poll raises nothing and leaves nothing pending.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import io
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.connectors.landing.source import LandingSource
from engine.connectors.landing.tables import FILES
from engine.connectors.sources import poll_all
from engine.meta.status.dead_letters import DEAD_LETTER
from engine.session import Session

FORMATS = ("csv", "jsonl", "json", "parquet")
COLUMNS = "k STRING PRIMARY KEY, name STRING, price DOUBLE, n INT, at TIMESTAMP_NTZ, tags ARRAY<INT>, d DECIMAL(10,2)"
FILES_A_ROUND = 40
GOOD_FILES = 4
LONGEST_SECONDS = 60.0
WORDS = (
    "plain",
    "two words",
    'a "quoted" word',
    "a,comma",
    "über",
    "line\nbreak",
    "",
    "日本",
    "'",
    "x" * 300,
)
TOKENS = (
    *(b'"', b'""', b"\n", b"\r", b"\r\n", b",", b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\\ud800", b'"\\udfff"'),
    *(b"{", b"}", b"[", b"]", b"[" * 3000, b"{}" * 50, b"9" * 5000, b"1e999", b"e-999999999", b"NaN", b"-", b"null", b":", b"\\"),
    *(b",_op\n", b"delete", b"PAR1", b"\xed\xa0\x80", b"99999-01-01", b" ", b"\t", b'","', b'\n"', b'"\n'),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A file as it lands: its rows by key, and the keys of those that must land whatever else is in it."""

    name: str
    data: bytes
    rows: dict[str, dict[str, Any]]
    certain: frozenset[str]


@dataclass
class Summary:
    """What a run saw."""

    files: int = 0
    rows: int = 0
    dead: int = 0
    certain: int = 0
    slowest: float = 0.0


def rows_of(stem: str, chance: random.Random, *, plain: bool) -> dict[str, dict[str, Any]]:
    """Return rows with keys that no other file has."""
    found = {}
    for number in range(chance.randrange(1, 30)):
        name = "plain" if plain else chance.choice(WORDS)
        day = datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=chance.randrange(10**7))
        found[f"{stem}-{number}"] = {
            "k": f"{stem}-{number}",
            "name": name,
            "price": chance.randrange(1000) / 4,
            "n": chance.randrange(-100, 100),
            "at": day,
            "tags": [chance.randrange(5) for _ in range(chance.randrange(3))],
            "d": decimal.Decimal(chance.randrange(10**6)) / 100,
        }
    return found


def _field(value: object) -> str:
    text = json.dumps(value) if isinstance(value, list) else str(value)
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in '",\n') or text == "" else text


def _csv_line(row: dict[str, Any]) -> bytes:
    return ",".join(map(_field, row.values())).encode()


def _json_line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, default=str).encode()


def written(format: str, rows: dict[str, dict[str, Any]], chance: random.Random) -> bytes:
    """Return a good file with these rows."""
    items = list(rows.values())
    match format:
        case "csv":
            return b"\n".join([b"k,name,price,n,at,tags,d", *map(_csv_line, items)]) + b"\n"
        case "jsonl":
            return b"\n".join(map(_json_line, items)) + b"\n"
        case "json":
            return b"[" + b",\n".join(map(_json_line, items)) + b"]"
        case _:
            sink = io.BytesIO()
            kinds = pa.schema([("tags", pa.list_(pa.int32())), ("at", pa.timestamp("us"))])
            table = pa.Table.from_pylist(items)
            for name in kinds.names:
                at = table.schema.get_field_index(name)
                table = table.set_column(at, name, table.column(name).cast(kinds.field(name).type))
            compression = chance.choice(["none", "snappy", "zstd"])
            pq.write_table(table, sink, row_group_size=chance.choice([3, 1000]), compression=compression)
            return sink.getvalue()


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return a file with some bytes changed, lost, doubled or put in."""
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
        at = chance.randrange(len(found) + 1)
        span = slice(at, at + chance.randrange(1, 40))
        match chance.randrange(7):
            case 0 if found:
                found[at % len(found)] = chance.randrange(256)
            case 1 if found:
                found[at % len(found)] ^= 1 << chance.randrange(8)
            case 2:
                del found[span]
            case 3:
                found[at:at] = found[span] * chance.choice([1, 1, 50])
            case 4:
                del found[at:]
            case _:
                found[at:at] = chance.choice(TOKENS)
    return bytes(found)


def _certain(format: str, data: bytes, rows: dict[str, dict[str, Any]], plain: bool) -> frozenset[str]:
    """Return the keys of the rows whose line is as it was, where the format lets lines stand for themselves."""
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    if (
        format == "jsonl"
        and not data.lstrip().startswith(b"[")
        and data[:2] not in (b"\xff\xfe", b"\xfe\xff")
    ):
        whole = set(lines)
        return frozenset(key for key, row in rows.items() if _json_line(row) in whole)
    if format == "csv" and plain and b'"' not in data and lines[:1] == [b"k,name,price,n,at,tags,d"]:
        whole = set(lines[1:])
        return frozenset(key for key, row in rows.items() if _csv_line(row) in whole)
    return frozenset()


def case_of(format: str, number: int, chance: random.Random, *, good: bool) -> Case:
    """Return the file with this number, good or mutated."""
    stem = f"{'good' if good else 'odd'}-{format}-{number}"
    plain = not good and chance.random() < 0.5
    rows = rows_of(stem, chance, plain=plain)
    if plain:
        for row in rows.values():
            row["tags"] = [1] if format == "csv" else row["tags"]
    data = written(format, rows, chance)
    name = f"{stem}.{format}"
    if good:
        return Case(name, data, rows, frozenset(rows))
    data = mutated(data, chance)
    return Case(name, data, rows, _certain(format, data, rows, plain))


def rounds(files: int, seed: int) -> Iterator[list[Case]]:
    """Yield what lands in each round: mutated files of every format, good ones among them."""
    made = 0
    while made < files:
        chance = random.Random(f"{seed} {made}")
        cases = []
        for _ in range(min(FILES_A_ROUND, files - made)):
            cases += [case_of(format, made, chance, good=False) for format in FORMATS]
            made += 1
        goods = [case_of(format, made, chance, good=True) for format in FORMATS[:GOOD_FILES]]
        yield [*cases, *goods]


def run(home: Path, files: int, seed: int, tell: Callable[[str], None] = lambda _: None) -> Summary:
    """Land `files` mutated files of each format; raises AssertionError with the round and the file where something is wrong."""
    summary = Summary()
    (home / "landing").mkdir(parents=True)
    with Session((home / "store").as_uri()) as lake:
        options = f"connector = 'landing', path = '{home / 'landing'}'"
        for number, cases in enumerate(rounds(files, seed)):
            # Each round has a table and a folder of its own, so that what it costs does not grow.
            folder = home / "landing" / str(number)
            folder.mkdir()
            lake.sql(f"CREATE TABLE t{number} ({COLUMNS}) WITH ({options.removesuffix(chr(39))}/{number}')")
            for case in cases:
                (folder / case.name).write_bytes(case.data)
            _poll(lake, f"t{number}", cases, summary, f"seed {seed}, round {number}")
            lake.sql(f"DROP TABLE t{number}")
            if number % 10 == 9:
                tell(
                    f"{summary.files:,} files, {summary.rows:,} rows, {summary.dead:,} set aside, slowest poll {summary.slowest:.1f} s"
                )
    return summary


def _poll(lake: Session, table: str, cases: list[Case], summary: Summary, where: str) -> None:
    started = time.perf_counter()
    (report,) = poll_all(lake.catalog, lake.store, [table])
    seconds = time.perf_counter() - started
    assert report.error is None, f"{where}: the poll failed: {report.error}"
    assert seconds < LONGEST_SECONDS, f"{where}: the poll took {seconds:.1f} s"
    lake.store.refresh()
    landed = {row["k"]: row for batch in lake.store.iter(table) for row in batch.to_pylist()}
    taken = {
        row["path"]: row
        for batch in lake.store.iter(FILES)
        for row in batch.to_pylist()
        if row["source"] == table
    }
    dead_letters: dict[str, int] = {}
    for batch in lake.store.iter(DEAD_LETTER):
        for row in batch.to_pylist():
            if row["source"] == table:
                dead_letters[row["file"]] = dead_letters.get(row["file"], 0) + 1
                assert row["reason"], f"{where}: {row['file']} line {row['line']} has no reason"
    for case in cases:
        _judge(case, landed, taken.get(case.name), dead_letters.get(case.name, 0), where)
    left = LandingSource.of_relation(lake.store, lake.catalog.get(table)).list_files()
    assert not left, f"{where}: {left[0].path} is still pending"
    summary.files += len(cases)
    summary.rows += report.rows
    summary.dead += report.dead_rows
    summary.certain += sum(len(case.certain) for case in cases)
    summary.slowest = max(summary.slowest, seconds)


def _judge(
    case: Case,
    landed: dict[str, dict[str, Any]],
    record: dict[str, Any] | None,
    dead_letters: int,
    where: str,
) -> None:
    at = f"{where}: {case.name}"
    if not case.data:
        return  # an empty file is one that somebody is still writing
    assert record is not None, f"{at} has no record"
    assert record["position"] is None, f"{at} is half taken"
    assert (record["dead_rows"] > 0) == (dead_letters > 0), (
        f"{at}: {record['dead_rows']} rows set aside, {dead_letters} told"
    )
    lost = case.certain - landed.keys()
    deleted = b"_op" in case.data
    assert not lost or deleted, f"{at}: {sorted(lost)[:5]} are in the file as they were and have not landed"
    if case.name.startswith("good"):
        assert dead_letters == 0, f"{at}: a good file has dead letters"
        for key, row in case.rows.items():
            want = row | {"name": None} if row["name"] == "" and case.name.endswith(".csv") else row
            assert landed[key] == want, f"{at}: {landed[key]} instead of {want}"


def main() -> int:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--files", type=int, default=10_000, help="mutated files of each format")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        done = run(Path(home), arguments.files, arguments.seed, lambda text: print(text, flush=True))
    print(
        f"{done.files:,} files, {done.rows:,} rows landed, {done.certain:,} of them certain, {done.dead:,} set aside, "
        f"slowest poll {done.slowest:.1f} s, {time.perf_counter() - started:.0f} s in all; nothing was lost"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
