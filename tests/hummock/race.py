"""Processes that race for manifests: each commits to the same table, and everything must be there in the end."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from pathlib import Path

from engine.hummock import Hummock, Put
from tests.hummock.conftest import SCHEMA, content, rows

CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Outcome:
    """What a race left: the manifests' numbers, the table, and the epochs that each process was told."""

    first: int
    numbers: list[int]
    content: dict[int, str]
    epochs: list[list[int]]


def commit_many(url: str, cache: str, part: int, commits: int, start, told) -> None:  # type: ignore[no-untyped-def]
    """One process: wait for the others, then commit one row at a time."""
    store = Hummock.open(url, cache_dir=cache, create=False, auto_compact="off")
    start.wait(300)
    told.put((part, [store.ingest_batch({"t": [Put(_row(part, step))]}) for step in range(commits)]))


def race(url: str, cache: Path, processes: int, commits: int) -> Outcome:
    """Let `processes` make `commits` commits each, all at once, and read what they left."""
    with Hummock.open(url, cache_dir=cache, auto_compact="off") as store:
        store.create_table("t", SCHEMA, ["id"], ["id"])
        first = store.version.number
        start, told = CONTEXT.Barrier(processes), CONTEXT.Queue()
        racers = [
            CONTEXT.Process(target=commit_many, args=(url, str(cache), part, commits, start, told))
            for part in range(processes)
        ]
        for racer in racers:
            racer.start()
        epochs = dict(told.get(timeout=600) for _ in racers)
        for racer in racers:
            racer.join()
        store.refresh()
        numbers = [n for n in store._chain.numbers() if n > first]
        return Outcome(first, numbers, content(store), [epochs[part] for part in range(processes)])


def expected(processes: int, commits: int) -> dict[int, str]:
    """The table that a race of that size leaves."""
    return {part * 1000 + step: f"{part}.{step}" for part in range(processes) for step in range(commits)}


def check(outcome: Outcome, processes: int, commits: int) -> None:
    """Manifests are contiguous, one a commit; each write is readable; epochs rise in each process and never repeat."""
    total = processes * commits
    assert outcome.numbers == list(range(outcome.first + 1, outcome.first + total + 1))
    assert outcome.content == expected(processes, commits)
    assert all(told == sorted(told) for told in outcome.epochs)
    assert len({epoch for told in outcome.epochs for epoch in told}) == total


def _row(part: int, step: int):  # type: ignore[no-untyped-def]
    return rows({part * 1000 + step: f"{part}.{step}"})
