"""A connection by which a sink writes: COPY, statements of one transaction, and what its errors mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from engine.connectors.postgres.connection import PostgresConnection
from engine.connectors.postgres.settings import PostgresAddress
from engine.errors import SinkError

LOCK_SECONDS = 60
"""For so long a lock that somebody else holds is waited for."""


class RowRefused(SinkError):
    """PostgreSQL refuses a value or a row: a constraint, a length, a trigger."""


class TriedAgain(SinkError):
    """A deadlock or another transaction was in the way; the same work may succeed at once."""


class TargetTaken(SinkError):
    """The target has a line of another sink."""


class CommitUnknown(SinkError):
    """The connection was lost while a transaction was being committed: it is there as a whole or not at all."""


_REFUSALS = {
    "22": RowRefused,  # data exception
    "23": RowRefused,  # integrity constraint
    "54": RowRefused,  # a limit, as that of a row of an index
    "44": RowRefused,  # a view's check option
    "P0": RowRefused,  # an error that a trigger raises
}
_AGAIN = ("40001", "40P01")
_UNKNOWN = ("42P01", "42883", "42704")
"""A table, a function or a type that is not found."""
_PATH_REMEDY = (
    "; a function there names something without its schema, and nothing is looked for in public while a sink writes: "
    "ALTER FUNCTION … SET search_path TO public"
)


class TargetServer(PostgresConnection):
    """A connection to the database of a target; what fails is a SinkError that names the sink."""

    error = SinkError
    session = (
        "SELECT pg_catalog.set_config('synchronous_commit', 'on', false) WHERE "
        f"pg_catalog.current_setting('synchronous_commit') = 'off'; SET lock_timeout TO '{LOCK_SECONDS}s'; "
        "SET array_nulls TO on; SET standard_conforming_strings TO on"
    )

    def __init__(self, address: PostgresAddress, sink: str) -> None:
        self.sink = sink
        super().__init__(address)

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Raise SinkError, of the kind that tells what may be done, with the server's own words."""
        try:
            yield
        except self._psycopg.Error as error:
            code = getattr(error, "sqlstate", None) or ""
            words = " ".join(str(error).split()) or type(error).__name__
            if code in _UNKNOWN and "CONTEXT:" in words:
                words += _PATH_REMEDY
            kind = TriedAgain if code in _AGAIN else _REFUSALS.get(code[:2], SinkError)
            raise kind(f"sink {self.sink}: {self.address.address}: {words}") from error

    def begin(self) -> None:
        """Begin a transaction that writes, whatever the role's defaults are."""
        self.query_nothing("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")

    def commit(self) -> None:
        """Commit; raises CommitUnknown where the answer was lost."""
        try:
            with self.explain_errors():
                self.connection.execute("COMMIT")
        except SinkError as error:
            if self.connection.closed:
                raise CommitUnknown(
                    f"{error}; whether it was committed says the line of the sink there, which the next attempt reads"
                ) from error
            raise

    def execute(self, text: str, *values: object) -> int:
        """Run a statement; return how many rows it has changed."""
        with self.explain_errors():
            return int(self.connection.execute(text, values or None).rowcount)

    def copy_in(self, into: str, pieces: Iterable[bytes]) -> None:
        """Bring pieces of CSV into a table; what the iterator raises goes through, and nothing was brought."""
        text = f"COPY {into} FROM STDIN (FORMAT csv)"
        with self.explain_errors(), self.connection.cursor() as cursor, cursor.copy(text) as copy:
            for piece in pieces:
                copy.write(piece)
