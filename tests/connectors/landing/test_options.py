"""Options of landing tables from the statement to the rows: what other programs write lands, and what contradicts them is told."""

from __future__ import annotations

import bz2
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.landing.options import validate_options
from engine.connectors.landing.source import LandingSource
from engine.errors import UnsupportedSql
from engine.meta.status.dead_letters import DEAD_LETTER
from engine.session import Session

Source = Callable[..., LandingSource]


def held(lake: Session, table: str = "orders") -> list[tuple[Any, ...]]:
    """Return the rows of a table, in order."""
    lake.store.refresh()
    return sorted(
        (tuple(row.values()) for batch in lake.store.iter(table) for row in batch.to_pylist()), key=repr
    )


def list_dead_letters(lake: Session) -> list[tuple[str, int, str]]:
    """Return the file, line and reason of each dead letter."""
    lake.store.refresh()
    rows = [row for batch in lake.store.iter(DEAD_LETTER) for row in batch.to_pylist()]
    return sorted((row["file"], row["line"], row["reason"]) for row in rows)


def test_a_table_unloaded_by_mysql_lands(lake: Session, folder: Path, orders: Source) -> None:
    source = orders(
        "id INT PRIMARY KEY, v STRING, d DATE",
        **{"format": "csv", "delimiter": "tab", "quote": "none", "escape": "\\\\", "null": "\\\\N"},
        **{"header": "false", "encoding": "latin-1"},
    )
    (folder / "a.txt").write_bytes(b'1\t"q\\\tr\t2024-01-02\n2\t\\N\t\\N\n3\t\xe9\n4\tx\\\ny\t2024-01-03\n')
    source.poll()
    day = datetime.date(2024, 1, 2)
    assert held(lake) == [(1, '"q\tr', day), (2, None, None), (4, "x\ny", day.replace(day=3))]
    assert list_dead_letters(lake) == [("a.txt", 3, "2 fields, but there are names for 3")]


def test_changes_of_dms_land_in_csv_json_and_parquet(lake: Session, folder: Path, orders: Source) -> None:
    source = orders("id INT PRIMARY KEY, v STRING", operation="Op")
    (folder / "1.csv").write_text("Op,id,v\nI,1,a\nI,2,b\nI,3,c\n")
    (folder / "2.csv").write_text("OP,id,v\nU,1,z\nD,2,\n,3,x\nX,3,y\n")
    (folder / "3.jsonl").write_text(
        '{"Op": "D", "id": 3}\n{"id": 4, "v": "d"}\n{"Op": "i", "id": 5, "v": "e"}\n'
    )
    pq.write_table(pa.table({"Op": ["D", "I"], "id": [1, 6], "v": ["", "f"]}), folder / "4.parquet")
    (folder / "5.csv").write_text("op_,id,v\nI,7,g\n")
    source.poll()
    assert held(lake) == [(5, "e"), (6, "f")]
    assert list_dead_letters(lake) == [
        ("2.csv", 4, "column Op, which operation names, has no value"),
        ("2.csv", 5, 'column Op: "x" is none of insert, upsert, update, delete'),
        ("3.jsonl", 2, "column Op, which operation names, has no value"),
        ("5.csv", 0, "the file has no column Op, which operation names; it has op_, id, v"),
    ]


def test_an_operation_that_is_a_column_too_does_both(lake: Session, folder: Path, orders: Source) -> None:
    source = orders("id INT PRIMARY KEY, op STRING, _op STRING, _v INT", operation="OP")
    (folder / "1.csv").write_text("Op,ID,_OP,_v\nI,1,delete,7\nI,2,x,8\n")
    (folder / "2.jsonl").write_text('{"oP": "D", "id": 2}\n{"op": "u", "id": 3, "_op": "y", "_V": 9}\n')
    (folder / "op=D").mkdir()
    (folder / "op=D" / "3.csv").write_text("id\n1\n")
    source.poll()
    assert held(lake) == [(1, "I", "delete", 7), (3, "u", "y", 9)]
    assert list_dead_letters(lake) == [
        ("op=D/3.csv", 0, "a folder's name gives OP: an operation belongs to the rows of a file")
    ]


def test_changes_of_debezium_may_have_any_column(lake: Session, folder: Path, orders: Source) -> None:
    source = orders("id INT PRIMARY KEY, _op STRING, _v JSONB", format="json", envelope="debezium")
    changes = [
        '{"op": "c", "after": {"ID": 1, "_op": "delete", "_v": "{\\"a\\": [1]}"}}',
        '{"op": "c", "after": {"id": 2, "_op": null, "x": 1}}',
        '{"op": "d", "before": {"Id": 2, "_op": "insert"}}',
        '{"op": "c", "after": {"x": 1}}',
    ]
    (folder / "day=1").mkdir()
    (folder / "day=1" / "a.json").write_text("\x1e" + "\n\x1e".join(changes) + "\n")
    report = source.poll()
    assert held(lake) == [(1, "delete", '{"a": [1]}')]
    assert [(file, line) for file, line, _ in list_dead_letters(lake)] == [("day=1/a.json", 4)]
    assert "x" in str(report.warnings) and "change" not in str(report.warnings)


def test_fields_without_a_header_are_the_columns_by_their_names(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("_id INT PRIMARY KEY, v STRING", header="false", format="csv")
    (folder / "a.csv").write_bytes(b'1,"a\r\nb"\r\n2,c\r\n')
    source.poll()
    assert held(lake) == [(1, "a\r\nb"), (2, "c")]
    place = folder / "days" / "day=2024-01-02"
    place.mkdir(parents=True)
    lake.sql(
        "CREATE TABLE days (_id INT, day DATE, v STRING, PRIMARY KEY (_id)) WITH (connector = 'landing', "
        "path = 'landing/days', header = 'false', columns = '_ID, V', format = 'csv', date_format = '%d.%m.%Y')"
    )
    (place / "a.csv").write_text("1,x\n")
    LandingSource.of_relation(lake.store, lake.catalog.get("days")).poll()
    assert held(lake, "days") == [(1, datetime.date(2024, 1, 2), "x")]


def test_words_and_columns_of_ones_own(lake: Session, folder: Path, orders: Source) -> None:
    lake.sql(
        "CREATE TABLE orders (id INT PRIMARY KEY, v STRING) WITH (connector = 'landing', path = 'landing', format = 'csv', "
        "header = 'false', columns = 'kind, id, ignored, v', operation = 'kind', upsert_words = 'new, Changed', "
        "delete_words = 'gone', delimiter = '||')"
    )
    source = orders()
    (folder / "a.tsv").write_text("new||1||x||a\nchanged||1||x||b\nNEW||2||x||c\n")
    (folder / "b.csv.bz2").write_bytes(bz2.compress(b"Gone||2||x||\n") + bz2.compress(b"delete||1||x||\n"))
    source.poll()
    assert held(lake) == [(1, "b")]
    assert list_dead_letters(lake) == [
        ("b.csv.bz2", 2, 'column kind: "delete" is none of changed, new, gone')
    ]


def test_changes_of_debezium_land(lake: Session, folder: Path, orders: Source) -> None:
    source = orders(
        "id INT PRIMARY KEY, at TIMESTAMP, day DATE",
        **{
            "format": "json",
            "envelope": "debezium",
            "timestamp_format": "epoch_us",
            "date_format": "epoch_days",
        },
    )
    lines = [
        '{"payload": {"op": "r", "after": {"id": 1, "at": 1700000000000001, "day": 19000}}}',
        '{"op": "c", "after": {"id": 2, "at": null, "day": null}}',
        '{"op": "u", "before": null, "after": {"id": 1, "at": 0, "day": 0}}',
        '{"op": "d", "before": {"id": 2}}',
        "null",
        '{"op": "c", "after": {"id": 3, "at": "soon", "day": 1}}',
    ]
    (folder / "a.txt").write_text("\n".join(lines))
    source.poll()
    first = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert held(lake) == [(1, first, first.date())]
    assert list_dead_letters(lake) == [("a.txt", 6, 'column at: "soon" is no TIMESTAMP')]


def test_dates_and_times_in_a_format_land_and_others_are_told(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders(
        "id INT PRIMARY KEY, day DATE, at TIMESTAMP_NTZ",
        **{"date_format": "%d/%m/%Y", "timestamp_format": "%d.%m.%y %I:%M %p"},
    )
    (folder / "a.csv").write_text(
        "id,day,at\n1,31/12/2024,1.2.24 12:30 AM\n2,2024-12-31,\n3,,29.2.23 1:00 PM\n4,,\n"
    )
    pq.write_table(pa.table({"id": [5], "day": [datetime.date(2024, 1, 2)]}), folder / "b.parquet")
    source.poll()
    assert held(lake) == [
        (1, datetime.date(2024, 12, 31), datetime.datetime(2024, 2, 1, 0, 30)),
        (4, None, None),
        (5, datetime.date(2024, 1, 2), None),
    ]
    assert list_dead_letters(lake) == [
        ("a.csv", 3, 'column day: "2024-12-31" is no DATE'),
        ("a.csv", 4, 'column at: "29.2.23 1:00 PM" is no TIMESTAMP_NTZ'),
    ]


def test_formats_of_dates_and_times_hold_in_nested_values_folders_and_times(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders(
        "id INT PRIMARY KEY, at TIME, seen ARRAY<DATE>, one STRUCT<t: TIMESTAMP>, day DATE",
        **{"date_format": "%d.%m.%Y", "timestamp_format": "epoch", "time_format": "%I:%M %p"},
    )
    for day in ("day=02.01.2024", "day=2024-01-02"):
        (folder / day).mkdir()
    (folder / "day=02.01.2024" / "a.csv").write_text(
        'id,at,seen,one\n1,3:04 pm,"[""31.12.2024""]","{""t"": 60}"\n2,15:04,,\n3,,"[""2024-12-31""]",\n'
    )
    (folder / "day=2024-01-02" / "b.jsonl").write_text('{"id": 4, "at": "12:00 AM", "day": "02.01.2024"}\n')
    source.poll()
    day, minute = datetime.date(2024, 1, 2), datetime.datetime(1970, 1, 1, 0, 1, tzinfo=datetime.UTC)
    assert held(lake) == [
        (1, datetime.time(15, 4), [datetime.date(2024, 12, 31)], {"t": minute}, day),
        (4, datetime.time(0), None, None, day),
    ]
    assert [(line, reason) for _, line, reason in list_dead_letters(lake)] == [
        (3, 'column at: "15:04" is no TIME'),
        (4, 'column seen[]: "2024-12-31" is no DATE'),
    ]


def test_a_wrong_option_is_refused_by_name(lake: Session, folder: Path, orders: Source) -> None:
    with pytest.raises(UnsupportedSql, match="landing has no option separator"):
        orders(separator=";")
    assert "orders" not in lake.catalog.relations


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("format", "xml"),
        ("delimiter", ""),
        ("delimiter", '"'),
        ("delimiter", '|"|'),
        ("delimiter", "\n"),
        ("null", "N\nA"),
        *(("quote", text) for text in ("''", "", "x", ",", "é")),
        *(("escape", text) for text in ("", "\\\\", "x", ",")),
        *(
            ("header", "maybe"),
            ("columns", "a, b"),
            ("encoding", "klingon"),
            ("encoding", "base64"),
            ("json", "pretty"),
        ),
        *(
            ("envelope", "maxwell"),
            ("envelope", "debezium"),
            ("operation", " "),
            ("upsert_words", ","),
            ("delete_words", ""),
        ),
        *(("date_format", text) for text in ("", "%d/%m", "%Q %Y-%m-%d", "%Y-%m-%d %Y", "epoch")),
        *(
            ("timestamp_format", text)
            for text in ("dd/MM/yyyy", "epoch_days", "%Y-%m-%d %I", "%Y-%m-%d %I %H %p")
        ),
        ("path", "/etc"),
        ("path", "a\0b"),
    ],
)
def test_a_wrong_value_of_an_option_is_refused(
    folder: Path, orders: Source, option: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDELINE_ALLOWED_PATHS", raising=False)
    wrong = validate_options({"path": "landing", option: value})
    assert wrong is not None and wrong.option == option and wrong.hint
    assert validate_options({"path": "landing"}) is None


def test_a_wrong_value_of_an_option_is_refused_at_its_place_when_the_table_is_made(
    lake: Session, folder: Path, orders: Source
) -> None:
    with pytest.raises(UnsupportedSql, match="the quote '##' is not one character") as refused:
        orders(quote="##")
    assert refused.value.line == 1 and refused.value.column > 1
    assert "orders" not in lake.catalog.relations


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"escape": "\\", "null": "\\N"}, "null"),
        ({"header": "false", "columns": "a, A"}, "columns"),
        ({"delimiter": "\\", "escape": "\\"}, "escape"),
        ({"envelope": "debezium", "format": "json", "operation": "op"}, "operation"),
        ({"upsert_words": "i, d", "delete_words": "D"}, "delete_words"),
        *(
            ({"format": "json", name: value}, name)
            for name, value in {"quote": "'", "header": "true"}.items()
        ),
        *(
            ({"format": "csv", name: value}, name)
            for name, value in {"json": "lines", "envelope": "debezium"}.items()
        ),
        *(
            ({"format": "parquet", name: value}, name)
            for name, value in {"encoding": "cp1252", "date_format": "epoch_days"}.items()
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    folder: Path, options: dict[str, str], wrong: str
) -> None:
    found = validate_options({"path": "landing", **options})
    assert found is not None and found.option == wrong and found.hint
