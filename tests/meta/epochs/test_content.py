"""A view has content at its labels, and after each for as long as nothing that it reads has changed; nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import EpochFailed
from engine.hummock import Hummock
from engine.meta.epochs.content import Content
from engine.meta.epochs.query_policy import choose_epochs
from tests.meta.domains.test_domain import catalog
from tests.meta.epochs.test_frontier import SCHEMA, commit_view, put

STORED = catalog({"a": ("t", None), "b": ("t", None)})


@pytest.fixture
def store(tmp_path: Path) -> Hummock:
    opened = Hummock.open((tmp_path / "store").as_uri(), cache_dir=str(tmp_path / "cache"))
    opened.create_table("t", SCHEMA, ["id"], ["id"])
    return opened


def content(store: Hummock) -> Content:
    return Content(store.version, STORED.inputs)


def test_between_two_labels_a_view_has_content_until_its_input_changes(store: Hummock) -> None:
    first = put(store, "t", 1)
    commit_view(store, "a", first, [1])
    second = put(store, "t", 2)
    third = put(store, "t", 3)
    commit_view(store, "a", third, [2, 3])
    found = content(store)
    assert found.find_newest("a", second - 1) == second - 1
    assert found.find_newest("a", second) == second - 1 and not found.has_content("a", second)
    assert found.has_content("a", third) and found.has_content("a", store.version.epoch)
    assert found.find_next("a", second) == third


def test_twin_views_that_were_brought_on_at_different_epochs_are_read_where_both_have_content(
    store: Hummock,
) -> None:
    first = put(store, "t", 1)
    for name in ("a", "b"):
        commit_view(store, name, first, [1])
    second = put(store, "t", 2)
    commit_view(store, "a", second, [2])
    third = put(store, "t", 3)
    commit_view(store, "b", third, [2, 3])
    assert choose_epochs(store.version, STORED, ("a", "b")) == dict.fromkeys("ab", second - 1)
    commit_view(store, "a", third, [3])
    assert choose_epochs(store.version, STORED, ("a", "b")) == dict.fromkeys("ab", store.version.epoch)


def test_a_commit_that_changed_nothing_is_content_too(store: Hummock) -> None:
    first = put(store, "t", 1)
    commit_view(store, "a", first, [1])
    commit_view(store, "b", first, [1])
    second = put(store, "t", 2)
    commit_view(store, "a", second, [])
    commit_view(store, "b", second, [2])
    third = put(store, "t", 3)
    commit_view(store, "a", third, [3])
    reopened = Hummock.open(store.url, cache_dir=str(store.options["cache_dir"]))
    assert choose_epochs(reopened.version, STORED, ("a", "b")) == dict.fromkeys("ab", third - 1)


def test_a_reader_of_two_views_that_never_met_waits(store: Hummock) -> None:
    first = put(store, "t", 1)
    commit_view(store, "a", first, [1])
    second = put(store, "t", 2)
    commit_view(store, "b", second, [1, 2])
    assert content(store).find_common(("a", "b"), store.version.epoch) is None
    with pytest.raises(EpochFailed, match="a, b have no epoch in common"):
        choose_epochs(store.version, STORED, ("a", "b"))


def test_an_epoch_between_two_labels_is_told_and_not_rounded(store: Hummock) -> None:
    first = put(store, "t", 1)
    commit_view(store, "a", first, [1])
    second = put(store, "t", 2)
    third = put(store, "t", 3)
    commit_view(store, "a", third, [2, 3])
    message = rf"no content at epoch .*\({second}\); it has up to epoch .*\({second - 1}\) and from epoch .*\({third}\) on"
    with pytest.raises(EpochFailed, match=message):
        choose_epochs(store.version, STORED, ("a",), str(second))
