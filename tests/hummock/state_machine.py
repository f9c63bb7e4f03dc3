"""Every public verb in any order against a dictionary of versions: `python -m tests.hummock.state_machine --steps 20000`.

Two handles and a second process of the machine work on one store. Any write or compaction may crash at any request; whether a
crashed write was committed is read off the manifests, not asked of the engine.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from engine.errors import (
    Conflict,
    EpochExpired,
    Fenced,
    InvalidRow,
    InvariantViolation,
    StorageError,
    TableExists,
    UnknownTable,
)
from engine.hummock import Commit, Delete, Hummock, Put, Table
from engine.hummock.compaction import (
    Full,
    Level,
    Picker,
    SpaceReclaim,
    Tier,
    ToBase,
    Tombstone,
    TrivialMove,
    Ttl,
    VnodeAlignment,
    Watermark,
)
from engine.hummock.compaction.worker import CompactionWorker
from engine.hummock.epoch import epoch_at
from engine.hummock.manifest import decode, manifest_path
from engine.hummock.object_store.faulty import Crashed, FaultPlan, FaultyObjectStore
from engine.hummock.pins import Pin
from tests.hummock.other_process import AheadClock, DatedObjectStore, OtherProcess
from tests.hummock.small import small_sizes
from tests.hummock.table_model import KEYS, Key, Modelled, Rows, Written

RETENTION = 600.0
NAMES = ("x", "y", "z")
names = st.sampled_from(NAMES)
a_values, b_values = st.integers(0, 3) | st.none(), st.sampled_from(["", "x", "y"]) | st.none()
row_keys = st.tuples(a_values, b_values)
puts = st.dictionaries(row_keys, st.integers(0, 3), max_size=6)
deletes = st.sets(row_keys, max_size=4)
handles = st.integers(0, 1)
expiries = st.sampled_from([None, "ttl", "watermark"])
PICKERS: dict[str, Callable[[Hummock], Picker]] = {
    "full": lambda store: Full(),
    "tier": lambda store: Tier(),
    "to base": lambda store: ToBase(),
    "level": lambda store: Level(),
    "tombstone": lambda store: Tombstone(least_rows=1),
    "trivial move": lambda store: TrivialMove(least_rows=1),
    "vnode alignment": lambda store: VnodeAlignment(4),
    "space reclaim": lambda store: SpaceReclaim(store.version, share=0.0),
    "ttl": lambda store: Ttl(epoch_at(store.clock() - RETENTION), share=0.0),
    "watermark": lambda store: Watermark(epoch_at(store.clock() - RETENTION), share=0.0),
}
pickers = st.sampled_from(sorted(PICKERS))
requests = st.none() | st.integers(1, 12)
choices = st.integers(0, 1 << 16)
"""Taken modulo the number of what there is to choose from: what is drawn must not depend on times and crashes."""
SHARED = Path("/dev/shm")


class Engine(RuleBasedStateMachine):
    """The store against the dictionary of versions."""

    steps: ClassVar[int] = 0
    other: ClassVar[OtherProcess] = OtherProcess()

    def __init__(self) -> None:
        super().__init__()
        base = SHARED if SHARED.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(prefix="tideline-machine-", dir=base))
        self.clock = AheadClock()
        self.inner = DatedObjectStore(self.folder / "store", self.clock)
        self.stores: list[Hummock | None] = [None, None]
        self.objects: list[FaultyObjectStore | None] = [None, None]
        self.tables: dict[str, Modelled] = {}
        self.generations: dict[str, int] = {}
        self.done = self.added = 0
        self.verbs: list[str] = []
        self.pins: list[tuple[int, Pin, float]] = []

    def step(self) -> None:
        """Count a verb, and take down which it was."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_name in ("step", "crashing", "write"):
            frame = frame.f_back
        assert frame is not None
        given = {n: v for n, v in frame.f_locals.items() if n not in ("self", "store", "model")}
        self.verbs.append(f"{frame.f_code.co_name} {given}")
        self.done += 1
        Engine.steps += 1

    def teardown(self) -> None:
        """Let go of the store."""
        for store in self.stores:
            if store is not None:
                store.close()
        shutil.rmtree(self.folder)

    def store(self, who: int) -> Hummock:
        """A handle, opened if it was closed or has crashed, that knows the newest version."""
        opened = self.stores[who]
        if opened is None:
            self.objects[who] = objects = FaultyObjectStore(self.inner, FaultPlan(0, 0.0), self.clock)
            opened = self.stores[who] = Hummock.open(
                (self.folder / "store").as_uri(),
                cache_dir=self.folder / f"cache{who}",
                retention_seconds=RETENTION,
                object_store=objects,
                clock=self.clock,
            )
        opened.refresh()
        return opened

    def crashing(self, who: int, at: int | None, work: Callable[[Hummock], Any]) -> tuple[bool, Any]:
        """Do `work`; with `at` the process dies at that request of it. Whether it survived, and the result."""
        self.step()
        store = self.store(who)
        objects = self.objects[who]
        assert objects is not None
        objects.plan.crash_at = None if at is None else objects.requests + at
        try:
            return True, work(store)
        except Crashed:
            objects.settle()
            self.stores[who] = None
            return False, None
        finally:
            objects.plan.crash_at = None

    def write(
        self, who: int, at: int | None, work: Callable[[Hummock], Any], *afters: dict[str, Written]
    ) -> None:
        """Do writes that lead to `afters`, and take down which of them were committed: all, or after a crash the first."""
        number = self.store(who).version.number
        survived, _ = self.crashing(who, at, work)
        expected = iter(afters)
        committed = 0
        while (data := self.inner.get(manifest_path(number := number + 1))) is not None:
            for delta in decode(data, "").deltas:
                if not delta.labels:
                    continue  # a compaction that came with the write
                committed += 1
                after = next(expected)
                assert set(after) == set(delta.labels)
                for name, written in after.items():
                    assert delta.labels[name] > self.tables[name].past[-1].label
                    labelled = dataclasses.replace(written, label=delta.labels[name])
                    self.tables[name].past.append(labelled)
        assert committed == len(afters) or not survived

    @initialize(expires=expiries)
    def begin(self, expires: str | None) -> None:
        """A store with one table of each order, one of them with rows that expire or not."""
        self.create(0, "x", ("a",), None, None)
        self.create(1, "y", (), expires, None)

    @rule(
        who=handles,
        name=names,
        distribution=st.sampled_from([("a",), ("a", "b"), ()]),
        expires=expiries,
        at=requests,
    )
    def create(
        self, who: int, name: str, distribution: tuple[str, ...], expires: str | None, at: int | None
    ) -> None:
        """Create a table, maybe one whose rows expire; a name that is taken is refused."""
        made = Modelled(0, distribution, expires=expires)

        def work(store: Hummock) -> Table:
            return store.create_table(name, made.schema(), ("a", "b"), distribution, **made.options)

        if name in self.tables:
            with pytest.raises(TableExists):
                work(self.store(who))
            return
        self.crashing(who, at, work)
        found = self.store(who).version.tables.get(name)
        if found is not None:
            self.tables[name] = dataclasses.replace(made, table_id=found.table_id)

    @rule(who=handles, name=names, at=requests)
    def drop(self, who: int, name: str, at: int | None) -> None:
        """Drop a table; one that is not there is refused."""
        if name not in self.tables:
            with pytest.raises(UnknownTable):
                self.store(who).drop_table(name)
            return
        if len(self.tables) > 1:
            self.crashing(who, at, lambda store: store.drop_table(name))
            if name not in self.store(who).version.tables:
                del self.tables[name]

    @rule(who=handles, name=names, default=st.none() | st.integers(5, 6), add=st.booleans())
    def alter(self, who: int, name: str, default: int | None, add: bool) -> None:
        """Add a column of a new name, or take the last one away."""
        model = self.tables.get(name)
        if model is None:
            return
        self.step()
        columns = dict(model.columns)
        if add:
            self.added += 1
            columns[f"c{self.added}"] = default
            new = dataclasses.replace(model, columns=columns).schema().field(f"c{self.added}")
            self.store(who).alter_table(name, add=[new])
        elif len(columns) > 1:
            gone, _ = columns.popitem()
            self.store(who).alter_table(name, drop=[gone])
        model.columns = columns

    @rule(
        who=handles,
        several=st.lists(
            st.dictionaries(names, st.tuples(puts, deletes), min_size=1), min_size=1, max_size=4
        ),
        batch=st.booleans(),
        at=requests,
    )
    def ingest(
        self,
        who: int,
        several: list[dict[str, tuple[dict[Key, int], set[Key]]]],
        batch: bool,
        at: int | None,
    ) -> None:
        """Write to several tables atomically, some times in a row, by ingest_batch or gathered."""
        for writes in several:
            known = {name: write for name, write in writes.items() if name in self.tables}
            if known:
                self._ingest(who, known, batch, at)

    def _ingest(
        self, who: int, known: dict[str, tuple[dict[Key, int], set[Key]]], batch: bool, at: int | None
    ) -> None:
        given = {n: (self.tables[n].rows(values), _keys(gone)) for n, (values, gone) in known.items()}

        def work(store: Hummock) -> int:
            if not batch:
                return store.ingest_batch({n: [Put(rows), Delete(keys)] for n, (rows, keys) in given.items()})
            with store.epoch() as gathered:
                for name, (rows, keys) in given.items():
                    gathered.put(name, rows)
                    gathered.delete(name, keys)
            assert gathered.result_epoch is not None
            return gathered.result_epoch

        now = self.clock()
        self.write(who, at, work, {n: self.tables[n].after(*write, now) for n, write in known.items()})

    @rule(who=handles, name=names, writes=st.lists(puts, min_size=1, max_size=3), at=requests)
    def hand_over(self, who: int, name: str, writes: list[dict[Key, int]], at: int | None) -> None:
        """Hand epochs over to the shared buffer: they are seen as pending at once, and committed in their order."""
        if name not in self.tables:
            return
        model, now = self.tables[name], self.clock()
        afters: list[Written] = []
        for values in writes:
            afters.append(model.after(values, set(), now, afters[-1].rows if afters else None))

        def work(store: Hummock) -> None:
            objects = self.objects[who]
            assert objects is not None
            sealed = []
            try:
                for values, after in zip(writes, afters, strict=True):
                    with store.epoch(wait=False) as batch:
                        batch.put(name, model.rows(values))
                    sealed.append(batch.sealed)
                    expected = model.seen(after.rows, after.watermark, epoch_at(self.clock()))
                    assert _read(store.iter(name, pending=True)) == expected or objects.crashed
                store.buffer.flush()
                epochs = [each.result() for each in sealed if each is not None]
                assert epochs == sorted(set(epochs))
            except StorageError:
                if not objects.crashed:
                    raise
            if objects.crashed:
                raise Crashed("in a thread of the buffer")

        self.write(who, at, work, *({name: after} for after in afters))

    @rule(who=handles, name=names, values=puts, at=requests, writes=st.booleans())
    def commit_labelled(
        self, who: int, name: str, values: dict[Key, int], at: int | None, writes: bool
    ) -> None:
        """Write as a view does, with the epoch of its inputs as label; or move the committed epoch only."""
        model = self.tables.get(name)
        store = self.store(who)
        if model is None or store.version.epoch <= store.version.tables[name].committed_epoch:
            return
        label = store.version.epoch
        rows = model.rows(values).append_column("_op", pa.array([0] * len(values), pa.uint8()))

        def work(store: Hummock) -> int:
            ssts = store.reader.write_run(store.table(name), rows) if writes else []
            return store.commit(Commit(writes={name: ssts}, epochs={name: label})).epoch

        after = model.after(values if writes else {}, set(), self.clock())
        self.write(who, at, work, {name: after})

    @rule(who=handles, name=names, by=st.integers(1, 2), at=requests)
    def raise_watermark(self, who: int, name: str, by: int, at: int | None) -> None:
        """Hide the rows below a higher watermark; one that does not rise is refused."""
        model = self.tables.get(name)
        if model is None or model.expires != "watermark":
            return
        new = (model.watermark or 0) + by
        after = dataclasses.replace(model.after({}, set(), self.clock()), watermark=new)
        self.write(who, at, lambda store: store.set_watermark(name, new), {name: after})
        if model.watermark is not None:
            with pytest.raises(InvariantViolation):
                self.store(who).set_watermark(name, model.watermark)

    @rule(who=handles, writer=st.sampled_from(["job", "other"]))
    def claim(self, who: int, writer: str) -> None:
        """Take over as a writer."""
        self.step()
        generation = self.store(who).claim(writer)
        assert generation == self.generations.get(writer, 0) + 1
        self.generations[writer] = generation

    @precondition(lambda self: any(at > 1 for at in self.generations.values()))
    @rule(who=handles)
    def be_fenced(self, who: int) -> None:
        """A commit of an older generation is refused."""
        self.step()
        writer, newest = next((w, at) for w, at in self.generations.items() if at > 1)
        with pytest.raises(Fenced):
            self.store(who).commit(Commit(catalog={"k": "v"}, writer=writer, generation=newest - 1))

    @rule(who=handles, name=names, part=st.sampled_from(["acks", "pins"]), choice=st.none() | choices)
    def hold(self, who: int, name: str, part: str, choice: int | None) -> None:
        """Pin or acknowledge a readable epoch, let go, or fail to hold one that has expired."""
        if name not in self.tables:
            return
        self.step()
        store = self.store(who)
        table = store.version.tables[name]
        epoch = None if choice is None else _chosen(self.readable(store, name), choice)
        store.commit(Commit(**{part: {name: {f"holder{who}": epoch}}}))
        if table.safe_epoch > 0:
            with pytest.raises(Conflict):
                store.commit(Commit(**{part: {name: {"late": table.safe_epoch - 1}}}))

    @rule(who=handles, name=names, choice=choices, seconds=st.sampled_from([50.0, 4000.0]))
    def pin(self, who: int, name: str, choice: int, seconds: float) -> None:
        """Keep an epoch readable for a time."""
        if name in self.tables:
            self.step()
            store = self.store(who)
            epoch = _chosen(self.readable(store, name), choice)
            pin = store.pin(name, epoch, seconds=seconds)
            self.pins.append((self.tables[name].table_id, pin, self.clock() + seconds))

    @precondition(lambda self: self.pins)
    @rule(who=handles, choice=choices)
    def unpin(self, who: int, choice: int) -> None:
        """Let go of a pin, maybe of one whose time is over."""
        self.step()
        table_id, pin, _ = held = _chosen(self.pins, choice)
        self.pins.remove(held)
        model = self.tables.get(pin.table)
        if model is not None and model.table_id == table_id:
            self.store(who).unpin(pin)

    @rule(who=handles, name=names, picker=pickers, at=requests)
    def compact(self, who: int, name: str, picker: str, at: int | None) -> None:
        """Merge what any picker picks."""
        if name in self.tables:
            self.crashing(who, at, lambda store: store.compact(name, PICKERS[picker](store)))

    @rule(who=handles, at=requests)
    def compact_what_needs_it(self, who: int, at: int | None) -> None:
        """Do what a compactor of its own does."""
        self.crashing(who, at, lambda store: CompactionWorker(store, f"worker{who}").once())

    @rule(who=handles, grace=st.sampled_from([100.0, 3600.0]), at=requests, dry_run=st.booleans())
    def collect(self, who: int, grace: float, at: int | None, dry_run: bool) -> None:
        """Collect garbage; a dry run deletes nothing."""
        other = self.stores[1 - who]
        if other is not None:
            other.refresh()  # a handle that reads a version older than the grace time has no promise
        before = {info.path for info in self.inner.list("")}
        self.crashing(who, at, lambda store: store.gc(dry_run=dry_run, grace_seconds=grace))
        if dry_run:
            assert {info.path for info in self.inner.list("")} == before

    @rule(seconds=st.sampled_from([1.0, 200.0, 400.0, 5000.0]))
    def let_time_pass(self, seconds: float) -> None:
        """Nothing happens."""
        self.clock.ahead += seconds

    @rule(who=handles)
    def reopen(self, who: int) -> None:
        """Close a handle; the next verb opens the store again."""
        self.step()
        store = self.stores[who]
        if store is not None:
            store.close()
        self.stores[who] = None

    @rule(
        name=names,
        verb=st.sampled_from(["compact", "compact_l0", "gc", "compactor"]),
        kill=st.integers(0, 19),
    )
    def work_in_another_process(self, name: str, verb: str, kill: int) -> None:
        """Compact or collect in a second process of the machine, which is killed at it now and then."""
        if name not in self.tables:
            return
        self.step()
        for store in self.stores:
            if store is not None:
                store.refresh()
        arguments: dict[str, Any] = {"table": name} if verb in ("compact", "compact_l0") else {}
        place = (self.folder / "store", self.folder / "cache0")
        self.other.order(*place, self.clock.ahead, verb, **arguments)
        if kill:
            self.other.wait()
        else:
            self.other.kill()

    @rule(who=handles, name=names, key=row_keys)
    def get(self, who: int, name: str, key: Key) -> None:
        """Look one row up."""
        if name in self.tables:
            self.step()
            found = self.store(who).get(name, {"a": key[0], "b": key[1]})
            expected = self.tables[name].at(self.newest(who, name)).get(key)
            assert found == (None if expected is None else {"a": key[0], "b": key[1], **expected})

    @rule(who=handles, name=names, keys=st.lists(row_keys, max_size=6), choice=choices)
    def multi_get(self, who: int, name: str, keys: list[Key], choice: int) -> None:
        """Look rows up at some readable epoch, absent ones and repeated ones among them."""
        if name in self.tables:
            self.step()
            store = self.store(who)
            epoch = _chosen(self.readable(store, name), choice)
            expected = self.tables[name].at(epoch)
            column = next(iter(self.tables[name].columns))
            found = store.multi_get(name, _keys(keys), epoch, [column]).column(column).to_pylist()
            assert found == [expected.get(key, {}).get(column) for key in keys]

    @rule(
        who=handles,
        name=names,
        a=a_values,
        choice=choices,
        how=choices,
        bound=st.sampled_from([0, 1 << 60, -(1 << 62)]),
    )
    def scan(self, who: int, name: str, a: int | None, choice: int, how: int, bound: int) -> None:
        """Read a table, a prefix, a key range or a hash range, at some readable epoch."""
        if name not in self.tables:
            return
        self.step()
        store, model = self.store(who), self.tables[name]
        epoch = _chosen(self.readable(store, name), choice)
        rows = model.at(epoch)
        kinds = ["whole", "halves"]
        if "b" not in model.distribution:
            kinds.append("prefix")
        if not model.distribution:
            kinds.append("range")
        kind = _chosen(kinds, how)
        if kind == "prefix":
            found = _read(store.iter(name, prefix={"a": a}, epoch=epoch))
            assert found == {key: row for key, row in rows.items() if key[0] == a}
        elif kind == "range":
            found = _read(store.iter(name, epoch=epoch, range=({"a": 1}, {"a": 3})))
            assert found == {key: row for key, row in rows.items() if key[0] in (1, 2)}
        elif kind == "halves":
            low, high = (-(1 << 63), bound), (bound + 1, (1 << 63) - 1)
            parts = [_read(store.iter(name, epoch=epoch, hash_range=part)) for part in (low, high)]
            assert not set(parts[0]) & set(parts[1])
            assert {**parts[0], **parts[1]} == rows
        else:
            assert _read(store.iter(name, epoch=epoch)) == rows

    @rule(who=handles, name=names, one=choices, other=choices)
    def read_log(self, who: int, name: str, one: int, other: int) -> None:
        """The log nets to the difference of two readable epochs."""
        if name not in self.tables:
            return
        self.step()
        store, model = self.store(who), self.tables[name]
        epochs = self.readable(store, name)
        after, upto = sorted([_chosen(epochs, one), _chosen(epochs, other)])
        old, new = model.at(after), model.at(upto)
        expected = {}
        written = model.touched(after, upto)  # a row that only hides is no change in the log
        for key in {**old, **new}:
            if key in written and old.get(key) != new.get(key):
                op = "insert" if key not in old else "delete" if key not in new else "update"
                expected[key] = (op, new.get(key), old.get(key))
        found = {}
        for batch in store.iter_log(name, after, upto):
            for row in batch.to_pylist():
                key = (row["a"], row["b"])
                assert key not in found
                now = None if row["_op"] == "delete" else {n: row[n] for n in model.columns}
                was = None if row["_op"] == "insert" else {n: row[f"_old_{n}"] for n in model.columns}
                found[key] = (row["_op"], now, was)
        assert found == expected

    @rule(who=handles, name=names)
    def read_what_has_expired(self, who: int, name: str) -> None:
        """Below the safe epoch reads and logs are refused."""
        store = self.store(who)
        if name in self.tables and (safe := store.version.tables[name].safe_epoch) > 0:
            self.step()
            with pytest.raises(EpochExpired):
                list(store.iter(name, epoch=safe - 1))
            with pytest.raises(EpochExpired):
                list(store.iter_log(name, safe - 1))

    @rule(who=handles, name=names)
    def write_nonsense(self, who: int, name: str) -> None:
        """Rows that do not fit are refused and leave no trace."""
        if name in self.tables:
            self.step()
            store = self.store(who)
            number = store.version.number
            with pytest.raises(InvalidRow):
                store.ingest_batch({name: Put(pa.table({"a": [1]}))})
            assert store.refresh().number == number

    @invariant()
    def newest_content_and_history_are_as_they_must_be(self) -> None:
        """Each table reads as the dictionary says, now and at its oldest epoch; holds and retention are kept."""
        if not self.tables:
            return
        who = self.done % 2
        store = self.store(who)
        assert set(store.version.tables) == set(self.tables)
        stored = {info.path for info in self.inner.list("sst/")}
        for table_id, pin, until in self.pins:
            table = store.version.tables.get(pin.table)
            if table is not None and table.table_id == table_id and self.clock() < until:
                assert table.pins[pin.name] == pin.epoch
        for name, model in self.tables.items():
            table = store.version.tables[name]
            assert table.objects() <= stored
            assert all(table.safe_epoch <= e for e in (*table.acks.values(), *table.pins.values()))
            assert table.safe_epoch <= max(0, epoch_at(self.clock() - RETENTION))
            for epoch in {self.newest(who, name), self.readable(store, name)[0]}:
                found = _read(store.iter(name, epoch=epoch))
                assert found == model.at(epoch), self.difference(name, epoch, found)

    def difference(self, name: str, epoch: int, found: Rows) -> str:
        """What a wrong read is explained by: what was read, what was written, the runs, the manifests, the verbs."""
        numbers = [None if store is None else store.version.number for store in self.stores]
        store = self.store(self.done % 2)
        table = store.version.tables[name]
        manifests = []
        for number in range(max(1, store.version.number - 12), store.version.number + 1):
            data = self.inner.get(manifest_path(number))
            manifests.append(f"{number}: {None if data is None else decode(data, '').deltas}")
        lines = [
            f"table {name} at epoch {epoch} (committed {table.committed_epoch}, safe {table.safe_epoch})",
            f"read: {found}",
            f"read again: {_read(store.iter(name, epoch=epoch))}",
            f"must be: {self.tables[name].at(epoch)}",
            f"handles at versions {numbers}, verb by {self.done % 2}",
            f"table: {table}",
            *(f"written: {each}" for each in self.tables[name].past[-6:]),
            *manifests,
            *self.verbs[-12:],
        ]
        return "\n".join(lines)

    def newest(self, who: int, name: str) -> int:
        """The epoch that a read without one sees."""
        committed = self.store(who).version.tables[name].committed_epoch
        return epoch_at(self.clock()) if self.tables[name].expires == "ttl" else committed

    def readable(self, store: Hummock, name: str) -> list[int]:
        """Epochs of the table that can be read as they were, and the newest."""
        table, model = store.version.tables[name], self.tables[name]
        labels = [each.label for each in model.past if each.label >= table.safe_epoch]
        if model.expires == "ttl":  # rows that were hidden all the retention may have been deleted
            held = table.held_from(epoch_at(self.clock() - RETENTION))
            return sorted({each for each in labels if each >= held} | {self.newest(self.done % 2, name)})
        return sorted({*labels, table.committed_epoch, table.safe_epoch} - {0}) or [table.committed_epoch]


def _chosen(among: Sequence[Any], choice: int) -> Any:
    return among[choice % len(among)]


def _keys(keys: Any) -> pa.Table:
    return pa.table({"a": [k[0] for k in keys], "b": [k[1] for k in keys]}, schema=KEYS)


def _read(batches: Any) -> Rows:
    found: Rows = {}
    for batch in batches:
        for row in batch.to_pylist():
            key = (row.pop("a"), row.pop("b"))
            assert key not in found
            found[key] = row
    return found


def run(steps: int, seed: int | None = None) -> int:
    """Run machines until `steps` verbs have been tried; raises what Hypothesis found."""
    length = 50
    found = settings(
        max_examples=max(1, steps // 40),
        stateful_step_count=length,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )
    Engine.steps = 0
    try:
        with small_sizes():
            while Engine.steps < steps:
                run_state_machine_as_test(Engine, settings=found)
    finally:
        Engine.other.kill()
    return Engine.steps


def main() -> None:
    """Run a number of steps and say how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    print(f"{run(parser.parse_args().steps):,} steps without a mismatch")


if __name__ == "__main__":
    main()
