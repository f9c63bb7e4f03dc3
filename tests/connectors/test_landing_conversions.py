"""Landing files follow the table of conversions: a row that does not fit is set aside alone, by its place in the column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.landing.source import LandingSource
from engine.session import Session

COLUMNS = "id INT PRIMARY KEY, b BOOLEAN, f FLOAT, at TIMESTAMP, n INT, items ARRAY<INT>, addr STRUCT<lines: ARRAY<STRUCT<qty: INT>>>"


def landed(lake: Session) -> tuple[list[int], dict[int, str]]:
    """Return the keys that are there, and the reason of each line that is set aside."""
    ids = lake.sql("SELECT id FROM orders")
    dead = lake.sql("SELECT line, reason FROM _dead_letter")
    assert ids is not None and dead is not None
    return sorted(ids.column("id").to_pylist()), {row["line"]: row["reason"] for row in dead.to_pylist()}


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        (
            "at",
            [1706954400, None],
            'column at: "1706954400" is no TIMESTAMP, and no BIGINT is taken for one; a number',
        ),
        ("b", [5, None], 'column b: "5" is no BOOLEAN, and no BIGINT is taken for one; compare it'),
        ("f", [1e300, 0.1], 'column f: "1e+300" is no FLOAT'),
        ("n", [1.5, 1.0], 'column n: "1.5" is no INT'),
        ("items", [[1.5], [2.0]], 'column items[]: "1.5" is no INT'),
        (
            "addr",
            [{"lines": [{"qty": 2**31}]}, {"lines": [{"qty": 1}]}],
            'column addr.lines[].qty: "2147483648" is no INT',
        ),
    ],
)
def test_a_parquet_row_that_does_not_fit_is_set_aside_alone(
    lake: Session,
    folder: Path,
    orders: Callable[..., LandingSource],
    column: str,
    values: list[Any],
    reason: str,
) -> None:
    source = orders(COLUMNS)
    pq.write_table(pa.table({"id": [1, 2], column: values}), folder / "a.parquet")
    assert source.poll().dead_rows == 1
    there, dead = landed(lake)
    assert there == [2] and dead[1].startswith(reason)


def test_lists_and_objects_of_json_follow_the_same_rules(
    lake: Session, folder: Path, orders: Callable[..., LandingSource]
) -> None:
    source = orders(COLUMNS)
    (folder / "a.jsonl").write_text(
        '{"id": 1, "items": [1, 2.0, "3"]}\n'
        '{"id": 2, "items": [1.5]}\n'
        '{"id": 3, "addr": {"lines": [{"qty": 1}, {"qty": 99999999999}]}}\n'
        '{"id": 4, "addr": {"lines": [{"qty": 1, "note": "x"}]}}\n'
        '{"id": 5, "f": 1e300}\n'
    )
    report = source.poll()
    assert landed(lake) == (
        [1, 4],
        {
            2: 'column items[]: "1.5" is no INT',
            3: 'column addr.lines[].qty: "99999999999" is no INT',
            5: 'column f: "1e300" is no FLOAT',
        },
    )
    assert any("addr.note" in warning for warning in report.warnings), report.warnings
