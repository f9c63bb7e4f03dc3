"""The threads in which a run brings domains on, and those that outlast it: its patience with a domain has an end.

Whoever runs epoch after epoch must not let one slow domain hold up all others. What takes much longer than the rest goes on in
its thread, is left alone by the runs that follow, and is reported by the first of them that finds it ended. What it lacks
meanwhile waits where it stands, in the change logs of what it reads, which the domain's acknowledged epochs hold.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from engine.meta.epochs.flush_plan import DomainPlan
from engine.runtime.domains.domain_outcome import DomainOutcome

PATIENCE_SECONDS = 0.5
TIMES_THE_USUAL = 3.0
LOOK_SECONDS = 0.01
BREAK_OFF_SECONDS = 10.0
"""What stops no sooner, as it waits for a store that does not answer, ends by itself."""

RunDomain = Callable[[DomainPlan], DomainOutcome]


@dataclass
class Lane:
    """The work on one domain: of which plan, since when, and how it ends.

    It has `waited` for what is before it from when a run has given it until then.
    """

    plan: DomainPlan
    before: Sequence[Future[DomainOutcome]]
    broken_off: threading.Event
    outcome: Future[DomainOutcome] = field(default_factory=Future)
    waited: float = field(default_factory=time.monotonic)
    began: float | None = None


class Lanes:
    """Threads for the domains of runs, `threads` at most where a run is `patient` and waits for every domain."""

    def __init__(self, threads: int, stop: Callable[[], None], *, patient: bool = True) -> None:
        self.patient = patient
        self._threads, self._stop = threads, stop
        self._lock = threading.Lock()
        self._outlasting: dict[str, Lane] = {}
        self._took: dict[str, float] = {}
        self.reported = 0
        """How many domains were reported that had outlasted the run that began with them."""

    def list_busy(self) -> Mapping[str, float]:
        """Return the domains that an earlier run has begun with and that are under way yet, and since how many seconds.

        What waits for others of its run is under way, too: one of those may hang.
        """
        now = time.monotonic()
        with self._lock:
            lanes = {n: lane for n, lane in self._outlasting.items() if not lane.outcome.done()}
        return {
            name: now - (lane.waited if lane.began is None else lane.began) for name, lane in lanes.items()
        }

    @property
    def has_ended(self) -> bool:
        """Whether a domain has ended that no run has reported."""
        with self._lock:
            return any(lane.outcome.done() for lane in self._outlasting.values())

    def collect_outcomes(self, among: Collection[str]) -> dict[str, DomainOutcome]:
        """Return how domains ended that have outlasted the run that began with them, each once.

        Of those that are not `among` the domains that there are nothing is reported: their views were dropped meanwhile.
        """
        with self._lock:
            done = {name: lane for name, lane in self._outlasting.items() if lane.outcome.done()}
            for name in done:
                del self._outlasting[name]
            self.reported += len(done)
        return {name: lane.outcome.result() for name, lane in done.items() if name in among}

    def run(
        self, due: Sequence[DomainPlan], work: RunDomain, broken_off: threading.Event
    ) -> dict[str, DomainOutcome]:
        """Work on domains, inputs first, those that are built step by step after the others; return how those ended that have.

        Where the wait is interrupted (Ctrl-C, a cancelled job) `broken_off` is set, so that nothing begins any more, and `stop`
        ends what is computed: no work goes on that nobody waits for.
        """
        lanes: dict[str, Lane] = {}
        others: list[Future[DomainOutcome]] = []
        for plan in due:
            before = [lanes[upstream].outcome for upstream in plan.domain.upstreams if upstream in lanes]
            lane = lanes[plan.name] = Lane(plan, [*before, *(others if plan.built else ())], broken_off)
            others += [] if plan.built else [lane.outcome]
        queue = deque(lanes.values())
        for _ in range(min(self._threads, len(queue)) if self.patient else len(queue)):
            threading.Thread(target=self._run_queue, args=(queue, work), name="lane", daemon=True).start()
        try:
            self._wait_patiently(lanes)
        except BaseException:
            self._abort_lanes(lanes.values())
            raise
        with self._lock:
            ended = {name: lane for name, lane in lanes.items() if lane.outcome.done()}
            self._outlasting |= {name: lane for name, lane in lanes.items() if name not in ended}
        return {name: lane.outcome.result() for name, lane in ended.items()}

    def run_before(self, work: Callable[[], None]) -> None:
        """Do what comes before the domains of a run in a thread of its own, as they have; raises what it raises.

        The thread of who asks keeps what Spark ties to a thread. Where the wait is interrupted `stop` ends what is computed.
        """
        done: Future[None] = Future()

        def run() -> None:
            try:
                work()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        threading.Thread(target=run, name="lane", daemon=True).start()
        try:
            wait([done])
        except BaseException:
            self._stop()
            wait([done], BREAK_OFF_SECONDS)
            raise
        done.result()

    def wait(self, seconds: float | None = None) -> None:
        """Wait for what is under way, for so long at most."""
        with self._lock:
            left = [lane.outcome for lane in self._outlasting.values()]
        wait(left, timeout=seconds)

    def close(self, seconds: float) -> None:
        """Wait for what is under way, and end what takes longer: nothing of it is visible before its commit."""
        self.wait(seconds)
        self.abort()

    def abort(self) -> None:
        """End what is under way and no run waits for."""
        with self._lock:
            left = [lane for lane in self._outlasting.values() if not lane.outcome.done()]
        if left:
            self._abort_lanes(left)

    def _abort_lanes(self, lanes: Collection[Lane]) -> None:
        for lane in lanes:
            lane.broken_off.set()
        self._stop()
        wait([lane.outcome for lane in lanes], BREAK_OFF_SECONDS)

    def _run_queue(self, queue: deque[Lane], work: RunDomain) -> None:
        """Work on what is first in the queue until it is empty; a thread waits only for lanes that were taken before its own."""
        with contextlib.suppress(IndexError):
            while True:
                lane = queue.popleft()
                wait(lane.before)
                if lane.broken_off.is_set():
                    lane.outcome.set_result(DomainOutcome(waits_for="its run was broken off"))
                    continue
                lane.began = time.monotonic()
                try:
                    outcome = work(lane.plan)
                except BaseException as error:
                    lane.outcome.set_exception(error)
                    continue
                self._took[lane.plan.name] = outcome.seconds
                lane.outcome.set_result(outcome)

    def _wait_patiently(self, lanes: Mapping[str, Lane]) -> None:
        """Wait for domains until those that are left have taken, or usually take, much longer than the others."""
        left = {name: lane for name, lane in lanes.items() if not lane.outcome.done()}
        while left:
            wait([lane.outcome for lane in left.values()], timeout=None if self.patient else LOOK_SECONDS)
            left = {name: lane for name, lane in left.items() if not lane.outcome.done()}
            if not self.patient and self._are_slow(left):
                return

    def _are_slow(self, left: Mapping[str, Lane]) -> bool:
        usual = statistics.median(self._took.values()) if self._took else 0.0
        patience, now = max(PATIENCE_SECONDS, TIMES_THE_USUAL * usual), time.monotonic()
        slow: set[Future[DomainOutcome]] = set()
        for name, lane in left.items():  # inputs first
            took = self._took.get(name, 0.0) if lane.began is None else now - lane.began
            if max(took, self._took.get(name, 0.0)) > patience or not slow.isdisjoint(lane.before):
                slow.add(lane.outcome)
        return len(slow) == len(left)
