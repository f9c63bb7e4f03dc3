"""The tables that sources feed: which those of a connector are, and how all of them are polled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable

from engine.connectors.landing_commit import LandingReport
from engine.connectors.landing_tables import source_options
from engine.errors import TidelineError
from engine.sql.catalog import Catalog, Relation

_LOG = logging.getLogger(__name__)


def fed_by(connector: str, catalog: Catalog, tables: Collection[str] | None = None) -> tuple[Relation, ...]:
    """Return the tables of the catalog (or among `tables`) that a connector feeds."""
    return tuple(
        relation
        for relation in catalog.relations.values()
        if relation.kind == "table"
        and (tables is None or relation.name in tables)
        and source_options(relation.options).get("connector") == connector
    )


def polled(relations: Iterable[Relation], poll: Callable[[Relation], LandingReport]) -> list[LandingReport]:
    """Poll the source of each table; one that fails is told in its report, the others go on."""
    reports = []
    for relation in relations:
        try:
            reports.append(poll(relation))
        except TidelineError as error:
            reports.append(LandingReport(relation.name, error=str(error)))
        except Exception as error:  # a table's fault stops no other table, even one that nobody expected
            _LOG.exception("polling the source of %s", relation.name)
            reports.append(LandingReport(relation.name, error=f"{type(error).__name__}: {error}"))
    return reports
