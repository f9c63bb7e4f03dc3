"""Results as people and as programs read them."""

from __future__ import annotations

import datetime
import decimal
import json

import pyarrow as pa
import pytest

from engine.cli.printing import Format, format_result, print_table

RESULT = pa.table(
    {
        "id": pa.array([1, None], pa.int64()),
        "text": ["a\nb", ""],
        "price": pa.array([decimal.Decimal("1.50"), None]),
        "at": pa.array([datetime.datetime(2026, 1, 31, 10), None]),
        "tags": [["x", "y"], None],
        "epoch": pa.array([11_670_983_665_254_401, None], pa.int64()),
    }
)


def test_a_row_is_a_line_where_it_fits() -> None:
    assert list(format_result(pa.table({"bar": ["north", "south"], "cents": [670, 440]}), 80)) == [
        "bar    cents",
        "─────  ─────",
        "north    670",
        "south    440",
    ]


def test_a_value_is_a_line_where_the_row_does_not_fit() -> None:
    lines = list(format_result(pa.table({"bar": ["north"], "text": ["x" * 70]}), 60))
    assert lines[1:] == ["bar   north", f"text  {'x' * 70}"]


def test_a_pipe_gets_a_row_a_line_whatever_its_length() -> None:
    assert len(list(format_result(pa.table({"bar": ["north"], "text": ["x" * 700]}), None))) == 3


def test_control_characters_of_data_do_not_reach_the_terminal() -> None:
    text = "".join(format_result(pa.table({"t": ["\x1b[2Jgone\r\n"]}), 80))
    assert "\x1b" not in text and "\\x1b[2Jgone\\r\\n" in text


def test_two_columns_of_one_name_are_both_shown(capsys: pytest.CaptureFixture[str]) -> None:
    result = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert list(format_result(result, 80))[2] == "1  2"
    print_table(result, Format.csv)
    assert capsys.readouterr().out == '"a","a"\n1,2\n'


def test_csv_tells_null_from_the_empty_text_and_takes_lists(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(RESULT, Format.csv)
    assert capsys.readouterr().out == (
        '"id","text","price","at","tags","epoch"\n'
        '1,"a\nb",1.50,2026-01-31 10:00:00,"[""x"",""y""]",11670983665254401\n'
        ',"",,,,\n'
    )


def test_json_keeps_every_digit_of_numbers_beside_nulls(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(RESULT, Format.json)
    text = capsys.readouterr().out
    first, second = json.loads(text, parse_float=decimal.Decimal)
    assert first == {
        "id": 1,
        "text": "a\nb",
        "price": decimal.Decimal("1.50"),
        "at": "2026-01-31T10:00:00",
        "tags": ["x", "y"],
        "epoch": 11670983665254401,
    }
    assert second == dict.fromkeys(RESULT.column_names) | {"text": ""}
