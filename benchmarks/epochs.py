"""Seconds per epoch of maintained views beside a full recompute by Spark, a MERGE into Delta, Structured Streaming and DuckDB.

`python -m benchmarks.epochs [--case groups categories wide top running long] [--changes 1000 …] [--peers recompute …] [--quick]`

All in one run and one Spark, epoch by epoch in turn. An epoch is `Session.flush()`: from rows that stand in the store to
the committed view; `from files` is the whole way, from Parquet files with the changed rows: read, written to the tables with the
search for their keys, flushed. The epochs of a smaller base (of small partitions, for the case of one large partition) take
turns with them. Each case ends with the view compared row by row with the recompute. Exit status 1: a bound does not hold.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.epoch_cases import Case, Change
from benchmarks.epoch_peers import DuckDB, Merge, Recompute, Streaming, Tables
from benchmarks.window_cases import CASES
from engine.runtime.spark.session import connect
from engine.session import Session

PEERS = ("recompute", "merge", "merge-dv", "streaming", "duckdb")
MERGES = {"merge": False, "merge-dv": True}
"""The MERGE into Delta without and with deletion vectors."""
CHANGES = (1_000, 10_000, 100_000, 1_000_000)
QUICK = 10
TIMES_MERGE = 7.0
TIMES_STREAMING = {1_000: 1.0, 10_000: 1.0, 100_000: 2.5, 1_000_000: 4.0}
SMALL_CHANGES = 1_000
SMALLER_BASE = "smaller base"
WARM_UP, SMALL_WARM_UP = 1, 5
"""Epochs of each number of changes that are not measured; the first ones after a build meet cold code and cold files."""

console = Console(width=140 if not sys.stdout.isatty() else None)


@dataclass
class Measured:
    """Median seconds of one case and one number of changes, ours and each peer's."""

    ours: list[float] = field(default_factory=list)
    peers: dict[str, list[float]] = field(default_factory=dict)
    whole: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Seconds of all processors, Spark's and its workers' among them, over our own flushes."""

    def of(self, peer: str) -> float | None:
        """Return a peer's median, or None if it was not measured."""
        return statistics.median(self.peers[peer]) if self.peers.get(peer) else None

    @property
    def median(self) -> float:
        """Our own median, of rows that stand in the store."""
        return statistics.median(self.ours)

    @property
    def from_files(self) -> float | None:
        """Our own median of the whole way from files."""
        return statistics.median(self.whole) if self.whole else None

    @property
    def merged(self) -> float | None:
        """The median of the MERGE that is faster: with deletion vectors or without."""
        return min((found for peer in MERGES if (found := self.of(peer)) is not None), default=None)


@dataclass(frozen=True)
class Bound:
    """One demand: what must be at least (or at most) how many times what."""

    text: str
    value: float
    limit: float
    at_most: bool = False

    @property
    def holds(self) -> bool:
        """Whether it is met."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit


def cpu_seconds() -> float:
    """Return the seconds of CPU of this process and all that live below it, and of their children that have ended."""
    parents: dict[int, list[int]] = {}
    spent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = path.read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
            spent[int(path.parent.name)] = sum(map(int, fields[11:15]))
    found, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        found += spent.get(process, 0)
        waiting += parents.get(process, [])
    return found / os.sysconf("SC_CLK_TCK")


@contextmanager
def told(what: str) -> Iterator[None]:
    """Print what is done and how long it took."""
    started = time.perf_counter()
    yield
    console.print(f"  {what}: {time.perf_counter() - started:.1f} s", highlight=False)


def build(session: Session, case: Case) -> None:
    """Write the base tables into the store and create the view."""
    with told("base tables written"):
        for table, ddl in case.ddl.items():
            session.sql(ddl)
            for chunk in case.content(table):
                session.write(table, chunk, mode="insert")
    with told("view built"):
        session.sql(f"CREATE MATERIALIZED VIEW {case.view} AS {case.query}")
        session.flush().raise_for_errors()


@contextmanager
def kept(spark: SparkSession, case: Case, at: Path) -> Iterator[Session]:
    """Open a store with a case's base tables and its view."""
    console.print(f"[bold]{case.name}[/]: {case.title}; {case.rows:,} rows")
    with Session((at / "store").as_uri(), spark, backfill_rows=sys.maxsize) as session:
        build(session, case)
        yield session


def run_case(
    spark: SparkSession,
    name: str,
    rows: int,
    sizes: Sequence[int],
    epochs: int,
    peers: Collection[str],
    smaller: bool,
) -> dict[int, Measured]:
    """Measure one case: every number of changes, ours and the peers' in turn.

    With `smaller` the small epochs of a base that is that much smaller take turns with them.
    """
    make = CASES[name][0]
    with ExitStack() as opened:
        at = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="tideline-bench-")))
        twin = None
        case = make(rows)
        if smaller and case.smaller.changes in sizes:
            small = case.twin()
            twin = (opened.enter_context(kept(spark, small, at / "smaller")), small)
        session = opened.enter_context(kept(spark, case, at))
        results = _measured(session, case, twin, at, sizes, epochs, peers)
        if twin is not None:
            tables = Tables(twin[1], at / "smaller" / "tables")
            tables.write()
            _compared(twin[0], twin[1], Recompute(spark, tables, at / "smaller"))
        return results


def _measured(
    session: Session,
    case: Case,
    twin: tuple[Session, Case] | None,
    at: Path,
    sizes: Sequence[int],
    epochs: int,
    peers: Collection[str],
) -> dict[int, Measured]:
    tables = Tables(case, at / "tables")
    tables.write()
    recompute, duck = Recompute(session.spark, tables, at), DuckDB(tables, at)
    stream = None
    recompute.seconds()
    merged = [peer for peer in MERGES if peer in peers and case.merges]
    merges = {peer: Merge(session.spark, tables, at, MERGES[peer]) for peer in merged}
    for merge in merges.values():
        merge.build(recompute.into)
    if "streaming" in peers and case.streaming_loses is None:
        with told("stream's first batch"):
            stream = Streaming(session.spark, tables, at)
    results = {}
    for changes in sizes:
        measured = results[changes] = Measured()
        small = changes <= SMALL_CHANGES
        warm_up = SMALL_WARM_UP if small else WARM_UP
        for number in range(warm_up + (4 * epochs if small else epochs)):
            change = case.epoch(changes)
            turns = [("ours", session, change)]
            if (
                changes == case.smaller.changes and twin is not None
            ):  # each of the two is as often the first after the peers' work
                turns.insert(number % 2, (SMALLER_BASE, twin[0], twin[1].epoch(changes)))
            spans = {}
            for who, store, rows in turns:
                spans[who], burnt = _epoch(store, rows, at)
                if who == "ours" and number >= warm_up:
                    measured.cpu.append(burnt)
            seconds = {who: flushed for who, (flushed, _) in spans.items()}
            if merges:
                for table in {each.table for each in change} - {"bid", "orders"}:
                    tables.write_one(table)
            seconds |= {peer: merge.seconds(change) for peer, merge in merges.items()}
            if stream is not None:
                seconds["streaming"] = stream.seconds(change)
            if number >= warm_up:
                measured.ours.append(seconds.pop("ours"))
                measured.whole.append(spans["ours"][1])
                for peer, spent in seconds.items():
                    measured.peers.setdefault(peer, []).append(spent)
        tables.write()
        if "recompute" in peers:
            measured.peers["recompute"] = [recompute.seconds() for _ in range(2)]
        if "duckdb" in peers:
            measured.peers["duckdb"] = [duck.seconds() for _ in range(2)]
        shown = ", ".join(
            f"{peer} {value:.{3 if peer == SMALLER_BASE else 2}f} s"
            for peer in (*PEERS, SMALLER_BASE)
            if (value := measured.of(peer)) is not None
        )
        each = " ".join(f"{spent:.2f}" for spent in measured.ours)
        ours = f"{measured.median:.3f} s ({each}), from files {measured.from_files:.3f} s"
        ours += f", CPU {statistics.median(measured.cpu):.2f} s"
        console.print(f"  {changes:,} changes: {ours}; {shown}", highlight=False)
    if stream is not None:
        stream.stop()
    expected = _compared(session, case, recompute)
    for peer, merge in merges.items():
        _same(f"Delta table of {case.name} ({peer})", merge.rows(), expected, case.key)
    return results


def _compared(session: Session, case: Case, recompute: Recompute) -> pa.Table:
    """Compare a view with the whole query computed again; return its rows."""
    with told("compared with the recompute, row by row"):
        recompute.seconds()
        expected = recompute.rows()
        names = ", ".join(expected.column_names)
        _same(f"view {case.view}", session.sql(f"SELECT {names} FROM {case.view}"), expected, case.key)
    return expected


def _epoch(session: Session, change: Sequence[Change], at: Path) -> tuple[tuple[float, float], float]:
    """Bring one epoch in; return the seconds of the flush and of the whole way from files, and those of CPU in the flush."""
    files = [at / f"epoch-{number}.parquet" for number in range(len(change))]
    for file, each in zip(files, change, strict=True):
        pq.write_table(each.rows, file)
    begun = time.perf_counter()
    for file, each in zip(files, change, strict=True):
        session.write(each.table, pq.read_table(file), mode=each.mode)
    started, burnt = time.perf_counter(), cpu_seconds()
    session.flush().raise_for_errors()
    ended = time.perf_counter()
    return (ended - started, ended - begun), cpu_seconds() - burnt


def _same(what: str, found: pa.Table, expected: pa.Table, key: Sequence[str]) -> None:
    """Raise AssertionError unless both hold the same rows."""
    order = [(column, "ascending") for column in key]
    expected = expected.sort_by(order).combine_chunks()
    found = found.select(expected.column_names).cast(expected.schema).sort_by(order).combine_chunks()
    for column in expected.column_names:
        if not found.column(column).equals(expected.column(column)):
            raise AssertionError(
                f"{what} differs from the recompute in column {column}: {found.num_rows:,} rows, {expected.num_rows:,} expected"
            )


def bounds_of(name: str, results: dict[int, Measured], percent: int) -> Iterator[Bound]:
    """Yield the demands that what was measured allows to judge; `percent` is the number of changes that most are about."""
    case = CASES[name][0]
    if percent in results:
        measured = results[percent]
        if case.most_seconds is not None:
            text = f"{name}, {percent:,} changes: seconds"
            yield Bound(text, measured.median, case.most_seconds, at_most=True)
        found = {"recompute": measured.of("recompute"), "merge": measured.merged}
        for peer, limit in (("recompute", case.times_recompute), ("merge", TIMES_MERGE)):
            if (other := found[peer]) is not None:
                text = f"{name}, {percent:,} changes: faster than {peer}"
                yield Bound(text, other / measured.median, limit)
    for changes, limit in TIMES_STREAMING.items():
        if changes in results and (other := results[changes].of("streaming")) is not None:
            yield Bound(
                f"{name}, {changes:,} changes: faster than streaming", other / results[changes].median, limit
            )
    flat = case.smaller
    if flat.changes in results and (other := results[flat.changes].of(SMALLER_BASE)) is not None:
        text = f"{name}, {flat.changes:,} changes: slower than {flat.told}"
        yield Bound(text, results[flat.changes].median / other, flat.at_most, at_most=True)


def show(everything: dict[str, dict[int, Measured]]) -> None:
    """Print a table of seconds, with each peer's multiple of ours."""
    peers = [f"{peer} s" for peer in PEERS]
    title = "seconds, medians; beside a peer's how many times ours it takes: from the store, from files"
    shown = Table("case", "changes", "epoch s", "from files s", *peers, title=title)
    for column in shown.columns[1:]:
        column.justify = "right"
    for name, results in everything.items():
        for changes, measured in results.items():
            cells = []
            for peer in PEERS:
                other = measured.of(peer)
                ours = [one for one in (measured.median, measured.from_files) if one]
                times = ", ".join(f"{other / one:.1f} x" for one in ours) if other is not None else ""
                cells.append("-" if other is None else f"{other:.2f} ({times})")
            whole = "-" if measured.from_files is None else f"{measured.from_files:.3f}"
            shown.add_row(name, f"{changes:,}", f"{measured.median:.3f}", whole, *cells)
    console.print(shown)
    for name in everything:
        if CASES[name][0].streaming_loses is not None:
            console.print(f"Structured Streaming cannot express {name}: {CASES[name][0].streaming_loses}.")


def judge(bounds: Sequence[Bound]) -> bool:
    """Print the demands; return whether all hold."""
    shown = Table("bound", "measured", "demanded", "", title="bounds")
    for bound in bounds:
        verdict = "[green]PASS[/]" if bound.holds else "[bold red]FAIL[/]"
        sign = "<=" if bound.at_most else ">="
        shown.add_row(bound.text, f"{bound.value:.2f}", f"{sign} {bound.limit:g}", verdict)
    console.print(shown)
    return all(bound.holds for bound in bounds)


def parsed() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument(
        "--changes", type=int, nargs="+", help="rows an epoch (default: 1k, 10k, 1 %%, 100k, 1M)"
    )
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--epochs", type=int, default=4, help="measured epochs of each size, after some that warm up"
    )
    parser.add_argument("--no-small", action="store_true", help="leave out the base that is smaller")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"bases {QUICK} x smaller, up to 100k changes; bounds are shown and fail nothing",
    )
    return parser.parse_args()


def main() -> int:
    """Run the cases, print seconds and bounds, return the exit status."""
    options = parsed()
    spark = connect("local[2]")
    everything: dict[str, dict[int, Measured]] = {}
    bounds: list[Bound] = []
    for name in options.case:
        rows = CASES[name][1] // (QUICK if options.quick else 1)
        judged = max(CASES[name][0].sizes, default=rows // 100)
        usual = CASES[name][0].sizes or {*CHANGES[: 3 if options.quick else 4], judged}
        sizes = options.changes or sorted(usual)
        results = run_case(
            spark, name, rows, sizes, options.epochs, options.peers, smaller=not options.no_small
        )
        everything[name] = results
        bounds += bounds_of(name, results, judged)
    show(everything)
    held = judge(bounds)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    console.print(f"two cores of this machine ({os.cpu_count()}), load average {load}", highlight=False)
    if options.quick:
        console.print("--quick: the bounds are those of the full scale and fail nothing here")
        return 0
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
