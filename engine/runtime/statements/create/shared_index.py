"""The index of a table or view by some of its columns, which all views that look rows up by these share."""

from __future__ import annotations

from engine.meta.domains.domain import OPTION as DOMAIN_OPTION
from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.incremental.fragments import IncrementalPlan, build_index_fragment


def build_shared_index(
    catalog: Catalog, base: Relation, columns: tuple[str, ...], dialect: Dialect
) -> tuple[Relation, IncrementalPlan]:
    """Return the relation and the plan of the shared index of a table by `columns`.

    That of a view stands in the view's domain: others of that domain may read it, and nobody could put it there by name.
    """
    fragment = build_index_fragment(base.name, columns, catalog)
    relation = Relation(
        name=fragment.table,
        kind="index",
        columns=base.columns,
        primary_key=fragment.key,
        distribution_key=fragment.distribution_key,
        append_only=base.append_only,
        dialect=dialect,
        options={DOMAIN_OPTION: base.options[DOMAIN_OPTION]} if DOMAIN_OPTION in base.options else {},
        depends_on=(base.name,),
    )
    return relation, IncrementalPlan(fragment.table, (fragment,))
