"""Fragments are cut into actions and tasks so that each finds what it reads, and the last one ends soonest."""

from __future__ import annotations

import itertools
import random

import pytest

from engine.operators.shared_task import SharedFragment
from engine.runtime.epoch.shared_schedule import (
    ACTION_SECONDS,
    MOST_WAVES,
    Wave,
    plan_actions,
    plan_shares,
    plan_waves,
)


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


@pytest.mark.parametrize("seed", range(10))
def test_shared_fragments_come_after_what_they_read(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"t{n}" for n in range(40)]
    fragments = [
        fragment(name, *chance.sample(names[:n], min(n, 2)), "stored") for n, name in enumerate(names)
    ]
    seconds = {name: chance.choice([0.0, 0.01, 0.2]) for name in names}
    order = plan_shares(fragments, seconds, 2)
    assert order is not None and sorted(one.table for one in order) == sorted(names)
    places = {one.table: n for n, one in enumerate(order)}
    assert all(places[name] < places[one.table] for one in fragments for name in one.inputs if name in places)


def test_what_the_longest_work_waits_for_comes_first() -> None:
    fragments = [fragment("short"), fragment("first"), fragment("long", "first"), fragment("last", "long")]
    order = plan_shares(fragments, {"short": 0.3, "first": 0.1, "long": 0.2, "last": 0.1}, 2)
    assert order is not None and [one.table for one in order] == ["first", "long", "short", "last"]


def test_tasks_of_one_machine_share_one_action() -> None:
    fragments = [fragment("a"), fragment("b", "a"), fragment("c", "a"), fragment("d", "b", "c")]
    seconds = {one.table: 1.0 for one in fragments}
    (action,) = plan_actions(fragments, seconds, 8, is_local=True)
    assert action.is_shared and len(action.tasks) == 4 and len(action.fragments) == 4
    assert not any(one.is_shared for one in plan_actions(fragments, seconds, 8, is_local=False))
    (alone,) = plan_actions(fragments, {one.table: 0.001 for one in fragments}, 8, is_local=True)
    assert not alone.is_shared and len(alone.tasks) == 1
