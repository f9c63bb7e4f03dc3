"""A view WITH (connector = 'delta'): its Delta table is as a batch query, both come in one commit and go together."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable as RustTable
from pyspark.sql import SparkSession

from engine.connectors.delta.sink.view_tables import plan_delta_sink
from engine.errors import EpochFailed, SqlError, TidelineError
from engine.hummock import Hummock
from engine.meta.catalog.stored_catalog import load_catalog
from engine.runtime.statements.create import relations
from engine.session import Session
from engine.sql.statements.reader import CreateMaterializedView, CreateTable, parse_statement
from tests.connectors.delta_tables import DeltaTable
from tests.connectors.s3a import WITHOUT_S3A
from tests.connectors.sinks.delta.logs import columns, layout, operations, rows, versions
from tests.connectors.sinks.delta.test_rows import brought, content
from tests.contexts import build_context
from tests.log_store.faults import Crash, DyingClient, MemoryObjectStore

QUERY = "SELECT auction, count(*) AS n, sum(price) AS s FROM bid GROUP BY auction"
BID = "CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)"


def view(folder: Path, more: str = "", name: str = "v", query: str = QUERY) -> str:
    return f"CREATE MATERIALIZED VIEW {name} WITH (connector = 'delta', path = '{folder}/{name}'{more}) AS {query}"


def created(session: Session, text: str) -> None:
    session.sql(text)
    session.sinks.wait(120)


def bids(session: Session, *values: tuple[int, int | None, int | None]) -> None:
    columns = zip(*values, strict=True)
    session.write(
        "bid",
        pa.table(
            {n: pa.array(c, pa.int64()) for n, c in zip(("id", "auction", "price"), columns, strict=True)}
        ),
    )


def read_by_others(table: Path, query: str) -> Counter:
    """Return what DuckDB computes of a Delta table that the Rust reader reads."""
    copy = pa.table(RustTable(str(table)).to_pyarrow_table())
    with duckdb.connect() as db:
        db.register("copy", copy)
        return Counter(db.sql(query).fetchall())


@pytest.mark.parametrize(
    ("options", "laid_out"),
    [
        pytest.param(", cluster_by = 'n, s'", ([], ["n", "s"]), marks=pytest.mark.long),
        pytest.param(", delta.partition_by = 'n'", (["n"], []), marks=pytest.mark.long),
    ],
    ids=["clustered", "partitioned"],
)
def test_the_table_is_as_a_batch_query_computes_it(
    session: Session, tmp_path: Path, options: str, laid_out: tuple[list[str], list[str]]
) -> None:
    chance, model = random.Random(3), dict[int, tuple]()
    session.sql(BID)
    bids(session, (1, 1, 5), (2, None, None), (3, 1, None))
    model |= {1: (1, 1, 5), 2: (2, None, None), 3: (3, 1, None)}
    created(session, view(tmp_path, options))
    for _ in range(2):
        new = [
            (n, chance.choice([None, 1, 2, 3]), chance.choice([None, -1, 4, 4]))
            for n in chance.sample(range(15), 5)
        ]
        gone = chance.sample(range(15), 4)
        bids(session, *new)
        session.write("bid", pa.table({"id": pa.array(gone, pa.int64())}), mode="delete")
        model |= {row[0]: row for row in new}
        model = {key: row for key, row in model.items() if key not in gone}
        brought(session)
        brought(session)  # an epoch without a change
        with duckdb.connect() as db:
            db.sql(BID)
            db.executemany("INSERT INTO bid VALUES (?, ?, ?)", list(model.values()))
            expected = Counter(db.sql(QUERY).fetchall())
        assert read_by_others(tmp_path / "v", "SELECT auction, n, s FROM copy") == expected
        assert layout(tmp_path / "v") == laid_out
    found = versions(tmp_path / "v")
    assert found == sorted(set(found))
    folders = {path.parent.name for path in (tmp_path / "v").rglob("*.parquet")}
    assert all(name.startswith("n=") for name in folders) == bool(laid_out[0])
    session.sql("ALTER SINK v_delta RESET")
    brought(session)
    assert layout(tmp_path / "v") == laid_out


@pytest.mark.long
def test_the_sink_is_told_and_listed_and_goes_with_its_view(session: Session, tmp_path: Path) -> None:
    session.sql(BID)
    bids(session, (1, 1, 5))
    created(session, view(tmp_path, ", retention = '1 hour', delta.retention = '2 days'"))
    assert "sink v_delta keeps the Delta table of v" in session.notices
    session.sql(view(tmp_path).replace("VIEW v", "VIEW IF NOT EXISTS v"))
    assert session.notices == ()
    (shown,) = session.sql("SHOW SINKS").to_pylist()
    assert (shown["name"], shown["from"], shown["to"]) == ("v_delta", "v", (tmp_path / "v").as_uri())
    assert shown["phase"] == "log" and shown["error"] is None
    stored = session.catalog
    assert stored.get("v_delta").options["retention"] == str(2 * 86_400.0)
    assert stored.get("v").options == {"retention": "1 hour"}
    session.sql("DROP MATERIALIZED VIEW v")
    assert session.sql("SHOW SINKS").num_rows == 0 and set(session.catalog.relations) == {"bid"}
    assert not [key for key in session.store.refresh().catalog if "v_delta" in key]
    bids(session, (2, 2, 7))
    created(session, view(tmp_path))  # the table that it has left behind is its own
    brought(session)
    assert rows(tmp_path / "v") == content(session, "v")
    found = versions(tmp_path / "v")
    assert len(found) == 2 and found == sorted(set(found))


def test_a_dropped_sink_leaves_the_view_without_its_options(session: Session, tmp_path: Path) -> None:
    session.sql(BID)
    text = view(tmp_path, ", retention = '1 hour', delta.retention = '2 days'")
    created(session, text)
    session.sql("ALTER SINK v_delta PAUSE")
    session.sql("DROP SINK v_delta")
    bids(session, (1, 1, 5))
    brought(session)
    assert content(session, "v") == Counter([("1", "1", "5")])
    (shown,) = session.sql("SHOW CREATE MATERIALIZED VIEW v").to_pylist()
    assert shown["create_statement"] == f"CREATE MATERIALIZED VIEW v WITH (retention = '1 hour') AS {QUERY}"
    assert session.sql("SHOW SINKS").num_rows == 0


@pytest.mark.long
def test_a_table_with_what_reads_it_is_dropped_with_sinks(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE SCHEMA s")
    session.sql("CREATE TABLE s.bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    created(session, view(tmp_path, query=QUERY.replace("bid", "s.bid"), name="s.v"))
    assert "s.v_delta" in session.catalog.relations
    with pytest.raises(SqlError, match=r"s\.bid is read by s\.v: materialized view s\.v$|is read by s.v: "):
        session.sql("DROP TABLE s.bid")
    session.sql("DROP SCHEMA s CASCADE")
    assert not session.catalog.relations


@pytest.mark.parametrize(
    ("options", "says", "place"),
    [
        ("connector = 'file', path = '{}'", "a materialized view has no connector file", "connector"),
        ("path = '{}'", "option path needs a connector", "path"),
        ("connector = 'delta'", "a delta sink needs a path or a url", "connector"),
        ("connector = 'delta', path = '{}', pth = 'x'", "neither .* has an option pth", "pth"),
        ("connector = 'delta', path = '{}', snapshot = false", "neither .* option snapshot", "snapshot"),
        ("connector = 'delta', path = '{}', vnode_groups = 2", "option vnode_groups", "vnode_groups"),
        ("connector = 'delta', path = '{}', cluster_by = 'x'", "there is no column x", "cluster_by"),
        ("connector = 'delta', path = '{}', delta.partition_by = 'n, o'", "no column o", "delta"),
        (
            "connector = 'delta', path = '{}', cluster_by = 'n', delta.partition_by = 'n'",
            "partitioned or clustered",
            "cluster_by",
        ),
        ("connector = 'delta', path = '{}', delta.retention = 'soon'", "is no time span", "delta"),
        pytest.param(
            "connector = 'delta', url = 's3://b/t'",
            "Spark has no file system for s3a://b/t",
            "url",
            marks=WITHOUT_S3A,
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_there(
    session: Session, tmp_path: Path, options: str, says: str, place: str
) -> None:
    session.sql(BID)
    text = f"CREATE MATERIALIZED VIEW v WITH ({options.format(tmp_path / 'v')}) AS {QUERY}"
    epoch = session.store.refresh().epoch
    with pytest.raises(SqlError, match=says) as error:
        session.sql(text)
    assert text[error.value.column - 1 :].startswith(place)
    assert set(session.catalog.relations) == {"bid"} and session.store.refresh().epoch == epoch
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize(
    ("written", "option"),
    [
        ("USING delta LOCATION '{}'", "path"),
        ("TBLPROPERTIES ('connector' = 'delta', 'path' = '{}')", "connector"),
    ],
)
def test_options_outside_of_with_are_refused(
    session: Session, tmp_path: Path, written: str, option: str
) -> None:
    session.sql(BID)
    with pytest.raises(SqlError, match=rf"the ({option}) of a view's Delta table belongs to WITH"):
        session.sql(f"CREATE MATERIALIZED VIEW v {written.format(tmp_path / 'v')} AS {QUERY}")


def test_tables_of_others_and_names_that_are_taken_are_refused(
    session: Session, spark, tmp_path: Path
) -> None:
    session.sql(BID)
    DeltaTable(spark, tmp_path / "v").make("auction BIGINT, n BIGINT, s BIGINT", properties="")
    with pytest.raises(SqlError, match="is a table that this view did not create"):
        session.sql(view(tmp_path))
    session.sql(f"CREATE SINK s FROM bid WITH (connector = 'delta', path = '{tmp_path}/w', snapshot = false)")
    with pytest.raises(SqlError, match=r"sink s writes \S+/w, and the table is to be the view's own"):
        session.sql(view(tmp_path, name="w"))
    session.sql("DROP SINK s")
    session.sql("CREATE TABLE w_delta (id BIGINT PRIMARY KEY)")
    with pytest.raises(SqlError, match="is w_delta, and a table has that name"):
        session.sql(view(tmp_path, name="w"))
    assert set(session.catalog.relations) == {"bid", "w_delta"}
    assert operations(tmp_path / "v") == ["CREATE TABLE"]


def test_a_view_whose_first_rows_fail_leaves_no_sink(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE words (id BIGINT PRIMARY KEY, word STRING)")
    session.sql("INSERT INTO words VALUES (1, 'no number')")
    query = "SELECT id, CAST(word AS BIGINT) AS number FROM words"
    with pytest.raises(TidelineError) as error:
        session.sql(view(tmp_path, query=query))
    assert isinstance(error.value, EpochFailed | SqlError)
    assert set(session.catalog.relations) == {"words"} and not (tmp_path / "v").exists()


@pytest.mark.long
def test_the_table_follows_what_its_view_is_called_and_its_columns(session: Session, tmp_path: Path) -> None:
    session.sql(BID)
    bids(session, (1, 1, 5), (2, 2, 6))
    created(session, view(tmp_path))
    session.sql(
        "CREATE MATERIALIZED VIEW other AS SELECT auction, count(*) AS n, sum(price) AS s FROM bid GROUP BY 1"
    )
    session.sql("ALTER MATERIALIZED VIEW v RENAME TO w")
    bids(session, (1, 2, 5), (3, 3, 1))
    brought(session)
    assert rows(tmp_path / "v") == content(session, "w")
    session.sql("ALTER MATERIALIZED VIEW w RENAME COLUMN auction TO sale")
    session.sql("ALTER MATERIALIZED VIEW w RENAME COLUMN s TO total")
    bids(session, (1, 4, None), (3, 2, 1))
    brought(session)
    assert columns(tmp_path / "v") == ["sale", "n", "total"]
    assert rows(tmp_path / "v") == content(session, "w")
    session.sql("DELETE FROM bid WHERE id = 2")
    session.sql("ALTER MATERIALIZED VIEW w SWAP WITH other")
    session.sql("DELETE FROM bid WHERE id = 3")
    brought(session)
    assert rows(tmp_path / "v") == content(session, "other")
    found = versions(tmp_path / "v")
    assert found == sorted(set(found)) and "MERGE" in operations(tmp_path / "v")
    (shown,) = session.sql("SHOW SINKS").to_pylist()
    assert (shown["name"], shown["from"]) == ("v_delta", "other")
    session.sql("DROP MATERIALIZED VIEW other")
    assert set(session.catalog.relations) == {"bid", "w"}


@pytest.mark.long
def test_a_view_that_is_made_anew_with_other_columns_makes_its_table_anew(
    session: Session, tmp_path: Path
) -> None:
    """A reader sees the table with the columns before or with those after, in one commit, by the same sink."""
    session.sql(BID)
    bids(session, (1, 1, 5), (2, 2, 6))
    created(session, view(tmp_path, ", delta.partition_by = 'n'"))
    before = len(operations(tmp_path / "v"))
    session.sql("DROP MATERIALIZED VIEW v")
    wider = QUERY.replace("sum(price) AS s", "sum(price) AS s, max(price) AS best")
    created(session, view(tmp_path, ", cluster_by = 'best'", query=wider))
    assert read_by_others(tmp_path / "v", "SELECT auction, n, s, best FROM copy") == Counter(
        [(1, 1, 5, 5), (2, 1, 6, 6)]
    )
    assert operations(tmp_path / "v")[before:] == ["CREATE OR REPLACE TABLE AS SELECT"]
    assert layout(tmp_path / "v") == ([], ["best"])
    session.sql("DROP MATERIALIZED VIEW v")
    created(
        session, view(tmp_path, query="SELECT auction, CAST(count(*) AS STRING) AS n FROM bid GROUP BY 1")
    )
    bids(session, (3, 1, None))
    brought(session)
    assert columns(tmp_path / "v") == ["auction", "n"]
    assert rows(tmp_path / "v") == content(session, "v")
    assert layout(tmp_path / "v") == ([], [])
    found = versions(tmp_path / "v")
    assert found == sorted(set(found))


def test_a_column_that_lays_the_table_out_keeps_its_name(session: Session, tmp_path: Path) -> None:
    session.sql(BID)
    created(session, view(tmp_path, ", delta.partition_by = '`n`'"))
    with pytest.raises(SqlError, match="partition_by of the Delta table of v names it"):
        session.sql("ALTER MATERIALIZED VIEW v RENAME COLUMN n TO m")
    session.sql("ALTER MATERIALIZED VIEW v RENAME COLUMN s TO m")


@pytest.mark.long
def test_a_process_that_dies_in_the_statement_leaves_both_or_neither(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Whatever call to the store a process dies at, the view has its sink; repeating the statement makes what is missing."""
    statement = parse_statement(view(tmp_path).replace("VIEW v", "VIEW IF NOT EXISTS v"), "spark")
    table = parse_statement(BID, "spark")
    assert isinstance(statement, CreateMaterializedView) and isinstance(table, CreateTable)
    both, outcomes = {"v", "v_delta"}, set()

    def opened(memory: MemoryObjectStore, at: int | None = None, after: bool = False) -> Hummock:
        client = DyingClient(memory, at, after)
        return Hummock.open("memory://", cache_dir=tmp_path / "cache", object_store=client)

    def create(store: Hummock) -> bool:
        context = build_context(store, lambda: spark)
        return relations.create_materialized_view(statement, context, plan_delta_sink(statement, context))

    for n in range(60):
        at, after = 1 + n // 2, n % 2 == 1
        memory = MemoryObjectStore()
        relations.create_table(table, build_context(opened(memory)))
        try:
            create(opened(memory, at, after))
            died = False
        except Crash:
            died = True
        found = both & load_catalog(opened(memory).refresh()).catalog.relations.keys()
        assert found in (set(), both), (at, after, found)
        outcomes.add((died, bool(found)))
        assert create(opened(memory)) == (not found)
        assert both <= load_catalog(opened(memory).refresh()).catalog.relations.keys()
        if not died:
            break
    assert outcomes == {(True, False), (True, True), (False, True)}


@pytest.mark.long
def test_a_view_that_is_there_can_be_given_a_table(session: Session, tmp_path: Path) -> None:
    session.sql(BID)
    bids(session, (1, 1, 5))
    session.sql(f"CREATE MATERIALIZED VIEW v WITH (retention = '1 hour') AS {QUERY}")
    session.sql(view(tmp_path).replace("VIEW v", "VIEW IF NOT EXISTS v"))
    assert "v is there and keeps no Delta table" in session.notices[-1] and not (tmp_path / "v").exists()
    table = session.store.refresh().tables["v"].table_id
    said = f"connector = 'delta', path = '{tmp_path}/v', delta.partition_by = 'n'"
    created(session, f"ALTER MATERIALIZED VIEW v SET ({said})")
    assert rows(tmp_path / "v") == content(session, "v")
    assert session.store.refresh().tables["v"].table_id == table
    for text, says in (
        (f"ALTER MATERIALIZED VIEW v SET ({said})", "keeps a Delta table already"),
        (f"ALTER MATERIALIZED VIEW v SET ({said}, retention = '2 hours')", "is set by itself"),
        (f"ALTER TABLE bid SET ({said})", "bid is a table"),
    ):
        with pytest.raises(SqlError, match=says):
            session.sql(text)
    (shown,) = session.sql("SHOW CREATE MATERIALIZED VIEW v").to_pylist()
    assert (
        shown["create_statement"]
        == f"CREATE MATERIALIZED VIEW v WITH ({said}, retention = '1 hour') AS {QUERY}"
    )
    session.sql(f"ALTER MATERIALIZED VIEW IF EXISTS nothing SET ({said})")
    session.sql("DROP MATERIALIZED VIEW v")
    created(session, shown["create_statement"])
    bids(session, (2, 1, 5))
    brought(session)
    assert rows(tmp_path / "v") == content(session, "v")


@pytest.mark.long
def test_a_view_that_is_built_in_the_background_brings_its_table_later(
    session: Session, tmp_path: Path
) -> None:
    session.sql(BID)
    bids(session, (1, 1, 5), (2, 2, 6))
    session.sql(view(tmp_path, ", background = true"))
    (shown,) = session.sql("SHOW SINKS").to_pylist()
    assert shown["phase"] == "waiting" and not (tmp_path / "v").exists()
    session.sql("ALTER MATERIALIZED VIEW v RENAME COLUMN s TO total")
    session.wait(["v"])
    brought(session)
    assert rows(tmp_path / "v") == content(session, "v")
    assert columns(tmp_path / "v") == ["auction", "n", "total"]


@pytest.mark.long
def test_rows_that_only_come_are_appended(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE e (at DATE, price DECIMAL(10, 2)) APPEND ONLY")
    session.sql("INSERT INTO e VALUES (DATE '2024-01-01', 1.5), (DATE '2024-01-01', 1.5), (NULL, NULL)")
    created(session, view(tmp_path, query="SELECT at, price * 2 AS twice FROM e"))
    session.sql("INSERT INTO e VALUES (DATE '2024-01-01', 1.5)")
    brought(session)
    assert rows(tmp_path / "v") == content(session, "v")
    assert operations(tmp_path / "v") == ["CREATE OR REPLACE TABLE AS SELECT", "WRITE"]
