"""Verbs of sinks INTO tables: what such a table holds follows from what the sink reads at the epochs up to which it has delivered.

Rows and acknowledgement are one commit, so that holds at any moment, whatever has crashed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from engine.connectors.statements.create_view import execute_create_sink
from engine.hummock import TableVersion, Version
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.status.sinks import find_sink_source, list_consumers, list_sinks, read_sink_state
from engine.runtime.statements.create import relations
from engine.sql.catalog import LATE, WATERMARK, Relation, watermark_name
from engine.sql.statements import reader as st
from tests.contexts import build_context
from tests.crash.broken import Broken
from tests.crash.delivered import rows_alone
from tests.crash.edges import bag
from tests.crash.program.event_verbs import EVENTS
from tests.crash.program.sink_verbs import OUTSIDE, SinkVerbs
from tests.crash.tables import TABLES

Kind = Literal["newest", "first", "marked", "ttl"]
DELAY = 10
NEVER_NULL = {"id", "n", "f"}
"""The columns of views' keys in which no null stands: no table has a row without a key."""
Row = tuple[Any, ...]


@dataclass
class Fed:
    """A table that a sink feeds: whose row stays of those with a key, or a watermark, WITH TTL or without it.

    `begun` tells one beginning of the sink from another; `upto` is how far this one has delivered, `seen` what there was to deliver
    then, `pinned` what it begins with. `rows` are what came by key, `came` what came in time, of which `mark` is the watermark.
    """

    kind: Kind
    target: str
    begun: tuple[int, int] | None = None
    upto: int | None = None
    seen: Counter = field(default_factory=Counter)
    pinned: Counter | None = None
    rows: dict[Row, Row] = field(default_factory=dict)
    came: list[Row] = field(default_factory=list)
    mark: int | None = None
    late: int = 0

    def take(self, now: Counter, at: list[int]) -> None:
        """Take what is different from what was seen; `at` are the places of the key."""
        if self.kind in ("marked", "ttl"):
            self._arrive(now)
        else:
            before, after = ({tuple(row[n] for n in at): row for row in rows} for rows in (self.seen, now))
            for key in before.keys() - after.keys():
                if self.kind == "newest":
                    self.rows.pop(key, None)
            for key, row in after.items():
                if self.kind == "first":
                    self.rows.setdefault(key, row)
                elif before.get(key) != row:
                    self.rows[key] = row
        self.seen = now

    def _arrive(self, now: Counter) -> None:
        new = list((now - self.seen).elements())
        taken = [row for row in new if self.mark is None or row[1] >= self.mark]
        marks = [*(row[1] - DELAY for row in taken), *([] if self.mark is None else [self.mark])]
        self.came += taken
        self.late += len(new) - len(taken)
        self.mark = max(marks, default=None)

    def shown(self) -> Counter:
        """Return what the table must hold."""
        if self.kind in ("newest", "first"):
            return Counter(self.rows.values())
        least = self.mark if self.kind == "ttl" else None
        return Counter(row for row in self.came if least is None or row[1] >= least)


@dataclass
class Outlet:
    """A sink of files from a table whose rows leave: what it began with, and how many rows had come by then."""

    source: str
    begun: int
    first: Counter
    came: int


class IntoVerbs(SinkVerbs):
    """Whatever a program does to sinks INTO tables."""

    def __init__(self, seed: int, folder: Path, steps: int = 40) -> None:
        self.fed: dict[str, Fed] = {}
        self.outlets: dict[str, Outlet] = {}
        self._made_into = 0
        super().__init__(seed, folder, steps)

    def _create_into(self) -> None:
        """Make a table and a sink that feeds it; a crash may leave the table alone."""
        stored = load_catalog(self.store.refresh())
        if len(self.fed) >= 3:
            return
        kind: Kind = self.random.choice(("newest", "first", "marked", "ttl"))
        known = [n for n in (*TABLES, *self.texts) if n in stored.catalog.relations and self._key_is_shown(n)]
        known = [n for n in known if set(stored.catalog.get(n).primary_key) <= NEVER_NULL or n in TABLES]
        self._new_into(kind, EVENTS if kind in ("marked", "ttl") else self.random.choice(known))

    def _new_into(self, kind: Kind, source: str) -> None:
        stored = load_catalog(self.store.refresh())
        self._made_into += 1
        target, name = f"i{self._made_into}", f"p{self._made_into}"
        if kind in ("marked", "ttl"):
            options = "type = 'append-only'"
            behind = " WITH TTL" if kind == "ttl" else ""
            columns = f"(id BIGINT, t BIGINT, g BIGINT, WATERMARK FOR t AS t - {DELAY}{behind}) APPEND ONLY"
        else:
            relation = stored.catalog.get(source)
            shown = ", ".join(f"{c.name} {c.type}" for c in relation.visible_columns)
            columns = f"({shown}, PRIMARY KEY ({', '.join(relation.primary_key)}))"
            columns += " ON CONFLICT DO NOTHING" if kind == "first" else ""
            more = "" if relation.append_only else ", force_append_only = true"
            options = f"type = 'append-only'{more}" if kind == "first" else "type = 'upsert'"
        self.trace[-1] += f" {name} INTO {target} ({kind}) FROM {source}"
        self._make_table(f"CREATE TABLE {target} {columns}")
        self.fed[name] = Fed(kind, target)
        text = f"CREATE SINK {name} INTO {target} FROM {source} WITH ({options}, retention = '1000 days')"
        execute_create_sink(st.parse_statement(text, "spark"), build_context(self.store))  # type: ignore[arg-type]
        if kind == "ttl" and self.random.random() < 0.6:
            self._new_outlet(target)

    def _make_table(self, text: str) -> None:
        relations.create_table(st.parse_statement(text, "spark"), build_context(self.store))  # type: ignore[arg-type]

    def _new_outlet(self, source: str) -> None:
        """Send a table whose rows leave to files."""
        name = self._outside()
        self.trace[-1] += f", {name} FROM {source}"
        text = (
            f"CREATE SINK {name} FROM {source} WITH (connector = 'file', url = '{OUTSIDE}/{name}', format = 'jsonl', "
            "type = 'append-only', retention = '1000 days')"
        )
        execute_create_sink(st.parse_statement(text, "spark"), build_context(self.store))  # type: ignore[arg-type]

    def _is_left_alone(self, sink: str) -> bool:
        return sink in self.outlets

    def check(self) -> None:
        """Check the invariants that hold at any moment, also those of tables that sinks feed."""
        super().check()
        version = self.store.version
        stored = load_catalog(version)
        self.fed = {name: fed for name, fed in self.fed.items() if name in stored.catalog.relations}
        for name, fed in self.fed.items():
            self._check_fed(version, stored.catalog.get(name), fed)
        self._note_outlets(version)

    def _check_fed(self, version: Version, sink: Relation, fed: Fed) -> None:
        source, state = find_sink_source(sink), read_sink_state(version, sink.name)
        table = find_computed_table(version, source)
        if table is not None and table.table_id == state.table_id:
            if fed.begun != (state.start, state.table_id):
                fed.begun, fed.upto, fed.seen, fed.pinned = (
                    (state.start, state.table_id),
                    None,
                    Counter(),
                    None,
                )
            self._follow(fed, table, list_consumers(sink)[0], source)
        found, wanted = bag(self._table(version, fed.target, version.epoch)), fed.shown()
        if found != wanted:
            difference = (
                f"missing {list((wanted - found).items())[:5]}, too many {list((found - wanted).items())[:5]}"
            )
            raise Broken(f"{fed.target}, which {sink.name} feeds, is not what was delivered: {difference}")
        if fed.kind in ("marked", "ttl"):
            marks = [row for b in self.store.iter(watermark_name(fed.target)) for row in b.to_pylist()]
            mark, late = (marks[0][WATERMARK], marks[0][LATE]) if marks else (None, 0)
            if (mark, late) != (fed.mark, fed.late):
                difference = f"{mark} with {late} late rows, not {fed.mark} with {fed.late}"
                raise Broken(f"the watermark of {fed.target}, which {sink.name} feeds, is {difference}")

    def _follow(self, fed: Fed, table: TableVersion, consumer: str, source: str) -> None:
        """Take what a sink has delivered since the last look."""
        if consumer in table.pins:
            fed.pinned = self._content(source, table.pins[consumer])
            return
        upto = table.acks.get(consumer)
        if upto is None or upto == fed.upto:
            return
        shown = self._shown(source)
        at = [
            shown.index(column) for column in load_catalog(self.store.version).catalog.get(source).primary_key
        ]
        if fed.upto is None and fed.pinned is not None:
            fed.take(fed.pinned, at)
        fed.take(self._content(source, upto), at)
        fed.upto = upto

    def _note_outlets(self, version: Version) -> None:
        """Note what sinks begin with that read tables whose rows leave."""
        by_target = {fed.target: fed for fed in self.fed.values()}
        known = {}
        for sink in list_sinks(load_catalog(version)):
            fed = by_target.get(find_sink_source(sink))
            if fed is None or fed.kind != "ttl":
                continue
            start, before = read_sink_state(version, sink.name).start, self.outlets.get(sink.name)
            if before is not None and before.begun == start:
                known[sink.name] = before
            else:
                known[sink.name] = Outlet(fed.target, start, fed.shown(), len(fed.came))
        self.outlets = known

    def _check_sinks_at_the_end(self) -> None:
        """What is fed has all that there is; what reads tables whose rows leave has sent what it began with, and all that came."""
        version = self.store.version
        by_target = {fed.target: fed for fed in self.fed.values()}
        for sink in list_sinks(load_catalog(version)):
            source = find_sink_source(sink)
            if sink.name in self.fed:
                if self.fed[sink.name].seen != self._content(source, None):
                    raise Broken(f"sink {sink.name} did not deliver what {source} holds")
            elif sink.name in self.outlets:
                began, fed = self.outlets[sink.name], by_target[source]
                wanted = began.first + Counter(fed.came[began.came :])
                stored = self.outside[sink.name]
                objects = {info.path: stored.get(info.path) for info in stored.list("")}
                kinds = {column.name: column.type for column in sink.columns}
                if rows_alone(sink.name, objects, kinds) != wanted:
                    raise Broken(f"sink {sink.name} did not deliver what came to {source}, whose rows leave")
            elif self._key_is_shown(source) and self._delivered(sink) != self._content(source, None):
                raise Broken(f"sink {sink.name} did not deliver what {source} holds")
