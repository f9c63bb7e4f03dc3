"""Who committed an epoch of a table, as far as manifests still tell: when, as which writer, from which changes of the inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from engine.hummock.manifests.delta import Delta
from engine.meta.epochs.barrier import BARRIERS, Barrier


@dataclass(frozen=True)
class CommitRecord:
    """The commit of one epoch of a table.

    It was made in `manifest`, at `epoch`, whose time is that of the commit; a view's own epoch is that of its inputs. `writer`
    is the domain's name, None where a statement or a source wrote. `barrier` says which changes of the inputs it is made of.
    """

    manifest: int
    epoch: int
    writer: str | None = None
    barrier: Barrier | None = None

    @property
    def domain(self) -> str | None:
        """The domain that committed, None where no view was computed."""
        return None if self.writer is None else self.writer.removeprefix("domain/")


def find_commits(deltas: Iterable[Delta], table: str, epochs: Collection[int]) -> dict[int, CommitRecord]:
    """Return the commits of some epochs of a table from the deltas of a store, newest first; those that no manifest tells of
    any more are left out.

    No more is read than up to the oldest of these epochs.
    """
    found: dict[int, CommitRecord] = {}
    missing, open_barriers = set(epochs), dict[int, str]()
    for delta in deltas:
        waiting = [*missing, *open_barriers]
        if not waiting or delta.epoch < min(waiting):
            break
        if table in delta.writes and delta.labels.get(table) in missing:
            label = delta.labels[table]
            found[label] = record = CommitRecord(delta.number, delta.epoch, delta.writer)
            missing.discard(label)
            if record.domain is not None:
                open_barriers[label] = record.domain
        for label, domain in list(open_barriers.items()):
            text = delta.catalog.get(BARRIERS.key(domain))
            if text is not None and (barrier := BARRIERS.decode(text).barrier).curr == label:
                found[label] = replace(found[label], barrier=barrier)
                del open_barriers[label]
        earlier = delta.find_earlier_name(table)
        if earlier is None:
            break
        table = earlier
    return found
