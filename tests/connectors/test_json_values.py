"""JSON that is no object a line: pretty-printed, behind each other without lines, in RS sequences, in Debezium's envelopes."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import duckdb
import pytest

from engine.connectors.formats.debezium import CHANGE
from engine.connectors.formats.encoding import as_utf8
from engine.connectors.formats.file_format import FileOptions, MalformedFile
from engine.connectors.formats.json_reader import read_json
from engine.connectors.formats.read_limits import ReadLimits

ROWS = [
    {"id": n, "t": "a{b}\n\x1e" * (n % 3), "n": None if n % 4 else 1.5, "o": {"a": [n, "}"]}}
    for n in range(30)
]
DEBEZIUM = FileOptions(envelope="debezium")


class Blocks(ReadLimits):
    """Blocks so small that values are cut anywhere."""

    block = property(lambda self: 7)  # type: ignore[assignment]
    row = property(lambda self: 1 << 20)  # type: ignore[assignment]


def rows_of(
    data: bytes, options: FileOptions | None = None, limits: ReadLimits | None = None, skip: int = 0
) -> tuple[list[dict[str, Any]], list[tuple[int, str]], list[int]]:
    """Return the rows of a text, its bad lines, and the line of each row."""
    options = options or FileOptions()
    file: Any = io.BytesIO(data) if options.encoding is None else as_utf8(io.BytesIO(data), options.encoding)
    rows, bad, lines = [], [], []
    for batch in read_json(file, options, limits or ReadLimits(), skip):
        columns = {name: column.to_pylist() for name, column in batch.columns.items()}
        rows += [{name: values[at] for name, values in columns.items()} for at in range(batch.rows)]
        bad += [(one.line, one.reason) for one in batch.bad]
        lines += [batch.locate_row(at)[0] for at in range(batch.rows)]
    return rows, bad, lines


def as_texts(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as files give it: numbers and nested values as texts."""
    return {
        name: value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in row.items()
    }


def joined(how: str) -> str:
    pretty = [json.dumps(row, indent=2) for row in ROWS]
    plain = [json.dumps(row, ensure_ascii=False) for row in ROWS]
    some = random.Random(3)
    return {
        "pretty": "\n".join(pretty) + "\n",
        "pretty CRLF": "\r\n".join(pretty).replace("\n", "\r\n"),
        "no lines": "".join(plain),
        "some lines": "".join(text + some.choice(["", " ", "\n", "\n\n\t"]) for text in plain),
        "RS": "".join(f"\x1e{text}\n" for text in plain),
        "RS pretty": "".join(f"\x1e{text}\n" for text in pretty),
        "one": pretty[0],
    }[how]


@pytest.mark.parametrize("how", ["pretty", "pretty CRLF", "no lines", "some lines", "RS", "RS pretty", "one"])
def test_values_behind_each_other_are_rows(tmp_path: Path, how: str) -> None:
    text = joined(how)
    wanted = [as_texts(row) for row in ROWS][: 1 if how == "one" else None]
    for options in (FileOptions(), FileOptions(json="values")):
        for limits in (ReadLimits(), Blocks()):
            found, bad, lines = rows_of(text.encode(), options, limits)
            assert (found, bad) == (wanted, [])
            assert lines == sorted(lines)
    assert rows_of(text.encode(), None, None, 7)[0] == wanted[7:]
    encoded = rows_of(text.encode("utf-16"), FileOptions(encoding="utf-16"))
    assert encoded[0] == wanted
    if not how.startswith("RS"):
        (tmp_path / "a.json").write_text(text)
        theirs = duckdb.sql(
            f"SELECT count(*), sum(id), max(t) FROM read_json('{tmp_path}/a.json', format = 'unstructured')"
        )
        assert theirs.fetchall()[0] == (
            len(wanted),
            sum(int(row["id"]) for row in wanted),
            max(row["t"] for row in wanted),
        )


def test_a_value_is_told_with_the_line_on_which_it_begins() -> None:
    _, bad, lines = rows_of(b'{"a": 1}{\n"a":\n2}\n\n[1]\n{"a": 3}', FileOptions(json="values"))
    assert (lines, bad) == ([1, 1, 6], [(5, "not a JSON object")])


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}{"a": 2', '{"a": 1}, {"a": 2}', '{\n"a": 1\n}\n}', '{"a": 1} x', '\x1e{"a": 1}\n\x1e{"a"'],
)
def test_a_file_of_values_that_does_not_end_as_it_should_is_not_taken_at_all(text: str) -> None:
    for limits in (ReadLimits(), Blocks()):
        with pytest.raises(MalformedFile, match=r"not JSON: .*line \d"):
            rows_of(text.encode(), FileOptions(json="values"), limits)


def test_lines_are_read_one_by_one_where_a_file_is_not_good_as_values() -> None:
    found, bad, _ = rows_of(b'{"a": 1\n{"a": 2}\n{"a": 3}{"a": 4}\n{"a": 5}\n')
    assert (found, [line for line, _ in bad]) == ([{"a": "2"}, {"a": "5"}], [1, 3])
    found, bad, _ = rows_of(b'{"a": 1}{"a": 2}\n{"a": 3}\n', FileOptions(json="lines"))
    assert (found, [line for line, _ in bad]) == ([{"a": "3"}], [1])
    found, bad, _ = rows_of(b'[{"a": 1},\n{"a": 2}]\n', FileOptions(json="lines"))
    assert (found, [line for line, _ in bad]) == ([], [1, 2])


def test_envelopes_of_debezium_are_changes() -> None:
    def change(op: str, before: Any, after: Any) -> dict[str, Any]:
        return {"before": before, "after": after, "source": {"lsn": 7}, "op": op, "ts_ms": 1}

    row, other = {"id": 1, "j": {"n": 1.50}}, {"id": 1, "j": None}
    good = [change("r", None, row), change("u", row, other), change("d", other, None), change("c", None, row)]
    lines = [
        json.dumps(good[0]),
        json.dumps({"schema": {"type": "struct"}, "payload": good[1]}),
        json.dumps(good[2]),
    ]
    lines += ["null", '{"schema": null, "payload": null}', json.dumps(good[3]).replace("1.5", "1.50")]
    wanted = [
        *({"id": "1", "j": '{"n": 1.5}', CHANGE: "upsert"}, {"id": "1", "j": None, CHANGE: "upsert"}),
        *({"id": "1", "j": None, CHANGE: "delete"}, {"id": "1", "j": '{"n": 1.50}', CHANGE: "upsert"}),
    ]
    for between in ("\n", "\n\n"):
        found, bad, at = rows_of(between.join(lines).encode(), DEBEZIUM)
        assert (found, bad) == (wanted, [])
    assert rows_of("\n".join(lines).encode(), DEBEZIUM, None, 3)[0] == wanted[3:]
    assert rows_of(("[" + ",".join(lines) + "]").encode(), DEBEZIUM)[0] == wanted
    assert rows_of("".join(lines).encode(), FileOptions(envelope="debezium", json="values"))[0] == wanted
    assert at == [1, 3, 5, 11]


def test_rows_in_envelopes_have_the_names_of_columns_that_any_object_has() -> None:
    options = FileOptions(
        envelope="debezium", columns=frozenset({"id", "V", "j", CHANGE}), documents=frozenset({"j"})
    )
    rows = ['{"ID": 1, "v": 2, "V": [1.50], "x": 0}', '{"Id": 3, "iD": 4}', '{"y": 1, "_op": "delete"}']
    rows += ['{"id": 5, "j": "{\\"a\\": 1.0}", "x": 1, "x": 2}']
    text = "\n".join(f'{{"payload": {{"op": "c", "after": {row}}}}}' for row in rows) + "\n"
    (batch,) = read_json(io.BytesIO(text.encode()), options, ReadLimits())
    assert [(one.line, one.reason) for one in batch.bad] == [(2, "the object names id as Id and as iD")]
    assert {name: column.to_pylist() for name, column in batch.columns.items()} == {
        "id": ["1", None, "5"], "V": ["[1.50]", None, None], "j": [None, None, '{"a": 1.0}'], CHANGE: ["upsert"] * 3
    }  # fmt: skip
    assert batch.foreign is not None and batch.foreign.tolist() == [1]
    assert set(batch.names) == {"id", "V", "j", CHANGE, "v", "x", "y", "_op"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"op": "t", "before": null, "after": null}', 'the change "t" of Debezium is not supported'),
        ('{"op": "m", "message": {}}', 'the change "m" of Debezium is not supported'),
        ('{"op": "d", "before": null}', 'the change "d" of Debezium has no before: .*REPLICA IDENTITY FULL'),
        ('{"op": "c", "after": 5}', 'the change "c" of Debezium has no after'),
        ('{"id": 1}', "not a change as Debezium writes it"),
        ('{"payload": 5}', "not a change as Debezium writes it"),
        ('{"op": 5}', 'the change "5" of Debezium is not supported'),
        ("5", "not a JSON object"),
        ("{", "not JSON"),
    ],
)
def test_what_is_no_change_is_told(text: str, reason: str) -> None:
    good = '{"op": "c", "after": {"id": 1}}'
    found, bad, _ = rows_of(f"{good}\n{text}\n{good}\n".encode(), DEBEZIUM)
    assert found == [{"id": "1", CHANGE: "upsert"}] * 2
    ((line, message),) = bad
    assert line == 2 and message.startswith(reason.partition(".*")[0])
