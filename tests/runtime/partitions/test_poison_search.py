"""Which partitions are left behind: all that fail, none that does not, and what it costs to find out."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as hs

from engine.errors import RowFailed
from engine.runtime.partitions.poison_search import MOST_PROBES, Poison, find_poison

FAILURE = RowFailed("division by zero")


def search(touched: list[str], poison: Collection[str], behind: Collection[str] = ()) -> tuple[Poison, int]:
    """Return what is found, and how often partitions were tried."""
    tried: list[Collection[str]] = []

    def fails(keys: Collection[str]) -> RowFailed | None:
        tried.append(keys)
        bad = sorted(set(keys) & set(poison))
        return RowFailed(f"row of {bad[0]}") if bad else None

    return find_poison("v", touched, behind, fails, FAILURE), len(tried)


@pytest.mark.parametrize("count", [1, 8, 9, 25, 64])
def test_any_number_of_poison_partitions_is_found_each_with_its_own_failure(count: int) -> None:
    touched = [f"p{n}" for n in range(64)]
    found, tried = search(touched, touched[:count])
    assert {key: str(one) for key, one in found.failures.items()} == {
        key: f"row of {key}" for key in touched[:count]
    }
    assert not found.suspects and tried <= MOST_PROBES


def test_one_poison_partition_of_many_is_found_by_halving() -> None:
    touched = [f"p{n}" for n in range(10_000)]
    found, tried = search(touched, ["p777"])
    assert list(found.failures) == ["p777"] and tried <= 30


def test_with_very_many_poison_partitions_the_search_ends_and_leaves_no_poison_in() -> None:
    touched = [f"p{n}" for n in range(5_000)]
    poison = set(touched[::3])
    found, tried = search(touched, poison)
    assert tried <= MOST_PROBES + 1 and poison <= set(found.failures) and found.suspects


@given(hs.integers(1, 40), hs.sets(hs.integers(0, 39)), hs.sets(hs.integers(0, 39)))
def test_nothing_sound_is_left_behind_while_there_are_probes(
    count: int, bad: set[int], behind: set[int]
) -> None:
    touched = [f"p{n}" for n in range(count)]
    poison = {f"p{n}" for n in bad if n < count} - {f"p{n}" for n in behind}
    found, _ = search(touched, poison, {f"p{n}" for n in behind})
    assert set(found.failures) == poison and not found.suspects
