"""Random operations against a dict per epoch."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.hummock import Delete, Hummock, Put
from tests.hummock.conftest import MovableClock

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.int64())])
KEY = st.tuples(st.integers(0, 3) | st.none(), st.sampled_from(["", "x", "y"]) | st.none())


class StoreModel(RuleBasedStateMachine):
    """Puts, deletions, compactions and reopenings; every epoch reads as it was, every log nets to the difference."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="tideline-model-")
        self.now: dict = {}
        self.past: dict[int, dict] = {}
        self.clock = MovableClock()

    def teardown(self) -> None:
        self.folder.cleanup()

    def open(self) -> None:
        base = Path(self.folder.name)
        self.store = Hummock.open((base / "s").as_uri(), cache_dir=base / "c", clock=self.clock)

    @initialize(distribution=st.sampled_from([["a"], ["a", "b"], None]))
    def create(self, distribution: list[str] | None) -> None:
        self.open()
        self.store.create_table("t", SCHEMA, ["a", "b"], distribution)

    @rule(puts=st.lists(st.tuples(KEY, st.integers(0, 2)), max_size=6), deletes=st.lists(KEY, max_size=4))
    def write(self, puts: list, deletes: list) -> None:
        rows = pa.table(
            {"a": [k[0] for k, _ in puts], "b": [k[1] for k, _ in puts], "v": [v for _, v in puts]},
            schema=SCHEMA,
        )
        keys = pa.table(
            {"a": [k[0] for k in deletes], "b": [k[1] for k in deletes]},
            schema=pa.schema([SCHEMA.field(0), SCHEMA.field(1)]),
        )
        epoch = self.store.ingest_batch({"t": [Put(rows), Delete(keys)]})
        self.now = {k: v for k, v in {**self.now, **dict(puts)}.items() if k not in deletes}
        self.past[epoch] = self.now

    @rule(full=st.booleans())
    def compact(self, full: bool) -> None:
        (self.store.compact if full else self.store.compact_l0)("t")
        safe = self.store.version.tables["t"].safe_epoch
        self.past = {epoch: rows for epoch, rows in self.past.items() if epoch >= safe}

    @rule()
    def let_time_pass_and_collect(self) -> None:
        self.clock.added += 5000
        self.store.gc(grace_seconds=100)
        safe = self.store.version.tables["t"].safe_epoch
        self.past = {epoch: rows for epoch, rows in self.past.items() if epoch >= safe}

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule(data=st.data())
    def read_the_log(self, data: st.DataObject) -> None:
        if len(self.past) < 2:
            return
        after, upto = sorted(data.draw(st.lists(st.sampled_from(sorted(self.past)), min_size=2, max_size=2)))
        old, new = self.past[after], self.past[upto]
        found = {}
        for batch in self.store.iter_log("t", after, upto):
            for row in batch.to_pylist():
                found[row["a"], row["b"]] = (row["_op"], row["v"], row["_old_v"])
        expected = {}
        for key in {**old, **new}:
            if old.get(key) != new.get(key):
                op = "insert" if key not in old else "delete" if key not in new else "update"
                expected[key] = (op, new.get(key), old.get(key))
        assert found == expected

    @rule(key=KEY)
    def get(self, key: tuple) -> None:
        row = self.store.get("t", {"a": key[0], "b": key[1]})
        assert (row and row["v"]) == self.now.get(key)

    @invariant()
    def every_epoch_reads_as_it_was(self) -> None:
        for epoch, expected in list(self.past.items())[-4:]:
            rows = [row for batch in self.store.iter("t", epoch=epoch) for row in batch.to_pylist()]
            assert {(row["a"], row["b"]): row["v"] for row in rows} == expected
            assert len(rows) == len(expected)


TestStoreModel = StoreModel.TestCase
TestStoreModel.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
