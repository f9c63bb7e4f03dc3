"""`python -m engine.hummock.compaction --store URL [--once] [--table NAME …]`: a compactor of its own."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence

from engine.errors import TidelineError
from engine.hummock.compaction.report import CompactionReport
from engine.hummock.compaction.worker import CompactionWorker
from engine.hummock.store import Hummock


def print_report(report: CompactionReport) -> None:
    """Print one line for a compaction."""
    print(
        f"{report.table}: {report.runs_before} runs -> {report.runs_after}, {report.rows_before} rows -> "
        f"{report.rows_after}, {report.bytes_before} bytes -> {report.bytes_after}, {report.seconds:.2f} s",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the status."""
    parser = argparse.ArgumentParser(prog="engine.hummock.compaction", description=__doc__)
    parser.add_argument("--store", required=True, help="file:///path or s3://bucket/prefix")
    parser.add_argument("--once", action="store_true", help="end when no table needs anything")
    parser.add_argument("--table", action="append", help="look at these tables only (with --once)")
    parser.add_argument("--idle-seconds", type=float, default=2.0, help="wait so long where nothing is to do")
    chosen = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with Hummock.open(chosen.store, create=False, auto_compact="off") as store:
            worker = CompactionWorker(store)
            if chosen.once:
                for report in worker.run_once(chosen.table):
                    print_report(report)
            else:
                worker.run_forever(stop, chosen.idle_seconds, print_report)
    except TidelineError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
