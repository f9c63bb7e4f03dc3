"""What the tasks of a session's fragments take, each by its stages."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from engine.runtime.executor import Executor, FragmentTask, TaskResult, Way
from engine.session import Session


@dataclass(frozen=True)
class TaskTime:
    """What one task took: seconds of its thread by stage, and upper bounds of the input rows that it was to read."""

    table: str
    rule: str
    rows: int
    seconds: float
    stages: dict[str, float]
    way: Way | None = None

    @property
    def computing(self) -> float:
        """The seconds that the fragment itself took, wherever it was computed."""
        return self.stages.get("shared", self.seconds)


class TimingExecutor:
    """Passes tasks on, and keeps what each took."""

    def __init__(self, inner: Executor) -> None:
        self.inner = inner
        self.times: list[TaskTime] = []

    @classmethod
    def install(cls, session: Session) -> TimingExecutor:
        """Put one before the executor of a session, and return it."""
        found = cls(session._runner.executor)
        session._runner.executor = session._runner.backfill.executor = found  # type: ignore[assignment]  # the rest is passed on
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def compute(self, task: FragmentTask) -> TaskResult:
        """Compute a task and take note of it."""
        started = time.perf_counter()
        done = self.inner.compute(task)
        spent = time.perf_counter() - started
        fragment = task.fragment
        self.times.append(
            TaskTime(fragment.table, fragment.rule.word, task.rows, spent, dict(done.seconds), done.way)
        )
        return done
