"""CREATE SINK as users see it: files, tables, types, refusals, and a real view from end to end."""

from __future__ import annotations

import gzip
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.sinks.files import encode_rows, has_same_rows
from engine.connectors.sinks.options import SinkOptions
from engine.connectors.sources import poll_all
from engine.errors import SqlError, TidelineError
from engine.hummock.object_store import open_object_store
from engine.session import Session
from tests.connectors.sinks.conftest import applied, delete, put


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def parquet_rows(folder: Path) -> list[dict]:
    return [row for file in files(folder) for row in pq.read_table(file).to_pylist()]


def test_a_view_reaches_files_and_a_table_exactly(session: Session, tmp_path: Path) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW top AS SELECT auction, max(price) AS p FROM bid GROUP BY auction")
    session.sql("CREATE TABLE copy (auction BIGINT PRIMARY KEY, p BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(p) AS s FROM copy")
    session.sql(f"CREATE SINK f FROM top WITH (connector = 'file', path = '{tmp_path}/out')")
    session.sql("CREATE SINK c FROM top INTO copy")
    session.sql("INSERT INTO bid VALUES (1, 1, 10), (2, 1, 20), (3, 2, 5)")
    report = session.flush()
    assert {sink.sink: (sink.error, sink.lag_rows) for sink in report.sinks} == {
        "f": (None, 0),
        "c": (None, 0),
    }
    assert session.sql("SELECT n, s FROM total").to_pylist() == [{"n": 2, "s": 25}]  # over what a sink wrote
    blocked = tmp_path / "out"
    moved = blocked.rename(tmp_path / "moved")
    blocked.write_text("not a folder")
    session.sql("DELETE FROM bid WHERE id = 3")
    session.sql("INSERT INTO bid VALUES (4, 3, 7)")
    report = session.flush()
    by_name = {sink.sink: sink for sink in report.sinks}
    assert (
        not report.failed and by_name["f"].error and by_name["f"].lag_rows == 2 and by_name["c"].error is None
    )
    assert session.sql("SELECT auction, p FROM copy ORDER BY auction").to_pylist() == [
        {"auction": 1, "p": 20},
        {"auction": 3, "p": 7},
    ]
    status = {row.name: row for row in session.status()}
    assert (
        status["f"].kind == "sink"
        and status["f"].rows == 2
        and status["f"].last_error
        and status["f"].lagging
    )
    blocked.unlink()
    moved.rename(blocked)
    report = session.flush()
    assert [sink.error for sink in report.sinks] == [None, None]
    changes = [{"id": row["auction"], "v": row["p"], "_op": row["_op"]} for row in parquet_rows(blocked)]
    assert applied(changes) == {1: 20, 3: 7}
    assert len(changes) == 4
    session.sql("DROP MATERIALIZED VIEW top CASCADE")
    assert session.sql("SHOW SINKS").num_rows == 0


def test_an_append_only_view_gives_plain_rows(db: Session, tmp_path: Path) -> None:
    db.sql("CREATE TABLE e (at DATE, price DECIMAL(10, 2), raw BINARY) APPEND ONLY")
    for form in ("parquet", "jsonl"):
        db.sql(
            f"CREATE SINK {form} FROM e WITH (connector='file', path='{tmp_path}/{form}', format='{form}')"
        )
    rows = pa.table({"price": pa.array([Decimal("1.50")], pa.decimal128(10, 2)), "raw": [b"\x00\xff"]})
    db.write("e", rows, mode="insert")
    db.flush()
    assert parquet_rows(tmp_path / "parquet") == [{"at": None, "price": Decimal("1.50"), "raw": b"\x00\xff"}]
    (file,) = files(tmp_path / "jsonl")
    assert file.read_text() == '{"at": null, "price": "1.50", "raw": "AP8="}\n'


def test_forced_append_only_leaves_out_deletions_and_repeats_changed_rows(
    db: Session, tmp_path: Path
) -> None:
    options = f"connector='file', path='{tmp_path}/out', type='append-only', force_append_only=true"
    db.sql(f"CREATE SINK s FROM t WITH ({options})")
    put(db, {1: "a", 2: "b"})
    put(db, {1: "c"})
    delete(db, 2)
    db.flush()
    assert [row["v"] for row in parquet_rows(tmp_path / "out") if row["id"] == 1] == ["a", "c"]
    assert len(parquet_rows(tmp_path / "out")) == 3


def test_large_ranges_are_cut_into_files_of_the_same_rows_each_time(db: Session, tmp_path: Path) -> None:
    put(db, {n: "x" for n in range(25)})
    db.sql(f"CREATE SINK s FROM t WITH (connector='file', path='{tmp_path}/out', rows_per_file=10)")
    assert [pq.read_table(file).num_rows for file in files(tmp_path / "out")] == [10, 10, 5]
    assert {row["_op"] for row in parquet_rows(tmp_path / "out")} == {"insert"}


@pytest.mark.parametrize(
    ("form", "compression", "suffix"),
    [
        ("jsonl", "none", "jsonl"),
        ("jsonl", "gzip", "jsonl.gz"),
        ("jsonl", "zstd", "jsonl.zst"),
        ("parquet", "none", "parquet"),
        ("parquet", "gzip", "parquet"),
    ],
)
def test_compressed_files_have_the_same_rows_and_land_again(
    db: Session, tmp_path: Path, form: str, compression: str, suffix: str
) -> None:
    put(db, {n: f"row {n}" for n in range(100)})
    said = f"path='{tmp_path}/out', format='{form}', compression='{compression}'"
    db.sql(f"CREATE SINK s FROM t WITH (connector='file', {said})")
    (file,) = files(tmp_path / "out")
    assert file.name.partition(".")[2] == suffix
    if form == "parquet":
        column = pq.read_metadata(file).row_group(0).column(0)
        assert column.compression == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())
    db.sql(
        f"CREATE TABLE back (id BIGINT PRIMARY KEY, v STRING) WITH (connector = 'landing', path = '{tmp_path}/out')"
    )
    poll_all(db.catalog, db.store)
    assert db.sql("SELECT count(*) AS n, max(v) AS v FROM back").to_pylist() == [{"n": 100, "v": "row 99"}]


def test_a_compressed_file_of_another_writer_with_the_same_rows_is_left_as_it_is(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2]})
    options = SinkOptions.of({"type": "upsert", "retention": "1", "format": "jsonl", "compression": "gzip"})
    ours = encode_rows(rows, "jsonl", "gzip")
    theirs = gzip.compress(gzip.decompress(ours), compresslevel=1, mtime=5)
    assert theirs != ours and has_same_rows(theirs, ours, options)
    assert not has_same_rows(encode_rows(rows.slice(1), "jsonl", "gzip"), ours, options)
    assert not has_same_rows(b"something else", ours, options)


def test_an_append_only_table_takes_rows_and_a_wider_key_follows_updates(db: Session) -> None:
    db.sql("CREATE TABLE e (id BIGINT, v STRING) APPEND ONLY")
    db.sql("CREATE TABLE wide (id BIGINT, v STRING, PRIMARY KEY (id, v))")
    db.sql("CREATE SINK a INTO e FROM t WITH (type = 'append-only', force_append_only = true)")
    db.sql("CREATE SINK b INTO wide FROM t")
    put(db, {1: "a"})
    db.flush()
    put(db, {1: "b"})
    db.flush()
    assert sorted(r["v"] for r in db.sql("SELECT v FROM e").to_pylist()) == ["a", "b"]
    assert db.sql("SELECT id, v FROM wide").to_pylist() == [{"id": 1, "v": "b"}]


@pytest.mark.s3
def test_files_reach_a_bucket(db: Session, s3_url: str) -> None:
    open_object_store(s3_url)  # the bucket has to be there
    db.sql(f"CREATE SINK s FROM t WITH (connector='file', url='{s3_url}', format='jsonl')")
    put(db, {1: "a"})
    (report,) = db.flush().sinks
    assert report.error is None and report.files == 1


REFUSED = [
    (
        "CREATE SINK s FROM nope WITH (connector='file', path='x')",
        "there is no table or view nope",
        "SHOW TABLES",
    ),
    (
        "CREATE SINK s FROM plain WITH (connector='file', path='x')",
        "is a view and keeps no changes",
        "MATERIALIZED",
    ),
    ("CREATE SINK t FROM t WITH (connector='file', path='x')", "t exists already", "DROP TABLE t"),
    ("CREATE SINK s FROM t", "the connector of a sink is file", "connector = 'file'"),
    (
        "CREATE SINK s FROM t WITH (connector='pulsar', topic='x')",
        "the connector of a sink is file",
        "INTO a table",
    ),
    ("CREATE SINK s FROM t WITH (connector='file')", "needs a path or a url", "path = "),
    ("CREATE SINK s FROM t WITH (connector='file', url='ftp://x')", "is no address", "s3://"),
    (
        "CREATE SINK s FROM t WITH (connector='file', path='x', colour='red')",
        "no option colour",
        "rows_per_file",
    ),
    ("CREATE SINK s FROM t WITH (connector='file', path='x', format='orc')", '"orc" is not offered', "jsonl"),
    ("CREATE SINK s FROM t WITH (connector='file', path='x', compression='lz4')", '"lz4" is not', "zstd"),
    (
        "CREATE SINK s FROM t WITH (connector='file', path='x', type='append-only')",
        "cannot deliver that",
        "upsert",
    ),
    ("CREATE SINK s FROM t WITH (connector='file', path='x', retention='soon')", "no time span", "7 days"),
    (
        "CREATE SINK s FROM t WITH (connector='file', path='x', vnode_groups=0)",
        "from 1 to 256",
        "vnode_groups",
    ),
    (
        "CREATE SINK s FROM e WITH (connector='file', path='x', type='upsert')",
        "is not among its columns",
        "append-only",
    ),
    (
        "CREATE SINK s FROM t WITH (connector='file', path='file:///x')",
        "is an address",
        "write url = 'file:///x'",
    ),
    ("CREATE SINK s INTO t FROM t", "would feed itself", "another table"),
    ("CREATE SINK s INTO plain FROM t", "is a view", "CREATE TABLE"),
    ("CREATE SINK s INTO e FROM t", "APPEND ONLY", "PRIMARY KEY"),
    ("CREATE SINK s INTO other FROM t", "two rows of t could become", "view's key"),
    ("CREATE SINK s INTO narrow FROM t", "column id is bigint in t and int in narrow", "CAST"),
    ("CREATE SINK s INTO few FROM t", "has no column v", "select just those"),
    ("ALTER SINK t PAUSE", "t is a table, not a sink", "SHOW SINKS"),
    ("SELECT * FROM known", "known is a sink and has no rows", "read t, of which it delivers the rows"),
    ("INSERT INTO known VALUES (1, 'x')", "it is a sink", ""),
]


def test_what_cannot_be_delivered_is_refused_with_place_and_remedy(db: Session, tmp_path: Path) -> None:
    db.sql("CREATE VIEW plain AS SELECT id FROM t")
    db.sql("CREATE TABLE e (id BIGINT, v STRING) APPEND ONLY")
    db.sql("CREATE TABLE other (v STRING PRIMARY KEY, id BIGINT)")
    db.sql("CREATE TABLE narrow (id INT PRIMARY KEY, v STRING)")
    db.sql("CREATE TABLE few (id BIGINT PRIMARY KEY)")
    db.sql(f"CREATE SINK known FROM t WITH (connector='file', path='{tmp_path}/k')")
    for text, says, remedy in REFUSED:
        with pytest.raises(TidelineError) as caught:
            db.sql(text)
        assert says in str(caught.value), (text, str(caught.value))
        assert remedy in str(caught.value), (text, str(caught.value))
        if "SINK" in text:
            assert isinstance(caught.value, SqlError) and caught.value.line == 1


def test_sinks_in_a_ring_of_tables_are_refused(db: Session) -> None:
    db.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, v STRING)")
    db.sql("CREATE TABLE w (id BIGINT PRIMARY KEY, v STRING)")
    db.sql("CREATE SINK a INTO u FROM t")
    db.sql("CREATE SINK b INTO w FROM u")
    with pytest.raises(SqlError, match="feed itself"):
        db.sql("CREATE SINK c INTO t FROM w")
    put(db, {1: "x"})
    db.flush()
    db.flush()
    assert db.sql("SELECT v FROM w").to_pylist() == [{"v": "x"}]


def test_a_table_that_a_sink_needs_is_not_dropped_under_it(db: Session, tmp_path: Path) -> None:
    db.sql("CREATE TABLE u (id BIGINT PRIMARY KEY, v STRING)")
    db.sql("CREATE SINK s INTO u FROM t")
    for name in ("t", "u"):
        with pytest.raises(SqlError, match=f"{name} is read by s"):
            db.sql(f"DROP TABLE {name}")
    db.sql("DROP TABLE u CASCADE")
    table = db.store.version.tables["t"]
    assert not table.acks and not table.pins


def test_sinks_are_described_as_other_relations_are(db: Session, tmp_path: Path) -> None:
    text = f"CREATE SINK s FROM t WITH (connector = 'file', path = '{tmp_path}/out')"
    db.sql(text)
    columns = {row["column"]: row for row in db.sql("DESCRIBE s").to_pylist()}
    assert list(columns) == ["_op", "id", "v", "_epoch"] and columns["id"]["key"]
    assert db.sql("SHOW CREATE SINK s").to_pylist() == [{"name": "s", "create_statement": text}]
    (row,) = db.sql("SHOW SINKS").to_pylist()
    assert row["from"] == "t" and row["phase"] == "log" and row["lag_rows"] == 0
