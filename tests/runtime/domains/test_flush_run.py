"""A flush reaches the operator of a view by the calls that the page says, and the domains of a run share one target."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from engine.operators.joins import join
from engine.runtime.domains.flush_run import SharedTarget
from engine.runtime.domains.lanes import Lanes
from engine.runtime.epoch import spark_executor
from engine.session import Session

ROOT = Path(__file__).parents[3]
MOST_FRAMES = 12


def list_calls(frame: FrameType | None) -> list[str]:
    """Return the engine's functions on a stack, outermost first; those outside of classes with their modules."""
    found = []
    while frame is not None:
        path, name = Path(frame.f_code.co_filename), frame.f_code.co_qualname
        if path.is_relative_to(ROOT / "engine"):
            found.append(name if "." in name else f"{path.stem}.{name}")
        frame = frame.f_back
    return found[::-1]


def test_a_flush_reaches_the_operator_by_the_calls_of_the_page(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[list[str]] = []
    caller: list[list[str]] = []
    delta, wait = join.delta, Lanes._wait_patiently

    def walk(*given: Any) -> Any:
        walked.append([*list_calls(sys._getframe()), "join.delta"])
        return delta(*given)

    def note_caller(*given: Any) -> None:
        caller.append(list_calls(sys._getframe()))
        wait(*given)

    session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT)")
    session.sql("CREATE TABLE auction (id BIGINT PRIMARY KEY, item STRING)")
    session.sql(
        "CREATE MATERIALIZED VIEW wide AS SELECT b.id, a.item FROM bid b JOIN auction a ON a.id = b.auction"
    )
    session.sql("INSERT INTO auction VALUES (1, 'a')")
    session.flush().raise_for_errors()
    session.sql("INSERT INTO bid VALUES (1, 1)")
    session._runner.executor._prepared._frames.clear()  # type: ignore[attr-defined]
    monkeypatch.setattr(spark_executor, "LEAST_FRAGMENTS", 9)
    monkeypatch.setattr(join, "delta", walk)
    monkeypatch.setattr(Lanes, "_wait_patiently", note_caller)
    session.flush().raise_for_errors()

    page = (ROOT / "docs" / "architecture.md").read_text()
    (text,) = re.findall(r"^Session\.flush → .*?(?=^```)", page, re.MULTILINE | re.DOTALL)
    written = re.findall(r"[\w.]+", text)
    assert [*caller[0], *walked[0]] == written
    assert len(written) <= MOST_FRAMES


def test_the_domains_of_a_run_follow_one_that_has_gone_beyond_its_target(session: Session) -> None:
    target, version = SharedTarget(session.store.version.epoch), session.store.version
    target.extend_to(version.epoch + 5)
    assert target.adopt_newer(version).epoch == version.epoch + 5
    target.extend_to(version.epoch)
    assert target.adopt_newer(version).epoch == version.epoch + 5
