"""The promise of a sink whose target has commits of its own: the bounds of a range are in the manifest before it is delivered.

Without one a range that was delivered but not acknowledged would come again with what has been written since: a row that came
and went meanwhile would be no change of it, and would stay in the target.
"""

from __future__ import annotations

import msgspec

from engine.log_store.sink import LogRange
from engine.meta.status.sinks import PromisedRange, SinkState


def is_promised(state: SinkState, waiting: LogRange) -> bool:
    """Tell whether the promise of a sink is that of the range which waits: nobody has acknowledged it yet."""
    promise = state.promise
    return promise is not None and (
        promise.upto == waiting.upto if waiting.snapshot else waiting.after < promise.upto
    )


def limit_to_promise(state: SinkState, waiting: LogRange) -> LogRange:
    """Return the range that was promised, of what waits."""
    assert state.promise is not None
    return LogRange(waiting.after, state.promise.upto, waiting.snapshot)


def with_promise(state: SinkState, part: LogRange, number: int) -> SinkState:
    """Return the state of a sink that promises a range; `number` is the store's epoch in which nothing was promised yet."""
    first = number if state.promise is None else state.promise.first
    return msgspec.structs.replace(state, promise=PromisedRange(part.upto, number, first))
