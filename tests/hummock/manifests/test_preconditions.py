"""Preconditions over tables: what each refuses, with which error, and that a composition asks in its order."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.errors import Conflict, SourceError, UnknownTable
from engine.hummock import Commit, Hummock, Put, Version
from engine.hummock.manifests.preconditions import (
    Precondition,
    require,
    require_absent_table,
    require_all,
    require_none,
    require_same_table,
    require_same_tables,
    require_unaltered,
    require_unchanged,
)
from engine.testing.memory import MemoryObjectStore

SCHEMA = pa.schema([("id", pa.int64())])


def _refuses(check: Precondition, version: Version) -> str | None:
    try:
        check(version)
    except (Conflict, SourceError, UnknownTable) as error:
        return f"{type(error).__name__}: {error}"
    return None


def test_each_precondition_refuses_what_it_names_and_nothing_else() -> None:
    store = Hummock.open("memory:", object_store=MemoryObjectStore())
    store.create_table("t", SCHEMA, ["id"])
    seen = store.version
    table = seen.tables["t"]
    store.ingest_batch({"t": Put(pa.table({"id": [1]}, SCHEMA))})
    written = store.version
    store.alter_table("t", add=[pa.field("x", pa.int64())])
    altered = store.version
    store.drop_table("t")
    gone = store.version
    store.create_table("t", SCHEMA, ["id"])
    anew = store.version
    states = (seen, written, altered, gone, anew)
    for check, refused in (
        (require_same_table(table, "other", SourceError), (False, False, False, True, True)),
        (require_same_table(None, "none"), (True,) * 5),
        (require_same_tables({"t": table}), (False, False, False, True, True)),
        (require_unaltered(table), (False, False, True, True, False)),
        (require_unchanged(table), (False, True, True, True, True)),
        (require_absent_table("t"), (True, True, True, False, True)),
    ):
        assert tuple(_refuses(check, state) is not None for state in states) == refused
    assert (_refuses(require_same_table(table, "other", SourceError), anew) or "") == "SourceError: other"
    assert (_refuses(require_same_tables({"t": table}), gone) or "").startswith("UnknownTable")
    assert (_refuses(require_unchanged(table), written) or "").endswith("table t changed since it was read")


def test_a_composition_asks_in_its_order_and_none_is_no_check() -> None:
    asked: list[str] = []

    def ask(name: str, found: str | None) -> Precondition:
        def find(_: Version) -> str | None:
            asked.append(name)
            return found

        return require_none(find)

    check = require_all(ask("a", None), None, ask("b", "b is in the way"), ask("c", None))
    with pytest.raises(Conflict, match="b is in the way"):
        check(Version())
    assert asked == ["a", "b"]
    require_all()(Version())
    with pytest.raises(Conflict, match="never"):
        require(lambda _: False, "never")(Version())


def test_a_commit_whose_precondition_is_broken_changes_nothing() -> None:
    store = Hummock.open("memory:", object_store=MemoryObjectStore())
    store.create_table("t", SCHEMA, ["id"])
    before = store.version
    unchanged = require_unchanged(before.tables["t"])
    store.ingest_batch({"t": Put(pa.table({"id": [1]}, SCHEMA))})
    with pytest.raises(Conflict):
        store.commit(Commit(catalog={"a": "1"}, precondition=unchanged))
    assert "a" not in store.refresh().catalog
