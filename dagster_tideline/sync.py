"""Models and store: what has to be created or replaced so that the store holds what the project declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from dagster_tideline.models.loader import EXTERNAL_KINDS, Model, normalize_sql
from dagster_tideline.models.replacement import (
    ReplacementRefused,
    explain_refusal,
    get_delta_options,
    group_changed,
    replace_relations,
    set_delta_table,
)
from engine.changes import commit_together
from engine.connectors.landing.folder import LandingFolder
from engine.connectors.landing.options import CONNECTOR as LANDING
from engine.connectors.landing.options import parse_landing_place
from engine.errors import Conflict, PathNotAllowed, TidelineError
from engine.meta.catalog.successions import name_successor
from engine.sql.catalog import Catalog, Relation
from engine.sql.checks import OPTION as CHECKS
from engine.sql.statements.options.delta_options import CONNECTOR, COPY_OPTIONS
from engine.sql.statements.options.option_text import render_literal, strip_options

if TYPE_CHECKING:
    from engine.session import Session


@dataclass(frozen=True)
class SyncPlan:
    """What a sync will do: change relations, with all that reads them, and create what is not there; `errors` are by model.

    Views of which only the checks, or the Delta table beside them, are others keep their rows: they are in `alter`.
    """

    change: tuple[str, ...] = ()
    create: tuple[Model, ...] = ()
    alter: tuple[Model, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the store holds all that can be held."""
        return not self.change and not self.create and not self.alter


@dataclass(frozen=True)
class SyncReport:
    """What a sync did."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """What was dropped to be made anew in the same commit; it is among the created."""
    errors: Mapping[str, str] = field(default_factory=dict)


def plan_sync(catalog: Catalog, models: Sequence[Model]) -> SyncPlan:
    """Compare the models with the catalog; a view whose text changed is changed together with all that read it."""
    stored = catalog.relations
    errors = {model.name: model.error for model in models if model.error is not None}
    changed: dict[str, None] = {}
    altered: dict[str, Model] = {}
    for model in models:
        relation = stored.get(name_successor(model.name)) or stored.get(model.name)
        if model.error is not None or relation is None or _is_same(model, relation):
            continue
        if not {model.kind, relation.kind}.isdisjoint(EXTERNAL_KINDS):
            errors[model.name] = (
                f"{relation.kind} {model.name} of the store differs from {model.path}: what rows come by is not replaced by "
                f'itself; undo the change, or run `tideline sql "DROP {relation.kind.upper()} {model.name} CASCADE"`'
            )
            continue
        if _is_same_but_options(model, relation):
            altered[model.name] = model
            continue
        changed[model.name] = None
    create = tuple(m for m in models if m.error is None and m.name not in stored)
    alter = tuple(altered.values())
    return SyncPlan(tuple(changed), create, alter, errors)


def sync_models(session: Session, models: Sequence[Model]) -> SyncReport:
    """Make the store hold what the models declare; a model that is refused is in the report, the others go on."""
    folders = _make_folders(models)
    plan = plan_sync(session.catalog, models)
    errors = folders | dict(plan.errors)
    changed, dropped, refused = _replace_changed(session, plan.change, models)
    new = [model for model in plan.create if model.name not in folders]
    above = [model for model in new if any(name in refused for name in _find_upstream(model, models))]
    created = create_models(session, [model for model in new if model not in above], errors)
    if refused:  # what they read may be there now
        more, again, refused = _replace_changed(session, tuple(refused), models)
        changed, dropped = changed + more, dropped + again
    errors |= refused
    created += create_models(session, above, errors)
    for model in plan.alter:
        try:
            with commit_together(session):
                _alter(session, model)
        except TidelineError as error:
            errors[model.name] = model.format_error(error)
    return SyncReport((*dropped, *created), tuple(changed), tuple(dropped), errors)


def _replace_changed(
    session: Session, names: Sequence[str], models: Sequence[Model]
) -> tuple[list[str], list[str], dict[str, str]]:
    """Change relations, each group in one commit; return what was changed, what was made anew, and why others were not."""
    by_name = {model.name: model for model in models if model.error is None}
    changed: list[str] = []
    anew: list[str] = []
    errors: dict[str, str] = {}
    for group in group_changed(session.catalog, names):
        try:
            anew += replace_relations(session, group, by_name)
            changed += group
        except ReplacementRefused as refused:
            errors |= explain_refusal(refused, group, by_name)
        except Conflict as error:  # somebody has changed the catalog meanwhile: the next run does it
            errors |= {name: f"{by_name[name].path}: {error}" for name in group}
    return changed, anew, errors


def _find_upstream(model: Model, models: Sequence[Model]) -> set[str]:
    """Return all that a model reads, and what that reads."""
    reads, found = {one.name: one.reads for one in models}, set[str]()
    queue = list(model.reads)
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue += reads.get(name, ())
    return found


def create_models(session: Session, models: Sequence[Model], errors: dict[str, str]) -> list[str]:
    """Create what models declare, inputs first; returns their names, and adds what is refused to the errors by model."""
    created: list[str] = []
    for model in models:
        missing = [name for name in model.reads if name in errors]
        if missing:
            errors[model.name] = f"it reads {', '.join(missing)}, which could not be created"
            continue
        dialect = session.dialect
        try:
            session.dialect = model.dialect
            session.sql(model.sql, build=False)
        except TidelineError as error:
            errors[model.name] = model.format_error(error)
        else:
            created.append(model.name)
        finally:
            session.dialect = dialect
    return created


def _is_same(model: Model, relation: Relation) -> bool:
    if model.kind != relation.kind or model.dialect != relation.dialect:
        return False
    if normalize_sql(model.sql, model.dialect) == normalize_sql(relation.sql, relation.dialect):
        return True
    return _is_same_but_options(model, relation) and not _find_changed_options(model, relation)


def _is_same_but_options(model: Model, relation: Relation) -> bool:
    """Tell whether a materialized view differs from its model in its checks and its Delta table alone."""
    if model.kind != "materialized view" or (model.kind, model.dialect) != (relation.kind, relation.dialect):
        return False
    texts = (strip_options(one.sql, model.dialect, (CHECKS, *COPY_OPTIONS)) for one in (model, relation))
    return len({normalize_sql(text, model.dialect) for text in texts}) == 1


def _find_changed_options(model: Model, relation: Relation) -> set[str]:
    """Return which of a view's options that can be set are others in its model: its checks, its Delta table."""
    found = {CHECKS} if model.options.get(CHECKS) != relation.options.get(CHECKS) else set[str]()
    return found | ({CONNECTOR} if model.copy != get_delta_options(relation) else set())


def _alter(session: Session, model: Model) -> None:
    """Give a view the checks and the Delta table of its model; the run that follows asks and brings all rows."""
    stored, dialect = session.stored, session.dialect
    others = _find_changed_options(model, stored.catalog.get(model.name))
    try:
        session.dialect = model.dialect
        name = exp.to_identifier(model.name, quoted=True).sql(dialect=model.dialect)
        if CHECKS in others:
            text = render_literal(model.options.get(CHECKS, "default"), model.dialect)
            session.sql(f"ALTER MATERIALIZED VIEW {name} SET (checks = {text})")
        if CONNECTOR in others:
            set_delta_table(session, model)
    finally:
        session.dialect = dialect


def _make_folders(models: Sequence[Model]) -> dict[str, str]:
    """Create landing folders that do not exist, so that a new project has a place to drop its first file.

    Returns why some could not be made, by model; these stop no other model.
    """
    errors = {}
    for model in models:
        options = {name.lower(): value for name, value in model.options.items()}
        path = options.get("path", "")
        if options.get("connector") == LANDING and path:
            try:
                place = parse_landing_place(path)
                if isinstance(place, LandingFolder):
                    place.folder.mkdir(parents=True, exist_ok=True)
            except PathNotAllowed as error:
                errors[model.name] = f"{model.path}: {error}"
            except OSError as error:
                reason = f"the landing folder {path} can't be made: {error.strerror}"
                errors[model.name] = f"{model.path}: {reason}"
    return errors
