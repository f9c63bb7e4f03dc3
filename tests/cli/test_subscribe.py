"""What `tideline subscribe` prints, and what counts as taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from engine.cli.commands import main
from engine.cli.printing import Format
from engine.cli.subscribe import print_changes
from engine.runtime.subscriptions.subscriber import EpochReading
from engine.session import Session


@pytest.fixture
def shop(tmp_path: Path) -> str:
    """A store with a table, a subscription, and three epochs since; no Spark is needed."""
    url = (tmp_path / "store").as_uri()
    with Session(url, lambda: pytest.fail("Spark is started")) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        session.sql("INSERT INTO t VALUES (1, 'a')")
        session.sql("CREATE SUBSCRIPTION s FROM t")
        session.sql("UPDATE t SET v = NULL WHERE id = 1")
        session.sql("INSERT INTO t VALUES (2, 'b'), (3, 'tab\\t')")
        session.sql("DELETE FROM t WHERE id = 2")
    return url


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """Run a command and return what it prints, and what it says beside it."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    printed = capsys.readouterr()
    assert (ended.value.code == 0) == (not printed.err), printed.err
    return printed.out, printed.err


def test_changes_are_printed_epoch_by_epoch_and_count_as_taken(
    shop: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed, _ = run(capsys, "subscribe", "s", "--store", shop)
    lines = printed.splitlines()
    assert [line for line in lines if line.startswith("── epoch 20")] == [lines[0], lines[5], lines[10]]
    assert lines[1].split() == ["op", "id", "v"]
    assert [line.split() for line in lines[3:5]] == [
        ["UpdateDelete", "1", "a"],
        ["UpdateInsert", "1", "NULL"],
    ]
    assert lines[-1].split() == ["Delete", "2", "b"] and "tab\\t" in printed
    assert run(capsys, "subscribe", "s", "--store", shop) == ("", "")


def test_json_has_a_line_a_change(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed, _ = run(capsys, "subscribe", "t", "--full", "--json", "--store", shop)
    found = [json.loads(line) for line in printed.splitlines()]
    assert sorted((one["op"], one["row"]["id"], one["row"]["v"], one["snapshot"]) for one in found) == [
        ("Insert", 1, None, True),
        ("Insert", 3, "tab\t", True),
    ]
    assert {one["epoch"] for one in found} and found[0]["time"].startswith("20")
    printed, _ = run(capsys, "subscribe", "s", "--since", "begin", "--json", "--store", shop)
    assert [json.loads(line)["op"] for line in printed.splitlines()] == [
        *("UpdateDelete", "UpdateInsert", "Insert", "Insert", "Delete"),
    ]


@pytest.mark.parametrize(("limit", "left"), [(1, 5), (2, 3), (3, 3), (4, 1), (5, 0), (9, 0)])
def test_an_epoch_that_is_cut_by_the_limit_comes_again(
    shop: str, capsys: pytest.CaptureFixture[str], limit: int, left: int
) -> None:
    printed, _ = run(capsys, "subscribe", "s", "--limit", str(limit), "--json", "--store", shop)
    assert len(printed.splitlines()) == min(limit, 5)
    printed, _ = run(capsys, "subscribe", "s", "--json", "--store", shop)
    assert len(printed.splitlines()) == left


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_the_next_program_of_a_pipe_did_not_take_comes_again(shop: str, unbuffered: str) -> None:
    with Session(shop) as session:
        list(session.subscribe("s"))
        session.write("t", pa.table({"id": range(10, 20_000), "v": ["a text of some length"] * 19_990}))
    command = [
        sys.executable,
        "-c",
        "from engine.cli.commands import main; main()",
        "subscribe",
        "s",
        "--json",
    ]
    environment = {**os.environ, "TIDELINE_STORE": shop, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as printing:
        assert printing.stdout is not None and printing.stdout.read(1) == b"{"
        printing.stdout.close()  # as `head` does, or a program that dies
        assert printing.wait(60) != 0
    with Session(shop) as session:
        assert [item.changes.num_rows for item in session.subscribe("s")] == [19_990]


def test_following_ends_by_ctrl_c_and_prints_what_came_meanwhile(
    shop: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(shop) as session:
        subscriber = session.subscribe("s", follow=True, poll_seconds=0.01, acknowledge=False)
        read, epochs = subscriber.read_next, 0

        def read_next() -> EpochReading | None:
            nonlocal epochs
            if epochs == 3:
                session.sql("INSERT INTO t VALUES (7, 'new')")
            if epochs == 4:
                raise KeyboardInterrupt
            epochs += 1
            return read()

        monkeypatch.setattr(subscriber, "read_next", read_next)
        print_changes(subscriber, Format.table, None)
        subscriber.close()
        assert capsys.readouterr().out.splitlines()[-1].split() == ["Insert", "7", "new"]
        assert list(session.subscribe("s")) == []


def test_what_is_wrong_is_said_in_one_message(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no table or view nothing" in run(capsys, "subscribe", "nothing", "--store", shop)[1]
    assert "no moment" in run(capsys, "subscribe", "t", "--since", "then", "--store", shop)[1]
    assert (
        "csv has room for one table" in run(capsys, "subscribe", "t", "--format", "csv", "--store", shop)[1]
    )


def test_status_lists_subscriptions(shop: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed, _ = run(capsys, "status", "--json", "--store", shop)
    found = {one["name"]: one for one in json.loads(printed)}["s"]
    assert found["kind"] == "subscription" and found["rows_at_most"] == 4
