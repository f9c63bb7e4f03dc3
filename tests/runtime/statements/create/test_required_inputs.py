"""What a new relation reads has its columns when it is committed, and keeps them: no view loses one that somebody reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import Conflict, SqlError
from engine.hummock import Commit, Hummock, Version
from engine.session import Session
from tests.long_rest import mark_rest_long

FEWER = "ALTER MATERIALIZED VIEW v AS SELECT g, count(*) AS c FROM t GROUP BY g"
MORE = (
    "ALTER MATERIALIZED VIEW v AS SELECT g, sum(n) AS total, count(*) AS c, max(n) AS top FROM t GROUP BY g"
)
READERS = (
    "CREATE MATERIALIZED VIEW x AS SELECT g, total FROM v",
    "CREATE VIEW x AS SELECT g, total FROM v",
    "CREATE VIEW x AS SELECT * FROM v",
    "CREATE INDEX x ON v (total)",
    "CREATE SINK x FROM v WITH (connector = 'file', path = '{path}')",
    "CREATE SINK x INTO target AS SELECT g, total FROM v",
    "CREATE MATERIALIZED VIEW x AS SELECT t.id, v.total FROM t JOIN v ON t.n = v.total",
    "ALTER MATERIALIZED VIEW reader AS SELECT g, total AS c FROM v",
    "CREATE OR REPLACE VIEW plain AS SELECT g, total AS c FROM v",
)


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT, spare BIGINT)")
        session.sql("CREATE TABLE target (g BIGINT PRIMARY KEY, total BIGINT)")
        session.write("t", pa.table({"id": range(9), "g": [n % 3 for n in range(9)], "n": range(9)}))
        session.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g"
        )
        session.sql("CREATE MATERIALIZED VIEW reader AS SELECT g, c FROM v")
        session.sql("CREATE VIEW plain AS SELECT g, c FROM v")
        session.flush().raise_for_errors()
        yield session


@pytest.mark.parametrize("reader", mark_rest_long(READERS, keep=2))
def test_nothing_new_reads_a_column_that_goes(shop: Session, tmp_path: Path, reader: str) -> None:
    text = reader.format(path=tmp_path / "out")
    shop.sql(FEWER, build=False)
    with pytest.raises(SqlError, match=r"once it takes over .* would read its column total no more") as told:
        shop.sql(text)
    assert told.value.line == 1 and "DISCARD" in str(told.value)
    assert "_next_" not in str(told.value) and "_sink_" not in str(told.value)
    for _ in range(3):
        shop.flush().raise_for_errors()
    shop.write("t", pa.table({"id": [100], "g": [0], "n": [7]}))
    shop.flush().raise_for_errors()
    assert shop.sql("SELECT c FROM reader WHERE g = 0").to_pylist() == [{"c": 4}]  # type: ignore[union-attr]


def test_a_delta_table_waits_for_other_columns_and_an_index_gets_them(shop: Session, tmp_path: Path) -> None:
    shop.sql(MORE, build=False)
    shop.sql("CREATE MATERIALIZED VIEW x AS SELECT g, total FROM v")
    shop.sql("CREATE INDEX i ON v (total)", build=False)
    with pytest.raises(SqlError, match="the next query of v is being built"):
        shop.sql(f"ALTER MATERIALIZED VIEW v SET (connector = 'delta', path = '{tmp_path / 'delta'}')")
    for _ in range(3):
        shop.flush().raise_for_errors()
    tables = shop.store.version.tables
    (index,) = (name for name in tables if name.startswith("_index_v"))
    assert {*tables[index].table.schema.names} == {*tables["v"].table.schema.names} > {"g", "total"}
    with pytest.raises(SqlError, match="x, i would read its column total no more"):
        shop.sql(FEWER, build=False)


@pytest.mark.parametrize("reader", mark_rest_long(READERS[:5], keep=2))
def test_columns_that_went_at_the_same_time_are_not_read(
    shop: Session, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    check_race(shop, spark, monkeypatch, reader.format(path=tmp_path / "out"), FEWER)


@pytest.mark.parametrize(
    "reader",
    [
        "CREATE MATERIALIZED VIEW x AS SELECT g, spare FROM t",
        "CREATE VIEW x AS SELECT g, spare FROM t",
        "CREATE INDEX x ON t (spare)",
    ],
)
@pytest.mark.parametrize("change", mark_rest_long(["DROP COLUMN spare", "RENAME COLUMN spare TO other"]))
def test_columns_of_tables_that_went_at_the_same_time_are_not_read(
    shop: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, reader: str, change: str
) -> None:
    check_race(shop, spark, monkeypatch, reader, f"ALTER TABLE t {change}")


def check_race(
    shop: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, reader: str, change: str
) -> None:
    """Let another process take a column away just before what reads it is committed: nothing is there then, and all goes on."""
    commit = Hummock.commit

    def change_first(store: Hummock, made: Commit) -> Version:
        monkeypatch.setattr(Hummock, "commit", commit)
        with Session(shop.url, spark) as other:
            other.sql(change)
        return commit(store, made)

    with monkeypatch.context():
        monkeypatch.setattr(Hummock, "commit", change_first)
        with pytest.raises((Conflict, SqlError), match=r"at the same time|no more|no column|spare|total"):
            shop.sql(reader)
    assert "x" not in shop.catalog.relations
    shop.write("t", pa.table({"id": [100], "g": [0], "n": [7]}))
    shop.flush().raise_for_errors()
