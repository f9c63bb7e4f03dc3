"""The random programs in processes of their own on Spark, killed (SIGKILL) and stopped (SIGSTOP) at random moments.

A seed is a few lives over one store: most are killed, some are stopped until a later life has gone on for a while and then wake up
beside it, the last one ends by itself. Then every invariant is checked, every view, and every sink.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

from engine.hummock import Hummock, Version
from engine.hummock.epoch import system_clock
from engine.hummock.object_store import open_object_store
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.catalog.successions import list_successions
from engine.meta.domains.creation import find_computed_table
from engine.meta.domains.domain import list_domains
from engine.meta.domains.failures import list_failures
from engine.meta.status.sinks import find_sink_source, list_sinks
from engine.meta.status.waits import list_waits
from tests.crash.broken import Broken
from tests.crash.checks import Checks
from tests.crash.delivered import replayed
from tests.crash.tables import TABLES, bag_of

DEADLINE = 600.0
"""A life that takes longer is stuck."""
PATIENCE = 30.0
"""Lines are waited for so long at most: another life may be asleep meanwhile, and Spark ends one that has slept for two minutes."""
STEPS = 14
WITHIN_SECONDS = 1.0
"""A life is killed or stopped so long at most after what it said last, so in the middle of its step or in a later one."""


class Life:
    """One child process and what it has printed; every line is an event that can be waited for."""

    def __init__(self, folder: Path, seed: int, number: int, spark: str, settle: bool) -> None:
        self.number, self.lines = number, [f"life {number}"]
        words = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.crash.worker",
            str(folder),
            str(seed),
            str(number),
        ]
        words += [str(STEPS), spark, *(["settle"] if settle else [])]
        self.errors = (folder / f"errors-{number}").open("w+")
        self.child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
        )
        self._heard = threading.Condition()
        self._ready_at: int | None = None
        self._silent = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            with self._heard:
                self.lines.append(line.strip())
                if line.strip() == "ready":
                    self._ready_at = len(self.lines)
                self._heard.notify_all()
        with self._heard:
            self._silent = True
            self._heard.notify_all()

    def until(self, further: int, within: float) -> None:
        """Wait until it has said so many lines since it was ready, and `within` seconds longer, or until it ends.

        Lines are not waited for beyond PATIENCE. Raises Broken if it does not get ready.
        """
        with self._heard:
            if not self._heard.wait_for(lambda: self._silent or self._ready_at is not None, DEADLINE):
                raise self._stuck()
            upto = (self._ready_at or 0) + further
            self._heard.wait_for(lambda: self._silent or len(self.lines) >= upto, PATIENCE)
        with suppress(subprocess.TimeoutExpired):
            self.child.wait(within)

    def _stuck(self) -> Broken:
        return Broken(f"life {self.number} is stuck beyond {DEADLINE:.0f} s in: {self.lines[-1]}")

    def signal(self, number: int) -> None:
        """Send a signal to the process and all that it has started."""
        ended = self.child.poll() is not None
        with suppress(ProcessLookupError):  # its Java may be there yet
            os.killpg(self.child.pid, number)
        if not ended:
            self.lines.append(signal.Signals(number).name)

    def kill(self) -> None:
        """Kill it and wait until nothing of it is left."""
        self.signal(signal.SIGKILL)
        self.child.wait()
        self._reader.join()

    def end(self) -> None:
        """Wait until it ends by itself; raises Broken if it is stuck or fails. A last life settles from now on."""
        assert self.child.stdin is not None
        with suppress(BrokenPipeError):
            self.child.stdin.close()
        try:
            self.child.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            stuck = self._stuck()
            self.kill()
            raise stuck from None
        self._reader.join()
        if self.child.returncode != 0 or "ended" not in self.lines:  # a signal may have come after it
            self.errors.seek(0)
            last_lines = "\n".join(self.errors.read().splitlines()[-12:])
            raise Broken(f"life {self.number} ended with {self.child.returncode}:\n{last_lines}")


class StoreChecks(Checks):
    """The checks over a store on disk, read by this process without Spark."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(random.Random(f"{seed}/checks"))
        self.folder, self.clock = folder, system_clock
        self.url = (folder / "store").as_uri()
        self.disk = open_object_store(self.url, create=False)
        self.store = Hummock.open(self.url, auto_compact="off")
        self._numbers: dict[str, dict[str, int]] = {}
        self._queries: dict[str, str] = {}

    def journals(self) -> list[list[dict]]:
        """Return what each life has noted; a last line may have been cut off by its death."""
        found = []
        for path in sorted(self.folder.glob("journal-*")):
            lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
            found.append(lines)
        return found

    def everything(self) -> None:
        """Check all invariants, the views, and the rows of every life."""
        journals = self.journals()
        if failed := [entry for journal in journals for entry in journal if "failed" in entry]:
            raise Broken(f"{failed[0]['failed']} failed: {failed[0]['error']}")
        given: dict[str, list[str]] = {}
        for entry in (entry for journal in journals for entry in journal if "view" in entry):
            given.setdefault(entry["view"], []).append(entry["text"])
        version = self.store.refresh()
        stored = load_catalog(version)
        self.texts = {
            name: self._query(version, stored, name, texts)
            for name, texts in given.items()
            if name in stored.plans
        }
        self._forget_made_anew(stored)
        for name in self.texts:
            if len(given[name]) > 1:
                self._had_others(name)
        self.check()
        present = {name: self._content(name, None) for name in TABLES}
        for path, journal in zip(sorted(self.folder.glob("journal-*")), journals, strict=True):
            self._rows_of_a_life(int(path.name.rpartition("-")[2]), journal, present)

    @staticmethod
    def _query(version: Version, stored: StoredCatalog, name: str, texts: list[str]) -> str:
        """Return which of the queries that it was given a view has; a copy of its successor has the successor's."""
        succession = list_successions(version).get(name)
        is_copy = succession is not None and succession.copied and name not in list_replaced_tables(version)
        sql = stored.catalog.get(succession.successor if succession and is_copy else name).sql
        found = [text for text in texts if sql.endswith(f" AS {text}")]
        if not found:
            raise Broken(f"nobody gave {name} the query that it has: {sql}")
        return found[0]

    def _had_others(self, name: str) -> None:
        """Take note that a view may have had another query than it has, up to now."""
        table = self.store.version.tables.get(name)
        if table is not None and self._queries.get(name) != self.texts[name]:
            self.began.add((name, table.table_id))
            self.since[name] = table.committed_epoch
            self.expected = {at: rows for at, rows in self.expected.items() if at[0] != name}
        self._queries[name] = self.texts[name]

    def _forget_made_anew(self, stored: StoredCatalog) -> None:
        """Forget what was asked of domains of which a view was made anew since the last look."""
        tables = self.store.version.tables
        for domain, found in list_domains(stored).items():
            now = {name: tables[name].table_id for name in found.members if name in tables}
            before = self._numbers.get(domain, {})
            if any(now.get(name) != number for name, number in before.items()):
                self.forget([domain])
            self._numbers[domain] = now

    def _rows_of_a_life(self, life: int, journal: list[dict], present: dict[str, Counter]) -> None:
        """The rows of a life are those of its finished writes; of an unfinished one all is there, or nothing."""
        rows: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in TABLES}
        before = {name: dict(known) for name, known in rows.items()}
        unfinished = False
        for entry in journal:
            if "done" in entry:
                before, unfinished = {name: dict(known) for name, known in rows.items()}, False
            elif "table" in entry:
                known, unfinished = rows[entry["table"]], True
                known.update({number: (group, value) for number, group, value in entry.get("puts", ())})
                for gone in entry.get("gone", ()):
                    known.pop(gone)
        possible = [rows, before] if unfinished else [rows]
        found = {
            name: Counter({row: n for row, n in bag.items() if TABLES[name].number(row) // 1000 == life})
            for name, bag in present.items()
        }
        if found not in [{name: bag_of(name, known) for name, known in one.items()} for one in possible]:
            raise Broken(f"the rows of life {life} are not what it wrote")

    def at_the_end(self) -> None:
        """Check that nothing waits or is remembered as failing, and that the files of sinks add up to their tables."""
        version = self.store.refresh()
        stored = load_catalog(version)
        if found := list_waits(version, stored, self.clock()):
            raise Broken(f"stuck: {[(wait.domain, wait.reason) for wait in found]}")
        if found := list_failures(version):
            raise Broken(f"failures are remembered that are over: {sorted(found)}")
        for name in self.texts:
            if find_computed_table(version, name) is None:
                raise Broken(f"{name} is said to be caught up and was never computed as a whole")
        for relation in list_sinks(stored):
            source = find_sink_source(relation)
            files = (self.folder / "sinks" / relation.name).glob("*.jsonl")
            objects = {path.name: path.read_bytes() for path in files}
            key = stored.catalog.get(source).primary_key
            kinds = {column.name: column.type for column in relation.columns}
            if replayed(relation.name, objects, key, kinds) != self._content(source, None):
                raise Broken(f"sink {relation.name} did not deliver what {source} holds")


class ProcessProgram:
    """One seed: lives that are killed and stopped, then the checks."""

    def __init__(self, seed: int, folder: Path, spark: str = "local[2]", lives: int = 3) -> None:
        self.seed, self.folder, self.spark, self.lives = seed, folder, spark, lives
        self.random = random.Random(seed)
        self.checks: StoreChecks | None = None
        self.all_lives: list[Life] = []
        self.kills = self.stops = 0

    def run(self) -> None:
        """Live all lives; raises Broken with the line that replays the seed."""
        asleep: Life | None = None
        try:
            for number in range(self.lives):
                last = number == self.lives - 1
                life = Life(self.folder, self.seed, number, self.spark, settle=last)
                self.all_lives.append(life)
                life.until(self.random.randrange(2 * STEPS), self.random.uniform(0, WITHIN_SECONDS))
                if asleep is not None:
                    asleep.signal(signal.SIGCONT)
                    asleep.end()
                    asleep = None
                if last:
                    life.end()
                elif self.random.random() < 0.3:
                    life.signal(signal.SIGSTOP)
                    asleep, self.stops = life, self.stops + 1
                else:
                    life.kill()
                    self.kills += 1
                if last or asleep is None:
                    self._check()
            assert self.checks is not None
            self.checks.at_the_end()
        except AssertionError as error:
            last_lines = "\n".join(line for life in self.all_lives for line in life.lines[-8:])
            raise Broken(
                f"{error}\nreplay: python -m tests.crash.program --executor spark {self.seed}\nlast steps:\n{last_lines}"
            ) from error
        finally:
            for life in self.all_lives:
                life.kill()

    def _check(self) -> None:
        if self.checks is None:
            self.checks = StoreChecks(self.folder, self.seed)
        self.checks.everything()
