"""Verbs of changed models: another query for a view, with all that reads it, in one commit that is there or is not."""

from __future__ import annotations

from dataclasses import dataclass

from engine.connectors.sinks.ddl import alter_sink
from engine.connectors.statements.create_view import execute_create_sink
from engine.errors import SqlError
from engine.hummock import Version
from engine.hummock.staged_store import StagedStore
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.domains.domain import list_domains
from engine.meta.status.sinks import KIND as SINK
from engine.meta.status.sinks import read_sink_state
from engine.runtime.statements.create.replace_view import keep_rows
from engine.runtime.statements.drop import drop_relation
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

    def _change_view(self) -> None:
        """Give a view that keeps its rows another query: planned over the store, and one commit."""
        stored = load_catalog(self.store.refresh())
        names = [name for name, text in sorted(self.texts.items()) if text in OTHERS and name in stored.plans]
        if not names:
            return
        name = self.random.choice(names)
        self._change_to(name, OTHERS[self.texts[name]])

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
        stored = load_catalog(self.store.refresh())
        names = [name for name in sorted(self.texts) if name in stored.plans]
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
        taken = tuple(one for one in stored.catalog.sort_by_dependency() if one in reach)
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
        if change.anew:
            self.forget(change.alone)
        elif change.name in version.tables:
            self.began.add((change.name, version.tables[change.name].table_id))
