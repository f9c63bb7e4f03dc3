"""Every type with its edge values: what PostgreSQL shows of them, and what it cannot hold is told by row."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.session import Session
from tests.connectors.postgres.server import Database
from tests.connectors.postgres.sink.targets import place, write
from tests.connectors.sinks.deliveries import deliver, find_error

pytestmark = pytest.mark.postgres
FAR = 2**63 - 1
TYPES: dict[str, tuple[str, list[Any], list[str | None], str]] = {
    "boolean": ("BOOLEAN", [True, False, None], ["true", "false", None], "boolean"),
    "tinyint": ("TINYINT", [-128, 127, None], ["-128", "127", None], "smallint"),
    "smallint": ("SMALLINT", [-32768, 32767, 0], ["-32768", "32767", "0"], "smallint"),
    "int": ("INT", [-(2**31), 2**31 - 1, None], [str(-(2**31)), str(2**31 - 1), None], "integer"),
    "bigint": ("BIGINT", [-(2**63), FAR, None], [str(-(2**63)), str(FAR), None], "bigint"),
    "float": (
        "FLOAT",
        [0.1, float("nan"), float("-inf"), -0.0, 3.4028235e38, 1e-45],
        ["0.1", "NaN", "-Infinity", "-0", "3.4028235e+38", "1e-45"],
        "real",
    ),
    "double": (
        "DOUBLE",
        [0.1, float("nan"), float("inf"), -0.0, 1.7976931348623157e308, 5e-324, None],
        ["0.1", "NaN", "Infinity", "-0", "1.7976931348623157e+308", "5e-324", None],
        "double precision",
    ),
    "decimal": (
        "DECIMAL(38, 10)",
        [Decimal("0.0000000001"), Decimal("-9999999999999999999999999999.9999999999"), Decimal("1.5"), None],
        ["0.0000000001", "-9999999999999999999999999999.9999999999", "1.5000000000", None],
        "numeric(38,10)",
    ),
    "text": (
        "STRING",
        ["", 'a "q", b', "x\n\\.\ny", "\\N", "\r\n", "NULL", " ü😀 ", "\\", None],
        ["", 'a "q", b', "x\n\\.\ny", "\\N", "\r\n", "NULL", " ü😀 ", "\\", None],
        "text",
    ),
    "bytes": ("BINARY", [b"", b"\x00\xff\\", None], ["\\x", "\\x00ff5c", None], "bytea"),
    "day": (
        "DATE",
        pa.array([0, -719_162, -719_163, -719_528, 2_932_897, -2_440_588, 2_145_042_905, None], pa.int32()),
        [
            *("1970-01-01", "0001-01-01", "0001-12-31 BC", "0001-01-01 BC", "10000-01-01"),
            *("4714-11-24 BC", "5874897-12-31", None),
        ],
        "date",
    ),
    "moment": (
        "TIMESTAMP",
        pa.array([0, 1, -62_135_596_800_000_001, FAR, None], pa.int64()),
        [
            *("1970-01-01 00:00:00+00", "1970-01-01 00:00:00.000001+00", "0001-12-31 23:59:59.999999+00 BC"),
            *("294247-01-10 04:00:54.775807+00", None),
        ],
        "timestamp with time zone",
    ),
    "wall": (
        "TIMESTAMP_NTZ",
        pa.array([0, -1, 253_402_300_800_000_000, None], pa.int64()),
        ["1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "10000-01-01 00:00:00", None],
        "timestamp without time zone",
    ),
    "clock": (
        "TIME",
        pa.array([0, 86_399_999_999_000, 1_000, None], pa.int64()),
        ["00:00:00", "23:59:59.999999", "00:00:00.000001", None],
        "time without time zone",
    ),
    "span": (
        "INTERVAL DAY TO SECOND",
        pa.array([0, 1, -90_000_500_000, FAR, None], pa.int64()),
        ["00:00:00", "00:00:00.000001", "-1 days -01:00:00.5", "106751991 days 04:00:54.775807", None],
        "interval",
    ),
    "json": ("JSON", ['{"b": 1, "a":\n[1]}', "null", None], ['{"b": 1, "a":\n[1]}', "null", None], "json"),
    "jsonb": ("JSONB", ['{"a": [1.50, null]}', '"x"', None], ['{"a": [1.50, null]}', '"x"', None], "jsonb"),
    "texts": (
        "ARRAY<STRING>",
        [["a", None, 'q"\\', "NULL", "", "{,}"], [], None],
        ['{a,NULL,"q\\"\\\\","NULL","","{,}"}', "{}", None],
        "text[]",
    ),
    "numbers": (
        "ARRAY<DOUBLE>",
        [[1.5, None, float("nan")], None],
        ["{1.5,NULL,NaN}", None],
        "double precision[]",
    ),
    "days": (
        "ARRAY<DATE>",
        pa.array([[0, 2_932_897], None], pa.list_(pa.int32())),
        ["{1970-01-01,10000-01-01}", None],
        "date[]",
    ),
    "blobs": ("ARRAY<BINARY>", [[b"a\\", b""], []], ['{"\\\\x615c","\\\\x"}', "{}"], "bytea[]"),
    "lists": ("ARRAY<ARRAY<INT>>", [[[1], None, []], None], ["[[1], null, []]", None], "jsonb"),
    "record": (
        "STRUCT<a: INT, b: STRING, d: DOUBLE>",
        [{"a": 1, "b": 'x"', "d": float("nan")}, {"a": None, "b": None, "d": 0.5}, None],
        ['{"a": 1, "b": "x\\"", "d": "NaN"}', '{"a": null, "b": null, "d": 0.5}', None],
        "jsonb",
    ),
    "pairs": (
        "MAP<STRING, INT>",
        [[("k", 1), ("a", None)], [], None],
        ['{"a": null, "k": 1}', "{}", None],
        "jsonb",
    ),
}


@pytest.fixture
def texts(tmp_path: Path) -> Iterator[Session]:
    """A session of the dialect that has JSON."""
    with Session((tmp_path / "texts").as_uri(), dialect="postgres") as session:
        yield session


def make(session: Session, kind: str, values: Any) -> None:
    """Make a table t (id, v) with values of a type."""
    session.sql(f"CREATE TABLE t (id BIGINT PRIMARY KEY, v {kind})")
    put(session, values)


def put(session: Session, values: Any) -> None:
    """Write values under the keys 0, 1, …"""
    arrow = session.store.table("t").schema.field("v").type
    made = (
        values.cast(_numbers(arrow)).cast(arrow) if isinstance(values, pa.Array) else pa.array(values, arrow)
    )
    session.write("t", pa.table({"id": pa.array(range(len(made)), pa.int64()), "v": made}))


def _numbers(arrow: pa.DataType) -> pa.DataType:
    if pa.types.is_list(arrow):
        return pa.list_(pa.field("element", _numbers(arrow.value_type)))
    return pa.int32() if pa.types.is_date32(arrow) else pa.int64()


@pytest.mark.parametrize("name", TYPES)
def test_values_are_there_as_they_are_here(
    name: str, lake: Session, texts: Session, database: Database
) -> None:
    kind, values, shown, there = TYPES[name]
    lake = texts if name.startswith("json") else lake
    make(lake, kind, values)
    lake.sql(write(**place(database)))
    deliver(lake)  # by one COPY into the table
    ask = "SELECT v::text FROM t ORDER BY id"
    assert [text for (text,) in database.ask(ask)] == shown
    (its,) = database.ask(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'v'"
    )
    assert its == (there,)
    database.run("DELETE FROM t")
    lake.sql("ALTER SINK s RESET")
    put(lake, values)
    database.run("INSERT INTO t (id) VALUES (77)")
    deliver(lake)  # through the staging table
    assert [text for (text,) in database.ask(ask)] == shown


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("STRING", "a\0b", "holds the character 0"),
        ("ARRAY<STRING>", ["a", "\0"], "holds the character 0"),
        ("STRUCT<a: STRING>", {"a": "\0"}, "which jsonb does not keep"),
        ("DATE", pa.array([0, -(2**31)], pa.int32()), "begins in 4714 BC"),
        ("DATE", pa.array([0, 2**31 - 1], pa.int32()), "PostgreSQL has not"),
        ("TIMESTAMP", pa.array([0, -(2**63) + 10**9], pa.int64()), "begins in 4714 BC"),
    ],
)
def test_a_value_that_cannot_be_held_is_told_by_its_row(
    kind: str, value: Any, words: str, lake: Session, database: Database
) -> None:
    make(lake, kind, value if isinstance(value, pa.Array) else [None, value])
    lake.sql(write(**place(database)), build=False)
    said = find_error(lake)
    assert "column v of the row (id = 1)" in said and words in said and "in the view" in said, said
    assert database.ask("SELECT to_regclass('t')") == [(None,)]
    lake.sql("DELETE FROM t WHERE id = 1") if kind == "STRING" else put(lake, [None, None])
    lake.sql("ALTER SINK s RESET")
    deliver(lake)
    assert database.ask("SELECT count(v) FROM t") == [(0,)]


def test_an_escaped_backslash_before_u0000_is_no_zero(texts: Session, database: Database) -> None:
    lake = texts
    make(lake, "JSONB", ['{"a": "\\\\u0000"}'])
    lake.sql(write(**place(database)))
    deliver(lake)
    assert database.ask("SELECT v->>'a' FROM t") == [("\\u0000",)]


def test_an_escaped_zero_is_kept_by_json_alone(lake: Session, database: Database) -> None:
    make(lake, "STRING", ['{"a": "\\u0000"}'])
    database.run(*(f"CREATE TABLE {kind}s (id bigint PRIMARY KEY, v {kind})" for kind in ("json", "jsonb")))
    lake.sql(write("a", **place(database, "jsons")))
    lake.sql(write("b", **place(database, "jsonbs")))
    assert "column v of the row (id = 0) holds the character 0, which jsonb does not keep" in find_error(lake)
    assert database.ask("SELECT v::text FROM jsons") == [('{"a": "\\u0000"}',)]


def test_keys_that_are_one_here_are_one_there(lake: Session, database: Database) -> None:
    lake.sql("CREATE TABLE t (id DOUBLE PRIMARY KEY, v STRING)")

    def write_rows(*rows: tuple[float, str]) -> None:
        lake.write("t", pa.table({"id": pa.array([k for k, _ in rows]), "v": [v for _, v in rows]}))
        deliver(lake)

    lake.sql(write(**place(database)))
    nan = float("nan")
    write_rows((0.0, "a"), (nan, "b"), (float("inf"), "c"))
    write_rows((-0.0, "d"), (nan, "e"))
    assert database.ask("SELECT id::text, v FROM t ORDER BY id") == [
        ("0", "d"),  # as the store has it
        ("Infinity", "c"),
        ("NaN", "e"),
    ]
    lake.write("t", pa.table({"id": [0.0, nan]}), mode="delete")
    deliver(lake)
    assert database.ask("SELECT v FROM t") == [("c",)]
