"""Fragments are cut into actions and tasks so that each finds what it reads, and the last one ends soonest."""

from __future__ import annotations

import itertools
import random

import pytest

from engine.operators.shared_task import SharedFragment
from engine.runtime.epoch.shared_schedule import ACTION_SECONDS, MOST_WAVES, Wave, plan_waves


def fragment(table: str, *inputs: str) -> SharedFragment:
    return SharedFragment(table, inputs, inputs, inputs, frozenset(), 1, 2, 1000)


def list_places(waves: tuple[Wave, ...]) -> dict[str, tuple[int, int, int]]:
    """Return of each table its wave, its task there, and its place in the task."""
    return {
        one.table: (w, t, n)
        for w, wave in enumerate(waves)
        for t, task in enumerate(wave)
        for n, one in enumerate(task)
    }


def measure(waves: tuple[Wave, ...], seconds: dict[str, float]) -> float:
    return sum(
        ACTION_SECONDS + max(sum(seconds[one.table] for one in task) for task in wave) for wave in waves
    )


@pytest.mark.parametrize("seed", range(20))
def test_each_fragment_comes_once_after_what_it_reads(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"t{n}" for n in range(chance.randrange(1, 40))]
    fragments = [
        fragment(name, *chance.sample(names[:n], min(n, chance.choice([0, 1, 1, 2, 3]))), "stored")
        for n, name in enumerate(names)
    ]
    seconds = {name: chance.choice([0.002, 0.01, 0.05, 0.2]) for name in names}
    tasks = chance.choice([1, 2, 4])
    waves = plan_waves(fragments, seconds, tasks)
    places = list_places(waves)
    assert sorted(places) == sorted(names) and sum(map(len, itertools.chain(*waves))) == len(names)
    assert len(waves) <= MOST_WAVES and all(len(wave) <= tasks for wave in waves)
    for one in fragments:
        for name in set(one.inputs) & set(names):
            assert places[name][0] < places[one.table][0] or places[name][:2] == places[one.table][:2]
            assert places[name] < places[one.table]
    assert measure(waves, seconds) <= ACTION_SECONDS + sum(seconds.values()) + 1e-9


def test_two_chains_are_computed_side_by_side() -> None:
    fragments = [fragment(f"{side}{n}", f"{side}{n - 1}") for n in range(1, 4) for side in "ab"]
    seconds = {one.table: 0.1 for one in fragments}
    (wave,) = plan_waves(fragments, seconds, 2)
    assert sorted([one.table for one in task] for task in wave) == [["a1", "a2", "a3"], ["b1", "b2", "b3"]]


def test_what_many_read_is_computed_before_they_are_side_by_side() -> None:
    fragments = [fragment("shared", "stored"), *(fragment(f"v{n}", "shared") for n in range(4))]
    seconds = {one.table: 0.2 for one in fragments}
    first, second = plan_waves(fragments, seconds, 2)
    assert [[one.table for one in task] for task in first] == [["shared"]]
    assert [len(task) for task in second] == [2, 2]


def test_what_is_done_at_once_takes_one_task() -> None:
    fragments = [fragment(f"v{n}", "stored") for n in range(4)]
    assert [len(task) for task in plan_waves(fragments, {f"v{n}": 0.005 for n in range(4)}, 2)[0]] == [4]
    assert len(plan_waves(fragments, {f"v{n}": 1.0 for n in range(4)}, 1)[0]) == 1
