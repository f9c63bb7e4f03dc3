"""When following the changes costs more than computing a view as a whole and committing the difference.

`python -m benchmarks.change_or_whole [--rows 500000] [--percent 40 100]`

Both ways run in turn over the same view, for changes of some per cent of the base table's rows. Decision 0017 stands on this.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.epochs import build_case
from benchmarks.window_cases import CASES
from engine.runtime.epoch.spark_executor import SparkExecutor
from engine.runtime.executor import FragmentTask, TaskResult
from engine.runtime.spark.session import connect
from engine.session import Session
from engine.sql.incremental.rules import IndexCopy

ROUNDS = 3


class EitherWay(SparkExecutor):
    """The executor, told whether to follow the changes or to compute views as a whole."""

    whole = False

    def compute(self, task: FragmentTask) -> TaskResult:
        """Compute a task; the change of a view as the difference to its whole new content if so told."""
        can = task.old is not None and not isinstance(task.fragment.rule, IndexCopy)
        return super().compute(replace(task, whole=True) if self.whole and can else task)


def measure_seconds(session: Session, executor: EitherWay, case, changes: int) -> dict[bool, float]:  # type: ignore[no-untyped-def]
    """Return the median seconds of an epoch by whether it was computed as a whole, after one of each that warms up."""
    spent: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(1 + ROUNDS):
        for whole in spent:
            executor.whole = whole
            for change in case.generate_changes(changes):
                session.write(change.table, change.rows, mode=change.mode)
            started = time.perf_counter()
            session.flush().raise_for_errors()
            spent[whole].append(time.perf_counter() - started)
    return {whole: statistics.median(each[1:]) for whole, each in spent.items()}


def main() -> int:
    """Measure every case and print both ways' seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--percent", type=int, nargs="+", default=[40, 100])
    options = parser.parse_args()
    spark = connect("local[2]")
    table = Table("case", "changed rows", "of", "by the changes s", "as a whole s", "ratio")
    for name, (kind, _) in CASES.items():
        for percent in options.percent:
            case = kind(options.rows)
            changes = options.rows * min(percent, 90 if name == "wide" else percent) // 100
            with (
                tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder,
                Session((Path(folder) / "store").as_uri(), spark, backfill_rows=sys.maxsize) as session,
            ):
                executor = EitherWay(session.store, session.on_demand.open)
                session._runner.executor = session._runner.backfill.executor = executor
                build_case(session, case)
                by = measure_seconds(session, executor, case, changes)
            cells = f"{by[False]:.2f}", f"{by[True]:.2f}", f"{by[True] / by[False]:.2f} x"
            table.add_row(name, f"{changes:,}", f"{options.rows:,}", *cells)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
