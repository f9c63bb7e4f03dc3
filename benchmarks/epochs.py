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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.epoch_cases import BenchmarkCase, TableChange
from benchmarks.epoch_peers import DeltaMerge, DuckDB, SparkRecompute, Streaming, Tables
from benchmarks.processors import measure_processors
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
class CaseResult:
    """Median seconds of one case and one number of changes, ours and each peer's."""

    ours: list[float] = field(default_factory=list)
    peers: dict[str, list[float]] = field(default_factory=dict)
    whole: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    """Seconds of all processors, Spark's and its workers' among them, over our own flushes."""

    def get_peer(self, peer: str) -> float | None:
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
        return min((found for peer in MERGES if (found := self.get_peer(peer)) is not None), default=None)


@dataclass(frozen=True)
class Requirement:
    """One demand: what must be at least (or at most) how many times what."""

    text: str
    value: float
    limit: float
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        """Whether it is met."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit


@contextmanager
def report_seconds(what: str) -> Iterator[None]:
    """Print what is done and how long it took."""
    started = time.perf_counter()
    yield
    console.print(f"  {what}: {time.perf_counter() - started:.1f} s", highlight=False)


def build_case(session: Session, case: BenchmarkCase) -> None:
    """Write the base tables into the store and create the view."""
    with report_seconds("base tables written"):
        for table, ddl in case.ddl.items():
            session.sql(ddl)
            for chunk in case.generate_content(table):
                session.write(table, chunk, mode="insert")
    with report_seconds("view built"):
        session.sql(f"CREATE MATERIALIZED VIEW {case.view} AS {case.query}")
        session.flush().raise_for_errors()


@contextmanager
def open_case(spark: SparkSession, case: BenchmarkCase, at: Path) -> Iterator[Session]:
    """Open a store with a case's base tables and its view."""
    console.print(f"[bold]{case.name}[/]: {case.title}; {case.rows:,} rows")
    with Session((at / "store").as_uri(), spark, backfill_rows=sys.maxsize) as session:
        build_case(session, case)
        yield session


def run_case(
    spark: SparkSession,
    name: str,
    rows: int,
    sizes: Sequence[int],
    epochs: int,
    peers: Collection[str],
    smaller: bool,
) -> dict[int, CaseResult]:
    """Measure one case: every number of changes, ours and the peers' in turn.

    With `smaller` the small epochs of a base that is that much smaller take turns with them.
    """
    make = CASES[name][0]
    with ExitStack() as opened:
        at = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="tideline-bench-")))
        twin = None
        case = make(rows)
        if smaller and case.smaller.changes in sizes:
            small = case.build_twin()
            twin = (opened.enter_context(open_case(spark, small, at / "smaller")), small)
        session = opened.enter_context(open_case(spark, case, at))
        results = _measure_case(session, case, twin, at, sizes, epochs, peers)
        if twin is not None:
            tables = Tables(twin[1], at / "smaller" / "tables")
            tables.write()
            _compare_with_recompute(twin[0], twin[1], SparkRecompute(spark, tables, at / "smaller"))
        return results


def _measure_case(
    session: Session,
    case: BenchmarkCase,
    twin: tuple[Session, BenchmarkCase] | None,
    at: Path,
    sizes: Sequence[int],
    epochs: int,
    peers: Collection[str],
) -> dict[int, CaseResult]:
    tables = Tables(case, at / "tables")
    tables.write()
    recompute, duck = SparkRecompute(session.spark, tables, at), DuckDB(tables, at)
    stream = None
    recompute.measure_seconds()
    merged = [peer for peer in MERGES if peer in peers and case.merges]
    merges = {peer: DeltaMerge(session.spark, tables, at, MERGES[peer]) for peer in merged}
    for merge in merges.values():
        merge.build(recompute.into)
    if "streaming" in peers and case.streaming_loses is None:
        with report_seconds("stream's first batch"):
            stream = Streaming(session.spark, tables, at)
    results = {}
    for changes in sizes:
        measured = results[changes] = CaseResult()
        small = changes <= SMALL_CHANGES
        warm_up = SMALL_WARM_UP if small else WARM_UP
        for number in range(warm_up + (4 * epochs if small else epochs)):
            change = case.generate_changes(changes)
            turns = [("ours", session, change)]
            if (
                changes == case.smaller.changes and twin is not None
            ):  # each of the two is as often the first after the peers' work
                turns.insert(number % 2, (SMALLER_BASE, twin[0], twin[1].generate_changes(changes)))
            spans = {}
            for who, store, rows in turns:
                spans[who], burnt = _run_epoch(store, rows, at)
                if who == "ours" and number >= warm_up:
                    measured.cpu.append(burnt)
            seconds = {who: flushed for who, (flushed, _) in spans.items()}
            if merges:
                for table in {each.table for each in change} - {"bid", "orders"}:
                    tables.write_one(table)
            seconds |= {peer: merge.measure_seconds(change) for peer, merge in merges.items()}
            if stream is not None:
                seconds["streaming"] = stream.measure_seconds(change)
            if number >= warm_up:
                measured.ours.append(seconds.pop("ours"))
                measured.whole.append(spans["ours"][1])
                for peer, spent in seconds.items():
                    measured.peers.setdefault(peer, []).append(spent)
        tables.write()
        if "recompute" in peers:
            measured.peers["recompute"] = [recompute.measure_seconds() for _ in range(2)]
        if "duckdb" in peers:
            measured.peers["duckdb"] = [duck.measure_seconds() for _ in range(2)]
        peers_text = ", ".join(
            f"{peer} {value:.{3 if peer == SMALLER_BASE else 2}f} s"
            for peer in (*PEERS, SMALLER_BASE)
            if (value := measured.get_peer(peer)) is not None
        )
        each = " ".join(f"{spent:.2f}" for spent in measured.ours)
        ours = f"{measured.median:.3f} s ({each}), from files {measured.from_files:.3f} s"
        ours += f", CPU {statistics.median(measured.cpu):.2f} s"
        console.print(f"  {changes:,} changes: {ours}; {peers_text}", highlight=False)
    if stream is not None:
        stream.stop()
    expected = _compare_with_recompute(session, case, recompute)
    for peer, merge in merges.items():
        _check_same(f"Delta table of {case.name} ({peer})", merge.read_rows(), expected, case.key)
    return results


def _compare_with_recompute(session: Session, case: BenchmarkCase, recompute: SparkRecompute) -> pa.Table:
    """Compare a view with the whole query computed again; return its rows."""
    with report_seconds("compared with the recompute, row by row"):
        recompute.measure_seconds()
        expected = recompute.read_rows()
        names = ", ".join(expected.column_names)
        _check_same(f"view {case.view}", session.sql(f"SELECT {names} FROM {case.view}"), expected, case.key)
    return expected


def _run_epoch(
    session: Session, change: Sequence[TableChange], at: Path
) -> tuple[tuple[float, float], float]:
    """Bring one epoch in; return the seconds of the flush and of the whole way from files, and those of CPU in the flush."""
    files = [at / f"epoch-{number}.parquet" for number in range(len(change))]
    for file, each in zip(files, change, strict=True):
        pq.write_table(each.rows, file)
    began = time.perf_counter()
    for file, each in zip(files, change, strict=True):
        session.write(each.table, pq.read_table(file), mode=each.mode)
    started, burnt = time.perf_counter(), measure_processors().total
    session.flush().raise_for_errors()
    ended = time.perf_counter()
    return (ended - started, ended - began), measure_processors().total - burnt


def _check_same(what: str, found: pa.Table, expected: pa.Table, key: Sequence[str]) -> None:
    """Raise AssertionError unless both hold the same rows."""
    order = [(column, "ascending") for column in key]
    expected = expected.sort_by(order).combine_chunks()
    found = found.select(expected.column_names).cast(expected.schema).sort_by(order).combine_chunks()
    for column in expected.column_names:
        if not found.column(column).equals(expected.column(column)):
            raise AssertionError(
                f"{what} differs from the recompute in column {column}: {found.num_rows:,} rows, {expected.num_rows:,} expected"
            )


def list_requirements(name: str, results: dict[int, CaseResult], percent: int) -> Iterator[Requirement]:
    """Yield the demands that what was measured allows to judge; `percent` is the number of changes that most are about."""
    case = CASES[name][0]
    if percent in results:
        measured = results[percent]
        if case.most_seconds is not None:
            text = f"{name}, {percent:,} changes: seconds"
            yield Requirement(text, measured.median, case.most_seconds, at_most=True)
        found = {"recompute": measured.get_peer("recompute"), "merge": measured.merged}
        for peer, limit in (("recompute", case.times_recompute), ("merge", TIMES_MERGE)):
            if (other := found[peer]) is not None:
                text = f"{name}, {percent:,} changes: faster than {peer}"
                yield Requirement(text, other / measured.median, limit)
    for changes, limit in TIMES_STREAMING.items():
        if changes in results and (other := results[changes].get_peer("streaming")) is not None:
            yield Requirement(
                f"{name}, {changes:,} changes: faster than streaming", other / results[changes].median, limit
            )
    flat = case.smaller
    if flat.changes in results and (other := results[flat.changes].get_peer(SMALLER_BASE)) is not None:
        text = f"{name}, {flat.changes:,} changes: slower than {flat.comparison}"
        yield Requirement(text, results[flat.changes].median / other, flat.at_most, at_most=True)


def show(everything: dict[str, dict[int, CaseResult]]) -> None:
    """Print a table of seconds, with each peer's multiple of ours."""
    peers = [f"{peer} s" for peer in PEERS]
    title = "seconds, medians; beside a peer's how many times ours it takes: from the store, from files"
    table = Table("case", "changes", "epoch s", "from files s", *peers, title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    for name, results in everything.items():
        for changes, measured in results.items():
            cells = []
            for peer in PEERS:
                other = measured.get_peer(peer)
                ours = [one for one in (measured.median, measured.from_files) if one]
                times = ", ".join(f"{other / one:.1f} x" for one in ours) if other is not None else ""
                cells.append("-" if other is None else f"{other:.2f} ({times})")
            whole = "-" if measured.from_files is None else f"{measured.from_files:.3f}"
            table.add_row(name, f"{changes:,}", f"{measured.median:.3f}", whole, *cells)
    console.print(table)
    for name in everything:
        if CASES[name][0].streaming_loses is not None:
            console.print(f"Structured Streaming cannot express {name}: {CASES[name][0].streaming_loses}.")


def judge(bounds: Sequence[Requirement]) -> bool:
    """Print the demands; return whether all hold."""
    table = Table("bound", "measured", "demanded", "", title="bounds")
    for bound in bounds:
        verdict = "[green]PASS[/]" if bound.is_met else "[bold red]FAIL[/]"
        sign = "<=" if bound.at_most else ">="
        table.add_row(bound.text, f"{bound.value:.2f}", f"{sign} {bound.limit:g}", verdict)
    console.print(table)
    return all(bound.is_met for bound in bounds)


def parse_arguments() -> argparse.Namespace:
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
    options = parse_arguments()
    spark = connect("local[2]")
    everything: dict[str, dict[int, CaseResult]] = {}
    bounds: list[Requirement] = []
    for name in options.case:
        rows = CASES[name][1] // (QUICK if options.quick else 1)
        judged = max(CASES[name][0].sizes, default=rows // 100)
        usual = CASES[name][0].sizes or {*CHANGES[: 3 if options.quick else 4], judged}
        sizes = options.changes or sorted(usual)
        results = run_case(
            spark, name, rows, sizes, options.epochs, options.peers, smaller=not options.no_small
        )
        everything[name] = results
        bounds += list_requirements(name, results, judged)
    show(everything)
    is_met = judge(bounds)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    console.print(f"two cores of this machine ({os.cpu_count()}), load average {load}", highlight=False)
    if options.quick:
        console.print("--quick: the bounds are those of the full scale and fail nothing here")
        return 0
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
