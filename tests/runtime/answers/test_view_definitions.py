"""Definitions of views as one plan over what they read: the moment is a number in them, and what has no trace is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from engine.errors import SqlError
from engine.hummock.epoch import micros_of
from engine.meta.catalog.stored_catalog import load_catalog
from engine.runtime.answers.view_definitions import build_definition
from engine.sql.catalog import Catalog, RelationColumn
from engine.sql.explain import explain
from engine.sql.plan import Node, list_scans
from tests.crash.views_in_memory import ViewsInMemory


def define(folder: Path, text: str, epoch: int = 0) -> Node:
    made = ViewsInMemory(folder)
    made.table("t", "id", "g", "x")
    made.table("u", "id", "y")
    made.view("v", text)
    stored = load_catalog(made.store.version)
    return build_definition(stored.catalog.get("v"), stored, epoch)


def test_a_definition_reads_tables_and_no_state_of_the_view(tmp_path: Path) -> None:
    plan = define(tmp_path, "SELECT g, sum(x) AS s FROM t JOIN u ON u.id = t.g GROUP BY g HAVING max(y) > 1")
    assert {scan.table for scan in list_scans(plan)} == {"t", "u"} and plan.columns == ("g", "s")


def test_the_moment_is_that_of_the_epoch(tmp_path: Path) -> None:
    epoch = 11693245941874688
    plan = define(tmp_path, "SELECT id FROM t WHERE timestamp_seconds(x) > now() - INTERVAL '1' HOUR", epoch)
    assert str(micros_of(epoch)) in explain(plan) and "now()" not in explain(plan)


def test_a_temporal_join_is_refused(tmp_path: Path) -> None:
    text = "SELECT t.id, u.y FROM t JOIN u FOR SYSTEM_TIME AS OF PROCTIME() ON u.id = t.g"
    with pytest.raises(SqlError, match="rows of v cannot be traced: a temporal join keeps"):
        define(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t WHERE x > 1",
        "SELECT t.*, y FROM t JOIN u ON u.id = t.g",
        "SELECT g, count(*) AS n FROM (SELECT DISTINCT * FROM t) a GROUP BY g",
        "SELECT a.* FROM t a JOIN t b ON a.g = b.x",
    ],
)
def test_a_star_is_what_a_table_had_when_the_view_was_made(tmp_path: Path, text: str) -> None:
    made = ViewsInMemory(tmp_path)
    made.table("t", "id", "g", "x")
    made.table("u", "id", "y")
    made.view("v", text)
    stored = load_catalog(made.store.version)
    before = build_definition(stored.catalog.get("v"), stored, 0)
    relations = dict(stored.catalog.relations)
    table = relations["t"]
    late = RelationColumn("late", "bigint")
    relations["t"] = msgspec.structs.replace(table, columns=(*table.columns, late))
    later = replace(stored, catalog=Catalog(relations))
    assert explain(build_definition(later.catalog.get("v"), later, 0)) == explain(before)
