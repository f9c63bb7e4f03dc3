"""Statements of the command line: what the store can answer is answered by it; a session, and its Spark, come when needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.cli.connections import open_session, open_store
from engine.errors import SqlError, TidelineError
from engine.sql.dialect import DIALECTS, Dialect, is_dialect

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.hummock import Hummock
    from engine.meta.catalog.stored_catalog import StoredCatalog
    from engine.runtime.spark.session import EngineSpark
    from engine.session import Session
    from engine.sql.statements.session.settings import SessionSettings


class StatementRunner:
    """Runs statements over one store, one after the other; use as a `with` block.

    `say` reports what takes time. With `alone` a Spark session is that of this process and ends with it, so that Ctrl-C can stop
    all that it runs; else commands that follow each other share one, whose Python workers stay warm.
    Raises TidelineError for whatever goes wrong with a statement.
    """

    def __init__(
        self, store: str, spark: str, dialect: str, say: Callable[[str], None], *, alone: bool = False
    ) -> None:
        if not is_dialect(dialect):
            raise SqlError(f'dialect "{dialect}" is unknown: use one of {", ".join(DIALECTS)}')
        self._spark, self._dialect, self._say = spark, dialect, say
        self._alone = alone
        self._settings: SessionSettings | None = None
        self._store: Hummock = open_store(store)
        self._session: Session | None = None
        self._used: EngineSpark | None = None

    def __enter__(self) -> StatementRunner:
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._keep_spark(self._session)
            self._session.close()
        if self._alone and self._used is not None:
            self._used.session.stop()  # the server would keep it for ever
        self._store.close()

    @property
    def url(self) -> str:
        """The address of the store."""
        return self._store.url

    @property
    def dialect(self) -> Dialect:
        """The dialect that the next statement is read in."""
        return self._dialect if self._session is None else self._session.dialect

    @property
    def stored(self) -> StoredCatalog:
        """The relations as they are now."""
        from engine.meta.catalog.stored_catalog import load_catalog

        return load_catalog(self._store.refresh())

    @property
    def store(self) -> Hummock:
        """The store, for what is read of it directly."""
        return self._store

    def run(self, text: str) -> pa.Table | None:
        """Run one statement and return its rows, None if it has none. Ctrl-C cancels it on Spark too."""
        if self._session is None:
            answer = self._try_store(text)
            if answer is not None:
                return answer
            self._session = self._open_session()
        try:
            answer = self._session.sql(text)
            for notice in self._session.notices:
                self._say(notice)
            return answer
        except KeyboardInterrupt:
            self._cancel(self._session)
            raise
        except TidelineError:
            raise
        except Exception as error:
            if not type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
                raise
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise TidelineError(f"Spark: {lines[0]}") from error

    def _try_store(self, text: str) -> pa.Table | None:
        from engine.runtime.reads.store_read import answer_from_store
        from engine.sql.statements.reader import Select, parse_statement

        statement = parse_statement(text, self._dialect)
        if not isinstance(statement, Select):
            return None
        return answer_from_store(self._store, self.stored, statement.query, statement.sql, self._dialect)

    def _open_session(self) -> Session:
        made = open_session(self._store.url, self._spark, self._dialect, self._say, alone=self._alone)
        if self._settings is not None:
            made.settings = self._settings
        return made

    def _keep_spark(self, running: Session) -> None:
        self._used = running.on_demand.started or self._used

    def _cancel(self, running: Session) -> None:
        """Stop what a statement runs on Spark, and go on with a new session: the old one was left in the middle."""
        self._keep_spark(running)
        if self._alone and self._used is not None:
            self._used.session.interruptAll()
        self._settings = running.settings
        running.close()
        self._session = self._open_session()
