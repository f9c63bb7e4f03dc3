"""`python -m tools.planted` plants bugs by hand, one at a time, in a copy of the repository, and shows which test catches each.

It ends with 1 where a bug is caught by none of the tests of `make test` that are named for its room.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = (
    "long",
    "oracle",
    "crash",
    "conformance",
    "browser",
    "postgres",
    "kafka",
    "prometheus",
    "cluster",
    "install",
)
"""The markers of what `make test` leaves out."""


@dataclass(frozen=True)
class Bug:
    """A bug: what it is, the file, the text that stands there once, what stands in its place, and the tests of the room."""

    what: str
    file: str
    text: str
    planted: str
    tests: tuple[str, ...]


BUGS = (
    Bug(
        "a zombie of the last generation may commit",
        "engine/hummock/manifests/invariants.py",
        "if commit.generation < newest:",
        "if commit.generation < newest - 1:",
        ("tests/hummock",),
    ),
    Bug(
        "garbage collection deletes what is too young",
        "engine/hummock/upkeep/gc.py",
        "return parse_created_ms(info.path) < horizon_ms\n",
        "return parse_created_ms(info.path) < horizon_ms + (1 << 40)\n",
        ("tests/hummock",),
    ),
    Bug(
        "of two runs the older one wins",
        "engine/hummock/reads/merge.py",
        "return [sst for run in runs for sst in reversed(run)]",
        "return [sst for run in reversed(runs) for sst in reversed(run)]",
        ("tests/hummock",),
    ),
    Bug(
        "a view waits although all of its inputs have its next epoch",
        "engine/meta/epochs/frontier.py",
        "(first is not None and first <= reach)",
        "(first is not None and first < reach)",
        ("tests/meta", "tests/runtime/domains"),
    ),
    Bug(
        "the moment at which a filter on the clock turns is passed over",
        "engine/meta/epochs/time_boundary.py",
        "own.committed_epoch < at <= epoch",
        "own.committed_epoch < at < epoch - 1",
        ("tests/meta", "tests/runtime/clock"),
    ),
    Bug(
        "joins take nulls for equal",
        "engine/operators/joins/join.py",
        'equal = "<=>" if node.null_safe else "="',
        'equal = "<=>"',
        ("tests/operators", "tests/runtime/test_incremental_views.py"),
    ),
    Bug(
        "the first rows of a group lack the last one",
        "engine/operators/grouping/top_n.py",
        'upto = Comparison("<=",',
        'upto = Comparison("<",',
        ("tests/operators", "tests/runtime/windows"),
    ),
    Bug(
        "a comparison with a row number is turned wrongly",
        "engine/sql/rewrites/plans/convert_to_top_n.py",
        '_TURNED = {"<": ">",',
        '_TURNED = {"<": ">=",',
        ("tests/sql",),
    ),
    Bug(
        "a write does not see that the table has changed since it was read",
        "engine/hummock/manifests/preconditions.py",
        "(now.table_id, now.committed_epoch) == (seen.table_id, seen.committed_epoch)",
        "(now.table_id,) == (seen.table_id,)",
        ("tests/hummock/manifests", "tests/runtime/writes", "tests/connectors/conformance"),
    ),
    Bug(
        "a barrier of the epoch that is open is taken",
        "engine/log_store/sync.py",
        "if barrier.curr <= last:",
        "if barrier.curr < last:",
        ("tests/log_store",),
    ),
    Bug(
        "a sink that is behind asks for no run",
        "dagster_tideline/runs/pending.py",
        "        if at.is_due:\n",
        "        if at.is_due and lagging:\n",
        ("tests/dagster",),
    ),
    Bug(
        "two processes may acknowledge the same range of a sink",
        "engine/connectors/sinks/delivery.py",
        "precondition=require_all(self._require_unchanged(base, table), reader.require_unmoved(table))",
        "precondition=self._require_unchanged(base, table)",
        ("tests/connectors/sinks", "tests/connectors/conformance"),
    ),
    Bug(
        "to an INSERT -0.0 and 0.0 are two keys",
        "engine/hummock/rows/key_numbers.py",
        "normal: Any = normalize_key(pa.chunked_array(chunks))",
        "normal: Any = pa.chunked_array(chunks)",
        ("tests/hummock", "tests/runtime/writes", "tests/connectors/conformance"),
    ),
)


def plant(bug: Bug, tree: Path) -> None:
    """Write a bug into a copy of the repository; raises ValueError unless its text stands there exactly once."""
    path = tree / bug.file
    text = path.read_text()
    if text.count(bug.text) != 1:
        raise ValueError(f"{bug.file}: {bug.text!r} stands there {text.count(bug.text)} times")
    path.write_text(text.replace(bug.text, bug.planted))


def find_catching_test(bug: Bug, tree: Path) -> str | None:
    """Return the first test that fails with a bug planted, None if none does."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "TIDELINE_JARS": str(ROOT / "jars")}
    without = " and ".join(f"not {marker}" for marker in LEFT_OUT)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        without,
        *bug.tests,
    ]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" ")[1] if done.returncode == 1 and failed else None


def _copy(tree: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)


def main() -> int:
    """Plant each bug in turn and print what caught it."""
    options = argparse.ArgumentParser(prog="python -m tools.planted", description=__doc__)
    options.add_argument("only", nargs="*", type=int, help="the numbers of bugs; all if none is given")
    only = set(options.parse_args().only)
    console, table = Console(), Table("", "bug", "caught by", "seconds")
    missed = 0
    for number, bug in enumerate(BUGS, 1):
        if only and number not in only:
            continue
        console.print(f"[{number}/{len(BUGS)}] {bug.what} …")
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            _copy(Path(folder))
            plant(bug, Path(folder))
            started = time.monotonic()
            test = find_catching_test(bug, Path(folder))
        missed += test is None
        table.add_row(str(number), bug.what, test or "nothing", f"{time.monotonic() - started:.0f}")
    console.print(table)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
