"""What `tideline why` prints, and how it reads a key."""

from __future__ import annotations

import json

import click
import pyarrow as pa
import pytest

from engine.cli.printing import Format
from engine.cli.row_origin import parse_key, print_origin
from engine.runtime.answers.trace import TraceStep
from engine.runtime.answers.why import RowOrigin
from engine.sql.catalog import Relation, RelationColumn

ORIGIN = RowOrigin(
    "top",
    pa.table({"auction": [7], "best": [50]}),
    11693245941874688,
    (
        TraceStep("top", "aggregate", "max(bid.price) GROUP BY bid.auction", 1),
        TraceStep("top", "scan", "bid", 2),
    ),
    {
        "bid": pa.table({"id": [1, 2], "auction": [7, 7], "price": [30, 50]}),
        "seller": pa.table({"id": pa.array([], pa.int64())}),
    },
)


def test_the_row_the_steps_and_the_rows_of_each_table_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_origin(ORIGIN, Format.table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("top at epoch 2026-11-26 02:26:13.283 UTC")
    assert "    max(bid.price) GROUP BY bid.auction" in lines
    assert lines[lines.index("bid: 2 rows") + 1].split() == ["id", "auction", "price"]
    assert lines[-1] == "seller: 0 rows"


def test_programs_get_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    print_origin(ORIGIN, Format.json)
    found = json.loads(capsys.readouterr().out)
    assert found["view"] == "top" and found["row"] == {"auction": 7, "best": 50}
    assert (
        found["sources"]["bid"][1] == {"id": 2, "auction": 7, "price": 50}
        and found["sources"]["seller"] == []
    )
    assert found["steps"][0]["operator"] == "aggregate" and found["epoch"] == ORIGIN.epoch
    with pytest.raises(click.BadParameter, match="csv has room for one table"):
        print_origin(ORIGIN, Format.csv)


def test_a_key_is_values_in_their_order_or_by_column() -> None:
    columns = (RelationColumn("auction", "bigint"), RelationColumn("who", "string"))
    view = Relation(name="top", kind="materialized view", columns=columns)
    assert parse_key(view, ["7", "NULL"]) == ["7", None]
    assert parse_key(view, ["who=a=b", "auction=NULL"]) == {"who": "a=b", "auction": None}
    assert parse_key(view, ["7", "what=x"]) == ["7", "what=x"]
