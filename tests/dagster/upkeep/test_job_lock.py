"""Turns: a tick asks for a run or names the one that is under way, a dead one holds nobody up, two never work at once."""

import platform
import subprocess
import sys
import threading
import time
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterRunStatus

from dagster_tideline.runs.asset_builder import WORKER_TAG, get_worker_name
from dagster_tideline.upkeep import job_lock
from dagster_tideline.upkeep.job_lock import LONG_TAG, hold_job_lock, request_or_skip

JOB = "compaction"


def add_run(
    instance: dg.DagsterInstance, status: DagsterRunStatus = DagsterRunStatus.STARTED, **tags: str
) -> dg.DagsterRun:
    job = dg.GraphDefinition(name=JOB).to_job()
    return instance.create_run_for_job(
        job, status=status, tags={WORKER_TAG: tags.pop("worker", get_worker_name()), **tags}
    )


def gone() -> str:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return f"{platform.node()}:{ended.pid}"


@pytest.mark.parametrize("status", [DagsterRunStatus.NOT_STARTED, DagsterRunStatus.STARTED])
def test_a_tick_asks_for_no_run_beside_another_and_names_it_once_it_takes_too_long(
    status: DagsterRunStatus,
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert isinstance(request_or_skip(instance, JOB, time.time()), dg.RunRequest)
        run = add_run(instance, status)
        skip = request_or_skip(instance, JOB, time.time())
        assert isinstance(skip, dg.SkipReason)
        assert run.run_id[:8] in str(skip.skip_message) and "longer than" not in str(skip.skip_message)
        skip = request_or_skip(instance, JOB, time.time() + 900, long_seconds=600)
        assert isinstance(skip, dg.SkipReason)
        assert run.run_id[:8] in str(skip.skip_message) and "longer than the 600 s" in str(skip.skip_message)
        assert isinstance(request_or_skip(instance, "another job", time.time()), dg.RunRequest)


def test_a_run_says_itself_how_long_it_may_take() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        asked = request_or_skip(instance, JOB, time.time(), long_seconds=7200, run_config={"ops": {}})
        assert isinstance(asked, dg.RunRequest)
        assert asked.tags["dagster/max_runtime"] == "21600"
        add_run(instance, DagsterRunStatus.STARTED, **{LONG_TAG: asked.tags[LONG_TAG]})
        skip = request_or_skip(instance, JOB, time.time() + 3600, long_seconds=600)
        assert isinstance(skip, dg.SkipReason) and "longer than" not in str(skip.skip_message)


def test_a_dead_run_is_reported_and_followed_by_the_next_tick() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        run = add_run(instance, worker=gone())
        assert isinstance(request_or_skip(instance, JOB, time.time()), dg.RunRequest)
        found = instance.get_run_by_id(run.run_id)
        assert found is not None and found.status == DagsterRunStatus.FAILURE


def test_a_run_of_another_kind_of_the_same_job_is_asked_for_and_waits_for_its_turn() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        add_run(instance)
        assert isinstance(request_or_skip(instance, JOB, time.time(), tags={"full": "true"}), dg.RunRequest)
        add_run(instance, full="true")
        assert isinstance(request_or_skip(instance, JOB, time.time(), tags={"full": "true"}), dg.SkipReason)


class Work:
    """A job that says when it is at work, and works until it is let go."""

    def __init__(self, seconds: float = 60.0) -> None:
        self.at_work: list[str] = []
        self.most = 0
        self.goes_on, self.begun = threading.Event(), threading.Event()
        self.arrived = threading.Semaphore(0)

        @dg.op
        def work(context: dg.OpExecutionContext) -> None:
            self.arrived.release()
            with hold_job_lock(context, seconds):
                self.at_work.append(context.run_id)
                self.most = max(self.most, len(self.at_work))
                self.begun.set()
                assert self.goes_on.wait(60)
                self.at_work.remove(context.run_id)

        @dg.job(name=JOB, executor_def=dg.in_process_executor)
        def job() -> None:
            work()

        self.job = job

    def start(self, instance: dg.DagsterInstance, results: list[bool]) -> threading.Thread:
        def run() -> None:
            results.append(self.job.execute_in_process(instance=instance, raise_on_error=False).success)

        thread = threading.Thread(target=run)
        thread.start()
        return thread


def test_of_two_runs_one_waits_for_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_lock, "LOOK_SECONDS", 0.02)
    work, results = Work(), list[bool]()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        threads = [work.start(instance, results)]
        assert work.arrived.acquire(timeout=60) and work.begun.wait(60)
        threads.append(work.start(instance, results))
        assert work.arrived.acquire(timeout=60)
        assert len(instance.get_runs(dg.RunsFilter(statuses=[DagsterRunStatus.STARTED]))) == 2
        work.goes_on.set()
        for thread in threads:
            thread.join()
    assert results == [True, True] and work.most == 1


def test_a_run_that_is_never_let_in_says_for_whom_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lock, "LOOK_SECONDS", 0.02)
    work, results = Work(seconds=0.1), list[bool]()
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        thread = work.start(instance, results)
        assert work.begun.wait(60)
        late = work.job.execute_in_process(instance=instance, raise_on_error=False)
        (event,) = late.get_step_failure_events()
        data = event.step_failure_data.user_failure_data
        assert data is not None and work.at_work[0][:8] in str(data.description)
        work.goes_on.set()
        thread.join()
    assert results == [True]


def test_a_dead_run_is_waited_for_by_nobody() -> None:
    work, results = Work(), list[bool]()
    work.goes_on.set()
    with dg.DagsterInstance.ephemeral() as instance:
        add_run(instance, worker=gone())
        work.start(instance, results).join()
    assert results == [True]
