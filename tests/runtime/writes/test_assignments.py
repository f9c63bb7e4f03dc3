"""What a statement or `write` assigns to a column follows the table of conversions, whatever the values are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import InvalidRow, SqlError
from engine.session import Session
from engine.sql.dialect import Dialect

COLUMNS = {
    "spark": "id INT PRIMARY KEY, b BOOLEAN, f FLOAT, at TIMESTAMP, n SMALLINT, v STRING, d DOUBLE, "
    "lines ARRAY<STRUCT<qty: INT>>",
    "postgres": "id INT PRIMARY KEY, b BOOLEAN, f REAL, at TIMESTAMP, n SMALLINT, v TEXT, d DOUBLE PRECISION",
}
REFUSED = (
    ("INSERT INTO t (id, b) SELECT 2, 5", "BOOLEAN, which takes no INT"),
    ("INSERT INTO t (id, b) VALUES (2, 5)", "BOOLEAN, which takes no INT"),
    ("INSERT INTO t (id, at) SELECT 2, n FROM t", "which takes no SMALLINT"),
    ("INSERT INTO t (id, n) SELECT 2, b FROM t", "SMALLINT, which takes no BOOLEAN"),
    ("UPDATE t SET b = 5", "BOOLEAN, which takes no INT"),
    ("UPDATE t SET n = b", "SMALLINT, which takes no BOOLEAN"),
    ("UPDATE t SET at = n + 1", "which takes no"),
    (
        "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET b = excluded.n",
        "BOOLEAN, which takes no",
    ),
    (
        "UPDATE t SET b = u.n FROM t AS u WHERE t.id = u.id",
        "column b of t is BOOLEAN, which takes no SMALLINT",
    ),
    ("UPDATE t SET b = (SELECT max(n) FROM t)", "column b of t is BOOLEAN, which takes no SMALLINT"),
    ("UPDATE t SET n = coalesce((SELECT b FROM t WHERE id = 1), true)", "SMALLINT, which takes no BOOLEAN"),
    ("UPDATE t SET at = abs(n)", "which takes no SMALLINT"),
    (
        "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET b = (SELECT max(u.n) FROM t AS u)",
        "BOOLEAN, which takes no",
    ),
)
TAKEN = (
    "INSERT INTO t (id, n) SELECT 5, v FROM t WHERE id = 1",
    "INSERT INTO t (id, v, d) SELECT 6, n, n FROM t WHERE id = 1",
    "UPDATE t SET v = n, d = n WHERE id = 1",
    "UPDATE t SET n = '7' WHERE id = 1",
    "UPDATE t SET n = NULL WHERE id = 1",
    "UPDATE t SET d = (SELECT max(u.id) FROM t AS u) - 1 WHERE id = 1",
    "UPDATE t SET v = u.d FROM t AS u WHERE t.id = 1 AND u.id = 5",
    "UPDATE t SET v = '5', d = (SELECT NULL) WHERE id = 1",
    "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET d = (SELECT max(u.id) FROM t AS u) - excluded.id",
)


@pytest.mark.long
def test_statements_refuse_the_pairs_of_types_that_nothing_takes(tmp_path: Path, spark: SparkSession) -> None:
    dialects: tuple[Dialect, ...] = ("spark", "postgres")
    for dialect in dialects:
        with Session((tmp_path / dialect).as_uri(), spark, dialect) as s:
            s.sql(f"CREATE TABLE t ({COLUMNS[dialect]})")
            s.sql("INSERT INTO t (id, b, n, v, d) VALUES (1, true, 5, '5', 1e300)")
            for text, said in REFUSED:
                with pytest.raises(SqlError, match=said):
                    s.sql(text)
            for text in ("INSERT INTO t (id, f) SELECT 2, d FROM t", "UPDATE t SET f = 1e300"):
                with pytest.raises((SqlError, InvalidRow), match=r"too large|does not fit"):
                    s.sql(text)
            for text in TAKEN:
                s.sql(text)
            assert s.sql("SELECT id, n, v, d, f FROM t ORDER BY id").to_pylist() == [  # type: ignore[union-attr]
                {"id": 1, "n": None, "v": "5", "d": 5.0, "f": None},
                {"id": 5, "n": 5, "v": None, "d": None, "f": None},
                {"id": 6, "n": None, "v": "5", "d": 5.0, "f": None},
            ]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("b", 5, "column b of t is BOOLEAN, which takes no BIGINT: compare it"),
        ("at", 1706954400, "column at of t is TIMESTAMP, which takes no BIGINT: a number says no unit"),
        ("f", 1e300, 'column f of t: "1e.300" is no FLOAT; 1 rows do not fit'),
        ("n", 1.5, 'column n of t: "1.5" is no SMALLINT'),
        ("n", "x", 'column n of t: "x" is no SMALLINT'),
        ("n", 70_000, 'column n of t: "70000" is no SMALLINT'),
        ("lines", [{"qty": 1.5}], r'column lines\[\].qty of t: "1.5" is no INT'),
        ("lines", [{"qty": True}], r"column lines\[\].qty of t is INT, which takes no BOOLEAN"),
        (
            "lines",
            [{"qty": 1, "note": "a"}],
            "column lines of t has no field note: it is ARRAY<STRUCT<qty:INT>>",
        ),
    ],
)
def test_write_tells_what_does_not_fit_and_writes_nothing(
    tmp_path: Path, column: str, value: Any, said: str
) -> None:
    with Session((tmp_path / "store").as_uri()) as s:
        s.sql(f"CREATE TABLE t ({COLUMNS['spark']})")
        with pytest.raises(InvalidRow, match=said):
            s.write("t", pa.table({"id": [1, 2], column: [None, value]}))
        assert s.sql("SELECT * FROM t").num_rows == 0  # type: ignore[union-attr]


def test_write_takes_what_is_exact(tmp_path: Path) -> None:
    given = {"n": 7.0, "f": 0.1, "v": 5, "at": "2024-01-31T00:00:00Z", "lines": [{"QTY": 2.0}]}
    with Session((tmp_path / "store").as_uri()) as s:
        s.sql(f"CREATE TABLE t ({COLUMNS['spark']})")
        s.write("t", pa.table({"id": [1], **{name: [value] for name, value in given.items()}}))
        (row,) = s.sql("SELECT n, v, lines FROM t").to_pylist()  # type: ignore[union-attr]
        assert row == {"n": 7, "v": "5", "lines": [{"qty": 2}]}
