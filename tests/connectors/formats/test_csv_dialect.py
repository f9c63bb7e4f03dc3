"""CSV in the dialects of this world: Python's csv module, DuckDB and what was written say what is in a text."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from engine.connectors.formats.csv_reader import read_csv
from engine.connectors.formats.encoding import as_utf8
from engine.connectors.formats.file_format import (
    BadLine,
    FileOptions,
    MalformedFile,
    detect_codec,
    detect_format,
)
from engine.connectors.formats.read_limits import ReadLimits

ROWS = 40


class Blocks(ReadLimits):
    """Blocks so small that what means something is cut anywhere."""

    block = property(lambda self: 5)  # type: ignore[assignment]
    row = property(lambda self: 1 << 20)  # type: ignore[assignment]


def rows_of(
    data: bytes, options: FileOptions, limits: ReadLimits | None = None, skip: int = 0
) -> tuple[list[tuple[Any, ...]], list[BadLine]]:
    """Return the rows of a text, and its bad lines."""
    file: Any = io.BytesIO(data)
    if options.encoding is not None:
        file = as_utf8(file, options.encoding)
    rows, bad = [], []
    for batch in read_csv(file, options, limits or ReadLimits(), skip):
        rows += list(zip(*(batch.columns[name].to_pylist() for name in batch.names), strict=True))
        bad += batch.bad
    return rows, bad


def texts(seed: int, marks: str) -> list[list[str]]:
    """Return random rows of three texts, none of them empty."""
    some = random.Random(seed)
    return [["".join(some.choices(marks, k=some.randint(1, 6))) for _ in range(3)] for _ in range(ROWS)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("written", "options"),
    [
        ({"delimiter": "|", "quotechar": "'"}, FileOptions(delimiter="|", quote="'")),
        ({"quotechar": "'", "quoting": csv.QUOTE_ALL}, FileOptions(quote="'")),
        (
            {"escapechar": "\\", "doublequote": False, "quoting": csv.QUOTE_ALL},
            FileOptions(escape="\\"),
        ),
        (
            {
                "delimiter": ";",
                "quotechar": "'",
                "escapechar": "^",
                "doublequote": False,
                "quoting": csv.QUOTE_ALL,
            },
            FileOptions(delimiter=";", quote="'", escape="^"),
        ),
        (
            {"delimiter": "\t", "escapechar": "\\", "quoting": csv.QUOTE_NONE, "quotechar": None},
            FileOptions(delimiter="\t", quote="", escape="\\"),
        ),
        ({"delimiter": "\x01", "quoting": csv.QUOTE_ALL}, FileOptions(delimiter="\x01")),
    ],
)
def test_what_python_writes_is_read(seed: int, written: dict[str, Any], options: FileOptions) -> None:
    marks = "ab é\"'^\\;|\t," if written.get("escapechar") else "ab é\"';|\t,\\"
    rows = texts(seed, marks)
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\n", **written).writerows([["k", "x", "y"], *rows])
    text = sink.getvalue()
    by_python = csv.reader(io.StringIO(text, newline=""), strict=True, **written)
    assert list(by_python)[1:] == rows
    for limits in (ReadLimits(), Blocks()):
        assert rows_of(text.encode(), options, limits) == ([tuple(row) for row in rows], [])
        for skip in (1, ROWS - 1, ROWS):
            found, _ = rows_of(text.encode(), options, limits, skip)
            assert found == [tuple(row) for row in rows][skip:]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("delimiter", ["||", "|~|", "§", "::", "\t\t", "aba"])
def test_a_delimiter_of_several_bytes_stands_between_fields(seed: int, delimiter: str) -> None:
    rows = texts(seed, 'ab|~§:\t\n"é,')

    def field(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    lines = [delimiter.join(map(field, row)) for row in rows]
    data = "\n".join([delimiter.join(("k", "x", "y")), *lines]).encode()
    options = FileOptions(delimiter=delimiter)
    whole, bad = rows_of(data, options)
    doubtful = {row for row in map(tuple, rows) if any("\n" in text for text in row)}
    assert set(whole) | doubtful == set(map(tuple, rows)) and len(whole) + len(bad) >= ROWS - len(doubtful)
    assert not bad or doubtful  # a text over lines that looks like the beginning of another is told
    assert rows_of(data, options, Blocks()) == (whole, bad)
    plain = [[text.replace("\n", "").replace('"', "") for text in row] for row in rows]
    data = "\n".join(["k" + delimiter + "x" + delimiter + "y", *map(delimiter.join, plain), ""]).encode()
    split = [tuple(line.split(delimiter)) for line in data.decode().split("\n")[1:-1]]
    for limits in (ReadLimits(), Blocks()):
        found, bad = rows_of(data, FileOptions(delimiter=delimiter, quote="", nulls=()), limits)
        assert found == [row for row in split if len(row) == 3]
        assert len(bad) == sum(len(row) != 3 for row in split)
        assert {one.raw for one in bad} == {delimiter.join(row) for row in split if len(row) != 3}


def test_bytes_that_are_no_text_are_told_and_never_taken_for_a_delimiter() -> None:
    data = b"k||x\n1||a\n2||b\xffc\n3\xff||d\n4||e\n5\xfef\n"
    rows, bad = rows_of(data, FileOptions(delimiter="||"))
    assert rows == [("1", "a"), ("4", "e")]
    assert [one.line for one in bad] == [3, 4, 6]


def test_escapes_as_mysql_writes_them() -> None:
    data = b'id\tv\n1\t\\N\n2\ta\\\tb\n3\tx\\\\\n4\tl\\\nm\n5\t\\\\N\n6\tN\n7\t"\n8\tend\\'
    options = FileOptions(delimiter="\t", quote="", escape="\\", nulls=("", "\\N"))
    rows, bad = rows_of(data, options)
    assert rows == [
        ("1", None),
        ("2", "a\tb"),
        ("3", "x\\"),
        ("4", "l\nm"),
        ("5", "\\N"),
        ("6", "N"),
        ("7", '"'),
    ]
    assert [(one.line, one.reason) for one in bad] == [(10, "nothing follows the escape at its end")]
    assert rows_of(data, options, Blocks()) == (rows, bad)


@pytest.mark.parametrize("mark", ["\r\n", "\r", "\n"])
def test_escaped_line_breaks_and_those_within_quotes_stay_as_in_the_file(mark: str) -> None:
    """Delimiters of several bytes, escapes and line breaks of each kind are cut anywhere, and no line is lost."""
    lines = [
        "k||v",
        f"1||'a{mark}b||c'",
        f"2||d\\{mark}e\\||f",
        "3||'g",
        f"4||'h\\'i{mark}{mark}j\\{mark}'",
        "5||k",
    ]
    wanted = [
        *(("1", f"a{mark}b||c"), ("2", f"d{mark}e||f"), ("4", f"h'i{mark}{mark}j{mark}"), ("5", "k")),
    ]
    options = FileOptions(delimiter="||", quote="'", escape="\\")
    for text in (mark.join(lines), mark.join([*lines, "", ""])):
        for limits in (ReadLimits(), Blocks()):
            rows, bad = rows_of(text.encode(), options, limits)
            assert rows == wanted
            assert [(one.line, one.raw) for one in bad] == [(6, "3||'g")]
            found = list(read_csv(io.BytesIO(text.encode()), options, limits))
            assert [batch.locate_row(at)[0] for batch in found for at in range(batch.rows)] == [2, 4, 7, 11]
    plain = FileOptions(delimiter="||", quote="", escape="\\", nulls=("", "\\N"), fields=("k", "v"))
    for limits in (ReadLimits(), Blocks()):
        text = mark.join(["1||\\N", f"2||a\\{mark}\\{mark}b", "3||\\\\", f"4||\\{mark}"]) + mark
        assert rows_of(text.encode(), plain, limits)[0] == [
            ("1", None), ("2", f"a{mark}{mark}b"), ("3", "\\"), ("4", mark)]  # fmt: skip


@pytest.mark.parametrize(("delimiter", "quote"), [("||", ""), ("§", ""), ("aba", "'"), ("::", '"')])
def test_what_is_escaped_is_of_no_delimiter(delimiter: str, quote: str) -> None:
    some = random.Random(delimiter)
    parts = [*delimiter, delimiter, "x", "\\", "\r\n", "\r", "\n", quote or "'", "\0"]
    rows = [tuple("".join(some.choices(parts, k=4)) + "z" for _ in range(3)) for _ in range(ROWS)]

    def field(text: str) -> str:
        if quote and some.random() < 0.5:
            return quote + "".join(f"\\{mark}" if mark in (quote, "\\") else mark for mark in text) + quote
        special = f"{delimiter}{quote}\\\n"
        text = "".join(f"\\{mark}" if mark in special else mark for mark in text)
        return text.replace("\r\\\n", "\r\n").replace("\r", "\\\r")

    data = "\r\n".join([delimiter.join("kxy"), *(delimiter.join(map(field, row)) for row in rows)]).encode()
    options = FileOptions(delimiter=delimiter, quote=quote, escape="\\")
    for limits in (ReadLimits(), Blocks()):
        assert rows_of(data, options, limits) == (rows, [])


@pytest.mark.parametrize("mark", ["\r\n", "\r"])
def test_empty_lines_alone_are_no_rows(mark: str) -> None:
    assert rows_of(f"id,v{mark}{mark}{mark}".encode(), FileOptions()) == ([], [])
    assert rows_of(f"{mark}{mark}".encode(), FileOptions(fields=("id", "v"))) == ([], [])


def test_fields_without_a_header_are_found_as_names_of_a_header_are() -> None:
    options = FileOptions(fields=("ID", "_v", "v", "skipped"), columns=frozenset({"id", "V", "_V"}))
    (batch,) = read_csv(io.BytesIO(b"1,a,b,c\n"), options, ReadLimits())
    assert {name: column.to_pylist() for name, column in batch.columns.items()} == {
        "ID": ["1"], "_v": ["a"], "v": ["b"]}  # fmt: skip
    twice = FileOptions(fields=("v", "V"), columns=frozenset({"Id", "v"}))
    assert len(next(read_csv(io.BytesIO(b"1,2\n"), twice, ReadLimits())).columns) == 1
    with pytest.raises(MalformedFile, match="the fields' names have id as Id and as iD"):
        list(
            read_csv(
                io.BytesIO(b"1,2\n"),
                FileOptions(fields=("Id", "iD"), columns=frozenset({"id"})),
                ReadLimits(),
            )
        )


def test_without_a_header_fields_are_named_by_their_place() -> None:
    options = FileOptions(fields=("id", "v"), nulls=("", "NA", "-"))
    rows, bad = rows_of(b"id,v\n1,NA\n2,-\n3\n", options)
    assert rows == [("id", "v"), ("1", None), ("2", None)]
    assert [(one.line, one.reason) for one in bad] == [(4, "1 fields, but there are names for 2")]
    assert rows_of(b"", options) == ([], [])


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("latin-1", "k,x\n1,é\n2,ÿ\n"),
        ("cp1252", "k,x\n1,€\n2,\u2019\n"),
        ("utf-16", "k,x\r\n1,é\r\n2,\U0001f600\r\n"),
        ("utf-16-le", "k,x\n1,\u0a0d\n2,b\n"),
        ("shift_jis", "k,x\n1,表\n2,ソ\n"),
        ("gb18030", "k,x\n1,中\n2,文\n"),
    ],
)
def test_a_text_in_another_encoding_is_read(tmp_path: Path, encoding: str, text: str) -> None:
    wanted = [tuple(line.split(",")) for line in text.split()[1:]]
    for limits in (ReadLimits(), Blocks()):
        assert rows_of(text.encode(encoding), FileOptions(encoding=encoding), limits) == (wanted, [])


def test_a_byte_that_an_encoding_has_not_costs_its_line() -> None:
    rows, bad = rows_of(b"k,x\n1,a\n2,\x81\n3,c\n", FileOptions(encoding="cp1252"))
    assert (rows, [(one.line, one.reason) for one in bad]) == (
        [("1", "a"), ("3", "c")],
        [(3, "the line is not cp1252")],
    )


@pytest.mark.parametrize(
    "options", [{"delim": "||"}, {"quote": "'"}, {"header": False}, {"nullstr": ["NA", "-"]}]
)
def test_duckdb_reads_the_same(tmp_path: Path, options: dict[str, Any]) -> None:
    delimiter, quote = options.get("delim", ","), options.get("quote", '"')
    lines = [["k", "x"]] if options.get("header", True) else []
    lines += [["1", "NA"], ["2", f"{quote}a{delimiter}b{quote}"], ["3", "-"], ["4", "c d"]]
    file = tmp_path / "a.csv"
    file.write_text("\n".join(map(delimiter.join, lines)) + "\n")
    given = {
        "header": True,
        "delim": ",",
        "quote": '"',
        "escape": quote,
        "all_varchar": True,
        "auto_detect": False,
    } | options
    given["columns"] = {"k": "VARCHAR", "x": "VARCHAR"}
    theirs = ", ".join(f"{name} = {value!r}" for name, value in given.items())
    wanted = duckdb.sql(f"FROM read_csv('{file}', {theirs})").fetchall()
    ours = FileOptions(
        delimiter=delimiter,
        quote=quote,
        fields=None if given["header"] else ("k", "x"),
        nulls=("", *options.get("nullstr", ())),
    )
    assert rows_of(file.read_bytes(), ours) == (wanted, [])


@pytest.mark.parametrize(
    ("name", "format", "read_as", "delimiter"),
    [
        ("a.tsv", None, "csv", "\t"),
        ("a.TSV.gz", None, "csv", "\t"),
        ("a.csv.bz2", None, "csv", ""),
        ("a.txt", None, None, ""),
        ("a.txt", "csv", "csv", ""),
        ("a.txt.bz2", "json", "json", ""),
        ("a.txt", "parquet", None, ""),
        ("a.tsv", "json", None, "\t"),
        (".txt", "csv", None, ""),
    ],
)
def test_a_suffix_tells_what_a_file_is(
    name: str, format: str | None, read_as: str | None, delimiter: str
) -> None:
    options = FileOptions(format=format)
    assert detect_format(name, options) == read_as
    assert options.adapt_to_file(name).delimiter == delimiter
    assert FileOptions(delimiter=";").adapt_to_file(name).delimiter == ";"
    assert detect_codec("a.csv.bz2") == "bz2"
