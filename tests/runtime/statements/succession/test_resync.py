"""Views that are computed anew: whatever was wrong in their rows, states and indexes, one commit brings exactly the difference."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from engine.cli.commands import main
from engine.errors import EpochFailed, SqlError
from engine.runtime.domains.domain_run import DomainEpoch, DomainRun
from engine.session import Session
from tests.hummock.upkeep.test_fingerprints import plant
from tests.long_rest import mark_rest_long
from tests.runtime.statements.succession.falsify import falsify_rows, falsify_state, list_rows, overwrite
from tests.runtime.statements.succession.test_take_over import (
    ALTER,
    FEWER,
    FIRST,
    JOINED,
    READER,
    V,
    change,
    check_nothing_is_left,
    compute,
    read,
    shop,
)

__all__ = ["shop"]
RESYNC = "ALTER MATERIALIZED VIEW v RESYNC"
NESTED = "SELECT c, count(*) AS k, sum(s) AS total FROM (SELECT g, count(*) AS c, sum(n) AS s FROM t GROUP BY g) GROUP BY c"
DISTINCT = "SELECT g, count(DISTINCT n % 7) AS c, max(n) AS top FROM t GROUP BY g"
OUTER = "SELECT u.g, u.f, s.total FROM u LEFT JOIN (SELECT g, sum(n) AS total FROM t GROUP BY g) AS s ON u.g = s.g"


def check_right(session: Session, query: str, view: str = "v") -> None:
    """A view equals its query, as Spark computes it at this epoch and as DuckDB does."""
    assert read(session, f"SELECT * FROM {view}") == read(session, query) == compute(session, query)


def test_wrong_rows_are_put_right_and_who_follows_gets_exactly_the_difference(
    shop: Session, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shop.sql(f"CREATE MATERIALIZED VIEW w AS {READER}")
    shop.sql(f"CREATE SINK s FROM v WITH (connector = 'file', path = '{out}')")
    shop.sql("CREATE SUBSCRIPTION told FROM v")
    shop.flush()
    list(shop.subscribe("told", since="full"))
    falsify_rows(shop)
    shop.flush().raise_for_errors()  # who follows has the wrong rows as well
    list(shop.subscribe("told"))
    assert read(shop, "SELECT * FROM v") != compute(shop, FIRST)
    before, files = shop.store.version.tables["v"], set(out.rglob("*.parquet"))
    shop.sql(RESYNC)
    shop.flush().raise_for_errors()
    check_right(shop, FIRST)
    assert read(shop, "SELECT * FROM w") == compute(shop, f"WITH v AS ({FIRST}) {READER}")
    after = shop.store.version.tables["v"]
    assert after.table_id == before.table_id
    assert len([one for one in after.log if one.epoch > before.committed_epoch]) == 1
    log = [
        row
        for batch in shop.store.iter_log("v", after=before.committed_epoch, upto=after.committed_epoch)
        for row in batch.to_pylist()
    ]
    assert sorted((row["_op"], row["g"], row["total"], row["_old_total"]) for row in log) == [
        ("delete", 77, None, 180),
        ("insert", 1, 190, None),
        ("update", 0, 180, 1180),
    ]
    brought = [pq.read_table(one) for one in set(out.rglob("*.parquet")) - files]
    rows = pa.concat_tables(brought).to_pylist()
    assert {row["g"] for row in rows} == {0, 1, 77} and len({row["_epoch"] for row in rows}) == 1
    (item,) = shop.subscribe("told")
    assert set(item.changes.column("g").to_pylist()) == {0, 1, 77}
    check_nothing_is_left(shop)
    change(shop, random.Random(1))
    shop.flush().raise_for_errors()
    check_right(shop, FIRST)


@pytest.mark.parametrize("query", mark_rest_long([JOINED, NESTED, DISTINCT, OUTER]))
def test_wrong_states_and_indexes_are_put_right(shop: Session, query: str) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW x AS {query}")
    shop.flush()
    states = [
        name for name in shop.store.refresh().tables if name.startswith(("_state_x", "_index_t", "_index_u"))
    ]
    assert states
    for name in states:
        falsify_state(shop, name, "x")
    assert read(shop, "SELECT * FROM x") == compute(shop, query)
    shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    check_nothing_is_left(shop)
    rng = random.Random(2)
    for _ in range(3):
        change(shop, rng)
        shop.flush().raise_for_errors()
        check_right(shop, query, "x")


def test_a_view_that_is_right_gets_no_rows(shop: Session) -> None:
    shop.flush()
    before = shop.store.refresh().tables["v"]
    shop.sql(RESYNC)
    after = shop.store.refresh().tables["v"]
    assert [one for one in after.log if one.epoch > before.committed_epoch and one.ssts] == []
    assert shop.catalog.get("v").sql == V + FIRST and not shop.notices
    check_right(shop, FIRST)
    check_nothing_is_left(shop)


def test_it_follows_its_inputs_while_it_is_computed_anew(shop: Session) -> None:
    rng = random.Random(5)
    shop.flush()
    falsify_rows(shop)
    shop.sql(RESYNC, build=False)
    shop.sql(RESYNC, build=False)  # the same one
    assert "v keeps its rows until those that are computed anew take over" in shop.notices[-1]
    wrong = read(shop, "SELECT * FROM v WHERE g = 77")
    assert wrong
    for _ in range(2):
        change(shop, rng)
        shop.epochs.runner.run()  # computed, and not taken over
        assert read(shop, "SELECT * FROM v WHERE g = 77") == wrong
    change(shop, rng)
    assert shop.diff_pending("v").deleted >= 1
    shop.flush().raise_for_errors()
    check_right(shop, FIRST)
    check_nothing_is_left(shop)


def test_a_change_that_is_under_way_stands_in_the_way(shop: Session) -> None:
    shop.flush()
    shop.sql(ALTER + FEWER, build=False)
    with pytest.raises(SqlError, match=r"(?s)the next query of v is being built.*DISCARD"):
        shop.sql(RESYNC)
    shop.sql("ALTER MATERIALIZED VIEW v DISCARD")
    shop.sql(RESYNC, build=False)
    with pytest.raises(SqlError, match=r"(?s)v is being computed anew.*DISCARD"):
        shop.sql("ALTER MATERIALIZED VIEW v RENAME TO x")
    shop.sql(ALTER + FEWER)  # which computes it anew anyway
    check_right(shop, FEWER)
    check_nothing_is_left(shop)


def test_a_gate_is_asked_for_what_it_would_change(shop: Session) -> None:
    shop.sql("ALTER MATERIALIZED VIEW v SET (gate = 'rows_deleted = 0')")
    shop.sql(RESYNC)
    assert not shop.notices
    falsify_rows(shop)
    shop.sql(RESYNC)
    assert "the gate is rows_deleted = 0, and it is 1 of 4 rows" in shop.notices[-1]
    assert read(shop, "SELECT g FROM v WHERE g = 77")
    shop.sql("ALTER MATERIALIZED VIEW v APPROVE")
    check_right(shop, FIRST)
    assert shop.catalog.get("v").options == {"gate": "rows_deleted = 0"}
    check_nothing_is_left(shop)


def test_views_that_rest_wait_or_fail(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW x WITH (refresh = 'manual') AS {FIRST}")
    shop.flush()
    falsify_rows(shop, "x")
    shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    check_right(shop, FIRST, "x")
    shop.write("t", pa.table({"id": [900], "g": [1], "n": [5]}))
    shop.epochs.run_pending(eager=False)
    assert read(shop, "SELECT * FROM x") != compute(shop, FIRST)  # it rests again
    shop.sql("REFRESH MATERIALIZED VIEW x")
    check_right(shop, FIRST, "x")

    falsify_rows(shop)
    shop.pause("v")
    shop.flush()
    shop.sql(RESYNC)
    assert "v is paused" in shop.notices[-1]
    shop.resume("v")
    shop.flush()
    shop.flush().raise_for_errors()
    check_right(shop, FIRST)
    check_nothing_is_left(shop)


@pytest.mark.long
def test_a_view_that_fails_keeps_its_rows_and_is_computed_anew_once_its_inputs_are_mended(
    shop: Session,
) -> None:
    query = "SELECT g, sum(CAST(floor(100 / n) AS BIGINT)) AS total FROM t WHERE id > 0 GROUP BY g"
    shop.sql(f"CREATE MATERIALIZED VIEW x AS {query}")
    shop.flush()
    falsify_rows(shop, "x")
    shop.write("t", pa.table({"id": [901], "g": [1], "n": [0]}))
    assert shop.flush()["x"].error is not None
    before = read(shop, "SELECT * FROM x")
    with pytest.raises(
        EpochFailed, match=r"x keeps its rows, as computing them anew fails(.|\n)*DIVIDE_BY_ZERO"
    ):
        shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    assert read(shop, "SELECT * FROM x") == before
    check_nothing_is_left(shop)
    shop.sql("DELETE FROM t WHERE id = 901")
    shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    check_right(shop, query, "x")


def test_checks_are_kept_anew_and_asked_before(shop: Session) -> None:
    shop.sql("ALTER MATERIALIZED VIEW v SET (checks = 'total >= 0; unique(c, g)')")
    shop.flush()
    falsify_rows(shop)
    shop.sql(RESYNC)
    check_right(shop, FIRST)
    check_nothing_is_left(shop)
    shop.write("t", pa.table({"id": [901], "g": [1], "n": [-10000]}))
    assert "total >= 0" in str(shop.flush()["v"].error)
    shop.sql("DELETE FROM t WHERE id = 901")
    shop.flush().raise_for_errors()
    check_right(shop, FIRST)


PARTED = "SELECT g, total, c FROM (SELECT g, sum(n) AS total, count(DISTINCT n % 7) AS c FROM t GROUP BY g) WHERE c > 0"


@pytest.mark.parametrize("options", mark_rest_long(["partition_by = 'g'", "domain = 'd'", "partitions = 4"]))
def test_views_with_partitions_or_companions_are_computed_anew_in_their_next_epoch(
    shop: Session, options: str
) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW x WITH ({options}, checks = 'total >= 0') AS {PARTED}")
    shop.flush()
    falsify_rows(shop, "x")
    for name in shop.store.refresh().tables:
        if name.startswith(("_state_x", "_index_t")):
            falsify_state(shop, name, "x")
    before = shop.store.refresh().tables["x"]
    shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    assert "the next epoch of x computes it anew" in shop.notices[-1]
    check_right(shop, PARTED, "x")
    after = shop.store.refresh().tables["x"]
    assert [one.rows for one in after.log if one.epoch > before.committed_epoch] == [3]
    check_nothing_is_left(shop)
    change(shop, random.Random(3))
    shop.flush().raise_for_errors()
    check_right(shop, PARTED, "x")
    assert shop.verify_fingerprint("x").is_right


@pytest.mark.parametrize(
    "options", mark_rest_long(["WITH (domain = 'd') ", "WITH (partition_by = 'g') ", ""])
)
def test_an_epoch_that_is_under_way_ends_before_or_after_it(
    shop: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW x {options}AS {PARTED}")
    shop.flush()
    overwrite(shop, "x", [{**list_rows(shop, "x")[0], "g": 77}], [])  # which no change touches
    change(shop, random.Random(1))
    commit, met = DomainRun.commit, list[str]()

    def resync_first(run: DomainRun, *args: Any, **kwargs: Any) -> DomainEpoch:
        if "x" in run.domain.members and not met:
            met.append("x")
            with Session(shop.url, spark) as other:
                other.sql("ALTER MATERIALIZED VIEW x RESYNC", build=False)
        return commit(run, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(DomainRun, "commit", resync_first)
        shop.flush()
    assert met
    shop.flush().raise_for_errors()
    check_right(shop, PARTED, "x")
    check_nothing_is_left(shop)
    change(shop, random.Random(2))
    shop.flush().raise_for_errors()
    check_right(shop, PARTED, "x")


def test_a_view_on_whose_wrong_rows_epochs_fail_goes_on(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW x AS {PARTED}")
    shop.flush()
    falsify_rows(shop, "x")
    change(shop, random.Random(1))
    assert "assumption" in str(shop.flush()["x"].error)
    shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    check_right(shop, PARTED, "x")
    check_nothing_is_left(shop)


def test_it_is_computed_by_the_plan_that_it_has(shop: Session, capsys: pytest.CaptureFixture[str]) -> None:
    shop.sql("SET dialect = postgres")
    shop.sql("CREATE MATERIALIZED VIEW p AS SELECT g, sum(n)::bigint AS total FROM t GROUP BY g")
    shop.sql("SET dialect = spark")
    shop.sql("CREATE TABLE e (g BIGINT PRIMARY KEY, total BIGINT)")
    shop.sql("INSERT INTO e VALUES (1, 2), (3, 4), (5, 6)")
    shop.sql("CREATE MATERIALIZED VIEW x AS SELECT * FROM e WHERE g > 0")
    shop.sql("ALTER TABLE e ADD COLUMN later BIGINT")
    shop.flush()
    for view in ("p", "x"):
        before = read(shop, f"SELECT * FROM {view}")
        falsify_rows(shop, view)
        assert read(shop, f"SELECT * FROM {view}") != before
        with pytest.raises(SystemExit):
            main(["sql", f"ALTER MATERIALIZED VIEW {view} RESYNC", "--store", shop.url])
        assert not capsys.readouterr().err.count("error")
        assert read(shop, f"SELECT * FROM {view}") == before
    assert [one.name for one in shop.catalog.get("x").visible_columns] == ["g", "total"]
    assert shop.catalog.get("p").dialect == "postgres"
    check_nothing_is_left(shop)


RULES = {
    "window": "SELECT id, g, sum(n) OVER (PARTITION BY g ORDER BY id) AS total FROM t",
    "top": "SELECT id, g, n AS total FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY n DESC, id) AS r FROM t) WHERE r < 3",
    "full": "SELECT g, max(n) AS total FROM t GROUP BY g",
    "linear": "SELECT id, g, n * 2 AS total FROM t WHERE n > 3",
    "union": "SELECT id, g, n AS total FROM t UNION ALL SELECT g AS id, g, f AS total FROM u",
    "semi": "SELECT id, g, n AS total FROM t WHERE g IN (SELECT g FROM u WHERE f > 1)",
    "above_average": "SELECT id, g, n AS total FROM t WHERE n > (SELECT avg(n) FROM t)",
}


@pytest.mark.parametrize("rule", mark_rest_long(RULES))
def test_views_of_each_rule(shop: Session, rule: str) -> None:
    options = "WITH (refresh_policy = 'full') " if rule == "full" else ""
    shop.sql(f"CREATE MATERIALIZED VIEW x {options}AS {RULES[rule]}")
    shop.flush().raise_for_errors()
    for name in shop.store.refresh().tables:
        if name.startswith(("_state_x", "_index_t", "_index_u")):
            falsify_state(shop, name, "x")
    falsify_rows(shop, "x")
    before = shop.store.refresh().tables["x"]
    shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    check_right(shop, RULES[rule], "x")
    after = shop.store.refresh().tables["x"]
    assert sum(one.rows for one in after.log if one.epoch > before.committed_epoch) == 3
    for seed in range(2):
        change(shop, random.Random(seed))
        shop.flush().raise_for_errors()
        check_right(shop, RULES[rule], "x")
    check_nothing_is_left(shop)


def test_a_view_that_follows_the_clock(shop: Session) -> None:
    query = "SELECT g, count(*) AS total FROM e WHERE at > now() - INTERVAL '1' HOUR GROUP BY g"
    shop.sql("CREATE TABLE e (id BIGINT PRIMARY KEY, g BIGINT, at TIMESTAMP)")
    shop.sql("INSERT INTO e SELECT id, g, now() - n * INTERVAL '3' MINUTE FROM t")
    shop.sql(f"CREATE MATERIALIZED VIEW x AS {query}")
    shop.flush()
    falsify_rows(shop, "x")
    shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    assert read(shop, "SELECT * FROM x") == read(shop, query)
    shop.sql("INSERT INTO e SELECT id + 100, g, now() - n * INTERVAL '3' MINUTE FROM t")
    shop.flush().raise_for_errors()
    assert read(shop, "SELECT * FROM x") == read(shop, query)
    check_nothing_is_left(shop)


@pytest.mark.long
def test_a_partition_in_quarantine_stays_behind_and_comes_back_right(shop: Session) -> None:
    query = "SELECT g, sum(CAST(floor(100 / (n + 1)) AS BIGINT)) AS total FROM t GROUP BY g"
    shop.sql(f"CREATE MATERIALIZED VIEW x WITH (partition_by = 'g') AS {query}")
    shop.flush()
    shop.write("t", pa.table({"id": [901], "g": [2], "n": [-1]}))
    shop.flush()
    assert [one.partition for one in shop.partitions("x") if one.error] == ["2"]
    falsify_rows(shop, "x")
    shop.sql("ALTER MATERIALIZED VIEW x RESYNC", build=False)
    shop.flush()
    shop.write("t", pa.table({"id": [902], "g": [3], "n": [0]}))
    shop.flush()
    healthy = f"SELECT * FROM ({query.replace('FROM t', 'FROM t WHERE g <> 2')})"
    assert read(shop, "SELECT * FROM x WHERE g <> 2") == compute(shop, healthy)
    shop.sql("DELETE FROM t WHERE id = 901")
    shop.flush().raise_for_errors()
    check_right(shop, query, "x")


@pytest.mark.long
def test_a_delta_table_of_the_view_gets_the_difference(shop: Session, tmp_path: Path) -> None:
    path = tmp_path / "delta"
    shop.sql(f"ALTER MATERIALIZED VIEW v SET (connector = 'delta', path = '{path}')")
    shop.flush()
    falsify_rows(shop)

    def load() -> list[tuple[object, ...]]:
        deadline = time.monotonic() + 120
        while any(one.lag_rows for one in shop.sinks.run()):
            assert time.monotonic() < deadline, "the Delta table is not brought up to date"
            time.sleep(0.1)
        frame = shop.spark.read.format("delta").load(str(path)).select("g", "total", "c")
        return sorted(tuple(row) for row in frame.collect())

    assert load() == read(shop, "SELECT * FROM v") != compute(shop, FIRST)
    shop.sql(RESYNC)
    shop.flush().raise_for_errors()
    assert load() == read(shop, "SELECT * FROM v") == compute(shop, FIRST)


@pytest.mark.parametrize(
    ("table", "query", "reason"),
    [
        (
            "(id BIGINT, g BIGINT) APPEND ONLY WITH (retention_seconds = 3600)",
            "SELECT g, count(*) AS c FROM e GROUP BY g",
            "rows of e leave it by themselves, and the view keeps them",
        ),
        ("(id BIGINT, g BIGINT) APPEND ONLY", "SELECT g, id FROM e", "rows are only added to it"),
        (
            "(g BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1' MINUTE WITH TTL) APPEND ONLY",
            "SELECT g, count(*) AS c FROM e GROUP BY g",
            "rows of e leave it by themselves",
        ),
        (
            "(g BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1' MINUTE) APPEND ONLY",
            "SELECT window_start, count(*) AS c FROM TUMBLE(e, at, INTERVAL '1' HOUR) GROUP BY window_start EMIT ON WINDOW CLOSE",
            "rows leave it by a watermark|rows are only added to it",
        ),
        (
            "(g BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1' MINUTE) APPEND ONLY",
            "SELECT window_start, count(*) AS c FROM TUMBLE(e, at, INTERVAL '1' HOUR) GROUP BY window_start",
            "its rows follow a watermark",
        ),
        (
            "(id BIGINT PRIMARY KEY, g BIGINT)",
            "SELECT op, count(*) AS c FROM (WITH c AS CHANGELOG FROM e SELECT id, changelog_op AS op FROM c) GROUP BY op",
            "it holds all changes of a table",
        ),
        (
            "(id BIGINT PRIMARY KEY, g BIGINT)",
            "SELECT e.id, u.f FROM e JOIN u FOR SYSTEM_TIME AS OF PROCTIME() ON e.g = u.g",
            "joined as they arrive",
        ),
    ],
    ids=["retention", "append-only", "ttl", "window-close", "watermark", "changelog", "temporal"],
)
def test_what_its_inputs_do_not_tell_again_is_refused(
    shop: Session, table: str, query: str, reason: str
) -> None:
    shop.sql(f"CREATE TABLE e {table}")
    shop.sql(f"CREATE MATERIALIZED VIEW x AS {query}", build=False)
    shop.flush()
    before = shop.store.refresh()
    with pytest.raises(
        SqlError, match=rf"(?s)x cannot be computed anew beside its rows: .*({reason}).*DROP it"
    ):
        shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    assert shop.store.refresh().number == before.number


def test_a_full_refresh_of_rows_that_expire_is_of_what_is_visible(shop: Session) -> None:
    shop.sql("CREATE TABLE e (id BIGINT, g BIGINT) APPEND ONLY WITH (retention_seconds = 3600)")
    shop.sql("INSERT INTO e VALUES (1, 2), (3, 4)")
    query = "SELECT g, count(*) AS total FROM e GROUP BY g"
    shop.sql(f"CREATE MATERIALIZED VIEW x WITH (refresh_policy = 'full') AS {query}")
    shop.flush()
    rows = read(shop, "SELECT * FROM x")
    falsify_rows(shop, "x")
    shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    assert read(shop, "SELECT * FROM x") == rows == read(shop, query)


def test_names_that_mean_no_view_are_told(shop: Session) -> None:
    with pytest.raises(SqlError, match="t is a table, not a materialized view"):
        shop.sql("ALTER MATERIALIZED VIEW t RESYNC")
    shop.sql("ALTER MATERIALIZED VIEW IF EXISTS nothing RESYNC")
    with pytest.raises(SqlError, match="RESYNC is not offered"):
        shop.sql("ALTER VIEW v RESYNC")
    shop.flush()
    shop.sql(RESYNC, build=False)
    with pytest.raises(SqlError, match="there is no materialized view _next_v"):
        shop.sql("ALTER MATERIALIZED VIEW _next_v RESYNC")
    shop.sql("CREATE MATERIALIZED VIEW fresh AS SELECT g FROM t GROUP BY g", build=False)
    with pytest.raises(SqlError, match=r"(?s)it has no rows yet.*WAIT FOR fresh first"):
        shop.sql("ALTER MATERIALIZED VIEW fresh RESYNC")


@pytest.mark.parametrize("options", ["", "WITH (domain = 'd') "])
def test_a_damaged_file_is_put_right_and_so_is_the_fingerprint(shop: Session, options: str) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW x {options}AS {FIRST}")
    shop.flush()
    plant(shop.store, "x", column="total")
    assert not shop.verify_fingerprint("x").is_right
    assert read(shop, "SELECT * FROM x") != compute(shop, FIRST)
    shop.sql("ALTER MATERIALIZED VIEW x RESYNC")
    check_right(shop, FIRST, "x")
    found = shop.verify_fingerprint("x")
    assert found.is_right and found.expected is not None
    for _ in range(2):
        change(shop, random.Random(6))
        shop.flush().raise_for_errors()
        assert shop.verify_fingerprint("x").is_right
    check_right(shop, FIRST, "x")


def test_a_table_that_does_not_equal_its_fingerprint_names_the_statement(shop: Session) -> None:
    shop.flush()
    plant(shop.store, "v", column="total")
    assert "ALTER MATERIALIZED VIEW … RESYNC" in shop.verify_fingerprint("v").describe_mismatch()


@pytest.mark.parametrize(("seed", "steps"), mark_rest_long([(0, 1), (0, 4), (1, 4), (2, 4), (3, 4)], keep=0))
def test_random_faults_between_random_changes(shop: Session, seed: int, steps: int) -> None:
    """A chain of two views, and another one, of which any are falsified, computed anew together, and follow their inputs meanwhile."""
    rng = random.Random(seed)
    second = "SELECT c, count(*) AS k, sum(s) AS total FROM (SELECT g, c, total AS s FROM v) GROUP BY c"
    shop.sql(f"CREATE MATERIALIZED VIEW w AS {second}")
    shop.sql(f"CREATE MATERIALIZED VIEW x AS {OUTER}")
    shop.flush().raise_for_errors()
    for _ in range(steps):
        change(shop, rng)
        shop.flush().raise_for_errors()
        tables = [
            name
            for name in shop.store.refresh().tables
            if name in "vx" or name.startswith(("_state_", "_index_"))
        ]
        for name in rng.sample(tables, rng.randrange(1, 3)):
            if name in "vx":
                falsify_rows(shop, name)
            else:
                shop.flush().raise_for_errors()
                owner = next((one for one in "wvx" if name.startswith(f"_state_{one}_")), "x")
                falsify_state(shop, name, owner)
        views = ["v", "w", "x"]
        rng.shuffle(views)
        for view in views:
            shop.sql(f"ALTER MATERIALIZED VIEW {view} RESYNC", build=rng.random() < 0.4)
            if rng.random() < 0.5:
                change(shop, rng)
        shop.flush().raise_for_errors()
        check_nothing_is_left(shop)
        for _ in range(2):
            check_right(shop, FIRST)
            check_right(shop, OUTER, "x")
            assert read(shop, "SELECT * FROM w") == compute(shop, f"WITH v AS ({FIRST}) {second}")
            change(shop, rng)
            shop.flush().raise_for_errors()
