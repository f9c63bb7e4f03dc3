"""A pytest plugin that notes for each test what costly work it starts; `python -m tools.durations` reads its report.

The report is pytest's JUnit XML, so that the tests of all workers are in it. Starts are seen as Python's audit events, so that
those of a library count as well; what a process that was started starts is not seen.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

import pytest

_JAVA = ("java", "spark-class", "spark-submit")
_started: Counter[str] = Counter()
_before: Counter[str] = Counter()


def _count(event: str, arguments: tuple[object, ...]) -> None:
    if event == "subprocess.Popen":
        _started["java" if PurePath(str(arguments[0])).name in _JAVA else "process"] += 1
    elif event in ("os.fork", "os.posix_spawn"):
        _started["process"] += 1


sys.addaudithook(_count)


def pytest_runtest_setup() -> None:
    """Begin to count for a test: what its fixtures start is its own."""
    _before.clear()
    _before.update(_started)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Write what the test has started into its properties, and whether it is one of those on Spark."""
    yield
    if "spark" in getattr(item, "fixturenames", ()):
        item.user_properties.append(("spark", 1))
    item.user_properties += [
        (kind, count - _before[kind]) for kind, count in _started.items() if count > _before[kind]
    ]
