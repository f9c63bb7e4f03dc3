"""What a plan says of changed models is what a sync then does: all cases in one store, told apart by their names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from dagster_tideline.models.change_plan import ChangePlan, PlannedChange, plan_models
from dagster_tideline.models.loader import load_models
from dagster_tideline.runs.pending import find_pending
from dagster_tideline.sync import SyncReport, sync_models
from engine.hummock import Version
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.catalog.successions import list_successions
from engine.session import Session
from engine.sql.statements.relation_renaming import rename_relations

TABLES = """
CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT);
CREATE TABLE u (id INT PRIMARY KEY, a INT, b INT);
CREATE TABLE added (id INT, a INT) APPEND ONLY;
"""
MV = "CREATE MATERIALIZED VIEW"
CASES: dict[str, tuple[str, str, str]] = {
    # case: the old models, the new ones, and of each "name: class, work"
    "same": (
        f"{MV} same AS SELECT id, a FROM t",
        f"{MV} same AS SELECT id, a FROM t",
        "same: unchanged, nothing",
    ),
    "space": (
        f"{MV} space AS SELECT id, a FROM t",
        f"{MV} space AS\nselect id, /* the */ A\nFROM t -- all",
        "space: cosmetic, nothing",
    ),
    "alias": (
        f"{MV} alias AS SELECT id, a FROM t WHERE a > 1",
        f"{MV} alias AS SELECT x.id, x.a FROM t AS x WHERE x.a > 1",
        "alias: cosmetic, text",
    ),
    "pace": (
        f"{MV} pace AS SELECT id, a FROM t",
        f"{MV} pace WITH (parallelism = '2') AS SELECT id, a FROM t",
        "pace: options, options",
    ),
    "checked": (
        f"{MV} checked AS SELECT id, a FROM t",
        f"-- check: a >= 0\n{MV} checked AS SELECT id, a FROM t",
        "checked: options, options",
    ),
    "owned": (
        f"{MV} owned AS SELECT id, a FROM t",
        f"-- owners: team:ops\n{MV} owned AS SELECT id, a FROM t",
        "owned: unchanged, nothing",
    ),
    "filter": (
        f"{MV} filter AS SELECT id, a FROM t WHERE a > 1",
        f"{MV} filter AS SELECT id, a FROM t WHERE a > 2",
        "filter: content, difference",
    ),
    "both": (
        f"{MV} both AS SELECT id, a FROM t WHERE a > 1",
        f"{MV} both WITH (parallelism = '2') AS SELECT id, a FROM t WHERE a > 2",
        "both: content, difference",
    ),
    "grouped": (
        f"{MV} grouped AS SELECT a, sum(b) AS n FROM t GROUP BY a",
        f"{MV} grouped AS SELECT a, sum(id) AS n FROM t GROUP BY a",
        "grouped: content, difference",
    ),
    "other_call": (
        f"{MV} other_call AS SELECT a, min(b) AS n FROM t GROUP BY a",
        f"{MV} other_call AS SELECT a, max(b) AS n FROM t GROUP BY a",
        "other_call: content, difference",
    ),
    "wider": (
        f"{MV} wider AS SELECT id, a FROM t",
        f"{MV} wider AS SELECT id, a, b FROM t",
        "wider: content, difference",
    ),
    "narrower": (
        f"{MV} narrower AS SELECT id, a, b FROM t",
        f"{MV} narrower AS SELECT id, a FROM t",
        "narrower: content, difference",
    ),
    "retyped": (
        f"{MV} retyped AS SELECT id, a FROM t",
        f"{MV} retyped AS SELECT id, CAST(a AS BIGINT) AS a FROM t",
        "retyped: content, difference",
    ),
    "other_name": (
        f"{MV} other_name AS SELECT id, a FROM t",
        f"{MV} other_name AS SELECT id, a AS c FROM t",
        "other_name: content, difference",
    ),
    "keyed": (
        f"{MV} keyed AS SELECT a, b, count(*) AS n FROM t GROUP BY a, b",
        f"{MV} keyed AS SELECT a, max(b) AS b, count(*) AS n FROM t GROUP BY a",
        "keyed: incompatible, rebuild",
    ),
    "inputs": (
        f"{MV} inputs AS SELECT id, a FROM t",
        f"{MV} inputs AS SELECT id, a FROM u",
        "inputs: content, difference",
    ),
    "chain": (
        f"{MV} c1 AS SELECT id, a FROM t; {MV} c2 AS SELECT id, a FROM c1; {MV} c3 AS SELECT id, a FROM c2",
        f"{MV} c1 AS SELECT id, b AS a FROM t; {MV} c2 AS SELECT id, a FROM c1; {MV} c3 AS SELECT id, a FROM c2",
        "c1: content, difference; c2: unchanged, nothing; c3: unchanged, nothing",
    ),
    "chain_anew": (
        f"{MV} d1 AS SELECT id, a FROM t; {MV} d2 AS SELECT id, a FROM d1; {MV} d3 AS SELECT id, a FROM d2",
        f"{MV} d1 AS SELECT a, max(id) AS id FROM t GROUP BY a; {MV} d2 AS SELECT id, a FROM d1; {MV} d3 AS SELECT id, a FROM d2",
        "d1: incompatible, rebuild; d2: unchanged, rebuild; d3: unchanged, rebuild",
    ),
    "chain_wider": (
        f"{MV} f1 AS SELECT id, a FROM t; {MV} f2 AS SELECT id, a FROM f1; {MV} f3 AS SELECT id, a FROM f2",
        f"{MV} f1 AS SELECT id, b, a FROM t; {MV} f2 AS SELECT id, a FROM f1; {MV} f3 AS SELECT id, a FROM f2",
        "f1: content, difference; f2: unchanged, nothing; f3: unchanged, nothing",
    ),
    "read_no_more": (
        f"{MV} g1 AS SELECT id, a, b FROM t; {MV} g2 AS SELECT id, a, b FROM g1",
        f"{MV} g1 AS SELECT id, a FROM t; {MV} g2 AS SELECT id, a FROM g1",
        "g1: content, difference; g2: content, difference",
    ),
    "at_once": (
        f"{MV} demanded AS SELECT id, a FROM t",
        f"{MV} demanded AS SELECT id, a, b FROM t; {MV} demander AS SELECT id, b FROM demanded",
        "demanded: incompatible, rebuild; demander: new, create",
    ),
    "readers_too": (
        f"{MV} e1 AS SELECT id, a FROM t; {MV} e2 AS SELECT id, a FROM e1; {MV} e3 AS SELECT id, a FROM e1",
        f"{MV} e1 AS SELECT id, a, b FROM t; {MV} e2 AS SELECT id, a, b FROM e1; {MV} e3 AS SELECT id, a FROM e1 WHERE a > 1",
        "e1: content, difference; e2: content, difference; e3: content, difference",
    ),
    "through": (
        f"{MV} h1 AS SELECT id, a FROM t; {MV} h2 AS SELECT id, a FROM h1; {MV} h3 AS SELECT a, count(*) AS n FROM h2 GROUP BY a",
        f"{MV} h1 AS SELECT id, a, b FROM t; {MV} h2 AS SELECT id, a, b FROM h1; {MV} h3 AS SELECT a, count(*) AS n, sum(b) AS s FROM h2 GROUP BY a",
        "h1: content, difference; h2: content, difference; h3: content, difference",
    ),
    "through_name": (
        f"{MV} i1 AS SELECT id, a FROM t; {MV} i2 AS SELECT id, a FROM i1; {MV} i3 AS SELECT id, a FROM i2",
        f"{MV} i1 AS SELECT id, a AS x FROM t; {MV} i2 AS SELECT id, x FROM i1; {MV} i3 AS SELECT id, x AS a FROM i2",
        "i1: content, difference; i2: content, difference; i3: content, nothing",
    ),
    "through_type": (
        f"{MV} j1 AS SELECT id, a FROM t; {MV} j2 AS SELECT id, a FROM j1",
        f"{MV} j1 AS SELECT id, CAST(a AS BIGINT) AS a FROM t; {MV} j2 AS SELECT id, a FROM j1",
        "j1: content, difference; j2: unchanged, difference",
    ),
    "through_wrong": (
        f"{MV} q1 AS SELECT id, a, b FROM t; {MV} q2 AS SELECT id, a FROM q1; {MV} q3 AS SELECT id, b FROM q1",
        f"{MV} q1 AS SELECT id, a FROM t; {MV} q2 AS SELECT id, a + 1 AS a FROM q1; {MV} q3 AS SELECT id, b FROM q1",
        "q1: refused; q2: refused; q3: unchanged, nothing",
    ),
    "appended": (
        f"{MV} appended AS SELECT id, a FROM added WHERE a > 1",
        f"{MV} appended AS SELECT id, a FROM added WHERE a > 2",
        "appended: incompatible, rebuild",
    ),
    "cut": (
        f"{MV} cut WITH (partition_by = 'a') AS SELECT a, sum(b) AS n FROM t GROUP BY a",
        f"{MV} cut WITH (partition_by = 'a') AS SELECT a, sum(b) AS n FROM t WHERE b > 1 GROUP BY a",
        "cut: incompatible, rebuild",
    ),
    "uncut": (
        f"{MV} uncut WITH (partition_by = 'a') AS SELECT a, sum(b) AS n FROM t GROUP BY a",
        f"{MV} uncut AS SELECT a, sum(b) AS n FROM t GROUP BY a",
        "uncut: incompatible, rebuild",
    ),
    "moved": (
        f"{MV} moved AS SELECT id, a FROM t",
        f"{MV} moved WITH (domain = 'elsewhere') AS SELECT id, a FROM t",
        "moved: incompatible, rebuild",
    ),
    "wrong": (
        f"{MV} wrong AS SELECT id, a FROM t",
        f"{MV} wrong AS SELECT id, nosuch FROM t",
        "wrong: refused",
    ),
    "under": (
        f"CREATE VIEW p AS SELECT id, a FROM t; {MV} over AS SELECT id, a FROM p",
        f"CREATE VIEW p AS SELECT id, a + 1 AS a FROM t; {MV} over AS SELECT id, a FROM p",
        "p: content, text; over: unchanged, difference",
    ),
    "under_alias": (
        f"CREATE VIEW q AS SELECT id, a FROM t; {MV} over_q AS SELECT id, a FROM q",
        f"CREATE VIEW q AS SELECT x.id, x.a FROM t AS x; {MV} over_q AS SELECT id, a FROM q",
        "q: cosmetic, text; over_q: unchanged, nothing",
    ),
    "under_wrong": (
        f"CREATE VIEW r AS SELECT id, a FROM t; {MV} over_r AS SELECT id, a FROM r",
        f"CREATE VIEW r AS SELECT id FROM t; {MV} over_r AS SELECT id, a FROM r",
        "r: refused; over_r: unchanged, nothing",
    ),
    "kind": (
        "CREATE VIEW kind AS SELECT id, a FROM t",
        f"{MV} kind AS SELECT id, a FROM t",
        "kind: incompatible, rebuild",
    ),
    "fresh": ("", f"{MV} fresh AS SELECT id, a FROM wider", "fresh: new, create"),
    "fresh_wrong": (
        "",
        f"{MV} fresh_wrong AS SELECT nosuch FROM t; {MV} over_wrong AS SELECT * FROM fresh_wrong",
        "fresh_wrong: refused; over_wrong: refused",
    ),
    "table": (
        "CREATE TABLE held (id INT PRIMARY KEY)",
        "CREATE TABLE held (id INT PRIMARY KEY, a INT)",
        "held: refused",
    ),
    "gone": (f"{MV} gone AS SELECT id FROM t", "", "gone: no model, nothing"),
    "renamed": (
        f"{MV} n1 AS SELECT id, a FROM t; {MV} over_n AS SELECT id, a FROM n1",
        f"-- renamed from: n1\n{MV} n2 AS SELECT id, a FROM t; {MV} over_n AS SELECT id, a FROM n2",
        "n2: renamed, rename; over_n: cosmetic, text",
    ),
    "renamed_content": (
        f"{MV} o1 AS SELECT id, a FROM t WHERE a > 1",
        f"-- renamed from: o1\n{MV} o2 AS SELECT id, a FROM t WHERE a > 2",
        "o2: content, difference",
    ),
    "renamed_wider": (
        f"{MV} p1 AS SELECT id, a FROM t; {MV} over_p AS SELECT id FROM p1",
        f"-- renamed from: p1\n{MV} p2 AS SELECT id, a, b FROM t; {MV} over_p AS SELECT id FROM p2",
        "p2: content, difference; over_p: cosmetic, text",
    ),
    "renamed_options": (
        f"{MV} s1 AS SELECT id, a FROM t",
        f"-- renamed from: s1\n-- check: a >= 0\n{MV} s2 AS SELECT id, a FROM t",
        "s2: options, options",
    ),
    "renamed_wrong": (
        f"{MV} w1 AS SELECT id, a FROM t",
        f"-- renamed from: w1\n{MV} w2 AS SELECT id, nosuch FROM t",
        "w2: refused; w1: no model, nothing",
    ),
    "renamed_table": (
        f"CREATE TABLE k1 (id INT PRIMARY KEY); {MV} over_k AS SELECT k.id FROM k1 AS k",
        f"-- renamed from: k1\nCREATE TABLE k2 (id INT PRIMARY KEY); {MV} over_k AS SELECT k.id FROM k2 AS k",
        "k2: renamed, rename; over_k: unchanged, nothing",
    ),
    "renamed_twice": (
        f"{MV} y1 AS SELECT id, a FROM t",
        f"-- renamed from: y1\n{MV} y2 AS SELECT id, a FROM t;\n-- renamed from: y1\n{MV} y3 AS SELECT id, a FROM t",
        "y2: refused; y3: refused; y1: no model, nothing",
    ),
    "renamed_new": (
        "",
        f"-- renamed from: never_there\n{MV} z2 AS SELECT id, a FROM t",
        "z2: new, create",
    ),
    "renamed_sink": (
        f"{MV} l AS SELECT id, a FROM t; CREATE SINK l1 FROM l WITH (connector = 'file', path = '%/l', format = 'jsonl')",
        f"{MV} l AS SELECT id, a FROM t;\n-- renamed from: l1\nCREATE SINK l2 FROM l WITH (connector = 'file', path = '%/l', format = 'jsonl')",
        "l: unchanged, nothing; l2: refused; l1: no model, nothing",
    ),
    "sink": (
        f"{MV} m AS SELECT id, a FROM t; CREATE SINK out FROM m WITH (connector = 'file', path = '%/out', format = 'jsonl')",
        f"{MV} m AS SELECT id, a FROM t; CREATE SINK out FROM m WITH (connector = 'file', path = '%/out2', format = 'jsonl')",
        "m: unchanged, nothing; out: incompatible, rebuild",
    ),
}
FEW = ("space", "alias", "pace", "wider", "wrong", "under", "renamed_content", "through")
"""The cases that each run of the tests looks at."""


def list_expected(cases: Collection[str]) -> dict[str, str]:
    said = (one.partition(":") for case in cases for one in CASES[case][2].split(";"))
    return {name.strip(): text.strip() for name, _, text in said}


EXPECTED = list_expected(CASES)


@dataclass
class Outcome:
    """What was planned, what was reported of the sync, and the store before and after it."""

    plan: ChangePlan
    report: SyncReport
    before: Version
    after: Version
    session: Session


def change_models(home: Path, spark: SparkSession, cases: Collection[str]) -> Iterator[Outcome]:
    def write(at: int) -> None:
        (home / "assets").mkdir(exist_ok=True)
        (home / "assets" / "tables.sql").write_text(TABLES)
        for name in cases:
            (home / "assets" / f"{name}.sql").write_text(CASES[name][at].replace("%", str(home)))

    with Session((home / "store").as_uri(), spark) as session:
        write(0)
        assert not sync_models(session, load_models(home / "assets")).errors
        session.sql("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, 2, 3)")
        session.sql("INSERT INTO added VALUES (1, 1), (2, 2), (3, 3)")
        session.flush().raise_for_errors()
        write(1)
        models = load_models(home / "assets")
        before = session.store.refresh()
        files = sorted(str(path) for path in home.rglob("*"))
        plan = plan_models(session, models)
        assert session.store.refresh() is before and sorted(str(path) for path in home.rglob("*")) == files
        report = sync_models(session, models)
        yield Outcome(plan, report, before, session.store.refresh(), session)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Outcome]:
    yield from change_models(tmp_path_factory.mktemp("every"), spark, CASES.keys())


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Outcome]:
    yield from change_models(tmp_path_factory.mktemp("few"), spark, FEW)


def observe(outcome: Outcome, change: PlannedChange) -> str:
    """Return what has been done with a relation, by what the store has of it now and had before."""
    before, after = load_catalog(outcome.before), load_catalog(outcome.after)
    old, new = change.renamed_from or change.name, change.name
    if old not in before.catalog.relations:
        return "create" if new in after.catalog.relations else "nothing"
    was, now = outcome.before.tables.get(old), outcome.after.tables.get(new)
    if was is not None and (now is None or now.table_id != was.table_id):
        return "rebuild"
    if new in list_replaced_tables(outcome.after) or new in list_successions(outcome.after):
        return "difference"
    one, other = before.catalog.get(old), after.catalog.get(new)
    names = {old: new for new, old in outcome.report.renamed.items()}
    if old == new and names.keys() & {*one.depends_on}:  # of what reads it the rename itself has another text
        depends_on = tuple(names.get(name, name) for name in one.depends_on)
        text = rename_relations(one.sql, one.dialect, names)
        one = msgspec.structs.replace(one, sql=text, depends_on=depends_on)
    if one.kind != other.kind or (one.kind == "sink" and one != other):
        return "rebuild"
    if old != new and one.options == other.options:
        return "rename"
    if one == other:
        return "nothing"
    return "text" if one.options == other.options else "options"


@pytest.mark.parametrize("name", list_expected(FEW))
def test_what_a_plan_says_is_what_a_sync_does(few: Outcome, name: str) -> None:
    check_agreement(few, name)


@pytest.mark.long
@pytest.mark.parametrize("name", EXPECTED)
def test_what_a_plan_says_is_what_a_sync_does_in_all_cases(outcome: Outcome, name: str) -> None:
    check_agreement(outcome, name)


def check_agreement(outcome: Outcome, name: str) -> None:
    change = outcome.plan[name]
    said = "refused" if change.change == "refused" else f"{change.change}, {change.work}"
    assert said == EXPECTED[name], change
    assert observe(outcome, change) == ("nothing" if change.change == "refused" else change.work)
    assert (name in outcome.report.errors) == (change.change == "refused")
    assert change.error == outcome.report.errors.get(name, "")


@pytest.mark.long
def test_a_plan_has_all_that_there_is(outcome: Outcome) -> None:
    assert {change.name for change in outcome.plan.changes} == EXPECTED.keys() | {"t", "u", "added"}
    assert not outcome.plan.is_empty and {one.name for one in outcome.plan.refused} >= {"wrong", "y2", "y3"}


@pytest.mark.long
def test_a_plan_says_why_and_which_columns_and_what_comes_along(outcome: Outcome) -> None:
    plan = outcome.plan
    assert plan["wider"].columns.added == ("b int",) and plan["wider"].reasons == (
        "its query and its columns are others; its key stays",
    )
    assert plan["narrower"].columns.dropped == ("b int",)
    assert plan["retyped"].columns.retyped == ("a int -> bigint",)
    assert "its key is (a), and was (a, b)" in plan["keyed"].reasons
    assert any("only added" in reason for reason in plan["appended"].reasons)
    assert "it has partitions" in plan["cut"].reasons
    assert plan["moved"].reasons == ("its domain is another, and was moved",)
    assert plan["pace"].reasons == ("its options are others: parallelism",)
    assert plan["checked"].reasons == ("its checks are others",)
    assert (plan["d1"].readers, plan["d1"].made_anew) == (("d2", "d3"), ("d2", "d3"))
    assert (plan["c1"].readers, plan["c1"].made_anew) == (("c2", "c3"), ())
    assert plan["d2"].reasons[0] == "d1, which it reads, is made anew"
    assert plan["over"].reasons == ("p, which it reads, is another",)
    assert plan["wider"].readers == ("fresh",)
    assert (plan["h2"].columns.added, plan["h2"].made_anew) == (("b int",), ())
    assert plan["j2"].reasons == ("j1, which it reads, is another",)
    assert "q3 could not follow it" in plan["q1"].error and "no column b" in plan["q2"].error
    assert (plan["o2"].renamed_from, plan["n2"].renamed_from) == ("o1", "n1")


@pytest.mark.long
def test_errors_stand_at_their_place_in_the_file(outcome: Outcome) -> None:
    assert (
        "renamed_twice.sql: y2 and y3 both say that they were y1\n  line 3, column 18:"
        in outcome.plan["y3"].error
    )
    assert "renamed_wrong.sql: there is no column nosuch\n  line 2, column" in outcome.plan["w2"].error


@pytest.mark.long
def test_builds_are_estimated_by_what_the_store_has(outcome: Outcome) -> None:
    plan = outcome.plan
    assert (plan["wider"].build.rows, plan["wider"].build.seconds) == (3, None)
    assert plan["wider"].build.bytes == outcome.before.tables["wider"].size_bytes
    assert plan["o2"].build.rows == 2
    assert [plan[name].build.rows for name in ("h1", "h2", "h3")] == [3, 3, 2]
    assert plan["same"].build.rows is None and plan["fresh"].build.rows is None


@pytest.mark.long
def test_views_have_the_rows_of_their_new_queries_and_a_second_plan_is_empty(outcome: Outcome) -> None:
    session = outcome.session
    session.flush().raise_for_errors()
    found = {
        name: session.sql(f"SELECT * FROM {name} ORDER BY 1").to_pylist()  # type: ignore[union-attr]
        for name in ("o2", "p2", "over_p", "over_n", "e3", "over", "k2")
    }
    assert found["o2"] == [] and found["over_p"] == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert found["p2"] == [{"id": 1, "a": 1, "b": 1}, {"id": 2, "a": 2, "b": 2}, {"id": 3, "a": 2, "b": 3}]
    assert found["over"] == [{"id": 1, "a": 2}, {"id": 2, "a": 3}, {"id": 3, "a": 3}]
    assert found["e3"] == [{"id": 2, "a": 2}, {"id": 3, "a": 2}]
    assert [row["id"] for row in found["over_n"]] == [1, 2, 3] and found["k2"] == []


def test_without_a_change_a_plan_needs_no_spark(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "assets").mkdir()
    file = tmp_path / "assets" / "m.sql"
    file.write_text(f"{TABLES}{MV} v AS SELECT id, a FROM t; {MV} w AS SELECT id, a FROM t WHERE a > 1")
    url = (tmp_path / "store").as_uri()
    with Session(url, spark) as session:
        assert not sync_models(session, load_models(tmp_path / "assets")).errors
    file.write_text(
        f"{TABLES}{MV} v AS SELECT id, A FROM t;\n-- renamed from: w\n{MV} x AS SELECT id, a FROM t WHERE a > 1"
    )

    def open_spark() -> SparkSession:
        raise AssertionError("Spark is asked for")

    with Session(url, open_spark) as session:
        models = load_models(tmp_path / "assets")
        plan = plan_models(session, models)
        assert {one.name: one.change for one in plan.changes if one.kind != "table"} == {
            "v": "cosmetic",
            "x": "renamed",
        }
        assert session.catalog.relations.keys() >= {"v", "w"}
        assert find_pending(session.store, models).models == ("x",)
        assert dict(sync_models(session, models).renamed) == {"x": "w"}
        assert find_pending(session.store, models).models == () and plan_models(session, models).is_empty
