"""Odd files: whatever is in one, every good row lands, every bad one is told, and no other file or table is stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.contract.connector import SourceReport, Spark, no_spark
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing.source import LandingSource
from engine.connectors.landing.tables import FILES
from engine.connectors.sources import compute_pending_digest, poll_all
from engine.meta.status.dead_letters import DEAD_LETTER
from engine.session import Session

Source = Callable[..., LandingSource]
SMALL = ReadLimits(1 << 16)


def rows(lake: Session, table: str = "orders") -> list[dict[str, object]]:
    lake.store.refresh()
    return [row for batch in lake.store.iter(table) for row in batch.to_pylist()]


def ids(lake: Session) -> list[object]:
    return sorted(row["id"] for row in rows(lake))  # type: ignore[type-var]


def dead(lake: Session) -> list[tuple[str, int]]:
    return sorted((row["file"], row["line"]) for row in rows(lake, DEAD_LETTER))  # type: ignore[misc]


def reason(lake: Session) -> str:
    (letter,) = rows(lake, DEAD_LETTER)
    return str(letter["reason"])


def taken(lake: Session) -> list[str]:
    return sorted(str(row["path"]) for row in rows(lake, FILES))


@pytest.fixture
def poll(lake: Session, folder: Path, orders: Source) -> Callable[..., SourceReport]:
    """Polls twice, with a good file at the end; the second time nothing is left."""

    def run(limits: ReadLimits | None = None, **options: str) -> SourceReport:
        source = orders(**options)
        if limits is not None:
            source.limits = limits
        (folder / "z.csv").write_text("id,name,price\n900,good,1\n")
        report = source.poll()
        assert 900 in ids(lake), "a good file beside the odd one has landed"
        assert source.poll().epoch is None, "nothing is pending after a poll"
        return report

    return run


def lines(*items: str) -> str:
    return "\n".join(items) + "\n"


@pytest.mark.parametrize(
    "odd",
    [
        '{"id": 2, "name": "\\ud800"}',
        '{"id": 2, "\\udfff": 1}',
        '{"id": 2, "_op": "\\ud800"}',
        '{"id": 2, "name": ["\\ud800"]}',
        '{"id": "\\ud800"}',
        '{"id": 2, "name": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"id": ' + "1" * 5000 + "}",
        '{"id": 2, "price": [' + "1" * 5000 + "]}",
        '{"id": [2]}',
        '"text"',
        "\0",
    ],
)
def test_an_odd_json_line_is_the_only_one_that_does_not_land(
    lake: Session, folder: Path, poll: Callable[..., SourceReport], odd: str
) -> None:
    (folder / "a.jsonl").write_text(lines('{"id": 1}', odd, '{"id": 3}'))
    poll()
    assert (ids(lake), dead(lake)) == ([1, 3, 900], [("a.jsonl", 2)])


@pytest.mark.parametrize("odd", ['{"id": 2, "name": "\\ud800"}', '{"id": ' + "1" * 5000 + "}"])
def test_an_odd_element_of_a_json_array_is_the_only_one_that_does_not_land(
    lake: Session, folder: Path, poll: Callable[..., SourceReport], odd: str
) -> None:
    (folder / "a.json").write_text("[" + ",\n".join(['{"id": 1}', odd, '{"id": 3}']) + "]")
    poll()
    assert (ids(lake), dead(lake)) == ([1, 3, 900], [("a.json", 2)])


def test_an_array_that_is_nested_too_deep_is_set_aside(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    (folder / "a.json").write_text('[{"id": 1, "name": ' + "[" * 5000 + "]" * 5000 + "}]")
    poll()
    assert (dead(lake), "too deep" in reason(lake)) == ([("a.json", 0)], True)


def test_numbers_within_lists_stay_as_they_are_written(lake: Session, folder: Path, orders: Source) -> None:
    (folder / "a.jsonl").write_text('{"id": 1, "name": [1.50, 123456789012345678901, "1.50", null, true]}\n')
    orders().poll()
    assert rows(lake)[0]["name"] == '[1.50, 123456789012345678901, "1.50", null, true]'


def test_a_line_that_is_not_utf8_is_the_only_one_that_does_not_land(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    (folder / "a.csv").write_bytes(b"id,name\n1,a\n2,\xff\xfe\n3,c\n")
    (folder / "b.jsonl").write_bytes(b'{"id": 4}\n{"id": 5, "name": "\xff"}\n{"id": 6}\n')
    poll()
    assert (ids(lake), dead(lake)) == ([1, 3, 4, 6, 900], [("a.csv", 3), ("b.jsonl", 2)])


def test_a_parquet_text_that_is_not_utf8_is_set_aside_and_the_table_can_be_read(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    texts = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff\xfe", b"c"]).buffers())
    pq.write_table(pa.table({"id": [1, 2, 3], "name": texts}), folder / "a.parquet")
    poll()
    assert (ids(lake), dead(lake)) == ([1, 3, 900], [("a.parquet", 2)])


def test_a_parquet_time_beyond_all_calendars_is_set_aside_and_the_table_can_be_read(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("id INT PRIMARY KEY, at TIMESTAMP_NTZ, day DATE")
    times = pa.array([0, 2**62], pa.int64()).cast(pa.timestamp("us"))
    days = pa.array([2**31 - 1, 1], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"id": [1, 2], "at": times}), folder / "a.parquet")
    pq.write_table(pa.table({"id": [3, 4], "day": days}), folder / "b.parquet")
    source.poll()
    assert (ids(lake), dead(lake)) == ([1, 4], [("a.parquet", 2), ("b.parquet", 1)])


@pytest.mark.parametrize(
    ("name", "content", "has"),
    [
        ("a.csv", b"1,a\n2,b\n", "1, a"),
        ("a.csv", b"1,a\n", "1, a"),
        ("a.csv", b"sep=;\nno\nx\n", "sep=;"),
        ("a.csv", b"_op,other\nupsert,1\n", "_op, other"),
        ("a.parquet", None, "other, strange"),
    ],
)
def test_a_file_with_no_column_of_the_table_is_set_aside_and_not_taken_as_rows_of_nulls(
    lake: Session, folder: Path, orders: Source, name: str, content: bytes | None, has: str
) -> None:
    source = orders("id INT, name STRING DEFAULT 'x'")
    if content is None:
        pq.write_table(pa.table({"other": [1, 2], "strange": [1, 2]}), folder / name)
    else:
        (folder / name).write_bytes(content)
    source.poll()
    assert (rows(lake), dead(lake)) == ([], [(name, 0)])
    assert reason(lake) == f"the file has no column of orders, which has id, name; it has {has}"


def test_a_json_row_with_no_column_of_the_table_is_set_aside(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("id INT, name STRING")
    (folder / "a.jsonl").write_text(lines('{"x": 1}', '{"ID": 2, "x": 1}', "{}", '{"name": null}'))
    source.poll()
    assert dead(lake) == [("a.jsonl", 1)]
    assert sorted(str(row["id"]) for row in rows(lake)) == ["2", "None", "None"]
    assert reason(lake) == "the row has no column of orders, which has id, name"


def test_a_header_without_rows_is_no_fault_if_it_has_the_table_s_columns(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    (folder / "a.csv").write_text("id,name\n")
    (folder / "b.csv").write_text("name,price\n")
    poll()
    assert (ids(lake), dead(lake)) == ([900], [("b.csv", 0)])


def test_a_file_name_that_is_not_utf8_is_taken_once_under_an_escaped_name(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    (Path(os.fsdecode(os.fsencode(folder) + b"/a\xff.csv"))).write_text("id,name\n1,a\nx,b\n")
    poll()
    assert compute_pending_digest(lake.catalog, lake.store) == (0, "")
    assert (ids(lake), dead(lake)) == ([1, 900], [("./a\\xff.csv", 3)])
    assert taken(lake) == ["./a\\xff.csv", "z.csv"]


def test_a_link_to_itself_is_told_and_stops_neither_poll_nor_sensor(
    lake: Session, folder: Path, poll: Callable[..., SourceReport], orders: Source
) -> None:
    (folder / "a.csv").symlink_to(folder / "a.csv")
    orders()
    assert compute_pending_digest(lake.catalog, lake.store)[0] == 1
    poll()
    assert (dead(lake), "a link that is not followed" in reason(lake)) == ([("a.csv", 0)], True)


def test_a_link_out_of_the_folder_is_told_and_nothing_of_its_file_is_shown(
    lake: Session, folder: Path, poll: Callable[..., SourceReport], tmp_path: Path
) -> None:
    (tmp_path / "secret.csv").write_text("password\nhunter2\n")
    (folder / "a.csv").symlink_to(tmp_path / "secret.csv")
    poll()
    (letter,) = rows(lake, DEAD_LETTER)
    assert (letter["file"], letter["line"]) == ("a.csv", 0)
    assert "hunter2" not in str(letter) and "password" not in str(letter)


def test_a_link_within_the_folder_is_followed(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    (folder / "_kept").mkdir()
    (folder / "_kept" / "b.csv").write_text("id,name\n1,a\n")
    (folder / "a.csv").symlink_to(folder / "_kept" / "b.csv")
    poll()
    assert ids(lake) == [1, 900]


def test_a_link_to_an_allowed_place_is_followed(
    lake: Session,
    folder: Path,
    poll: Callable[..., SourceReport],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "b.csv").write_text("id,name\n1,a\n")
    (folder / "a.csv").symlink_to(tmp_path / "shared" / "b.csv")
    poll()
    assert ids(lake) == [1, 900]


def test_rows_with_an_open_quote_are_told_one_by_one(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    odd = [f'{number},"open {number},{number}' for number in range(1, 41)]
    (folder / "a.csv").write_text(lines("id,name,price", *odd, "41,fine,1"))
    poll()
    assert (ids(lake), dead(lake)) == ([41, 900], [("a.csv", line) for line in range(2, 42)])


def test_very_many_open_quotes_take_the_time_of_their_lines(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    odd = [f'{number},"open {number},{number}' for number in range(1, 20_001)]
    (folder / "a.csv").write_text(lines("id,name,price", *odd))
    report = (
        poll()
    )  # on a reader that tries every record over a thousand lines this runs into the test's time limit
    assert (report.dead_rows, ids(lake)) == (20_000, [900])


def test_json_objects_with_very_many_different_names_are_read_in_time(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    odd = [json.dumps({"id": at, **{f"k{at}_{n}": 1 for n in range(20)}}) for at in range(5_000)]
    (folder / "a.jsonl").write_text(lines(*odd))
    report = poll()  # a column for each of 100,000 names, 5,000 rows long, would not fit into memory
    assert report.rows == 5_001 and len(rows(lake)) == 5_000


def test_a_line_longer_than_may_be_held_is_told_and_the_next_one_lands(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    (folder / "a.csv").write_text(lines("id,name", "1,a", f"2,{'x' * 100_000}", "3,c"))
    (folder / "b.jsonl").write_text(
        lines('{"id": 4}', f'{{"id": 5, "name": "{"x" * 100_000}"}}', '{"id": 6}')
    )
    poll(SMALL)
    assert (ids(lake), dead(lake)) == ([1, 3, 4, 6, 900], [("a.csv", 3), ("b.jsonl", 2)])


def test_a_file_without_a_line_break_is_not_held_as_a_whole(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    (folder / "a.csv").write_bytes(b"x" * 1_000_000)
    (folder / "b.json").write_bytes(b'[{"id": 1, "name": "' + b"x" * 1_000_000)
    poll(SMALL)
    assert dead(lake) == [("a.csv", 0), ("b.json", 0)]


def test_a_decompression_bomb_is_set_aside(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    numbers = pa.array([0] * 2_000_000, pa.int64())
    pq.write_table(pa.table({"id": numbers}), folder / "a.parquet")
    poll(SMALL)
    assert (dead(lake), "decompression bomb" in reason(lake)) == ([("a.parquet", 0)], True)


def test_a_row_group_above_the_bound_is_set_aside(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    texts = [os.urandom(500).hex() for _ in range(400)]
    pq.write_table(
        pa.table({"id": list(range(400)), "name": texts}), folder / "a.parquet", compression="none"
    )
    poll(SMALL)
    assert (dead(lake), "write smaller row groups" in reason(lake)) == ([("a.parquet", 0)], True)


def test_a_large_text_that_many_rows_share_is_written_out_in_parts(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    table = pa.table({"id": list(range(100)), "name": ["x" * 3_000] * 99 + ["y" * 5_000]})
    pq.write_table(table, folder / "a.parquet")
    poll(SMALL)
    assert (ids(lake), dead(lake)) == ([*range(99), 900], [("a.parquet", 100)])


def test_a_parquet_file_that_breaks_off_keeps_the_rows_before(
    lake: Session, folder: Path, poll: Callable[..., SourceReport]
) -> None:
    path = folder / "a.parquet"
    pq.write_table(pa.table({"id": list(range(200)), "name": ["a"] * 200}), path, row_group_size=100)
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + 20] = bytes(20)
    path.write_bytes(data)
    poll()
    assert (ids(lake), dead(lake)) == ([*range(100), 900], [("a.parquet", 0)])


def test_an_unexpected_error_sets_one_file_aside(
    lake: Session, folder: Path, poll: Callable[..., SourceReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.connectors.formats import json_reader

    def broken(*_: object) -> object:
        raise ZeroDivisionError("nobody thought of it")

    monkeypatch.setattr(json_reader, "read_json", broken)
    (folder / "a.jsonl").write_text('{"id": 1}\n')
    poll()
    assert (dead(lake), reason(lake)) == (
        [("a.jsonl", 0)],
        "the file can't be read: ZeroDivisionError: nobody thought of it",
    )


def test_a_shortage_of_the_machine_leaves_the_file_for_the_next_poll(
    lake: Session, folder: Path, orders: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = orders()
    (folder / "a.csv").write_text("id,name\n1,a\n")
    real = os.open

    def full(path: object, *rest: int, **more: object) -> int:
        if str(path).endswith("a.csv"):
            raise OSError(24, "Too many open files")
        return real(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", full)
    report = source.poll()
    assert (report.files, report.warnings) == (0, ("a.csv: the file can't be read now: Too many open files",))
    monkeypatch.undo()
    assert source.poll().files == 1


def test_a_folder_that_cannot_be_read_stops_no_other(
    lake: Session, folder: Path, orders: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = orders()
    (folder / "closed").mkdir()
    (folder / "a.csv").write_text("id,name\n1,a\n")
    real = os.scandir

    def closed(place: str) -> object:
        if "closed" in str(place):
            raise PermissionError(13, "Permission denied")
        return real(place)

    monkeypatch.setattr(os, "scandir", closed)
    report = source.poll()
    assert (report.files, report.warnings) == (1, ("the folder closed/ can't be read: Permission denied",))


def test_a_table_with_a_fault_that_nobody_expected_stops_no_other_table(
    lake: Session, folder: Path, orders: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders()
    lake.sql("CREATE TABLE broken (id INT PRIMARY KEY) WITH (connector = 'landing', path = 'landing')")
    (folder / "a.csv").write_text("id,name\n1,a\n")
    real = LandingSource.poll

    def poll(self: LandingSource, spark: Spark = no_spark, limit: int | None = None) -> SourceReport:
        if self.table == "broken":
            raise ZeroDivisionError("nobody thought of it")
        return real(self, limit)

    monkeypatch.setattr(LandingSource, "poll", poll)
    reports = {report.table: report for report in poll_all(lake.catalog, lake.store)}
    assert (reports["orders"].files, reports["broken"].error) == (
        1,
        "ZeroDivisionError: nobody thought of it",
    )
