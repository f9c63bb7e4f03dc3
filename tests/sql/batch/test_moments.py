"""The moments that FOR SYSTEM_TIME AS OF names, as other systems write them."""

from __future__ import annotations

import pytest
import sqlglot.expressions as exp

from engine.sql.batch.time_travel import parse_moment
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
