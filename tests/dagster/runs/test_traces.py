"""The spans of an epoch that a run of Dagster computes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine import tracing
from tests.dagster.conftest import Project
from tests.telemetry.kept_spans import KeptSpans


@pytest.fixture
def spans() -> Iterator[KeptSpans]:
    """A tracer in force."""
    kept = KeptSpans()
    tracing.install_tracer(kept)
    yield kept
    tracing.install_tracer(None)


def test_the_span_of_a_flush_names_the_run_of_dagster(project: Project, spans: KeptSpans) -> None:
    project.land("a.csv", "id,shop,price\n1,a,5\n")
    result = project.run()
    assert result.success
    roots = [span for span in spans if span.parent is None]
    assert {span.name for span in roots} == {"flush"}
    assert {span.attributes["dagster.run_id"] for span in roots} == {result.run_id}
    assert {span.attributes["dagster.job_name"] for span in roots} == {"epoch_run"}
    names = [span.name for span in spans if span.attributes.get("tideline.view") == "totals"]
    assert "fragment" in names
