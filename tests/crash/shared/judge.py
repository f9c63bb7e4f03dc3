"""What must hold of the views of a program: after a run each is right or says why not, after a crash nothing is half."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.hummock import Hummock, Version
from engine.hummock.object_store import open_object_store
from engine.hummock.upkeep.gc import list_needed_objects
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.domains.domain import Domain, list_domains
from engine.meta.domains.failures import list_failures
from engine.meta.epochs.content import Content
from engine.meta.status.relation_status import list_lagging_views
from engine.runtime.epoch.report import FlushReport, ViewReport
from tests.crash.broken import Broken
from tests.crash.edges import bag
from tests.crash.shared.views import KINDS, View
from tests.oracle.batch import duckdb_over

Tables = Mapping[str, pa.Table]


class Judge:
    """Holds what a store has durably against DuckDB over the tables as they were after each write."""

    def __init__(self, url: str, views: Sequence[View]) -> None:
        self.store = Hummock.open(url, auto_compact="off")
        self.disk = open_object_store(url)
        self.views = {view.name: view for view in views}
        self.moments: list[Tables] = []
        self.in_time = self.kept_back = 0
        self._database = duckdb_over({})
        self._right: dict[tuple[str, int], Counter[Any] | None] = {}
        self._suspects: dict[tuple[str, int], bool] = {}

    def close(self) -> None:
        """Let go of the store."""
        self._database.close()
        self.store.close()

    def add_moment(self, tables: Tables) -> None:
        """Take note of what the tables hold after one more write."""
        self.moments.append(tables)

    def compute(self, view: str, moment: int) -> Counter[Any] | None:
        """Return the right content of a view after so many writes, None where a bad row lets it have none."""
        at = (view, moment)
        if at not in self._right:
            self._compute_all(moment)
        return self._right[at]

    def is_poisoned(self, view: str, moment: int) -> bool:
        """Tell whether a view reads a row that makes its own expression fail."""
        self.compute(view, moment)
        return self._suspects[view, moment]

    def _compute_all(self, moment: int) -> None:
        with self._database.cursor() as duck:
            duck.execute("SET TimeZone='UTC'")
            for name, rows in self.moments[moment].items():
                duck.register(name, rows)
            for view in self.views.values():
                at = (view.name, moment)
                bad = bool(view.suspects and duck.sql(view.suspects).fetchall()[0][0])
                below = [name for name in view.reads if name in self.views]
                known = all(self._right[name, moment] is not None for name in below)
                self._suspects[at], self._right[at] = bad, None
                if known and not bad:
                    rows = duck.sql(view.duck).to_arrow_table()
                    self._right[at] = bag(rows)
                    duck.register(view.name, rows)
                elif view.copies is not None:
                    raise Broken(f"{view.name} copies what may fail: the program is wrong")

    def judge_run(self, report: FlushReport) -> None:
        """Check every view after a run that has returned: it is right and in time, or held up by its own fault or its inputs'."""
        version = self.store.refresh()
        now, bad = len(self.moments) - 1, dict[str, bool]()
        reports = {one.view: one for one in report.views}
        stored = load_catalog(version)
        lagging = set(list_lagging_views(version, stored))
        content = Content(version, stored.inputs)
        for domain in list_domains(stored).values():
            members = [self.views[name] for name in domain.members if name in self.views]
            waits = any(bad[upstream] for upstream in domain.upstreams)
            own = [view for view in members if self.is_poisoned(view.name, now)]
            bad[domain.name] = waits or bool(own)
            for view in members:
                one = reports.get(view.name)
                if one is None:
                    raise Broken(f"no report tells of {view.name}")
                if bad[domain.name]:
                    self._check_error(one, own, waits)
                    self.kept_back += 1
                    continue
                if one.error is not None or one.waits_for is not None:
                    raise Broken(f"{view.name} is not to blame: {one.error or one.waits_for}")
                self._check_content(version, view.name, now)
                if view.name in lagging or content.find_newest(view.name, version.epoch) != version.epoch:
                    raise Broken(f"{view.name} is right and not at the newest epoch")
                self.in_time += 1
            if bad[domain.name]:
                self._check_domain(version, domain)
        strange = list_failures(version).keys() - {name for name, is_bad in bad.items() if is_bad}
        if strange:
            raise Broken(f"failures are remembered of domains that are fine: {sorted(strange)}")
        self._check_files(version)

    def judge_crash(self) -> None:
        """Check after a crash that the views of each domain are together what they were after one of the writes."""
        version = self.store.refresh()
        for domain in list_domains(load_catalog(version)).values():
            self._check_domain(version, domain)
        self._check_files(version)

    def judge_end(self) -> None:
        """Check, when all is mended and collected, that no failure is remembered and no object is left that nothing refers to."""
        version = self.store.refresh()
        for name in self.views:
            self._check_content(version, name, len(self.moments) - 1)
        if found := list_failures(version):
            raise Broken(f"failures are remembered that are over: {sorted(found)}")
        needed = list_needed_objects(version, 0)
        left = [info.path for info in self.disk.list("sst/") if info.path not in needed]
        if left:
            raise Broken(f"{len(left)} objects are left that nothing refers to: {left[:3]}")

    def _check_error(self, one: ViewReport, own: Sequence[View], waits: bool) -> None:
        words = [word for view in own if view.fails is not None for word in KINDS[view.fails].words]
        if one.error is None:
            if not waits:
                raise Broken(f"{one.view} reads a bad row, and reports {one.waits_for!r} and no error")
        elif not any(word in one.error for word in words):
            raise Broken(f"{one.view} may fail by {words}, and reports: {one.error}")

    def _check_content(self, version: Version, name: str, moment: int) -> None:
        held, wanted = self._read(version, name), self.compute(name, moment)
        assert wanted is not None
        if held != wanted:
            missing, extra = (
                list((wanted - (held or Counter())).items()),
                list(((held or Counter()) - wanted).items()),
            )
            at = [n for n in range(moment) if held is not None and held == self.compute(name, n)][-1:]
            raise Broken(
                f"{name} is not right: missing {missing[:5]}, too many {extra[:5]}; it is as after write {at} of {moment}: "
                f"{self.views[name].spark}"
            )

    def _check_domain(self, version: Version, domain: Domain) -> None:
        """The views of a domain are all computed or none is, and hold what is right after one and the same write."""
        names = [name for name in domain.members if name in self.views]
        held = {name: self._read(version, name) for name in names}
        if not names or all(rows is None for rows in held.values()):
            return
        for moment in self._list_moments():
            if all(held[name] is not None and held[name] == self.compute(name, moment) for name in names):
                return
        texts = {name: self.views[name].spark for name in names}
        raise Broken(f"domain {domain.name} is at no moment what its queries are: {held}: {texts}")

    def _list_moments(self) -> Iterator[int]:
        return reversed(range(len(self.moments)))

    def _read(self, version: Version, name: str) -> Counter[Any] | None:
        """Return the rows that a view durably has, None before its first content."""
        table = find_computed_table(version, name)
        if table is None:
            return None
        shown = [column.name for column in load_catalog(version).catalog.get(name).visible_columns]
        rows = Counter[Any]()
        for batch in self.store.reader.scan(table, table.committed_epoch, columns=shown):
            rows += bag(batch.select(shown))
        return rows

    def _check_files(self, version: Version) -> None:
        stored = {info.path for info in self.disk.list("sst/")}
        for name, table in version.tables.items():
            if missing := table.list_objects() - stored:
                raise Broken(f"files of {name} were deleted: {sorted(missing)[:3]}")
