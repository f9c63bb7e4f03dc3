"""Spans of what the engine does, for the tracer that somebody has installed; without one they cost nothing.

A span tells numbers and names of the engine's own. No text of an error goes into one, as it may hold values of rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Protocol

AttributeValue = str | int | float | bool | Sequence[str]
Attributes = Mapping[str, AttributeValue]

TRACE_REQUESTS = "TIDELINE_TRACE_REQUESTS"


class Span(Protocol):
    """Something that took time, with what it did; a `with` block ends it, and makes it the parent of what begins within."""

    is_recording: bool
    """Whether anybody keeps it: attributes that cost something are collected only then."""

    def set_attributes(self, attributes: Attributes) -> None:
        """Note what it did."""

    def mark_failed(self, error_type: str) -> None:
        """Note that it failed, on an error of a type."""

    def count_requests(self, requests: Mapping[str, int], seconds: float = 0.0) -> None:
        """Count requests to the object store that were made for it, by kind."""

    def __enter__(self) -> Span: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Tracer(Protocol):
    """What makes spans and takes them away."""

    def start_span(self, name: str, attributes: Attributes, parent: Span | None, seconds_ago: float) -> Span:
        """Return a span that has begun some seconds ago, a part of `parent` if there is one."""


class _NullSpan:
    """The span of nobody's tracer: one object for all."""

    __slots__ = ()
    is_recording = False

    def set_attributes(self, attributes: Attributes) -> None:
        """Do nothing."""

    def mark_failed(self, error_type: str) -> None:
        """Do nothing."""

    def count_requests(self, requests: Mapping[str, int], seconds: float = 0.0) -> None:
        """Do nothing."""

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *_: object) -> None:
        pass


NO_SPAN: Span = _NullSpan()
_tracer: Tracer | None = None
_current: ContextVar[Span | None] = ContextVar("tideline_span", default=None)
_carried: ContextVar[Attributes] = ContextVar("tideline_carried")
_each_request = False


def install_tracer(tracer: Tracer | None) -> None:
    """Have spans made by a tracer from now on, by none with None."""
    global _tracer, _each_request
    _tracer, _each_request = tracer, os.environ.get(TRACE_REQUESTS) == "1"


def is_on() -> bool:
    """Tell whether somebody traces."""
    return _tracer is not None


def name_error(error: BaseException) -> str:
    """Return the type of an error as spans tell it, with Spark's condition; never its text, which may hold values of rows."""
    conditions = (_read_condition(one) for one in (error, error.__cause__))
    return " ".join([type(error).__name__, *(one for one in conditions if one)][:2])


def _read_condition(error: BaseException | None) -> str | None:
    """Return what Spark calls the condition of an error of its own, such as DIVIDE_BY_ZERO."""
    read = getattr(error, "getCondition", None)
    condition = read() if callable(read) else None
    return condition if isinstance(condition, str) else None


def start_span(
    name: str, attributes: Attributes | None = None, *, parent: Span | None = None, seconds_ago: float = 0.0
) -> Span:
    """Return a span, a part of `parent` or of the one around it; NO_SPAN where nobody traces."""
    if _tracer is None:
        return NO_SPAN
    around = _current.get() if parent is None else parent
    found = dict(attributes or {})
    if around is None or not around.is_recording:
        found |= _carried.get({})
        around = None
    return _tracer.start_span(name, found, around, seconds_ago)


@contextmanager
def make_current(span: Span) -> Iterator[None]:
    """Let what begins in the `with` block be a part of a span."""
    token = _current.set(span)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def carry_attributes(attributes: Attributes) -> Iterator[None]:
    """Give attributes to each trace that begins in the `with` block: who has asked for it."""
    if _tracer is None:
        yield
        return
    token = _carried.set({**_carried.get({}), **attributes})
    try:
        yield
    finally:
        _carried.reset(token)


def count_requests(requests: Mapping[str, int]) -> None:
    """Count requests of other processes for the span around."""
    if _tracer is not None and (around := _current.get()) is not None:
        around.count_requests(requests)


def count_request(kind: str, seconds: float, failed: bool) -> None:
    """Count one request to the object store for the span around; with TIDELINE_TRACE_REQUESTS=1 it gets one of its own."""
    if _tracer is None or (around := _current.get()) is None:
        return
    around.count_requests({kind: 1}, seconds)
    if _each_request:
        with start_span(f"request {kind}", {"tideline.request.kind": kind}, seconds_ago=seconds) as span:
            if failed:
                span.mark_failed("StorageError")
