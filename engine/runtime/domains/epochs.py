"""How a session brings its views on: run by run, or epoch after epoch, some of them on their way to the store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from functools import partial

from engine.errors import CommitUncertain, GroundLost, StorageError, StorageFull, Unavailable
from engine.hummock import Hummock, Version
from engine.hummock.in_flight_store import InFlightStore
from engine.runtime.backfill.eligibility import BACKFILL_ROWS
from engine.runtime.domains.flush import BACKGROUND_SECONDS, FlushRunner
from engine.runtime.epoch.report import FlushReport
from engine.runtime.executor import Executor

MOST_ATTEMPTS = 20
"""How often what was refused on its way is computed anew where somebody waits for it."""
LONGEST_PAUSE = 5.0
CLOSE_SECONDS = 30.0
"""How long slow views are waited for at the end: nothing of them is visible before their commits."""


def _is_store_failure(error: StorageError) -> bool:
    """Tell whether the store itself has refused: what is computed anew would meet the same."""
    return type(error) is StorageError or isinstance(error, CommitUncertain | StorageFull | Unavailable)


class EpochRunner:
    """The runs of a session over `base`.

    With `measure_in_flight` they follow each other: one that nobody waits for leaves views behind that are much slower than
    others, and
    of more than one epoch commits on their way. Over a store that is not on this machine those of a run's steps are on their way
    too while the next steps compute. `spool` as of InFlightStore; `executor` makes what computes over a store. After a run
    `take_over` lets successors take the place of views, and returns those whose next epoch does it.
    """

    def __init__(
        self,
        base: Hummock,
        executor: Callable[[Hummock], Executor],
        backfill_rows: int = BACKFILL_ROWS,
        *,
        in_flight: int | None = None,
        spool: bool = False,
        take_over: Callable[[Hummock], Collection[str]] = lambda _: (),
    ) -> None:
        self.base, self._take_over = base, take_over
        self.are_driven = in_flight is not None
        """Whether the runs follow each other, so that none need wait for what the next can tell of."""
        several = not base.is_here if in_flight is None else in_flight > 1
        self._in_flight = InFlightStore(base, spool=spool) if several else None
        self.store: Hummock = self._in_flight or base
        """The store as the views are brought on: it holds what is on its way to be committed."""
        self.runner = FlushRunner(
            self.store, executor(self.store), backfill_rows, patient=not self.are_driven
        )

    def run_pending(
        self,
        views: Collection[str] | None = None,
        *,
        eager: bool = True,
        wait: bool = True,
        background_seconds: float = BACKGROUND_SECONDS,
        partitions: Mapping[str, Collection[str]] | None = None,
    ) -> FlushReport:
        """Run all that is pending, as `FlushRunner.run`; with `wait` return when it is committed, slow views included."""
        if wait:  # nobody looks for what others have committed while something is on its way
            self.settle()  # what was refused is computed anew
        else:  # a slow successor may have come up to its view since the last run, which takes the view on
            self._take_over(self.store)
        lanes, reported = self.runner.lanes, self.runner.lanes.reported
        run = partial(self.runner.run, views, eager=eager)
        self._begin_anew()
        report = run(background_seconds=background_seconds, partitions=partitions)
        for left in reversed(range(MOST_ATTEMPTS)):
            # what reads one that has ended may lag by now, also where the run itself has reported that
            while wait and (self.busy or self.has_ended or reported != lanes.reported):
                lanes.wait()
                reported = lanes.reported
                self._begin_anew()
                report = report.merge(run(background_seconds=0.0))
            if not wait or self._in_flight is None:
                break
            try:
                self._in_flight.settle()
                break
            except GroundLost as lost:  # another process was faster, or the store fails
                if isinstance(lost.__cause__, StorageError) and _is_store_failure(lost.__cause__):
                    raise lost.__cause__ from None
                if not left:
                    raise
                self._back_off(report.seconds / (MOST_ATTEMPTS - left))
                self._begin_anew()
                report = report.merge(run(background_seconds=0.0, partitions=partitions))
        if self._take_over(self.store):
            again = self.run_pending(views, eager=eager, wait=wait, background_seconds=0.0)
            report = report.merge(again)
        return report

    @property
    def busy(self) -> Collection[str]:
        """The domains that no run waits for, and that are under way."""
        return self.runner.lanes.list_busy().keys()

    @property
    def has_ended(self) -> bool:
        """Whether such a domain has ended; the next run tells of it."""
        return self.runner.lanes.has_ended

    @property
    def commit_in_flight(self) -> Future[Version] | None:
        """How the commits of the last run come out: the version of the last one, or what refused some; None if all stand."""
        return None if self._in_flight is None else self._in_flight.outcome

    def finish(self, seconds: float) -> bool:
        """Wait for what is under way and no run waits for; return whether the next run has something to tell of."""
        self.runner.lanes.wait(seconds)
        return self.has_ended

    def settle(self) -> None:
        """Wait until what is on its way to the store is committed, or refused, as `commit_in_flight` says."""
        if self._in_flight is not None:
            with contextlib.suppress(GroundLost):
                self._in_flight.settle()

    def abort(self) -> None:
        """End what is under way and no run waits for; what is on its way to the store stays so."""
        self.runner.lanes.abort()

    def close(self) -> None:
        """Wait for what is under way and on its way; what takes too long is ended."""
        self.runner.lanes.close(CLOSE_SECONDS)
        if self._in_flight is not None:
            self._in_flight.close()

    def _back_off(self, lost: float) -> None:
        """Let the process that was faster bring its run to an end: who begins anew at once makes its work worthless in turn."""
        clock = self.runner.clock
        clock.sleep(clock.jitter(min(0.05 + lost, LONGEST_PAUSE)))

    def _begin_anew(self) -> None:
        """Let a run begin over what is on its way to be committed, without what was refused."""
        if self._in_flight is not None:
            self._in_flight.begin_anew()
