"""What `tideline diff` and `tideline blame` print."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import click
import pyarrow as pa
import pytest

from engine.cli.answers.row_changes import print_history
from engine.cli.commands import main
from engine.cli.printing import Format
from engine.meta.epochs.barrier import Barrier
from engine.meta.epochs.commit_history import CommitRecord
from engine.runtime.answers.blame import RowChange, RowHistory
from engine.session import Session


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """A store with tables, one of them without a key, and the epoch before their last changes; no Spark is needed."""
    url = (tmp_path_factory.mktemp("shop") / "store").as_uri()
    with Session(url, lambda: pytest.fail("Spark is started")) as session:
        session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, price DOUBLE, who STRING, data BINARY)")
        session.sql("CREATE TABLE visit (who STRING, n BIGINT)")
        rows = {
            "id": [1, 2, 3],
            "price": [1.5, math.nan, None],
            "who": ["a", "b", "c"],
            "data": [b"\x00", None, None],
        }
        session.write("bid", pa.table(rows))
        before = session.write("visit", pa.table({"who": ["a", "a"], "n": [1, 2]}))
        session.write(
            "bid", pa.table({"id": [1, 2], "price": [1.5, 2.0], "who": ["a", None], "data": [b"\xff", None]})
        )
        session.write("bid", pa.table({"id": pa.array([3], pa.int64())}), "delete")
        session.write("bid", pa.table({"id": [4], "price": [4.0], "who": ["tab\t"], "data": [None]}))
        session.sql("UPDATE visit SET n = 5 WHERE n = 2")
        yield url, before


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """Run a command and return what it prints, and what it says beside it."""
    with pytest.raises(SystemExit):
        main(words)
    return tuple(capsys.readouterr())  # type: ignore[return-value]


def find_lines(printed: str, first: str) -> list[list[str]]:
    """The words of the lines that begin with a word."""
    return [line.split() for line in printed.splitlines() if line.startswith(first)]


def test_counts_columns_and_changed_cells_are_printed(
    shop: tuple[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    url, before = shop
    printed, _ = run(capsys, "diff", "bid", str(before), "--store", url)
    lines = printed.splitlines()
    assert lines[0].startswith("bid from epoch ") and lines[0].endswith(f"UTC ({before})")
    assert [line.split() for line in lines[3:6:2]] == [
        ["rows", "before", "rows", "after", "inserted", "deleted", "updated", "unchanged"],
        ["3", "3", "1", "1", "2", "0"],
    ]
    assert find_lines(printed, "data") == [["data", "1"]] and find_lines(printed, "price") == [["price", "1"]]
    assert sorted(find_lines(printed, "update")) == [
        ["update", "1", "00", "->", "ff"],
        ["update", "2", "nan", "->", "2.0", "b", "->", "NULL"],
    ]
    assert find_lines(printed, "delete") == [["delete", "3", "NULL", "c", "NULL"]]
    assert find_lines(printed, "insert") == [["insert", "4", "4.0", "tab\\t", "NULL"]]


def test_rows_with_a_hidden_key_show_the_cells_that_tell_them_apart(
    shop: tuple[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    printed, _ = run(capsys, "diff", "visit", str(shop[1]), "--store", shop[0])
    assert find_lines(printed, "update") == [["update", "a", "2", "->", "5"]]


def test_more_rows_than_are_shown_are_counted(
    shop: tuple[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("diff", "bid", str(shop[1]), "--store", shop[0], "--rows", "1")
    more = "3 more changed rows are not shown: --rows N shows N of them"
    assert run(capsys, *words)[0].splitlines()[-1] == more
    printed, said = run(capsys, *words, "--format", "csv")
    assert len(printed.splitlines()) == 2 and said.strip() == more


def test_rows_that_do_not_fit_stand_a_cell_a_line(
    shop: tuple[str, int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    lines = run(capsys, "diff", "bid", str(shop[1]), "--store", shop[0])[0].splitlines()
    at = lines.index("data   00 -> ff")
    assert lines[at - 2 : at] == ["── update ──────────────", "id     1"]


def test_programs_get_the_difference_as_one_object(
    shop: tuple[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(run(capsys, "diff", "bid", str(shop[1]), "--json", "--store", shop[0])[0])
    assert {
        name: found[name] for name in ("rows_before", "rows_after", "inserted", "deleted", "updated")
    } == {
        "rows_before": 3,
        "rows_after": 3,
        "inserted": 1,
        "deleted": 1,
        "updated": 2,
    }
    assert found["changed_columns"] == {"id": 0, "price": 1, "who": 1, "data": 1}
    gone = next(row for row in found["rows"] if row["_op"] == "delete")
    assert (gone["id"], gone["who"], gone["_old_who"]) == (3, None, "c")


def test_the_history_of_a_row_is_printed_newest_first(
    shop: tuple[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = run(capsys, "blame", "bid", "2", "--store", shop[0])[0].splitlines()
    assert lines[0].endswith(": id = 2") and lines[1] == "all its changes are known"
    assert [line.split()[2:5] for line in lines[5::2]] == [["update", "a", "write"], ["insert", "a", "write"]]
    assert lines[6::2] == ["    price nan -> 2.0, who b -> NULL", "    id 2, price nan, who b, data NULL"]
    found = json.loads(run(capsys, "blame", "bid", "id=3", "--json", "--store", shop[0])[0])
    assert found["row"] is None and found["known_from"] is None and found["key"] == {"id": "3"}
    assert [change["operation"] for change in found["changes"]] == ["delete", "insert"]
    assert found["changes"][0]["commit"]["writer"] is None and found["changes"][0]["new"] is None


def test_who_committed_and_from_when_on_is_known_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    epoch = 11693245941874688
    barrier = Barrier(epoch - 9, epoch, mutation="recompute")
    commit = CommitRecord(7, epoch + (1 << 16), "domain/sales", barrier)
    changes = (
        RowChange(epoch + 2, "delete", {"n": 2}, None, ("n",), "time to live", None),
        RowChange(epoch, "update", {"n": 1}, {"n": 2}, ("n",), "write", commit),
        RowChange(epoch - 1, "update", {"n": 0}, {"n": 1}, ("n",), "write", None),
    )
    history = RowHistory("top", {}, epoch - 5, epoch + 5, {"n": 0}, None, changes)
    print_history(history, Format.table)
    printed = capsys.readouterr().out
    assert "when the row was there; older changes are not kept" in printed
    assert "domain sales (recompute)" in printed and "its time to live" in printed
    assert "no longer recorded" in printed and str(epoch) not in printed.split("\n\n")[1]
    print_history(history, Format.table, wide=True)
    assert str(epoch) in capsys.readouterr().out.split("\n\n")[1]
    print_history(history, Format.table, rows=1)
    assert (
        capsys.readouterr().out.splitlines()[-1] == "2 older changes are not shown: --rows N shows N of them"
    )
    print_history(history, Format.json)
    assert json.loads(capsys.readouterr().out)["changes"][1]["commit"] == {
        "manifest": 7,
        "epoch": epoch + (1 << 16),
        "time": "2026-11-26 02:26:13.284",
        "writer": "domain/sales",
        "domain": "sales",
        "kind": "checkpoint",
        "mutation": "recompute",
        "inputs_after": epoch - 9,
        "inputs_upto": epoch,
    }
    with pytest.raises(click.BadParameter, match="csv has room for one table"):
        print_history(history, Format.csv)
    print_history(RowHistory("top", {"k": None}, epoch, epoch, {"n": 0}, {"n": 0}, ()), Format.table)
    assert capsys.readouterr().out.splitlines()[2] == "no change since then"
