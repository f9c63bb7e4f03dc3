"""Watermarks at the writes of a table: what is late, what is counted, what is kept, and what moves."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.arrow import as_rows
from engine.connectors.sources import poll_all
from engine.errors import SqlError, UnsupportedSql
from engine.hummock import Hummock, Put, Version
from engine.meta.status.dead_letters import DEAD_LETTER
from engine.meta.status.watermarks import convert_watermark, read_watermark
from engine.session import Session

TABLE = "CREATE TABLE t (ts TIMESTAMP, n INT, WATERMARK FOR ts AS ts - INTERVAL '5' MINUTE) APPEND ONLY"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Session]:
    """A session that never starts Spark."""
    with Session((tmp_path / "store").as_uri()) as opened:
        yield opened


def rows(lake: Session, table: str) -> list[dict[str, Any]]:
    lake.store.refresh()
    return [row for batch in lake.store.iter(table) for row in as_rows(batch)]


def watermark(lake: Session, table: str = "t") -> tuple[Any, int]:
    (row,) = rows(lake, f"_watermark_{table}")
    at = row["watermark"]
    return at.replace(tzinfo=None) if isinstance(at, dt.datetime) else at, row["late_rows"]


def numbers(lake: Session, table: str = "t") -> list[int]:
    return sorted(row["n"] for row in rows(lake, table))


def at(hour: int, minute: int = 0) -> dt.datetime:
    return dt.datetime(2024, 1, 1, hour, minute, tzinfo=dt.UTC)


def write(lake: Session, *given: tuple[dt.datetime | None, int]) -> int:
    kind = pa.schema([("ts", pa.timestamp("us", "UTC")), ("n", pa.int32())])
    return lake.write("t", pa.Table.from_pylist([{"ts": ts, "n": n} for ts, n in given], kind), mode="insert")


def test_the_watermark_is_the_greatest_time_less_the_delay(lake: Session) -> None:
    lake.sql(TABLE)
    assert rows(lake, "_watermark_t") == []
    write(lake, (at(10), 1), (at(12), 2), (at(11), 3))
    assert watermark(lake) == (dt.datetime(2024, 1, 1, 11, 55), 0)
    assert numbers(lake) == [1, 2, 3]  # rows of one commit are held against what stood before it


def test_a_row_below_the_watermark_is_not_taken_but_counted(lake: Session) -> None:
    lake.sql(TABLE)
    write(lake, (at(12), 1))
    write(lake, (at(11, 54), 2), (at(11, 55), 3), (None, 4))
    assert numbers(lake) == [1, 3, 4]
    assert watermark(lake) == (dt.datetime(2024, 1, 1, 11, 55), 1)
    assert lake.notices == (
        "1 rows were below the watermark of t and not taken, and counted (SHOW WATERMARKS)",
    )


def test_insert_says_how_many_rows_were_late_and_returns_those_in_time(lake: Session) -> None:
    lake.sql(TABLE)
    lake.sql("INSERT INTO t VALUES (TIMESTAMP '2024-01-01 12:00:00', 1)")
    assert lake.notices == ()
    result = lake.sql(
        "INSERT INTO t VALUES (TIMESTAMP '2024-01-01 10:00:00', 2), (TIMESTAMP '2024-01-01 12:01:00', 3) RETURNING n"
    )
    assert result is not None and result.to_pylist() == [{"n": 3}]
    assert "1 rows were below the watermark" in lake.notices[0]


def test_the_watermark_never_falls(lake: Session) -> None:
    lake.sql(TABLE)
    write(lake, (at(12), 1))
    write(lake, (at(11, 56), 2))
    assert watermark(lake) == (dt.datetime(2024, 1, 1, 11, 55), 0)


def test_rows_watermark_and_count_are_one_commit(lake: Session) -> None:
    lake.sql(TABLE)
    write(lake, (at(12), 1))
    epoch = write(lake, (at(10), 2), (at(13), 3))
    assert {lake.store.version.tables[name].committed_epoch for name in ("t", "_watermark_t")} == {epoch}


def test_the_watermark_of_an_older_epoch_is_still_there(lake: Session) -> None:
    lake.sql(TABLE)
    first = write(lake, (at(12), 1))
    write(lake, (at(14), 2))
    (batch,) = lake.store.iter("_watermark_t", epoch=first)
    assert batch.column("watermark")[0].as_py() == at(11, 55)


def test_late_rows_are_kept_as_dead_letters_if_the_table_says_so(lake: Session) -> None:
    lake.sql(f"{TABLE} WITH (late_rows = 'keep')")
    write(lake, (at(12), 1))
    write(lake, (at(10), 2))
    write(lake, (at(9), 3), (at(13), 4), (at(8), 5))
    letters = rows(lake, DEAD_LETTER)
    assert [row["line"] for row in letters] == [1, 2, 3]
    assert sorted(json.loads(row["raw"])["n"] for row in letters) == [2, 3, 5]
    assert all(row["source"] == "t" and "below the watermark" in row["reason"] for row in letters)


def test_dead_letters_of_a_dropped_table_stay_when_it_is_made_again(lake: Session) -> None:
    for n in (1, 2):
        lake.sql(f"{TABLE} WITH (late_rows = 'keep')")
        write(lake, (at(12), 1))
        write(lake, (at(10), n))
        assert watermark(lake)[1] == 1
        lake.sql("DROP TABLE t")
    assert sorted(json.loads(row["raw"])["n"] for row in rows(lake, DEAD_LETTER)) == [1, 2]


def test_the_watermark_goes_with_its_table_and_begins_anew(lake: Session) -> None:
    lake.sql(TABLE)
    write(lake, (at(12), 1))
    lake.sql("DROP TABLE t")
    assert [name for name in lake.store.version.tables if "watermark" in name] == []
    lake.sql(TABLE)
    write(lake, (at(3), 2))
    assert numbers(lake) == [2]


def test_the_watermark_is_renamed_with_its_table(lake: Session) -> None:
    lake.sql(TABLE)
    write(lake, (at(12), 1))
    lake.sql("ALTER TABLE t RENAME TO u")
    lake.sql("INSERT INTO u VALUES (TIMESTAMP '2024-01-01 10:00:00', 2)")
    assert watermark(lake, "u")[1] == 1


def test_a_table_with_a_further_column_keeps_its_watermark(lake: Session) -> None:
    lake.sql(TABLE)
    write(lake, (at(12), 1))
    lake.sql("ALTER TABLE t ADD COLUMN note STRING")
    write(lake, (at(10), 2))
    assert watermark(lake)[1] == 1
    made = lake.sql("SHOW CREATE TABLE t")
    assert made is not None and "WATERMARK FOR `ts`" in made.to_pylist()[0]["create_statement"]


def test_the_column_of_the_watermark_cannot_be_dropped(lake: Session) -> None:
    lake.sql(TABLE)
    with pytest.raises(SqlError, match="ts carries the watermark"):
        lake.sql("ALTER TABLE t DROP COLUMN ts")


def test_a_renamed_column_carries_the_watermark_on(lake: Session) -> None:
    lake.sql(TABLE)
    lake.sql("ALTER TABLE t RENAME COLUMN ts TO at")
    lake.sql("INSERT INTO t VALUES (TIMESTAMP '2024-01-01 12:00:00', 1)")
    lake.sql("INSERT INTO t VALUES (TIMESTAMP '2024-01-01 10:00:00', 2)")
    assert watermark(lake)[1] == 1


@pytest.mark.parametrize(
    ("kind", "clause", "first", "late", "reached"),
    [
        ("INT", "n0 - 10", "100", "89", 90),
        ("BIGINT", "n0", "100", "99", 100),
        ("DATE", "n0 - 2", "DATE '2024-01-10'", "DATE '2024-01-07'", dt.date(2024, 1, 8)),
        (
            "TIMESTAMP_NTZ",
            "n0 - INTERVAL '1' DAY",
            "TIMESTAMP '2024-01-10 00:00:00'",
            "TIMESTAMP '2024-01-08 23:59:59'",
            dt.datetime(2024, 1, 9),
        ),
    ],
)
def test_numbers_and_dates_carry_watermarks(
    lake: Session, kind: str, clause: str, first: str, late: str, reached: object
) -> None:
    lake.sql(f"CREATE TABLE t (n0 {kind}, n INT, WATERMARK FOR n0 AS {clause}) APPEND ONLY")
    lake.sql(f"INSERT INTO t VALUES ({first}, 1)")
    lake.sql(f"INSERT INTO t VALUES ({late}, 2)")
    assert watermark(lake) == (reached, 1)


def test_show_watermarks_tells_where_each_stands_and_how_many_rows_were_late(lake: Session) -> None:
    lake.sql(TABLE)
    lake.sql("CREATE TABLE d (d DATE, WATERMARK FOR d AS d) APPEND ONLY WITH (late_rows = 'keep')")
    write(lake, (at(12), 1))
    write(lake, (at(10), 2))
    result = lake.sql("SHOW WATERMARKS")
    assert result is not None and [tuple(row.values()) for row in result.to_pylist()] == [
        ("d", "d", None, 0, "kept"),
        ("t", "ts", "2024-01-01 11:55:00", 1, "counted"),
    ]


def test_keyed_rows_are_held_against_the_watermark_as_well(lake: Session) -> None:
    lake.sql(
        "CREATE TABLE t (n INT PRIMARY KEY, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY ON CONFLICT IGNORE"
    )
    lake.sql("INSERT INTO t VALUES (1, TIMESTAMP '2024-01-01 12:00:00')")
    lake.sql(
        "INSERT INTO t VALUES (1, TIMESTAMP '2024-01-01 13:00:00'), (2, TIMESTAMP '2024-01-01 11:00:00')"
    )
    assert numbers(lake) == [1]
    assert watermark(lake) == (dt.datetime(2024, 1, 1, 12), 1)  # a row that is ignored moves nothing


def test_a_writer_whose_watermark_has_moved_judges_its_rows_again(
    lake: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql(TABLE)
    write(lake, (at(10), 1))
    ingest, raced = Hummock.ingest_batch, []

    def beaten(store: Hummock, writes: Any, **more: Any) -> int:
        if not raced:
            raced.append(True)
            with Session(lake.url) as other:
                other.sql("INSERT INTO t VALUES (TIMESTAMP '2024-01-01 20:00:00', 9)")
        return ingest(store, writes, **more)

    monkeypatch.setattr(Hummock, "ingest_batch", beaten)
    write(lake, (at(12), 2), (at(21), 3))
    assert numbers(lake) == [1, 3, 9]
    assert watermark(lake) == (dt.datetime(2024, 1, 1, 20, 55), 1)


def test_a_lost_commit_leaves_rows_and_watermark_as_they_were(lake: Session) -> None:
    lake.sql(TABLE)
    write(lake, (at(10), 1))

    def refuse(_: Version) -> None:
        raise OSError("the machine stopped")

    before = watermark(lake)
    row = pa.table({"ts": [at(12)], "n": pa.array([2], pa.int32()), "_row_id": [7]})
    with pytest.raises(OSError, match="stopped"):
        lake.store.ingest_batch({"t": [Put(row)]}, precondition=refuse)
    assert (numbers(lake), watermark(lake)) == ([1], before)


def test_rows_of_files_are_held_against_the_watermark(lake: Session, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    lake.sql(
        "CREATE TABLE t (ts TIMESTAMP, n INT, WATERMARK FOR ts AS ts) APPEND ONLY "
        f"WITH (connector = 'landing', path = '{folder}', late_rows = 'keep')"
    )
    (folder / "a.csv").write_text("ts,n\n2024-01-01 12:00:00,1\n2024-01-01 09:00:00,2\n")
    poll_all(lake.catalog, lake.store)
    (folder / "b.csv").write_text("ts,n\n2024-01-01 11:00:00,3\n2024-01-01 13:00:00,4\nx,5\n")
    (report,) = poll_all(lake.catalog, lake.store)
    assert (report.rows, report.dead_rows, report.late_rows) == (2, 1, 1)
    assert numbers(lake) == [1, 2, 4]
    assert watermark(lake) == (dt.datetime(2024, 1, 1, 13), 1)
    assert sorted(row["file"].split()[0] for row in rows(lake, DEAD_LETTER)) == ["b.csv", "late"]


def test_events_of_nexmark_move_the_watermark(lake: Session) -> None:
    lake.sql(
        "CREATE TABLE bid (auction BIGINT, date_time TIMESTAMP, WATERMARK FOR date_time AS date_time - INTERVAL '1' SECOND) "
        "APPEND ONLY WITH (connector = 'nexmark', type = 'bid', max_events = '500')"
    )
    poll_all(lake.catalog, lake.store)
    assert watermark(lake, "bid")[0] is not None


@pytest.mark.parametrize(
    ("text", "message", "place", "hint"),
    [
        (
            "CREATE TABLE x (ts TIMESTAMP, WATERMARK FOR ts AS ts)",
            "only be inserted",
            "WATERMARK",
            "APPEND ONLY",
        ),
        (
            "CREATE TABLE x (n INT, WATERMARK FOR m AS m) APPEND ONLY",
            "which is no column",
            "m AS",
            "columns are n",
        ),
        (
            "CREATE TABLE x (n STRING, WATERMARK FOR n AS n) APPEND ONLY",
            "carries no watermark",
            "n)",
            "TIMESTAMP",
        ),
        (
            "CREATE TABLE x (n INT, WATERMARK FOR n AS to_timestamp(n) - INTERVAL '5' SECOND) APPEND ONLY",
            "is a timestamp, the column is int",
            "to_timestamp",
            "write WATERMARK FOR",
        ),
        (
            "CREATE TABLE x (n INT, WATERMARK FOR n AS n * 2) APPEND ONLY",
            "less a constant",
            "n * 2",
            "WATERMARK",
        ),
        (
            "CREATE TABLE x (n INT, WATERMARK FOR n AS n - 1.5) APPEND ONLY",
            "no whole number",
            "1.5",
            "n - 10",
        ),
        (
            "CREATE TABLE x (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' MONTH) APPEND ONLY",
            "no fixed length",
            "'1' MONTH",
            "in days",
        ),
        (
            "CREATE TABLE x (ts TIMESTAMP, WATERMARK FOR ts AS ts, WATERMARK FOR ts AS ts) APPEND ONLY",
            "occurs twice",
            "WATERMARK FOR ts AS ts)",
            "one watermark",
        ),
        (
            "CREATE TABLE x (n INT, WATERMARK FOR n) APPEND ONLY",
            "an expression",
            "WATERMARK",
            "WATERMARK FOR ts",
        ),
        (
            "CREATE TABLE x (n INT) APPEND ONLY WITH (late_rows = 'keep')",
            "tables with a watermark",
            "late",
            "add",
        ),
        (
            "CREATE TABLE x (n INT, WATERMARK FOR n AS n) APPEND ONLY WITH (idle_timeout = '1 month')",
            "means nothing",
            "idle_timeout",
            "'1 minute'",
        ),
        (
            "CREATE TABLE x (n INT, WATERMARK FOR n AS n) APPEND ONLY WITH (late_rows = 'all')",
            "means nothing",
            "late_rows",
            "'count' or 'keep'",
        ),
    ],
)
def test_a_wrong_watermark_is_refused_with_place_and_remedy(
    lake: Session, text: str, message: str, place: str, hint: str
) -> None:
    with pytest.raises((SqlError, UnsupportedSql)) as error:
        lake.sql(text)
    assert message in error.value.message and hint in error.value.hint
    assert error.value.column == text.rindex(place) + 1 or error.value.column == text.index(place) + 1
    assert "x" not in lake.catalog.relations


def test_the_status_tells_where_a_watermark_stands_and_what_was_late(lake: Session) -> None:
    lake.sql(TABLE)
    lake.sql("CREATE TABLE plain (n INT)")
    write(lake, (at(10), 1))
    write(lake, (at(8), 2))
    status = {one.name: (one.watermark, one.late_rows) for one in lake.status()}
    assert status["t"] == (str(watermark(lake)[0]), 1) and status["plain"] == (None, None)


@pytest.mark.parametrize(
    ("kind", "clause", "number", "reached"),
    [
        ("BIGINT", "n0 + 10", 2**63 - 1, 2**63 - 1),
        ("BIGINT", "n0 - 10", -(2**63), -(2**63)),
        ("BIGINT", "n0 - 10", -(2**63) + 3, -(2**63)),
        ("TINYINT", "n0 - 10", -128, -138),
        ("DATE", "n0 + 2", 2**31 - 1, 2**31 - 1),
        ("TIMESTAMP", "n0 - INTERVAL '1' DAY", -(2**63) + 5, -(2**63)),
        ("TIMESTAMP_NTZ", "n0 + INTERVAL '1' DAY", 2**63 - 1, 2**63 - 1),
    ],
)
def test_a_watermark_stays_within_the_type_of_its_column(
    lake: Session, kind: str, clause: str, number: int, reached: int
) -> None:
    lake.sql(
        f"CREATE TABLE t (n0 {kind}, n INT, WATERMARK FOR n0 AS {clause}) APPEND ONLY WITH (late_rows = 'keep')"
    )
    times = convert_watermark(number, lake.store.table("t").schema.field("n0").type)
    for n in (1, 2):
        lake.write("t", pa.table({"n0": times, "n": pa.array([n], pa.int32())}), mode="insert")
        assert read_watermark(lake.store.reader, lake.store.refresh().tables["_watermark_t"]) == (reached, 0)
    lake.write(
        "t", pa.table({"n0": convert_watermark(0, times.type), "n": pa.array([3], pa.int32())}), mode="insert"
    )
    assert numbers(lake) == ([1, 2, 3] if number < 0 else [1, 2])  # below the greatest number all are late
    result = lake.sql("SHOW WATERMARKS")
    assert result is not None and result.num_rows == 1
    lake.status()


def test_late_rows_of_far_years_are_told_as_texts(lake: Session) -> None:
    lake.sql("CREATE TABLE t (n0 DATE, WATERMARK FOR n0 AS n0) APPEND ONLY WITH (late_rows = 'keep')")
    for days in (3_000_000, 2_999_999):
        lake.write("t", pa.table({"n0": convert_watermark(days, pa.date32())}), mode="insert")
    (letter,) = rows(lake, DEAD_LETTER)
    assert letter["reason"] == "late: n0 = +10183-09-20 is below the watermark +10183-09-21"
    assert json.loads(letter["raw"]) == {"n0": "+10183-09-20"}
    result = lake.sql("SHOW WATERMARKS")
    assert result is not None and result.column(2).to_pylist() == ["+10183-09-21"]
