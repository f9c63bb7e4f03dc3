"""Sources that are polled in a thread of their own: what lands next is read and committed while views take in what has landed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence

from engine.connectors.contract.connector import SourceReport, Spark, no_spark
from engine.connectors.sources import compute_pending_digest, poll_all
from engine.errors import TidelineError
from engine.hummock import Hummock, Version
from engine.hummock.back_off import AttemptLog, BackOff
from engine.meta.catalog.stored_catalog import load_catalog

_LOG = logging.getLogger(__name__)
LOOK_SECONDS = 0.05
CLOSE_SECONDS = 30.0


class SourcePoller:
    """Polls the sources of some tables as soon as they have something, and again once somebody has taken the reports.

    `look` gives the version whose sources are looked at, `spark` the session that reads Delta tables. What a poll has
    left is tried again as `retries` says.
    """

    def __init__(
        self,
        store: Hummock,
        tables: Collection[str],
        look: Callable[[], Version],
        retries: BackOff,
        spark: Spark = no_spark,
    ) -> None:
        self._store, self._tables, self._look = store, frozenset(tables), look
        self._spark = spark
        self._changed = threading.Condition()
        self._reports: Sequence[SourceReport] = ()
        self._closed = threading.Event()
        self._attempts = AttemptLog(retries)
        self._thread = threading.Thread(target=self._poll_until_closed, name="polling", daemon=True)
        self._thread.start()

    @property
    def has_news(self) -> bool:
        """Whether a source has landed or told something that nobody has taken."""
        return bool(self._reports)

    def wait(self, seconds: float) -> bool:
        """Wait until there is news, so long at most; tell whether there is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.has_news, seconds)

    def take_reports(self) -> Sequence[SourceReport]:
        """Return what sources did since this was asked last, one report a table; the next poll may begin."""
        reports, self._reports = self._reports, ()
        return reports

    def close(self) -> None:
        """Let the poll that is under way end; no other begins."""
        self._closed.set()
        self._thread.join(CLOSE_SECONDS)

    def _poll_until_closed(self) -> None:
        trouble = ""
        while not self._closed.wait(LOOK_SECONDS):
            if self.has_news:
                continue
            try:
                self._poll_once()
                trouble = ""
            except Exception as error:  # a store that does not answer may be well again
                if str(error) != trouble:
                    trouble = str(error)
                    expected = isinstance(error, TidelineError)
                    _LOG.warning("sources could not be polled: %s", error, exc_info=not expected)

    def _poll_once(self) -> None:
        catalog = load_catalog(self._look()).catalog
        count, digest = compute_pending_digest(catalog, self._store, self._tables)
        now = self._store.clock.monotonic()
        if not count or not self._attempts.is_due(digest, now):
            return
        found = poll_all(catalog, self._store, self._tables, self._spark)
        self._attempts.record(digest, now)
        with self._changed:
            self._reports = [one for one in found if one.epoch is not None or one.error or one.warnings]
            self._changed.notify_all()
