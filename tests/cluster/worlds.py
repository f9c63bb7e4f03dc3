"""Random worlds, run as a driver: their views are those of a batch run whatever befalls the cluster."""

from __future__ import annotations

import sys

from engine.errors import StorageError
from engine.runtime.spark.session import connect
from tests.oracle.random_worlds import HUGE, ROUNDS, world
from tests.oracle.world_run import WorldRun

ATTEMPTS = 4


class TroubledRun(WorldRun):
    """A run that says when it flushes, and flushes again what failed because the store was away."""

    epochs_begun = 0
    failures_told = 0

    def _flush_all(self, label: str) -> None:
        print(f"epoch {TroubledRun.epochs_begun}", flush=True)
        TroubledRun.epochs_begun += 1
        for _ in range(ATTEMPTS):
            try:
                failed = [view for view in self._session().flush().failed if not self._is_poisoned()]
            except StorageError as error:
                self._tell("all", error)
                continue
            for view in failed:
                self._tell(view.view, view.error)
            if not failed:
                break
        super()._flush_all(label)

    @staticmethod
    def _tell(view: str, error: object) -> None:
        TroubledRun.failures_told += 1
        print(f"failed {view}: {error}".replace("\n", " ")[:600], flush=True)


def main(store: str, first: int, views: int) -> None:
    """Run worlds from a seed on until they had so many views; prints a line when all are right."""
    spark = connect()
    spark.sparkContext.setLogLevel("OFF")  # rows that are poison on purpose
    seen, seed, wrong = 0, first, []
    while seen < views:
        made = world(seed)
        seed += 1
        if made.large in HUGE:  # their nested loops are an hour of a core, and nothing of a cluster
            continue
        with TroubledRun(made, spark, made.views, f"{store}/{made.seed}") as run:
            wrong += run.run(ROUNDS)
        seen += len(made.views)
        print(f"seed {made.seed}: {len(made.views)} views, {seen} in all, {len(wrong)} wrong", flush=True)
    for text in wrong:
        print(text, flush=True)
    assert not wrong, f"{len(wrong)} of {seen} views"
    print(f"equal: {seen} views, {TroubledRun.failures_told} failures on the way", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
