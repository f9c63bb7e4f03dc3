"""A tracer that keeps its spans for a test to look at."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType

from engine import tracing
from engine.tracing import Attributes, Span


class KeptSpan:
    """A span that a test looks at."""

    is_recording = True

    def __init__(self, name: str, attributes: Attributes, parent: Span | None) -> None:
        self.name, self.attributes, self.parent = name, dict(attributes), parent
        self.requests: dict[str, int] = {}
        self.error_type = ""
        self._stack = ExitStack()

    def set_attributes(self, attributes: Attributes) -> None:
        self.attributes |= attributes

    def mark_failed(self, error_type: str) -> None:
        self.error_type = error_type

    def count_requests(self, requests: Mapping[str, int], seconds: float = 0.0) -> None:
        for kind, number in requests.items():
            self.requests[kind] = self.requests.get(kind, 0) + number

    def __enter__(self) -> KeptSpan:
        self._stack.enter_context(tracing.make_current(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class KeptSpans(list[KeptSpan]):
    """A tracer that keeps all spans."""

    def start_span(self, name: str, attributes: Attributes, parent: Span | None, seconds_ago: float) -> Span:
        self.append(KeptSpan(name, attributes, parent))
        return self[-1]
