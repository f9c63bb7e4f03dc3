"""Verbs of sinks: created, dropped, paused, and delivered to targets that fail by themselves."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from engine.connectors.sinks.ddl import alter_sink
from engine.connectors.sinks.delivery import Delivery
from engine.connectors.statements.create_view import execute_create_sink
from engine.hummock import Hummock
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.sinks import find_sink_source, list_sinks, read_sink_state
from engine.runtime.statements.drop import drop_relation
from engine.sql.catalog import Relation
from engine.sql.statements import reader as st
from engine.testing.faulty import FaultyObjectStore
from engine.testing.memory import MemoryObjectStore
from tests.contexts import build_context
from tests.crash.broken import Broken
from tests.crash.delivered import replayed
from tests.crash.program.event_verbs import EVENTS
from tests.crash.program.world import World
from tests.crash.tables import TABLES

OUTSIDE = Path(tempfile.gettempdir()).as_uri()
"""Where files of sinks are said to go, a folder that everybody may write; they stay in memory."""
MEANWHILE = ("RESET", "PAUSE", "RESUME", "DROP")


class Interrupted(MemoryObjectStore):
    """Where the files of a sink go; `meanwhile` is called before each that is written."""

    def __init__(self, objects: MemoryObjectStore, meanwhile: Callable[[], None]) -> None:
        self.__dict__ |= vars(objects)
        self._meanwhile = meanwhile

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object, after whatever happens meanwhile."""
        self._meanwhile()
        return super().put_if_absent(path, data)


class SinkVerbs(World):
    """Whatever a program does to its sinks, and what has arrived behind them."""

    _interruption: tuple[int, str] | None = None

    def _create_sink(self) -> None:
        stored = load_catalog(self.store.refresh())
        if sum("into" not in sink.options for sink in list_sinks(stored)) >= 3:
            return
        relations = stored.catalog.relations
        sources = [n for n in (*TABLES, EVENTS, *self.texts) if n in relations and self._key_is_shown(n)]
        self._new_sink(self._outside(), self.random.choice(sources))

    def _outside(self) -> str:
        """Return the name of a sink that is to be, for whose files there is a place."""
        name = f"s{len(self.outside) + 1}"
        self.outside[name] = MemoryObjectStore(self.clock)
        return name

    def _new_sink(self, name: str, source: str) -> None:
        groups = self.random.choice((1, 1, 2))
        self.trace[-1] += f" {name} FROM {source}, {groups} groups"
        text = (
            f"CREATE SINK {name} FROM {source} WITH (connector = 'file', url = '{OUTSIDE}/{name}', format = 'jsonl', "
            f"type = 'upsert', vnode_groups = {groups}, retention = '1000 days')"
        )
        execute_create_sink(st.parse_statement(text, "spark"), build_context(self.store))  # type: ignore[arg-type]

    def _key_is_shown(self, name: str) -> bool:
        """Tell whether the rows of a table or view can be told apart by what is shown of them."""
        return set(load_catalog(self.store.version).catalog.get(name).primary_key) <= set(self._shown(name))

    def _drop_sink(self) -> None:
        if (relation := self._a_sink()) is not None:
            drop_relation(self.store, st.Drop("sink", relation.name, True, False, ""))

    def _pause_or_resume_sink(self) -> None:
        if (relation := self._a_sink()) is not None:
            action = "RESUME" if read_sink_state(self.store.version, relation.name).paused else "PAUSE"
            alter_sink(self.store, st.parse_statement(f"ALTER SINK {relation.name} {action}", "spark"))  # type: ignore[arg-type]

    def _reset_sink(self) -> None:
        """A sink begins anew: from now on what counts is what has been delivered since."""
        if (relation := self._a_sink()) is not None:
            self.trace[-1] += f" {relation.name}"
            alter_sink(self.store, st.parse_statement(f"ALTER SINK {relation.name} RESET", "spark"))  # type: ignore[arg-type]

    def _create_sink_again(self) -> None:
        """Drop a sink and create another one of its name, into the same folder."""
        if (relation := self._a_sink()) is not None and relation.name in self.outside:
            if not self._key_is_shown(find_sink_source(relation)):
                return
            self.trace[-1] += f" {relation.name}"
            drop_relation(self.store, st.Drop("sink", relation.name, True, False, ""))
            self._new_sink(relation.name, find_sink_source(relation))

    def _a_sink(self) -> Relation | None:
        known = sorted(list_sinks(load_catalog(self.store.refresh())), key=lambda relation: relation.name)
        return self.random.choice(known) if known else None

    def _deliver(self) -> None:
        """Deliver what waits; a target that does not answer makes its sink fail, and may be where this process ends."""
        if self.random.random() < 0.2:
            self.targets.crash_at = 1 + int(self.random.expovariate(0.5))
        self._interruption = None
        if self.random.random() < 0.3:
            self._interruption = (1 + int(self.random.expovariate(0.7)), self.random.choice(MEANWHILE))
        self._deliver_what_waits()
        self.targets.crash_at = self._interruption = None

    def _interrupt(self, sink: str) -> None:
        """Before the n-th file of a delivery: another process says something about the sink that is being delivered."""
        if self._interruption is None:
            return
        left, said = self._interruption
        self._interruption = (left - 1, said) if left > 1 else None
        if left > 1 or self._is_left_alone(sink):
            return
        self.trace[-1] += f", {said} of {sink} meanwhile"
        other = Hummock.open(
            "memory://store", cache_dir=str(self.folder / "other"), object_store=self.disk, clock=self.clock
        )
        if said == "DROP":
            drop_relation(other, st.Drop("sink", sink, True, False, ""))
        else:
            alter_sink(other, st.parse_statement(f"ALTER SINK {sink} {said}", "spark"))  # type: ignore[arg-type]

    def _is_left_alone(self, sink: str) -> bool:
        """Tell whether what has been said of a sink must be known before rows come to what it reads."""
        return False

    def _deliver_what_waits(self) -> None:
        for relation in list_sinks(load_catalog(self.store.refresh())):
            delivery = self._delivery(relation)
            delivery.run()
            if delivery.error is not None and not self._is_of_its_target(delivery.error):
                raise Broken(f"sink {relation.name} failed: {delivery.error}")

    def _delivery(self, relation: Relation) -> Delivery:
        """What this process delivers a sink with, the same one as before while it is the same sink."""
        known = self._deliveries.get(relation.name)
        if known is None or known.relation != relation:
            known = self._deliveries[relation.name] = Delivery(self.store, relation, self._target, self.clock)
        known.forget_resolved_failure(self.store.version)
        return known

    def _target(self, url: str) -> FaultyObjectStore:
        """What a sink of this process writes to; each target fails by itself."""
        name = url.rpartition("/")[2]
        if name not in self._reached:
            disk = Interrupted(self.outside[name], lambda: self._interrupt(name))
            self._reached[name] = FaultyObjectStore(disk, self.targets, self.clock)
        return self._reached[name]

    @staticmethod
    def _is_of_its_target(error: str) -> bool:
        return error.startswith("Unavailable: ") or "the answer was lost" in error or ".jsonl: " in error

    def _delivered(self, relation: Relation) -> Counter:
        stored = self.outside[relation.name]
        objects = {info.path: stored.get(info.path) for info in stored.list("")}
        key = load_catalog(self.store.version).catalog.get(find_sink_source(relation)).primary_key
        return replayed(
            relation.name, objects, key, {column.name: column.type for column in relation.columns}
        )
