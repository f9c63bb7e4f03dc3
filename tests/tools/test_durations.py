"""A report of tests is read with its files, its seconds and what each test started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import durations
from tools.durations import read_report, sum_by_key, sum_by_length, sum_by_start

REPORT = """<testsuites><testsuite>
<testcase classname="tests.sql.typing.test_casts" name="test_a[1]" time="2.5"/>
<testcase classname="tests.cli.test_up.TestIn" name="test_b" time="11.0"><properties>
<property name="spark" value="1"/><property name="process" value="3"/></properties></testcase>
<testcase classname="tests.test_docs" name="test_c" time="0.5"/>
<testcase classname="tests.test_docs" name="test_d" time="0.0"><skipped/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "tests.xml"
    path.write_text(REPORT)
    return path


def test_seconds_are_summed_by_folder_and_by_what_is_started(report: Path) -> None:
    tests = read_report(report)
    assert [test.file for test in tests] == [
        "tests/sql/typing/test_casts.py",
        "tests/cli/test_up.py",
        "tests/test_docs.py",
    ]
    assert sum_by_key(tests, lambda test: test.folder) == {
        "tests/cli": (1, 11.0),
        "tests/sql": (1, 2.5),
        "tests/test_docs.py": (1, 0.5),
    }
    assert sum_by_start(tests) == {
        "spark": (1, 11.0),
        "java": (0, 0),
        "process": (1, 11.0),
        "none of these": (2, 3.0),
    }
    assert sum_by_length(tests) == {
        "over 10 s": (1, 11.0),
        "over 5 s": (1, 11.0),
        "over 1 s": (2, 13.5),
        "all": (3, 14.0),
    }


def test_two_reports_are_set_beside_each_other(
    report: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.argv", ["durations", str(report), str(report), "--within", "tests/cli"])
    durations.main()
    shown = capsys.readouterr().out
    assert "seconds before" in shown and "tests/cli/test_up.py::test_b" in shown and "test_casts" not in shown
