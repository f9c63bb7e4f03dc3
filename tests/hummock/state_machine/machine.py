"""All rules in one machine, and what must hold after each."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from engine.hummock.epoch import epoch_at
from engine.hummock.manifests.manifest import decode_manifest, manifest_path
from tests.hummock.small import small_sizes
from tests.hummock.state_machine.handles import RETENTION, rows_by_key
from tests.hummock.state_machine.reads import Reads
from tests.hummock.state_machine.upkeep import Upkeep
from tests.hummock.state_machine.writes import Writes
from tests.hummock.table_model import Rows


class Engine(Writes, Upkeep, Reads):
    """The store against the dictionary of versions."""

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
            assert table.list_objects() <= stored
            assert all(table.safe_epoch <= e for e in (*table.acks.values(), *table.pins.values()))
            assert table.safe_epoch <= max(0, epoch_at(self.clock() - RETENTION))
            for epoch in {self.newest(who, name), self.readable(store, name)[0]}:
                found = rows_by_key(store.iter(name, epoch=epoch))
                assert found == model.at(epoch), self.difference(name, epoch, found)

    def difference(self, name: str, epoch: int, found: Rows) -> str:
        """What a wrong read is explained by: what was read, what was written, the runs, the manifests, the verbs."""
        numbers = [None if store is None else store.version.number for store in self.stores]
        store = self.store(self.done % 2)
        table = store.version.tables[name]
        manifests = []
        for number in range(max(1, store.version.number - 12), store.version.number + 1):
            data = self.inner.get(manifest_path(number))
            manifests.append(f"{number}: {None if data is None else decode_manifest(data, '').deltas}")
        lines = [
            f"table {name} at epoch {epoch} (committed {table.committed_epoch}, safe {table.safe_epoch})",
            f"read: {found}",
            f"read again: {rows_by_key(store.iter(name, epoch=epoch))}",
            f"must be: {self.tables[name].at(epoch)}",
            f"handles at versions {numbers}, verb by {self.done % 2}",
            f"table: {table}",
            *(f"written: {each}" for each in self.tables[name].past[-6:]),
            *manifests,
            *self.verbs[-12:],
        ]
        return "\n".join(lines)


def run(steps: int) -> int:
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
