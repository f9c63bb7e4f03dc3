"""Changed models: one commit or nothing, rows and delivery positions that stay, and what somebody made by hand that comes back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_tideline.models.loader import Model
from dagster_tideline.models.replacement import group_changed
from dagster_tideline.sync import SyncReport, plan_sync, sync_models
from engine.errors import SubscriptionError
from engine.meta.catalog.stored_catalog import list_definitions
from engine.meta.status.sinks import read_sink_state
from engine.session import Session

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)"
MINE = "CREATE MATERIALIZED VIEW mine AS SELECT a, count(*) AS c FROM m GROUP BY a"


@pytest.fixture
def session(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "store").as_uri(), spark, dialect="postgres") as made:
        yield made


def model(name: str, text: str, *reads: str, kind: str = "materialized view") -> Model:
    return Model(name, kind, text, f"{name}.sql", "postgres", reads=reads)


def sync(session: Session, *views: Model) -> SyncReport:
    return sync_models(session, [model("t", TABLE, kind="table"), *views])


def view(query: str) -> Model:
    return model("m", f"CREATE MATERIALIZED VIEW m AS {query}", "t")


def rows(session: Session, query: str) -> list[tuple[object, ...]]:
    found = session.sql(query)
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=str)


def delivered(tmp_path: Path) -> list[dict[str, object]]:
    files = sorted((tmp_path / "out").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def made(session: Session, tmp_path: Path, query: str = "SELECT id, a FROM t") -> None:
    """Make a model's view, and by hand a view and a sink over it, and let the sink deliver."""
    assert not sync(session, view(query)).errors
    session.sql("INSERT INTO t VALUES (1, 10, 100), (2, 10, 200), (3, 30, 300)")
    session.sql(MINE)
    session.sql(
        f"CREATE SINK out FROM m WITH (connector = 'file', path = '{tmp_path}/out', format = 'jsonl')"
    )
    session.flush().raise_for_errors()


def test_a_view_gets_another_query_and_only_the_difference_goes_on(session: Session, tmp_path: Path) -> None:
    made(session, tmp_path)
    before, start = session.store.version, read_sink_state(session.store.version, "out").start
    found = sync(session, view("SELECT id, CASE WHEN id = 3 THEN 31 ELSE a END AS a FROM t"))
    assert (found.errors, found.changed, found.dropped) == ({}, ("m",), ())
    assert session.store.version.number == before.number + 1
    assert rows(session, "SELECT id, a FROM m") == [
        (1, 10),
        (2, 10),
        (3, 30),
    ]  # as it was, until it is computed
    assert not sync(session, view("SELECT id, CASE WHEN id = 3 THEN 31 ELSE a END AS a FROM t")).changed
    report = session.flush()
    report.raise_for_errors()
    assert report["m"].rebuilt == (
        "m has got another query, or is computed anew: the difference was committed"
    )
    assert rows(session, "SELECT id, a FROM m") == [(1, 10), (2, 10), (3, 31)]
    assert rows(session, "SELECT a, c FROM mine") == [(10, 2), (31, 1)]
    assert [(one["_op"], one["id"], one["a"]) for one in delivered(tmp_path)[3:]] == [("update", 3, 31)]
    assert read_sink_state(session.store.version, "out").start == start
    session.sql("INSERT INTO t VALUES (4, 40, 400)")
    session.flush().raise_for_errors()
    assert rows(session, "SELECT id, a FROM m")[-1] == (4, 40) and delivered(tmp_path)[-1]["id"] == 4
    assert not plan_sync(
        session.catalog, [view("SELECT id, CASE WHEN id = 3 THEN 31 ELSE a END AS a FROM t")]
    ).change


def test_where_its_key_is_another_all_that_reads_it_comes_back_in_the_same_commit(
    session: Session, tmp_path: Path
) -> None:
    made(session, tmp_path)
    session.sql("COMMENT ON MATERIALIZED VIEW mine IS 'counts'")
    session.sql("CREATE INDEX by_a ON m (a)")
    session.sql("ALTER SINK out PAUSE")
    before = session.store.version.number
    found = sync(session, view("SELECT b, a, min(id) AS id FROM t GROUP BY b, a"))
    assert (found.errors, found.changed) == ({}, ("m",))
    assert set(found.dropped) == {"m", "mine", "out", "by_a"}
    assert session.store.version.number == before + 1
    assert (
        session.catalog.get("mine").comment == "counts"
        and read_sink_state(session.store.version, "out").paused
    )
    session.flush().raise_for_errors()
    assert rows(session, "SELECT a, c FROM mine") == [(10, 2), (30, 1)]
    session.sql("ALTER SINK out RESUME")
    session.flush().raise_for_errors()
    assert [one.get("b") for one in delivered(tmp_path)[:3]] == [None] * 3
    assert sorted(one["b"] for one in delivered(tmp_path)[3:]) == [100, 200, 300]  # type: ignore[type-var]


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_view_with_a_gate_is_not_made_anew_with_what_it_reads(session: Session, by_hand: bool) -> None:
    gated = "CREATE MATERIALIZED VIEW top WITH (gate = 'rows_changed = 0') AS SELECT a, count(*) AS c FROM m GROUP BY a"
    models = () if by_hand else (model("top", gated, "m"),)
    assert not sync(session, view("SELECT id, a FROM t"), *models).errors
    session.sql("INSERT INTO t VALUES (1, 10, 100), (2, 10, 200), (3, 30, 300)")
    if by_hand:
        session.sql(gated)
    session.flush().raise_for_errors()
    before = session.store.version.number
    found = sync(session, view("SELECT b, a, min(id) AS id FROM t WHERE id > 1 GROUP BY b, a"), *models)
    assert "top would be made anew, and the gate of its change cannot be asked: m, which" in found.errors["m"]
    assert (found.changed, found.dropped) == ((), ())
    assert session.store.refresh().number == before
    assert rows(session, "SELECT a, c FROM top") == [(10, 2), (30, 1)]
    if not by_hand:
        plain = model("top", gated.replace(" WITH (gate = 'rows_changed = 0')", ""), "m")
        assert not sync(
            session, view("SELECT b, a, min(id) AS id FROM t WHERE id > 1 GROUP BY b, a"), plain
        ).errors
        session.flush().raise_for_errors()
        assert rows(session, "SELECT a, c FROM top") == [(10, 1), (30, 1)]


def test_where_columns_are_others_an_index_and_all_that_reads_it_stay(
    session: Session, tmp_path: Path
) -> None:
    made(session, tmp_path)
    session.sql("CREATE INDEX by_a ON m (a)")
    found = sync(session, view("SELECT id, a, b FROM t"))
    assert (found.errors, found.changed, found.dropped) == ({}, ("m",), ())
    session.flush().raise_for_errors()
    assert rows(session, "SELECT a, c FROM mine") == [(10, 2), (30, 1)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT id, nosuch FROM t", "nosuch"),
        ("SELECT id, a::text AS a FROM m", "m would read itself"),
        ("SELECT a AS id, c::int AS a FROM mine", "mine is computed from it"),
        ("SELECT id, b FROM t", "mine, which somebody has made over it by hand, could not follow it"),
    ],
)
def test_what_is_refused_changes_nothing(session: Session, tmp_path: Path, query: str, message: str) -> None:
    made(session, tmp_path)
    before = session.store.refresh()
    found = sync(session, view(query))
    assert message in found.errors["m"] and "m stays as it was" in found.errors["m"]
    assert (found.changed, found.dropped) == ((), ())
    assert session.store.refresh().number == before.number
    assert not sync(session, view("SELECT id, a FROM t")).errors
    assert session.store.refresh().number == before.number


def test_one_refused_model_holds_up_no_change_of_another(session: Session) -> None:
    def views(n: int, wrong: str) -> list[Model]:
        return [
            view(f"SELECT id, {wrong} FROM t"),
            model("n", f"CREATE MATERIALIZED VIEW n AS SELECT id, a + {n} AS a FROM t", "t"),
        ]

    assert not sync(session, *views(0, "a")).errors
    session.sql("INSERT INTO t VALUES (1, 10, 100)")
    session.flush().raise_for_errors()
    found = sync(session, *views(5, "nosuch"))
    assert set(found.errors) == {"m"} and found.changed == ("n",)
    session.flush().raise_for_errors()
    assert rows(session, "SELECT a FROM n") == [(15,)]


def test_readers_of_a_plain_view_get_its_new_text(session: Session, tmp_path: Path) -> None:
    def plain(more: str) -> Model:
        return model("p", f"CREATE VIEW p AS SELECT id, a{more} AS a FROM t", "t", kind="view")

    over = model("m", "CREATE MATERIALIZED VIEW m AS SELECT id, a FROM p", "p")
    assert not sync(session, plain(""), over).errors
    session.sql("INSERT INTO t VALUES (1, 10, 100)")
    session.sql(MINE)
    session.flush().raise_for_errors()
    table = session.store.version.tables["m"].table_id
    found = sync(session, plain(" + 1"), over)
    assert (found.errors, found.changed, found.dropped) == ({}, ("p",), ())
    session.flush().raise_for_errors()
    assert rows(session, "SELECT * FROM mine") == [(11, 1)]
    assert session.store.version.tables["m"].table_id == table


SHAPES = {
    "group": [
        "SELECT a, sum(b) AS n FROM t GROUP BY a",
        "SELECT a, max(b)::bigint AS n FROM t GROUP BY a",
        "SELECT a, count(*) AS n FROM t WHERE b > 1 GROUP BY a",
    ],
    "join": [
        "SELECT t.id, u.v FROM t JOIN u ON t.a = u.k",
        "SELECT t.id, u.v FROM t JOIN u ON t.b = u.k",
        "SELECT t.id, u.v FROM t JOIN u ON t.a = u.k WHERE u.v <> 'x'",
    ],
    "rows": [
        "SELECT id, a FROM t WHERE a > 1",
        "SELECT id, a FROM (SELECT *, row_number() OVER (PARTITION BY a ORDER BY b, id) AS r FROM t) s WHERE r = 1",
        "SELECT id, a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.b)",
        "SELECT id, (sum(a) OVER (ORDER BY id))::int AS a FROM t",
    ],
    "one": [
        "SELECT sum(a) AS n FROM t",
        "SELECT count(*) AS n FROM t",
        "SELECT sum(b) AS n FROM t WHERE a > 2",
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_whatever_query_it_had_a_view_has_the_rows_of_the_one_that_it_has(
    session: Session, shape: str
) -> None:
    queries = SHAPES[shape]
    assert not sync(session, view("SELECT 1 AS one")).errors
    session.sql("CREATE TABLE u (k INT PRIMARY KEY, v TEXT)")
    session.sql("INSERT INTO u VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    values = [(n, n % 4, n * 7 % 5) for n in range(20)]
    for n, query in enumerate([*queries, *queries[:-1]]):
        found = sync(session, view(query))
        assert found.errors == {}
        if n % 2:
            session.sql(f"DELETE FROM t WHERE id = {n}")
        for at in values[n * 3 : n * 3 + 3]:
            session.sql(f"INSERT INTO t VALUES {at}")
        session.flush().raise_for_errors()
        assert rows(session, "SELECT * FROM m") == rows(session, query), query
        session.sql(f"UPDATE t SET b = b + 1, a = a + 1 WHERE id % 3 = {n % 3}")
        session.flush().raise_for_errors()
        assert rows(session, "SELECT * FROM m") == rows(session, query), query


@pytest.mark.long
def test_killed_after_any_manifest_all_is_there_and_the_next_sync_goes_on(
    session: Session, tmp_path: Path, spark: SparkSession
) -> None:
    made(session, tmp_path)
    first = session.store.version.number
    wanted = [
        view("SELECT id, a, b FROM t"),
        model("other", "CREATE MATERIALIZED VIEW other AS SELECT a FROM m", "m"),
    ]
    assert not sync(session, *wanted).errors
    session.flush().raise_for_errors()
    last = session.store.version.number
    assert last > first + 1
    for number in range(first, last):
        folder = tmp_path / f"killed-{number}"
        shutil.copytree(tmp_path / "store", folder)
        for manifest in (folder / "manifest").iterdir():
            if manifest.name.isdigit() and int(manifest.name) > number:
                manifest.unlink()
        with Session(folder.as_uri(), spark, dialect="postgres") as again:
            assert again.store.version.number == number
            assert {"m", "mine", "out"} <= again.catalog.relations.keys()
            assert not sync(again, *wanted).errors
            again.flush().raise_for_errors()
            assert rows(again, "SELECT * FROM m") == rows(session, "SELECT * FROM m")
            assert rows(again, "SELECT * FROM mine") == rows(session, "SELECT * FROM mine")
            assert (
                list_definitions(again.store.version).keys() == list_definitions(session.store.version).keys()
            )


def test_changes_that_meet_in_a_reader_are_one(session: Session) -> None:
    for text in (
        TABLE,
        "CREATE TABLE u (k INT PRIMARY KEY)",
        "CREATE VIEW v AS SELECT id FROM t",
        "CREATE VIEW w AS SELECT k FROM u",
        "CREATE VIEW x AS SELECT id FROM v JOIN w ON id = k",
        "CREATE VIEW y AS SELECT a FROM t",
    ):
        session.sql(text)
    assert sorted(map(sorted, group_changed(session.catalog, ["v", "w", "y"]))) == [["v", "w"], ["y"]]


def test_a_sink_of_a_query_of_its_own_follows_the_plain_view_that_it_reads(
    session: Session, tmp_path: Path
) -> None:
    def plain(query: str) -> Model:
        return model("p", f"CREATE VIEW p AS {query}", "t", kind="view")

    assert not sync(session, plain("SELECT id, a FROM t WHERE a < 20")).errors
    session.sql("INSERT INTO t VALUES (1, 10, 100), (2, 10, 200), (3, 30, 300)")
    session.sql(
        f"CREATE SINK out AS SELECT * FROM p WITH (connector = 'file', path = '{tmp_path}/out', format = 'jsonl')"
    )
    session.flush().raise_for_errors()
    assert sorted(str(one["id"]) for one in delivered(tmp_path)) == ["1", "2"]
    start = read_sink_state(session.store.version, "out").start
    found = sync(session, plain("SELECT id, a FROM t WHERE id <> 2"))
    assert (found.errors, found.changed, found.dropped) == ({}, ("p",), ())
    session.flush().raise_for_errors()
    assert sorted((one["_op"], one["id"]) for one in delivered(tmp_path)[2:]) == [
        ("delete", 2),
        ("insert", 3),
    ]
    assert read_sink_state(session.store.version, "out").start == start
    found = sync(session, plain("SELECT id, b FROM t WHERE id <> 2"))
    assert (found.errors, found.changed, found.dropped) == ({}, ("p",), ("out",))
    session.flush().raise_for_errors()
    assert sorted((one["id"], one["b"]) for one in delivered(tmp_path)[4:]) == [(1, 100), (3, 300)]


def test_a_subscription_of_a_view_follows_the_difference_and_is_told_of_one_that_is_made_anew(
    session: Session, tmp_path: Path
) -> None:
    made(session, tmp_path)
    session.sql("CREATE SUBSCRIPTION news FROM m WITH (retention = '2 days')")
    assert not sync(session, view("SELECT id, CASE WHEN id = 3 THEN 31 ELSE a END AS a FROM t")).errors
    session.flush().raise_for_errors()
    (item,) = session.subscribe("news")
    assert item.changes.to_pylist() == [
        {"id": 3, "a": 30, "op": "UpdateDelete"},
        {"id": 3, "a": 31, "op": "UpdateInsert"},
    ]
    found = sync(session, view("SELECT a, max(id) AS id FROM t GROUP BY a"))
    assert found.errors == {} and "news" in found.dropped
    session.flush().raise_for_errors()
    with pytest.raises(SubscriptionError, match=r"m was made anew.*FULL"):
        session.subscribe("news")
    shown = session.sql("SHOW SUBSCRIPTIONS").to_pylist()[0]
    assert (shown["phase"], shown["retention"]) == ("lapsed", "2 days")
    (item,) = session.subscribe("news", since="full")
    assert item.snapshot and item.changes.num_rows == 2
    session.sql("INSERT INTO t VALUES (4, 40, 400)")
    session.flush().raise_for_errors()
    (item,) = session.subscribe("news")
    assert item.changes.to_pylist() == [{"a": 40, "id": 4, "op": "Insert"}]
