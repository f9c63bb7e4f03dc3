"""`python -m tools.proof` runs all that `make test` leaves out, a target after the other, and prints a table of what came.

What passed on this commit is not run again, so that a proof that was broken off goes on where it was: outcomes are kept in
build/proof.json. `--again` forgets them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "build" / "proof.json"
TARGETS = (
    "long",
    "compiled",
    "shuffled",
    "planted",
    "oracle",
    "crash",
    "faults",
    "state-machine",
    "races",
    "maintenance",
    "conformance",
    "fuzz",
    "examples",
    "outages",
    "first-view",
    "browser",
    "postgres",
    "kafka",
    "prometheus",
    "cluster",
)


@dataclass(frozen=True)
class Outcome:
    """What a target came to: the commit it ran on, its exit status, its seconds and the last line that it printed."""

    target: str
    commit: str
    status: int
    seconds: float
    last_line: str


def run_target(target: str, commit: str) -> Outcome:
    """Run a target of the Makefile; its output goes to build/proof-TARGET.log."""
    log = REPORT.with_name(f"proof-{target}.log")
    started = time.monotonic()
    with log.open("w") as output:
        command = ["make", "--no-print-directory", target]
        alone = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
        done = subprocess.run(
            command, cwd=ROOT, env=alone, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return Outcome(target, commit, done.returncode, time.monotonic() - started, lines[-1] if lines else "")


def build_table(outcomes: Sequence[Outcome]) -> Table:
    """Return a table of outcomes."""
    made = Table("target", "result", "minutes", "its last line")
    for one in outcomes:
        result = "passed" if one.status == 0 else f"failed ({one.status})"
        made.add_row(one.target, result, f"{one.seconds / 60:.1f}", one.last_line)
    return made


def read_outcomes(commit: str) -> dict[str, Outcome]:
    """Return what was run on a commit by earlier calls, by target."""
    if not REPORT.is_file():
        return {}
    found = [Outcome(**one) for one in json.loads(REPORT.read_text())]
    return {one.target: one for one in found if one.commit == commit}


def find_commit() -> str:
    """Return the commit that is checked out, with a mark where files differ from it."""
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


def main() -> int:
    """Run the targets that have not passed on this commit; 1 where one failed."""
    options = argparse.ArgumentParser(prog="python -m tools.proof", description=__doc__)
    options.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="these alone")
    options.add_argument("--again", action="store_true", help="run also what has passed on this commit")
    given = options.parse_args()
    console, commit = Console(), find_commit()
    REPORT.parent.mkdir(exist_ok=True)
    known = {} if given.again else read_outcomes(commit)
    for number, target in enumerate(given.targets or TARGETS, 1):
        if target in known and known[target].status == 0 and not commit.endswith("-dirty"):
            continue
        console.print(f"[{number}/{len(given.targets or TARGETS)}] make {target} …")
        known[target] = run_target(target, commit)
        REPORT.write_text(json.dumps([asdict(one) for one in known.values()], indent=1))
    console.print(build_table(list(known.values())))
    return int(any(one.status for one in known.values()))


if __name__ == "__main__":
    sys.exit(main())
