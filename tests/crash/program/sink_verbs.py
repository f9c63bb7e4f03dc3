"""Verbs of sinks: created, dropped, paused, and delivered to targets that fail by themselves."""

from __future__ import annotations

from collections import Counter

from engine.connectors.sinks.ddl import alter_sink, create_sink
from engine.connectors.sinks.delivery import Delivery
from engine.hummock.object_store.faulty import FaultyObjectStore
from engine.hummock.object_store.memory import MemoryObjectStore
from engine.meta.catalog_store import load
from engine.meta.sinks import sinks, source_of, state_of
from engine.runtime.drop import drop
from engine.sql import statements as st
from engine.sql.catalog import Relation
from tests.crash.checks import TABLES, Broken
from tests.crash.delivered import replayed, rows_of
from tests.crash.program.world import World


class SinkVerbs(World):
    """Whatever a program does to its sinks, and what has arrived behind them."""

    def _create_sink(self) -> None:
        stored = load(self.store.refresh())
        if len(list(sinks(stored))) >= 3:
            return
        sources = [
            n for n in (*TABLES, *self.texts) if n in stored.catalog.relations and self._key_is_shown(n)
        ]
        name, source = f"s{len(self.outside) + 1}", self.random.choice(sources)
        self.outside[name] = MemoryObjectStore(self.clock)
        groups = self.random.choice((1, 1, 2))
        self.trace[-1] += f" {name} FROM {source}, {groups} groups"
        text = (
            f"CREATE SINK {name} FROM {source} WITH (connector = 'file', url = 'file:///{name}', format = 'jsonl', "
            f"type = 'upsert', vnode_groups = {groups}, retention = '1000 days')"
        )
        create_sink(self.store, st.parse(text, "spark"), "spark")  # type: ignore[arg-type]

    def _key_is_shown(self, name: str) -> bool:
        return set(load(self.store.version).catalog.get(name).primary_key) <= set(self._shown(name))

    def _drop_sink(self) -> None:
        if (relation := self._a_sink()) is not None:
            drop(self.store, st.Drop("sink", relation.name, True, False, ""))

    def _pause_or_resume_sink(self) -> None:
        if (relation := self._a_sink()) is not None:
            action = "RESUME" if state_of(self.store.version, relation.name).paused else "PAUSE"
            alter_sink(self.store, st.parse(f"ALTER SINK {relation.name} {action}", "spark"))  # type: ignore[arg-type]

    def _a_sink(self) -> Relation | None:
        known = sorted(sinks(load(self.store.refresh())), key=lambda relation: relation.name)
        return self.random.choice(known) if known else None

    def _deliver(self) -> None:
        """Deliver what waits; a target that does not answer makes its sink fail, and may be where this process ends."""
        if self.random.random() < 0.2:
            self.targets.crash_at = 1 + int(self.random.expovariate(0.5))
        self._deliver_what_waits()
        self.targets.crash_at = None

    def _deliver_what_waits(self) -> None:
        for relation in sinks(load(self.store.refresh())):
            delivery = Delivery(self.store, relation, self._target, self.clock)
            delivery.run()
            if delivery.error is not None and not self._is_of_its_target(delivery.error):
                raise Broken(f"sink {relation.name} failed: {delivery.error}")

    def _target(self, url: str) -> FaultyObjectStore:
        """What a sink of this process writes to; each target fails by itself."""
        name = url.rpartition("/")[2]
        if name not in self._reached:
            self._reached[name] = FaultyObjectStore(self.outside[name], self.targets, self.clock)
        return self._reached[name]

    @staticmethod
    def _is_of_its_target(error: str) -> bool:
        return error.startswith("Unavailable: ") or "the answer was lost" in error or ".jsonl: " in error

    def _delivered(self, relation: Relation) -> Counter:
        stored = self.outside[relation.name]
        objects = {info.path: stored.get(info.path) for info in stored.list("")}
        key = load(self.store.version).catalog.get(source_of(relation)).primary_key
        return replayed(relation.name, rows_of(objects), key)
