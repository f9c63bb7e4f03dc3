"""One rule for commits that other writers may be faster with: read again, work it out anew, and try again.

An attempt reads the store, works out a commit with a precondition, and makes it. `commit_with_retry` repeats it for as long as
its policy says; `commit_once` leaves the matter to whoever was faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from engine.errors import Conflict, GroundLost, WriteStopped
from engine.hummock.back_off import BackOff
from engine.hummock.store import Hummock

T = TypeVar("T")
PAUSES = BackOff(0.002, 0.1, free=1)
"""In seconds, from the second lost race on; a commit that loses waits for its rivals' tries by itself already."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long an attempt is made again that others were faster than: `attempts` times, and for `seconds` at least.

    `merges` says how often files are merged for a table whose writes are stopped until that is done. A conflict that is not
    `among` those that go by is raised at once.
    """

    attempts: int
    seconds: float = 0.0
    merges: int = 0
    among: type[Conflict] = Conflict

    def is_over(self, attempts: int, seconds: float) -> bool:
        """Tell whether so many attempts in so many seconds are enough."""
        return attempts >= self.attempts and seconds >= self.seconds


DEFINITION = RetryPolicy(20)
"""Of statements that change the catalog alone."""
ONCE = RetryPolicy(1)
"""Of what another writer makes impossible."""
WRITE = RetryPolicy(3, seconds=60.0)
"""Of statements that write rows: others write to the table as well, and each attempt reads it anew."""
POLL = RetryPolicy(50, merges=2)
"""Of what sources bring."""


def commit_with_retry(
    store: Hummock,
    attempt: Callable[[], T],
    policy: RetryPolicy,
    *,
    prepare: Callable[[], object] | None = None,
    build_error: Callable[[int], Exception] | None = None,
) -> T:
    """Return what an attempt returns that no other writer was in the way of.

    Before each further one the store is looked at again, and `prepare` is called. At the end of the policy the last conflict is
    raised, or what `build_error` makes of the number of attempts.
    """
    clock = store.clock
    began, lost, merged = clock.monotonic(), 0, 0
    while True:
        try:
            return attempt()
        except WriteStopped as stop:
            if merged >= policy.merges:
                raise
            merged += 1
            store.compact_l0(stop.table)
        except Conflict as conflict:
            lost += 1
            if isinstance(conflict, GroundLost) or not isinstance(conflict, policy.among):
                raise  # until whoever has commits on their way begins anew, each commit meets a lost ground
            if policy.is_over(lost, clock.monotonic() - began):
                if build_error is None:
                    raise
                raise build_error(lost) from conflict
            if pause := PAUSES.find_wait(lost):
                clock.sleep(clock.jitter(pause))
        store.refresh()
        if prepare is not None:
            prepare()


def commit_once(store: Hummock, attempt: Callable[[], T], *also: type[Exception]) -> T | None:
    """Return what an attempt returns; None, over a store looked at anew, if another writer was faster or `also` was raised.

    A lost ground is raised unless `also` has it: whoever has commits on their way is to begin anew.
    """
    try:
        return attempt()
    except also:
        pass
    except Conflict as refused:
        if isinstance(refused, GroundLost):
            raise
    store.refresh()
    return None
