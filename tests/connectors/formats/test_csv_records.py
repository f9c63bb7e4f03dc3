"""Records of CSV texts: the vectorised way and the walk through wrong quotes agree, whatever the text and wherever it is cut."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.connectors.formats import csv_records
from engine.connectors.formats.csv_reader import read_csv
from engine.connectors.formats.csv_records import CsvRecords, _RecordWalk, find_records
from engine.connectors.formats.file_format import FileOptions
from engine.connectors.formats.read_limits import ReadLimits

TEXTS = st.text(alphabet='a1,"\n', max_size=60)
TABLES = st.lists(st.lists(st.text(alphabet='ab",\n ', max_size=6), min_size=3, max_size=3), max_size=12)


def spans(found: CsvRecords) -> list[tuple[int, ...]]:
    parts = (found.starts, found.ends, found.lines, found.fields)
    return list(zip(*(part.tolist() for part in parts), strict=True))


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.booleans(), st.sampled_from([0, 1, 2, 3]))
def test_the_quick_way_finds_what_the_walk_finds(text: str, final: bool, width: int) -> None:
    data = (text + "\n").encode()
    quick = find_records(data, width, b",", 1000, final)
    walk = _RecordWalk(data, width, b",", 1000, final).collect_records()
    if final or walk.used >= quick.used:
        assert spans(quick) == [span for span in spans(walk) if span[0] < quick.used]
    assert not final or quick.used == len(data)


@settings(max_examples=150, deadline=None)
@given(TABLES)
def test_what_is_written_by_the_rules_is_read_as_it_was_written(rows: list[list[str]]) -> None:
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([["k", "x", "y"], *rows])
    found = list(read_csv(io.BytesIO(sink.getvalue().encode()), FileOptions(nulls=()), ReadLimits()))
    read_rows = [
        list(row)
        for each in found
        for row in zip(*(c.to_pylist() for c in each.columns.values()), strict=True)
    ]
    doubtful = {bad.line for each in found for bad in each.bad}
    if not doubtful:  # a text that begins and ends with a delimiter may be two lone quotes
        assert read_rows == rows


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(64, 4096))
def test_records_do_not_depend_on_where_blocks_end(text: str, memory: int) -> None:
    data = ("a,b,c\n" + text).encode() * 3

    def read_records(limits: ReadLimits) -> list[tuple[int, str]]:
        batches = list(read_csv(io.BytesIO(data), FileOptions(), limits))
        rows = [each.locate_row(at) for each in batches for at in range(each.rows)]
        return sorted([*rows, *((bad.line, bad.raw) for each in batches for bad in each.bad)])

    class Blocks(ReadLimits):
        block = property(lambda self: memory // 64)  # type: ignore[assignment]
        row = property(lambda self: 1 << 20)  # type: ignore[assignment]

    assert read_records(Blocks()) == read_records(ReadLimits())


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ('1,"a\nb",3\n', []),
        ('1,"a\n\n2,b",3\n4,5,6\n', []),
        ('1,"a,3\n4,5,6\n', [0]),
        ('1,"a"b,3\n4,5,6\n', [0]),
        ('1,a"b,3\n', []),
        ('1,"a\n2,b",3,4\n5,6,7\n', [0]),
        ('1,",3\n2,",3\n', [0, 1]),
        ('1,"a\n2,"b",3\n4,5,6\n', [0]),
        ('1,2,"\n3,4,"\n5,6,7\n', [0, 1]),
        ('1,"Main Street,\nLondon,",3\n4,5,6\n', []),
        ('1,2,"a,\n3,4,"\n', []),
        ('"a\n",2,3\n', []),
    ],
)
def test_which_lines_are_no_records(text: str, bad: list[int]) -> None:
    found = find_records(text.encode(), 3, b",", 1000, True)
    assert found.lines[found.fields < 0].tolist() == bad


def test_a_quoted_field_over_too_many_lines_is_not_closed() -> None:
    few, many = (b'1,"' + b"\n" * count + b'",3\n' for count in (999, 1000))
    assert find_records(few, 3, b",", 10_000, True).fields.tolist() == [3]
    assert find_records(many, 3, b",", 10_000, True).fields[0] == -1


def test_every_byte_is_looked_at_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    real = csv_records._RecordWalk._read_record

    def record(self: _RecordWalk, line: int, lines_end: int) -> tuple[int | None, int]:
        last, fields = real(self, line, lines_end)
        looked.append((last or line) - line + 1)
        return last, fields

    monkeypatch.setattr(csv_records._RecordWalk, "_read_record", record)
    for text in ('1,"\n', '1,"a\n,""\n', '","\n', 'x,"""\n', '"\n"",\n'):
        looked.clear()
        lines = 3_000
        found = find_records((text * lines).encode(), 3, b",", 1 << 24, True)
        assert np.diff(found.starts).min() > 0
        assert sum(looked) <= 3 * text.count("\n") * lines


def read_rows(text: str, options: FileOptions, limits: ReadLimits) -> tuple[list[tuple[str, ...]], int]:
    """Return the rows of a file, and how many records are set aside."""
    found = list(read_csv(io.BytesIO(text.encode()), options, limits))
    rows = [
        row for each in found for row in zip(*(c.to_pylist() for c in each.columns.values()), strict=True)
    ]
    return rows, sum(len(each.bad) for each in found)


@pytest.mark.parametrize(
    ("text", "rows", "bad"),
    [
        ('1,"\n2,"\n', [], 2),  # inches, which nobody has quoted
        ('1,"\n2,"\n3,"\n4,x\n', [("4", "x")], 3),
        ('1,"\n5,y\n2,"\n', [("5", "y")], 2),
        ('"a\n","\n,"\n"b",c\n', [("a\n", "\n,"), ("b", "c")], 0),  # a field over lines stands before it
        ('"b","\n,"\n"\n","c"\n', [("\n", "c")], 2),  # and takes nothing of the row that follows
    ],
)
def test_lone_quotes_make_no_rows(text: str, rows: list[tuple[str, ...]], bad: int) -> None:
    assert read_rows("a,b\n" + text, FileOptions(nulls=()), ReadLimits()) == (rows, bad)


def test_a_line_that_is_a_row_by_itself_ends_no_lone_quote() -> None:
    text = "a,b,c\n,'\n,',',a''a'\n1,2,3\n"
    assert read_rows(text, FileOptions(nulls=(), quote="'"), ReadLimits()) == (
        [("", "\n,", ",a'a"), ("1", "2", "3")],
        0,
    )


@pytest.mark.parametrize("delimiter", [",", "||", "::::"])
def test_a_row_that_is_too_long_is_set_aside_whatever_its_delimiter(delimiter: str) -> None:
    limits = ReadLimits(4096)
    for size in range(limits.row - 12, limits.row + 40):
        text = "\n".join(
            delimiter.join(row) for row in (("a", "b", "c"), ("1", "2", "x" * size), ("3", "4", "5"))
        )
        rows, bad = read_rows(text + "\n", FileOptions(delimiter=delimiter), limits)
        whole = [("1", "2", "x" * size)] if not bad else []
        assert rows == [*whole, ("3", "4", "5")], size
        assert bad == (size + 4 > limits.row)
