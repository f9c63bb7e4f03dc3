"""A process that follows a Delta table until it has taken all, or is killed before or after one of its commits.

`python -m tests.connectors.delta_follower STORE TABLE before|after NUMBER`: commits with a Delta offset are counted from 1.
"""

from __future__ import annotations

import os
import signal
import sys

from engine.connectors import delta_steps
from engine.connectors.delta import DeltaSource
from engine.hummock import Commit, Hummock, Version
from engine.meta.source_notes import OFFSETS
from engine.session import Session


def main(url: str, table: str, moment: str, number: str) -> None:
    """Poll a table of a store; dies at a commit."""
    commit = Hummock.commit
    left = int(number)

    def dying(store: Hummock, asked: Commit) -> Version:
        nonlocal left
        left -= OFFSETS in asked.writes
        dies = left == 0 and OFFSETS in asked.writes
        if dies and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = commit(store, asked)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    Hummock.commit = dying  # type: ignore[method-assign]  # a marker in the process that is to die
    delta_steps.next_step.__defaults__ = (1,)  # each version is a commit
    with Session(url, "local[1]") as session:
        DeltaSource(session.store, session.catalog.get(table)).poll(lambda: session.computing)
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
