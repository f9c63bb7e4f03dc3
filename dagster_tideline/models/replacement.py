"""Changed models: what they change is one commit with all that reads them, or nothing where one of these cannot be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec
from sqlglot import exp

from dagster_tideline.models.loader import Model
from engine.changes import (
    alter_function,
    alter_sink_query,
    alter_view,
    commit_together,
    find_column_obstacles,
)
from engine.errors import SqlError, TidelineError
from engine.hummock import Commit
from engine.meta.catalog.stored_catalog import StoredCatalog, encode_entries
from engine.meta.catalog.successions import find_succeeded_view, list_successions, name_successor
from engine.meta.domains.domain import find_domain_name
from engine.meta.domains.mutation import read_control
from engine.meta.status.sinks import KIND as SINK
from engine.meta.status.sinks import is_delta_copy, list_copies, read_sink_state
from engine.meta.status.subscriptions import KIND as SUBSCRIPTION
from engine.runtime.statements.create.fit_columns import shows_the_same
from engine.runtime.statements.create.view_change import ViewChange, Work, explain_other_shape
from engine.runtime.subscriptions.positions import mark_rebuilt
from engine.sql.catalog import Catalog, Relation, carry_comments
from engine.sql.incremental.same_plan import is_same_plan
from engine.sql.statements.options.gate_bounds import GATE
from engine.sql.statements.options.option_text import render_literal, with_option
from engine.sql.statements.reader import CreateMaterializedView, parse_statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.session import Session

VIEWS = ("view", "materialized view")


@dataclass(frozen=True)
class RelationChange:
    """What became of a relation of the store: `before` is None of one that is new.

    `work` is that of a `ViewChange`, or `create`, or `rename` where it got another name and nothing else; `reasons` say why it
    was made anew: where it is because of what it reads, that is in `through`. The query is the same if it is computed by the
    same plan.
    """

    name: str
    work: Work | Literal["create", "rename"]
    reasons: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    is_same_query: bool = False
    before: Relation | None = None
    after: Relation | None = None


def get_delta_options(relation: Relation) -> Mapping[str, str]:
    """Return the options of the Delta table that a view keeps."""
    statement = parse_statement(relation.sql, relation.dialect)
    return statement.copy if isinstance(statement, CreateMaterializedView) else {}


def set_delta_table(session: Session, model: Model) -> None:
    """Let a view keep the Delta table of its model, or none; the session speaks the model's dialect."""
    for sink in list_copies(session.stored, model.name):
        session.sql(f"DROP SINK {exp.to_identifier(sink.name, quoted=True).sql(dialect=model.dialect)}")
    options = ", ".join(
        f"{key} = {render_literal(value, model.dialect)}" for key, value in model.copy.items()
    )
    if options:
        name = exp.to_identifier(model.name, quoted=True).sql(dialect=model.dialect)
        session.sql(f"ALTER MATERIALIZED VIEW {name} SET ({options})", build=False)


def rename_relation(session: Session, old: str, model: Model) -> None:
    """Give a relation of the store the name of a model; raises SqlError at the model's line where it cannot have it now."""
    names = (exp.to_identifier(name, quoted=True).sql(dialect=model.dialect) for name in (old, model.name))
    with _switch_dialect(session, model.dialect):
        try:
            session.sql(f"ALTER {model.kind.upper()} {' RENAME TO '.join(names)}")
        except SqlError as error:
            raise model.build_rename_error(error.message, error.hint) from error


def gets_new_columns(catalog: Catalog, view: str) -> bool:
    """Tell whether a view gets other columns once its next query is computed."""
    after = catalog.relations.get(name_successor(view))
    return after is not None and not shows_the_same(catalog.get(view), after)


class ReplacementRefused(Exception):
    """A relation cannot be as a change wants it; `new_columns`: one that it may read has not got its other columns yet."""

    def __init__(self, name: str, error: TidelineError, *, new_columns: bool = False) -> None:
        super().__init__(name)
        self.name, self.error, self.new_columns = name, error, new_columns


def group_changed(catalog: Catalog, changed: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the changed relations, those together that have a reader in common, or read each other."""
    found: list[tuple[set[str], list[str]]] = []
    for name in changed:
        reach, own = {name, *catalog.list_dependents(name)}, [name]
        for other in [one for one in found if not one[0].isdisjoint(reach)]:
            found.remove(other)
            reach, own = reach | other[0], [*other[1], *own]
        found.append((reach, own))
    return [tuple(own) for _, own in found]


def replace_relations(
    session: Session,
    changed: Sequence[str],
    models: Mapping[str, Model],
    at_once: Collection[str] = frozenset(),
) -> tuple[RelationChange, ...]:
    """Make the store hold these models, which it has with other texts, in one commit; return what became of each, inputs first.

    A view whose rows can stay gets its new query, and what follows it stays as it is. One that has to be made anew takes what
    reads it with it: this comes back as it was, sinks begin anew. So does one whose other columns somebody reads `at_once`, as a
    changed model may. Raises ReplacementRefused, and nothing has changed then.
    """
    anew = {*at_once}
    while True:
        try:
            return _replace_together(session, changed, models, anew)
        except _ColumnsRead as read:
            anew.add(read.view)
        except ReplacementRefused as refused:
            if not refused.new_columns or anew >= {*changed}:
                raise
            anew |= {*changed}


def _replace_together(
    session: Session, changed: Sequence[str], models: Mapping[str, Model], at_once: Collection[str]
) -> tuple[RelationChange, ...]:
    stored = session.stored
    reach = _find_reach(stored.catalog, changed)
    with commit_together(session):
        making = _Replacer(session, models, stored, at_once, reach)
        for name in _sort_inputs_first(stored.catalog, models):
            if name in reach:
                making.replace(stored.catalog.get(name), name in changed)
        for view, reasons in find_column_obstacles(session.store.version).items():
            if view in reach and view not in at_once:
                raise _ColumnsRead(view)
            raise ReplacementRefused(view, SqlError(f"once the next query of {view} takes over {reasons[0]}"))
    return tuple(making.changes)


def _find_reach(catalog: Catalog, changed: Iterable[str]) -> set[str]:
    """Return the changed relations, and what is computed from them or from the next queries of them."""
    found, queue = set[str](), [*changed]
    while queue:
        name = queue.pop()
        if name in found or name not in catalog.relations:
            continue
        found.add(name)
        readers = (*catalog.list_dependents(name), *catalog.list_dependents(name_successor(name)))
        queue += [find_succeeded_view(reader) or reader for reader in readers]
    return found


def _sort_inputs_first(catalog: Catalog, models: Mapping[str, Model]) -> list[str]:
    """Return the relations of the store, each after what it reads; what a model reads is what that says."""
    done: dict[str, None] = {}
    begun = set[str]()

    def visit(name: str) -> None:
        if name in begun or name not in catalog.relations:
            return
        begun.add(name)
        relation = catalog.get(name)
        declared = models[name].reads if name in models else ()
        for upstream in declared or (*relation.depends_on, *relation.through):
            visit(find_succeeded_view(upstream) or upstream)
        done[name] = None

    for name in catalog.sort_by_dependency():
        visit(name)
    return list(done)


class _ColumnsRead(Exception):
    """A view cannot get other columns beside its rows, as somebody reads those that go: it has to be made anew."""

    def __init__(self, view: str) -> None:
        super().__init__(view)
        self.view = view


class _Replacer:
    """Takes relations one after the other, inputs first; all within `reach` are taken."""

    def __init__(
        self,
        session: Session,
        models: Mapping[str, Model],
        stored: StoredCatalog,
        at_once: Collection[str],
        reach: Collection[str],
    ) -> None:
        self._at_once, self._has_new_columns, self._reach = at_once, False, reach
        self.session, self.models, self.stored, self.before = session, models, stored, stored.catalog
        self.dropped: set[str] = set()
        self.changes: list[RelationChange] = []
        self._paused = _find_paused(session, self.before)

    def replace(self, relation: Relation, is_changed: bool) -> None:
        """Change a relation, or make it anew if it, or what it reads, has to be."""
        name = relation.name
        if relation.kind == "index" and not relation.sql:
            return  # the system's own: views make those that they need
        if (
            relation.kind == "check"
            or is_delta_copy(relation)
            or (name.startswith("_") and relation.kind != "index")
        ):
            return  # goes and comes with its view or its sink
        model = self.models.get(name)
        text = _restore_options(self._find_next(relation)) if model is None else model.sql
        dialect, kind = (
            (relation.dialect, str(relation.kind)) if model is None else (model.dialect, model.kind)
        )
        try:
            with _switch_dialect(self.session, dialect):
                change = self._change(relation, text, kind, is_changed)
                if change.keeps_rows:
                    if model is not None and kind in VIEWS and model.copy != get_delta_options(relation):
                        set_delta_table(self.session, model)
                    self._record(relation, change)
                    return
                if name not in self.dropped:
                    self._drop(relation)
                self.session.sql(text, build=False)
            self._restore(relation)
        except TidelineError as error:
            raise ReplacementRefused(name, error, new_columns=self._has_new_columns) from error
        self._record(relation, change)

    def _find_next(self, relation: Relation) -> Relation:
        """Return what a relation is to be that no model declares: of one whose next query is being built, what that says."""
        version = self.session.store.version
        pending = list_successions(version).get(relation.name)
        next_one = self.before.relations.get(name_successor(relation.name))
        if pending is None or pending.resync or next_one is None:
            return relation
        return msgspec.structs.replace(next_one, name=relation.name, options=pending.options)

    def _change(self, relation: Relation, text: str, kind: str, is_changed: bool) -> ViewChange:
        """Give a relation that is there its text; what cannot have it so is to be made anew, and stays as it is until then."""
        name = relation.name
        if name in self.dropped:
            through = ", ".join(self._list_dropped_inputs(relation))
            return self._rebuild(relation, text, f"{through}, which it reads, is made anew")
        if relation.kind != kind:
            return self._rebuild(relation, text, f"it is a {relation.kind} in the store")
        if kind in VIEWS:
            return self._change_view(relation, text)
        if kind == "function":
            return alter_function(self.session, text)
        if not is_changed and relation.kind == "index":
            return ViewChange("nothing", is_same_query=True)  # what it reads has stayed
        if not is_changed and relation.kind == SUBSCRIPTION:
            return ViewChange("nothing", is_same_query=True)  # what it follows has stayed
        if not is_changed and relation.kind == SINK:
            return alter_sink_query(self.session, text)  # what it reads has stayed
        return ViewChange("rebuild", (f"a {relation.kind} with another statement begins anew",))

    def _rebuild(self, relation: Relation, text: str, reason: str) -> ViewChange:
        """Return that a relation is to be made anew; raises SqlError for a view with a gate, which cannot be asked then."""
        statement = parse_statement(text, self.session.dialect)
        if isinstance(statement, CreateMaterializedView) and GATE in statement.options:
            message = (
                f"{relation.name} would be made anew, and the gate of its change cannot be asked: {reason}"
            )
            raise SqlError(message, hint="leave the gate out to have it made anew")
        return ViewChange("rebuild", (reason,))

    def _change_view(self, relation: Relation, text: str) -> ViewChange:
        """Give a view its text, and see whether it gets other columns by it."""
        is_beside = relation.name not in self._at_once
        change = alter_view(self.session, text, new_columns=is_beside, following=self._reach)
        if change.work == "difference" and gets_new_columns(self.session.catalog, relation.name):
            self._has_new_columns = True
        return change

    def _record(self, relation: Relation, change: ViewChange) -> None:
        """Note what became of a relation."""
        after, is_same = self.session.stored, change.is_same_query
        now, through = after.catalog.get(relation.name), self._list_dropped_inputs(relation)
        if change.work == "difference":
            now = after.catalog.relations.get(name_successor(relation.name)) or now
        reasons = change.reasons
        if through:
            is_same = now.sql == relation.sql
            if relation.kind == now.kind == "materialized view":
                is_same = is_same_plan(after.plans[now.name], self.stored.plans[now.name])
                reasons = tuple(dict.fromkeys((*reasons, *explain_other_shape(relation, now))))
        self.changes.append(
            RelationChange(relation.name, change.work, reasons, through, is_same, relation, now)
        )

    def _list_dropped_inputs(self, relation: Relation) -> tuple[str, ...]:
        """Return what a relation read of what is made anew; of an index, and a sink AS SELECT, what they stand for reads."""
        found = [name for name in (*relation.depends_on, *relation.through) if name in self.dropped]
        return tuple(
            dict.fromkeys(
                one
                for name in found
                for one in (
                    self._list_dropped_inputs(self.before.get(name)) if name.startswith("_") else (name,)
                )
            )
        )

    def _drop(self, relation: Relation) -> None:
        quoted = exp.to_identifier(relation.name, quoted=True).sql(dialect=self.session.dialect)
        self.session.sql(f"DROP {relation.kind.upper()} {quoted} CASCADE")
        self.dropped |= {relation.name, *self.before.list_dependents(relation.name)}

    def _restore(self, relation: Relation) -> None:
        """Give a relation that was made anew what no text says: its comments, and that it is paused."""
        session, name = self.session, relation.name
        now = session.catalog.get(name)
        restored = msgspec.structs.replace(
            now, comment=relation.comment, columns=carry_comments(now, relation)
        )
        if restored != now:
            session.store.commit(Commit(catalog=encode_entries({name: restored}, {})))
        if relation.kind == SUBSCRIPTION:
            mark_rebuilt(session.store, name)
        if name not in self._paused:
            return
        if relation.kind == SINK:
            quoted = exp.to_identifier(name, quoted=True).sql(dialect=relation.dialect)
            with _switch_dialect(session, relation.dialect):
                session.sql(f"ALTER SINK {quoted} PAUSE")
        else:
            session.pause(name)


def _find_paused(session: Session, catalog: Catalog) -> set[str]:
    version, stored = session.store.version, session.stored
    found = {
        n for n, one in catalog.relations.items() if one.kind == SINK and read_sink_state(version, n).paused
    }
    return found | {n for n in stored.plans if read_control(version, find_domain_name(stored, n)).paused == n}


def _restore_options(relation: Relation) -> str:
    """Return the statement that makes a relation as it is, also with what the session said that made it."""
    if relation.kind != "materialized view":
        return relation.sql
    statement, text = parse_statement(relation.sql, relation.dialect), relation.sql
    assert isinstance(statement, CreateMaterializedView)
    for option, value in relation.options.items():
        if option not in statement.options:
            text = with_option(text, relation.dialect, option, value)
    return text


def explain_refusal(
    refused: ReplacementRefused, changed: Iterable[str], models: Mapping[str, Model]
) -> dict[str, str]:
    """Return what is wrong, by the changed models that stay as they were because of it."""
    model, reasons = models.get(refused.name), {}
    for name in changed:
        own = models[name]
        if name == refused.name:
            reasons[name] = f"{own.format_error(refused.error)}\n{name} stays as it was until then"
        elif model is not None:
            error = model.format_error(refused.error)
            reasons[name] = (
                f"{own.path}: {name} stays as it was, as {refused.name} could not follow it:\n{error}"
            )
        else:
            hint = f"change it so that {refused.name} can be, or drop that first"
            reasons[name] = (
                f"{own.path}: {name} stays as it was, as {refused.name}, which somebody has made over it by hand, could not "
                f"follow it:\n{refused.error}\n{hint}"
            )
    return reasons


@contextmanager
def _switch_dialect(session: Session, dialect: str) -> Iterator[None]:
    before = session.dialect
    session.dialect = dialect  # type: ignore[assignment]
    try:
        yield
    finally:
        session.dialect = before
