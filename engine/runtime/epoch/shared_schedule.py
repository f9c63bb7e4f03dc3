"""In which actions, and in which task of each, the fragments of a run are computed so that the last one ends soonest.

Tasks of one machine share the fragments of one action as they run. Tasks of several machines have theirs from the start:

Method: a directed acyclic graph is cut into waves, each of which needs nothing but what waves before it have written. Within one,
fragments that read each other stay in one task, and tasks get such groups the longest first (Graham 1969). Where to cut is tried
at a few points of the order in which fragments could begin on any number of cores.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from engine.operators.shared_task import SharedFragment, find_inputs

Interval = tuple[float, float]
Wave = tuple[tuple[SharedFragment, ...], ...]
"""Of each task of one action the fragments, inputs before their readers."""
ACTION_SECONDS = 0.05
"""About what one more Spark action costs beside what its tasks compute."""
USUAL_SECONDS = 0.01
"""What a fragment is taken to cost before it was computed."""
MOST_WAVES = 3
_CUTS = 10
"""So many points at most are tried for a cut."""


@dataclass(frozen=True)
class ActionPlan:
    """One action: of each of its tasks the fragments, inputs before their readers; if it `is_shared` all take from the same."""

    tasks: Wave
    is_shared: bool = False

    @property
    def fragments(self) -> tuple[SharedFragment, ...]:
        """The fragments of all tasks."""
        return self.tasks[0] if self.is_shared else tuple(itertools.chain.from_iterable(self.tasks))


def plan_actions(
    fragments: Sequence[SharedFragment], seconds: Mapping[str, float], tasks: int, *, is_local: bool
) -> tuple[ActionPlan, ...]:
    """Return the actions in which up to `tasks` tasks compute fragments soonest; `seconds` are by table what they took before.

    Where they run on one machine (`is_local`) one action is enough: its tasks wait for each other's files.
    """
    if is_local and (order := plan_shares(fragments, seconds, tasks)):
        return (ActionPlan((order,) * min(tasks, len(order)), is_shared=True),)
    return tuple(ActionPlan(wave) for wave in plan_waves(fragments, seconds, tasks))


def plan_shares(
    fragments: Sequence[SharedFragment], seconds: Mapping[str, float], tasks: int
) -> tuple[SharedFragment, ...] | None:
    """Return the order in which up to `tasks` tasks of one machine take fragments, None if one task does it as soon.

    Those come first on which the longest work waits (Hu 1961), so inputs before their readers.
    """
    cost = _list_costs(fragments, seconds)
    if tasks < 2 or sum(cost.values()) <= ACTION_SECONDS:
        return None
    inputs = find_inputs(fragments)
    work = dict.fromkeys(cost, 0.0)
    for one in reversed(fragments):
        work[one.table] += cost[one.table]
        for name in inputs[one.table]:
            work[name] = max(work[name], work[one.table])
    return tuple(sorted(fragments, key=lambda one: -work[one.table]))


def plan_waves(
    fragments: Sequence[SharedFragment], seconds: Mapping[str, float], tasks: int
) -> tuple[Wave, ...]:
    """Return the waves in which `tasks` tasks compute fragments soonest; `seconds` are by table what they took before."""
    cost = _list_costs(fragments, seconds)
    waves: tuple[Wave, ...] = ((tuple(fragments),),)
    if tasks < 2 or sum(cost.values()) <= ACTION_SECONDS:
        return waves
    inputs = find_inputs(fragments)
    starts = _find_starts(fragments, inputs, cost)
    best = _measure(waves, cost)
    packed: dict[Interval, Wave] = {}
    for cuts in _list_cuts(sorted(set(starts.values()))):
        for between in (one for one in _list_intervals(cuts) if one not in packed):
            wave = [one for one in fragments if between[0] <= starts[one.table] < between[1]]
            packed[between] = _pack_tasks(wave, inputs, cost, tasks)
        tried = tuple(packed[one] for one in _list_intervals(cuts) if packed[one])
        length = _measure(tried, cost)
        if length < best:
            waves, best = tried, length
    return waves


def _list_costs(fragments: Sequence[SharedFragment], seconds: Mapping[str, float]) -> dict[str, float]:
    return {one.table: seconds.get(one.table, USUAL_SECONDS) for one in fragments}


def _find_starts(
    fragments: Sequence[SharedFragment], inputs: Mapping[str, set[str]], cost: Mapping[str, float]
) -> dict[str, float]:
    """Return when each fragment could begin if there were a core for each of them."""
    starts: dict[str, float] = {}
    for one in fragments:
        starts[one.table] = max((starts[name] + cost[name] for name in inputs[one.table]), default=0.0)
    return starts


def _list_cuts(points: Sequence[float]) -> Iterable[tuple[float, ...]]:
    """Yield where an order may be cut: nowhere, once, or twice."""
    some = points[1 :: max(1, len(points) // _CUTS)]
    return itertools.chain.from_iterable(itertools.combinations(some, n) for n in range(MOST_WAVES))


def _list_intervals(cuts: Sequence[float]) -> list[Interval]:
    """Return from where to before where each wave goes."""
    return list(itertools.pairwise((-math.inf, *cuts, math.inf)))


def _pack_tasks(
    wave: Sequence[SharedFragment], inputs: Mapping[str, set[str]], cost: Mapping[str, float], tasks: int
) -> Wave:
    """Return the fragments of a wave by task."""
    groups: dict[str, list[SharedFragment]] = {}
    group_of: dict[str, str] = {}
    for one in wave:
        first, *others = sorted({group_of[name] for name in inputs[one.table] if name in group_of}) or [
            one.table
        ]
        group = groups.setdefault(first, [])
        for other in others:
            merged = groups.pop(other)
            group_of |= dict.fromkeys((some.table for some in merged), first)
            group += merged
        group.append(one)
        group_of[one.table] = first
    loads, packed = [0.0] * tasks, [list[SharedFragment]() for _ in range(tasks)]
    for group in sorted(groups.values(), key=lambda some: -_sum_costs(some, cost)):
        least = loads.index(min(loads))
        loads[least] += _sum_costs(group, cost)
        packed[least] += group
    order = {one.table: n for n, one in enumerate(wave)}
    return tuple(tuple(sorted(some, key=lambda one: order[one.table])) for some in packed if some)


def _measure(waves: Sequence[Wave], cost: Mapping[str, float]) -> float:
    """Return the seconds after which the last wave has ended."""
    longest = (max(_sum_costs(task, cost) for task in wave) for wave in waves)
    return sum(longest) + ACTION_SECONDS * len(waves)


def _sum_costs(fragments: Iterable[SharedFragment], cost: Mapping[str, float]) -> float:
    return sum(cost[one.table] for one in fragments)
