"""What a client of Spark Connect does not ask the server for is asked where claims are verified, and what differs is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.spark.conftest import said

CLIENT = """
import random
import sys
from collections import Counter

import pyarrow as pa

from engine.runtime.spark.session import connect
from engine.session import Session
from tests.oracle.batch import assert_equal, content, duckdb_over

address, url = sys.stdin.readline().strip(), sys.stdin.readline().strip()
"""
FOLLOWS = (
    CLIENT
    + """
import engine.spark_internals as internals
from engine.runtime.epoch.prepared_frames import PreparedFrames
from pyspark.sql.connect.dataframe import DataFrame

asked = Counter()
schema = DataFrame.schema.fget
DataFrame.schema = property(lambda frame: asked.update([frame._cached_schema is None]) or schema(frame))
VIEWS = {
    "totals": "SELECT g, count(*) AS n, sum(x) AS s, max(x) AS high FROM item GROUP BY g",
    "named": "SELECT i.id, i.x, l.label FROM item AS i LEFT JOIN label AS l ON i.g = l.g",
    "both": "SELECT g, x FROM item UNION ALL SELECT g, id FROM item WHERE x > 5",
    "first": "SELECT id, g, x FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY x NULLS LAST, id) AS r FROM item) WHERE r <= 2",
    "steps": "SELECT id, x - lag(x) OVER (PARTITION BY g ORDER BY id) AS d FROM item",
    "texts": "SELECT upper(label) AS t, median(g) AS m FROM label GROUP BY upper(label)",
}
MOST = None
if MOST is not None:
    internals._MOST_TEXT = MOST
kept = Counter()
take = PreparedFrames.take


def taken(frames, task):
    found = take(frames, task)
    kept[found is not None] += 1
    return found


PreparedFrames.take = taken
dice = random.Random(5)
with Session(url, address) as session:
    session.sql("CREATE TABLE item (id BIGINT PRIMARY KEY, g BIGINT, x BIGINT)")
    session.sql("CREATE TABLE label (g BIGINT PRIMARY KEY, label STRING)")
    session.sql("INSERT INTO label VALUES (1, 'a'), (2, 'b')")
    for name, query in VIEWS.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for epoch in range(4):
        keys = dice.sample(range(12), 5)
        values = [dice.choice([None, 1, 7, 9]) for _ in keys]
        rows = {"id": pa.array(keys, pa.int64()), "g": pa.array([k % 4 for k in keys], pa.int64())}
        session.write("item", pa.table({**rows, "x": pa.array(values, pa.int64())}))
        session.sql(f"DELETE FROM item WHERE id = {dice.randrange(12)}")
        session.sql(f"UPDATE label SET label = 'c{epoch}' WHERE g = 1 + {epoch} % 2")
        session.flush().raise_for_errors()
        with duckdb_over({name: content(session, name) for name in ("item", "label")}) as judge:
            for name, query in VIEWS.items():
                assert_equal(content(session, name), judge.sql(query).to_arrow_table(), f"{name} {epoch}")
assert asked[True] > 50, asked
print("fine", *(kept[known] > 8 for known in (True, False)))
"""
)
WRONG_SCHEMA = (
    CLIENT
    + """
import engine.operators.arrow.map_in_arrow as in_arrow
from pyspark.sql.types import IntegerType

in_arrow.LongType = IntegerType
with Session(url, address) as session:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT max(id) AS m FROM t", build=False)
    session.sql("INSERT INTO t VALUES (1)")
    print(session.flush()["v"].error)
"""
)
ANOTHER_SETTING = (
    CLIENT
    + """
connect(address)
spark = connect(address)
spark.conf.set("spark.sql.shuffle.partitions", "9")
spark = connect(address)
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
spark.sql("DROP TEMPORARY FUNCTION tideline_jsonb")
try:
    connect(address)
except Exception as error:
    print(error)
"""
)


@pytest.mark.long
def test_views_follow_with_every_schema_asked_for_as_well(address: str, tmp_path: Path) -> None:
    assert said(FOLLOWS, address, tmp_path).splitlines()[-1:] == ["fine True True"]


@pytest.mark.long
def test_a_frame_whose_tables_are_too_many_to_be_told_to_a_server_is_made_anew(
    address: str, tmp_path: Path
) -> None:
    short = FOLLOWS.replace("MOST = None", "MOST = 100")
    assert said(short, address, tmp_path).splitlines()[-1:] == ["fine False True"]


@pytest.mark.long
def test_a_frame_that_has_other_columns_than_the_client_says_breaks_a_claim(
    address: str, tmp_path: Path
) -> None:
    output = said(WRONG_SCHEMA, address, tmp_path)
    assert "known schema" in output and "struct<id:int> is struct<id:bigint> by the server" in output


@pytest.mark.long
def test_a_session_that_says_it_is_prepared_and_is_not_breaks_a_claim(address: str, tmp_path: Path) -> None:
    output = said(ANOTHER_SETTING, address, tmp_path)
    assert "prepared session" in output
    assert "spark.sql.session.timeZone = Asia/Tokyo, no function tideline_jsonb" in output
