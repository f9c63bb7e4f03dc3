"""Dates and times in formats of their own: Python's strptime and DuckDB's say what a text means."""

from __future__ import annotations

import datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.connectors.formats.time_formats import Formats, convert_to_iso, validate_format
from engine.sql.typing.column_conversion import convert_to_type

DATE, LOCAL, INSTANT, TIME = pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.time64("ns")
TEXTS = [
    *(
        "31/12/2024",
        "01/02/1999",
        "29/02/2024",
        "29/02/2023",
        "31/04/2024",
        "00/01/2024",
        "1/2/0001",
        "31/12/9999",
    ),
    *("31.12.24 23:59:59", "1.1.69 00:00:00", "1.1.68 24:00:00", "2.3.70 12:60:00", "2.3.70 1:2:3"),
    *(
        "Jan 02, 2024 12:00:00 AM",
        "feb 29, 2024 12:01:02 PM",
        "Foo 1, 2024 01:00:00 AM",
        "Mar 1, 2024 13:00:00 PM",
    ),
    *("2024-01-02T03:04:05.1", "2024-01-02T03:04:05.123456", "20240102 030405", "x", "", "2024", "１/1/2024"),
]
FORMATS = [
    *("%d/%m/%Y", "%d.%m.%y %H:%M:%S", "%b %d, %Y %I:%M:%S %p", "%Y-%m-%dT%H:%M:%S.%f", "%Y%m%d %H%M%S"),
    *("%m/%d/%Y", "100%% %Y-%m-%d", "%d.%m.%Y (%H)"),
]


def taken(texts: list[str | None], format: str, kind: pa.DataType) -> list[Any]:
    found = convert_to_type(convert_to_iso(pa.array(texts, pa.string()), format, kind), kind)
    assert set(found.bad.tolist()) == {
        n for n, text in enumerate(texts) if text is not None and not found.values[n].is_valid
    }
    return found.values.to_pylist()


@pytest.mark.parametrize("format", FORMATS)
def test_python_means_the_same_by_a_format(format: str) -> None:
    texts = [*TEXTS, datetime.datetime(2024, 5, 6, 17, 8, 9, 120000).strftime(format)]

    def by_python(text: str) -> datetime.datetime | None:
        try:
            return datetime.datetime.strptime(text.strip(), format)
        except ValueError:
            return None

    wanted = [by_python(text) if text.isascii() else None for text in texts]
    assert wanted[-1] is not None
    assert taken(texts, format, LOCAL) == wanted
    assert taken(texts, format, DATE) == [moment and moment.date() for moment in wanted]
    assert taken([None], format, DATE) == [None]


@pytest.mark.parametrize("format", ["%d/%m/%Y", "%b %d, %Y %I:%M:%S %p", "%Y-%m-%dT%H:%M:%S.%f"])
def test_duckdb_means_the_same_by_a_format(format: str) -> None:
    asked = ", ".join(f"try_strptime('{text}', '{format}')" for text in TEXTS if text.isascii())
    assert list(duckdb.sql(f"SELECT {asked}").fetchall()[0]) == taken(
        [t for t in TEXTS if t.isascii()], format, LOCAL
    )


def test_zones_count_for_instants() -> None:
    texts: list[str | None] = [
        "20240102T030405+0100",
        "20240102T030405Z",
        "20240102T030405",
        "20240102T030405-05:30",
    ]
    found = taken(texts, "%Y%m%dT%H%M%S%z", INSTANT)
    day = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    assert found == [day.replace(hour=2, minute=4, second=5), day.replace(hour=3, minute=4, second=5), None,
                     day.replace(hour=8, minute=34, second=5)]  # fmt: skip


@pytest.mark.parametrize(("word", "each"), [("epoch", 1), ("epoch_ms", 1_000), ("epoch_us", 1_000_000)])
def test_counts_since_1970(word: str, each: int) -> None:
    first = datetime.datetime(1970, 1, 1)
    seconds = [0, 1, -1, 1_700_000_000, 253_402_300_799, -62_135_596_800]
    texts: list[str | None] = [str(n * each) for n in seconds]
    wanted = [first + datetime.timedelta(seconds=n) for n in seconds]
    assert taken(texts, word, LOCAL) == wanted
    assert taken(texts, word, INSTANT) == [moment.replace(tzinfo=datetime.UTC) for moment in wanted]
    odd: list[str | None] = [
        "1.5",
        "x",
        "",
        None,
        str(253_402_300_800 * each),
        str((-62_135_596_800) * each - 1),
        "9" * 30,
    ]
    assert taken(odd, word, LOCAL) == [None] * len(odd)


def test_days_since_1970() -> None:
    days = [0, -1, 19_000, 2_932_896, -719_162]
    wanted = [datetime.date(1970, 1, 1) + datetime.timedelta(days=n) for n in days]
    assert taken([str(n) for n in days], "epoch_days", DATE) == wanted
    assert taken(["2932897", "-719163", "x", None], "epoch_days", DATE) == [None] * 4


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_that_tells_the_day_is_one(format: str) -> None:
    assert validate_format(format, "timestamp") is None


TIMES = ["23:59:59", "0:0", "24:00", "12:60", "12:01 AM", "12:59 pm", "13:00 PM", "01:02:03.4", "x", ""]


@pytest.mark.parametrize("format", ["%H:%M:%S", "%H:%M", "%I:%M %p", "%H:%M:%S.%f", "%Hh"])
def test_times_of_day_by_a_format(format: str) -> None:
    def by_python(text: str) -> datetime.time | None:
        try:
            return datetime.datetime.strptime(text, format).time()
        except ValueError:
            return None

    assert validate_format(format, "time") is None
    texts = [*TIMES, datetime.time(17, 8, 9, 120000).strftime(format)]
    wanted = [by_python(text) for text in texts]
    assert wanted[-1] is not None
    assert taken([*texts, None], format, TIME) == [*wanted, None]


@pytest.mark.parametrize(
    ("word", "each"), [("since_midnight", 1), ("since_midnight_ms", 10**3), ("since_midnight_us", 10**6)]
)
def test_counts_since_midnight(word: str, each: int) -> None:
    texts: list[str | None] = ["0", str(86_399 * each), str(86_400 * each), "-1", "1.5", "x", "", None]
    assert taken(texts, word, TIME) == [datetime.time(0), datetime.time(23, 59, 59), *[None] * 6]


@pytest.mark.parametrize("format", ["%M:%S", "%H:%I %p", "%I:%M", "%H %z", "%d %H", "epoch_us", ""])
def test_a_format_that_tells_no_time_of_day_is_none(format: str) -> None:
    assert validate_format(format, "time") is not None


def test_parts_of_nested_values_are_read_by_the_formats() -> None:
    kind = pa.struct(
        [("at", INSTANT), ("days", pa.list_(DATE)), ("of", pa.map_(DATE, TIME)), ("n", pa.int64())]
    )
    formats = Formats("%d/%m/%Y", "epoch_ms", "%I:%M %p")
    texts = pa.array(
        [
            '{"at": 1000, "days": ["31/12/2024", null], "of": {"01/02/2024": "12:30 am"}, "n": 5}',
            '{"at": "2000", "days": [], "of": [["01/02/2024", null]]}',
            '{"days": ["2024-12-31"]}',
            '{"at": "2024-12-31 00:00:00"}',
            '{"of": {"01/02/2024": "00:30"}}',
        ]
    )
    found = convert_to_type(texts, kind, reads=formats.reads)
    first = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert found.values.to_pylist()[:2] == [
        {
            "at": first.replace(second=1),
            "days": [datetime.date(2024, 12, 31), None],
            "of": [(datetime.date(2024, 2, 1), datetime.time(0, 30))],
            "n": 5,
        },
        {"at": first.replace(second=2), "days": [], "of": [(datetime.date(2024, 2, 1), None)], "n": None},
    ]
    assert {at: (fault.path, fault.value) for at, fault in found.faults.items()} == {
        2: (".days[]", "2024-12-31"),
        3: (".at", "2024-12-31 00:00:00"),
        4: (".of.value", "00:30"),
    }
