"""Sources over Delta tables: views of every kind follow the changes, whose rows the store does not keep."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.connectors.delta import source as delta_source
from engine.connectors.sources import poll_all
from engine.errors import SourceError, TidelineError
from engine.hummock import Commit
from engine.runtime.domains import flush_run
from engine.runtime.domains.domain_run import DomainRun
from engine.runtime.epoch.spark_executor import SparkExecutor
from engine.session import Session
from tests.connectors.delta_tables import FEED, DeltaTable, SparkDeltaTable
from tests.connectors.passing import ITEMS, VIEWS, bag, check_views, create_views, kept, poll
from tests.connectors.test_delta_random import JOIN, SUM, Commits, by_batch
from tests.long_rest import mark_rest_long


class World:
    """Two Delta tables with a source each, `s` and `u`, and a table `t`."""

    def __init__(self, session: Session, spark: SparkSession, folder: Path, properties: str = FEED) -> None:
        self.session, self.lakes = session, {}
        for name in ("s", "u"):
            self.lakes[name] = DeltaTable(spark, folder / name).make(ITEMS, properties=properties)
            session.sql(
                f"CREATE SOURCE {name} ({ITEMS}, PRIMARY KEY (id)) "
                f"WITH (connector = 'delta', path = '{folder / name}')"
            )
        session.sql("CREATE TABLE t (g BIGINT PRIMARY KEY, name STRING)")
        session.sql("INSERT INTO t VALUES (0, 'zero'), (1, 'one'), (2, 'two'), (7, 'seven')")

    def there(self) -> dict[str, pa.Table]:
        """Return what the Delta tables and the table hold."""
        found = {name: one.arrow() for name, one in self.lakes.items()}
        rows = self.session.sql("SELECT * FROM t")
        assert rows is not None
        return {**found, "t": rows}

    def begin(self) -> None:
        """Write first rows."""
        self.lakes["s"].insert("SELECT id, id % 3, id % 7, concat('v', id % 4) FROM range(20)")
        self.lakes["s"].insert("VALUES (100, NULL, 3, NULL), (101, 1, NULL, 'v1')")
        self.lakes["u"].insert("SELECT id + 50, id % 2, id % 5, 'u' FROM range(8)")

    def change(self, step: int) -> None:
        """Insert, update and delete."""
        self.lakes["s"].sql(
            f"UPDATE {{}} SET x = x + {step}, v = 'w{step}' WHERE id % 4 = {step}",
            f"DELETE FROM {{}} WHERE id = {5 + step}",
            f"INSERT INTO {{}} VALUES ({200 + step}, {step}, 9, 'n'), ({5 + step}, 2, 2, 'again')",
            f"UPDATE {{}} SET id = id + 1000 WHERE id = {step}",
        )
        self.lakes["u"].sql(
            f"UPDATE {{}} SET g = g + 1 WHERE id = {51 + step}",
            f"DELETE FROM {{}} WHERE id = {56 + step % 2}",
        )
        self.session.sql(f"UPDATE t SET name = 'n{step}' WHERE g = {step % 3}")


SOME = {name: VIEWS[name] for name in ("filtered", "grouped", "with_table", "two_sources", "first_rows")}
FEW = {name: VIEWS[name] for name in ("grouped", "two_sources")}


@pytest.mark.parametrize(("properties", "views"), [(FEED, VIEWS), ("", SOME)], ids=["feed", "no feed"])
@pytest.mark.long
def test_views_of_every_kind_follow_a_delta_table(
    session: Session, spark: SparkSession, tmp_path: Path, properties: str, views: dict[str, str]
) -> None:
    world = World(session, spark, tmp_path, properties)
    create_views(session, views)
    world.begin()
    poll(session)
    check_views(session, world.there(), views)
    create_views(session, views, "_late")
    check_views(session, world.there(), views, "_late")
    world.change(0)
    poll(session)
    check_views(session, world.there(), views)
    check_views(session, world.there(), views, "_late")
    session.store.gc(grace_seconds=0)
    assert [kept(session, name) for name in ("s", "u")] == [(0, 0), (0, 0)]
    world.change(1)
    poll(session)
    check_views(session, world.there(), views)
    check_views(session, world.there(), views, "_late")


@pytest.fixture
def world(session: Session, spark: SparkSession, tmp_path: Path) -> World:
    return World(session, spark, tmp_path)


@pytest.mark.long
def test_a_query_reads_the_version_that_was_taken_last(world: World) -> None:
    session = world.session
    assert session.sql("SELECT * FROM s").num_rows == 0
    world.begin()
    poll(session)
    before = world.there()["s"]
    world.change(0)
    assert bag(session.sql("SELECT * FROM s")) == bag(before)
    poll(session)
    assert bag(session.sql("SELECT * FROM s")) == bag(world.there()["s"])
    assert session.sql("SELECT count(*) AS n FROM s JOIN t ON s.g = t.g WHERE s.x > 100").to_pylist() == [
        {"n": 0}
    ]


@pytest.mark.long
@pytest.mark.parametrize("connector", mark_rest_long(["SOURCE", "TABLE"]))
def test_without_a_feed_a_zero_that_changes_its_sign_is_a_change(
    session: Session, spark: SparkSession, tmp_path: Path, connector: str
) -> None:
    lake = DeltaTable(spark, tmp_path / "s").make("id BIGINT, x DOUBLE, xs ARRAY<FLOAT>", properties="")
    lake.insert("VALUES (1, 0.0D, NULL), (2, 0.0D, array(0F)), (3, 1.5D, array(1F))")
    session.sql(
        f"CREATE {connector} s (id BIGINT PRIMARY KEY, x DOUBLE, xs ARRAY<FLOAT>) "
        f"WITH (connector = 'delta', path = '{tmp_path / 's'}')"
    )
    session.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, CAST(x AS STRING) AS x, CAST(xs AS STRING) AS xs FROM s"
    )
    poll(session)
    session.flush().raise_for_all()
    lake.sql("UPDATE {} SET x = -0.0D WHERE id = 1", "UPDATE {} SET xs = array(-0F) WHERE id = 2")
    poll(session)
    session.flush().raise_for_all()
    found = session.sql("SELECT * FROM v ORDER BY id")
    assert found is not None
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (1, "-0.0", None),
        (2, "0.0", "[-0.0]"),
        (3, "1.5", "[1.0]"),
    ]


@pytest.mark.long
def test_many_versions_at_once_are_one_change_of_each_key(world: World) -> None:
    world.begin()
    poll(world.session)
    create_views(world.session, FEW)
    for step in range(3):
        world.change(step)
    world.lakes["s"].sql(
        "DELETE FROM {} WHERE id < 4",
        "INSERT INTO {} SELECT id, 1, 1, 'back' FROM range(4)",
        "UPDATE {} SET v = v",
    )
    reports = {report.table: report for report in poll(world.session)}
    assert reports["s"].warnings == ()
    check_views(world.session, world.there(), FEW)


@pytest.mark.long
def test_rules_that_recompute_keys_arrange_what_they_look_up(world: World) -> None:
    world.begin()
    poll(world.session)
    for name, text in SOME.items():
        world.session.sql(f"CREATE MATERIALIZED VIEW {name} WITH (rules = 'reference') AS {text}")
    check_views(world.session, world.there(), SOME)
    world.change(1)
    poll(world.session)
    check_views(world.session, world.there(), SOME)


@pytest.mark.long
def test_rows_without_a_key_are_set_aside_and_a_key_that_stands_twice_stops_the_source(world: World) -> None:
    session, there = world.session, world.lakes["s"]
    world.begin()
    poll(session)
    create_views(session, {"filtered": VIEWS["filtered"]})
    there.insert("VALUES (NULL, 1, 9, 'no key')")
    (report, _) = poll(session)
    assert (report.dead_rows, report.rows) == (1, 0)
    assert session.sql("SELECT count(*) AS n FROM s WHERE id IS NULL").to_pylist() == [{"n": 0}]
    there.sql("DELETE FROM {} WHERE id IS NULL", "INSERT INTO {} VALUES (70, 1, 9, 'a'), (70, 1, 9, 'b')")
    (report, *_) = poll_all(session.catalog, session.store, ("s",), lambda: session.computing)
    assert report.error is not None and "its key occurs more than once in the Delta table: 70" in report.error
    there.sql("DELETE FROM {} WHERE id = 70")
    poll(session)
    check_views(session, world.there(), {"filtered": VIEWS["filtered"]})


@pytest.mark.long
def test_a_view_over_a_version_with_a_key_twice_is_refused(world: World) -> None:
    world.lakes["s"].insert("VALUES (1, 1, 1, 'a'), (1, 1, 1, 'b')")
    poll(world.session)
    with pytest.raises(TidelineError, match="its key occurs more than once in the Delta table: 1"):
        create_views(world.session, {"filtered": VIEWS["filtered"]})
    assert "filtered" not in world.session.catalog.relations


@pytest.mark.long
def test_a_version_that_is_gone_is_told_to_who_needs_it(world: World) -> None:
    session, there = world.session, world.lakes["s"]
    world.begin()
    poll(session)
    create_views(session, {"grouped": VIEWS["grouped"]})
    there.sql("UPDATE {} SET x = 1")
    poll(session)
    there.sql("RESTORE TABLE {} TO VERSION AS OF 2")
    (report, *_) = poll_all(session.catalog, session.store, ("s",), lambda: session.computing)
    assert report.error is not None and "DROP SOURCE s CASCADE" in report.error
    assert "RESYNC" not in report.error
    session.flush().raise_for_all()
    shutil.rmtree(there.path)
    with pytest.raises(TidelineError, match=r"source s|Delta table"):
        create_views(session, {"filtered": VIEWS["filtered"]})
    assert session.sql("SELECT sum(n) AS n FROM grouped").to_pylist() == [{"n": 22}]
    session.sql("DROP SOURCE s CASCADE")


@pytest.mark.parametrize(
    "place",
    [
        pytest.param("load", marks=pytest.mark.long),
        pytest.param("compute", marks=pytest.mark.long),
        pytest.param("let_go", marks=pytest.mark.long),
    ],
)
def test_a_build_that_ends_half_way_is_gone_on_with_by_another_process(
    world: World, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    session = world.session
    world.begin()
    poll(session)
    for name, text in FEW.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} WITH (background = 'true') AS {text}")

    def ends(*_: object, **__: object) -> None:
        raise SourceError("the process ended")

    with monkeypatch.context() as patched:
        if place == "load":
            patched.setattr(SparkExecutor, "load", ends)
        elif place == "compute":
            patched.setattr(DomainRun, "compute", ends)
        else:
            patched.setattr(flush_run, "release_sources", ends)
        session.flush()
    world.change(0)
    with Session(session.url, session.spark) as other:
        poll(other)
        for _ in range(
            20
        ):  # views in the background are built in as many steps as the time of a flush allows
            if not any(view.waits_for for view in other.flush().views):
                break
        check_views(other, world.there(), FEW)
        world.change(1)
        poll(other)
        check_views(other, world.there(), FEW)
        other.store.gc(grace_seconds=0)
        assert [kept(other, name) for name in ("s", "u")] == [(0, 0), (0, 0)]
        assert not any(other.store.refresh().tables[name].pins for name in ("s", "u"))


@pytest.mark.long
def test_a_view_whose_changes_were_let_go_of_is_computed_anew_from_the_source(world: World) -> None:
    session = world.session
    world.begin()
    poll(session)
    create_views(session, FEW)
    acks = {name: dict.fromkeys(session.store.refresh().tables[name].acks) for name in ("s", "u")}
    session.store.commit(Commit(acks=acks))
    world.change(1)
    poll(session)  # nobody follows: only the offset moves
    assert kept(session, "s") == (0, 0)
    report = session.flush()
    report.raise_for_all()
    assert any(view.rebuilt for view in report.views)
    check_views(session, world.there(), FEW)
    world.change(0)
    poll(session)
    check_views(session, world.there(), FEW)


@pytest.mark.long
def test_epochs_in_flight_over_an_object_store(s3_url: str, spark: SparkSession, tmp_path: Path) -> None:
    with Session(s3_url, spark, epochs_in_flight=3) as session:
        world = World(session, spark, tmp_path)
        world.begin()
        poll(session)
        create_views(session, FEW)
        for step in range(2):
            world.change(step)
            poll(session)
            session.flush(wait=False)
        check_views(session, world.there(), FEW)


class Restored(Commits):
    """Random commits to a Delta table with a feed, which no source can follow through a RESTORE."""

    def restore(self) -> None:
        self.update()


@pytest.mark.parametrize(
    ("kind", "seed", "rounds"),
    [
        pytest.param(DeltaTable, 0, 5, id="short-0", marks=pytest.mark.long),
        *(
            pytest.param(SparkDeltaTable, n, 30, id=f"long-{n}", marks=pytest.mark.oracle)
            for n in range(10, 12)
        ),
    ],
)
def test_views_over_sources_of_random_delta_tables(
    session: Session,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[DeltaTable],
    seed: int,
    rounds: int,
) -> None:
    chance = random.Random(seed)
    columns = "id BIGINT, k BIGINT, v STRING, n BIGINT"
    tables = {
        name: kind(spark, tmp_path / name).make(columns, properties=said)
        for name, said in (("fed", FEED), ("plain", ""))
    }
    commits = {"fed": Restored(tables["fed"], chance), "plain": Commits(tables["plain"], chance)}
    for name, there in tables.items():
        commits[name].append()
        session.sql(
            f"CREATE SOURCE {name} (PRIMARY KEY (id)) WITH (connector = 'delta', path = '{there.path}')"
        )
    queries = {
        "joined": JOIN,
        "summed": SUM,
        "same": "SELECT id, k, v, n FROM fed",
        "too": "SELECT id, k, v, n FROM plain",
    }
    for name, text in queries.items():
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
    done: list[tuple[str, str]] = []
    for n in range(rounds):
        for name in chance.choices(list(tables), k=chance.randrange(1, 6)):
            done.append((name, commits[name].commit()))
        monkeypatch.setattr(delta_source, "SMALL_BYTES", chance.choice([0, 4 << 20]))
        poll(session)
        session.flush().raise_for_all()
        queries[f"late_{n}"] = JOIN if n % 2 else SUM
        session.sql(f"CREATE MATERIALIZED VIEW late_{n} AS {queries[f'late_{n}']}")
        for name, text in queries.items():
            found = sorted(
                (tuple(row.values()) for row in session.sql(f"SELECT * FROM {name}").to_pylist()), key=repr
            )
            assert found == by_batch(tables, text), (name, done)
        session.sql(f"DROP MATERIALIZED VIEW {next(name for name in queries if name.startswith('late'))}")
        del queries[next(name for name in queries if name.startswith("late"))]


@pytest.mark.long
def test_a_column_that_the_delta_table_loses_stops_the_source_with_what_to_do(world: World) -> None:
    session, there = world.session, SparkDeltaTable(world.session.spark, world.lakes["s"].path)
    world.begin()
    poll(session)
    create_views(session, {"grouped": VIEWS["grouped"]})
    there.sql(
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {} DROP COLUMN v",
        "DELETE FROM {} WHERE id = 1",
    )
    (report, *_) = poll_all(session.catalog, session.store, ("s",), lambda: session.computing)
    assert report.error is not None and "has no column v: DROP SOURCE s CASCADE" in report.error
