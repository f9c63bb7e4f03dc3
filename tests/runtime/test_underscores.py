"""Columns that begin with an underscore, also those named as the engine names columns of its own, wherever columns go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.connectors.sources import poll_all
from engine.errors import SqlError
from engine.session import Session

NAMES = (
    *(
        "_airbyte_raw_id",
        "__x",
        "_op",
        "_w",
        "_hash",
        "_epoch",
        "_place",
        "_old__id",
        "_key_id",
        "_was",
        "_side",
    ),
    *(
        "_rank",
        "_file",
        "_partial0",
        "_branch",
        "_key",
        "_any",
        "_lives",
        "_global",
        "_occurrence",
        "_failed",
    ),
)
VIEWS = {
    "plain": "SELECT * FROM t WHERE _w > 0",
    "groups": "SELECT _side, _op AS _w, count(*) AS _lives, max(_hash) AS _key, sum(_place) AS _partial0 FROM t GROUP BY _side, _op",
    "ranked": "SELECT _id, _side, _place, row_number() OVER (PARTITION BY _side ORDER BY _rank) AS _rank FROM t",
    "joined": "SELECT x._id, y._w, y._op AS _branch FROM t x JOIN plain y ON x._id = y._id",
    "both": "SELECT _id, _branch FROM t UNION ALL SELECT _id, _w FROM plain",
    "keyless": "SELECT _key_id, _old__id FROM t",
    "firsts": "SELECT _side, _op, _w FROM t ORDER BY _hash LIMIT 2",
}


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def row(number: int) -> tuple[int, ...]:
    return (number, *(number * 100 + at for at in range(len(NAMES))))


def check(session: Session) -> None:
    report = session.flush(sink_seconds=60)
    assert not [(view.view, view.error) for view in report.views if view.error is not None]
    for name, query in VIEWS.items():
        assert rows(session, f"SELECT * FROM {name}") == rows(session, query), name
    assert rows(session, "SELECT * FROM whole") == rows(session, "SELECT _id, _w, _occurrence FROM t"), (
        "whole"
    )
    assert rows(session, "SELECT * FROM target") == rows(session, "SELECT * FROM ranked"), "target"


@pytest.mark.long
def test_columns_may_begin_with_an_underscore(session: Session, tmp_path: Path) -> None:
    session.sql(f"CREATE TABLE t (_id BIGINT PRIMARY KEY, {', '.join(f'{name} BIGINT' for name in NAMES)})")
    session.sql(f"INSERT INTO t VALUES {row(1)}, {row(2)}, {row(3)}")
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    session.sql(
        "CREATE MATERIALIZED VIEW whole WITH (refresh_policy = 'full') AS SELECT _id, _w, _occurrence FROM t"
    )
    session.sql(
        "CREATE TABLE target (_id BIGINT, _side BIGINT, _place BIGINT, _rank INT, PRIMARY KEY (_id, _side))"
    )
    session.sql("CREATE SINK into_target INTO target FROM ranked")
    session.sql(
        f"CREATE SINK lines FROM ranked WITH (connector = 'file', path = '{tmp_path / 'out'}', format = 'jsonl')"
    )
    check(session)
    session.sql("UPDATE t SET _w = 7, _op = _op + 1 WHERE _id = 1")
    session.sql("UPDATE t SET _id = 9 WHERE _id = 2")
    session.sql("DELETE FROM t WHERE _id = 3")
    session.write("t", pa.table({"_ID": [5], **{name: [500 + at] for at, name in enumerate(NAMES)}}))
    check(session)
    written = [
        json.loads(line)
        for file in (tmp_path / "out").iterdir()
        for line in file.read_text().split("\n")[:-1]
    ]
    assert {"_op", "_id", "_side", "_place", "_rank", "_epoch"} == set(written[0])
    shown = session.spark.read.format("tideline").option("store", session.url).load("t").toArrow()
    assert sorted(shown.column("_id").to_pylist()) == [1, 5, 9]
    assert shown.column_names == ["_id", *NAMES]


def test_tables_of_all_kinds_have_such_columns(session: Session, tmp_path: Path) -> None:
    session.sql(
        "CREATE TABLE v (_id BIGINT PRIMARY KEY, _n INT) ON CONFLICT DO UPDATE FULL WITH VERSION COLUMN (_n)"
    )
    for number in (5, 4):
        session.sql(f"INSERT INTO v VALUES (1, {number})")
    assert rows(session, "SELECT _id, _n FROM v") == [(1, 5)]
    session.sql(
        "CREATE TABLE d (_id INT PRIMARY KEY, _d INT DEFAULT 4, _g INT GENERATED ALWAYS AS (_id + 1))"
    )
    assert session.sql("INSERT INTO d (_id) VALUES (1) RETURNING *").to_pylist() == [
        {"_id": 1, "_d": 4, "_g": 2}
    ]  # type: ignore[union-attr]
    session.sql(
        "CREATE TABLE w (_at TIMESTAMP, _n INT, WATERMARK FOR _at AS _at - INTERVAL '1' HOUR) APPEND ONLY"
    )
    session.sql("INSERT INTO w VALUES (TIMESTAMP '2024-01-01 00:00:00', 1)")
    assert session.sql("SHOW WATERMARKS").num_rows == 1  # type: ignore[union-attr]
    session.sql("CREATE TABLE c AS SELECT _id, _n AS n FROM v")
    session.sql("ALTER TABLE c RENAME COLUMN n TO _n")
    session.sql("ALTER TABLE c ADD COLUMN _m INT")
    assert rows(session, "SELECT * FROM c") == [(1, 5, None)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("_ID,_w,_OP\n1,2,\n2,3,\n")
    (tmp_path / "in" / "b.jsonl").write_text('{"_id": 1, "_op": "delete"}\n{"_id": 7, "_W": 5}\n')
    session.sql(
        f"CREATE TABLE l (_id INT PRIMARY KEY, _w INT) WITH (connector = 'landing', path = '{tmp_path / 'in'}')"
    )
    poll_all(session.catalog, session.store, ["l"], lambda: session.computing)
    assert rows(session, "SELECT * FROM l") == [(2, 3), (7, 5)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (_row_id BIGINT PRIMARY KEY)",
        "CREATE TABLE t (tideline__a BIGINT PRIMARY KEY)",
        "CREATE TABLE _t (a BIGINT PRIMARY KEY)",
    ],
)
def test_a_few_names_are_the_systems_own(session: Session, statement: str) -> None:
    with pytest.raises(SqlError, match="the system's own"):
        session.sql(statement)
