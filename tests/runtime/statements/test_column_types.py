"""Every column type: in DDL, INSERT, write(), SELECT with Spark and without, views, and keys."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.session import Session

AT = dt.datetime(2026, 1, 31, 10, 20, 30, 123456, tzinfo=dt.UTC)
# type in Spark, type in Postgres (None: it has none), literal for both, value
TYPES: list[tuple[str, str | None, str, Any]] = [
    ("BOOLEAN", "BOOLEAN", "true", True),
    ("TINYINT", None, "-8", -8),
    ("SMALLINT", "SMALLINT", "300", 300),
    ("INT", "INTEGER", "-70000", -70000),
    ("BIGINT", "INT8", "5000000000", 5_000_000_000),
    ("FLOAT", "REAL", "1.5", 1.5),
    ("DOUBLE", "DOUBLE PRECISION", "2.25", 2.25),
    ("DECIMAL(20, 4)", "NUMERIC(20, 4)", "12345678901234.5678", Decimal("12345678901234.5678")),
    ("STRING", "VARCHAR", "'plain'", "plain"),
    ("BINARY", None, "X'00FF'", b"\x00\xff"),
    ("DATE", "DATE", "DATE '2026-01-31'", dt.date(2026, 1, 31)),
    ("TIME", "TIME", "TIME '10:20:30.5'", dt.time(10, 20, 30, 500000)),
    ("TIMESTAMP", "TIMESTAMPTZ", "'2026-01-31 10:20:30.123456+00:00'", AT),
    ("TIMESTAMP_NTZ", "TIMESTAMP", "'2026-01-31 10:20:30.123456'", AT.replace(tzinfo=None)),
    ("INTERVAL DAY TO SECOND", "INTERVAL", "INTERVAL '1 day 2 hours'", dt.timedelta(days=1, hours=2)),
    ("ARRAY<INT>", "INT[]", "ARRAY(1, NULL, 3)", [1, None, 3]),
    ("STRUCT<a: INT, b: STRING>", None, "named_struct('a', 1, 'b', 'x')", {"a": 1, "b": "x"}),
    ("MAP<STRING, INT>", None, "map('k', 7)", [("k", 7)]),
    ("STRING", "JSONB", """'{"a": 1}'""", '{"a": 1}'),
]
KEYED = ("BIGINT", "DECIMAL(20, 4)", "BINARY", "DATE", "TIME", "TIMESTAMP", "INTERVAL DAY TO SECOND")
KEYS = [n for n, (kind, _, _, _) in enumerate(TYPES) if kind in KEYED]


def filled(session: Session, dialect: str) -> list[int]:
    """Make a table with a column of each type and three rows: literals, nulls, and what `write` brought."""
    kinds = {n: (kind if dialect == "spark" else other) for n, (kind, other, _, _) in enumerate(TYPES)}
    used = [n for n, kind in kinds.items() if kind is not None]
    session.sql(f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(f'c{n} {kinds[n]}' for n in used)})")
    values = (
        TYPES[n][2] if dialect == "spark" else TYPES[n][2].replace("ARRAY(1, NULL, 3)", "ARRAY[1, NULL, 3]")
        for n in used
    )
    session.sql(f"INSERT INTO t VALUES (1, {', '.join(values)})")
    session.sql("INSERT INTO t (id) VALUES (2)")
    table = session.store.table("t")
    row = {"id": pa.array([3], pa.int32())} | {
        f"c{n}": pa.array([TYPES[n][3]], table.schema.field(f"c{n}").type) for n in used
    }
    session.write("t", pa.table(row))
    return used


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_every_type_goes_through_tables_reads_and_views(
    tmp_path: Path, spark: SparkSession, dialect: str
) -> None:
    with Session((tmp_path / "s").as_uri(), spark, dialect) as s:  # type: ignore[arg-type]
        used = filled(s, dialect)
        expected = [TYPES[n][3] for n in used]
        s.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT id AS k, {', '.join(f'c{n} AS d{n}' for n in used)} FROM t"
        )
        for text in (
            "SELECT * FROM t WHERE id = {}",
            "SELECT * FROM v WHERE k = {}",
            "SELECT * FROM v WHERE k + 0 = {}",
        ):
            for key, values in ((1, expected), (2, [None] * len(used)), (3, expected)):
                found = s.sql(text.format(key))
                assert found is not None
                assert list(found.to_pylist()[0].values())[1:] == values, text.format(key)


@pytest.mark.parametrize("number", KEYS)
def test_a_type_that_is_no_collection_can_be_a_key(session: Session, number: int) -> None:
    kind, _, literal, value = TYPES[number]
    session.sql(f"CREATE TABLE t (k {kind} PRIMARY KEY, n INT)")
    session.sql(f"INSERT INTO t VALUES ({literal}, 1)")
    session.sql(f"UPDATE t SET n = 2 WHERE k = {literal}")
    found = session.sql("SELECT * FROM t")
    assert found is not None and [tuple(row.values()) for row in found.to_pylist()] == [(value, 2)]


@pytest.mark.long
def test_views_keep_aggregates_of_a_time_of_day(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, x TIME)")
    session.sql("CREATE TABLE k (x TIME PRIMARY KEY, g INT)")
    session.sql("INSERT INTO t VALUES (1, 1, TIME '10:00:00'), (2, 1, TIME '09:00:00'), (3, 2, NULL)")
    session.sql("INSERT INTO k VALUES (TIME '10:00:00', 1)")
    views = {
        "counts": "SELECT x, count(*) AS n FROM t GROUP BY x",
        "latest": "SELECT g, max(x) AS m, min(x) AS f FROM t GROUP BY g",
        "some": "SELECT DISTINCT x FROM t",
        "keyed": "SELECT g, count(*) AS n FROM k GROUP BY g",
        "both": "SELECT x FROM t INTERSECT SELECT x FROM k",
        "whole": "SELECT g, (SELECT max(x) FROM k) AS m FROM t",
        "early": "SELECT g FROM t WHERE x < TIME '09:30:00' UNION ALL SELECT g FROM k",
        "first": "SELECT id, x FROM t ORDER BY x DESC NULLS LAST LIMIT 1",
    }
    for name, query in views.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.sql("FLUSH")
    for hour in (11, 12):  # the second epoch of a kind runs the frame that the first has planned
        session.sql(f"INSERT INTO t VALUES ({hour}, 1, TIME '{hour}:00:00')")
        session.sql(f"INSERT INTO k VALUES (TIME '{hour}:00:00', 2)")
        session.sql("DELETE FROM t WHERE id = 2")
        session.sql("FLUSH")
        for name, query in views.items():
            found, expected = session.sql(f"SELECT * FROM {name}"), session.sql(query)
            assert found is not None and expected is not None
            assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist())), name


def test_operators_of_json_mean_what_they_mean_in_postgres(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "s").as_uri(), spark, "postgres") as s:
        s.sql("CREATE TABLE t (id INT PRIMARY KEY, j JSONB)")
        s.sql(
            """INSERT INTO t VALUES (1, '{"a":{"b":[1,{"c":"x"}]},"n":1,"s":"1","t":true,"z":null}'), (2, '{}'), (3, NULL)"""
        )
        text = (
            "SELECT id, j -> 's' AS a, j ->> 's' AS b, j -> 'a' -> 'b' -> 0 AS c, j #> '{a,b,1,c}' AS d, "
            "j #>> '{a,b,1,c}' AS e, j -> 'z' AS f, j ->> 'z' AS g, j ? 'z' AS h, j ? 'q' AS i, "
            'j @> \'{"n":1}\' AS k, j @> \'{"s":1}\' AS l, j @> \'{"a":{},"t":true}\' AS m, '
            "(j ->> 'n')::int + 1 AS o FROM t"
        )
        s.sql(f"CREATE MATERIALIZED VIEW v AS {text}")
        found = s.sql("SELECT * FROM v ORDER BY id")
        assert found is not None
        assert [tuple(row.values()) for row in found.to_pylist()] == [
            (1, '"1"', "1", "1", '"x"', "x", "null", None, True, False, True, False, True, 2),
            (2, None, None, None, None, None, None, None, False, False, False, False, False, None),
            (3, *[None] * 13),
        ]


@pytest.mark.parametrize(
    ("literal", "span"),
    [
        ("INTERVAL '02:30'", dt.timedelta(hours=2, minutes=30)),
        ("INTERVAL '90' MINUTE", dt.timedelta(minutes=90)),
        ("'1 day 00:00:01.5'::interval", dt.timedelta(days=1, seconds=1, milliseconds=1500 - 1000)),
        ("INTERVAL '-3 days'", dt.timedelta(days=-3)),
    ],
)
def test_an_interval_is_read_in_the_forms_of_postgres(
    tmp_path: Path, spark: SparkSession, literal: str, span: dt.timedelta
) -> None:
    with Session((tmp_path / "s").as_uri(), spark, "postgres") as s:
        s.sql("CREATE TABLE t (id INT PRIMARY KEY, i INTERVAL)")
        s.sql(f"INSERT INTO t VALUES (1, {literal})")
        s.sql(f"INSERT INTO t SELECT 2, {literal} FROM t")
        found = s.sql("SELECT i FROM t ORDER BY id")
        assert found is not None and found.column("i").to_pylist() == [span, span]
