"""A model that keeps a Delta table: made, taken away and given another place without computing the view again."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from dagster_tideline.models.asset_spec import build_asset_spec
from dagster_tideline.models.loader import load_models
from engine.meta.status.sinks import list_copies
from tests.connectors.sinks.delta.logs import columns, rows, versions
from tests.connectors.sinks.delta.test_rows import content
from tests.dagster.conftest import Project

TABLE = "CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT);"
BASE = "CREATE MATERIALIZED VIEW base AS SELECT id, v {} AS v FROM t"
VIEW = "CREATE MATERIALIZED VIEW sums {} AS SELECT v, count(*) AS n FROM base GROUP BY v"


def brought(project: Project) -> None:
    result = project.run()
    assert result.success
    project.session.sinks.wait(120)
    report = project.session.flush(sink_seconds=120)
    assert [sink.error for sink in report.sinks] == [None] * len(report.sinks)


def make(project: Project) -> None:
    """Make the models of a table and of a view with a Delta table, and bring rows to it."""
    project.model("t.sql", TABLE)
    project.model("base.sql", BASE.format("+ 0"))
    project.model("sums.sql", f"-- delta: out/sums\n{VIEW.format('')}")
    brought(project)
    project.session.sql("INSERT INTO t VALUES (1, 5), (2, 5), (3, NULL)")
    brought(project)


@pytest.mark.long
def test_a_model_gets_loses_and_moves_its_table_and_the_view_stays(project: Project) -> None:
    session, home = project.session, project.home
    make(project)
    assert rows(home / "out/sums") == content(session, "sums")
    assert {"delta_rows_out", "delta_lag_rows"} <= project.read_metadata("sums").keys()
    assert "delta_rows_out" not in project.read_metadata("base")
    assert project.read_metadata("sums_delta") == {}
    built = session.store.refresh().tables["sums"].table_id

    project.model("sums.sql", VIEW.format(""))
    brought(project)
    assert not list_copies(session.stored, "sums")
    project.model(
        "sums.sql",
        "-- check: n > 0\n"
        + VIEW.format("WITH (connector = 'delta', path = 'moved', delta.partition_by = 'n')"),
    )
    brought(project)
    session.sql("INSERT INTO t VALUES (4, 5)")
    brought(project)
    assert rows(home / "moved") == content(session, "sums")
    assert session.store.refresh().tables["sums"].table_id == built
    assert session.catalog.get("sums").options["checks"] == "n > 0"

    project.model("base.sql", BASE.format("* 2"))
    brought(project)
    assert session.store.refresh().tables["sums"].table_id == built  # it goes on with the difference
    assert rows(home / "moved") == content(session, "sums")
    assert [copy.name for copy in list_copies(session.stored, "sums")] == ["sums_delta"]


@pytest.mark.long
def test_a_model_whose_query_gains_a_column_ends_with_it_in_its_table(project: Project) -> None:
    session, home = project.session, project.home
    make(project)
    wider = VIEW.format("").replace("count(*) AS n", "count(*) AS n, max(id) AS newest")
    project.model("sums.sql", f"-- delta: out/sums\n{wider}")
    brought(project)
    session.sql("INSERT INTO t VALUES (4, 5)")
    brought(project)
    assert columns(home / "out/sums") == ["v", "n", "newest"]
    assert rows(home / "out/sums") == content(session, "sums")
    assert ("5", "3", "4") in content(session, "sums")
    found = versions(home / "out/sums")
    assert found == sorted(set(found))


@pytest.mark.long
def test_views_made_by_hand_come_back_with_their_tables(project: Project) -> None:
    session, home = project.session, project.home
    project.model("t.sql", TABLE)
    project.model("base.sql", BASE.format("+ 0"))
    brought(project)
    session.sql("INSERT INTO t VALUES (1, 5), (2, 6)")
    session.sql(
        "CREATE MATERIALIZED VIEW hand WITH (connector = 'delta', path = 'hand') AS SELECT id, v FROM base"
    )
    project.model("base.sql", BASE.format("* 2"))
    brought(project)
    assert rows(home / "hand") == content(session, "hand")
    assert [copy.name for copy in list_copies(session.stored, "hand")] == ["hand_delta"]


def test_a_table_that_cannot_be_written_fails_the_run_of_its_view(project: Project) -> None:
    project.model("t.sql", TABLE)
    project.model("v.sql", "-- delta: out\nCREATE MATERIALIZED VIEW v AS SELECT id, v FROM t")
    brought(project)
    outside = project.home.parent / f"{project.home.name}-outside"
    (project.home / "out").rename(outside)
    (project.home / "out").symlink_to(outside)
    project.session.sql("INSERT INTO t VALUES (1, 1)")
    result = project.run()
    assert not result.success
    failure = next(
        event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_FAILURE
    )
    assert "v_delta" in failure.event_specific_data.user_failure_data.metadata  # type: ignore[union-attr]
    assert project.contents("v") == [{"id": 1, "v": 1}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"-- delta: out\n{TABLE}", "of a materialized view"),
        ("-- delta:\nCREATE MATERIALIZED VIEW v AS SELECT 1 AS a", "this line names no place"),
        (
            "-- delta: out\nCREATE MATERIALIZED VIEW v WITH (connector = 'delta', path = 'x') AS SELECT 1 AS a",
            "in the header and in WITH",
        ),
        ("-- delat: out\nCREATE MATERIALIZED VIEW v AS SELECT 1 AS a", "write -- delta: …"),
    ],
)
def test_lines_that_mean_nothing_are_told(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "m.sql").write_text(text)
    (model,) = load_models(tmp_path)
    assert model.error is not None and says in model.error and "line 1" in model.error


def test_headers_options_and_python_say_the_same(tmp_path: Path) -> None:
    query = "SELECT 1 AS a"
    (tmp_path / "a.sql").write_text(f"-- delta: out/v\nCREATE MATERIALIZED VIEW a AS {query}")
    (tmp_path / "b.sql").write_text(
        f"CREATE MATERIALIZED VIEW b WITH (connector = 'delta', path = 'out/v') AS {query}"
    )
    (tmp_path / "c.py").write_text(
        "from dagster_tideline import materialized_view\n\n\n"
        f"@materialized_view(connector='delta', path='out/v')\ndef c():\n    return '{query}'\n"
    )
    (tmp_path / "d.sql").write_text(f"-- delta: s3://b/v\nCREATE MATERIALIZED VIEW d AS {query}")
    models = {model.name: model for model in load_models(tmp_path)}
    assert [model.error for model in models.values()] == [None] * 4
    for name in "abc":
        assert models[name].copy == {"connector": "delta", "path": "out/v"}
        assert "deltalake" in build_asset_spec(models[name], None).kinds and models[name].options == {}
    assert models["d"].copy == {"connector": "delta", "url": "s3://b/v"}
