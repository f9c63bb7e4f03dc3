"""The TPC-H generator: the same seed gives the same rows, keys are keys, every query finds rows."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks import tpch
from tests.oracle.data_epochs import queries


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return tpch.generate_tables(0.01)


def test_the_same_seed_gives_the_same_rows(tables: dict[str, pa.Table]) -> None:
    assert tpch.generate_tables(0.01)["lineitem"].equals(tables["lineitem"])
    assert not tpch.generate_tables(0.01, seed=2)["lineitem"].equals(tables["lineitem"])


@pytest.mark.parametrize("scale", [0.0003, 0.003, 0.01])
def test_keys_are_unique_and_every_line_has_its_order_part_and_supplier(scale: float) -> None:
    made = tpch.generate_tables(scale)
    for name, key in tpch.KEYS.items():
        assert made[name].group_by(list(key)).aggregate([]).num_rows == made[name].num_rows, name
    with duckdb.connect() as connection:
        for name, rows in made.items():
            connection.register(name, rows)
        lost = connection.sql(
            "SELECT count(*) FROM lineitem WHERE l_orderkey NOT IN (SELECT o_orderkey FROM orders) "
            "OR (l_partkey, l_suppkey) NOT IN (SELECT (ps_partkey, ps_suppkey) FROM partsupp)"
        ).fetchall()
    assert lost == [(0,)]


def test_amounts_are_decimals_and_follow_from_quantity_and_part(tables: dict[str, pa.Table]) -> None:
    lines = tables["lineitem"]
    assert lines.schema.field("l_extendedprice").type == pa.decimal128(15, 2)
    per_piece = pc.divide(lines["l_extendedprice"].cast(pa.float64()), lines["l_quantity"].cast(pa.float64()))
    assert pc.min(per_piece).as_py() >= 900


@pytest.mark.parametrize("name", list(queries("tpch")))
def test_every_query_has_rows_at_scale_one_hundredth(tables: dict[str, pa.Table], name: str) -> None:
    with duckdb.connect() as connection:
        for table, rows in tables.items():
            connection.register(table, rows)
        rows = connection.sql(queries("tpch")[name]).fetchall()
    assert rows and any(value is not None for value in rows[0])
