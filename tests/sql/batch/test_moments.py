"""The moments that FOR SYSTEM_TIME AS OF names, as other systems write them."""

from __future__ import annotations

import pytest
import sqlglot.expressions as exp

from engine.errors import SqlError
from engine.sql.batch.time_travel import Moment, parse_moment, read_moment
from engine.sql.parsing.tree_parser import parse_tree


@pytest.mark.parametrize(
    ("written", "ago"),
    [
        ("now() - INTERVAL '5' SECOND", 5.0),
        ("now() - '5' second", 5.0),
        ("NOW() - '2' minute AS x", 120.0),
        ("now() - '90 seconds'", 90.0),
        ("now()", 0.0),
    ],
)
def test_a_time_before_now_may_leave_interval_out(written: str, ago: float) -> None:
    text = f"SELECT * FROM t FOR SYSTEM_TIME AS OF {written}"
    table = parse_tree(text, "risingwave").find(exp.Table)
    assert table is not None
    moment = parse_moment(table, text)
    assert moment is not None and moment.ago == ago


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("11697917330980864", Moment(epoch=11697917330980864)),
        ("1700000000", Moment(seconds=1_700_000_000.0)),
        ("2026-01-31", Moment(seconds=1_769_817_600.0)),
        ("2026-01-31 12:00:00+02:00", Moment(seconds=1_769_853_600.0)),
        ("TIMESTAMP '2026-01-31 10:00:00'", Moment(seconds=1_769_853_600.0)),
        ("'2026-01-31 10:00'", Moment(seconds=1_769_853_600.0)),
        ("now() - INTERVAL '10' MINUTE", Moment(ago=600.0)),
        (" now() ", Moment(ago=0.0)),
    ],
)
def test_a_moment_alone_is_read_as_after_as_of(text: str, moment: Moment) -> None:
    assert read_moment(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        *("", "latest", "then", "-5", "1.5", "now() JOIN y", "now() x", "now() WHERE true", "now(); now()"),
        *("1'; DROP TABLE t", "b'now'", "9" * 20, "9" * 40, "9" * 5_000, "(" * 3_000),
    ],
)
def test_a_text_that_is_more_or_less_than_a_moment_is_refused(text: str) -> None:
    with pytest.raises(SqlError, match="is no moment of the past"):
        read_moment(text)
