"""Tables whose rows change at random: what is told of a round leads from the rows before it to those after it."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from benchmarks.changing_tables import SourceTable, build_table

CUSTOMERS = pa.table({"Id": ["a", "b", "c"], "size": [1, 2, 3]})
ITEMS = pa.table({"customer": ["a", "a", "b", "c"], "line": [1, 2, 1, 1], "price": [1.5, None, 2.5, 1.5]})


def build_both() -> list[SourceTable]:
    tables = [build_table(("raw", name), name, rows) for name, rows in (("c", CUSTOMERS), ("i", ITEMS))]
    for table in tables:
        table.find_parents(tables)
    return tables


def test_keys_and_parents_are_found() -> None:
    customers, items = build_both()
    assert customers.key == ("id",) and items.key == ("customer", "line")
    assert items.parents["customer"] == (customers, "id")
    assert "PRIMARY KEY (`customer`, `line`)" in items.render_ddl()


@pytest.mark.parametrize("seed", range(5))
def test_changes_lead_from_the_rows_before_to_those_after(seed: int) -> None:
    draw, tables = random.Random(seed), build_both()
    for _ in range(20):
        for table in tables:
            rows = {table.take_key(row): dict(row) for row in table.rows}
            upserts, gone = table.change(draw)
            for row in gone:
                del rows[table.take_key(row)]
            rows |= {table.take_key(row): dict(row) for row in upserts}
            assert rows == {table.take_key(row): row for row in table.rows}
            assert len(rows) == len(table.rows) == table.as_arrow(table.rows).num_rows


def test_a_table_without_a_key_only_grows() -> None:
    table = build_table(("raw", "t"), "t", pa.table({"a": [1, 1], "b": ["x", "x"]}))
    upserts, gone = table.change(random.Random(1))
    assert table.key == () and not gone and table.rows == [{"a": 1, "b": "x"}] * 2 + upserts
