"""What `select` and `exclude` choose."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_tideline.dbt.manifest import ManifestError, read_manifest
from dagster_tideline.dbt.selection import select_nodes
from tests.dagster.dbt.manifests import model, write_manifest

NODES = (
    model("a", "select 1", path="staging/a.sql", tags=["daily"], fqn=["shop", "staging", "a"]),
    model(
        "b",
        "select 1",
        "model.shop.a",
        path="marts/b.sql",
        tags=["daily", "gold"],
        fqn=["shop", "marts", "b"],
    ),
    model(
        "c", "select 1", "model.shop.b", path="marts/c.sql", fqn=["shop", "marts", "c"], materialized="view"
    ),
)


@pytest.mark.parametrize(
    ("select", "exclude", "found"),
    [
        ("", "", "abc"),
        ("a c", "", "ac"),
        ("tag:daily", "", "ab"),
        ("tag:daily,path:models/marts", "", "b"),
        ("path:models/staging/a.sql", "", "a"),
        ("+b", "", "ab"),
        ("b+", "", "bc"),
        ("1+c", "", "bc"),
        ("a+1", "", "ab"),
        ("+b+", "", "abc"),
        ("", "tag:gold", "ac"),
        ("+c", "a", "bc"),
        ("shop.marts", "", "bc"),
        ("marts.c", "", "c"),
        ("marts.*", "", "bc"),
        ("package:shop", "config.materialized:view", "ab"),
    ],
)
def test_words_choose_nodes(tmp_path: Path, select: str, exclude: str, found: str) -> None:
    nodes = read_manifest(write_manifest(tmp_path, *NODES)).nodes
    chosen = select_nodes(nodes, (select,) if select else (), (exclude,) if exclude else ())
    assert {key.rpartition(".")[2] for key in chosen} == set(found)


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("state:modified", "state: is not read"),
        ("@a", "@a is not read"),
        ("nobody", "nobody selects nothing"),
    ],
)
def test_what_is_not_read_is_told(tmp_path: Path, select: str, message: str) -> None:
    nodes = read_manifest(write_manifest(tmp_path, *NODES)).nodes
    with pytest.raises(ManifestError, match=message):
        select_nodes(nodes, (select,), ())
