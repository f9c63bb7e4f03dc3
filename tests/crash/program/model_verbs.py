"""Verbs of changed models: another query for a view, with all that reads it, in one commit that is there or is not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.connectors.sinks.ddl import alter_sink
from engine.connectors.statements.create_view import execute_create_sink
from engine.errors import SqlError
from engine.hummock import Version
from engine.hummock.staged_store import StagedStore
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.catalog.successions import find_succeeded_view, list_successions
from engine.meta.domains.domain import find_domain_name, list_domains
from engine.meta.status.sinks import KIND as SINK
from engine.meta.status.sinks import read_sink_state
from engine.runtime.statements.create.fit_columns import fit_columns
from engine.runtime.statements.create.replace_view import keep_rows, leave_out
from engine.runtime.statements.create.view_change import find_rebuild_reasons
from engine.runtime.statements.drop import drop_relation
from engine.runtime.statements.succession.begin import (
    commit_successor,
    give_up_succession,
    rename_to_successor,
)
from engine.sql.catalog import Catalog
from engine.sql.statements import reader as st
from tests.contexts import build_context
from tests.crash.broken import Broken
from tests.crash.program.event_verbs import CLOSED
from tests.crash.program.view_verbs import CUT, OTHERS, ViewVerbs, commit_view, planned

EMITS = " EMIT ON WINDOW CLOSE"


@dataclass(frozen=True)
class Changing:
    """A change on its way: the view with its new statement and query, and what there was of it and of all that reads it.

    `anew` are these, if they are made anew: name, kind, and the number of the table that it had. `alone` are the domains of which
    nothing is left with them.
    """

    name: str
    sql: str
    text: str
    anew: tuple[tuple[str, str, int | None], ...] = ()
    alone: tuple[str, ...] = ()


class ModelVerbs(ViewVerbs):
    """Whatever a program does to the queries of its views, as a project does that is changed."""

    _changing: Changing | None = None

    def __init__(self, seed: int, folder: Path, steps: int = 40) -> None:
        self._next_texts: dict[str, str] = {}
        """The queries of successors that are being built, by view."""
        super().__init__(seed, folder, steps)

    def _change_view(self) -> None:
        """Give a view that keeps its rows another query: planned over the store, and one commit."""
        stored = load_catalog(self.store.refresh())
        names = [name for name in self._list_changeable(stored) if name not in self._next_texts]
        if not names:
            return
        name = self.random.choice(names)
        self._change_to(name, OTHERS[self.texts[name]])

    def _list_changeable(self, stored: StoredCatalog) -> list[str]:
        """Return the views that keep their rows with another query."""
        return [name for name, text in sorted(self.texts.items()) if text in OTHERS and name in stored.plans]

    def _succeed_view(self) -> None:
        """Let a successor be built beside a view by another query, or give up the one that is being built.

        Where there is no such view one is created.
        """
        version = self.store.refresh()
        stored = load_catalog(version)
        names = [name for name in self._list_changeable(stored) if find_domain_name(stored, name) == name]
        if not names:
            self._create_view(self.random.choice(sorted(OTHERS)))
            return
        name = self.random.choice(names)
        if name in list_successions(version):
            self.trace[-1] += f" {name} is given up: {give_up_succession(name, self.store)}"
            return
        text, before = OTHERS[self.texts[name]], stored.catalog.get(name)
        relations, plans = planned(leave_out(stored, name), name, text, before.options)
        relation, plan = relations[name], plans[name]
        if name in version.tables:
            relation, plan = fit_columns(before, relation, plan, version.tables[name].table)
        reasons = find_rebuild_reasons(version, stored, before, relation, plan)
        self.trace[-1] += f" {name} {text}{f': refused, {reasons}' if reasons else ''}"
        if not reasons:
            self._next_texts[name] = text
            hidden = rename_to_successor(name, {**relations, name: relation}, {**plans, name: plan})
            commit_successor(self.store, version, relation, *hidden)

    def check(self) -> None:
        """Check the invariants; a view whose successor has taken over has its query from then on."""
        version = self.store.refresh()
        stored, pending, due = load_catalog(version), list_successions(version), list_replaced_tables(version)
        for name, text in list(self._next_texts.items()):
            relation, succession = stored.catalog.relations.get(name), pending.get(name)
            is_copy = succession is not None and succession.copied and name not in due
            has_it = relation is not None and relation.sql.endswith(f" AS {text}")
            if name in self.texts and self.texts[name] != text and (is_copy or has_it):
                self.texts[name] = text
                self.since[name] = version.tables[name].committed_epoch
                self.began.add((name, version.tables[name].table_id))
            if succession is None:
                del self._next_texts[name]
        super().check()

    def _change_to(self, name: str, text: str) -> None:
        stored = load_catalog(self.store.refresh())
        before = stored.catalog.get(name)
        known = {other: one for other, one in stored.catalog.relations.items() if other != name}
        left = {other: plan for other, plan in stored.plans.items() if other != name}
        relations, plans = planned(StoredCatalog(Catalog(known), left), name, text, before.options)
        self._changing = Changing(name, relations[name].sql, text)
        staged = StagedStore(self.store)
        kept = keep_rows(staged, relations[name], relations, plans).keeps_rows
        self.trace[-1] += f" {name} {text} {'its rows stay' if kept else 'not with its rows'}"
        staged.land()
        self._changed()

    def _replace_view(self) -> None:
        """Make a view anew with another query, and with it all that reads it: views by their queries, sinks from their beginning."""
        version = self.store.refresh()
        stored, pending = load_catalog(version), list_successions(version)
        names = [
            name
            for name in sorted(self.texts)
            if name in stored.plans and not (name in pending and pending[name].copied)
        ]
        if not names:
            return
        name = self.random.choice(names)
        other = OTHERS.get(self.texts[name])
        text = other if other is not None and self.random.random() < 0.6 else self._any_text()
        text = text if text not in CUT else text.format(x="x")
        if CLOSED.get(text, text) != self.texts[name]:
            self._replace_by(name, text)

    def _replace_by(self, name: str, text: str) -> None:
        version = self.store.refresh()
        stored = load_catalog(version)
        reach = {name, *stored.catalog.list_dependents(name)}
        taken = tuple(
            one
            for one in stored.catalog.sort_by_dependency()
            if one in reach and find_succeeded_view(one) is None
        )
        self.trace[-1] += f" {name} {text}, with {', '.join(taken[1:]) or 'nothing'}"
        self._changing = self._about_to_be(version, stored, name, text, taken)
        staged = StagedStore(self.store)
        drop_relation(staged, st.Drop("materialized view", name, True, True, ""))
        try:
            for one in taken:
                self._make_again(staged, version, stored, one)
        except SqlError as error:  # what reads it, or a sink, cannot follow: nothing of it lands
            self.trace[-1] += f": refused, {str(error).splitlines()[0]}"
            if self.store.refresh().number != version.number:
                raise Broken(f"a change of {name} that was refused has been committed") from error
            self._changing = None
            return
        staged.land()
        self._changed()

    def _about_to_be(
        self, version: Version, stored: StoredCatalog, name: str, text: str, taken: tuple[str, ...]
    ) -> Changing:
        anew = tuple((one, stored.catalog.get(one).kind, self._number(version, one)) for one in taken)
        alone = tuple(
            domain for domain, found in list_domains(stored).items() if set(found.members) <= set(taken)
        )
        sql = f"CREATE MATERIALIZED VIEW {name} AS {text}{EMITS if text in CLOSED else ''}"
        return Changing(name, sql, text, anew, alone)

    def _make_again(self, staged: StagedStore, before: Version, stored: StoredCatalog, name: str) -> None:
        """Make one relation as it was, or as it is to be, among commits that land together."""
        assert self._changing is not None
        relation = stored.catalog.get(name)
        if relation.kind == SINK:
            execute_create_sink(st.parse_statement(relation.sql, "spark"), build_context(staged))  # type: ignore[arg-type]
            if read_sink_state(before, name).paused:
                alter_sink(staged, st.parse_statement(f"ALTER SINK {name} PAUSE", "spark"))  # type: ignore[arg-type]
        elif relation.kind == "materialized view":
            sql = self._changing.sql if name == self._changing.name else relation.sql
            options = dict(relation.options)
            if name == self._changing.name:
                options.pop("partition_by", None)
            commit_view(staged, name, sql.partition(" AS ")[2], options)

    @staticmethod
    def _number(version: Version, name: str) -> int | None:
        return version.tables[name].table_id if name in version.tables else None

    def _changed(self) -> None:
        """Find out whether the view that was to have another query has it, and all that was to be made anew with it, or nothing."""
        if self._changing is None:
            return
        version = self.store.refresh()  # after which there may be no other process to ask
        change, self._changing = self._changing, None
        stored = load_catalog(version)
        relation = stored.catalog.relations.get(change.name)
        is_there = relation is not None and relation.sql == change.sql
        for one, kind, number in change.anew:
            if kind not in ("materialized view", SINK):
                continue  # an index of the system's own, which new plans may do without
            if one not in stored.catalog.relations:
                raise Broken(f"{one} is gone, and {change.name} was to be changed")
            if number is not None and is_there is (self._number(version, one) == number):
                raise Broken(f"{change.name} is {'' if is_there else 'not '}changed, and {one} is otherwise")
        if not is_there:
            return
        self.texts[change.name] = CLOSED.get(change.text, change.text)
        for one in self.texts.keys() & {one for one, _, _ in change.anew}:
            text = stored.catalog.get(one).sql.partition(" AS ")[2]
            if text in OTHERS:  # of a successor that had taken over half nothing is left
                self.texts[one] = text
        if change.anew:
            self.forget(change.alone)
        elif change.name in version.tables:
            self.began.add((change.name, version.tables[change.name].table_id))
