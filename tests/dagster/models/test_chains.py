"""Models over each other that get a column together: none is made anew, and what cannot follow is refused before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dagster_tideline.models.change_plan import plan_models
from dagster_tideline.models.loader import load_models
from dagster_tideline.sync import sync_models
from engine.meta.catalog.successions import list_successions
from engine.session import Session

TABLE = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT);\n"
MV = "CREATE MATERIALIZED VIEW"
OLD = (
    f"{MV} one AS SELECT id, a FROM t; {MV} two AS SELECT id, a FROM one; {MV} three AS SELECT id, a FROM two"
)
NEW = f"{MV} one AS SELECT id, a, b FROM t; {MV} two AS SELECT id, a, b FROM one; {MV} three AS SELECT id, a, b FROM two"


class Project:
    """A folder of models, and the store that follows it."""

    def __init__(self, home: Path, session: Session) -> None:
        self.folder, self.session = home / "assets", session
        self.folder.mkdir()

    def sync(self, text: str) -> dict[str, str]:
        """Let the store hold these models; returns what a plan says before, by model, and checks that it is so."""
        (self.folder / "models.sql").write_text(TABLE + text)
        models = load_models(self.folder)
        plan, report = plan_models(self.session, models), sync_models(self.session, models)
        said = {one.name: "refused" if one.error else one.work for one in plan.changes}
        done = {name: one.work for name, one in report.changes.items()} | dict.fromkeys(
            report.errors, "refused"
        )
        assert {name: work for name, work in said.items() if work != "nothing"} == {
            name: work for name, work in done.items() if work != "nothing"
        }
        self.errors = dict(report.errors)
        return said

    def read(self, name: str) -> list[tuple[object, ...]]:
        found = self.session.sql(f"SELECT * FROM {name} ORDER BY 1")
        assert found is not None
        return [tuple(row.values()) for row in found.to_pylist()]

    def flush(self) -> None:
        for _ in range(3):
            self.session.flush().raise_for_errors()


@pytest.fixture
def project(tmp_path: Path, session: Session) -> Project:
    found = Project(tmp_path, session)
    found.sync(OLD)
    session.sql("INSERT INTO t VALUES (1, 10, 100), (2, 20, 200)")
    session.flush().raise_for_errors()
    return found


def test_a_column_is_carried_through_models_one_run_after_the_other(project: Project) -> None:
    """Each run meets another text: what is being built beside the views goes on, or gives way to what is wanted now."""
    session = project.session
    ids = {name: session.store.version.tables[name].table_id for name in ("one", "two", "three")}
    first, second, _ = NEW.split("; ")
    assert project.sync("; ".join([first, *OLD.split("; ")[1:]]))["one"] == "difference"
    said = project.sync("; ".join([first, second, OLD.split("; ")[2]]))
    assert (said["one"], said["two"], said["three"]) == ("nothing", "difference", "nothing")
    assert project.sync(NEW)["three"] == "difference"
    assert project.read("three") == [(1, 10), (2, 20)]
    other = NEW.replace("b FROM t;", "b + 1 AS b FROM t;")
    said = project.sync(other)
    assert said["one"] == "difference" and {*list_successions(session.store.version)} == {*ids}
    project.flush()
    for name in ids:
        assert project.read(name) == [(1, 10, 101), (2, 20, 201)]
        assert session.store.version.tables[name].table_id == ids[name]
    assert not list_successions(session.store.version)


def test_what_somebody_has_made_over_a_chain_stands_in_the_way_by_name(project: Project) -> None:
    project.sync(NEW)
    project.flush()
    session = project.session
    session.sql(f"{MV} by_hand AS SELECT id, b FROM two")
    session.flush().raise_for_errors()
    number = session.store.refresh().number
    said = project.sync(OLD)
    assert {name for name, work in said.items() if work == "refused"} == {"one", "two", "three"}
    assert "by_hand, which somebody has made over it by hand, could not follow it" in project.errors["two"]
    assert session.store.refresh().number == number
    session.sql("DROP MATERIALIZED VIEW by_hand")
    assert project.sync(OLD)["one"] == "difference"
    project.flush()
    assert project.read("three") == [(1, 10), (2, 20)]


def test_a_change_by_hand_of_what_reads_a_model_goes_on(project: Project) -> None:
    """A view that no model declares has another query that is being built: a change below it plans that anew, not the old one."""
    session = project.session
    session.sql(f"{MV} by_hand AS SELECT id, a FROM three")
    session.flush().raise_for_errors()
    session.sql("ALTER MATERIALIZED VIEW by_hand AS SELECT id, a + 1 AS a FROM three", build=False)
    project.sync(NEW.replace("FROM two", "FROM two WHERE a < 20"))
    project.flush()
    assert project.read("by_hand") == [(1, 11)] and project.read("three") == [(1, 10, 100)]


def test_views_that_read_each_other_the_other_way_round(project: Project, spark: SparkSession) -> None:
    """A model that was read by another reads it now; where that cannot be it is refused, and nothing is lost."""
    turned = f"{MV} two AS SELECT id, a FROM t; {MV} one AS SELECT id, a FROM two; {MV} three AS SELECT id, a FROM two"
    project.sync(turned)
    project.flush()
    for name in ("one", "two", "three"):
        assert project.read(name) == [(1, 10), (2, 20)]
