"""A question about a row of a materialized view: what is read for it, at which epochs, and by which plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.hummock import Hummock, Version
from engine.hummock.epoch import format_epoch
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.catalog.successions import list_successions
from engine.meta.epochs.query_policy import POLICIES, choose_epochs
from engine.operators.context import EpochContext
from engine.runtime.answers.tables_read import StoreTables
from engine.runtime.answers.trace import Define
from engine.runtime.answers.view_definitions import build_definition
from engine.runtime.spark.errors import build_analysis_error, build_row_error
from engine.runtime.spark.session import EngineSpark
from engine.sql.catalog import Relation


@dataclass(frozen=True)
class Question:
    """A view, and all tables and views that its rows follow from, at one epoch."""

    tables: StoreTables
    relation: Relation

    @classmethod
    def open(
        cls, store: Hummock, open_spark: Callable[[], SparkSession], view: str, at: int | str | None
    ) -> Question:
        """Return a question about a view at an epoch or a time, None for the newest of the view and all below it.

        Raises SqlError for what is no such view or no epoch, EpochFailed for one without content, EpochExpired for one that is
        not kept.
        """
        version = store.refresh()
        stored = load_catalog(version)
        relation = _resolve_view(stored, view)
        below = _list_below(stored, relation.name)
        if str(at).lower() in POLICIES:  # of which some read each table at an epoch of its own
            raise SqlError(
                f"{at} is no epoch", hint="give its number, or a time such as 2026-01-31 12:00:00 (UTC)"
            )
        epochs = choose_epochs(version, stored, below, "consistent" if at is None else str(at))
        _check_queries(version, stored, epochs)
        return cls(StoreTables(store, version, stored, epochs, open_spark), relation)

    @property
    def epoch(self) -> int:
        """The epoch of the view's rows."""
        return self.tables.epochs[self.relation.name]

    @cached_property
    def define(self) -> Define:
        """What gives the definition of a view, at the epoch of the question."""
        stored, epoch = self.tables.stored, self.epoch
        return cache(lambda view: build_definition(stored.catalog.get(view), stored, epoch))

    def count_rows(self) -> int:
        """Return how many rows the view and all that is below it have."""
        versions = self.tables.version.tables
        return sum(version.row_count for name, version in versions.items() if name in self.tables.epochs)

    def configure(self, rows: int) -> EpochContext:
        """Return the context in which plans over so many rows are computed."""
        tables = self.tables
        context = EpochContext(
            tables.spark,
            tables.store.url,
            tables.store.options,
            tables.version.tables,
            None,
            self.epoch,
            tables.cores,
            rows,
        )
        spark = EngineSpark.of(tables.spark)
        spark.configure("spark.sql.shuffle.partitions", str(context.partitions))
        spark.configure("spark.sql.adaptive.enabled", "false" if context.is_small else "true")
        return context

    @contextmanager
    def name_errors(self) -> Iterator[None]:
        """Raise what Spark says of the view's query as an SqlError that names the place."""
        try:
            yield
        except AnalysisException as error:
            raise build_analysis_error(error, self.relation.sql) from error
        except PySparkException as error:
            raise build_row_error(error, self.relation.sql) from error


def _resolve_view(stored: StoredCatalog, name: str) -> Relation:
    """Return the materialized view of a name; raises SqlError if there is none."""
    relation = stored.catalog.get(name)
    if relation.kind == "materialized view":
        return relation
    if relation.kind in ("table", "source"):
        raise SqlError(f"{relation.name} is a {relation.kind}: its rows are there because they were written")
    raise SqlError(
        f"{relation.name} is a {relation.kind}, and keeps no rows of its own",
        hint="ask for a row of a materialized view",
    )


def _check_queries(version: Version, stored: StoredCatalog, epochs: Mapping[str, int]) -> None:
    """Raise SqlError if a view did not have its present query at the epoch at which it is read."""
    successions = list_successions(version)
    for name, epoch in epochs.items():
        relation, succession = stored.catalog.get(name), successions.get(name)
        if succession is not None and succession.copied:
            hint = "run FLUSH, and ask again"
            raise SqlError(f"{name} is just taking over the rows of its next query", hint=hint)
        if not relation.query_since:
            continue
        table = version.tables[name]
        label = table.find_label_upto(epoch)  # its rows are still those of that commit
        if label is None or label < relation.query_since:
            at = format_epoch(epoch)
            message = f"{name} had another query at epoch {at}, or other rows by it, and only its present ones are explained"
            first = table.find_label_above(relation.query_since - 1)
            since = "run FLUSH" if first is None else f"ask for an epoch from {format_epoch(first)} on"
            raise SqlError(message, hint=f"{since}; `tideline diff` and `blame` tell what changed")


def _list_below(stored: StoredCatalog, name: str) -> tuple[str, ...]:
    """Return a view and all tables and views that its rows follow from, the view first."""
    found: dict[str, None] = {}
    queue = [name]
    while queue:
        one = queue.pop(0)
        if one not in found:
            found[one] = None
            if stored.catalog.get(one).kind == "materialized view":
                queue += stored.catalog.get(one).depends_on
    return tuple(found)
