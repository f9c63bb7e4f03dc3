"""Samples of views: right ones have no differences, whatever their query; a wrong, a missing and a needless row are found."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import SqlError
from engine.hummock import Delete, Put
from engine.meta.status.sampled_rows import ALL, TIMES
from engine.runtime.answers.narrow_evaluation import NarrowEvaluation, NarrowRows
from engine.runtime.answers.tables_read import Wanted
from engine.runtime.oracle import view_samples
from engine.runtime.oracle.sampling import SampleReport, Sampling
from engine.session import Session
from engine.sql.plan import Node
from tests.runtime.oracle.conftest import VIEWS, create_views


def sample(session: Session, *views: str, seconds: float = 60.0) -> dict[str, SampleReport]:
    """Take samples until nothing is left to compare, or for so many seconds."""
    found = Sampling(session.store, lambda: session.computing, views).run(seconds)
    return {one.view: one for one in found}


def test_right_views_have_no_differences_and_rest_until_they_change(project: Session) -> None:
    create_views(project, *VIEWS)
    found = sample(project)
    assert set(found) == set(VIEWS)
    assert {name: one.reason for name, one in found.items() if not one.passed} == {}
    assert {name: one.differences for name, one in found.items() if one.differences} == {}
    assert found["by_group"].rows >= 41
    assert all(one.reason.startswith("all rows were compared") for one in sample(project).values())
    project.sql("UPDATE t SET i = i + 1 WHERE k = 7")
    project.flush().raise_for_errors()
    again = sample(project)
    assert again["by_group"].passed and not again["of_bag"].passed
    assert {name: one.differences for name, one in again.items() if one.differences} == {}


def falsify(session: Session, view: str, *steps: Put | Delete) -> None:
    """Write to the table of a view what its query does not give."""
    session.store.ingest_batch({view: list(steps)})


def stored(session: Session, view: str, where: str) -> pa.Table:
    """Return whole rows of a view's table, hidden columns included."""
    table = session.store.refresh().tables[view]
    batches = session.store.reader.scan(table, table.committed_epoch)
    rows = pa.Table.from_batches(batches, table.schema)
    return rows.filter(pa.compute.field(where.split("=")[0]) == int(where.split("=")[1]))


def changed(rows: pa.Table, column: str, value: object) -> pa.Table:
    at = rows.column_names.index(column)
    return rows.set_column(
        at, rows.schema.field(column), pa.array([value] * len(rows), rows.schema.field(column).type)
    )


def test_a_wrong_a_missing_and_a_needless_row_are_found(project: Session) -> None:
    create_views(project, "by_group")
    right = stored(project, "by_group", "g=7")
    falsify(project, "by_group", Put(changed(right, "total", 1234)))
    falsify(project, "by_group", Delete(stored(project, "by_group", "g=8").select(["g"])))
    falsify(project, "by_group", Put(changed(right, "g", 777)))
    found = sample(project, "by_group")["by_group"]
    assert sorted((one.stored is None, one.computed is None) for one in found.differences) == [
        (False, False),
        (False, True),
        (True, False),
    ]
    assert found.differ == 3
    (wrong,) = (one for one in found.differences if one.stored and one.computed)
    assert wrong.stored is not None and wrong.computed is not None
    assert (wrong.stored["total"], wrong.computed["total"]) == (1234, right.column("total")[0].as_py())


def test_samples_go_on_where_they_were_left_and_pass_over_all_rows(
    project: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_views(project, "linear")
    monkeypatch.setattr(view_samples, "SAMPLED", 16)
    falsify(project, "linear", Put(changed(stored(project, "linear", "k=6"), "x", 0.25)))
    found: list[SampleReport] = []
    while not (found and found[-1].passed):
        assert len(found) < 200
        found.append(sample(project, "linear", seconds=0.0)["linear"])
    assert len(found) > 20
    assert [one.progress for one in found[:-1]] == sorted(one.progress for one in found[:-1])
    assert sum(len(one.differences) for one in found) == found[-1].differ == 1
    assert found[-1].examples == ("k = 6: x is 0.25, not 1.7142857142857142",)
    falsify(project, "linear", Put(changed(stored(project, "linear", "k=6"), "x", 12 / 7)))
    again = sample(project, "linear")[
        "linear"
    ]  # what the pass before had found is over with the end of this one
    assert (again.passed, again.differ, again.examples) == (True, 0, ())


def test_they_take_no_more_than_their_share_of_the_time(project: Session) -> None:
    create_views(project, "by_group")
    (first,) = project.sample_rows(["by_group"], share=0.001)
    assert first.passed
    project.sql("UPDATE t SET i = i + 1 WHERE k = 7")
    project.flush().raise_for_errors()
    (second,) = project.sample_rows(["by_group"], share=0.001)
    assert second.rows == 0 and second.reason.startswith("the next samples are due in ")
    before = TIMES.read(project.store.refresh(), ALL)
    assert project.sample_rows(["by_group"])[0].passed
    assert TIMES.read(project.store.refresh(), ALL) == before  # what somebody asks for does not count
    with pytest.raises(SqlError, match="no share of the time"):
        project.sample_rows(share=1.5)


def test_a_view_that_goes_takes_its_record_along_and_another_query_begins_anew(project: Session) -> None:
    create_views(project, "of_bag", "linear")
    sample(project, "of_bag", "linear")
    project.sql("ALTER MATERIALIZED VIEW of_bag RENAME TO counted")
    assert sample(project, "counted")["counted"].reason.startswith("all rows were compared")
    project.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW linear AS SELECT k, x * 3 AS x, upper(s) AS s FROM t WHERE i > 1"
    )
    while (
        project.flush(background_seconds=60.0).views
        and "succession/linear" in project.store.refresh().catalog
    ):
        pass
    found = sample(project, "linear")["linear"]
    assert (found.passed, found.differ) == (True, 0)
    project.sql("DROP MATERIALIZED VIEW counted")
    assert not [key for key in project.store.refresh().catalog if key.startswith("samples/counted")]
    with pytest.raises(SqlError, match="counted"):
        sample(project, "counted")


@pytest.mark.long
def test_what_cannot_be_computed_from_stored_rows_says_why(session: Session) -> None:
    session.sql("CREATE TABLE brief (k BIGINT, g BIGINT) APPEND ONLY WITH (retention_seconds = 3600)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS n FROM brief GROUP BY g")
    session.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, p BIGINT, d BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW parts WITH (partition_by = 'p') AS SELECT k, p, 10 / d AS q FROM t")
    session.sql("INSERT INTO t VALUES (1, 1, 5), (2, 2, 5)")
    session.flush().raise_for_errors()
    session.sql("UPDATE t SET d = 0 WHERE k = 2")
    session.flush()
    found = sample(session)
    assert "rows leave brief by themselves" in found["v"].reason
    assert "1 of its partitions are set aside" in found["parts"].reason


def test_closing_views_and_views_of_times_are_compared(session: Session) -> None:
    session.sql(
        "CREATE TABLE e (id BIGINT PRIMARY KEY, g BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 5 SECONDS) APPEND ONLY"
    )
    session.sql(
        "CREATE MATERIALIZED VIEW closed AS SELECT window_start, g, count(*) AS n "
        "FROM TUMBLE(e, at, INTERVAL 10 SECONDS) GROUP BY window_start, g EMIT ON WINDOW CLOSE"
    )
    session.sql(
        "CREATE MATERIALIZED VIEW recent AS SELECT id, at FROM e WHERE at > now() - INTERVAL 36500 DAYS"
    )
    values = ", ".join(
        f"({n}, {n % 3}, TIMESTAMP '2026-01-01 00:{n // 60:02}:{n % 60:02}')" for n in range(300)
    )
    session.sql(f"INSERT INTO e VALUES {values}")
    session.flush().raise_for_errors()
    found = sample(session)
    assert {name: (one.passed, one.differences, one.reason) for name, one in found.items()} == {
        name: (True, (), "") for name in ("closed", "recent")
    }
    assert found["closed"].rows >= 80


def test_a_large_view_none_of_whose_columns_is_one_of_a_table_is_compared_in_parts(
    project: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.sql("CREATE MATERIALIZED VIEW v AS SELECT k % 50 AS m, count(*) AS n FROM t GROUP BY k % 50")
    project.flush().raise_for_errors()
    monkeypatch.setattr(view_samples, "WHOLE", 10)
    falsify(project, "v", Put(changed(stored(project, "v", "m=6"), "n", 5)))
    found = [sample(project, "v", seconds=0.0)["v"]]
    while not found[-1].passed:
        found.append(sample(project, "v", seconds=0.0)["v"])
    assert len(found) >= 4
    assert [one.examples for one in found if one.differences] == [("m = 6: n is 5, not 6",)]
    assert sum(one.rows for one in found) == 50


def fail_samples(monkeypatch: pytest.MonkeyPatch, view: str) -> None:
    """Let every sample of a view fail."""
    take = view_samples.ViewSamples.take

    def fail(samples: view_samples.ViewSamples, cursor: str, position: int) -> view_samples.Sample:
        if samples.relation.name == view:
            raise ValueError("a mistake")
        return take(samples, cursor, position)

    monkeypatch.setattr(view_samples.ViewSamples, "take", fail)


def test_a_view_that_cannot_be_computed_keeps_no_other_from_it(
    project: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_views(project, "by_group", "linear")
    fail_samples(monkeypatch, "by_group")
    found = sample(project)
    assert found["by_group"].reason == "its rows cannot be computed: ValueError: a mistake"
    assert found["linear"].passed


def test_a_view_that_is_computed_anew_is_right_again(project: Session) -> None:
    create_views(project, "by_group")
    falsify(project, "by_group", Put(changed(stored(project, "by_group", "g=7"), "total", 1234)))
    assert sample(project, "by_group")["by_group"].differ == 1
    project.sql("ALTER MATERIALIZED VIEW by_group RESYNC")
    found = sample(project, "by_group")["by_group"]  # begins anew: what differed before is over
    assert (found.passed, found.differ, found.reason) == (True, 0, "")


def test_a_missing_row_is_found_where_none_of_its_columns_is_one_of_a_table(project: Session) -> None:
    project.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT k AS a, s AS b FROM t UNION ALL SELECT id + 1000, upper(name) FROM u"
    )
    project.sql("CREATE MATERIALIZED VIEW w AS SELECT t.x, u.name FROM t JOIN u ON t.g = u.id")
    project.flush().raise_for_errors()
    hidden = project.store.refresh().tables["w"].primary_key
    falsify(project, "v", Delete(key_of(project, "v", stored(project, "v", "a=1025"))))
    at = next(column for column in hidden if stored(project, "w", f"{column}=20").num_rows)
    lost = stored(project, "w", f"{at}=20")
    falsify(project, "w", Delete(key_of(project, "w", lost)))
    found = sample(project)
    assert found["v"].examples == ("missing: a = 1025, b = N5",)
    assert found["w"].differ == lost.num_rows > 0


def key_of(session: Session, view: str, rows: pa.Table) -> pa.Table:
    """Return the columns of rows that a Delete names."""
    table = session.store.refresh().tables[view]
    return rows.select(list(dict.fromkeys([*table.primary_key, *table.distribution_key])))


def test_a_missing_row_of_a_view_that_is_compared_in_parts_is_found(
    project: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.sql("CREATE MATERIALIZED VIEW v AS SELECT k % 50 AS m, count(*) AS n FROM t GROUP BY k % 50")
    project.flush().raise_for_errors()
    monkeypatch.setattr(view_samples, "WHOLE", 10)
    falsify(project, "v", Delete(key_of(project, "v", stored(project, "v", "m=6"))))
    found = sample(project, "v")["v"]
    assert (found.passed, found.rows, found.examples) == (True, 49, ("missing: m = 6, n = 6",))


def test_a_view_that_cannot_be_computed_has_its_turn_after_the_others_and_its_share_of_the_time(
    project: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_views(project, "by_group", "linear")
    fail_samples(monkeypatch, "by_group")
    first = {one.view: one for one in project.sample_rows(seconds=0.0, share=1.0)}
    assert first["by_group"].epoch is None and first["by_group"].reason.endswith("a mistake")
    (due, _) = project.sample_rows(share=1e-9)
    assert due.reason.startswith("the next samples are due in ")
    assert sample(project, seconds=0.0)["linear"].rows


def test_rows_differ_also_where_no_report_can_be_written(project: Session, tmp_path: Path) -> None:
    create_views(project, "by_group")
    falsify(project, "by_group", Put(changed(stored(project, "by_group", "g=7"), "total", 1234)))
    (tmp_path / "reports").write_text("a file where the folder should be")
    (found,) = project.sample_rows(["by_group"], reports=tmp_path / "reports")
    assert (found.passed, found.differ, found.report) == (True, 1, None)


def test_rows_that_come_of_many_are_computed_by_tasks(
    project: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_views(project, "by_group")
    falsify(project, "by_group", Put(changed(stored(project, "by_group", "g=7"), "total", 1234)))
    monkeypatch.setattr(view_samples, "MOST_READ", 40)
    asked: list[bool] = []
    evaluate = NarrowEvaluation.evaluate

    def watch(evaluation: NarrowEvaluation, node: Node, wanted: Wanted) -> NarrowRows:
        asked.append(bool(wanted))
        return evaluate(evaluation, node, wanted)

    monkeypatch.setattr(NarrowEvaluation, "evaluate", watch)
    found = sample(project, "by_group")["by_group"]
    assert (found.passed, found.differ) == (True, 1)
    assert asked and not any(asked)
