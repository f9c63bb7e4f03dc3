"""Query policies: consistent, latest, global, an epoch and a timestamp each pick the epochs that they promise."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from engine.errors import EpochFailed, SqlError
from engine.hummock import Hummock
from engine.hummock.epoch import seconds_of
from engine.meta.epochs.query_policy import check_policy, choose_epochs, find_global_epoch
from tests.meta.domains.test_domain import catalog
from tests.meta.epochs.test_frontier import SCHEMA, commit_view, put

STORED = catalog({"a": ("t", None), "b": ("t", None), "young": ("t", None)})


@pytest.fixture
def store(tmp_path: Path) -> Hummock:
    opened = Hummock.open((tmp_path / "store").as_uri(), cache_dir=str(tmp_path / "cache"))
    opened.create_table("t", SCHEMA, ["id"], ["id"])
    first = put(opened, "t", 1)
    commit_view(opened, "a", first, [1])
    commit_view(opened, "b", first, [1])
    second = put(opened, "t", 2)
    commit_view(opened, "b", second, [2])
    return opened


def frontier_of_a(store: Hummock) -> int:
    changes = [entry.epoch for entry in store.version.tables["t"].log]
    return changes[1] - 1


def test_consistent_reads_all_tables_at_the_newest_epoch_at_which_each_has_content(store: Hummock) -> None:
    found = choose_epochs(store.version, STORED, ("a", "b"))
    assert found == {"a": frontier_of_a(store), "b": frontier_of_a(store)}
    assert choose_epochs(store.version, STORED, ("b",))["b"] == store.version.epoch


def test_latest_reads_each_table_at_its_own_frontier(store: Hummock) -> None:
    found = choose_epochs(store.version, STORED, ("a", "b", "t"), "latest")
    assert found == {"a": frontier_of_a(store), "b": store.version.epoch, "t": store.version.epoch}


def test_global_is_held_back_by_every_computed_view_but_not_by_one_being_created(store: Hummock) -> None:
    assert choose_epochs(store.version, STORED, ("b",), "global") == {"b": frontier_of_a(store)}
    assert find_global_epoch(store.version, STORED) == frontier_of_a(store)


def test_an_epoch_that_a_view_has_not_reached_is_refused_with_the_one_that_it_has(store: Hummock) -> None:
    wanted = store.version.epoch
    with pytest.raises(
        EpochFailed,
        match=rf"no content at epoch .*\({wanted}\); it has up to epoch .*\({frontier_of_a(store)}\)",
    ):
        choose_epochs(store.version, STORED, ("a",), str(wanted))
    assert choose_epochs(store.version, STORED, ("b",), str(wanted)) == {"b": wanted}


def test_a_timestamp_is_the_epoch_of_that_time_and_may_not_lie_ahead(store: Hummock) -> None:
    first = store.version.tables["t"].log[0].epoch
    moment = dt.datetime.fromtimestamp(seconds_of(first), dt.UTC).isoformat()
    (epoch,) = choose_epochs(store.version, STORED, ("b",), moment).values()
    assert abs(seconds_of(epoch) - seconds_of(first)) < 0.002
    with pytest.raises(EpochFailed, match="not past yet"):
        choose_epochs(store.version, STORED, ("b",), "2999-01-01")


def test_a_view_that_was_never_computed_cannot_be_read(store: Hummock) -> None:
    with pytest.raises(EpochFailed, match="young has not been computed"):
        choose_epochs(store.version, STORED, ("young",))


def test_an_unknown_policy_is_refused_with_those_there_are() -> None:
    assert check_policy(" Latest ") == "latest"
    with pytest.raises(SqlError, match="consistent, latest, global"):
        check_policy("newest")
