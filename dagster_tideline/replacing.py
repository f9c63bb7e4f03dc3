"""Changed models: what they change is one commit with all that reads them, or nothing where one of these cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from sqlglot import exp

from dagster_tideline.models import Model
from engine.dispatch import change_view, together
from engine.errors import TidelineError
from engine.hummock import Commit
from engine.meta.catalog_store import entries
from engine.meta.domain import domain_of
from engine.meta.mutation import control_of
from engine.meta.sinks import KIND as SINK
from engine.meta.sinks import copies_of, is_copy, state_of
from engine.runtime.statements.changed_view import with_comments
from engine.sql.catalog import Catalog, Relation
from engine.sql.statements.option_text import literal, with_option
from engine.sql.statements.reader import CreateMaterializedView, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.session import Session

VIEWS = ("view", "materialized view")


def copy_kept(relation: Relation) -> Mapping[str, str]:
    """Return the options of the Delta table that a view keeps."""
    kept = parse(relation.sql, relation.dialect)
    return kept.copy if isinstance(kept, CreateMaterializedView) else {}


def set_copy(session: Session, model: Model) -> None:
    """Let a view keep the Delta table of its model, or none; the session speaks the model's dialect."""
    for sink in copies_of(session.stored, model.name):
        session.sql(f"DROP SINK {exp.to_identifier(sink.name, quoted=True).sql(dialect=model.dialect)}")
    told = ", ".join(f"{key} = {literal(value, model.dialect)}" for key, value in model.copy.items())
    if told:
        name = exp.to_identifier(model.name, quoted=True).sql(dialect=model.dialect)
        session.sql(f"ALTER MATERIALIZED VIEW {name} SET ({told})", build=False)


class Refused(Exception):
    """A relation cannot be as a change wants it."""

    def __init__(self, name: str, error: TidelineError) -> None:
        super().__init__(name)
        self.name, self.error = name, error


def groups(catalog: Catalog, changed: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the changed relations, those together that have a reader in common, or read each other."""
    found: list[tuple[set[str], list[str]]] = []
    for name in changed:
        reach, own = {name, *catalog.dependents(name)}, [name]
        for other in [one for one in found if not one[0].isdisjoint(reach)]:
            found.remove(other)
            reach, own = reach | other[0], [*other[1], *own]
        found.append((reach, own))
    return [tuple(own) for _, own in found]


def replace(session: Session, changed: Sequence[str], models: Mapping[str, Model]) -> tuple[str, ...]:
    """Make the store hold these models, which it has with other texts, in one commit; return what was made anew.

    A view whose rows can stay gets its new query, and what follows it stays as it is. One that has to be made anew takes what
    reads it with it: this comes back as it was, sinks begin anew. Raises Refused, and nothing has changed then.
    """
    stored = session.stored
    reach = {name for one in changed for name in (one, *stored.catalog.dependents(one))}
    with together(session):
        making = _Making(session, models, stored.catalog)
        for name in stored.catalog.order():
            if name in reach:
                making.take(stored.catalog.get(name), name in changed)
    return tuple(making.made)


class _Making:
    """Takes relations one after the other, inputs first."""

    def __init__(self, session: Session, models: Mapping[str, Model], before: Catalog) -> None:
        self.session, self.models, self.before = session, models, before
        self.anew: set[str] = set()
        self.made: list[str] = []
        self._paused = _paused(session, before)

    def take(self, relation: Relation, is_changed: bool) -> None:
        """Change a relation, or make it anew if it, or what it reads, has to be."""
        name = relation.name
        if relation.kind == "index" and not relation.sql:
            return  # the system's own: views make those that they need
        if (
            relation.kind == "check"
            or is_copy(relation)
            or (name.startswith("_") and relation.kind != "index")
        ):
            return  # goes and comes with its view or its sink
        model = self.models.get(name)
        text = _with_its_options(relation) if model is None else model.sql
        dialect, kind = (
            (relation.dialect, str(relation.kind)) if model is None else (model.dialect, model.kind)
        )
        try:
            with _speaking(self.session, dialect):
                if name not in self.anew:
                    if relation.kind == kind and kind in VIEWS and change_view(self.session, text):
                        if model is not None and model.copy != copy_kept(relation):
                            set_copy(self.session, model)
                        return
                    if relation.kind in (SINK, "index") and not is_changed:
                        return  # what it reads has stayed
                    self._drop(relation)
                self.session.sql(text, build=False)
            self._as_before(relation)
        except TidelineError as error:
            raise Refused(name, error) from error
        self.made.append(name)

    def _drop(self, relation: Relation) -> None:
        quoted = exp.to_identifier(relation.name, quoted=True).sql(dialect=self.session.dialect)
        self.session.sql(f"DROP {relation.kind.upper()} {quoted} CASCADE")
        self.anew |= {relation.name, *self.before.dependents(relation.name)}

    def _as_before(self, relation: Relation) -> None:
        """Give a relation that was made anew what no text says: its comments, and that it is paused."""
        session, name = self.session, relation.name
        now = session.catalog.get(name)
        told = msgspec.structs.replace(now, comment=relation.comment, columns=with_comments(now, relation))
        if told != now:
            session.store.commit(Commit(catalog=entries({name: told}, {})))
        if name not in self._paused:
            return
        if relation.kind == SINK:
            quoted = exp.to_identifier(name, quoted=True).sql(dialect=relation.dialect)
            with _speaking(session, relation.dialect):
                session.sql(f"ALTER SINK {quoted} PAUSE")
        else:
            session.pause(name)


def _paused(session: Session, catalog: Catalog) -> set[str]:
    version, stored = session.store.version, session.stored
    found = {n for n, one in catalog.relations.items() if one.kind == SINK and state_of(version, n).paused}
    return found | {n for n in stored.plans if control_of(version, domain_of(stored, n)).paused == n}


def _with_its_options(relation: Relation) -> str:
    """Return the statement that makes a relation as it is, also with what the session said that made it."""
    if relation.kind != "materialized view":
        return relation.sql
    statement, text = parse(relation.sql, relation.dialect), relation.sql
    assert isinstance(statement, CreateMaterializedView)
    for option, value in relation.options.items():
        if option not in statement.options:
            text = with_option(text, relation.dialect, option, value)
    return text


def told_of(refused: Refused, changed: Iterable[str], models: Mapping[str, Model]) -> dict[str, str]:
    """Return what is wrong, by the changed models that stay as they were because of it."""
    model, told = models.get(refused.name), {}
    for name in changed:
        own = models[name]
        if name == refused.name:
            told[name] = f"{own.told(refused.error)}\n{name} stays as it was until then"
        elif model is not None:
            error = model.told(refused.error)
            told[name] = (
                f"{own.path}: {name} stays as it was, as {refused.name} could not follow it:\n{error}"
            )
        else:
            hint = f"change it so that {refused.name} can be, or drop that first"
            told[name] = (
                f"{own.path}: {name} stays as it was, as {refused.name}, which somebody has made over it by hand, could not "
                f"follow it:\n{refused.error}\n{hint}"
            )
    return told


@contextmanager
def _speaking(session: Session, dialect: str) -> Iterator[None]:
    before = session.dialect
    session.dialect = dialect  # type: ignore[assignment]
    try:
        yield
    finally:
        session.dialect = before
