"""The landing source: every file once, bad rows aside, later rows win."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.contract.connector import SourceReport
from engine.connectors.contract.same_table import require_polled_table
from engine.connectors.landing.commits import LandingCommits, LandingPart
from engine.connectors.landing.source import LandingOptions, LandingSource
from engine.connectors.landing.tables import FILES
from engine.connectors.sources import compute_pending_digest, poll_all
from engine.errors import InvalidRow, SqlError, WriteStopped
from engine.hummock import Hummock, Version
from engine.meta.status.dead_letters import DEAD_LETTER
from engine.session import Session

Source = Callable[..., LandingSource]


def rows(lake: Session, table: str = "orders") -> list[dict[str, object]]:
    return [row for batch in lake.store.iter(table) for row in batch.to_pylist()]


def prices(lake: Session) -> dict[int, float | None]:
    lake.store.refresh()
    return {row["id"]: row["price"] for row in rows(lake)}  # type: ignore[misc]


def dead(lake: Session) -> list[tuple[str, int, str, str]]:
    lake.store.refresh()
    found = [(r["file"], r["line"], r["reason"], r["raw"]) for r in rows(lake, DEAD_LETTER)]
    return sorted(found, key=lambda row: row[:2])  # type: ignore[return-value]


def test_a_file_is_taken_exactly_once(lake: Session, folder: Path, orders: Source) -> None:
    source = orders()
    (folder / "a.csv").write_text("id,name,price\n1,one,1.5\n2,two,\n")
    first, second = source.poll(), source.poll()
    assert (first.files, first.rows, first.dead_rows) == (1, 2, 0)
    assert (second.files, second.rows, second.epoch) == (0, 0, None)
    assert prices(lake) == {1: 1.5, 2: None}


def test_a_session_takes_what_its_folders_hold(lake: Session, folder: Path, orders: Source) -> None:
    orders()
    (folder / "a.csv").write_text("id,name,price\n1,one,1.5\nx,two,\n")
    lake.sql("CREATE TABLE plain (id INT PRIMARY KEY)")
    with pytest.raises(SqlError, match="plain has no source"):
        lake.poll(["plain"])
    with pytest.raises(SqlError, match="no table or view nowhere"):
        lake.poll(["nowhere"])
    assert lake.poll([]) == ()
    (report,) = lake.poll(["orders"])
    assert (report.table, report.files, report.rows, report.dead_rows, report.error) == (
        "orders",
        1,
        1,
        1,
        None,
    )
    assert prices(lake) == {1: 1.5}
    (again,) = lake.poll()
    assert (again.files, again.epoch) == (0, None)


def test_the_record_of_a_file_says_what_was_taken(lake: Session, folder: Path, orders: Source) -> None:
    source = orders()
    (folder / "a.csv").write_text("id,price\n1,1.5\nx,2\n")
    source.poll()
    lake.store.refresh()
    (record,) = rows(lake, FILES)
    assert (record["source"], record["path"], record["rows"], record["dead_rows"]) == (
        "orders",
        "a.csv",
        1,
        1,
    )
    assert record["size"] == (folder / "a.csv").stat().st_size


def test_rows_record_and_dead_letters_stand_in_one_commit(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders()
    (folder / "a.csv").write_text("id,price\n1,1.5\nx,2\n")
    epoch = source.poll().epoch
    version = lake.store.refresh()
    assert {version.tables[name].committed_epoch for name in ("orders", FILES, DEAD_LETTER)} == {epoch}


def test_later_rows_and_later_files_win(lake: Session, folder: Path, orders: Source) -> None:
    source = orders()
    (folder / "b.csv").write_text("id,price\n1,3\n")
    (folder / "a.csv").write_text("id,price\n1,1\n1,2\n2,5\n2,6\n")
    source.poll()
    assert prices(lake) == {1: 3.0, 2: 6.0}


def test_an_operation_column_deletes_and_what_follows_brings_back(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders()
    (folder / "a.csv").write_text("id,price,_op\n1,1,\n2,2,insert\n3,3,upsert\n")
    source.poll()
    (folder / "b.csv").write_text("id,price,_op\n1,,delete\n2,abc,delete\n3,,delete\n3,9,insert\n")
    report = source.poll()
    assert report.dead_rows == 0
    assert prices(lake) == {3: 9.0}


def test_an_unknown_operation_is_a_dead_letter(lake: Session, folder: Path, orders: Source) -> None:
    source = orders()
    (folder / "a.csv").write_text("id,price,_op\n1,1,merge\n")
    source.poll()
    assert dead(lake)[0][:2] == ("a.csv", 2)
    assert "merge" in dead(lake)[0][2]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x,a,1", 'column id: "x" is no INT'),
        ("1,a,cheap", 'column price: "cheap" is no DOUBLE'),
        (",a,1", "column id: the key has no value"),
        ("1,a", "2 fields, but the header names 3"),
        ("1,a,1,2", "4 fields, but the header names 3"),
        ("99999999999,a,1", 'column id: "99999999999" is no INT'),
        ('1,"a,1', "a quote is not closed, or is in the middle of a field"),
    ],
)
def test_a_malformed_row_is_set_aside_with_line_reason_and_text(
    lake: Session, folder: Path, orders: Source, line: str, reason: str
) -> None:
    source = orders()
    (folder / "a.csv").write_text(f"id,name,price\n7,seven,7\n\n{line}\n8,eight,8\n")
    report = source.poll()
    assert dead(lake) == [("a.csv", 4, reason, line)]
    assert (report.rows, report.dead_rows) == (2, 1)
    assert prices(lake) == {7: 7.0, 8: 8.0}


@pytest.mark.parametrize(("kind", "kept"), [("VARCHAR(3)", "abc"), ("CHAR(3)", "ab")])
def test_a_text_that_is_too_long_for_its_column_is_set_aside_and_blanks_that_are_too_much_go(
    lake: Session, folder: Path, orders: Source, kind: str, kept: str
) -> None:
    source = orders(f"id INT PRIMARY KEY, name {kind}, price DOUBLE")
    (folder / "a.csv").write_text(f"id,name,price\n7,{kept}  ,7\n8,abcd,8\n9,abcde,9\n")
    report = source.poll()
    reasons = [reason for _, _, reason, _ in dead(lake)]
    assert [reason.partition(" characters")[0] for reason in reasons] == [
        "column name: 'abcd' has 4",
        "column name: 'abcde' has 5",
    ]
    assert (report.rows, [row["name"] for row in rows(lake)]) == (1, [kept])


def test_line_numbers_count_quoted_line_breaks(lake: Session, folder: Path, orders: Source) -> None:
    source = orders()
    (folder / "a.csv").write_text('id,name,price\n1,"two\nlines",1\n2,b,bad\n')
    source.poll()
    assert [row[:2] for row in dead(lake)] == [("a.csv", 4)]
    assert rows(lake)[0]["name"] == "two\nlines"


def test_the_null_text_and_empty_fields_are_null(lake: Session, folder: Path, orders: Source) -> None:
    source = orders(null="NA")
    (folder / "a.csv").write_text("id,name,price\n1,NA,NA\n2,,\n")
    source.poll()
    assert [(row["name"], row["price"]) for row in rows(lake)] == [(None, None), (None, None)]


def test_a_not_null_column_refuses_null(lake: Session, folder: Path, orders: Source) -> None:
    source = orders("id INT PRIMARY KEY, price DOUBLE NOT NULL")
    (folder / "a.csv").write_text("id,price\n1,\n2,2\n")
    source.poll()
    assert dead(lake)[0][2] == "column price: NOT NULL, but there is no value"
    assert prices(lake) == {2: 2.0}


def test_all_scalar_types_are_read(lake: Session, folder: Path, orders: Source) -> None:
    source = orders(
        "id BIGINT PRIMARY KEY, d DECIMAL(10,2), b BOOLEAN, day DATE, at TIMESTAMP, n TIMESTAMP_NTZ"
    )
    (folder / "a.csv").write_text(
        "id,d,b,day,at,n\n1.0,12.50,yes,2013-01-31,2013-01-01T10:00:00Z,2013-01-01 10:00:00\n"
        "2,-3,F,2013-02-01,2013-01-01 12:00:00+02:00,2013-01-01T10:00:00.5\n3,,,,2013-01-01 10:00,\n"
    )
    assert source.poll().dead_rows == 0
    by_id = {row["id"]: row for row in rows(lake)}
    assert [str(by_id[i]["d"]) for i in (1, 2)] == ["12.50", "-3.00"]
    assert [by_id[i]["b"] for i in (1, 2, 3)] == [True, False, None]
    assert len({by_id[i]["at"] for i in (1, 2, 3)}) == 1


def test_json_lines_are_read_and_bad_lines_set_aside(lake: Session, folder: Path, orders: Source) -> None:
    source = orders("id INT PRIMARY KEY, name STRING, price DECIMAL(20,4), tags ARRAY<INT>")
    good = {"id": 1, "name": "one", "price": 0.1, "tags": [1, 2]}
    (folder / "a.jsonl").write_text(json.dumps(good) + '\n[1]\n{"id": 2,\n\n{"id": 3, "price": "x"}\n')
    report = source.poll()
    assert (report.rows, [row[1] for row in dead(lake)]) == (1, [2, 3, 5])
    (row,) = rows(lake)
    assert (str(row["price"]), row["tags"]) == ("0.1000", [1, 2])


def test_parquet_is_read_and_a_row_that_does_not_fit_set_aside(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders()
    pq.write_table(pa.table({"id": [1, 2**40], "name": ["a", "b"], "price": [1, 2]}), folder / "a.parquet")
    source.poll()
    assert prices(lake) == {1: 1.0}
    assert dead(lake)[0][:3] == ("a.parquet", 2, f'column id: "{2**40}" is no INT')


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.parquet", b"no parquet", "not a Parquet file"),
        ("a.csv", b"id,n\xff\n1,2\n", "not UTF-8: line 1"),
        (
            "a.csv",
            "id\n1\n".encode("utf-16"),
            "the file is UTF-16: give its table the option encoding = 'utf-16'",
        ),
        (
            "a.json",
            '{"id": 1}\n'.encode("utf-16-be"),
            "UTF-16: give its table the option encoding = 'utf-16-be'",
        ),
        (
            "a.csv",
            "id\n1\n".encode("utf-32"),
            "the file is UTF-32: give its table the option encoding = 'utf-32'",
        ),
        ("a.csv", "id,é\n1\n".encode("latin-1"), "in another encoding, give its table the option encoding"),
        (
            "a.json",
            '[{"id": "é"}]'.encode("latin-1"),
            "in another encoding, give its table the option encoding",
        ),
        ("a.csv", b"id,id\n1,2\n", "names id twice"),
        ("a.csv", b"number,price\n1,2\n", "no column id, the key of orders"),
        ("a.json", b"[1,", "not a JSON array"),
    ],
)
def test_a_malformed_file_is_one_dead_letter_and_stops_no_other(
    lake: Session, folder: Path, orders: Source, name: str, content: bytes, reason: str
) -> None:
    source = orders()
    (folder / name).write_bytes(content)
    (folder / "z.csv").write_text("id,price\n1,1\n")
    report = source.poll()
    (letter,) = dead(lake)
    assert letter[:2] == (name, 0)
    assert reason in letter[2]
    assert (report.files, prices(lake)) == (2, {1: 1.0})
    assert source.poll().files == 0


def test_files_that_are_being_written_are_left_alone(lake: Session, folder: Path, orders: Source) -> None:
    source = orders()
    for name in (".a.csv", "_a.csv", "a.csv.tmp", "a.csv.part", "notes.txt", "empty.csv"):
        (folder / name).write_text("" if name == "empty.csv" else "id,price\n1,1\n")
    assert source.list_files() == ()
    (folder / "a.csv.tmp").rename(folder / "a.csv")
    assert source.poll().files == 1


def test_a_file_that_changes_after_it_was_taken_is_told_once_and_not_taken_again(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders()
    (folder / "a.csv").write_text("id,price\n1,1\n")
    source.poll()
    (folder / "a.csv").write_text("id,price\n1,2222\n")
    report = source.poll()
    assert (report.files, report.rows, len(report.warnings)) == (0, 0, 1)
    assert "changed after it was taken" in dead(lake)[0][2]
    assert prices(lake) == {1: 1.0}
    assert source.list_files() == ()


def test_a_file_that_is_touched_again_and_again_is_told_once_and_a_change_after_that_once_more(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders()
    (folder / "a.csv").write_text("id,price\n1,1\n")
    source.poll()
    counts = []
    for at in range(3):
        os.utime(folder / "a.csv", (at, at))
        report = source.poll()
        counts.append((report.dead_rows, len(report.warnings)))
        assert source.list_files() == ()
    assert counts == [(1, 1), (0, 0), (0, 0)]
    assert "(13 bytes then and now, but another time)" in dead(lake)[0][2]
    (folder / "a.csv").write_text("id,price\n1,2222\n")
    assert source.poll().dead_rows == 1
    assert "(13 bytes then, 16 now)" in dead(lake)[0][2]
    assert prices(lake) == {1: 1.0}


def test_the_tables_of_files_and_dead_letters_can_be_read_before_anything_is_in_them(lake: Session) -> None:
    for table in (DEAD_LETTER, FILES, DEAD_LETTER.upper()):
        found = lake.sql(f"SELECT * FROM {table}")
        assert found is not None and found.num_rows == 0 and found.num_columns > 4


def test_a_format_option_leaves_other_files_alone(folder: Path, orders: Source) -> None:
    source = orders(format="csv")
    (folder / "a.jsonl").write_text('{"id": 1}\n')
    assert source.list_files() == ()


def test_unknown_columns_are_left_out_with_a_warning(lake: Session, folder: Path, orders: Source) -> None:
    source = orders()
    (folder / "a.csv").write_text("ID,Price,colour\n1,1,red\n")
    report = source.poll()
    assert report.warnings == ("a.csv: columns that the table lacks were left out: colour",)
    assert prices(lake) == {1: 1.0}


def test_two_pollers_that_see_the_same_file_take_it_once(lake: Session, folder: Path, orders: Source) -> None:
    first = orders()
    first.poll()
    (folder / "a.csv").write_text("id,price\n1,1\n")
    with Hummock.open(lake.store.url) as other_store:
        second = LandingSource(other_store, "orders", folder)
        assert len(second.list_files()) == 1
        same = require_polled_table(other_store.version, "orders")
        commits = LandingCommits(other_store, "orders", False, False, SourceReport("orders"), same)
        commits.begin(second.list_files()[0])
        parts = list(second._read_parts(second.list_files()[0]))
        assert first.poll().files == 1
        assert commits.commit(parts) == {"a.csv"}
        assert commits.report.files == 0
    lake.store.refresh()
    assert len(rows(lake, FILES)) == 1


def test_a_file_is_taken_once_though_another_is_refused_and_then_meets_stopped_writes(
    lake: Session, folder: Path, orders: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = orders("id INT, price DOUBLE")
    (folder / "a.csv").write_text("id,price\n1,1\n")
    (folder / "b.csv").write_text("id,price\n2,2\n")
    ingest, stops = LandingCommits._ingest, [WriteStopped("orders", "too many runs")] * 9

    def ingest_with_faults(self: LandingCommits, version: Version, parts: Sequence[LandingPart]) -> None:
        if any(part.file.path == "b.csv" and part.batch.landed is not None for part in parts):
            raise InvalidRow("b.csv does not fit")
        if parts[0].file.path == "b.csv" and stops:
            raise stops.pop()
        ingest(self, version, parts)

    monkeypatch.setattr(LandingCommits, "_ingest", ingest_with_faults)
    with pytest.raises(WriteStopped):
        source.poll()
    stops.clear()
    assert source.poll().files == 1
    lake.store.refresh()
    assert [row["id"] for row in rows(lake)] == [1]
    assert [row["rows"] for row in rows(lake, FILES)] == [1, 0]
    assert [row[:3] for row in dead(lake)] == [("b.csv", 0, "its rows can't be stored: b.csv does not fit")]


def test_a_table_that_is_created_again_takes_the_files_again(
    lake: Session, folder: Path, orders: Source
) -> None:
    (folder / "a.csv").write_text("id,price\n1,1\n")
    orders().poll()
    lake.sql("DROP TABLE orders")
    assert orders().poll().files == 1
    assert prices(lake) == {1: 1.0}


def test_an_append_only_table_keeps_its_first_row_of_a_key(lake: Session, folder: Path) -> None:
    lake.sql("CREATE TABLE orders (id INT PRIMARY KEY, price DOUBLE) APPEND ONLY")
    source = LandingSource(lake.store, "orders", folder, LandingOptions(append_only=True))
    (folder / "a.csv").write_text("id,price\n1,1\n1,2\n")
    source.poll()
    (folder / "b.csv").write_text("id,price,_op\n1,3,\n2,2,\n1,,delete\n")
    source.poll()
    assert prices(lake) == {1: 1.0, 2: 2.0}
    assert [row[:2] for row in dead(lake)] == [("a.csv", 3), ("b.csv", 2), ("b.csv", 4)]


def test_a_missing_folder_fails_that_source_alone(lake: Session, folder: Path, orders: Source) -> None:
    orders()
    (folder.parent / "nowhere").mkdir()
    lake.sql("CREATE TABLE lost (id INT PRIMARY KEY) WITH (connector = 'landing', path = 'nowhere')")
    (folder.parent / "nowhere").rmdir()
    (folder / "a.csv").write_text("id,price\n1,1\n")
    reports = {report.table: report for report in poll_all(lake.catalog, lake.store)}
    assert reports["orders"].files == 1
    assert "there is no folder" in str(reports["lost"].error)


def test_pending_files_have_a_digest_that_goes_when_they_are_taken(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders()
    (folder / "a.csv").write_text("id,price\n1,1\n")
    count, digest = compute_pending_digest(lake.catalog, lake.store)
    assert (count, len(digest)) == (1, 16)
    source.poll()
    assert compute_pending_digest(lake.catalog, lake.store) == (0, "")


def test_folders_inside_are_read_too(lake: Session, folder: Path, orders: Source) -> None:
    source = orders()
    (folder / "2013").mkdir()
    (folder / "2013" / "a.csv").write_text("id,price\n1,1\n")
    source.poll()
    lake.store.refresh()
    assert rows(lake, FILES)[0]["path"] == "2013/a.csv"


def test_three_hundred_thousand_rows_land_in_seconds(lake: Session, folder: Path, orders: Source) -> None:
    source = orders()
    lines = [f"{number},name {number % 100},{number / 4}" for number in range(300_000)]
    lines[150_000] = "oops"
    (folder / "a.csv").write_text("id,name,price\n" + "\n".join(lines) + os.linesep)
    report = source.poll()
    assert (report.rows, report.dead_rows) == (299_999, 1)
    assert report.seconds < 30


def test_columns_that_a_file_lacks_get_their_default(lake: Session, folder: Path, orders: Source) -> None:
    source = orders(
        "id INT PRIMARY KEY, name STRING DEFAULT 'unknown', n INT DEFAULT 7, at TIMESTAMP DEFAULT now()"
    )
    (folder / "a.csv").write_text("id,name\n1,x\n2,\n")
    source.poll()
    found = rows(lake)
    assert [(row["id"], row["name"], row["n"]) for row in found] == [(1, "x", 7), (2, None, 7)]
    assert all(row["at"] is not None for row in found)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("id INT PRIMARY KEY, u STRING DEFAULT uuid()", "neither a literal nor the clock"),
        ("id INT PRIMARY KEY, d INT GENERATED ALWAYS AS (id * 2)", "is generated"),
    ],
)
def test_a_column_that_files_cannot_fill_is_refused(orders: Source, columns: str, says: str) -> None:
    with pytest.raises(SqlError, match=says):
        orders(columns)
