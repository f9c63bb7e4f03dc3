"""What must hold at any moment, read from a store without Spark: the invariants of the control plane, and views against batch runs."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import EpochFailed
from engine.hummock import Hummock, Version
from engine.hummock.epoch import Clock, seconds_of
from engine.hummock.manifests.manifest import decode_manifest, manifest_path, parse_manifest_number
from engine.hummock.object_store import ObjectStore
from engine.meta.catalog.replaced_queries import list_replaced_tables
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.catalog.successions import list_successions
from engine.meta.domains.creation import CREATED, find_computed_table, list_creations
from engine.meta.domains.domain import find_domain_name, list_domains
from engine.meta.domains.failures import list_failures
from engine.meta.domains.mutation import read_control
from engine.meta.domains.quarantine import QUARANTINES, list_quarantined_views, read_quarantine
from engine.meta.epochs.frontier import compute_frontiers, find_expiry_epoch
from engine.meta.epochs.query_policy import choose_epochs
from engine.meta.epochs.retention import READERS_SECONDS
from engine.meta.status.sinks import list_consumers, list_sinks
from engine.meta.status.waits import list_quarantine_waits, list_waits
from tests.crash.asked import AskedMutations
from tests.crash.broken import Broken
from tests.crash.edges import bag
from tests.crash.meeting import check_meeting
from tests.crash.reference import at_moment, run
from tests.crash.tables import TABLES
from tests.hummock.kept_fingerprints import list_wrong_fingerprints


class Checks:
    """Checks a store again and again, and remembers what it saw; `texts` are the queries of the views that there should be."""

    store: Hummock
    clock: Clock
    disk: ObjectStore
    """The objects of the store, without faults."""

    def __init__(self, chance: random.Random) -> None:
        self.random = chance
        self.texts: dict[str, str] = {}
        self.since: dict[str, int] = {}
        """From which epoch on a view certainly has the content of its query: before, perhaps of one that it had before."""
        self._due: set[str] = set()
        self.left_behind: set[str] = set()
        self.looked_through = 0
        self.began: set[tuple[str, int]] = set()
        self.seen: dict[tuple[str, int], Counter] = {}
        self.expected: dict[tuple[str, int, int], Counter] = {}
        self.contents: dict[tuple[int, str, int], Counter] = {}
        self.committed: dict[str, int] = {}
        self.asked: dict[str, int] = {}
        self.in_force = AskedMutations()

    def check(self) -> None:
        """Check the invariants that hold at any moment."""
        version = self.store.refresh()
        self.contents = {}
        self._look_through_new_manifests()
        self._epochs_rise(version)
        self._files_exist(version)
        self._consumers_can_go_on(version)
        self._nobody_reads_what_is_not_whole(version)
        self._views_equal_their_queries(version)
        self._note_replaced(version)
        whole = {name: text for name, text in self.texts.items() if name not in self.left_behind}
        check_meeting(version, whole, self._table, bag, self.since)
        self._the_past_stays(version)
        if wrong := list_wrong_fingerprints(self.store.reader, version):
            raise Broken(f"fingerprints are wrong: {wrong}")
        self._mutations_are_kept(version)
        self.in_force.check(version)
        stored = load_catalog(version)
        if strange := list_failures(version).keys() - list_domains(stored).keys():
            raise Broken(f"failures outlive their domains: {sorted(strange)}")
        waits = (*list_waits(version, stored, self.clock()), *list_quarantine_waits(version))
        if any(not wait.reason for wait in waits):
            raise Broken("a wait has no reason")
        if strange := set(list_quarantined_views(version)) - stored.plans.keys():
            raise Broken(f"a quarantine outlives its view: {sorted(strange)}")
        consumers = {*stored.fragments, *(c for sink in list_sinks(stored) for c in list_consumers(sink))}
        for name, table in version.tables.items():
            strange = {*table.acks, *table.pins} - consumers
            if strange:
                raise Broken(f"{name} is held by consumers that are gone: {sorted(strange)}")

    def forget(self, gone: Iterable[str]) -> None:
        """Forget what was asked of domains that have left; others may have their names by now."""
        for domain in gone:
            self.asked.pop(domain, None)
            self.in_force.forget(domain)

    def _look_through_new_manifests(self) -> None:
        """Check that none is missing, and learn which views ever had partitions in quarantine: one step may be past it already, or
        have collected the manifest that says so.
        """
        self.left_behind |= set(list_quarantined_views(self.store.version))
        found = (parse_manifest_number(info.path) for info in self.disk.list("manifest/"))
        numbers = sorted(number for number in found if number is not None)
        if numbers and numbers != list(range(numbers[0], numbers[-1] + 1)):
            raise Broken(f"manifests are not contiguous: {numbers}")
        for number in numbers:
            if number > self.looked_through and (data := self.disk.get(manifest_path(number))) is not None:
                names = (
                    name for d in decode_manifest(data, manifest_path(number)).deltas for name in d.catalog
                )
                self.left_behind |= {
                    n.removeprefix(QUARANTINES.prefix) for n in names if n.startswith(QUARANTINES.prefix)
                }
                self.looked_through = number

    def _epochs_rise(self, version: Version) -> None:
        for name, table in version.tables.items():
            key = f"{name}#{table.table_id}"
            if table.committed_epoch < self.committed.get(key, 0):
                raise Broken(f"the committed epoch of {name} went back")
            self.committed[key] = table.committed_epoch

    def _mutations_are_kept(self, version: Version) -> None:
        """Mutations of a domain are numbered; the one that was asked for last waits or was taken, and none before it is left out."""
        stored = load_catalog(version)
        there = {find_domain_name(stored, owner) for owner in stored.plans}
        self.asked = {name: number for name, number in self.asked.items() if name in there}
        for name in there:
            control = read_control(version, name)
            numbers = [control.taken, *(asked.number for asked in control.asked)]
            if numbers[1:] and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
                raise Broken(f"the mutations of domain {name} have gaps: {numbers}")
            if numbers[-1] < self.asked.get(name, 0):
                raise Broken(
                    f"mutations of domain {name} were dropped: {self.asked[name]} were asked for, {numbers} are known"
                )
            self.asked[name] = numbers[-1]

    def _files_exist(self, version: Version) -> None:
        stored = {info.path for info in self.disk.list("sst/")}
        for name, table in version.tables.items():
            missing = table.list_objects() - stored
            if missing:
                raise Broken(f"files of {name} were deleted: {sorted(missing)[:3]}")

    def _note_replaced(self, version: Version) -> None:
        """Note from which epoch on views that have got another query are computed by it."""
        due = list_replaced_tables(version)
        self.since |= dict.fromkeys(due, version.epoch + 1)
        brought = (self._due - due) & version.tables.keys()
        self.since |= {name: version.tables[name].committed_epoch for name in brought}
        self._due = set(due)

    def _consumers_can_go_on(self, version: Version) -> None:
        stored = load_catalog(version)
        known = compute_frontiers(version, stored.order, stored.inputs)
        for name in stored.order:
            own = find_computed_table(version, name)
            for upstream in stored.inputs[name]:
                if own is None or name in list_replaced_tables(
                    version
                ):  # it reads these from its next epoch on
                    continue
                if upstream not in TABLES and find_computed_table(version, upstream) is None:
                    raise Broken(f"{name} was computed from {upstream}, which is not whole")
                front = known[upstream].frontier
                if _is_known(version, stored, upstream, own.committed_epoch) and (
                    front is None or front < own.committed_epoch
                ):
                    raise Broken(f"{name} is at {own.committed_epoch}, above its input {upstream} at {front}")
                age = self.clock() - seconds_of(own.committed_epoch)
                held = version.tables[upstream].acks.get(name)
                if age < READERS_SECONDS and held is None:
                    raise Broken(f"{name} let go of the log of {upstream} too early")
                if held is None:
                    continue
                goes_on = find_expiry_epoch(version, name, own.committed_epoch, stored.inputs[name]) is None
                if (
                    held > own.committed_epoch and goes_on
                ):  # else it is about to be computed as a whole, at `held`
                    raise Broken(f"{name} is at {own.committed_epoch} and let {upstream} go up to {held}")
                if held < version.tables[upstream].safe_epoch:
                    raise Broken(f"{name} lost the log of {upstream}, which it held from {held} on")

    def _nobody_reads_what_is_not_whole(self, version: Version) -> None:
        """A view whose backfill is under way is refused to readers, alone and beside what is whole, at any epoch."""
        stored = load_catalog(version)
        for made in list_creations(version).values():
            if made.state == CREATED:
                continue
            for name in made.tables:
                if name not in self.texts or name not in stored.plans:
                    continue
                for policy in ("latest", "consistent", "global"):
                    try:
                        found = choose_epochs(version, stored, (name, *TABLES), policy)
                    except EpochFailed:
                        continue
                    raise Broken(f"{name} can be read at epoch {found[name]}, and is not whole")

    def _views_equal_their_queries(self, version: Version) -> None:
        stored = load_catalog(version)
        by_domain: dict[str, set[str]] = {}
        for name, text in self.texts.items():
            view = find_computed_table(version, name)
            if view is None or name not in stored.plans:
                continue
            epoch = view.committed_epoch
            sources = _list_sources(version, name)
            if find_expiry_epoch(version, name, epoch, sources) is not None:
                continue  # its inputs at its epoch are history that was let go
            content, wanted = self._content(name, epoch), self._result(version, name, text, epoch)
            either = Counter[tuple]()  # rows of which the shown columns do not tell whether they went
            for key, one in read_quarantine(
                version, name
            ).items():  # it holds what it held at an epoch of its own
                wanted = _without(wanted, key)
                if one.epoch is not None and find_expiry_epoch(version, name, one.epoch, sources) is not None:
                    content = _without(content, key)
                elif one.epoch is not None:
                    then = _only(self._result(version, name, text, one.epoch), key)
                    moved = _without(self._came_after(version, name, one.epoch), key)
                    stays = self._not_moved(name, then, _without(content, key) + moved)
                    wanted = wanted + stays
                    if self._key_is_hidden(name):
                        either = either + (then - stays)
            if not wanted <= content <= wanted + either:
                missing, extra = list((wanted - content).items())[:5], list((content - wanted).items())[:5]
                raise Broken(
                    f"{name} differs from its query at epoch {epoch}: missing {missing}, too many {extra}: {text}"
                )
            self._began_as_its_query(version, name, text)
            domain = stored.catalog.get(name).options.get("domain")
            if domain is not None:
                by_domain.setdefault(domain, set()).add(name)
        for domain, names in by_domain.items():
            self._is_one_state(version, domain, names)

    def _began_as_its_query(self, version: Version, name: str, text: str) -> None:
        """The first content of a view, which it may have got step by step while its inputs changed, is that of one epoch of them."""
        table, sources = version.tables[name], _list_sources(version, name)
        made = list_creations(version).get(find_domain_name(load_catalog(version), name))
        at = (name, table.table_id)
        if made is None or made.state != CREATED or name not in made.tables:
            return
        if at in self.began or name in self.left_behind:
            return
        if made.epoch < table.safe_epoch or find_expiry_epoch(version, name, made.epoch, sources) is not None:
            return
        self.began.add(at)
        if self._content(name, made.epoch) != self._result(version, name, text, made.epoch):
            raise Broken(f"{name} differs from its query at epoch {made.epoch}, of its first content: {text}")

    def _is_one_state(self, version: Version, domain: str, names: set[str]) -> None:
        """The views of a named domain commit together: all of them are what their queries give at one of their epochs.

        That is the newest one, but where the inputs of some have not changed for long and the logs of others' were released.
        """
        epochs = {version.tables[name].committed_epoch for name in names}
        if not any(
            all(self._is_content_at(version, name, epoch) for name in names)
            for epoch in sorted(epochs, reverse=True)
        ):
            raise Broken(f"domain {domain} is torn: {sorted(names)} are together at none of {sorted(epochs)}")

    def _is_content_at(self, version: Version, name: str, epoch: int) -> bool:
        """Tell whether what a view holds is what its query gives at an epoch, as far as that can be known."""
        sources = _list_sources(version, name)
        if read_quarantine(version, name) or find_expiry_epoch(version, name, epoch, sources) is not None:
            return True
        held = self._content(name, version.tables[name].committed_epoch)
        return held == self._result(version, name, self.texts[name], epoch)

    def _not_moved(self, name: str, rows: Counter, elsewhere: Counter) -> Counter:
        """Return the rows of a quarantined partition but for those whose key stood in another partition since."""
        shown = self._shown(name)
        key = [
            shown.index(c)
            for c in load_catalog(self.store.version).catalog.get(name).primary_key
            if c in shown
        ]
        there = {tuple(row[at] for at in key) for row in elsewhere}
        return Counter(
            {row: n for row, n in rows.items() if not key or tuple(row[at] for at in key) not in there}
        )

    def _came_after(self, version: Version, name: str, epoch: int) -> Counter:
        """Return the rows that came to a view after an epoch, as far as its log tells; they may have gone since."""
        table, found = version.tables[name], Counter[tuple]()
        for entry in table.log:
            if entry.epoch <= epoch:
                continue
            for batch in self.store.reader.read_changes(table, entry.epoch - 1, entry.epoch):
                came = pa.Table.from_batches([batch.filter(pc.greater(batch.column("_w"), 0))])
                found += bag(came.select(self._shown(name)))
        return found

    def _key_is_hidden(self, name: str) -> bool:
        """Whether columns that nobody sees tell a view's rows apart, so that an equal shown key may be another row's."""
        return not set(load_catalog(self.store.version).catalog.get(name).primary_key) <= set(
            self._shown(name)
        )

    def _result(self, version: Version, name: str, text: str, epoch: int) -> Counter:
        """Return what a view's query gives at an epoch; the past does not change, so what it gave once it gives again."""
        at = (name, version.tables[name].table_id, epoch)
        if at not in self.expected:
            sources = _list_sources(version, name)
            tables = {t: self._table(version, t, epoch) for t in sources}
            self.expected[at] = bag(run(at_moment(text, epoch), tables))
        return self.expected[at]

    def _the_past_stays(self, version: Version) -> None:
        """Content once read at an epoch is the same for ever, and the log between two such epochs is their difference."""
        for name in (*TABLES, *self.texts):
            table = find_computed_table(version, name)
            if table is None:
                continue
            epoch = table.committed_epoch
            self.seen.setdefault((f"{name}#{table.table_id}", epoch), self._content(name, epoch))
            older = [e for key, e in self.seen if key == f"{name}#{table.table_id}"]
            chosen = self.random.choice(older)
            if chosen >= table.safe_epoch:
                before = self.seen[(f"{name}#{table.table_id}", chosen)]
                if self._content(name, chosen) != before:
                    raise Broken(f"{name} at epoch {chosen} is not what it was")
                self._log_is_the_difference(name, table.schema.names, chosen, epoch, before)

    def _log_is_the_difference(
        self, name: str, columns: list[str], after: int, upto: int, before: Counter
    ) -> None:
        shown = self._shown(name)
        content = Counter(before)
        for batch in self.store.iter_log(name, after, upto):
            content.subtract(bag(_of(batch, [f"_old_{c}" for c in shown], "insert")))
            content.update(bag(_of(batch, shown, "delete")))
        if +content != self._content(name, upto):
            raise Broken(f"the change log of {name} in ({after}, {upto}] is not the difference")

    def _shown(self, name: str) -> list[str]:
        return [column.name for column in load_catalog(self.store.version).catalog.get(name).visible_columns]

    def _table(self, version: Version, name: str, epoch: int) -> pa.Table:
        table = version.tables[name]
        batches = list(self.store.reader.scan(table, epoch, columns=self._shown(name)))
        schema = pa.schema([table.schema.field(c) for c in self._shown(name)])
        return pa.Table.from_batches(batches, schema=schema) if batches else schema.empty_table()

    def _content(self, name: str, epoch: int | None) -> Counter:
        version = self.store.version
        at = (version.number, name, version.epoch if epoch is None else epoch)
        if at not in self.contents:
            self.contents[at] = bag(self._table(version, name, at[2]))
        return self.contents[at]


def _list_sources(version: Version, name: str) -> tuple[str, ...]:
    """Return what a view's query reads; a view that is a copy of its successor has the query of that."""
    catalog, succession = load_catalog(version).catalog, list_successions(version).get(name)
    is_copy = succession is not None and succession.copied
    return catalog.get(succession.successor if succession is not None and is_copy else name).depends_on


def _of(batch: pa.RecordBatch, columns: list[str], other: str) -> pa.RecordBatch:
    """Return columns of the changes that are not of one kind."""
    return batch.select(columns).filter(pc.not_equal(batch.column("_op"), other))


def _is_known(version: Version, stored: StoredCatalog, name: str, epoch: int) -> bool:
    """Whether what is kept of the inputs of a table tells yet that it had content at an epoch."""
    table = find_computed_table(version, name)
    label = table.find_label_upto(epoch) if table is not None else None
    inputs = stored.inputs.get(name, ())
    if label is not None and find_expiry_epoch(version, name, label, inputs) is not None:
        return label == epoch
    return all(_is_known(version, stored, upstream, epoch) for upstream in inputs)


def _only(rows: Counter, partition: str) -> Counter:
    """Return the rows of one partition, which the first column names."""
    return Counter(
        {row: n for row, n in rows.items() if ("null" if row[0] is None else str(row[0])) == partition}
    )


def _without(rows: Counter, partition: str) -> Counter:
    return rows - _only(rows, partition)
