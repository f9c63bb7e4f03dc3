"""Rules that write: tables, rows, watermarks, generations of writers."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from engine.errors import Fenced, InvalidRow, InvariantViolation, StorageError, TableExists, UnknownTable
from engine.hummock import Commit, Delete, Hummock, Put, Table, with_new_keys
from engine.hummock.epoch import epoch_at
from engine.testing.faulty import Crashed
from tests.hummock.state_machine.handles import (
    Handles,
    handles,
    key_rows,
    names,
    requests,
    row_keys,
    rows_by_key,
)
from tests.hummock.table_model import Key, Modelled, Written

puts = st.dictionaries(row_keys, st.integers(0, 3), max_size=6)
deletes = st.sets(row_keys, max_size=4)
expiries = st.sampled_from([None, "ttl", "watermark"])


class Writes(Handles):
    """Whatever changes what tables hold."""

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
        given = {n: (self.tables[n].rows(values), key_rows(gone)) for n, (values, gone) in known.items()}

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

    @rule(who=handles, name=names, values=puts, labelled=st.booleans(), at=requests)
    def insert(self, who: int, name: str, values: dict[Key, int], labelled: bool, at: int | None) -> None:
        """Write rows whose keys are new and say so, as a source or as a view."""
        model = self.tables.get(name)
        if model is None:
            return
        rows = {key: value for key, value in values.items() if key not in model.past[-1].rows}
        label = self.store(who).version.epoch
        labelled = labelled and label > self.store(who).version.tables[name].committed_epoch

        def work(store: Hummock) -> int:
            if not labelled:
                return store.ingest_batch({name: Put(model.rows(rows), new_keys=True)})
            operations = pa.array([0] * len(rows), pa.uint8())
            ssts = store.reader.write_run(
                store.table(name), model.rows(rows).append_column("_op", operations)
            )
            marked = with_new_keys(store.table(name), ssts)
            return store.commit(Commit(writes={name: marked}, epochs={name: label})).epoch

        if rows:
            self.write(who, at, work, {name: model.after(rows, set(), self.clock())})

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
                    assert rows_by_key(store.iter(name, pending=True)) == expected or objects.crashed
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
