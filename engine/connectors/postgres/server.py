"""What is asked of a PostgreSQL server whose tables are followed: SQL functions over an ordinary connection."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.csv as csv

from engine.connectors.postgres.connection import PostgresConnection, load_psycopg, quote_name
from engine.connectors.postgres.positions import format_lsn, parse_lsn
from engine.connectors.postgres.settings import PostgresSettings
from engine.errors import SourceError

Result = TypeVar("Result")
PLUGIN = "pgoutput"
BUSY_SECONDS = 30.0
"""For so long a slot that another session reads is waited for."""
COMMIT_SECONDS = 10.0
"""For so long transactions that may be about to become visible are waited for."""
CREATE_SECONDS = 120
"""For so long PostgreSQL may wait for older transactions when it makes a slot."""
LISTS_COLUMNS = 150_000
"""From this version on a publication may have lists of columns and filters of rows."""
LOOK_MESSAGES = 1_000
"""So many messages are looked at to tell whether there is something to take."""
BATCH_ROWS = 50_000
BATCH_BYTES = 16 << 20
"""A snapshot is read in pieces of so many rows or bytes."""
STREAM_ROWS = 100
"""Messages come so many at a time, where libpq 17 or newer is installed."""
_PAUSE = 0.05
LOCK_SECONDS = 30
"""For so long TRUNCATE, ALTER TABLE and the like are waited for before a snapshot."""


class SlotState(NamedTuple):
    """A replication slot as the server tells of it; `flushed` is how far the log is durable.

    The log is durable up to any byte; what is `written` ends with a record.
    """

    plugin: str
    database: str
    reader: int | None
    restart: int | None
    confirmed: int | None
    wal_status: str
    flushed: int
    written: int

    @property
    def is_lost(self) -> bool:
        """Whether the server has removed log that the slot needs."""
        return self.wal_status == "lost" or self.restart is None or self.confirmed is None

    @property
    def held_bytes(self) -> int:
        """How much log the slot keeps the server from removing."""
        return 0 if self.restart is None else max(self.flushed - self.restart, 0)


class PublicationFault(NamedTuple):
    """What a publication does not tell of a table, and the statement that mends it."""

    what: str
    remedy: str


class SlotBusy(SourceError):
    """Another session reads the slot."""


class ObjectMissing(SourceError):
    """PostgreSQL has no object of a name, or had none at the time of a change."""


class SlotTaken(SourceError):
    """Another session has made the slot at the same time."""


_ERRORS = {"55006": SlotBusy, "42710": SlotTaken, "42704": ObjectMissing}
"""What is told by PostgreSQL's code of an error."""


class PostgresServer(PostgresConnection):
    """A connection to a database with a slot; each statement is a transaction unless `open_snapshot` says otherwise."""

    errors = _ERRORS

    def __init__(self, settings: PostgresSettings) -> None:
        self.settings = settings
        self._second: PostgresServer | None = None
        super().__init__(settings)

    def close(self) -> None:
        """Close the connection, and the second one."""
        if self._second is not None:
            self._second.close()
        super().close()

    def open_second(self) -> PostgresServer:
        """Return another connection, for what is to be asked while this one streams; it stays open as long."""
        if self._second is None:
            self._second = PostgresServer(self.settings)
        return self._second

    def is_alive(self) -> bool:
        """Tell whether the server answers, over both connections."""
        try:
            self.query_nothing("SELECT")
        except SourceError:
            return False
        return self._second is None or self._second.is_alive()

    def narrow(self, settings: PostgresSettings) -> PostgresServer:
        """Return the same connection for another table of the database."""
        narrowed = copy.copy(self)
        narrowed.settings = narrowed.address = settings
        return narrowed

    def wait_for_reader(self, seconds: float) -> SlotState | None:
        """Return how the slot stands once no other session reads it, or after so many seconds."""
        ends = time.monotonic() + seconds
        while True:
            slot = self.read_slot()
            if slot is None or slot.reader is None or time.monotonic() > ends:
                return slot
            time.sleep(_PAUSE)

    def wait_for_flush(self, place: int, seconds: float) -> bool:
        """Wait until the log is durable up to a place, so long at most; tell whether it is."""
        ends = time.monotonic() + seconds
        while True:
            ((flushed,),) = self.query("SELECT pg_catalog.pg_current_wal_flush_lsn()::text")
            if parse_lsn(flushed) >= place or time.monotonic() > ends:
                return parse_lsn(flushed) >= place
            time.sleep(_PAUSE)

    def read_slot(self) -> SlotState | None:
        """Return how the slot stands, None if there is none."""
        for row in self.query(
            "SELECT plugin, database, active_pid, restart_lsn::text, confirmed_flush_lsn::text, wal_status, "
            "pg_catalog.pg_current_wal_flush_lsn()::text, pg_catalog.pg_current_wal_insert_lsn()::text FROM "
            "pg_catalog.pg_replication_slots WHERE slot_name = %s",
            self.settings.slot,
        ):
            plugin, database, reader, restart, confirmed, status, flushed, written = row
            return SlotState(
                plugin or "",
                database or "",
                reader,
                parse_lsn(restart) if restart else None,
                parse_lsn(confirmed) if confirmed else None,
                status or "",
                parse_lsn(flushed),
                parse_lsn(written),
            )
        return None

    def ensure_slot(self) -> SlotState:
        """Return the slot, which is made if there is none; one that another session is making is waited for."""
        ends = time.monotonic() + CREATE_SECONDS
        while True:
            slot = self.read_slot()
            is_in_the_making = slot is not None and slot.confirmed is None and slot.reader is not None
            if slot is not None and not is_in_the_making:
                return slot
            if slot is None:
                try:
                    return self.create_slot()
                except SlotTaken:
                    continue
            if time.monotonic() > ends:
                raise SourceError(
                    f"{self.settings.address}: another session has been making the slot {self.settings.slot} for "
                    f"{CREATE_SECONDS} seconds, and waits for older transactions: end them, and poll again"
                )
            time.sleep(_PAUSE)

    def create_slot(self) -> SlotState:
        """Make the slot; PostgreSQL waits for transactions that began before."""
        slot = self.settings.slot
        self.query_nothing(f"SET statement_timeout TO '{CREATE_SECONDS}s'")
        try:
            self.query(
                "SELECT lsn::text FROM pg_catalog.pg_create_logical_replication_slot(%s, %s)", slot, PLUGIN
            )
        except SourceError as error:
            if "statement timeout" not in str(error):
                raise
            raise SourceError(
                f"{self.settings.address}: the slot {slot} could not be made within {CREATE_SECONDS} seconds, "
                "as transactions that began before have not ended: end them (pg_stat_activity shows them), and poll again"
            ) from error
        finally:
            self.query_nothing("SET statement_timeout TO 0")
        made = self.read_slot()
        if made is None:
            raise SourceError(
                f"{self.settings.address}: the slot {slot} was dropped as soon as it was made: poll again"
            )
        return made

    def drop_slot(self) -> None:
        """Drop the slot."""
        self.query("SELECT pg_catalog.pg_drop_replication_slot(%s)", self.settings.slot)

    def stream_changes(
        self, publications: Sequence[str], most: int | None, upto: int | None = None
    ) -> Iterator[bytes]:
        """Yield the messages behind the slot's position, about `most` of them."""
        text = (
            "SELECT data FROM pg_catalog.pg_logical_slot_peek_binary_changes(%s::name, "
            "%s::pg_lsn, %s::int4, "
            "'proto_version', '1', 'publication_names', %s)"
        )
        end = None if upto is None else format_lsn(upto)
        values = (self.settings.slot, end, most, _quote_list(publications))
        size = STREAM_ROWS if load_psycopg().capabilities.has_stream_chunked() else 1
        try:
            with self.explain_errors(), self.connection.cursor(binary=True) as cursor:
                for (data,) in cursor.stream(text, values, size=size):
                    yield data
        except ObjectMissing as error:
            raise SourceError(
                f"{error}: a change that is yet to be read was made when there was no such publication: CREATE "
                "PUBLICATION there if there is none now, and ALTER TABLE … RESYNC of one of the slot's tables here"
            ) from error

    def has_changes(self, publications: Sequence[str], tables: Sequence[str]) -> bool:
        """Tell whether transactions behind the slot's position change one of some tables, or are too many to be looked at."""
        ((count, changed),) = self.query(
            "SELECT count(*), coalesce(bool_or(EXISTS (SELECT FROM unnest(%s::text[]) AS t (name) CROSS JOIN "
            "LATERAL (SELECT "
            "pg_catalog.int4send(pg_catalog.to_regclass(name)::oid::int4) AS oid) AS o WHERE CASE "
            "get_byte(data, 0) WHEN 84 THEN "
            "position(o.oid IN substring(data FROM 7)) > 0 ELSE get_byte(data, 0) IN (68, 73, 85) AND "
            "substring(data FROM 2 FOR "
            "4) = o.oid END)), false) FROM pg_catalog.pg_logical_slot_peek_binary_changes(%s::name, NULL, %s::int4, "
            "'proto_version', '1', 'publication_names', %s)",
            list(tables),
            self.settings.slot,
            LOOK_MESSAGES,
            _quote_list(publications),
        )
        return bool(changed) or count >= LOOK_MESSAGES

    def find_unpublished(
        self, tables: Sequence[PostgresSettings]
    ) -> dict[PostgresSettings, PublicationFault]:
        """Return of which tables the publication does not tell all changes of all rows."""
        has_filters = self.connection.info.server_version >= LISTS_COLUMNS
        rows = self.query(
            "SELECT t.pubname::text, t.schemaname::text, t.tablename::text, p.pubinsert AND p.pubupdate AND "
            f"p.pubdelete AND p.pubtruncate, {'t.rowfilter' if has_filters else 'NULL'} FROM "
            "pg_catalog.pg_publication_tables AS t JOIN pg_catalog.pg_publication AS p ON p.pubname = t.pubname "
            "WHERE t.pubname = ANY (%s::text[]) AND t.tablename = ANY (%s::text[])",
            [one.publication for one in tables],
            [one.table for one in tables],
        )
        published = {(name, schema, table): (whole, rule) for name, schema, table, whole, rule in rows}
        there = self.query(
            "SELECT pubname::text FROM pg_catalog.pg_publication WHERE pubname = ANY (%s::text[])",
            [one.publication for one in tables],
        )
        faults: dict[PostgresSettings, PublicationFault] = {}
        for one in tables:
            publication = f"ALTER PUBLICATION {quote_name(one.publication)}"
            whole, rule = published.get((one.publication, one.schema, one.table), (None, None))
            if (one.publication,) not in there:
                mine = [other.sql_name for other in tables if other.publication == one.publication]
                faults[one] = PublicationFault(
                    "is not there any more",
                    f"CREATE PUBLICATION {quote_name(one.publication)} FOR TABLE {', '.join(mine)}",
                )
            elif whole is None:
                faults[one] = PublicationFault(
                    f"has no table {one.path} any more", f"{publication} ADD TABLE {one.sql_name}"
                )
            elif not whole:
                faults[one] = PublicationFault(
                    "does not tell all kinds of changes any more",
                    f"{publication} SET (publish = 'insert, update, delete, truncate')",
                )
            elif rule is not None:
                faults[one] = PublicationFault(
                    f"tells only rows of {one.path} with {rule} by now",
                    f"{publication} DROP TABLE {one.sql_name}; {publication} ADD TABLE {one.sql_name}",
                )
        return faults

    def advance_slot(self, upto: int) -> None:
        """Let the slot go on from a place that it has not reached; another session that reads it is left alone."""
        slot = self.read_slot()
        if slot is None or slot.confirmed is None or slot.confirmed >= upto:
            return
        try:
            self.query(
                "SELECT end_lsn::text FROM pg_catalog.pg_replication_slot_advance(%s, %s::pg_lsn)",
                self.settings.slot,
                format_lsn(upto),
            )
        except SlotBusy:
            return  # the next poll does it

    def wait_for_commits(self) -> None:
        """Wait until every transaction whose commit stands in the log is visible.

        A commit is written a moment before others see it. Transactions that run on after the wait have not committed before it,
        but for those that wait for a synchronous standby.
        """
        ((high, standbys),) = self.query(
            "SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::bigint, "
            "pg_catalog.current_setting('synchronous_standby_names')"
        )
        ends = time.monotonic() + COMMIT_SECONDS
        while True:
            ((low,),) = self.query(
                "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text::bigint"
            )
            if low >= high:
                return
            if time.monotonic() > ends:
                break
            time.sleep(_PAUSE)
        if standbys:
            raise SourceError(
                f"{self.settings.address}: transactions that may wait for a synchronous standby have not "
                "ended within "
                f"{COMMIT_SECONDS:g} seconds, and a snapshot might miss them: poll again once they have"
            )

    def open_snapshot(self, tables: Sequence[str]) -> tuple[str, int]:
        """Begin a transaction that sees one moment; return which transactions it sees, and a place before which all end."""
        self.query_nothing("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        self.query_nothing(f"SET LOCAL lock_timeout TO '{LOCK_SECONDS}s'")
        # no snapshot shows what a table was before TRUNCATE, or before it was written anew: the lock keeps both off
        self.query_nothing(f"LOCK TABLE {', '.join(tables)} IN ACCESS SHARE MODE")
        ((seen, place),) = self.query(
            "SELECT pg_catalog.pg_current_snapshot()::text, pg_catalog.pg_current_wal_insert_lsn()::text"
        )
        return seen, parse_lsn(place)

    def close_snapshot(self) -> None:
        """End that transaction."""
        self.query_nothing("ROLLBACK")

    def flush_log(self) -> int:
        """Make all that is in the log by now durable, so that it can be read; returns how far that is.

        Its own transaction is younger than all whose commit stands before that place, so that `wait_for_commits` waits for these.
        """
        ((written,),) = self.query("SELECT pg_catalog.pg_current_wal_insert_lsn()::text")
        self.query("SELECT pg_catalog.pg_logical_emit_message(true, 'tideline', '')::text")
        return parse_lsn(written)

    def copy_rows(self, columns: Sequence[str], relation: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table as columns of texts, up to `BATCH_ROWS` or `BATCH_BYTES` at a time; both names are SQL."""
        text = f"COPY (SELECT {', '.join(columns)} FROM {relation}) TO STDOUT WITH (FORMAT csv)"
        with self.explain_errors(), self.connection.cursor() as cursor, cursor.copy(text) as copy:
            lines, count = BytesIO(), 0  # which keeps none of libpq's buffers
            for line in copy:  # PostgreSQL sends each row by itself
                lines.write(line)
                count += 1
                if count == BATCH_ROWS or lines.tell() > BATCH_BYTES:
                    yield _parse_lines(lines, count, len(columns))
                    lines, count = BytesIO(), 0
            if count:
                yield _parse_lines(lines, count, len(columns))


def _parse_lines(lines: BytesIO, count: int, width: int) -> pa.RecordBatch:
    """Return so many rows of CSV as texts: what is empty without quotes is null."""
    names = [str(at) for at in range(width)]
    size = lines.tell()
    lines.seek(0)
    table = csv.read_csv(
        lines,
        csv.ReadOptions(use_threads=False, block_size=size + 1, column_names=names),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    (batch,) = table.combine_chunks().to_batches()
    assert batch.num_rows == count
    return batch


def _quote_list(names: Sequence[str]) -> str:
    return ",".join(map(quote_name, names))


def call_patiently(server: PostgresServer, action: Callable[[], Result]) -> Result:
    """Return what an action returns once no other session reads the slot; raises SourceError if one always does."""
    ends = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return action()
        except SlotBusy as busy:
            if time.monotonic() > ends:
                raise SourceError(
                    f"{server.settings.address}: the slot {server.settings.slot} is read by another session "
                    "all the time: end that "
                    "one (pg_replication_slots shows it), or give the tables a slot of their own"
                ) from busy
        time.sleep(_PAUSE)
