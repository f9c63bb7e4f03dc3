"""How a view becomes what another statement says: what is done with its rows, and why they cannot stay where they cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from engine.hummock import Version
from engine.meta.catalog.stored_catalog import StoredCatalog, build_table
from engine.meta.domains.creation import CONSUMING_SNAPSHOT, find_computed_table, list_creations
from engine.meta.domains.domain import find_domain_name
from engine.meta.status.copy_columns import list_copy_reasons
from engine.meta.status.sinks import list_copies
from engine.runtime.statements.alter.column_users import list_column_users, list_plan_users, name_users
from engine.runtime.statements.create.fit_columns import has_same_key, shows_the_same
from engine.sql.catalog import Catalog, Relation
from engine.sql.checks import list_companions
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.partitions import is_partitioned
from engine.sql.incremental.rules import ChangelogRows, FullRefresh, JoinedOnArrival
from engine.sql.incremental.watermarks.state_expiry import find_closing_filters
from engine.sql.plan import list_scans

Work = Literal["nothing", "text", "options", "difference", "rebuild"]
"""What is done: nothing; another text or other options are noted; the next epoch commits the difference; it is made anew."""


@dataclass(frozen=True)
class ViewChange:
    """What becomes of a view that gets another statement; `reasons` say why it has to be made anew.

    The query is the same if it is computed by the same plan, whatever its text is.
    """

    work: Work
    reasons: tuple[str, ...] = ()
    is_same_query: bool = False

    @property
    def keeps_rows(self) -> bool:
        """Whether the view is there as the statement wants it; else it has to be made anew."""
        return self.work != "rebuild"


@dataclass(frozen=True)
class ColumnChanges:
    """The visible columns by which two forms of a relation differ, as `name type`."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    retyped: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether names and types are the same."""
        return not (self.added or self.dropped or self.retyped)


def compare_columns(before: Relation, after: Relation) -> ColumnChanges:
    """Return which visible columns were added, dropped, or have another type (`a int -> bigint`)."""
    old = {column.name: column.visible_type for column in before.visible_columns}
    new = {column.name: column.visible_type for column in after.visible_columns}
    return ColumnChanges(
        tuple(f"{name} {kind}".rstrip() for name, kind in new.items() if name not in old),
        tuple(f"{name} {kind}".rstrip() for name, kind in old.items() if name not in new),
        tuple(
            f"{name} {old[name]} -> {kind}" for name, kind in new.items() if name in old and kind != old[name]
        ),
    )


def explain_other_shape(before: Relation, after: Relation) -> tuple[str, ...]:
    """Return by what the rows of a view differ in shape from those it had: columns and key; empty if they do not."""
    reasons = []
    if not compare_columns(before, after).is_empty:
        reasons.append("its columns are others")
    elif before.visible_columns != after.visible_columns:
        reasons.append("the order of its columns, or which of them may be null, is another")
    if before.primary_key != after.primary_key:
        old, new = _format_key(before, before.primary_key), _format_key(after, after.primary_key)
        reasons.append(f"its key is {new}, and was {old}" if new != old else "its hidden key is another")
    elif before.distribution_key != after.distribution_key:
        old, new = (_format_key(one, one.distribution_key) for one in (before, after))
        reasons.append(f"its rows are distributed by {new}, and were by {old}")
    return tuple(reasons)


def is_in_same_place(before: Relation, after: Relation) -> bool:
    """Tell whether two forms of a view commit with the same domain, and are cut into the same partitions."""
    names = {key for one in (before, after) for key in one.options if key.startswith("partition")}
    return all(before.options.get(name) == after.options.get(name) for name in ("domain", *names))


def find_rebuild_reasons(
    version: Version,
    stored: StoredCatalog,
    before: Relation,
    after: Relation,
    plan: IncrementalPlan,
    leaving: Collection[str] | None = None,
) -> tuple[str, ...]:
    """Return why the rows of a view cannot go on as those of another query, whose difference is committed; empty if they can.

    Other columns are no reason, as long as nobody reads those that go but views that are `leaving` them; without that they are.
    """
    reasons = [*_list_reasons(version, stored, before, after, plan)]
    if is_partitioned(before.options) or is_partitioned(after.options):
        reasons.append("it has partitions")
    changes_columns = leaving is not None and has_same_key(before, after)
    if leaving is not None and changes_columns:
        reasons += list_column_reasons(stored, before, after, leaving)
    else:
        reasons += _list_shape_reasons(before, after)
    found = tuple(dict.fromkeys(reasons))
    if found or changes_columns or not _has_other_form(version, before, after, plan):
        return found
    return ("its rows are stored in another form",)


def find_resync_reasons(version: Version, stored: StoredCatalog, view: Relation) -> tuple[str, ...]:
    """Return why the rows of a view cannot be computed anew, and the difference committed; empty if they can."""
    plan = stored.plans[view.name]
    reasons = [*_list_reasons(version, stored, view, view, plan)]
    for fragment in plan.fragments:
        if isinstance(fragment.rule, ChangelogRows):
            reasons.append("it holds all changes of a table, which has its rows alone")
        if not isinstance(fragment.rule, FullRefresh):
            scans = (scan for scan in list_scans(fragment.plan) if scan.expires)
            reasons += [
                f"rows of {scan.table} leave it by themselves, and the view keeps them" for scan in scans
            ]
    return tuple(dict.fromkeys(reasons))


def _has_other_form(version: Version, before: Relation, after: Relation, plan: IncrementalPlan) -> bool:
    """Tell whether a view differs from another of its name by more than its text, options and inputs."""
    old, new = version.tables[before.name].table, build_table(plan.fragments[-1])
    shapes = [(table.schema, table.primary_key, table.distribution_key) for table in (old, new)]
    return _with_text_of(after, before) != before or shapes[0] != shapes[1]


def _list_reasons(
    version: Version, stored: StoredCatalog, before: Relation, after: Relation, plan: IncrementalPlan
) -> Iterator[str]:
    domain = find_domain_name(stored, before.name)
    table, creation = find_computed_table(version, before.name), list_creations(version).get(domain)
    if table is None or (creation is not None and creation.state == CONSUMING_SNAPSHOT):
        yield "it has no rows yet, or is still being created"
        return
    if before.append_only or after.append_only:
        yield "rows are only added to it, and none of them can be taken back"
    if before.carried or after.carried:
        yield "its rows follow a watermark"
    if find_domain_name(StoredCatalog(Catalog({before.name: after}), {}), before.name) != domain:
        yield f"its domain is another, and was {domain}"
    fragments = (*stored.plans[before.name].fragments, *plan.fragments)
    if any(f.expiry or find_closing_filters(f.plan) for f in fragments):
        yield "rows leave it by a watermark"
    if any(isinstance(f.rule, JoinedOnArrival) for f in fragments):
        yield "its rows are joined as they arrive"
    read = {name for f in plan.fragments for name in f.inputs} & stored.catalog.relations.keys()
    for name in sorted(name for name in read if stored.catalog.get(name).is_pass_through):
        yield f"it reads the source {name}, whose rows are not kept"


def _list_shape_reasons(before: Relation, after: Relation) -> Iterator[str]:
    """Yield by what the rows of a view, hidden columns and all, differ in shape from those it had."""
    shape = explain_other_shape(before, after)
    yield from shape
    hidden = [{c.name: c.type for c in one.columns if c.hidden} for one in (before, after)]
    if not shape and hidden[0] != hidden[1]:
        yield "what is stored with its rows to compute them is another"


def list_column_reasons(
    stored: StoredCatalog, before: Relation, after: Relation, leaving: Collection[str] = ()
) -> Iterator[str]:
    """Yield why a view cannot get other columns while it stays answered: what stands beside it goes by those that it has.

    What that is, `stored` tells, whatever else it has. There is no reason where the columns are the same. The present plans of
    views that are `leaving` count for nothing: they go before the columns do.
    """
    if shows_the_same(before, after):
        return
    kept, checks = {one.storage_name for one in after.columns}, list_companions(before.checks)
    for column in before.columns:
        if column.storage_name in kept:
            continue
        find_users = list_plan_users if column.hidden else list_column_users  # no text names a hidden one
        users = [one for one in find_users(stored, before, column, leaving) if one not in checks]
        if users:
            yield f"{name_users(users)} would read its column {column.name} no more"
    for copy in list_copies(stored, before.name):
        yield from list_copy_reasons(copy, after)


def _with_text_of(after: Relation, before: Relation) -> Relation:
    """Return a relation with all of another's that may differ while the rows stay."""
    return msgspec.structs.replace(
        after,
        sql=before.sql,
        dialect=before.dialect,
        options=before.options,
        depends_on=before.depends_on,
        through=before.through,
        checks=before.checks,
        renamed=before.renamed,
    )


def _format_key(relation: Relation, key: tuple[str, ...]) -> str:
    visible = {column.storage_name: column.name for column in relation.visible_columns}
    return f"({', '.join(visible.get(name, 'hidden') for name in key)})"
