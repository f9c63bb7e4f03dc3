"""Models and store: what has to be created or replaced so that the store holds what the project declares."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from sqlglot import exp

from dagster_tideline.models.loader import EXTERNAL_KINDS, Model, normalize_sql
from dagster_tideline.models.renames import find_renames
from dagster_tideline.models.replacement import (
    RelationChange,
    ReplacementRefused,
    explain_refusal,
    get_delta_options,
    gets_new_columns,
    group_changed,
    rename_relation,
    replace_relations,
    set_delta_table,
)
from engine.changes import commit_together, discard_commits
from engine.connectors.landing.folder import LandingFolder
from engine.connectors.landing.options import CONNECTOR as LANDING
from engine.connectors.landing.options import parse_landing_place
from engine.errors import GroundLost, PathNotAllowed, TidelineError
from engine.hummock.transact import commit_once
from engine.meta.catalog.successions import name_successor
from engine.sql.catalog import Catalog, Relation
from engine.sql.checks import OPTION as CHECKS
from engine.sql.statements.options.delta_options import CONNECTOR, COPY_OPTIONS
from engine.sql.statements.options.option_text import render_literal, strip_options

if TYPE_CHECKING:
    from engine.session import Session


_FASTER = "another process changed the catalog at the same time; the next run goes on"
_OPTION_WORDS = {CHECKS: "checks", CONNECTOR: "options of its Delta table"}


@dataclass(frozen=True)
class SyncPlan:
    """What a sync will do: change relations, with all that reads them, and create what is not there; `errors` are by model.

    Views of which only the checks, or the Delta table beside them, are others keep their rows: they are in `alter`. Relations
    that get the name of a model are in `rename`, by that name: whether they are changed, too, is known once they have it.
    """

    change: tuple[str, ...] = ()
    create: tuple[Model, ...] = ()
    alter: tuple[Model, ...] = ()
    errors: Mapping[str, str] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the store holds all that can be held."""
        return not self.change and not self.create and not self.alter and not self.rename


@dataclass(frozen=True)
class SyncReport:
    """What a sync did."""

    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    """What was dropped to be made anew in the same commit; it is among the created."""
    errors: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The old names of relations that have the names of models now, by these."""
    changes: Mapping[str, RelationChange] = field(default_factory=dict)
    """What became of each relation that models or their changes reached, by its name now."""


@dataclass(frozen=True)
class _ChangeGroup:
    """What becomes visible in one commit: models that get the rows of others' names, that are changed, that get other options."""

    rename: Mapping[str, str]
    change: tuple[str, ...] = ()
    alter: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """All models of the group."""
        return frozenset((*self.rename, *self.change, *self.alter))


@dataclass
class _Outcome:
    """What has been done with changed models, and why it was not with others."""

    changes: dict[str, RelationChange] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def plan_sync(catalog: Catalog, models: Sequence[Model]) -> SyncPlan:
    """Compare the models with the catalog; a view whose text changed is changed together with all that read it."""
    stored = catalog.relations
    renames = find_renames(stored, models)
    errors = {model.name: model.error for model in models if model.error is not None} | dict(renames.errors)
    changed: dict[str, None] = {}
    altered: dict[str, Model] = {}
    for model in models:
        relation = stored.get(name_successor(model.name)) or stored.get(model.name)
        if model.name in errors or relation is None or is_same(model, relation):
            continue
        if not {model.kind, relation.kind}.isdisjoint(EXTERNAL_KINDS):
            errors[model.name] = (
                f"{relation.kind} {model.name} of the store differs from {model.path}: what rows come by is not replaced by "
                f'itself; undo the change, or run `tideline sql "DROP {relation.kind.upper()} {model.name} CASCADE"`'
            )
            continue
        if _is_same_but_options(model, relation) and not relation.behind:
            altered[model.name] = model
            continue
        changed[model.name] = None
    there = {*stored, *errors, *renames.old_names}
    create = tuple(model for model in models if model.name not in there)
    return SyncPlan(tuple(changed), create, tuple(altered.values()), errors, renames.old_names)


def sync_models(session: Session, models: Sequence[Model]) -> SyncReport:
    """Make the store hold what the models declare; a model that is refused is in the report, the others go on."""
    folders = _make_folders(models) if session.reaches_out else {}
    plan = plan_sync(session.catalog, models)
    errors = folders | dict(plan.errors)
    at_once = _find_new_columns(session, models, plan)
    outcome = _change_stored(session, models, at_once=at_once)
    new = [model for model in plan.create if model.name not in folders]
    refused = outcome.errors
    above = [model for model in new if any(name in refused for name in _find_upstream(model, models))]
    created = create_models(session, [model for model in new if model not in above], errors)
    if refused:  # what they read may be there now
        again = _change_stored(session, models, refused.keys(), at_once)
        outcome.changes |= again.changes
        outcome.changed += again.changed
        outcome.renamed |= again.renamed
        refused = again.errors
    errors |= refused
    created += create_models(session, above, errors)
    for model in plan.alter:
        if is_same(model, session.catalog.get(model.name)):
            continue  # it has followed what it reads
        try:
            with commit_together(session):
                outcome.changes[model.name] = _alter(session, model)
        except TidelineError as error:
            errors[model.name] = model.format_error(error)
    errors |= _explain_missing(session.catalog, models, errors)
    anew = tuple(name for name, change in outcome.changes.items() if change.work == "rebuild")
    stored = session.catalog
    made = {name: RelationChange(name, "create", after=stored.get(name)) for name in created}
    return SyncReport(
        (*anew, *created), tuple(outcome.changed), anew, errors, outcome.renamed, outcome.changes | made
    )


def _explain_missing(catalog: Catalog, models: Sequence[Model], errors: Mapping[str, str]) -> dict[str, str]:
    """Return why models stay as they were that read others by names which these did not get; of no others is a text changed."""
    found = {}
    for model in models:
        missing = [name for name in model.reads if name in errors and name not in catalog.relations]
        if missing and model.name not in errors and model.name in catalog.relations:
            message = f"{model.name} stays as it was: it reads {', '.join(missing)}, which could not be made"
            found[model.name] = f"{model.path}: {message}"
    return found


def _find_new_columns(session: Session, models: Sequence[Model], plan: SyncPlan) -> frozenset[str]:
    """Return the changed views whose other columns new models read: these cannot wait until the views have them."""
    changed = {*plan.change, *plan.rename}
    readers = [model for model in plan.create if not changed.isdisjoint(_find_upstream(model, models))]
    refused, pending = _try_readers(session, models, readers, frozenset())
    read = {name for model in readers if model.name in refused for name in _find_upstream(model, models)}
    wanted = pending & read
    if not wanted or _try_readers(session, models, readers, wanted)[0] >= refused:
        return frozenset()  # these readers cannot be for other reasons
    return wanted


def _try_readers(
    session: Session, models: Sequence[Model], readers: Sequence[Model], at_once: frozenset[str]
) -> tuple[set[str], frozenset[str]]:
    """Return which new models would be refused after the changes of others, and which views would not have their columns yet."""
    errors: dict[str, str] = {}
    if not readers:
        return set(), frozenset()
    with discard_commits(session):
        _change_stored(session, models, at_once=at_once)
        create_models(session, readers, errors)
        names = [model.name for model in models if model.name in session.catalog.relations]
        return set(errors), frozenset(name for name in names if gets_new_columns(session.catalog, name))


def _change_stored(
    session: Session,
    models: Sequence[Model],
    among: Collection[str] | None = None,
    at_once: Collection[str] = frozenset(),
) -> _Outcome:
    """Rename and change what is in the store, each group in one commit; only groups with some of the models `among`, if given.

    The views `at_once` get other columns by being made anew.
    """
    by_name = {model.name: model for model in models if model.error is None}
    outcome = _Outcome()
    for group in _group_changes(session, models, outcome):
        if among is not None and group.names.isdisjoint(among):
            continue
        try:
            change = partial(_change_group, session, group, by_name, at_once)
            changes = commit_once(session.store, change, GroundLost)
        except ReplacementRefused as refused:
            outcome.errors |= explain_refusal(refused, sorted(group.names), by_name)
            continue
        if changes is None:
            outcome.errors |= {name: f"{by_name[name].path}: {_FASTER}" for name in group.names}
        else:
            outcome.changes |= {change.name: change for change in changes}
            outcome.changed += group.change
            outcome.renamed |= group.rename
    return outcome


def _group_changes(session: Session, models: Sequence[Model], outcome: _Outcome) -> list[_ChangeGroup]:
    """Return what is renamed and changed, together what has to be; renames come first, as others may read the new names.

    Whether a relation that gets another name is changed, too, is looked up where all have their new names. What cannot be renamed
    is noted in the outcome.
    """
    plan = plan_sync(session.catalog, models)
    if not plan.rename:
        return [_ChangeGroup({}, group) for group in group_changed(session.catalog, plan.change)]
    by_name = {model.name: model for model in models}
    rename: dict[str, str] = {}
    with discard_commits(session):
        for new, old in plan.rename.items():
            try:
                rename_relation(session, old, by_name[new])
                rename[new] = old
            except TidelineError as error:
                outcome.errors[new] = f"{by_name[new].path}: {error}"
        after = plan_sync(session.catalog, models)
        changed = group_changed(session.catalog, after.change)
    altered = {model.name for model in after.alter} & rename.keys()
    groups = [
        _ChangeGroup({name: rename[name] for name in group if name in rename}, group) for group in changed
    ]
    done = {name for group in groups for name in group.rename}
    alone = [
        _ChangeGroup({new: old}, alter=(new,) if new in altered else ())
        for new, old in rename.items()
        if new not in done
    ]
    return [*alone, *sorted(groups, key=lambda group: not group.rename)]


def _change_group(
    session: Session, group: _ChangeGroup, models: Mapping[str, Model], at_once: Collection[str]
) -> tuple[RelationChange, ...]:
    """Rename and change relations in one commit; return what became of each. Raises ReplacementRefused: nothing has changed."""
    found: dict[str, RelationChange] = {}
    with commit_together(session):
        before = session.catalog
        for new, old in group.rename.items():
            try:
                rename_relation(session, old, models[new])
            except TidelineError as error:
                raise ReplacementRefused(new, error) from error
            found[new] = RelationChange(
                new, "rename", (), (), True, before.get(old), session.catalog.get(new)
            )
        if group.change:
            found |= {one.name: one for one in replace_relations(session, group.change, models, at_once)}
        for name in group.alter:
            try:
                found[name] = _alter(session, models[name])
            except TidelineError as error:
                raise ReplacementRefused(name, error) from error
    return tuple(found.values())


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
        absent = explain_absent(model, session.catalog)
        if absent:
            errors[model.name] = f"{model.path}: {absent}"
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


def explain_absent(model: Model, catalog: Catalog) -> str:
    """Return why a model of another tool cannot be made yet: what it reads, and that tool does not make, is not in the store."""
    absent = [name for name in model.foreign_inputs if name not in catalog.relations]
    said = (f"{model.foreign_inputs[name]}, and there is no table {name}" for name in absent)
    hint = "create the table, or name the one that stands for it: `sources` of a dbt project, `tables` of a pipeline"
    return f"it reads {'; and '.join(said)}: {hint}" if absent else ""


def is_same(model: Model, relation: Relation) -> bool:
    """Tell whether the store has what a model declares, as far as white space, comments and the case of names do not matter.

    A view that is behind what it reads does not have it.
    """
    if relation.behind:
        return False
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


def _alter(session: Session, model: Model) -> RelationChange:
    """Give a view the checks and the Delta table of its model; the run that follows asks and brings all rows."""
    before, dialect = session.catalog.get(model.name), session.dialect
    others = _find_changed_options(model, before)
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
    words = tuple(f"its {_OPTION_WORDS[option]} are others" for option in sorted(others))
    return RelationChange(model.name, "options", words, (), True, before, session.catalog.get(model.name))


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
