"""ALTER MATERIALIZED VIEW … SET (checks = '…'): other checks of a view that keeps its rows, and stays for who reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.hummock import Commit, Version
from engine.meta.catalog_store import StoredCatalog, entries
from engine.meta.check_results import forgotten
from engine.meta.creation import CONSUMING_SNAPSHOT, creations
from engine.meta.domain import domain_of
from engine.meta.recovery import recovered
from engine.runtime.relations import place_of
from engine.runtime.statements.check_views import plan_checks
from engine.runtime.statements.drop import removal
from engine.sql.catalog import Catalog, Relation
from engine.sql.checks import OPTION, companions
from engine.sql.statements.option_text import with_option
from engine.sql.statements.statement_types import Alter
from engine.sql.statements.view_options import check_option


def changed_checks(
    version: Version,
    stored: StoredCatalog,
    spark: Callable[[], SparkSession],
    relation: Relation,
    statement: Alter,
    options: dict[str, str],
) -> Commit:
    """Return the commit that gives a view other checks, asked over all of its rows by the next run; `default` takes them away."""
    line, column = place_of(OPTION, statement.sql)

    def refused(message: str, hint: str) -> SqlError:
        return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)

    if relation.kind != "materialized view":
        raise refused(f"{relation.name} is a {relation.kind}", "a materialized view can have checks")
    if len(options) > 1:
        raise refused("checks are set by themselves", "set the other options by a statement of their own")
    made = creations(version).get(domain_of(stored, relation.name))
    if made is not None and relation.name in made.tables and made.state == CONSUMING_SNAPSHOT:
        raise refused(f"{relation.name} is still being created", "run FLUSH first")
    text = None if options[OPTION].lower() == "default" else options[OPTION]
    kept = {name: value for name, value in relation.options.items() if name != OPTION}
    if text is not None:
        check_option(OPTION, text, 0, statement.sql)
        kept[OPTION] = text
    bare = msgspec.structs.replace(relation, options=kept, checks=())
    gone = removal(version, stored, set(companions(relation.checks)))
    left = {n: r for n, r in stored.catalog.relations.items() if f"relation/{n}" not in gone.catalog}
    written = msgspec.structs.replace(bare, sql=statement.sql)
    planned = plan_checks(Catalog(left), spark(), written, stored.plans[relation.name])
    sql = with_option(relation.sql, relation.dialect, OPTION, text)
    changed = msgspec.structs.replace(bare, sql=sql, checks=planned.checks)
    notes = forgotten(version, [relation.name]) | recovered(version, domain_of(stored, relation.name))
    added = entries({**planned.relations, relation.name: changed}, dict(planned.plans))
    return replace(gone, catalog={**gone.catalog, **notes, **added})
