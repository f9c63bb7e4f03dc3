"""Gates: a next query that changes more rows than it may is held up until somebody approves or discards it."""

from __future__ import annotations

import json
import random
import re
from decimal import Decimal

import duckdb
import pytest

from engine.changes import alter_view
from engine.cli.commands import main
from engine.errors import SqlError, UnsupportedSql
from engine.meta.catalog.successions import list_successions
from engine.session import Session
from engine.sql.statements.options.gate_bounds import parse_gate
from tests.runtime.statements.succession.test_take_over import (
    ALTER,
    FEWER,
    FIRST,
    JOINED,
    LARGEST,
    READER,
    V,
    change,
    check_nothing_is_left,
    compute,
    read,
    shop,
)

__all__ = ["shop"]
MADE = "CREATE OR REPLACE MATERIALIZED VIEW v WITH (gate = '{}') AS {}"


def test_the_difference_between_both_queries_is_that_of_duckdb(shop: Session) -> None:
    rng = random.Random(2)
    shop.flush()
    for query in (FEWER, JOINED, LARGEST):
        shop.sql(ALTER + query, build=False)
        with pytest.raises(SqlError, match="the next query of v is still being computed"):
            shop.diff_pending("v")
        change(shop, rng)
        shop.epochs.runner.run()  # computed, and not taken over
        found = shop.diff_pending("v", limit=None)
        old, new = ({row[0]: row for row in compute(shop, one)} for one in (FIRST, query))
        both = old.keys() & new.keys()
        assert found.is_pending and found.rows_before == len(old) and found.rows_after == len(new)
        assert (found.inserted, found.deleted) == (len(new.keys() - old), len(old.keys() - new))
        assert found.updated == sum(old[g] != new[g] for g in both)
        assert found.changed_columns == {
            name: sum(old[g][at] != new[g][at] for g in both) for at, name in enumerate(("g", "total", "c"))
        }
        rows = duckdb.arrow(found.rows).filter("_op = 'update'").project("g, _old_total, total").fetchall()
        assert set(rows) == {(g, old[g][1], new[g][1]) for g in both if old[g] != new[g]}
        shop.discard("v")
        check_nothing_is_left(shop)
    with pytest.raises(SqlError, match="v has no next query"):
        shop.diff_pending("v")
    with pytest.raises(SqlError, match="v has no next query"):
        shop.sql("ALTER MATERIALIZED VIEW v DISCARD")


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        ("rows_changed <= 50%", "the gate is rows_changed <= 50%, and it is 4 of 4 rows, 100 %"),
        ("rows_changed <= 100%; rows_updated < 2", "the gate is rows_updated < 2, and it is 2 of 4 rows"),
        ("rows_deleted = 0", "the gate is rows_deleted = 0, and it is 2 of 4 rows"),
        ("rows_inserted = 0; changed(total) <= 25 %", "changed.total. <= 25 %, and it is 2 of 4 rows, 50 %"),
        ("rows_changed <= 4; rows_inserted = 0; changed(g) = 0; rows_changed <= 100%", ""),
    ],
)
def test_a_change_beyond_its_bounds_waits(shop: Session, gate: str, reason: str) -> None:
    evens = FEWER.replace("GROUP BY", "AND n > 2 GROUP BY").replace("sum(n)", "sum(n + 1)")
    shop.flush()
    shop.sql(MADE.format(gate, evens))
    if not reason:
        assert read(shop, "SELECT * FROM v") == compute(shop, evens)
        assert not shop.notices
        return
    held = list_successions(shop.store.refresh())["v"].held
    notice = shop.notices[-1]
    assert held in notice and "APPROVE lets it take over, DISCARD drops it" in notice
    assert re.search(reason, held)
    assert read(shop, "SELECT * FROM v") == compute(shop, FIRST)
    assert shop.catalog.get("v").options == {}
    (wait,) = shop.waits()
    assert wait.kind == "gate" and wait.by_choice and wait.reason == notice.partition(": ")[2]


def test_both_follow_until_somebody_approves(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW w AS {READER}")
    shop.sql(MADE.format("rows_changed = 0", FEWER))
    for _ in range(2):
        change(shop, random.Random(5))
        shop.flush()
        assert read(shop, "SELECT * FROM v") == compute(shop, FIRST)
    shop.sql("ALTER MATERIALIZED VIEW v APPROVE")
    assert read(shop, "SELECT * FROM v") == compute(shop, FEWER)
    shop.flush()
    assert read(shop, "SELECT * FROM w") == compute(shop, f"WITH v AS ({FEWER}) {READER}")
    assert shop.catalog.get("v").options == {"gate": "rows_changed = 0"}
    check_nothing_is_left(shop)
    with pytest.raises(SqlError, match="no gate holds up a change of v"):
        shop.approve("v")
    shop.sql(MADE.format("rows_changed = 0", FIRST))
    shop.sql(MADE.format("rows_changed = 0", FEWER))  # gives it up, and is the present query
    check_nothing_is_left(shop)


def test_commands_show_a_change_and_decide_it(shop: Session, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        with pytest.raises(SystemExit):
            main([*words, "--store", shop.url])
        return "".join(capsys.readouterr())

    shop.flush()
    assert "v has no next query" in run("diff", "v", "--pending")
    assert "name one moment or two" in run("diff", "v") and "or ask" in run("diff", "v", "1", "--pending")
    for word, query in (("discard", FIRST), ("approve", FEWER)):
        shop.sql(MADE.format("rows_changed = 0", FEWER))
        printed = run("diff", "v", "--pending")
        assert "by its query and by its next one" in printed and "380 -> " not in printed
        assert json.loads(run("diff", "v", "--pending", "--json"))["deleted"] == 2
        assert "held" in run("status") and "the gate is rows_changed = 0" in run("status", "--waits")
        assert f"v: the next query is {'approved' if word == 'approve' else 'dropped'}" in run(word, "v")
        shop.flush()
        assert read(shop, "SELECT * FROM v") == compute(shop, query)
    check_nothing_is_left(shop)


def test_what_reads_each_other_waits_together(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW w AS {READER}")
    shop.flush()
    assert alter_view(shop, MADE.format("rows_deleted = 0; rows_changed <= 1", FEWER))
    shop.sql(ALTER.replace(" v ", " w ") + READER.replace("sum(total)", "max(total)"))
    assert "the gate of v holds it up, too" in shop.notices[-1]
    shop.discard("v")
    shop.flush()
    assert read(shop, "SELECT * FROM v") == compute(shop, FIRST)
    check_nothing_is_left(shop)


@pytest.mark.long
def test_a_view_that_fails_is_changed_by_approval_and_holds_up_no_other(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW zz AS {FIRST}")
    shop.sql(ALTER + FIRST.replace("sum(n)", "sum(100 DIV (n - 500))"))
    shop.sql("INSERT INTO t VALUES (500, 1, 500)")
    assert [one.view for one in shop.flush().failed] == ["v"]
    shop.sql(MADE.format("rows_changed <= 100%", FEWER), build=False)
    shop.sql(f"ALTER MATERIALIZED VIEW zz AS {LARGEST}", build=False)
    with pytest.raises(SqlError, match="the next query of v is still being computed"):
        shop.diff_pending("v")
    shop.flush()
    held = list_successions(shop.store.refresh())["v"].held
    assert held == "the gate cannot be asked while v fails: it has rows at no epoch of its next query"
    with pytest.raises(SqlError, match="v has rows at no epoch of its next query, which cannot be compared"):
        shop.diff_pending("v")
    assert read(shop, "SELECT * FROM zz") == compute(shop, LARGEST)
    shop.approve("v")
    shop.flush().raise_for_errors()
    assert read(shop, "SELECT * FROM v") == compute(shop, FEWER)
    check_nothing_is_left(shop)


@pytest.mark.long
def test_a_gate_that_could_not_be_asked_is_asked_once_the_view_is_right(shop: Session) -> None:
    shop.sql(ALTER + FIRST.replace("sum(n)", "sum(100 DIV (n - 500))"))
    shop.sql("INSERT INTO t VALUES (500, 1, 500)")
    shop.flush()
    shop.sql(MADE.format("rows_changed <= 100%", FEWER))
    assert "the gate cannot be asked while v fails" in shop.notices[-1]
    shop.sql("DELETE FROM t WHERE id = 500")
    shop.flush().raise_for_errors()
    shop.flush().raise_for_errors()
    assert read(shop, "SELECT * FROM v") == compute(shop, FEWER)
    check_nothing_is_left(shop)


def test_what_fails_does_not_take_over_when_it_is_approved(shop: Session) -> None:
    shop.sql(ALTER + FIRST.replace("FROM t", "FROM t WHERE n > 0"))
    shop.sql(MADE.format("rows_changed = 0", FIRST.replace("sum(n)", "sum(100 DIV (n + 5))")))
    assert list_successions(shop.store.refresh())["v"].held
    before = read(shop, "SELECT * FROM v")
    shop.sql("INSERT INTO t VALUES (500, 1, -5)")  # no row of the view, and the next query fails on it
    shop.flush()
    shop.approve("v")
    for _ in range(2):
        assert [one.view for one in shop.flush().failed] == ["_next_v"]
    assert not list_successions(shop.store.refresh())["v"].copied
    shop.sql("INSERT INTO t VALUES (501, 0, 1000)")
    shop.flush()
    now = read(shop, "SELECT * FROM v")
    assert now == compute(shop, FIRST.replace("FROM t", "FROM t WHERE n > 0")) != before
    shop.sql("DELETE FROM t WHERE id = 500")
    shop.flush().raise_for_errors()
    assert read(shop, "SELECT * FROM v") == read(shop, FIRST.replace("sum(n)", "sum(100 DIV (n + 5))"))
    check_nothing_is_left(shop)


def test_columns_that_are_not_the_same_after_it_are_not_passed_over(shop: Session) -> None:
    for query in (FIRST.replace(" AS total", " AS summed"), "SELECT g, count(*) AS c FROM t GROUP BY g"):
        with pytest.raises(SqlError, match="v has no column total"):
            shop.sql(MADE.format("changed(total) = 0", query))
    other = FIRST.replace("sum(n) AS", "CAST(sum(n) * 100 AS DOUBLE) AS")
    for gate in ("rows_updated < 5", "rows_deleted = 0; changed(TOTAL) <= 100%"):
        shop.sql(MADE.format(gate, other))
        held = list_successions(shop.store.refresh())["v"].held
        assert held.startswith("total gets another type, and the gate cannot count how it changes: ")
        assert held.endswith(gate.rpartition("; ")[2])
        assert shop.diff_pending("v").not_compared == ("total bigint -> double",)
        assert shop.diff_pending("v").changed == 0
    shop.sql(MADE.format("rows_deleted = 0; rows_inserted = 0; changed(c) = 0", other))
    assert read(shop, "SELECT * FROM v") == read(shop, other)


def test_each_gate_of_a_run_says_what_it_holds_up(shop: Session) -> None:
    for name in ("a", "b"):
        shop.sql(f"CREATE MATERIALIZED VIEW {name} AS {FIRST}")
    shop.sql("CREATE MATERIALIZED VIEW w AS SELECT g, total FROM v")
    shop.flush()
    shop.sql(f"ALTER MATERIALIZED VIEW a AS {FEWER}", build=False)
    gated = MADE.format("rows_changed = 0", "{}")
    for name, query in (("b", FEWER), ("v", FEWER), ("w", "SELECT g, total + 1 AS total FROM v")):
        shop.sql(gated.replace(" v ", f" {name} ").format(query), build=False)
    shop.flush().raise_for_errors()
    assert {view: bool(one.held) for view, one in list_successions(shop.store.refresh()).items()} == {
        "b": True,
        "v": True,
        "w": True,
    }
    assert read(shop, "SELECT * FROM a") == compute(shop, FEWER)


@pytest.mark.parametrize(
    ("gate", "reason"),
    [
        ("rows_lost = 0", "a gate cannot be bounded by rows_lost = 0"),
        ("rows_changed = 5", "would ask for just so many rows"),
        ("changed(nothing) <= 1", "v has no column nothing"),
        (";", "says no bound"),
    ],
)
def test_a_gate_that_says_nothing_is_refused(shop: Session, gate: str, reason: str) -> None:
    with pytest.raises((SqlError, UnsupportedSql), match=reason):
        shop.sql(MADE.format(gate, FEWER))


def test_where_no_gate_can_be_asked_the_change_is_refused(shop: Session) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW a WITH (domain = 'd') AS {FIRST}")
    shop.sql(f"CREATE MATERIALIZED VIEW b WITH (domain = 'd') AS {FEWER}")
    shop.flush()
    gated = MADE.format("rows_changed <= 1", LARGEST)
    with pytest.raises(SqlError, match="a commits together with others, and the gate"):
        shop.sql(gated.replace(" v ", " a ").replace("WITH (", "WITH (domain = 'd', "))
    with pytest.raises(SqlError, match="v would be made anew, and the gate of its change cannot be asked"):
        alter_view(shop, V.replace("v AS", "v WITH (gate = 'rows_changed <= 1') AS") + "SELECT g FROM t")


def test_bounds_are_read_as_they_are_written() -> None:
    one, other = parse_gate('rows_changed <= 1.5 %; changed("a; b") < 3', "")
    assert (one.measure, one.limit, one.is_share, one.is_strict) == (
        "rows_changed",
        Decimal("1.5"),
        True,
        False,
    )
    assert (other.column, other.limit, other.is_strict) == ("a; b", 3, True)
    assert one.is_kept(15, 1000) and not one.is_kept(16, 1000)
    assert other.is_kept(2, 0) and not other.is_kept(3, 0)
    (exact,) = parse_gate("rows_deleted <= 0.7%", "")
    assert exact.is_kept(7, 1000) and not exact.is_kept(71, 10_000)
