"""Session: SQL in, Arrow out. What a notebook, a test, the command line and Dagster use."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal

import pyarrow as pa
from pyspark.sql import SparkSession

from engine.connectors.contract.connector import SourceReport, get_connector_name
from engine.connectors.sinks.driver import WAIT_SECONDS, SinkDriver
from engine.connectors.sources import poll_all
from engine.errors import SqlError
from engine.handlers import execute_statement
from engine.hummock import Hummock
from engine.hummock.clock import Clock
from engine.hummock.compaction import CompactionReport
from engine.hummock.upkeep.fingerprints import FingerprintCheck, FingerprintStatus, Tell
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.domains.creation import Creation, list_creations
from engine.meta.domains.domain import find_domain_name
from engine.meta.domains.mutation import PARALLELISM, RATE_LIMIT
from engine.meta.domains.quarantine import PartitionStatus, find_partitioning
from engine.meta.epochs.flush_plan import FlushPlan
from engine.meta.epochs.query_policy import check_policy, choose_epochs
from engine.meta.epochs.time_boundary import load_present
from engine.meta.status.relation_status import RelationStatus, list_lagging_views, list_statuses
from engine.meta.status.waits import DomainWait, list_all_waits
from engine.runtime.answers.asked_row import AskedKey
from engine.runtime.answers.blame import RowHistory, list_row_changes
from engine.runtime.answers.diff import MOST_ROWS, TableDiff, compare_moments, compare_queries
from engine.runtime.answers.why import RowOrigin, explain_row
from engine.runtime.answers.why_not import RowAbsence, explain_absence
from engine.runtime.backfill.eligibility import BACKFILL_ROWS
from engine.runtime.compaction_tasks import CompactionTasks
from engine.runtime.domains.epochs import EpochRunner
from engine.runtime.domains.flush import BACKGROUND_SECONDS
from engine.runtime.domains.wait_for_creation import wait_for_creation
from engine.runtime.epoch.mutation_run import request_mutation
from engine.runtime.epoch.report import FlushReport, SinkReport, ViewReport, merge_sink_reports
from engine.runtime.epoch.spark_executor import SparkExecutor
from engine.runtime.fingerprint_tasks import FingerprintTasks
from engine.runtime.oracle.epoch_replay import EpochReplay, EpochReplayer
from engine.runtime.oracle.sampling import SampleReport, Sampling
from engine.runtime.partitions.checks import require_partitioning, resolve_partition
from engine.runtime.partitions.values import list_changed_partitions, list_partition_statuses
from engine.runtime.reads.datasource import TidelineDataSource
from engine.runtime.spark.on_demand import SparkOnDemand
from engine.runtime.spark.session import SparkTarget, is_of_this_process
from engine.runtime.statement_context import OpenCursor, StatementContext
from engine.runtime.statements.alter.alter import set_option
from engine.runtime.statements.session.statement_parser import read_statements
from engine.runtime.statements.statement_errors import locate_errors
from engine.runtime.statements.succession.begin import discard_change
from engine.runtime.statements.succession.gate import approve_change
from engine.runtime.statements.succession.take_over import let_successors_take_over
from engine.runtime.subscriptions.subscriber import (
    POLL_SECONDS,
    EpochChanges,
    Subscriber,
    open_subscriber,
)
from engine.runtime.writes.dml import write_rows
from engine.sql.catalog import Catalog
from engine.sql.dialect import DIALECTS, Dialect, is_dialect
from engine.sql.statements.session.parameters import Parameters
from engine.sql.statements.session.session_statements import Prepare
from engine.sql.statements.session.settings import SessionSettings
from engine.telemetry.start import start_telemetry

__all__ = [
    "EpochChanges",
    "FlushReport",
    "RelationStatus",
    "RowHistory",
    "RowOrigin",
    "Session",
    "SinkReport",
    "SourceReport",
    "Subscriber",
    "TableDiff",
    "ViewReport",
]

_LOG = logging.getLogger(__name__)
WAIT_CREATED_SECONDS = 3600.0
NEWS_SECONDS = 0.05
"""How often a session with epochs in flight looks for what others have committed, at most."""


class Session:
    """A connection to one store: `sql`, `write`, `poll`, `flush`; Spark starts when first needed.

    `spark` is None (SPARK_REMOTE, else local[*]), a master's address, `sc://host:port`, a SparkSession, or a function that says
    which of these when Spark is needed.
    With `epochs_in_flight` it is one that commits epoch after epoch: a `flush` that does not wait leaves commits on their way,
    and goes on without views that take much longer.
    A new view over at least `backfill_rows` rows is built step by step, each step a commit. `clock` stands in for the machine's.

    The examples below run over a store with `bid (id, auction, price)`: (1, 7, 30), (2, 7, 50), (3, 8, 20), and two views of the
    highest price of each auction: `top`, and `cut`, which has a partition for each auction.
    """

    def __init__(
        self,
        url: str,
        spark: SparkTarget | Callable[[], SparkTarget] = None,
        dialect: Dialect = "spark",
        *,
        backfill_rows: int = BACKFILL_ROWS,
        clock: Clock | None = None,
        epochs_in_flight: int | None = None,
    ) -> None:
        if not is_dialect(dialect):
            raise SqlError(f'dialect "{dialect}" is unknown: use one of {", ".join(DIALECTS)}')
        self.url = url
        self.settings = SessionSettings(dialect=dialect)
        self.reaches_out = True
        """Whether CREATE TABLE looks at what feeds the table, and fills it from its query; a trial of statements does neither."""
        self.prepared: dict[str, Prepare] = {}
        """The statements of PREPARE by their names."""
        self.cursors: dict[str, OpenCursor] = {}
        """The cursors of DECLARE by their names."""
        self.notices: tuple[str, ...] = ()
        """What the last statement had to say beside its rows: of a setting, that it has no meaning here."""
        drives = epochs_in_flight is not None
        self.store = Hummock.open(url, clock=clock, news_seconds=NEWS_SECONDS if drives else 0.0)
        self.on_demand = SparkOnDemand(spark, self.store, TidelineDataSource)
        """The Spark session that it runs on, whether or not anything has needed it yet."""
        self.sinks = SinkDriver(self.store, self.open_spark)
        self.epochs = EpochRunner(
            self.store,
            lambda store: SparkExecutor(store, self.on_demand.open, separate_large=drives),
            backfill_rows,
            in_flight=epochs_in_flight,
            spool=is_of_this_process(spark) and not self.store.is_here,
            take_over=let_successors_take_over,
        )
        self._runner = self.epochs.runner
        start_telemetry(self.store)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:  # Ctrl-C, a cancelled job: nobody waits for slow views any more
            self.epochs.abort()
        self.close()

    @property
    def dialect(self) -> Dialect:
        """Whose SQL is read: spark, postgres or risingwave."""
        return self.settings.dialect

    @dialect.setter
    def dialect(self, dialect: Dialect) -> None:
        self.settings.put("dialect", dialect)

    @property
    def query_policy(self) -> str:
        """At which epoch a SELECT reads its tables: consistent, latest, global, an epoch or a timestamp."""
        return self.settings["query_policy"]

    @query_policy.setter
    def query_policy(self, policy: str) -> None:
        self.settings.put("query_policy", check_policy(policy))

    @property
    def spark(self) -> SparkSession:
        """The Spark session that it runs on, started at the first use; `spark.read.format("tideline")` reads tables.

        One that was handed in is not this one: it keeps its settings, and another session is made beside it.
        """
        return self.on_demand.connect_with_source()

    @property
    def computing(self) -> SparkSession:
        """The same Spark session as the engine uses it: it needs no source, for which Spark starts another Python."""
        return self.on_demand.open().session

    def open_spark(self) -> SparkSession:
        """Return what `computing` is: for a function that calls this when it needs Spark, and not before."""
        return self.computing

    @property
    def spark_ui(self) -> str | None:
        """Where a browser on this machine sees what Spark does, None if that is not shown, or nothing has needed Spark yet."""
        return self.on_demand.ui

    @property
    def catalog(self) -> Catalog:
        """The relations as they are now in the store."""
        return self.stored.catalog

    @property
    def stored(self) -> StoredCatalog:
        """Relations and incremental plans as they are now in the store."""
        self.epochs.store.refresh()  # which asks nobody while commits are on their way: those bring the news
        return load_catalog(self.store.version)

    def sql(
        self,
        text: str,
        parameters: Parameters | None = None,
        *,
        build: bool = True,
        policy: str | None = None,
    ) -> pa.Table | None:
        """Run a statement; a SELECT, SHOW, DESCRIBE, EXPLAIN, FETCH or RETURNING gives a table, everything else None.

        Of several the last one's table is returned: each is a commit of its own, and the first that fails ends it. `parameters`
        are the values of `?` or `$1`, or by name of `:name`. With `build` a new materialized view is computed at once, else by
        the next flush. `policy` says at which epoch a SELECT reads: consistent, latest, global, an epoch, a timestamp; None takes
        the session's. Raises SqlError with the place.

        >>> s.sql("SELECT * FROM top WHERE best > ?", [40]).to_pylist()
        [{'auction': 7, 'best': 50}]
        >>> s.sql("UPDATE bid SET price = 60 WHERE id = 3 RETURNING id, price").to_pylist()
        [{'id': 3, 'price': 60}]
        """
        self.notices = ()
        found = None
        context = StatementContext.of(self, build=build, policy=policy)
        for statement in read_statements(text, parameters, context):
            with locate_errors(statement.sql, statement):
                found = execute_statement(statement, context)
        return found

    def write(
        self,
        table: str,
        rows: pa.Table | pa.RecordBatch,
        mode: Literal["insert", "upsert", "delete"] = "upsert",
    ) -> int:
        """Write Arrow rows to a table and return the epoch; durable when it returns.

        `mode` says what becomes of a known key: "insert" raises, "upsert" replaces, "delete" takes the row away; keys suffice.

        >>> epoch = s.write("bid", pa.table({"id": [1, 4], "auction": [7, 9], "price": [35, 10]}))
        >>> s.sql("SELECT id, price FROM bid ORDER BY id").to_pylist()[::3]
        [{'id': 1, 'price': 35}, {'id': 4, 'price': 10}]
        """
        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        self.notices = ()
        epoch, late = write_rows(table, rows, mode, StatementContext.of(self))
        self.notice(late)
        return epoch

    def poll(self, tables: Collection[str] | None = None) -> tuple[SourceReport, ...]:
        """Take all that the sources of `tables` (None: of all) have: landing files, Delta tables, generators; durable when it
        returns.

        A source that fails has its error in its report and stops no other. Views get the rows by the next `flush`. Raises
        SqlError for an unknown name, and for a table without a source.

        >>> [(report.table, report.files, report.rows, report.error) for report in s.poll()]
        []
        """
        catalog = self.catalog
        names = None if tables is None else [catalog.get(table).name for table in tables]
        for relation in (catalog.relations[name] for name in names or ()):
            if not get_connector_name(relation):
                raise SqlError(
                    f"{relation.name} has no source: CREATE TABLE … WITH (connector = …) gives it one"
                )
        return tuple(poll_all(catalog, self.store, names, self.open_spark))

    def flush(
        self,
        views: Collection[str] | None = None,
        *,
        eager: bool = True,
        background_seconds: float = BACKGROUND_SECONDS,
        sink_seconds: float = WAIT_SECONDS,
        partitions: Mapping[str, Collection[str]] | None = None,
        wait: bool = True,
    ) -> FlushReport:
        """Run all that is pending (for `views`, and what they read); a failing view has its error in its report.

        Without `eager` what has failed lately is left alone until its time to be tried again has come. Views with a `refresh` of
        their own are left alone until their time, unless `views` names them. Views that are created in
        the background get `background_seconds` of work. Sinks come after the views, each in a thread of its own, and
        are not waited for beyond `sink_seconds`; views over tables that sinks have written are run again. `partitions` are by
        view those to be computed again as a whole. Without `wait`, where there are epochs in flight, what it reports is on its
        way yet, views that are slow are told of by a later flush, and sinks get what is committed, the rest by `deliver`.

        >>> epoch = s.write("bid", pa.table({"id": [4], "auction": [9], "price": [10]}))
        >>> [(view.view, view.inserted, view.updated) for view in s.flush(["top"]).views]
        [('top', 1, 0)]
        """
        bring = partial(self.epochs.run_pending, views, eager=eager, wait=wait)
        report = bring(background_seconds=background_seconds, partitions=partitions)
        sources = None if views is None else [*views, *(view.view for view in report.views)]
        deliver = partial(self.sinks.run, sources, eager=eager, wait_seconds=sink_seconds)
        delivered = deliver(self.store.version)
        for _ in range(sum(sink.into is not None for sink in delivered)):
            if not any(sink.into is not None and sink.rows for sink in delivered) or not self.lagging():
                break
            report = report.merge(bring(background_seconds=0))
            delivered = merge_sink_reports(delivered, deliver(self.store.version))
        return replace(report, sinks=delivered)

    def deliver(self, report: FlushReport, seconds: float) -> FlushReport:
        """Wait until all that flushes have computed is committed, and for the sinks that get it, for so many seconds.

        Returns the report of such a flush with what the sinks have got since.
        """
        self.epochs.settle()
        self.sinks.wait(seconds)
        return replace(
            report, sinks=merge_sink_reports(report.sinks, self.sinks.run(eager=False, wait_seconds=seconds))
        )

    def explain_flush(
        self,
        views: Collection[str] | None = None,
        *,
        eager: bool = True,
        partitions: Mapping[str, Collection[str]] | None = None,
    ) -> FlushPlan:
        """Return what a flush with these arguments would do for the views now, as a value to look at or print; needs no Spark.

        Sinks come after the views and are not part of it.

        >>> epoch = s.write("bid", pa.table({"id": [4], "auction": [9], "price": [10]}))
        >>> [(domain.name, [step.work for step in domain.steps]) for domain in s.explain_flush(["top"]).domains]
        [('top', ['epoch'])]
        """
        return self._runner.plan(self._runner.build_request(views, eager=eager, partitions=partitions))

    def why(self, view: str, key: AskedKey, at: int | str | None = None) -> RowOrigin:
        """Return the rows of tables that make a row of a view, through all operators and views between, and the steps to them.

        `key` are the values of the view's key in its order, one alone, or values by column. `at` is an epoch or a time, None the
        newest at which the view and all below it have content. Raises SqlError if there is no such row, or it cannot be traced.

        >>> s.why("top", 7).sources["bid"].to_pylist()
        [{'id': 1, 'auction': 7, 'price': 30}, {'id': 2, 'auction': 7, 'price': 50}]
        """
        return explain_row(self.store, self.open_spark, view, key, at)

    def why_not(self, view: str, key: AskedKey, at: int | str | None = None) -> RowAbsence:
        """Return which operator keeps a row out of a view, by which values, and the steps from the view down to it.

        `key` and `at` as in `why`. Raises SqlError if there is such a row, or it cannot be traced.

        >>> s.why_not("top", 5).loss.reason
        'bid has no row with auction = 5'
        """
        return explain_absence(self.store, self.open_spark, view, key, at)

    def diff_pending(self, view: str, *, limit: int | None = MOST_ROWS) -> TableDiff:
        """Return by what the rows of a view's next query differ from those that it has, before that takes over.

        Of the changed rows `limit` are held, None holds all. Raises SqlError where none waits to take over, or has content yet.
        """
        return compare_queries(self.store, view, limit=limit)

    def approve(self, view: str) -> None:
        """Let a change that the view's gate holds up take over by the next flush; raises SqlError where none is held up."""
        name = self.catalog.get(view).name
        approve_change(self.store, name, f"ALTER MATERIALIZED VIEW {name} APPROVE")

    def discard(self, view: str) -> None:
        """Drop the next query of a view, which goes on by its present one, and those that cannot be without it.

        Raises SqlError where there is none.
        """
        name = self.catalog.get(view).name
        if said := discard_change(self.store, name, f"ALTER MATERIALIZED VIEW {name} DISCARD"):
            self.notice(said)

    def diff(
        self, view: str, a: int | str, b: int | str | None = None, *, limit: int | None = MOST_ROWS
    ) -> TableDiff:
        """Return what changed in a table or view between two moments, one net change a key: counts, and rows with the old ones.

        `a` and `b` are epochs or times, `b` is not the earlier one, and None the newest. Of the changed rows `limit` are held,
        None holds all; `iterate` of the answer reads all batch by batch. Raises SqlError for what is no moment or has no content
        then, and EpochExpired for an epoch that is not kept any more.

        >>> before = s.common_epoch("bid")
        >>> epoch = s.write("bid", pa.table({"id": [1], "auction": [7], "price": [35]}))
        >>> found = s.diff("bid", before, epoch)
        >>> found.updated, found.unchanged, found.changed_columns["price"]
        (1, 2, 1)
        >>> found.rows.select(["_op", "id", "price", "_old_price"]).to_pylist()
        [{'_op': 'update', 'id': 1, 'price': 35, '_old_price': 30}]
        """
        return compare_moments(self.store, view, (a, b), limit=limit)

    def blame(self, view: str, key: AskedKey) -> RowHistory:
        """Return in which epochs a row of a table or view changed, newest first, from what to what, and who committed them.

        `key` as in `why`; the row may be gone by now. It is known as far back as history is kept. Raises SqlError for a key that
        names no row, or several.

        >>> epoch = s.write("bid", pa.table({"id": [1], "auction": [7], "price": [35]}))
        >>> [(one.operation, one.columns) for one in s.blame("bid", 1).changes]
        [('update', ('price',)), ('insert', ('id', 'auction', 'price'))]
        """
        return list_row_changes(self.store, view, key)

    def subscribe(
        self,
        name: str,
        *,
        since: int | str | None = None,
        follow: bool = False,
        poll_seconds: float = POLL_SECONDS,
        acknowledge: bool = True,
    ) -> Subscriber:
        """Return an iterator over the changes of a subscription, a table or a view, one item an epoch; needs no Spark.

        It ends when there is nothing more; with `follow` it looks for more every `poll_seconds`. `since` is "now", "begin" (as
        far back as changes are kept), "full" (all rows first), the epoch behind which it begins, or a time. Without it a table or
        view is followed from now on, and a subscription from where it stands, which moves on when the next item is asked for, or,
        if not `acknowledge`, by the iterator's own `acknowledge`. Raises SqlError for what cannot be followed or is no moment,
        SubscriptionError where changes are not kept any more.

        >>> changes = s.subscribe("top")
        >>> s.sql("UPDATE bid SET price = 60 WHERE id = 1")
        >>> s.flush().raise_for_errors()
        >>> [item.changes.to_pylist() for item in changes]
        [[{'auction': 7, 'best': 50, 'op': 'UpdateDelete'}, {'auction': 7, 'best': 60, 'op': 'UpdateInsert'}]]
        """
        return open_subscriber(
            self.store, name, since, follow=follow, poll_seconds=poll_seconds, acknowledges=acknowledge
        )

    def wait(self, views: Collection[str] = (), *, seconds: float = WAIT_CREATED_SECONDS) -> None:
        """Return when views that are being created (none named: all) are whole; raises EpochFailed after `seconds`."""
        wait_for_creation(self.epochs, views, seconds)

    def pause(self, view: str) -> None:
        """Ask the domain of a view to rest from its next barrier on; durable when it returns."""
        request_mutation(self.store, view, "pause", None, self.store.clock())

    def resume(self, view: str) -> None:
        """Ask the domain of a view to go on with its next barrier."""
        request_mutation(self.store, view, "resume", None, self.store.clock())

    def throttle(self, view: str, rows_per_second: int | None) -> None:
        """Ask for another rate limit of a view's backfill: 0 pauses it, None lets it find its pace."""
        set_option(view, RATE_LIMIT, rows_per_second, StatementContext.of(self))

    def rescale(self, view: str, parallelism: int | None) -> None:
        """Ask for another number of tasks that write a view's larger epochs; None lets it follow the cores."""
        set_option(view, PARALLELISM, parallelism, StatementContext.of(self))

    def members(self, domain: str) -> tuple[str, ...]:
        """Return the views of a domain, inputs first."""
        return tuple(name for name in self.stored.plans if find_domain_name(self.stored, name) == domain)

    def backfills(self) -> Mapping[str, Creation]:
        """Return how far each snapshot backfill is, by domain, finished ones included; needs no Spark."""
        return list_creations(self.store.refresh())

    def partitions(self, view: str) -> tuple[PartitionStatus, ...]:
        """Return where the partitions of a view stand, each with its own committed epoch, those in quarantine first.

        Groups of vnodes are all listed; of a view that is cut by values those that it holds rows of.

        >>> sorted(one.partition for one in s.partitions("cut"))
        ['7', '8']
        """
        return list_partition_statuses(self.store, self.open_spark, view)

    def changed_partitions(self, view: str, after: int | None) -> tuple[str, ...]:
        """Return the partitions of which a view's rows have changed after an epoch; all if its log does not reach back there."""
        return list_changed_partitions(self.epochs.store, self.open_spark, view, after)

    def materialize(self, view: str, partition: str | Collection[str] | None = None) -> FlushReport:
        """Bring a view and what it reads up to date; with `partition` compute those again from the inputs, as a whole.

        Only the difference to what a partition holds is committed and logged; the report counts the rows read and written.

        >>> [(view.view, view.inserted, view.updated) for view in s.materialize("cut", "7").views]
        [('cut', 0, 0)]
        """
        relation = self.catalog.get(view)
        if partition is None:
            return self.flush([relation.name])
        partitions = [partition] if isinstance(partition, str) else list(partition)
        how = require_partitioning(relation, find_partitioning(self.stored, relation.name))
        keys = [resolve_partition(how, key) for key in partitions]
        return self.flush([relation.name], partitions={relation.name: keys})

    def waits(self) -> tuple[DomainWait, ...]:
        """Return why each domain that lags does so, and until when; needs no Spark.

        >>> epoch = s.write("bid", pa.table({"id": [4], "auction": [9], "price": [10]}))
        >>> sorted((wait.domain, wait.kind) for wait in s.waits())
        [('cut', 'due'), ('top', 'due')]
        """
        now = self.store.clock()
        version, stored = load_present(self.store, now)
        return list_all_waits(version, stored, now)

    def common_epoch(self, *tables: str) -> int:
        """Return the newest epoch at which all of some tables have content: what `consistent` reads them at, for other readers.

        Raises EpochFailed if there is none yet, UnknownTable for an unknown name.

        >>> s.common_epoch("bid", "top") == s.common_epoch("bid", "top", "cut")
        True
        """
        stored = self.stored
        names = [stored.catalog.get(name).name for name in tables]
        return min(choose_epochs(self.store.version, stored, names).values())

    def lagging(self) -> tuple[str, ...]:
        """Return the views that lack changes of their inputs; reads the newest manifest only."""
        return list_lagging_views(*load_present(self.store, self.store.clock()))

    def status(self) -> tuple[RelationStatus, ...]:
        """Return where every table and materialized view stands, inputs first; needs no Spark.

        >>> [(one.name, one.kind, one.rows) for one in s.status()][-1]
        ('cut', 'materialized view', 2)
        """
        now = self.store.clock()
        version, stored = load_present(self.store, now)
        return list_statuses(version, stored, self.sinks.collect_errors(), now, self.store.reader)

    def compact(
        self, table: str | None = None, *, full: bool = True, start_spark: bool = False
    ) -> tuple[CompactionReport, ...]:
        """Compact one table, or all; `full` merges everything to one run, else just the newest small files.

        Large merges are of Spark's tasks, as of `compaction_tasks`.

        >>> epoch = s.write("bid", pa.table({"id": [1], "auction": [7], "price": [35]}))
        >>> len(s.compact("bid"))
        1
        """
        names = list(self.store.refresh().tables) if table is None else [self.catalog.get(table).name]
        merge = self.store.compact if full else self.store.compact_l0
        tasks = self.compaction_tasks(start_spark=start_spark)
        return tuple(merge(name, executor=tasks) for name in names)

    def compaction_tasks(self, *, start_spark: bool = False) -> CompactionTasks:
        """Return what merges large compactions by Spark's tasks, where a Spark is at hand: it has started, was handed in, or runs
        elsewhere. One of this machine is started for them with `start_spark` alone: its start takes longer than it saves.
        """
        return CompactionTasks(
            self.store, self.on_demand.open if start_spark else self.on_demand.find_started
        )

    def fingerprint(self, table: str) -> FingerprintStatus:
        """Return the fingerprint of a table's or view's rows at an epoch, brought on where it is behind, or why it has none.

        >>> s.fingerprint("bid").is_behind
        False
        """
        return self.store.fingerprint(self.catalog.get(table).name)

    def verify_fingerprint(self, table: str, tell: Tell = lambda read, rows: None) -> FingerprintCheck:
        """Read all rows of a table or view from the store and hold them against its fingerprint; `tell` gets how far it is.

        A large table is read by the tasks of a Spark that is at hand. One that keeps no fingerprint yet keeps this one.

        >>> s.verify_fingerprint("bid").is_right
        True
        """
        tasks = FingerprintTasks(self.store, self.on_demand.find_started)
        return self.store.verify_fingerprint(self.catalog.get(table).name, tell, tasks)

    def sample_rows(
        self,
        views: Sequence[str] = (),
        seconds: float = 10.0,
        share: float | None = None,
        reports: Path | None = None,
    ) -> list[SampleReport]:
        """Compute some rows of views anew from what they read, for so many seconds, and hold them against those that are stored.

        Each goes on where it was left. With a `share` none are taken before its time, so that they take no more of it. What
        differs is written to a folder of `reports`, each with the rows from which it is computed.

        >>> s.sample_rows(["top"])[0].differ
        0
        """
        return Sampling(self.store, lambda: self.computing, views, reports).run(seconds, share)

    def replay_epochs(self, view: str, epoch: int | None = None, last: int = 1) -> list[EpochReplay]:
        """Compute the `last` epochs of a view again, newest first, or a named one, and hold them against the committed files.

        Nothing is committed. Raises SqlError for an epoch that no commit has brought the view to.

        >>> [one.outcome for one in s.replay_epochs("top")]
        ['same bytes']
        """
        relation = self.catalog.get(view)
        if relation.name not in self.stored.plans:
            raise SqlError(
                f"{relation.name} is a {relation.kind}, not a materialized view: nothing computes it"
            )
        executor = SparkExecutor(self.store, self.on_demand.open)
        return EpochReplayer(self.store, executor).replay(relation.name, epoch, last)

    def close(self) -> None:
        """Release the store; a Spark session that was passed in, or is shared, goes on."""
        with contextlib.ExitStack() as closing:  # each is closed, whatever another raises
            for close in (self.store.close, self.sinks.close, self.epochs.close):
                closing.callback(close)
            while self.cursors:
                closing.callback(self.cursors.popitem()[1].release)

    def notice(self, text: str) -> None:
        """Keep what a statement has to say beside its rows, for who looks at `notices`; an empty text is nothing."""
        if text:
            _LOG.info("%s", text)
            self.notices = (*self.notices, text)

    def reflect(self, table: str) -> None:
        """Return when the views reflect what has been written to a table; raises EpochFailed for one of them that cannot."""
        report = self.flush(background_seconds=0)
        report.of(self.stored.catalog.list_dependents(table)).raise_for_all()
