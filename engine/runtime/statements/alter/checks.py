"""ALTER MATERIALIZED VIEW … SET (checks = '…'): other checks of a view that keeps its rows, and stays for who reads it."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from engine.errors import SqlError
from engine.hummock import Commit, Version
from engine.meta.catalog.stored_catalog import RELATIONS, StoredCatalog, encode_entries
from engine.meta.domains.creation import CONSUMING_SNAPSHOT, list_creations
from engine.meta.domains.domain import find_domain_name
from engine.meta.domains.failures import forget_failure
from engine.meta.status.check_results import forget_check_results
from engine.runtime.relations import locate_name
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.check_views import plan_checks
from engine.runtime.statements.drop import build_removal
from engine.sql.catalog import Catalog, Relation
from engine.sql.checks import OPTION, list_companions
from engine.sql.statements.options.option_text import with_option
from engine.sql.statements.options.view_options import check_option
from engine.sql.statements.statement_types import Alter


def change_checks(
    version: Version,
    stored: StoredCatalog,
    relation: Relation,
    options: dict[str, str],
    statement: Alter,
    context: StatementContext,
) -> Commit:
    """Return the commit that gives a view other checks, asked over all of its rows by the next run; `default` takes them away."""
    line, column = locate_name(OPTION, statement.sql)

    def build_error(message: str, hint: str) -> SqlError:
        return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)

    if relation.kind != "materialized view":
        raise build_error(f"{relation.name} is a {relation.kind}", "a materialized view can have checks")
    if len(options) > 1:
        raise build_error("checks are set by themselves", "set the other options by a statement of their own")
    made = list_creations(version).get(find_domain_name(stored, relation.name))
    if made is not None and relation.name in made.tables and made.state == CONSUMING_SNAPSHOT:
        raise build_error(f"{relation.name} is still being created", "run FLUSH first")
    text = None if options[OPTION].lower() == "default" else options[OPTION]
    others = {name: value for name, value in relation.options.items() if name != OPTION}
    if text is not None:
        check_option(OPTION, text, 0, statement.sql)
        others[OPTION] = text
    bare = msgspec.structs.replace(relation, options=others, checks=())
    gone = build_removal(version, stored, set(list_companions(relation.checks)))
    left = {n: r for n, r in stored.catalog.relations.items() if RELATIONS.key(n) not in gone.catalog}
    view = msgspec.structs.replace(bare, sql=statement.sql)
    planned = plan_checks(view, stored.plans[relation.name], Catalog(left), context)
    sql = with_option(relation.sql, relation.dialect, OPTION, text)
    changed = msgspec.structs.replace(bare, sql=sql, checks=planned.checks)
    notes = forget_check_results(version, [relation.name]) | forget_failure(
        version, find_domain_name(stored, relation.name)
    )
    added = encode_entries({**planned.relations, relation.name: changed}, dict(planned.plans))
    return replace(gone, catalog={**gone.catalog, **notes, **added})
