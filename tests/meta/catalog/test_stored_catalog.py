"""What is read from a catalog belongs to its store, and is read once."""

from __future__ import annotations

import pickle

from engine.hummock import Commit, Hummock
from engine.meta.catalog.stored_catalog import encode_entries, load_catalog
from engine.meta.domains.creation import CONSUMING_SNAPSHOT, Creation, encode_creation, list_incomplete_tables
from engine.sql.catalog import Relation
from engine.testing.memory import MemoryObjectStore


def opened(url: str) -> Hummock:
    return Hummock.open(url, object_store=MemoryObjectStore())


def table(name: str) -> dict[str, str | None]:
    return encode_entries({name: Relation(name=name, kind="table", columns=(), primary_key=())}, {})


def test_a_catalog_that_was_read_stays_the_same_object_while_another_store_is_read() -> None:
    with opened("memory://one") as one, opened("memory://two") as two:
        one.commit(Commit(catalog=table("a")))
        two.commit(Commit(catalog=table("b")))
        first = load_catalog(one.version)
        assert set(load_catalog(two.version).catalog.relations) == {"b"}
        assert load_catalog(one.version) is first and set(first.catalog.relations) == {"a"}


def test_stores_with_equal_catalogs_share_no_object() -> None:
    with opened("memory://one") as one, opened("memory://two") as two:
        for store in (one, two):
            store.commit(Commit(catalog=table("a")))
        assert load_catalog(one.version) == load_catalog(two.version) and load_catalog(
            one.version
        ) is not load_catalog(two.version)


def test_a_commit_that_leaves_relations_alone_leaves_their_catalog_the_same_object() -> None:
    with opened("memory://one") as store:
        store.commit(Commit(catalog=table("a")))
        before = load_catalog(store.version)
        store.commit(Commit(catalog={"note": "of something else"}))
        store.commit(Commit(catalog={"note": None}))
        assert load_catalog(store.version) is before
        store.commit(Commit(catalog=table("b")))
        assert set(load_catalog(store.version).catalog.relations) == {"a", "b"}
        assert set(before.catalog.relations) == {"a"}


def test_what_is_created_in_one_store_hides_nothing_in_another() -> None:
    with opened("memory://one") as one, opened("memory://two") as two:
        creation = Creation(1, ("v",), started=0.0, total=0, state=CONSUMING_SNAPSHOT)
        one.commit(Commit(catalog=encode_creation("v", creation)))
        assert (list_incomplete_tables(one.version), list_incomplete_tables(two.version)) == (
            {"v"},
            frozenset(),
        )
        one.commit(Commit(catalog={key: None for key in encode_creation("v", creation)}))
        assert list_incomplete_tables(one.version) == frozenset()


def test_entries_are_sent_to_another_process_without_what_was_read_from_them() -> None:
    with opened("memory://one") as store:
        store.commit(Commit(catalog=table("a")))
        load_catalog(store.version)
        sent = pickle.loads(pickle.dumps(store.version.catalog))
        assert sent == store.version.catalog and vars(sent) == {"_found": {}, "_before": {}}
