"""The public Session: the documented example, writes with their rules, reads, and failures that stay local."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import DuplicateKey, EpochFailed, InvalidRow, SqlError
from engine.meta.catalog.stored_catalog import list_definitions
from engine.session import Session

READ_TOP = "import sys\nfrom engine.session import Session\nwith Session(sys.argv[1]) as s:\n    print(s.sql('SELECT * FROM top WHERE p > 100 ORDER BY auction').to_pylist())\n"


def bids(rows: list[tuple[int, int | None, int | None]]) -> pa.Table:
    ids, auctions, prices = zip(*rows, strict=True)
    kinds = pa.int64()
    return pa.table(
        {"id": pa.array(ids, kinds), "auction": pa.array(auctions, kinds), "price": pa.array(prices, kinds)}
    )


def documented_example(url: str, spark) -> None:
    with Session(url, spark=spark, dialect="spark") as s:
        s.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
        s.write("bid", bids([(1, 1, 50), (2, 1, 150), (3, 2, 170), (4, 3, 20)]), mode="upsert")
        s.sql("CREATE MATERIALIZED VIEW top AS SELECT auction, max(price) AS p FROM bid GROUP BY auction")
        s.write("bid", bids([(2, 1, 60), (5, 3, 300)]), mode="upsert")
        report = s.flush()
        assert report["top"].error is None and report["top"].updated == 2 and report["top"].epoch is not None
        expected = [{"auction": 2, "p": 170}, {"auction": 3, "p": 300}]
        assert s.sql("SELECT * FROM top WHERE p > 100 ORDER BY auction").to_pylist() == expected
        frame = s.spark.read.format("tideline").option("store", s.url).load("top")
        assert {(row.auction, row.p) for row in frame.collect()} == {(1, 60), (2, 170), (3, 300)}
        again = subprocess.run(
            [sys.executable, "-c", READ_TOP, url], capture_output=True, text=True, timeout=120, check=True
        )
        assert again.stdout.strip() == str(expected)


@pytest.mark.long
def test_the_documented_example_runs_on_a_local_folder(tmp_path: Path, spark) -> None:
    documented_example((tmp_path / "store").as_uri(), spark)


@pytest.mark.s3
@pytest.mark.long
def test_the_documented_example_runs_on_s3(s3_url: str, spark) -> None:
    documented_example(s3_url, spark)


def test_an_inserted_key_that_exists_is_refused_and_nothing_is_written(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("INSERT INTO bid VALUES (1, 1, 10)")
    with pytest.raises(DuplicateKey, match=r"'id': 1"):
        session.write("bid", bids([(2, 1, 1), (1, 1, 1)]), mode="insert")
    with pytest.raises(DuplicateKey, match="occurs twice"):
        session.write("bid", bids([(7, 1, 1), (7, 1, 1)]), mode="insert")
    assert session.sql("SELECT count(*) AS n FROM bid").to_pylist() == [{"n": 1}]


def test_rows_that_do_not_fit_their_table_are_refused_with_the_column(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, at DATE NOT NULL)")
    with pytest.raises(InvalidRow, match="no column idd"):
        session.write("t", pa.table({"idd": [1]}))
    with pytest.raises(InvalidRow, match='column id of t: "x" is no BIGINT'):
        session.write("t", pa.table({"id": ["x"], "at": ["2026-01-01"]}))
    with pytest.raises(InvalidRow, match="column at of t is NOT NULL"):
        session.write("t", pa.table({"id": [1]}))
    with pytest.raises(InvalidRow, match="part of the primary key"):
        session.write("t", pa.table({"id": pa.array([None], pa.int64())}), mode="delete")


def test_update_and_delete_change_just_the_rows_that_match(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.write("bid", bids([(1, 1, 10), (2, 1, 20), (3, 2, None)]))
    session.sql("UPDATE bid SET price = coalesce(price, 0) + auction WHERE id >= 2")
    session.sql("DELETE FROM bid WHERE price < 15 AND auction = 1")
    assert session.sql("SELECT id, price FROM bid ORDER BY id").to_pylist() == [
        {"id": 2, "price": 21},
        {"id": 3, "price": 2},
    ]


def test_insert_takes_a_query_and_expressions(session: Session) -> None:
    session.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, v DOUBLE)")
    session.sql("CREATE TABLE b (id BIGINT PRIMARY KEY, v DOUBLE DEFAULT 0.5, w STRING)")
    session.sql("INSERT INTO a VALUES (1, 1 + 1), (2, sqrt(16))")
    session.sql("INSERT INTO b (id, w) SELECT id, concat('x', CAST(v AS INT)) FROM a")
    assert session.sql("SELECT * FROM b ORDER BY id").to_pylist() == [
        {"id": 1, "v": 0.5, "w": "x2"},
        {"id": 2, "v": 0.5, "w": "x4"},
    ]


def test_an_append_only_table_has_a_hidden_key_and_only_takes_inserts(session: Session) -> None:
    session.sql("CREATE TABLE log (word STRING) APPEND ONLY")
    session.sql("INSERT INTO log VALUES ('a'), ('a'), ('b')")
    session.write("log", pa.table({"word": ["a"]}), mode="insert")
    session.sql(
        "CREATE MATERIALIZED VIEW words AS SELECT word, count(*) AS n, max(word) AS m FROM log GROUP BY word"
    )
    assert session.sql("SELECT word, n FROM words ORDER BY word").to_pylist() == [
        {"word": "a", "n": 3},
        {"word": "b", "n": 1},
    ]
    with pytest.raises(InvalidRow, match="APPEND ONLY"):
        session.sql("DELETE FROM log WHERE word = 'a'")


def test_a_failing_view_keeps_its_epoch_and_stops_nobody_else(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.write("bid", bids([(1, 1, 10)]))
    session.sql("CREATE MATERIALIZED VIEW ratio AS SELECT id, price / auction AS r FROM bid")
    session.sql("CREATE MATERIALIZED VIEW upper_ratio AS SELECT id, r * 2 AS r FROM ratio")
    session.sql("CREATE MATERIALIZED VIEW fine AS SELECT auction, count(*) AS n FROM bid GROUP BY auction")
    session.write("bid", bids([(2, 0, 5)]))
    report = session.flush()
    assert [view.view for view in report.failed] == ["ratio"] and "DIVIDE_BY_ZERO" in (
        report["ratio"].error or ""
    )
    assert session.sql("SELECT count(*) AS n FROM fine").to_pylist() == [{"n": 2}]
    assert session.sql("SELECT * FROM ratio").to_pylist() == [{"id": 1, "r": 10.0}]
    with pytest.raises(EpochFailed, match="view ratio"):
        session.sql("FLUSH")
    session.write("bid", bids([(2, 5, 5)]))
    session.sql("FLUSH")
    assert session.sql("SELECT * FROM upper_ratio ORDER BY id").to_pylist() == [
        {"id": 1, "r": 20.0},
        {"id": 2, "r": 2.0},
    ]


def test_an_epoch_without_changes_makes_no_commit_and_no_job(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.write("bid", bids([(1, 1, 10)]))
    session.sql("CREATE MATERIALIZED VIEW n AS SELECT auction, count(*) AS n FROM bid GROUP BY auction")
    before = session.store.refresh().number
    report = session.flush()
    assert report["n"].skipped and session.store.refresh().number == before
    assert session.lagging() == ()


def test_a_view_that_is_read_by_others_is_dropped_only_with_cascade(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW a AS SELECT auction, max(price) AS p FROM bid GROUP BY auction")
    session.sql("CREATE MATERIALIZED VIEW b AS SELECT p, count(*) AS n FROM a GROUP BY p")
    with pytest.raises(SqlError, match="is read by b"):
        session.sql("DROP MATERIALIZED VIEW a")
    session.sql("DROP MATERIALIZED VIEW a CASCADE")
    assert session.sql("SHOW ALL").to_pylist() == [{"name": "bid", "kind": "table"}]
    assert set(session.store.refresh().tables) == {"bid"}


def test_a_wrong_statement_leaves_no_trace_in_the_catalog(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    before = list_definitions(session.store.refresh())
    for query in (
        "SELECT id + nothing AS x FROM bid",
        "SELECT id, price + array(1) AS x FROM bid",
        "SELECT rand() AS r FROM bid",
    ):
        with pytest.raises(SqlError):
            session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    session.write("bid", bids([(1, 0, 1)]))
    with pytest.raises(EpochFailed):
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, price / auction AS r FROM bid")
    assert list_definitions(session.store.refresh()) == before


def test_explain_incremental_names_rules_keys_and_indexes(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, item STRING)")
    text = "\n".join(
        session.sql(
            "EXPLAIN INCREMENTAL SELECT a.item, sum(b.price) FROM bid b JOIN auction a ON b.auction = a.id GROUP BY a.item"
        )
        .column("plan")
        .to_pylist()
    )
    assert (
        "rule aggregate" in text
        and "index _index_bid__auction" in text
        and "InnerJoin on b:auction = a:id" in text
    )


def test_status_tells_lag_rows_and_files(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW n AS SELECT auction, count(*) AS n FROM bid GROUP BY auction")
    session.write("bid", bids([(1, 1, 10)]))
    status = {s.name: s for s in session.status()}
    assert status["n"].lagging and not status["bid"].lagging and session.lagging() == ("n",)
    session.flush().raise_for_errors()
    status = {s.name: s for s in session.status()}
    assert not status["n"].lagging and status["n"].rows == 1 and status["n"].files == 1


def test_compaction_changes_nothing_that_is_read(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW top AS SELECT auction, max(price) AS p FROM bid GROUP BY auction")
    for n in range(4):
        session.write("bid", bids([(n, n % 2, n), (n + 1, n % 2, 2 * n)]))
        session.flush().raise_for_errors()
        session.compact(full=n % 2 == 0)
    session.write("bid", bids([(9, 1, 99)]))
    session.compact()
    session.flush().raise_for_errors()
    assert session.sql("SELECT * FROM top ORDER BY auction").to_pylist() == [
        {"auction": 0, "p": 2},
        {"auction": 1, "p": 99},
    ]


def test_explain_flush_tells_what_the_next_flush_does_and_does_nothing(session: Session) -> None:
    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW top AS SELECT auction, max(price) AS p FROM bid GROUP BY auction")
    session.write("bid", bids([(1, 1, 50), (2, 2, 150)]))
    before = session.store.refresh().number
    (step,) = session.explain_flush()["top"].steps
    assert (session.store.refresh().number, session.lagging()) == (before, ("top",))
    report = session.flush()["top"]
    assert (step.work, step.label, step.rows) == ("epoch", report.epoch, 2)
    assert [fragment.unknown for fragment in step.fragments] == [(), (step.fragments[0].table,)]
    assert report.barrier == step.epoch.text
    assert session.explain_flush()["top"].steps == ()
