"""A connection to a PostgreSQL database, whose errors are told in words; psycopg is loaded when it is needed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from engine.connectors.postgres.settings import PostgresAddress
from engine.errors import SourceError, TidelineError

CONNECT_SECONDS = 10
SILENT_SECONDS = 60
"""After so long without an answer to what was sent a connection is taken as lost."""
_INSTALL = "connectors of PostgreSQL need psycopg: pip install 'tideline[postgres-source]'"
_SESSION = (
    "SET datestyle TO 'ISO, YMD'; SET timezone TO 'UTC'; SET bytea_output TO 'hex'; SET intervalstyle TO 'postgres'; "
    "SET extra_float_digits TO 1; SET row_security TO off; SET statement_timeout TO 0; "
    "SET client_encoding TO 'UTF8'; SET search_path TO ''; SELECT pg_catalog.set_config(name, '0', false) FROM "
    "pg_catalog.pg_settings WHERE name IN ('idle_in_transaction_session_timeout', 'idle_session_timeout', "
    "'transaction_timeout')"
)
"""Texts of values, and how long a transaction stays open, follow from these, whatever a role or a database has set."""


def load_psycopg() -> Any:
    """Return the module psycopg; raises SourceError with what to install where it is missing."""
    try:
        return importlib.import_module("psycopg")
    except ImportError as error:
        raise SourceError(_INSTALL) from error


def quote_name(name: str) -> str:
    """Return a name as PostgreSQL's SQL has it."""
    return '"' + name.replace('"', '""') + '"'


class PostgresConnection:
    """A connection to a database, in which each statement is a transaction; `error` is what its failures are raised as."""

    error: ClassVar[type[TidelineError]] = SourceError
    errors: ClassVar[Mapping[str, type[TidelineError]]] = {}
    session: ClassVar[str] = "SET synchronous_commit TO local"

    def __init__(self, address: PostgresAddress) -> None:
        self.address = address
        self._psycopg = load_psycopg()
        password = address.read_password()
        with self.explain_errors():
            self.connection = self._psycopg.connect(
                host=address.hostname,
                port=address.port,
                dbname=address.database,
                user=address.username,
                password=password,
                sslmode=address.sslmode,
                connect_timeout=CONNECT_SECONDS,
                keepalives_idle=SILENT_SECONDS // 2,
                keepalives_interval=SILENT_SECONDS // 6,
                keepalives_count=3,
                tcp_user_timeout=SILENT_SECONDS * 1000,
                application_name="tideline",
                autocommit=True,
            )
            try:
                self.connection.execute(f"{self.session}; {_SESSION}")
            except BaseException:
                self.connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Raise a Tideline error, with the address and the server's own words, for what PostgreSQL refuses."""
        try:
            yield
        except self._psycopg.Error as error:
            words = " ".join(str(error).split()) or type(error).__name__
            kind = self.errors.get(getattr(error, "sqlstate", None) or "", self.error)
            raise kind(f"{self.address.address}: {words}") from error

    def query(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the answer to a query."""
        with self.explain_errors():
            return list(self.connection.execute(text, values or None).fetchall())

    def query_nothing(self, text: str, *values: object) -> None:
        """Run a statement without an answer."""
        with self.explain_errors():
            self.connection.execute(text, values or None)
