"""What `tideline why` and `why-not` print."""

from __future__ import annotations

import json

import click
import pyarrow as pa
import pytest

from engine.cli.answers.row_origin import print_absence, print_origin
from engine.cli.printing import Format
from engine.runtime.answers.row_loss import RowLoss
from engine.runtime.answers.trace import TraceStep
from engine.runtime.answers.why import RowOrigin
from engine.runtime.answers.why_not import RowAbsence

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


ABSENCE = RowAbsence(
    "top",
    pa.table({"auction": [7], "best": pa.array([None], pa.int64())}),
    11693245941874688,
    (
        RowLoss(
            "top",
            "filter",
            "bid.price > 40",
            "bid.price > 40 is not true of 30 rows",
            pa.table({"bid.id": range(30)}),
        ),
        RowLoss("top", "scan", "seller", "seller has no row with id = 7", pa.table({})),
    ),
    (TraceStep("top", "view", "CREATE …", 0), TraceStep("top", "filter", "bid.price > 40", 30)),
)


def test_what_keeps_a_row_out_is_printed_with_the_rows_that_decide(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_absence(ABSENCE, Format.table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "has no row with auction = 7, best = NULL"
    assert lines[2:4] == [
        "filter in top: bid.price > 40 is not true of 30 rows",
        "scan in top: seller has no row with id = 7",
    ]
    assert lines[-1].strip() == "19" and "filter in top: 30 rows, 20 of them" in lines
    print_absence(ABSENCE, Format.json)
    found = json.loads(capsys.readouterr().out)
    assert found["asked"] == {"auction": 7, "best": None} and len(found["losses"][0]["rows"]) == 20
    assert found["losses"][1]["reason"] == "seller has no row with id = 7" and found["steps"][1]["rows"] == 30
    with pytest.raises(click.BadParameter, match="csv has room for one table"):
        print_absence(ABSENCE, Format.csv)
