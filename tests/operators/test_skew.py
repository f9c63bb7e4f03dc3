"""A key of which one task gets very many rows is told: its value, its rows, and what they are of."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from engine.operators import skew
from engine.operators.skew import WriteLoad, describe_skew
from engine.runtime.epoch import spark_executor
from engine.session import Session

FEW = 300


def test_a_key_is_told_with_its_rows_among_all() -> None:
    loads = [WriteLoad(100), WriteLoad(1_900_000, 1_700_000, "shop = 7"), WriteLoad(2_000)]
    message = describe_skew("sales", loads)
    assert message is not None and message.startswith(
        "sales: 1,700,000 of 1,902,100 rows have shop = 7, and one task"
    )
    assert describe_skew("sales", [WriteLoad(100), WriteLoad(3_000_000)]) is None
    assert describe_skew("sales", []) is None


def test_the_heaviest_key_is_found(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop STRING)")
    session.sql("CREATE INDEX by_shop ON sale (shop)")
    table = session.store.refresh().tables["_index_sale__shop"].table
    shops = ["b"] * FEW + ["a", None] * 20
    rows = pa.table({"id": list(range(len(shops))), "shop": shops})
    assert skew.measure_load(rows, table) == WriteLoad(len(shops))
    monkeypatch.setattr(skew, "SKEWED_ROWS", FEW)
    assert skew.measure_load(rows, table) == WriteLoad(len(shops), FEW, "shop = 'b'")
    assert skew.measure_load(rows.slice(1), table) == WriteLoad(len(shops) - 1), "no key has so many of them"
    long = pa.table({"id": list(range(FEW)), "shop": ["x" * 1000] * FEW})
    assert len(skew.measure_load(long, table).key) == 101


def test_a_report_and_the_log_tell_of_it(
    session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, shop FROM sale")
    session.write("sale", pa.table({"id": [1, 2], "shop": [7, 7]}))
    monkeypatch.setattr(
        spark_executor, "describe_skew", lambda table, loads: f"{table}: {len(list(loads))} task"
    )
    with caplog.at_level(logging.WARNING, logger="engine"):
        report = session.flush()
    assert report["v"].skew == ("v: 1 task",)
    assert "v: 1 task" in caplog.text


def test_a_heavy_key_that_python_has_no_date_for_is_told_as_its_text(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE stay (id BIGINT PRIMARY KEY, day DATE)")
    session.sql("CREATE INDEX by_day ON stay (day)")
    table = session.store.refresh().tables["_index_stay__day"].table
    monkeypatch.setattr(skew, "SKEWED_ROWS", FEW)
    days = pa.array([4_000_000] * FEW, pa.int32()).cast(pa.date32())
    rows = pa.table({"id": list(range(FEW)), "day": days})
    assert skew.measure_load(rows, table) == WriteLoad(FEW, FEW, "day = '+12921-08-18'")
