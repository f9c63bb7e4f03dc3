"""`python -m tools.durations REPORT` prints where the time of the tests goes: by folder, by file, by what they start.

REPORT is the JUnit XML that `make test` leaves in build/tests.xml; a second one is set beside it as the state before.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

LONGEST = 20
KINDS = ("spark", "java", "process")


@dataclass(frozen=True)
class Test:
    """A test of a report: its file, its name, its seconds with set-up and tear-down, and how much of each kind it starts."""

    file: str
    name: str
    seconds: float
    starts: Counter[str] = field(default_factory=Counter)

    @property
    def folder(self) -> str:
        """The folder of tests that the file is in: the first two names of its path."""
        return "/".join(self.file.split("/")[:2]) if self.file.count("/") > 1 else self.file


def read_report(path: Path) -> list[Test]:
    """Return the tests of a JUnit report that ran; those that were skipped are left out."""
    found = []
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        starts: Counter[str] = Counter()
        for one in case.iter("property"):
            starts[one.get("name", "")] += int(one.get("value", "0"))
        found.append(
            Test(
                _find_file(case.get("classname", "")),
                case.get("name", ""),
                float(case.get("time", 0)),
                starts,
            )
        )
    return found


def _find_file(classname: str) -> str:
    """Return the path of a module; what follows the module in a class's name is the class."""
    parts = classname.split(".")
    while len(parts) > 1 and not parts[-1].startswith("test_"):
        parts.pop()
    return "/".join(parts) + ".py"


def sum_by_key(tests: Iterable[Test], key: Callable[[Test], str]) -> dict[str, tuple[int, float]]:
    """Return the number of tests and their seconds by a key, most seconds first."""
    sums: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for test in tests:
        count, seconds = sums[key(test)]
        sums[key(test)] = (count + 1, seconds + test.seconds)
    return dict(sorted(sums.items(), key=lambda item: -item[1][1]))


def sum_by_start(tests: Sequence[Test]) -> dict[str, tuple[int, float]]:
    """Return the number of tests and their seconds by the kind of start."""
    named = {kind: [test for test in tests if test.starts[kind]] for kind in KINDS}
    named["none of these"] = [test for test in tests if not any(test.starts[kind] for kind in KINDS)]
    return {kind: (len(found), sum(test.seconds for test in found)) for kind, found in named.items()}


def sum_by_length(tests: Sequence[Test]) -> dict[str, tuple[int, float]]:
    """Return the number of tests and their seconds that take longer than a bound."""
    bounds = {f"over {bound} s": [test for test in tests if test.seconds > bound] for bound in (10, 5, 1)}
    return {
        name: (len(found), sum(test.seconds for test in found))
        for name, found in {**bounds, "all": list(tests)}.items()
    }


def build_table(
    title: str, now: dict[str, tuple[int, float]], before: dict[str, tuple[int, float]] | None, most: int = 0
) -> Table:
    """Return a table of counts and seconds, with the state before where it is given."""
    made = Table(title=title, title_justify="left")
    made.add_column("")
    for name in (
        ("tests", "seconds") if before is None else ("tests before", "seconds before", "tests", "seconds")
    ):
        made.add_column(name, justify="right")
    names = list(dict.fromkeys([*now, *(before or {})]))
    if before is not None:
        names.sort(key=lambda name: -max(now.get(name, (0, 0.0))[1], before.get(name, (0, 0.0))[1]))
    for name in names[: most or None]:
        cells = [one.get(name, (0, 0.0)) for one in ([now] if before is None else [before, now])]
        made.add_row(name, *(cell for count, seconds in cells for cell in (f"{count:,}", f"{seconds:,.0f}")))
    return made


def main() -> None:
    """Print the tables of one report, or of two beside each other."""
    options = argparse.ArgumentParser(prog="python -m tools.durations", description=__doc__)
    options.add_argument("report", type=Path)
    options.add_argument("before", type=Path, nargs="?")
    options.add_argument("--longest", type=int, default=LONGEST, help="how many files and tests are listed")
    options.add_argument("--within", default="", help="only files whose path begins so")
    given = options.parse_args()

    def read(path: Path) -> list[Test]:
        return [test for test in read_report(path) if test.file.startswith(given.within)]

    now, before = read(given.report), None if given.before is None else read(given.before)
    console = Console()
    ways: list[tuple[str, Callable[[list[Test]], dict[str, tuple[int, float]]], int]] = [
        ("by folder", lambda tests: sum_by_key(tests, lambda test: test.folder), 0),
        ("longest files", lambda tests: sum_by_key(tests, lambda test: test.file), given.longest),
        (
            "longest tests",
            lambda tests: sum_by_key(tests, lambda test: f"{test.file}::{test.name}"),
            given.longest,
        ),
        ("by what they start", sum_by_start, 0),
        ("by length", sum_by_length, 0),
    ]
    for title, sums, most in ways:
        console.print(build_table(title, sums(now), None if before is None else sums(before), most))


if __name__ == "__main__":
    main()
