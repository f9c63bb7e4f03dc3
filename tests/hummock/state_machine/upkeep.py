"""Rules of what must not change what tables hold: holds, compaction, collection, time, handles that close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from engine.errors import Conflict
from engine.hummock import Commit, Hummock
from engine.hummock.compaction import (
    BelowWatermark,
    Full,
    Level,
    PastTtl,
    Picker,
    SpaceReclaim,
    Tier,
    ToBase,
    Tombstone,
    TrivialMove,
    VnodeAlignment,
)
from engine.hummock.compaction.worker import CompactionWorker
from engine.hummock.epoch import epoch_at
from tests.hummock.state_machine.handles import (
    RETENTION,
    Handles,
    choices,
    chosen,
    handles,
    names,
    requests,
)

PICKERS: dict[str, Callable[[Hummock], Picker]] = {
    "full": lambda store: Full(),
    "tier": lambda store: Tier(),
    "to base": lambda store: ToBase(),
    "level": lambda store: Level(),
    "tombstone": lambda store: Tombstone(least_rows=1),
    "trivial move": lambda store: TrivialMove(least_rows=1),
    "vnode alignment": lambda store: VnodeAlignment(4),
    "space reclaim": lambda store: SpaceReclaim(store.version, share=0.0),
    "ttl": lambda store: PastTtl(epoch_at(store.clock() - RETENTION), share=0.0),
    "watermark": lambda store: BelowWatermark(epoch_at(store.clock() - RETENTION), share=0.0),
}
pickers = st.sampled_from(sorted(PICKERS))


class Upkeep(Handles):
    """Whatever leaves the rows as they are."""

    @rule(who=handles, name=names, part=st.sampled_from(["acks", "pins"]), choice=st.none() | choices)
    def hold(self, who: int, name: str, part: str, choice: int | None) -> None:
        """Pin or acknowledge a readable epoch, let go, or fail to hold one that has expired."""
        if name not in self.tables:
            return
        self.step()
        store = self.store(who)
        table = store.version.tables[name]
        epoch = None if choice is None else chosen(self.readable(store, name), choice)
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
            epoch = chosen(self.readable(store, name), choice)
            pin = store.pin(name, epoch, seconds=seconds)
            self.pins.append((self.tables[name].table_id, pin, self.clock() + seconds))

    @precondition(lambda self: self.pins)
    @rule(who=handles, choice=choices)
    def unpin(self, who: int, choice: int) -> None:
        """Let go of a pin, maybe of one whose time is over."""
        self.step()
        table_id, pin, _ = held = chosen(self.pins, choice)
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
        self.crashing(who, at, lambda store: CompactionWorker(store, f"worker{who}").run_once())

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
