"""What a change of models would do to a store, before it is done: a sync of which nothing lands, as a value to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from dagster_tideline.models.loader import Model
from dagster_tideline.models.replacement import RelationChange, get_delta_options
from dagster_tideline.sync import SyncReport, is_same, sync_models
from engine.changes import discard_commits
from engine.hummock import Version
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.catalog.successions import name_successor
from engine.meta.domains.creation import CREATED, find_computed_table, list_creations
from engine.meta.domains.domain import find_domain_name
from engine.meta.status.sinks import is_delta_copy
from engine.runtime.relations import list_readers
from engine.runtime.statements.create.view_change import (
    ColumnChanges,
    Work,
    compare_columns,
    explain_other_shape,
)
from engine.sql.catalog import Catalog, Relation
from engine.sql.checks import OPTION as CHECKS
from engine.sql.statements.options.delta_options import COPY_OPTIONS
from engine.sql.statements.options.gate_bounds import GATE
from engine.sql.statements.options.option_text import strip_options

if TYPE_CHECKING:
    from engine.session import Session

ChangeClass = Literal[
    "new",
    "unchanged",
    "cosmetic",
    "options",
    "content",
    "incompatible",
    "renamed",
    "refused",
    "no model",
]
"""Classes of a model, or of what the store has and no model declares.

`cosmetic`: another text of the same query. `options`: other options of it. `content`: another query, rows of the same shape.
`incompatible`: it has to be made anew. `renamed`: another name, and nothing else. `no model`: it is kept.
"""
BUILDS = ("difference", "rebuild")
"""The work for which a view is computed as a whole."""
_DISCARDED = "what it reads is another since its next query was discarded"
_FOLLOWS = "its next query was discarded, and is the one that it has"
PUBLIC_KINDS = ("table", "source", "view", "materialized view", "sink")


@dataclass(frozen=True)
class BuildEstimate:
    """What computing a view as a whole may take, by what the store knows of it; None where it knows nothing.

    `rows` and `bytes` are what the view has now. `seconds` is the time of its own backfill, for the rows of its inputs now.
    """

    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class PlannedChange:
    """What becomes of one model, or of what no model declares: its class, what is done, and why.

    `readers` are what is computed from it: of these `made_anew` are made anew, too. `columns` are those by which it differs.
    """

    name: str
    kind: str
    change: ChangeClass
    work: Work | Literal["create", "rename"] = "nothing"
    reasons: tuple[str, ...] = ()
    renamed_from: str = ""
    readers: tuple[str, ...] = ()
    made_anew: tuple[str, ...] = ()
    columns: ColumnChanges = field(default_factory=ColumnChanges)
    build: BuildEstimate = field(default_factory=BuildEstimate)
    error: str = ""

    @property
    def is_planned(self) -> bool:
        """Whether something is done."""
        return self.work != "nothing"


@dataclass(frozen=True)
class ChangePlan:
    """What a sync would do, model by model, inputs first; then what no model declares."""

    changes: tuple[PlannedChange, ...] = ()

    def __getitem__(self, name: str) -> PlannedChange:
        return next(change for change in self.changes if change.name == name)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not any(change.is_planned for change in self.changes)

    @property
    def refused(self) -> tuple[PlannedChange, ...]:
        """The models that cannot be."""
        return tuple(change for change in self.changes if change.change == "refused")


def plan_models(session: Session, models: Sequence[Model]) -> ChangePlan:
    """Return what `sync_models` would do with these models now; nothing of it is done, and the store stays as it is.

    The session's Spark is started only where a view has to be planned: a new one, or one whose text, or whose input, has changed.
    """
    version = session.store.refresh()
    with discard_commits(session):
        report = sync_models(session, models)
        after = session.catalog
    stored = load_catalog(version)
    found = [_plan_model(model, version, models, report, after) for model in models]
    declared = {model.name for model in models} | set(report.renamed.values())
    for name in stored.catalog.sort_by_dependency():
        relation = stored.catalog.get(name)
        if name not in declared and is_public(relation):
            found.append(_plan_undeclared(relation, version, report))
    return ChangePlan(tuple(found))


def is_public(relation: Relation) -> bool:
    """Tell whether a relation is one that a model could declare, and not the system's own."""
    return relation.kind in PUBLIC_KINDS and not relation.name.startswith("_") and not is_delta_copy(relation)


def _plan_model(
    model: Model, version: Version, models: Sequence[Model], report: SyncReport, after: Catalog
) -> PlannedChange:
    """Return what becomes of a model by what a sync has reported of it."""
    stored, name = load_catalog(version), model.name
    old = report.renamed.get(name, "")
    relation = stored.catalog.relations.get(old or name)
    readers = _list_readers(stored, old or name, models, report)
    if (error := report.errors.get(name)) is not None:
        return PlannedChange(name, model.kind, "refused", readers=readers, error=error)
    if relation is None:
        missing = model.renamed_from
        reasons = (f"the store has no {missing} that could get its name",) if missing else ()
        return PlannedChange(name, model.kind, "new", "create", reasons, readers=readers)
    if name_successor(relation.name) in stored.catalog.relations and name not in report.changes:
        reasons = ("its next query is being built, and takes over once that is done",)
        return PlannedChange(name, model.kind, "content", "nothing", reasons, readers=readers)
    now = after.relations.get(name, relation)  # with the new names of what it reads
    change = report.changes.get(name) or RelationChange(name, "nothing", (), (), True, now, now)
    found = _classify(model, relation, change, renamed=bool(old))
    return PlannedChange(
        name,
        model.kind,
        found,
        change.work,
        change.reasons or _explain(found, relation, change, report),
        old,
        readers,
        tuple(reader for reader in readers if _is_made_anew(reader, report)),
        ColumnChanges() if change.after is None else compare_columns(relation, change.after),
        estimate_build(version, relation.name) if change.work in BUILDS else BuildEstimate(),
    )


def _plan_undeclared(relation: Relation, version: Version, report: SyncReport) -> PlannedChange:
    """Return what becomes of a relation that no model declares: it is kept, and follows what it reads."""
    stored, name = load_catalog(version), relation.name
    change = report.changes.get(name) or RelationChange(name, "nothing", (), (), True, relation, relation)
    readers = list_readers(stored, name)
    return PlannedChange(
        name,
        relation.kind,
        "no model",
        change.work,
        change.reasons or _explain("no model", relation, change, report),
        readers=readers,
        made_anew=tuple(reader for reader in readers if _is_made_anew(reader, report)),
        columns=ColumnChanges() if change.after is None else compare_columns(relation, change.after),
        build=estimate_build(version, name) if change.work in BUILDS else BuildEstimate(),
    )


def _list_readers(
    stored: StoredCatalog, name: str, models: Sequence[Model], report: SyncReport
) -> tuple[str, ...]:
    """Return what is computed from a relation in the store, and the models that read it by its name now."""
    new_names = {old: new for new, old in report.renamed.items()}
    now = new_names.get(name, name)
    there = list_readers(stored, name) if name in stored.catalog.relations else ()
    declared = (model.name for model in models if now in model.reads)
    return tuple(dict.fromkeys((*(new_names.get(reader, reader) for reader in there), *declared)))


def _is_made_anew(name: str, report: SyncReport) -> bool:
    change = report.changes.get(name)
    return change is not None and change.work == "rebuild"


def _classify(model: Model, relation: Relation, change: RelationChange, *, renamed: bool) -> ChangeClass:
    """Return the class of a model that the store has, by what became of its relation."""
    before, after = change.before or relation, change.after or relation
    if change.work == "nothing":
        return "unchanged" if has_same_text(model, before) else "cosmetic"
    if change.work == "rename" or is_same(model, before):
        return "renamed" if renamed else "unchanged"  # only what it reads has changed
    if change.work == "rebuild" and not change.through:
        return "incompatible"
    if change.work != "difference" and explain_other_shape(before, after):
        return "incompatible"
    if not change.is_same_query:
        return "content"
    has_options = before.options != after.options or model.copy != get_delta_options(before)
    return "options" if has_options or change.work == "options" else "cosmetic"


def has_same_text(model: Model, relation: Relation) -> bool:
    """Tell whether a relation has the very text of its model, wherever that says checks and a Delta table."""
    if (model.sql, model.dialect) == (relation.sql, relation.dialect):
        return True
    if model.kind != "materialized view" or model.dialect != relation.dialect:
        return False
    one, other = (
        strip_options(text, model.dialect, (CHECKS, GATE, *COPY_OPTIONS))
        for text in (model.sql, relation.sql)
    )
    return one == other


def _explain(
    found: ChangeClass, relation: Relation, change: RelationChange, report: SyncReport
) -> tuple[str, ...]:
    """Return why something is done, or nothing is, in words."""
    before, after = change.before or relation, change.after or relation
    if change.work == "nothing" and found == "no model":
        return ("no model declares it: it is kept",)
    if change.work == "nothing":
        return ("only white space, comments or the case of names differ",) if found == "cosmetic" else ()
    if found in ("unchanged", "no model", "renamed") and change.work != "rename":
        read = [name for name in (*before.depends_on, *before.through) if name in report.changes]
        return (f"{', '.join(dict.fromkeys(read)) or 'what it reads'}, which it reads, is another",)
    if before.behind and before.sql == after.sql:
        return (_FOLLOWS,) if change.is_same_query else (_DISCARDED,)
    if found == "cosmetic":
        return ("its text is another, and its query the same",)
    if found == "options":
        names = sorted(
            name
            for name in {*before.options, *after.options}
            if before.options.get(name) != after.options.get(name)
        )
        return (f"its options are others: {', '.join(names) or 'its Delta table'}",)
    if found in ("content", "incompatible") and change.work == "text":
        return ("what reads it is planned anew",)
    if found != "content":
        return ()
    if explain_other_shape(before, after):
        return ("its query and its columns are others; its key stays",)
    return ("its query is another; its columns and its key stay",)


def estimate_build(version: Version, name: str) -> BuildEstimate:
    """Return what computing a view as a whole may take, by its rows and its backfill in the store."""
    table = find_computed_table(version, name)
    if table is None:
        return BuildEstimate()
    return BuildEstimate(table.row_count, table.size_bytes, _estimate_seconds(version, name))


def _estimate_seconds(version: Version, name: str) -> float | None:
    """Return how long a view's own backfill took, for the rows that its inputs have now; None if it had none, or read nothing."""
    creation = list_creations(version).get(find_domain_name(load_catalog(version), name))
    if creation is None or creation.state != CREATED or name not in creation.tables:
        return None
    then = sum(creation.sizes.values())
    now = sum(version.tables[table].row_count for table in creation.sizes if table in version.tables)
    took = creation.updated - creation.started
    return took * now / then if then and took > 0 else None
