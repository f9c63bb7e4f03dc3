"""Versions that are floating point numbers are ordered as Spark orders them: NaN is equal to itself and above all others."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

from engine.session import Session


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("at_once", [True, False])
def test_nan_is_the_newest_version(kind: str, at_once: bool, tmp_path: Path) -> None:
    def no_spark() -> None:
        raise AssertionError("Spark was started")

    rows = [
        (1, "one", 1.0),
        (1, "nan", math.nan),
        (1, "infinite", math.inf),
        (1, "again", math.nan),
        (1, "late", 2.0),
    ]
    with Session(tmp_path.as_uri(), no_spark) as session:
        session.sql(
            f"CREATE TABLE t (k INT PRIMARY KEY, a STRING, v {kind}) ON CONFLICT DO UPDATE FULL WITH VERSION COLUMN (v)"
        )
        types = [pa.int32(), pa.string(), pa.float32() if kind == "FLOAT" else pa.float64()]
        for part in [rows] if at_once else [[row] for row in rows]:
            columns = [
                pa.array(list(values), each)
                for values, each in zip(zip(*part, strict=True), types, strict=True)
            ]
            session.write("t", pa.table(columns, names=["k", "a", "v"]), mode="insert")
        found = session.sql("SELECT k, a FROM t")
        assert found is not None and found.to_pylist() == [{"k": 1, "a": "again"}]
