"""Tasks that take fragments from one journal run each of them once, after all that it reads."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.operators.fragment_journal import FragmentJournal, JournalEntry, State

Inputs = list[frozenset[int]]


def draw_inputs(chance: random.Random, count: int) -> Inputs:
    return [frozenset(chance.sample(range(n), min(n, chance.choice((0, 1, 1, 2, 3))))) for n in range(count)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "journal").touch()
    return str(tmp_path / "journal")


def always() -> bool:
    return True


def ignore(entry: JournalEntry) -> None:
    """Stage nothing."""


@pytest.mark.parametrize("seed", range(10))
def test_each_fragment_is_run_once_after_its_inputs(path: str, seed: int) -> None:
    chance = random.Random(seed)
    inputs = draw_inputs(chance, 60)
    states = [chance.choice((State.UNCHANGED, State.LEFT_OUT, State.WRITTEN)) for _ in inputs]
    ended: set[int] = set()
    runs: list[int] = []
    faults: list[str] = []
    start = threading.Barrier(3)

    def run_task() -> None:
        known: dict[int, State] = {}

        def stage(entry: JournalEntry) -> None:
            known[entry.number] = entry.state

        with FragmentJournal(path, inputs) as journal:
            start.wait()
            for number in journal.take(stage, always):
                runs.append(number)
                if not inputs[number] <= ended:
                    faults.append(f"{number} came before {inputs[number] - ended}")
                if wrong := [one for one in inputs[number] if known.get(one) != states[one]]:
                    faults.append(f"{number} does not know how {wrong} ended")
                known[number] = states[number]
                ended.add(number)
                journal.end(number, states[number])
            assert not journal.take_rest()

    tasks = [threading.Thread(target=run_task) for _ in range(3)]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join(30)
    assert sorted(runs) == list(range(len(inputs))) and not faults


def test_a_task_waits_for_what_another_one_runs(path: str) -> None:
    inputs: Inputs = [frozenset(), frozenset({0})]
    taken: list[int] = []
    with FragmentJournal(path, inputs) as first, FragmentJournal(path, inputs) as second:
        turns = first.take(ignore, always)
        assert next(turns) == 0

        def run_second() -> None:
            taken.extend(second.take(ignore, always))

        waiting = threading.Thread(target=run_second)
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive() and not taken
        first.end(0, State.UNCHANGED)
        waiting.join(30)
        assert taken == [1]
        assert list(turns) == []


def run_out(looks: int) -> Callable[[], bool]:
    """Return what says that there is time for so many looks."""
    left = iter(range(looks))
    return lambda: next(left, None) is not None


def test_what_no_task_has_time_for_is_left_out_once(path: str) -> None:
    inputs: Inputs = [frozenset(), frozenset({0}), frozenset()]
    staged: list[JournalEntry] = []
    with FragmentJournal(path, inputs) as first, FragmentJournal(path, inputs) as second:
        assert list(first.take(ignore, run_out(1))) == [0]
        assert first.take_rest() == (1, 2)
        assert second.take_rest() == ()
        first.end(0, State.WRITTEN)
        assert list(second.take(staged.append, always)) == []
    assert {(one.number, one.state) for one in staged} <= {
        (0, State.WRITTEN),
        (1, State.LEFT_OUT),
        (2, State.LEFT_OUT),
    }


def test_a_task_does_not_wait_for_one_that_is_gone(path: str) -> None:
    inputs: Inputs = [frozenset(), frozenset({0}), frozenset()]
    with FragmentJournal(path, inputs) as gone:
        assert next(gone.take(ignore, always)) == 0
    with FragmentJournal(path, inputs) as left:
        assert list(left.take(ignore, run_out(5))) == [2]
        assert left.take_rest() == (1,)


def test_a_journal_without_room_fails_its_task() -> None:
    with (
        FragmentJournal("/dev/full", [frozenset()]) as journal,
        pytest.raises(OSError, match="No space left"),
    ):
        list(journal.take(ignore, always))
