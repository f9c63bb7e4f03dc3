"""A whole program: verbs in random order, a crash now and then, the checks after each, and at the end everything catches up."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from collections.abc import Callable

from engine.connectors.sinks.ddl import alter_sink
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.catalog.successions import list_successions
from engine.meta.domains.creation import find_computed_table
from engine.meta.domains.failures import list_failures
from engine.meta.epochs.query_policy import choose_epochs
from engine.meta.status.sinks import list_sinks, read_sink_state
from engine.meta.status.waits import list_quarantine_waits, list_waits
from engine.runtime.statements.succession.take_over import let_successors_take_over
from engine.sql.statements import reader as st
from engine.testing.faulty import Crashed
from tests.crash.broken import Broken
from tests.crash.program.event_verbs import check_events
from tests.crash.program.into_verbs import IntoVerbs
from tests.crash.program.model_verbs import ModelVerbs
from tests.crash.tables import bag_of

DEADLINE = 600.0
"""A program takes a second or two; one that takes longer than this by the wall clock is stuck."""


class Program(ModelVerbs, IntoVerbs):
    """One seeded program: `run` does its steps and its checks."""

    def run(self) -> None:
        """Do the steps; raises Broken with the seed where an invariant does not hold."""
        verbs: list[tuple[int, Callable[[], None]]] = [
            (30, self._write),
            (10, self._arrive),
            (12, self._create_view),
            (4, self._drop),
            (6, self._change_view),
            (5, self._replace_view),
            (16, self._succeed_view),
            (30, self._flush),
            (8, self._compact),
            (6, self._collect),
            (4, self._reopen),
            (4, self._wake_zombie),
            (5, self._fail_or_mend),
            (8, self._poison_or_mend),
            (7, self._steer),
            (6, self._wait),
            (3, self._neglect),
            (5, self._create_sink),
            (2, self._drop_sink),
            (3, self._pause_or_resume_sink),
            (3, self._reset_sink),
            (1, self._create_sink_again),
            (5, self._create_into),
            (10, self._deliver),
        ]
        watchdog = threading.Timer(DEADLINE, self._stuck)
        watchdog.daemon = True
        watchdog.start()
        try:
            for _ in range(self.steps):
                (_, verb) = self.random.choices(verbs, [weight for weight, _ in verbs])[0]
                self.clock.sleep(self.random.choice((0.001, 0.5, 5.0)))
                self._attempt(verb)
                self.check()
            self._settle()
        except Exception as error:
            last_steps = "\n".join(self.trace[-12:])
            raise Broken(
                f"{type(error).__name__}: {error}\nreplay: python -m tests.crash.program {self.seed}\nlast steps:\n{last_steps}"
            ) from error
        finally:
            watchdog.cancel()

    def _stuck(self) -> None:
        """End the process: a thread that waits for ever cannot be told to stop."""
        print(f"stuck beyond {DEADLINE:.0f} s in: {self.trace[-1:]}", file=sys.stderr)
        print(f"replay: python -m tests.crash.program {self.seed}", file=sys.stderr, flush=True)
        faulthandler.dump_traceback(all_threads=True)
        os._exit(2)

    def _attempt(self, verb: Callable[[], None]) -> None:
        if self.random.random() < 0.3:
            soon = 1 + int(self.random.expovariate(0.2))
            self.objects.plan.crash_at = self.objects.requests + soon
        self.trace.append(verb.__name__.strip("_"))
        try:
            verb()
            self.objects.plan.crash_at = None
        except Crashed:
            self.trace[-1] += " CRASHED"
            self._open()
            self._find_out()
            self._changed()

    def _settle(self) -> None:
        """After the causes are removed everything catches up and equals a batch run over the newest rows."""
        self.trace.append("settle")
        self.failing.clear()
        self._mend()
        for name in list(self.texts):
            self._alter(name, "RESUME")
            self._alter(name, "SET (backfill_rate_limit = 1000000)")
        for _ in range(60):
            self.clock.sleep(1.0)
            report = self.flusher.run(background_seconds=1.0)
            let_successors_take_over(self.store)
            version = self.store.refresh()
            stored = load_catalog(version)
            left = [*list_waits(version, stored, self.clock()), *list_quarantine_waits(version)]
            changing = sorted(list_successions(version))
            if not left and not changing:
                break
        else:
            stuck = [(w.domain, w.reason) for w in left]
            raise Broken(f"stuck: {stuck}; {changing}; {[r.error for r in report.failed]}")
        self.check()
        for name in self.texts:
            if find_computed_table(self.store.version, name) is None:
                raise Broken(f"{name} is said to be caught up and was never computed as a whole")
        for relation in list_sinks(load_catalog(self.store.version)):
            if read_sink_state(self.store.version, relation.name).paused:
                alter_sink(self.store, st.parse_statement(f"ALTER SINK {relation.name} RESUME", "spark"))  # type: ignore[arg-type]
        self.targets.rate, self._interruption = 0.0, None
        self._deliver_what_waits()
        self.check()
        self._check_sinks_at_the_end()
        if list_failures(self.store.version):
            raise Broken(
                f"failures are remembered that are over: {sorted(list_failures(self.store.version))}"
            )
        for name, rows in self.rows.items():
            if self._content(name, None) != bag_of(name, rows):
                raise Broken(f"table {name} lost or doubled rows")
        check_events(self.store, self.events)
        version = self.store.refresh()
        stored = load_catalog(version)
        names = tuple(self.texts)
        if names and set(choose_epochs(version, stored, names, "consistent").values()) != {
            choose_epochs(version, stored, names, "global")[names[0]]
        }:
            raise Broken("consistent and global differ though everything is caught up")
