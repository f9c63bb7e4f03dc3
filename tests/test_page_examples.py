"""The examples with which pages begin run as they stand there, and give what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import EpochFailed
from engine.session import Session
from engine.sql.statements.reader import parse_statement
from engine.sql.statements.statement_types import CreateMaterializedView
from tests.docs_pages import ROOT

STORE = re.compile(r"file:///(?:tmp/shop|data/store)")


def read_blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a page in a language, in their order; "" is that of a block which names none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


@pytest.fixture
def home(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in; programs that name no Spark take the one that runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    return tmp_path


def answer(session: Session, query: str) -> list[dict[str, object]]:
    found = session.sql(query)
    assert found is not None
    rows: list[dict[str, object]] = found.to_pylist()
    return rows


def run_program(text: str, home: Path) -> None:
    exec(STORE.sub((home / "store").as_uri(), text), {"Session": Session})


def test_the_program_at_the_top_of_the_readme_prints_what_the_readme_says(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(read_blocks("README.md", "python")[0], home)
    printed = capsys.readouterr().out.strip()
    assert printed and f"`{printed}`" in " ".join((ROOT / "README.md").read_text().split())


def test_functions_are_called_as_their_page_says(
    home: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(read_blocks("docs/functions.md", "python")[0], home)
    printed = capsys.readouterr().out.strip()
    assert printed and f"`{printed}`" in " ".join((ROOT / "docs/functions.md").read_text().split())
    in_sql, aggregate = read_blocks("docs/functions.md", "sql")
    with Session((home / "store").as_uri(), spark) as session:
        assert answer(session, in_sql) == [{"n": 80.0}]
        session.sql(aggregate)
        assert answer(session, "SELECT * FROM by_zone ORDER BY zone") == [
            {"zone": 7, "w": 1.5},
            {"zone": 8, "w": 3.0},
        ]


def test_a_landing_folder_takes_the_file_of_its_page_and_takes_it_again_when_it_is_repaired(
    home: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(read_blocks("docs/landing.md", "python")[0], home)
    report, letters = capsys.readouterr().out.splitlines()
    assert report == "orders 1 1 None" and "'line': 3" in letters
    options, dead_letters, again = read_blocks("docs/landing.md", "sql")
    for folder in ("unloaded", "dms"):
        (home / folder).mkdir()
    with Session((home / "store").as_uri(), spark) as session:
        (home / "landing" / "orders" / "first.csv").write_text("id,item,price\n1,tea,3.50\n2,cake,4.00\n")
        session.poll(["orders"])
        assert {row["line"] for row in answer(session, dead_letters)} == {3, -1}
        session.sql(again)
        session.poll(["orders"])
        assert len(answer(session, "SELECT * FROM orders")) == 2 and not answer(session, dead_letters)
        session.sql(options)
        for number, (name, sequence) in enumerate([("new", 9), ("restored", 1), ("counts", 1)]):
            session.sql("DELETE FROM _sequence_customers" if name == "counts" else "SELECT 1")
            (home / "dms" / f"{number}.csv").write_text(
                f"Op,AR_H_CHANGE_SEQ,id,name\nU,{sequence},1,{name}\n"
            )
            session.poll(["customers"])
            assert answer(session, "SELECT name FROM customers") == [
                {"name": "counts" if name == "counts" else "new"}
            ]


@pytest.mark.long
def test_sinks_are_created_as_their_page_says_and_deliver(home: Path, spark: SparkSession) -> None:
    first, own, into = read_blocks("docs/sinks.md", "sql")
    with Session((home / "store").as_uri(), spark) as session:
        session.sql(first)
        session.sinks.wait(120)
        assert answer(session, "SELECT * FROM top_history") == [{"auction": 7, "best": 130}]
        assert list((home / "out" / "dear").iterdir()) and (home / "lake" / "top" / "_delta_log").is_dir()
        session.sql("DROP SINK top_lake")
        assert isinstance(parse_statement(own, "spark"), CreateMaterializedView)
        session.sql(re.sub(r"WITH \(.*?\)", "", own))  # Delta is slow, and has tests of its own
        session.sql(into)
        session.sql("INSERT INTO bid VALUES (2, 8, 20)")
        session.sql("DELETE FROM bid WHERE id = 1")
        session.flush().raise_for_errors()
        session.sinks.wait(120)
        assert answer(session, "SELECT * FROM profile") == [{"auction": 8, "best": 20, "n": 1}]
        names: dict[str, object] = {}
        exec(read_blocks("docs/sinks.md", "python")[0], names)  # follows the files of the first sink
        assert names["rows"] == {8: 20}


def test_changes_are_followed_as_the_page_of_subscriptions_says(
    home: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    run_program(read_blocks("docs/subscriptions.md", "python")[0], home)
    said = " ".join(read_blocks("docs/subscriptions.md", "text")[0].split())
    printed = " ".join(capsys.readouterr().out.split())
    times = re.compile(r"\d{4}-\d\d-\d\d [\d:.]+\+00:00")
    assert times.sub("", printed) == times.sub("", said)
    with Session((home / "store").as_uri(), spark) as session:
        declare, fetch, close = read_blocks("docs/subscriptions.md", "sql")[0].strip().split("\n")
        session.sql(declare)
        assert answer(session, fetch) == []
        session.sql(close)


def test_statements_of_the_page_of_epochs_run(home: Path, spark: SparkSession) -> None:
    write, domain, refresh, shares, checks, broken = read_blocks("docs/epochs.md", "sql")
    with Session((home / "store").as_uri(), spark) as session:
        assert answer(session, write) == [{"auction": 7, "best": 60}]
        session.sql(domain, build=False)
        session.sql(refresh)
        session.sql(shares, build=False)
        session.sql(checks)
        session.sql("INSERT INTO flight VALUES (1, 'a', DATE'2024-01-01', 'open', 700)")
        report = session.flush()
        report.raise_for_errors()  # what is late is no more than a warning
        assert [name for name, found in report["delays"].checks.items() if found.rows] == ["late"]
        session.sql("INSERT INTO flight VALUES (2, 'b', DATE'2024-01-01', 'open', -1)")
        assert "check check_3 of delays" in (session.flush(["delays"])["delays"].error or "")
        now, committed = broken.strip().splitlines()
        assert [row["id"] for row in answer(session, now)] == [2]
        assert answer(session, committed) == [{"id": 1, "_failed": 8}]
        assert not answer(session, "SELECT * FROM _check_2_delays") + answer(
            session, "SELECT * FROM _check_4_delays"
        )
        assert answer(session, "SELECT share FROM shares") == [{"share": None}]
        assert answer(session, "SELECT n, total FROM bids, money") == [{"n": 1, "total": 60}]


def test_a_view_is_built_in_the_background_as_its_page_says(home: Path, spark: SparkSession) -> None:
    create, limits = read_blocks("docs/backfill.md", "sql")
    with Session((home / "store").as_uri(), spark) as session:
        assert answer(session, create) == [{"item": "tea", "total": 150_000}]
        session.sql(limits)


def test_a_partition_fails_and_comes_back_as_its_page_says(home: Path, spark: SparkSession) -> None:
    create, repair = read_blocks("docs/partitions.md", "sql")
    with Session((home / "store").as_uri(), spark) as session:
        with pytest.raises(EpochFailed, match=r"partition 2024-01-02 .*\n.*\n?.*'id': 2"):
            session.sql(create)
        assert [row["total"] for row in answer(session, "SELECT * FROM per_day")] == [100]
        session.sql(repair)
        assert [row["total"] for row in answer(session, "SELECT * FROM per_day ORDER BY day")] == [100, 50]
        assert session.materialize("per_day", "2024-01-02")["per_day"].partition_rows_read == 1
