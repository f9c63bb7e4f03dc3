"""Rows of a view with now() in a condition come and go by themselves; each state of it equals the query with now() as a literal."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_tideline.runs.pending import find_pending
from engine.errors import UnsupportedSql
from engine.runtime.domains.domain_run import DomainRun
from engine.session import Session
from tests.oracle.batch import content
from tests.runtime.clock.worlds import (
    START,
    VIEWS,
    assert_views,
    create_tables,
    moving,
    random_step,
)


def _ids(session: Session, view: str) -> list[int]:
    return sorted(content(session, view).column("id").to_pylist())


LONG = [pytest.param(seed, 40, tuple(VIEWS), marks=pytest.mark.oracle) for seed in range(2, 8)]
"""240 steps together."""


@pytest.mark.parametrize(
    ("seed", "steps", "names"), [(1, 4, ("around", "grouped", "busy", "joined", "ranked")), *LONG]
)
def test_views_equal_duckdb_with_now_as_a_literal_after_random_steps(
    tmp_path: Path, spark: SparkSession, seed: int, steps: int, names: tuple[str, ...]
) -> None:
    chance = random.Random(seed)
    with moving(tmp_path, spark) as (session, clock):
        create_tables(session)
        random_step(session, chance, clock)
        views = {name: VIEWS[name] for name in names}
        for name, query in views.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
        for step in range(steps):
            session.flush().raise_for_errors()
            assert session.lagging() == ()
            assert_views(session, clock, views, f"seed {seed}, step {step}")
            random_step(session, chance, clock)


def test_a_row_leaves_at_its_bound_and_not_a_millisecond_before(tmp_path: Path, spark: SparkSession) -> None:
    with moving(tmp_path, spark) as (session, clock):
        create_tables(session)
        noon = START.replace(tzinfo=None)
        session.sql(
            f"INSERT INTO ev VALUES (1, 1, TIMESTAMP '{noon}'), (2, 1, TIMESTAMP '{noon + timedelta(hours=1)}')"
        )
        session.sql(f"CREATE MATERIALIZED VIEW newest AS {VIEWS['newest']}")
        clock.sleep(3599.999)
        assert session.lagging() == () and not find_pending(session.store, ()).lagging
        assert not session.flush().views[0].deleted
        assert _ids(session, "newest") == [1, 2]
        clock.sleep(0.001)
        assert session.lagging() == ("newest",)
        assert [wait.kind for wait in session.waits()] == ["due"]
        assert find_pending(session.store, ()).lagging == ("newest",)
        assert [step.work for step in session.explain_flush()["newest"].steps] == ["epoch"]
        assert session.flush().views[0].deleted == 1
        assert _ids(session, "newest") == [2]


def test_nothing_is_committed_while_no_row_crosses_a_bound(tmp_path: Path, spark: SparkSession) -> None:
    with moving(tmp_path, spark) as (session, clock):
        create_tables(session)
        session.sql(f"INSERT INTO ev VALUES (1, 1, TIMESTAMP '{START.replace(tzinfo=None)}')")
        session.sql(f"CREATE MATERIALIZED VIEW newest AS {VIEWS['newest']}")
        before = session.store.refresh().number
        for _ in range(3):
            clock.sleep(600)
            session.flush()
        assert session.store.refresh().number == before


@pytest.mark.long
def test_nothing_is_committed_for_views_that_are_not_brought_on(tmp_path: Path, spark: SparkSession) -> None:
    """One that rests, one that is paused, one that failed lately, and what reads them: the time alone is no work for them."""
    with moving(tmp_path, spark) as (session, clock):
        create_tables(session)
        noon = START.replace(tzinfo=None)
        session.sql(f"INSERT INTO ev VALUES (1, 1, TIMESTAMP '{noon}')")
        session.sql(f"CREATE MATERIALIZED VIEW rests WITH (refresh = 'manual') AS {VIEWS['newest']}")
        session.sql(f"CREATE MATERIALIZED VIEW paused AS {VIEWS['newest']}")
        session.sql(
            "CREATE MATERIALIZED VIEW over AS SELECT id FROM paused WHERE ts > now() - INTERVAL '2 hours'"
        )
        session.sql(
            f"CREATE MATERIALIZED VIEW fails AS SELECT 1 / (k - 2) AS q, id FROM ({VIEWS['newest']}) AS x"
        )
        session.pause("paused")
        session.flush().raise_for_errors()
        clock.sleep(60)
        session.sql(f"INSERT INTO ev VALUES (2, 2, TIMESTAMP '{noon}')")
        assert {view.view for view in session.flush().failed} == {"fails"}
        clock.sleep(4000)  # all rows have left by now, and all that failed is due to be tried again
        assert {view.view for view in session.flush(eager=False).views if view.deleted} == {"fails"}
        session.sql(f"INSERT INTO ev VALUES (3, 2, TIMESTAMP '{noon + timedelta(hours=1, minutes=30)}')")
        assert {view.view for view in session.flush(eager=False).failed} == {"fails"}
        before = session.store.refresh().number
        for _ in range(3):
            clock.sleep(0.001)
            session.flush(eager=False)
        assert session.store.refresh().number == before
        assert session.flush().failed  # by hand it is tried at once, at the moment at which it failed
        assert session.store.refresh().number == before
        assert set(session.lagging()) == {"rests", "paused", "over", "fails"}
        session.resume("paused")
        session.flush(eager=False)
        assert session.store.refresh().number > before
        assert (_ids(session, "paused"), _ids(session, "over"), _ids(session, "rests")) == ([3], [3], [1])


def test_a_rerun_after_a_crash_computes_the_moment_of_the_open_barrier(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moving(tmp_path, spark) as (session, clock):
        create_tables(session)
        noon = START.replace(tzinfo=None)
        rows = ", ".join(f"({n}, 1, TIMESTAMP '{noon + timedelta(minutes=n)}')" for n in range(1, 4))
        session.sql(f"INSERT INTO ev VALUES {rows}")
        session.sql(f"CREATE MATERIALIZED VIEW newest AS {VIEWS['newest']}")
        clock.sleep(3660)

        def crash(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as broken:
            broken.setattr(DomainRun, "compute", crash)
            with pytest.raises(KeyboardInterrupt):
                session.flush()
        clock.sleep(60)
        steps = session.explain_flush()["newest"].steps
        session.flush().raise_for_errors()
        assert len(steps) >= 1 and _ids(session, "newest") == [3]
        assert_views(session, clock, {"newest": VIEWS["newest"]}, "after the crash")


def test_between_two_crossings_a_view_has_content_and_after_one_it_has_none_until_it_is_brought_on(
    tmp_path: Path, spark: SparkSession
) -> None:
    with moving(tmp_path, spark) as (session, clock):
        create_tables(session)
        session.sql(f"INSERT INTO ev VALUES (1, 1, TIMESTAMP '{START.replace(tzinfo=None)}')")
        session.sql(f"CREATE MATERIALIZED VIEW newest AS {VIEWS['newest']}")
        session.sql("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM newest")
        clock.sleep(1800)
        session.sql("INSERT INTO dim VALUES (1, 1, NULL)")
        assert session.common_epoch("newest", "dim") == session.store.version.epoch
        clock.sleep(1800)
        last = session.store.version.epoch
        session.sql("INSERT INTO dim VALUES (2, 1, NULL)")
        crossed = session.store.version.epoch
        assert last <= session.common_epoch("newest", "dim") < crossed
        session.flush().raise_for_errors()
        assert session.common_epoch("newest", "dim", "counted") >= crossed
        assert session.sql("SELECT n FROM counted").to_pylist() == [{"n": 0}]  # type: ignore[union-attr]


def test_a_view_that_is_built_step_by_step_follows_the_clock_from_its_snapshot_on(
    tmp_path: Path, spark: SparkSession
) -> None:
    chance = random.Random(5)
    with moving(tmp_path, spark) as (session, clock):
        session._runner.backfill.least_rows = 5
        create_tables(session)
        for _ in range(4):
            random_step(session, chance, clock)
        some = {name: VIEWS[name] for name in ("around", "grouped", "joined")}
        for name, query in some.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
        for step in range(4):
            session.flush().raise_for_errors()
            assert_views(session, clock, some, f"step {step}")
            clock.sleep(1800)


def test_a_renamed_view_goes_on_and_a_dropped_one_leaves_no_entry(
    tmp_path: Path, spark: SparkSession
) -> None:
    with moving(tmp_path, spark) as (session, clock):
        create_tables(session)
        session.sql(f"INSERT INTO ev VALUES (1, 1, TIMESTAMP '{START.replace(tzinfo=None)}')")
        session.sql(f"CREATE MATERIALIZED VIEW newest AS {VIEWS['newest']}")
        session.sql("ALTER MATERIALIZED VIEW newest RENAME TO latest")
        clock.sleep(3600)
        assert session.lagging() == ("latest",)
        session.flush().raise_for_errors()
        assert _ids(session, "latest") == []
        session.sql("DROP MATERIALIZED VIEW latest")
        assert not [key for key in session.store.refresh().catalog if key.startswith("crossing/")]


def test_the_cost_of_an_epoch_follows_the_rows_that_cross(tmp_path: Path, spark: SparkSession) -> None:
    with moving(tmp_path, spark) as (session, clock):
        create_tables(session)
        noon = START.replace(tzinfo=None)
        session.sql(
            "INSERT INTO ev SELECT n, n % 5, TIMESTAMP '" + str(noon) + "' + n * INTERVAL '1 second' "
            "FROM generate_series(1, 2000) AS s(n)"
        )
        session.sql(f"CREATE MATERIALIZED VIEW newest AS {VIEWS['newest']}")
        clock.sleep(3600 + 10)
        report = session.flush().views[0]
        assert (report.deleted, report.rows_in) == (
            10,
            20,
        )  # the rows that cross, and what their state says to the view
        assert len(_ids(session, "newest")) == 1990


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT id, now() AS n FROM ev", "in a condition of its own"),
        ("SELECT id FROM ev WHERE ts > now() OR k = 1", "in a condition of its own"),
        ("SELECT id FROM ev WHERE ts > now() - INTERVAL '1 month'", "now() < ts + INTERVAL '1' MONTH"),
        ("SELECT e.id FROM ev e LEFT JOIN dim d ON d.k = e.k AND e.ts > now()", "a left join"),
        ("SELECT id FROM ev WHERE k > now()", "compare a timestamp"),
        ("SELECT id FROM ev WHERE now() > now() - INTERVAL '1 hour'", "on one side"),
        ("SELECT count(*) FILTER (WHERE ts > now()) AS n FROM ev", "in a condition of its own"),
    ],
)
def test_now_elsewhere_is_refused_with_its_place_and_a_remedy(
    tmp_path: Path, spark: SparkSession, query: str, words: str
) -> None:
    with moving(tmp_path, spark) as (session, _):
        create_tables(session)
        with pytest.raises(UnsupportedSql) as refused:
            session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert words in str(refused.value) and "^" in str(refused.value)


def test_a_view_that_is_cut_into_partitions_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    with moving(tmp_path, spark) as (session, _):
        create_tables(session)
        with pytest.raises(
            UnsupportedSql, match=r"cannot be divided by partition_by = 'k': a filter on now\(\)"
        ):
            session.sql(f"CREATE MATERIALIZED VIEW v WITH (partition_by = 'k') AS {VIEWS['newest']}")
