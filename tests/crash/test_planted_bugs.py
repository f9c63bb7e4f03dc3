"""The harness is worth its name: bugs that are planted on purpose, one at a time, are all caught within a few programs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from engine.connectors.sinks import tables
from engine.connectors.sinks.files import FileSink
from engine.hummock.manifests import delta
from engine.hummock.reads import merge
from engine.hummock.staged_store import StagedStore
from engine.hummock.upkeep import gc
from engine.meta.epochs import content, frontier, query_policy
from engine.meta.epochs import target_epoch as meta_cut
from engine.meta.epochs.flush_plan import FlushStep
from engine.meta.epochs.staged_checkpoint import StagedCheckpoint
from engine.runtime.backfill import run as backfill_run
from engine.runtime.backfill import step as backfill_step
from engine.runtime.domains import domain_run, flush_planning, flush_run, log_expiry, partition_run
from engine.runtime.epoch import epoch_run, mutation_run
from engine.runtime.partitions.scope import PartitionScope
from engine.runtime.statements import drop
from engine.runtime.writes.watermarks import ArrivingRows
from tests.crash.broken import Broken
from tests.crash.program.steps import Program

SEEDS = 300
Plant = Callable[[pytest.MonkeyPatch], None]


def a_commit_without_its_log(patch: pytest.MonkeyPatch) -> None:
    record_fragment = epoch_run.record_fragment

    def broken(*arguments):  # type: ignore[no-untyped-def]
        done, commit = record_fragment(*arguments)
        nothing = dict.fromkeys(commit.writes, ())
        return done, dataclasses.replace(commit, writes=nothing) if done.previous is not None else commit

    patch.setattr(domain_run, "record_fragment", broken)


def a_collection_of_files_that_left_just_now(patch: pytest.MonkeyPatch) -> None:
    def broken(version, horizon_ms):  # type: ignore[no-untyped-def]
        return {sst.path for table in version.tables.values() for sst in table.live_ssts}

    patch.setattr(gc, "list_needed_objects", broken)


def a_view_that_runs_ahead_of_its_inputs(patch: pytest.MonkeyPatch) -> None:
    def broken(domain, version, stored, cut, before, *, straight):  # type: ignore[no-untyped-def]
        return cut if meta_cut.is_pending(domain, version, cut) else None

    patch.setattr(flush_planning, "find_next_stop", broken)


def a_checkpoint_that_loses_its_first_part(patch: pytest.MonkeyPatch) -> None:
    commit = StagedCheckpoint.commit

    def broken(self, *arguments):  # type: ignore[no-untyped-def]
        whole = commit(self, *arguments)
        lost = next(iter(whole.writes)) if len(whole.writes) > 1 and not whole.create else None
        return dataclasses.replace(whole, writes={t: ssts for t, ssts in whole.writes.items() if t != lost})

    patch.setattr(StagedCheckpoint, "commit", broken)


def a_view_that_forgets_one_of_its_inputs(patch: pytest.MonkeyPatch) -> None:
    pending = frontier.needs_run
    for module in (meta_cut, domain_run):
        patch.setattr(
            module,
            "needs_run",
            lambda version, table, inputs, reach: pending(version, table, inputs[:1], reach),
        )


def a_view_that_is_shown_before_it_is_whole(patch: pytest.MonkeyPatch) -> None:
    for module in (frontier, content, query_policy):
        patch.setattr(module, "find_computed_table", lambda version, name: version.tables.get(name))
    # A step's label lies below the epoch of the snapshot, which hides it a second time.
    patch.setattr(content, "list_creations", lambda version: {})
    patch.setattr(content, "list_incomplete_tables", lambda version: frozenset())


def a_backfill_that_skips_a_piece_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    entry = backfill_run.encode_creation

    def broken(domain, creation):  # type: ignore[no-untyped-def]
        if creation.state == backfill_run.CREATED or creation.position >= 0 or creation.step == 0:
            return entry(domain, creation)
        return entry(domain, msgspec.structs.replace(creation, position=1 << 62))

    patch.setattr(backfill_run, "encode_creation", broken)


def a_backfill_that_reads_the_present_instead_of_its_snapshot(patch: pytest.MonkeyPatch) -> None:
    task = backfill_run.FragmentTask

    def broken(fragment, table, tables, old, new, rows):  # type: ignore[no-untyped-def]
        newest = max(version.committed_epoch for version in tables.values())
        return task(fragment, table, tables, old, max(new, newest), rows)

    patch.setattr(backfill_run, "FragmentTask", broken)


def an_oldest_row_that_wins(patch: pytest.MonkeyPatch) -> None:
    newest = merge.merge_newest
    patch.setattr(merge, "merge_newest", lambda tables, key: newest(list(reversed(tables)), key))


def a_dropped_view_that_still_holds_the_log(patch: pytest.MonkeyPatch) -> None:
    commit = drop.Commit
    patch.setattr(drop, "Commit", lambda **parts: commit(**{**parts, "acks": {}}))


def a_failure_that_is_never_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(domain_run, "forget_failure", lambda version, domain: {})


def a_mutation_that_is_dropped_with_the_one_before_it(patch: pytest.MonkeyPatch) -> None:
    taking = mutation_run.apply_mutation
    patch.setattr(
        mutation_run,
        "apply_mutation",
        lambda control, epoch, now: msgspec.structs.replace(taking(control, epoch, now), asked=()),
    )


def a_truncation_that_does_not_wait_for_consumers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delta, "_clamp_truncation", lambda table, upto, acks, pins: upto)


def a_sink_that_acknowledges_before_it_writes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FileSink, "_put_file", lambda self, path, data: None)


def a_failure_that_outlives_its_view(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drop, "forget_failure", lambda version, name: {})


def a_mutation_that_is_taken_but_not_put_in_force(patch: pytest.MonkeyPatch) -> None:
    taking = mutation_run.apply_mutation

    def broken(control, epoch, now):  # type: ignore[no-untyped-def]
        return msgspec.structs.replace(taking(control, epoch, now), paused=control.paused)

    patch.setattr(mutation_run, "apply_mutation", broken)


def a_change_log_let_go_too_early(patch: pytest.MonkeyPatch) -> None:
    let_go_at = log_expiry.find_release_time

    def broken(table, committed):  # type: ignore[no-untyped-def]
        at = let_go_at(table, committed)
        return None if at is None else at - 7 * 24 * 3600

    patch.setattr(log_expiry, "find_release_time", broken)


def a_part_of_a_poison_partition_that_a_backfill_leaves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(backfill_step, "_delete_partitions", lambda *_: ())


def a_quarantine_that_is_said_to_be_newer_than_it_is(patch: pytest.MonkeyPatch) -> None:
    with_failures = partition_run.add_failures

    def broken(before, failures, committed, tried, now, suspects=()):  # type: ignore[no-untyped-def]
        return with_failures(before, failures, tried, tried, now, suspects)

    patch.setattr(partition_run, "add_failures", broken)


def a_partition_that_comes_back_with_what_it_had(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionScope, "plan_recompute", lambda self, fragment: None)


def a_run_that_does_less_than_its_plan(patch: pytest.MonkeyPatch) -> None:
    next_step = flush_run.plan_next_step

    def broken(*what):  # type: ignore[no-untyped-def]
        step = next_step(*what)
        return FlushStep("nothing") if step.work == "epoch" and len(step.fragments) > 1 else step

    patch.setattr(flush_run, "plan_next_step", broken)


def a_sink_that_forgets_the_watermark_of_its_table(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ArrivingRows, "get_ttl_watermarks", lambda self: {})


def a_sink_that_writes_over_rows_that_were_to_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tables, "_needs_lookup", lambda target: False)


def a_change_of_a_model_in_several_commits(patch: pytest.MonkeyPatch) -> None:
    def broken(self):  # type: ignore[no-untyped-def]
        for commit in self._staged:
            self._base.commit(commit)

    patch.setattr(StagedStore, "land", broken)


CONTENT = r"differs from its query|is not its query over the sources|is not the difference|is torn"
"""What the checks of contents say."""
PLANTED: dict[Plant, str] = {
    a_commit_without_its_log: CONTENT,
    a_collection_of_files_that_left_just_now: r"files of \S+ were deleted",
    a_view_that_runs_ahead_of_its_inputs: r"above its input",
    a_checkpoint_that_loses_its_first_part: CONTENT,
    a_view_that_forgets_one_of_its_inputs: r"stuck: |" + CONTENT,
    a_view_that_is_shown_before_it_is_whole: r"is not whole|never computed as a whole",
    a_backfill_that_skips_a_piece_after_a_restart: CONTENT,
    a_backfill_that_reads_the_present_instead_of_its_snapshot: CONTENT,
    an_oldest_row_that_wins: r"is not what it was|neither whole nor absent|lost or doubled|" + CONTENT,
    a_dropped_view_that_still_holds_the_log: r"held by consumers that are gone",
    a_failure_that_is_never_forgotten: r"failures are remembered that are over",
    a_mutation_that_is_dropped_with_the_one_before_it: r"mutations of domain \S+ (were dropped|have gaps)|the queue of domain",
    a_truncation_that_does_not_wait_for_consumers: r"let go of the log|lost the log",
    a_sink_that_acknowledges_before_it_writes: r"sink \S+ (did not deliver|delivered|deletes)",
    a_failure_that_outlives_its_view: r"failures outlive their domains",
    a_mutation_that_is_taken_but_not_put_in_force: r"paused against what was asked",
    a_change_log_let_go_too_early: r"let go of the log of \S+ too early",
    a_part_of_a_poison_partition_that_a_backfill_leaves: CONTENT,
    a_quarantine_that_is_said_to_be_newer_than_it_is: CONTENT,
    a_partition_that_comes_back_with_what_it_had: CONTENT,
    a_sink_that_forgets_the_watermark_of_its_table: r"which \S+ feeds, is not what was delivered",
    a_sink_that_writes_over_rows_that_were_to_stay: r"which \S+ feeds, is not what was delivered",
    a_change_of_a_model_in_several_commits: r"is gone, and \S+ was to be changed|changed, and \S+ is otherwise",
    a_run_that_does_less_than_its_plan: r"\S+ was to do .* and did nothing",
}
"""Each bug with what the check says that is meant for it; what another check, or the engine itself, says is no catch."""


@pytest.mark.crash
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_caught(plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    others = []
    for seed in range(SEEDS):
        try:
            Program(seed, tmp_path / str(seed)).run()
        except Broken as error:
            assert f"replay: python -m tests.crash.program {seed}" in str(error)
            message = str(error).splitlines()[0]
            if re.search(PLANTED[plant], message):
                return
            others.append(f"seed {seed}: {message[:200]}")
    listed = "\n".join(others[:5])
    pytest.fail(f"{plant.__name__} was not caught by its check in {SEEDS} programs; others said:\n{listed}")
