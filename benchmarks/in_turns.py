"""The shop project by two source trees, hour by hour in turns: `python -m benchmarks.in_turns OTHER [--hours 24]`.

OTHER is the folder of another checkout, as of the commit before a change. Each tree runs in a process of its own, over a
store of its own, with this environment's packages; while one computes the other waits. So both have the same share of a
machine whose speed changes. Printed are medians without the first three hours, and the median of the hours' ratios: this
tree's seconds by the other's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.project import Project
from benchmarks.shop import Shop
from engine.session import Session

CHANGES, SCALE = 4859, 0.2
WARM_UP = 3
ANSWER = "in turns: "
"""How each line begins by which a process answers."""
COLUMNS = ("seconds", "write", "flush", "driver", "java", "workers")
"""Seconds of an hour, of its two parts, and of the processors."""


@dataclass
class SourceTree:
    """A process that runs hours by the code of a source tree, each when it is asked to."""

    folder: Path
    process: subprocess.Popen[str]
    hours: list[list[float]] = field(default_factory=list)

    def run_hour(self) -> None:
        """Run one more hour, and keep what it took; raises RuntimeError if the process has ended."""
        assert self.process.stdin is not None
        self.process.stdin.write("hour\n")
        self.process.stdin.flush()
        self.hours.append([float(word) for word in self._read_answer().split()])

    def wait_until_ready(self) -> None:
        """Wait for the first content of all views."""
        self._read_answer()

    def _read_answer(self) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(ANSWER):
                return line.removeprefix(ANSWER)
        raise RuntimeError(f"the process of {self.folder} has ended")

    def list_medians(self) -> list[float]:
        """Return the median of each of COLUMNS, without the hours that warm up."""
        return [statistics.median(column) for column in zip(*self.hours[WARM_UP:], strict=True)]


@contextmanager
def start_tree(folder: Path, master: str) -> Iterator[SourceTree]:
    """Start a process that runs the code of `folder`, and end it."""
    command = [sys.executable, "-P", __file__, "--serve", "--master", master]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield SourceTree(folder, process)
    finally:
        try:
            process.communicate(timeout=120)  # which closes its input: it ends after the hour that it is at
        except subprocess.TimeoutExpired:
            process.kill()


def serve(master: str) -> None:
    """Run an hour for each line that comes in, and print what it took."""
    with (
        tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder,
        Session((Path(folder) / "store").as_uri(), master) as session,
    ):
        shop = Shop(SCALE, 1)
        project = Project(session, shop)
        project.load_tables()
        project.create_views()
        print(ANSWER, flush=True)
        for _ in sys.stdin:
            cost = project.run_hour(shop.generate_hour(CHANGES))
            spent = cost.processors
            row = (cost.seconds, cost.write, cost.flush, spent.driver, spent.java, spent.workers)
            print(ANSWER, *row, flush=True)


def compare(folders: Sequence[Path], master: str, hours: int) -> None:
    """Run hours by both trees in turns, and print what they took."""
    with ExitStack() as stack:
        trees = [stack.enter_context(start_tree(folder, master)) for folder in folders]
        for tree in trees:
            tree.wait_until_ready()
        for hour in range(hours):
            for tree in trees if hour % 2 else trees[::-1]:
                tree.run_hour()
    table = Table("source tree", *COLUMNS)
    for tree in trees:
        table.add_row(str(tree.folder), *(f"{value:.3f}" for value in tree.list_medians()))
    own, other = (tree.hours[WARM_UP:] for tree in trees)
    ratios = [mine[0] / theirs[0] for mine, theirs in zip(own, other, strict=True)]
    console = Console(width=140 if not sys.stdout.isatty() else None)
    console.print(table)
    console.print(
        f"this tree's seconds by the other's, median of {len(ratios)} hours: {statistics.median(ratios):.3f}"
    )


def main() -> None:
    """Compare this source tree with another one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, nargs="?", help="the folder of the other checkout")
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.master)
        return
    if options.other is None or not (options.other / "benchmarks" / "project.py").is_file():
        parser.error("name the folder of another checkout, which has benchmarks/project.py")
    if options.hours <= WARM_UP:
        parser.error(f"run more than {WARM_UP} hours: the first ones warm up")
    compare([Path(__file__).parents[1], options.other.resolve()], options.master, options.hours)


if __name__ == "__main__":
    main()
