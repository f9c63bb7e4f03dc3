"""Views that get another query: they answer by the old one until the new one is computed, and what follows them gets the difference."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from engine.changes import alter_view, commit_together
from engine.errors import ClaimBroken, EpochFailed, SqlError
from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.catalog.successions import list_successions
from engine.meta.domains.creation import list_creations
from engine.runtime.statements.create.assumption_checks import check_taken_over, check_unread
from engine.runtime.statements.succession import take_over
from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.runtime.statements.succession.falsify import falsify_rows

ALTER, V = "ALTER MATERIALIZED VIEW v AS ", "CREATE MATERIALIZED VIEW v AS "
FIRST = "SELECT g, sum(n) AS total, count(*) AS c FROM t GROUP BY g"
FEWER = "SELECT g, sum(n) AS total, count(*) AS c FROM t WHERE n % 2 = 0 GROUP BY g"
JOINED = "SELECT g, sum(n * f) AS total, count(*) AS c FROM t JOIN u USING (g) GROUP BY g"
WIDER = "SELECT g, least, total, c FROM (SELECT g, min(n) AS least, sum(n * f) AS total, count(*) AS c FROM t JOIN u USING (g) GROUP BY g)"
LARGEST = "SELECT g, max(n) AS total, count(DISTINCT n) AS c FROM t GROUP BY g"
READER = "SELECT c, count(*) AS k, sum(total) AS s FROM v GROUP BY c"


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark) as session:
        fill(session)
        yield session


def fill(session: Session) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
    session.sql("CREATE TABLE u (g BIGINT PRIMARY KEY, f BIGINT)")
    session.write("u", pa.table({"g": [0, 1, 2], "f": [1, 10, 100]}))
    session.write("t", pa.table({"id": range(40), "g": [i % 4 for i in range(40)], "n": range(40)}))
    session.sql(V + FIRST)


def read(session: Session, query: str) -> list[tuple[object, ...]]:
    found = session.sql(query)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def compute(session: Session, query: str) -> list[tuple[object, ...]]:
    """Return what DuckDB makes of the tables by a query of which `v` is none."""
    judge = duckdb.connect()
    for name in ("t", "u"):
        judge.register(name, session.sql(f"SELECT * FROM {name}"))
    return sorted(judge.execute(query).fetchall(), key=repr)


def change(session: Session, rng: random.Random) -> None:
    ids = [rng.randrange(60) for _ in range(5)]
    rows = {id: (rng.randrange(5), rng.randrange(100)) for id in ids}
    groups, numbers = zip(*rows.values(), strict=True)
    session.write("t", pa.table({"id": list(rows), "g": groups, "n": numbers}), mode="upsert")
    session.sql(f"DELETE FROM t WHERE id = {rng.randrange(60)}")
    session.write("u", pa.table({"g": [rng.randrange(5)], "f": [rng.randrange(9)]}), mode="upsert")


def check_nothing_is_left(session: Session) -> None:
    """No trace of a successor: no relation, table, record, mark, or hold of one who is not there."""
    version, stored = session.store.refresh(), session.stored
    assert not list_successions(version) and not list_replaced_tables(version)
    assert not [
        name for name in (*stored.catalog.relations, *version.tables, *version.catalog) if "_next_" in name
    ]
    assert set(stored.order) >= set(version.tables) - {"_dead_letter"}
    holders = {holder for table in version.tables.values() for holder in table.acks}
    assert {holder for holder in holders if not holder.startswith(("sink/", "subscription/"))} <= set(
        version.tables
    )
    assert all(table in version.tables for one in list_creations(version).values() for table in one.tables)


@pytest.mark.parametrize("seed", [1])
def test_views_and_their_readers_equal_duckdb_after_each_change(
    shop: Session, seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    shop.sql(f"CREATE MATERIALIZED VIEW w AS {READER}")
    shop.sql("CREATE SINK s FROM v WITH (connector = 'file', path = '" + str(tmp_path / "out") + "')")
    shop.flush()
    for query in (FEWER, JOINED, LARGEST, FIRST):
        change(shop, rng)
        before = shop.store.version.tables["v"].table_id
        shop.sql(ALTER + query)
        check_nothing_is_left(shop)
        shop.flush()
        for _ in range(2):
            assert read(shop, "SELECT * FROM v") == compute(shop, query)
            assert read(shop, "SELECT * FROM w") == compute(shop, f"WITH v AS ({query}) {READER}")
            change(shop, rng)
            shop.flush()
        assert shop.store.version.tables["v"].table_id == before
        assert shop.catalog.get("v").sql == V + query


def test_sinks_get_exactly_the_difference(shop: Session, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shop.sql(f"CREATE SINK s FROM v WITH (connector = 'file', path = '{out}')")
    shop.flush()
    files = set(out.rglob("*.parquet"))
    old, new = (dict((row[0], row) for row in compute(shop, query)) for query in (FIRST, JOINED))
    shop.sql(ALTER + JOINED)
    shop.flush()
    rows = pa.concat_tables(pq.read_table(path) for path in set(out.rglob("*.parquet")) - files).to_pylist()
    assert len({row["_epoch"] for row in rows}) == 1
    assert {row["g"] for row in rows} == {g for g in old.keys() | new.keys() if old.get(g) != new.get(g)}
    assert len(rows) == len({row["g"] for row in rows})


def test_the_old_content_answers_and_follows_until_the_new_one_is_computed(shop: Session) -> None:
    shop.flush()
    shop.sql(ALTER + FEWER, build=False)
    assert "answers by its last query" in shop.notices[-1]
    assert list_successions(shop.store.refresh()).keys() == {"v"}
    shop.write("t", pa.table({"id": [900], "g": [1], "n": [7]}))
    shop.epochs.runner.run(["v"], background_seconds=0.0)  # the view alone: its next query has no time
    assert read(shop, "SELECT * FROM v") == compute(shop, FIRST)
    assert "_next_v" not in {one.view for one in shop.flush().views}
    assert read(shop, "SELECT * FROM v") == compute(shop, FEWER)
    assert not shop.lagging()
    check_nothing_is_left(shop)


@pytest.mark.parametrize(
    "query",
    [
        V.replace("CREATE", "CREATE OR REPLACE") + FIRST.replace("SELECT", "SELECT /* all */"),
        ALTER + FIRST,
        ALTER + "SELECT x.g, sum(x.n) AS total, count(*) AS c FROM t AS x GROUP BY x.g",
    ],
    ids=["text", "itself", "names"],
)
def test_a_query_that_means_the_same_computes_nothing(shop: Session, query: str) -> None:
    shop.flush()
    before = shop.store.version.tables["v"]
    shop.sql(query)
    assert shop.store.version.tables["v"] == before
    assert "nothing is computed" in shop.notices[-1]
    assert ("/* all */" in shop.catalog.get("v").sql) == ("/* all */" in query)
    change(shop, random.Random(4))
    shop.flush()
    assert read(shop, "SELECT * FROM v") == compute(shop, FIRST)
    check_nothing_is_left(shop)


def test_create_or_replace_creates_what_is_not_there(shop: Session) -> None:
    shop.sql(f"CREATE OR REPLACE MATERIALIZED VIEW fresh AS {FEWER}")
    assert read(shop, "SELECT * FROM fresh") == compute(shop, FEWER)
    assert shop.catalog.get("fresh").sql == f"CREATE MATERIALIZED VIEW fresh AS {FEWER}"


@pytest.mark.long
def test_a_query_that_fails_leaves_the_view_as_it_was(shop: Session) -> None:
    failing = "SELECT g, sum(CAST(100 / (n - 7) AS BIGINT)) AS total, count(*) AS c FROM t GROUP BY g"
    with pytest.raises(EpochFailed, match=r"v keeps its query, as the next one fails(.|\n)*DIVIDE_BY_ZERO"):
        shop.sql(ALTER + failing)
    check_nothing_is_left(shop)
    change(shop, random.Random(3))
    shop.flush()
    assert read(shop, "SELECT * FROM v") == compute(shop, FIRST)


@pytest.mark.long
def test_a_view_whose_query_fails_is_mended_by_another_one(shop: Session) -> None:
    failing = "SELECT g, CAST(sum(100 / n) AS BIGINT) AS total, count(*) AS c FROM t WHERE n > 0 GROUP BY g"
    shop.sql(ALTER + failing)
    shop.sql(ALTER + failing.replace(" WHERE n > 0", " WHERE n > -5"), build=False)
    with pytest.raises(EpochFailed, match="DIVIDE_BY_ZERO"):
        shop.sql("FLUSH")
    shop.sql(ALTER + failing.replace(" WHERE n > 0", " WHERE n <> 0 OR n IS NULL"))
    shop.sql("CREATE MATERIALIZED VIEW x AS SELECT id, 10 / n AS q FROM t WHERE id > 0")
    shop.write("t", pa.table({"id": [7], "g": [1], "n": [0]}), mode="upsert")
    assert shop.flush()["x"].error is not None
    shop.sql("ALTER MATERIALIZED VIEW x AS SELECT id, 10 / nullif(n, 0) AS q FROM t WHERE id > 0")
    assert len(read(shop, "SELECT * FROM x")) == 39
    check_nothing_is_left(shop)


def test_a_change_that_is_refused_leaves_the_one_that_is_being_built(shop: Session) -> None:
    shop.flush()
    shop.sql(ALTER + FEWER, build=False)
    with pytest.raises(SqlError, match="its key is"):
        shop.sql(ALTER + "SELECT n, count(*) AS c FROM t GROUP BY n")
    shop.flush()
    assert read(shop, "SELECT * FROM v") == compute(shop, FEWER)


@pytest.mark.long
def test_what_does_not_take_over_at_once_says_why(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW w AS {READER}")
    shop.flush()
    shop.sql(
        "ALTER MATERIALIZED VIEW w AS SELECT c, count(*) AS k, CAST(sum(total / (c - 10)) AS BIGINT) AS s FROM v GROUP BY c",
        build=False,
    )
    shop.sql("SET background_ddl = true")
    shop.sql(ALTER + FEWER)
    assert "_next_w fails, and takes over with it" in shop.notices[-1]
    shop.sql("ALTER MATERIALIZED VIEW w AS " + READER)  # gives that up
    shop.flush()
    assert read(shop, "SELECT * FROM v") == compute(shop, FEWER)
    assert "background" not in shop.catalog.get("v").options
    shop.pause("v")
    shop.flush()
    shop.sql(ALTER + LARGEST)
    assert "v is paused" in shop.notices[-1]
    shop.resume("v")
    shop.flush()
    shop.flush()
    assert read(shop, "SELECT * FROM v") == compute(shop, LARGEST)
    check_nothing_is_left(shop)


@pytest.mark.parametrize(
    ("meanwhile", "message"),
    [
        ("ALTER MATERIALIZED VIEW v DISCARD", "v keeps its last query: another process has given"),
        (ALTER + JOINED, "v has got another query than this one: another process asked for it"),
        ("DROP MATERIALIZED VIEW v", "v is not there any more: another process has dropped it"),
    ],
)
def test_a_change_that_another_process_gives_up_is_told(
    shop: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, meanwhile: str, message: str
) -> None:
    shop.flush()
    flush = shop.flush

    def lose(*words: object, **options: object) -> object:
        with monkeypatch.context() as patch, Session(shop.url, spark) as other:
            patch.setattr(shop, "flush", flush)
            other.sql(meanwhile, build=False)
        monkeypatch.setattr(shop, "flush", flush)
        return flush(*words, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(shop, "flush", lose)
    with pytest.raises(EpochFailed, match=message):
        shop.sql(ALTER + FEWER)
    if "AS" in meanwhile:
        shop.flush().raise_for_errors()
        assert read(shop, "SELECT * FROM v") == compute(shop, JOINED)  # nobody has given this one up
    check_nothing_is_left(shop)


@pytest.mark.parametrize("at", ["_is_whole", "_hide_steps"])
def test_a_change_that_is_given_up_as_it_takes_over_is_none(
    shop: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    shop.flush()
    step, said = getattr(take_over, at), []

    def give_up(*words: object) -> object:
        found = step(*words) if at == "_is_whole" else None
        if not said:
            said.append(at)
            with Session(shop.url, spark) as other:
                other.discard("v")
        return step(*words) if found is None else found

    monkeypatch.setattr(take_over, at, give_up)
    shop.sql(ALTER + FEWER, build=False)
    shop.flush().raise_for_errors()
    assert said and read(shop, "SELECT * FROM v") == compute(shop, FIRST)
    check_nothing_is_left(shop)


def test_what_is_dropped_while_a_run_computes_it_is_no_failure(
    shop: Session, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.flush()
    shop.sql(ALTER + JOINED, build=False)
    commit, said = Hummock.commit, []
    with Session(shop.url, spark) as other:

        def drop(store: Hummock, made: Commit) -> Version:
            if (
                any("_index_" in name for name in (*made.writes, *(one.name for one in made.create)))
                and not said
            ):
                said.append(made)
                with monkeypatch.context() as patch:
                    patch.setattr(Hummock, "commit", commit)
                    other.discard("v")
            return commit(store, made)

        monkeypatch.setattr(Hummock, "commit", drop)
        assert said == [] and not shop.flush().failed
    assert said and read(shop, "SELECT * FROM v") == compute(shop, FIRST)
    check_nothing_is_left(shop)


def test_a_later_change_takes_the_place_of_one_that_is_not_there_yet(shop: Session) -> None:
    shop.flush()
    shop.sql(ALTER + FEWER, build=False)
    shop.sql(ALTER + LARGEST)
    assert read(shop, "SELECT * FROM v") == compute(shop, LARGEST)
    shop.sql(ALTER + FEWER, build=False)
    shop.sql(ALTER + LARGEST)  # gives it up
    assert "nothing is computed" in shop.notices[-1]
    check_nothing_is_left(shop)


def test_a_successor_that_has_gone_on_without_a_change_takes_over(
    shop: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view that is a copy of its successor has no run while that has no change, so none at which both would be."""
    shop.flush()
    with monkeypatch.context() as patch:
        patch.setattr(take_over, "_finish", lambda store: None)
        shop.sql(ALTER + FEWER, build=False)
        for _ in range(3):
            shop.flush()
    version = shop.store.refresh()
    successor = list_successions(version)["v"].successor
    assert list_successions(version)["v"].copied and "v" not in list_replaced_tables(version)
    shop.store.commit(Commit(epochs={successor: version.epoch}))
    own, other = (shop.store.version.tables[name].committed_epoch for name in ("v", successor))
    assert own < other
    shop.flush()
    assert shop.store.refresh().tables["v"].committed_epoch >= other
    check_nothing_is_left(shop)
    change(shop, random.Random(3))
    shop.flush().raise_for_errors()
    assert read(shop, "SELECT * FROM v") == compute(shop, FEWER)


def test_checks_of_the_new_statement_are_asked_before_it_takes_over(shop: Session) -> None:
    made = "CREATE OR REPLACE MATERIALIZED VIEW v WITH (checks = '{}') AS {}"
    with pytest.raises(EpochFailed, match="v keeps its query"):
        shop.sql(made.format("total > 1000", FEWER))
    assert read(shop, "SELECT * FROM v") == compute(shop, FIRST)
    shop.sql(made.format("total >= 0; unique(g)", FEWER))
    assert read(shop, "SELECT * FROM v") == compute(shop, FEWER)
    check_nothing_is_left(shop)
    shop.write("t", pa.table({"id": [901], "g": [1], "n": [-10000]}))
    assert "total >= 0" in str(shop.flush()["v"].error)
    shop.sql("DELETE FROM t WHERE id = 901")
    assert not shop.flush().failed
    assert read(shop, "SELECT * FROM v") == compute(shop, FEWER)


def test_rows_that_differ_from_the_successors_break_a_claim(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW x AS {FEWER}")
    shop.flush()
    version = shop.store.version
    check_taken_over(shop.store, version, "v", "v")
    with pytest.raises(ClaimBroken, match="v holds 4 rows, its successor x 2, or other values"):
        check_taken_over(shop.store, version, "v", "x")


def test_who_reads_a_hidden_column_that_is_to_be_null_breaks_a_claim(shop: Session) -> None:
    stored = shop.stored
    column = next(c.storage_name for c in stored.catalog.get("t").columns if c.name == "n")
    check_unread(stored, "t", ["no_such"])
    with pytest.raises(ClaimBroken, match=r"v reads the hidden columns n of t"):
        check_unread(stored, "t", [column])


def test_the_build_of_the_next_query_is_throttled_as_its_view(shop: Session) -> None:
    shop.flush()
    shop.throttle("v", 0)
    shop.sql(ALTER + FEWER)
    assert "paused by backfill_rate_limit = 0" in shop.notices[-1]
    shop.flush()
    assert read(shop, "SELECT * FROM v") == compute(shop, FIRST)
    shop.throttle("v", 1000)
    shop.flush()
    assert read(shop, "SELECT * FROM v") == compute(shop, FEWER)
    assert shop.catalog.get("v").options == {"backfill_rate_limit": "1000"}
    check_nothing_is_left(shop)


def test_what_is_dropped_meanwhile_goes_with_the_next_query(shop: Session) -> None:
    shop.flush()
    shop.sql(ALTER + JOINED, build=False)
    for statement in (
        "ALTER MATERIALIZED VIEW v RENAME TO x",
        "ALTER MATERIALIZED VIEW v SET (parallelism = 2)",
    ):
        with pytest.raises(SqlError, match="the next query of v is being built"):
            shop.sql(statement)
    given_up = "ALTER MATERIALIZED VIEW v DISCARD gives up the next query of v"
    for statement, hint in (
        ("DROP TABLE u", f"  {given_up}, or write DROP TABLE u CASCADE"),
        ("DROP TABLE t", f"  drop those first; {given_up}, or write DROP TABLE t CASCADE"),
        ("ALTER TABLE u DROP COLUMN f", "column f of u is read by the next query of v"),
        ("ALTER TABLE u DROP COLUMN f", "DISCARD gives up the next query of v"),
    ):
        with pytest.raises(SqlError, match=re.escape(hint)):
            shop.sql(statement)
    shop.sql("DROP TABLE u CASCADE")
    check_nothing_is_left(shop)
    assert not shop.flush().failed
    assert len(read(shop, "SELECT * FROM v")) == 4
    shop.sql(ALTER + FEWER, build=False)
    shop.sql("DROP MATERIALIZED VIEW v")
    check_nothing_is_left(shop)
    assert set(shop.store.version.tables) == {"t"}


def test_a_delta_table_that_is_dropped_meanwhile_does_not_come_back(shop: Session, tmp_path: Path) -> None:
    shop.sql(
        f"ALTER MATERIALIZED VIEW v SET (connector = 'delta', path = '{tmp_path / 'delta'}')", build=False
    )
    shop.sql(ALTER + FEWER, build=False)
    with pytest.raises(SqlError, match=r"(?s)_next_v is the system's own.*DISCARD gives up"):
        shop.sql("DROP MATERIALIZED VIEW _next_v")
    shop.sql("DROP SINK v_delta")
    shop.flush()
    check_nothing_is_left(shop)
    assert shop.catalog.get("v").sql == V + FEWER


def test_views_that_read_each_other_take_over_at_one_epoch(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW w AS {READER}")
    shop.flush()
    other = READER.replace("sum(total)", "max(total)")
    with commit_together(shop):
        assert alter_view(shop, V + FEWER)
        assert alter_view(shop, f"CREATE MATERIALIZED VIEW w AS {other}")
    before = shop.store.version.epoch
    shop.flush()
    assert read(shop, "SELECT * FROM w") == compute(shop, f"WITH v AS ({FEWER}) {other}")
    tables = shop.store.version.tables
    labels = [[e.epoch for e in tables[name].log if e.epoch > before] for name in ("v", "w")]
    assert labels[0] == labels[1] and len(labels[0]) == 1
    check_nothing_is_left(shop)


def test_the_table_gets_the_options_of_the_new_statement(shop: Session) -> None:
    shop.flush()
    made = "CREATE OR REPLACE MATERIALIZED VIEW v WITH (retention = '{}') AS {}"
    for retention, query, seconds in (("2 hours", FIRST, 7200), ("3 hours", LARGEST, 10800)):
        shop.sql(made.format(retention, query))
        assert shop.store.version.tables["v"].table.options.retention_seconds == seconds
        assert shop.catalog.get("v").options == {"retention": retention}
    shop.sql(ALTER + FIRST)  # which says nothing of options
    assert shop.store.version.tables["v"].table.options.retention_seconds == 10800


@pytest.mark.long
def test_a_view_that_commits_with_others_is_computed_in_their_next_epoch(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW a WITH (domain = 'd') AS {FIRST}")
    shop.sql(f"CREATE MATERIALIZED VIEW b WITH (domain = 'd') AS {READER.replace('FROM v', 'FROM a')}")
    shop.flush()
    shop.sql(f"ALTER MATERIALIZED VIEW a AS {LARGEST}")
    assert "commits together with others" in shop.notices[-1]
    shop.sql("ALTER MATERIALIZED VIEW b AS SELECT c, count(*) AS k, max(total) AS s FROM a GROUP BY c")
    assert read(shop, "SELECT * FROM a") == compute(shop, LARGEST)
    expected = f"WITH a AS ({LARGEST}) SELECT c, count(*) AS k, max(total) AS s FROM a GROUP BY c"
    assert read(shop, "SELECT * FROM b") == compute(shop, expected)
    check_nothing_is_left(shop)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT id, g AS total FROM t", "its key is"),
        ("SELECT g, n AS total, 1L AS c FROM t", "its (hidden )?key is"),
        ("SELECT c AS g, c AS total, c FROM v", "v would read itself"),
    ],
)
def test_what_would_have_to_be_made_anew_is_refused_with_the_reason(
    shop: Session, query: str, reason: str
) -> None:
    with pytest.raises(SqlError, match=reason):
        shop.sql(ALTER + query)
    check_nothing_is_left(shop)
    assert read(shop, "SELECT * FROM v") == compute(shop, FIRST)


def test_a_process_that_knows_of_a_change_which_has_ended_since_brings_the_view_on(shop: Session) -> None:
    shop.flush()
    with Session(shop.url, shop.computing) as other:
        shop.sql(ALTER + FEWER, build=False)
        assert list_successions(other.store.refresh())
        shop.flush().raise_for_errors()
        change(shop, random.Random(1))
        other.flush(["v"]).raise_for_errors()
        assert read(other, "SELECT * FROM v") == compute(other, FEWER)


@pytest.mark.parametrize(("after", "query"), mark_rest_long([(6, WIDER), (5, FIRST)]))
def test_a_process_that_is_killed_leaves_what_the_next_one_ends(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, after: int, query: str
) -> None:
    kill_and_go_on(tmp_path, spark, monkeypatch, after, query)


@pytest.mark.long
@pytest.mark.parametrize("query", [JOINED, WIDER, FIRST])
def test_a_process_may_be_killed_between_any_two_commits(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    after = 0
    while kill_and_go_on(tmp_path / str(after), spark, monkeypatch, after, query):
        after += 1
    assert after > 6


def kill_and_go_on(
    folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, after: int, query: str
) -> bool:
    """Kill a change of a view after so many commits, and let another process go on; False if it has ended before.

    By its own query it is computed anew, as its rows are wrong.
    """
    url, left = (folder / "store").as_uri(), after
    session = Session(url, spark)
    fill(session)
    session.sql(f"CREATE MATERIALIZED VIEW w AS {READER}")
    session.flush()
    is_resync = query == FIRST
    if is_resync:
        falsify_rows(session)
        session.flush().raise_for_errors()
    commit = Hummock.commit

    def count(store: Hummock, made: Commit) -> Version:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1
        return commit(store, made)

    killed = False
    with monkeypatch.context() as patch:
        patch.setattr(Hummock, "commit", count)
        try:
            session.sql("ALTER MATERIALIZED VIEW v RESYNC" if is_resync else ALTER + query)
        except Killed:
            killed = True
    with Session(url, spark) as other:
        begun = bool(list_successions(other.store.refresh())) or other.catalog.get("v").sql == V + query
        if is_resync and not after:  # before the first commit nothing has begun
            other.sql("ALTER MATERIALIZED VIEW v RESYNC")
        change(other, random.Random(after))
        other.flush().raise_for_errors()
        now = query if begun else FIRST
        assert read(other, "SELECT * FROM v") == compute(other, now)
        assert read(other, "SELECT * FROM w") == compute(other, f"WITH v AS ({now}) {READER}")
        check_nothing_is_left(other)
        assert other.verify_fingerprint("v").is_right
    return killed


def test_a_statement_leaves_no_view_without_its_checks_or_its_next_query(shop: Session) -> None:
    """In no manifest that a killed process may leave behind is half of a change."""
    own = "CREATE OR REPLACE MATERIALIZED VIEW d WITH (domain = 'x', checks = '{}; unique(g)') AS "
    shop.sql(own.format("total >= 0") + FIRST)
    shop.flush()
    shop.sql(ALTER + FEWER, build=False)
    began = shop.store.refresh().number
    shop.sql(own.format("total > 0") + FEWER)
    shop.sql(ALTER + JOINED, build=False)
    found = [shop.store.find_version(number) for number in range(began, shop.store.refresh().number + 1)]
    catalogs = [load_catalog(version).catalog for version in found if version is not None]
    assert len(catalogs) == len(found) > 2
    checks = [sum(one.kind == "check" for one in catalog.relations.values()) for catalog in catalogs]
    assert len(set(checks)) == 1 and checks[0] > 0
    assert all("_next_v" in catalog.relations for catalog in catalogs)
    shop.flush().raise_for_errors()
    assert read(shop, "SELECT * FROM v") == compute(shop, JOINED)
    assert read(shop, "SELECT * FROM d") == compute(shop, FEWER)
