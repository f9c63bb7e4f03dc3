"""The queue of mutations of a domain: kept in order, taken once, changed by one at a time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.errors import Conflict
from engine.hummock import Commit, Hummock, Version
from engine.meta.domains.mutation import (
    Control,
    apply_mutation,
    drop_members,
    encode_control,
    enqueue_mutation,
    read_control,
    rename_control,
    require_same_queue,
)
from engine.sql.catalog import Relation
from engine.testing.memory import MemoryObjectStore

VIEW = Relation(name="v", kind="materialized view", columns=(), primary_key=())
VERBS = some.tuples(
    some.sampled_from(("pause", "resume", "throttle", "update")), some.none() | some.integers(0, 9)
)


@given(some.lists(VERBS, max_size=12), some.lists(some.integers(0, 3), max_size=12))
def test_what_is_in_force_is_what_was_asked_for_in_order_however_asking_and_taking_mix(verbs, takes) -> None:
    control = Control()
    paused, limit, tasks = False, None, None
    waiting = list(verbs)
    for count in takes:
        if waiting:
            control = enqueue_mutation(control, waiting[0][0], VIEW, waiting.pop(0)[1], 0.0)
        for _ in range(min(count, len(control.asked))):
            control = apply_mutation(control, 5, 1.0)
    for mutation, value in waiting:
        control = enqueue_mutation(control, mutation, VIEW, value, 0.0)
    while control.asked:
        control = apply_mutation(control, 5, 1.0)
    for mutation, value in verbs:
        paused = {"pause": True, "resume": False}.get(mutation, paused)
        limit = value if mutation == "throttle" else limit
        tasks = value if mutation == "update" else tasks
    assert bool(control.paused) == paused and control.taken == len(verbs)
    assert control.rate_limits.get("v") == limit and control.parallelism.get("v") == tasks


def test_two_who_ask_at_the_same_time_do_not_lose_one() -> None:
    with Hummock.open("memory://queue", object_store=MemoryObjectStore()) as store:
        seen = store.version
        first = encode_control("v", enqueue_mutation(read_control(seen, "v"), "pause", VIEW, None, 0.0))
        version = store.commit(Commit(catalog=first, precondition=require_same_queue(seen, "v")))
        with pytest.raises(Conflict, match="mutations of domain v"):
            store.commit(Commit(catalog=first, precondition=require_same_queue(seen, "v")))
        assert len(read_control(version, "v").asked) == 1


def test_a_dropped_domain_leaves_nothing_and_a_renamed_one_keeps_all() -> None:
    control = enqueue_mutation(
        apply_mutation(enqueue_mutation(Control(), "pause", VIEW, None, 0.0), 5, 1.0),
        "throttle",
        VIEW,
        3,
        2.0,
    )
    version = Version(catalog={k: str(text) for k, text in encode_control("v", control).items()})
    assert drop_members(version, "v", {"v"}, ()) == {"control/v": None}
    moved = rename_control(version, "v", "w", {"v": "w"})
    assert moved["control/v"] is None
    after = read_control(Version(catalog={"control/w": str(moved["control/w"])}), "w")
    assert after.paused == "w" and after.asked[0].view == "w" and after.rate_limits == {"w": None}


def test_views_of_a_domain_exchange_what_is_in_force_for_them_with_their_names() -> None:
    control = Control(paused="v", rate_limits={"v": 3}, parallelism={"w": 2})
    version = Version(catalog={k: str(text) for k, text in encode_control("d", control).items()})
    moved = rename_control(version, "d", "d", {"v": "w", "w": "v"})
    after = read_control(Version(catalog={"control/d": str(moved["control/d"])}), "d")
    assert (after.paused, after.rate_limits, after.parallelism) == ("w", {"w": 3}, {"v": 2})


def test_what_was_asked_of_a_dropped_view_is_taken_and_holds_for_no_view_of_its_name() -> None:
    control = Control()
    for mutation in ("throttle", "update", "pause"):
        control = enqueue_mutation(control, mutation, VIEW, 3, 0.0)
    version = Version(catalog={k: str(text) for k, text in encode_control("d", control).items()})
    left = drop_members(version, "d", {"v"}, ("w",))
    after = read_control(Version(catalog={"control/d": str(left["control/d"])}), "d")
    assert after.asked[0].text == "throttle of a view that was dropped"
    while after.asked:
        after = apply_mutation(after, 5, 1.0)
    assert (after.taken, after.paused, after.rate_limits, after.parallelism) == (3, "w", {}, {})
