"""`tideline status --watch`: what is shown follows the store, and Ctrl-C ends it quietly."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.cli.watch import render_frames, watch_store
from engine.hummock import Hummock
from engine.session import Session


@pytest.fixture
def session(tmp_path: Path) -> Session:
    session = Session((tmp_path / "store").as_uri())
    session.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    return session


def test_what_is_shown_follows_the_store_and_counts_its_epochs(session: Session) -> None:
    with Hummock.open(session.url) as store:
        shown = render_frames(store, waits=False, wide=False, width=160)
        screens = [next(shown)[1]]
        for number in (1, 2):
            session.write("t", pa.table({"id": [number]}))
            screens.append(next(shown)[1])
    assert all(session.url in lines[0] for lines in screens)
    ends = [lines[1].index("epochs") + len("epochs") for lines in screens]
    rows = [next(line for line in lines if line.startswith("t ")) for lines in screens]
    assert [row[:end].split()[-1] for row, end in zip(rows, ends, strict=True)] == ["0", "1", "2"]


def test_a_pipe_gets_a_listing_after_each_change_until_ctrl_c(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    rested = []

    def rest(seconds: float) -> None:
        rested.append(seconds)
        if len(rested) == 3 and "other" not in session.catalog.relations:
            session.sql("CREATE TABLE other (id INT PRIMARY KEY)")
        if len(rested) == 5:
            raise KeyboardInterrupt

    with Hummock.open(session.url) as store:
        watch_store(store, waits=True, wide=False, rest=rest)
        assert capsys.readouterr().out.count("nothing waits") == 2
        rested.clear()
        watch_store(store, waits=False, wide=False, rest=rest)
    assert capsys.readouterr().out.count("other ") == 1
