"""Spans without OpenTelemetry: whose part they are, what they count, and that without a tracer there are none."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine import tracing
from engine.errors import RowFailed
from engine.hummock.metrics import Counters
from tests.telemetry.kept_spans import KeptSpans


@pytest.fixture
def spans() -> Iterator[KeptSpans]:
    """A tracer in force."""
    kept = KeptSpans()
    tracing.install_tracer(kept)
    yield kept
    tracing.install_tracer(None)


def test_without_a_tracer_all_spans_are_one_that_does_nothing() -> None:
    assert not tracing.is_on()
    with tracing.start_span("flush") as span, tracing.carry_attributes({"a": 1}):
        span.set_attributes({"b": 2})
        Counters().count_request("get", seconds=1.0)
        assert span is tracing.NO_SPAN is tracing.start_span("epoch") and not span.is_recording


def test_a_span_is_a_part_of_the_one_around_or_of_the_one_given(spans: KeptSpans) -> None:
    with tracing.start_span("flush") as flush:
        with tracing.start_span("domain"):
            pass

        def work() -> None:  # a thread knows nothing of who has started it
            with tracing.start_span("alone"), tracing.start_span("given", parent=flush):
                pass

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    parents = {span.name: span.parent for span in spans}
    assert parents == {"flush": None, "domain": flush, "alone": None, "given": flush}


def test_what_is_carried_goes_to_the_first_span_of_a_trace(spans: KeptSpans) -> None:
    with (
        tracing.carry_attributes({"dagster.run_id": "r"}),
        tracing.start_span("flush", {"own": 1}),
        tracing.start_span("domain"),
    ):
        pass
    tracing.start_span("later")
    assert [span.attributes for span in spans] == [{"own": 1, "dagster.run_id": "r"}, {}, {}]


def test_requests_count_for_the_span_around_them(spans: KeptSpans) -> None:
    counters = Counters()
    counters.count_request("get", seconds=1.0)
    with tracing.start_span("flush"), tracing.start_span("commit"):
        counters.count_request("put", seconds=1.0)
        counters.add_requests({"put": 2, "get": 1})
    assert [span.requests for span in spans] == [{}, {"put": 3, "get": 1}]


def test_a_request_has_a_span_only_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tracing.TRACE_REQUESTS, "1")
    kept = KeptSpans()
    tracing.install_tracer(kept)
    try:
        with tracing.start_span("commit"):
            Counters().count_request("put", seconds=1.0, failed=True)
    finally:
        tracing.install_tracer(None)
    commit, request = kept
    assert (request.name, request.parent, request.error_type) == ("request put", commit, "StorageError")


def test_an_error_is_named_by_its_type_and_sparks_condition() -> None:
    class OfSpark(Exception):
        def getCondition(self) -> str:
            return "DIVIDE_BY_ZERO"

    failed = RowFailed("price 31 is secret")
    failed.__cause__ = OfSpark("price 31")
    assert tracing.name_error(failed) == "RowFailed DIVIDE_BY_ZERO"
    assert tracing.name_error(OfSpark("price 31")) == "OfSpark DIVIDE_BY_ZERO"
    assert tracing.name_error(ValueError("31")) == "ValueError"
