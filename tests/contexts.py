"""Contexts of statements that are run over a store without a session: nothing of theirs is computed at once."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from pyspark.sql import SparkSession

from engine.hummock import Hummock
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.runtime.statement_context import StatementContext
from engine.sql.statements.session.settings import SessionSettings


def refuse_spark() -> SparkSession:
    raise AssertionError("nothing here needs Spark")


class StoreAlone(SimpleNamespace):
    """What statements may ask of a session, where there is only a store."""

    @property
    def stored(self) -> StoredCatalog:
        return load_catalog(self.store.refresh())

    def notice(self, text: str) -> None:
        """Nobody reads it."""


def build_context(store: Hummock, spark: Callable[[], SparkSession] = refuse_spark) -> StatementContext:
    session: Any = StoreAlone(store=store)
    return StatementContext(session, store, spark, SessionSettings(), build=False)
