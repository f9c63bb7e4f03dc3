"""Verbs of tables and of the engine: writes, flushes, compaction, collection, processes that stop and wake up."""

from __future__ import annotations

from engine.hummock import Delete, Put
from engine.runtime.statements.succession.take_over import let_successors_take_over
from tests.crash.broken import Broken
from tests.crash.planned import check_planned
from tests.crash.program.event_verbs import after, arrive
from tests.crash.program.world import RETENTION, World
from tests.crash.tables import TABLES

POISONOUS = 1000
"""No view that is cut can be computed over a value of `x` from here on."""
Rows = dict[str, dict[int, tuple[int, int]]]


class TableVerbs(World):
    """Whatever a program does to its tables and its store."""

    def _write(self) -> None:
        puts: Rows = {}
        gone: dict[str, list[int]] = {}
        for name in self.random.sample(sorted(TABLES), self.random.choice((1, 1, 2))):
            ids = self.random.sample(range(80), self.random.choice((1, 3, 20)))
            puts[name] = {i: (self.random.randrange(6), self.random.randrange(50)) for i in ids}
            known = sorted(self.rows[name])
            dropped = self.random.sample(known, min(len(known), self.random.choice((0, 0, 2, 10))))
            gone[name] = [i for i in dropped if i not in puts[name]]
        self._put(puts, gone)

    def _put(self, puts: Rows, gone: dict[str, list[int]] | None = None) -> None:
        """Write rows, and delete others, in one commit."""
        after = {name: dict(rows) for name, rows in self.rows.items()}
        writes = {}
        for name, put in puts.items():
            dropped = (gone or {}).get(name, [])
            after[name].update(put)
            for i in dropped:
                del after[name][i]
            writes[name] = [Put(TABLES[name].rows(put)), Delete(TABLES[name].keys(dropped))]
        self._pending_rows = after
        self.store.ingest_batch(writes)
        self.rows, self._pending_rows = after, None

    def _arrive(self) -> None:
        """Write rows to the table with a watermark: in time, late, or together."""
        self.event_time += self.random.choice((0, 3, 15, 40))
        count = self.random.choice((1, 3, 8))
        times = [
            (self.event_time - self.random.choice((0, 0, 5, 20, 21, 60)), self.random.randrange(6))
            for _ in range(count)
        ]
        self._pending_events = after(self.events, times)
        self.events, self._pending_events = arrive(self.store, self.events, times), None

    def _poison_or_mend(self) -> None:
        """Write a row on which views that are cut fail, in one partition or two; or make all such rows good again."""
        if any(x >= POISONOUS for _, x in self.rows["a"].values()) and self.random.random() < 0.6:
            self._mend()
        else:
            self._poison()

    def _poison(self) -> None:
        ids = self.random.sample(range(80), self.random.choice((1, 1, 2)))
        self._put({"a": {i: (self.random.randrange(6), POISONOUS) for i in ids}})

    def _poison_among_many(self) -> None:
        """Write a poisonous row into a full table: a view is built over it in several steps, and the first ones find nothing wrong."""
        rows = {i: (self.random.randrange(6), self.random.randrange(50)) for i in range(80)}
        self._put({"a": rows | {self.random.randrange(80): (self.random.randrange(6), POISONOUS)}})

    def _mend(self) -> None:
        poison = {i: (g, 1) for i, (g, x) in self.rows["a"].items() if x >= POISONOUS}
        if poison:
            self._put({"a": poison})

    def _flush(self) -> None:
        eager, seconds = self.random.random() < 0.7, self.random.choice((0.0, 0.2, 5.0))
        views = None
        if self.texts and self.random.random() < 0.3:
            views = [self.random.choice(sorted(self.texts))]
            self.trace[-1] += f" {views}"
        self._bring_on(views, eager=eager, seconds=seconds)

    def _bring_on(self, views: list[str] | None, *, eager: bool, seconds: float) -> None:
        """Flush some views, or all; `seconds` are for those that are built in the background."""
        for _ in range(2):
            report = self.flusher.run(views, eager=eager, background_seconds=seconds)
            for view in report.failed:
                if "made to fail" not in str(view.error):
                    raise Broken(f"view {view.view} failed: {view.error}")
            check_planned(self.flusher, report)
            if not let_successors_take_over(self.store):
                break

    def _compact(self) -> None:
        name = self.random.choice(sorted(self.store.refresh().tables))
        self.trace[-1] += f" {name}"
        (self.store.compact if self.random.random() < 0.5 else self.store.compact_l0)(name)

    def _collect(self) -> None:
        self.store.gc(grace_seconds=self.random.choice((0.0, 60.0)))

    def _reopen(self) -> None:
        self.zombies = [*self.zombies[-1:], self.flusher]
        self._open()

    def _wake_zombie(self) -> None:
        """A process that was stopped for long goes on with what it knew: it is refused or follows, never wrong."""
        if self.zombies:
            self.zombies.pop().run(background_seconds=0.0)

    def _wait(self) -> None:
        self.clock.sleep(self.random.choice((30.0, RETENTION * 2)))
