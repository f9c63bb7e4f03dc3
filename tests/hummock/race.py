"""Processes that race for manifests: each commits to the same table, and everything must be there in the end."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from pathlib import Path

from engine.hummock import Hummock, Put
from engine.hummock.manifests.delta import Delta
from tests.hummock.conftest import SCHEMA, content, rows

CONTEXT = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Outcome:
    """What a race left: the numbers of its manifests, how many commits of rows they hold, the table, and the epochs
    that each process was told. Compactions commit meanwhile, as they do for any user, some in a writer's manifest."""

    first: int
    numbers: list[int]
    writes: int
    content: dict[int, str]
    epochs: list[list[int]]


def commit_many(url: str, cache: str, part: int, commits: int, start, reports) -> None:  # type: ignore[no-untyped-def]
    """One process: wait for the others, then commit one row at a time; tell the epochs, or the error."""
    try:
        store = Hummock.open(url, cache_dir=cache, create=False)
        start.wait(300)
        reports.put((part, [store.ingest_batch({"t": [Put(_row(part, step))]}) for step in range(commits)]))
    except BaseException as error:
        reports.put((part, repr(error)))
        raise


def race(url: str, cache: Path, processes: int, commits: int) -> Outcome:
    """Let `processes` make `commits` commits each, all at once, and read what they left."""
    with Hummock.open(url, cache_dir=cache) as store:
        store.create_table("t", SCHEMA, ["id"], ["id"])
        first = store.version.number
        start, reports = CONTEXT.Barrier(processes), CONTEXT.Queue()
        racers = [
            CONTEXT.Process(
                target=commit_many, args=(url, str(cache), part, commits, start, reports), daemon=True
            )
            for part in range(processes)
        ]
        for racer in racers:
            racer.start()
        epochs: dict[int, list[int]] = {}
        for _ in racers:
            part, outcome = reports.get(timeout=600)
            assert isinstance(outcome, list), f"process {part}: {outcome}"
            epochs[part] = outcome
        for racer in racers:
            racer.join()
        store.refresh()
        numbers = [number for number in store._chain.list_numbers() if number > first]
        return Outcome(
            first,
            numbers,
            sum(bool(delta.writes) for number in numbers for delta in _deltas(store, number)),
            content(store),
            [epochs[part] for part in range(processes)],
        )


def _deltas(store: Hummock, number: int) -> tuple[Delta, ...]:
    manifest = store._chain._manifests.get(number)
    assert manifest is not None and manifest.delta.number == number
    return (manifest.delta, *manifest.more)


def expected(processes: int, commits: int) -> dict[int, str]:
    """The table that a race of that size leaves."""
    return {part * 1000 + step: f"{part}.{step}" for part in range(processes) for step in range(commits)}


def check(outcome: Outcome, processes: int, commits: int) -> None:
    """Manifests are contiguous and hold each commit once; each write is readable; epochs rise in each process and
    never repeat."""
    total = processes * commits
    assert outcome.numbers == list(range(outcome.first + 1, outcome.first + 1 + len(outcome.numbers)))
    assert outcome.writes == total, f"{outcome.writes} commits of rows, {total} were made"
    assert outcome.content == expected(processes, commits)
    assert all(epochs == sorted(epochs) for epochs in outcome.epochs)
    assert len({epoch for epochs in outcome.epochs for epoch in epochs}) == total


def _row(part: int, step: int):  # type: ignore[no-untyped-def]
    return rows({part * 1000 + step: f"{part}.{step}"})
