"""Random worlds whose views are sampled at their end, and whose last epochs are computed again: right ones do not differ.

`python -m tests.runtime.oracle.sampled_worlds FIRST LAST` runs many on one Spark.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

from engine.runtime.oracle.sampling import Sampling
from tests.oracle.random_worlds import world
from tests.oracle.world_run import WorldRun

EPOCHS = 5


class SampledRun(WorldRun):
    """The run of a world, with the samples that were taken at its end."""

    sampled: int
    """How many views were compared as a whole."""
    reasons: Counter[str]
    """Why others were not."""
    replays: Counter[str]
    """What came of epochs that were computed again, or why they were not."""

    def run(self, rounds: int) -> list[str]:
        """Act and check, then sample and replay."""
        self.sampled, self.reasons, self.replays = 0, Counter(), Counter()
        failures = super().run(rounds)
        return failures or [*self._sample(), *self._replay()]

    def _replay(self) -> list[str]:
        session, wrong = self.sessions[0], []
        for view in session.stored.catalog.relations:
            if view not in session.stored.plans:
                continue
            for one in session.replay_epochs(view, last=EPOCHS):
                self.replays[one.outcome or one.reason] += 1
                if one.outcome == "other rows":
                    tables = [table for table in one.tables if table.outcome == "other rows"]
                    wrong.append(
                        f"FAILED replay of {view} at {one.epoch}: {tables}\n  replay: {self.world.replay()}"
                    )
        return wrong

    def _sample(self) -> list[str]:
        session, wrong = self.sessions[0], []
        for report in Sampling(session.store, lambda: session.computing).run(600.0):
            self.sampled += report.passed
            if report.reason:
                self.reasons[report.reason.splitlines()[0]] += 1
            if report.differ:
                wrong.append(
                    f"FAILED samples of {report.view}: {report.examples}\n  replay: {self.world.replay()}"
                )
        return wrong


def main() -> None:
    """Run the worlds that the command line names, and print what went wrong."""
    os.environ.setdefault("TIDELINE_VERIFY", "1")
    from engine.runtime.spark.session import connect

    spark = connect("local[2]")
    spark.sparkContext.setLogLevel("OFF")
    wrong = 0
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        made = world(seed)
        with SampledRun(made, spark, made.views) as run:
            failures = run.run(3)
        for text in failures:
            print(text, flush=True)
        print(
            f"seed {seed}: {len(failures)} wrong, {run.sampled} of {len(made.views)} views compared",
            flush=True,
        )
        for reason, count in run.reasons.items():
            print(f"  {count}: {reason}", flush=True)
        for outcome, count in run.replays.items():
            print(f"  {count} epochs: {outcome}", flush=True)
        wrong += len(failures)
    spark.stop()
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
