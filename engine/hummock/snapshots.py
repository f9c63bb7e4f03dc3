"""What a read works from: the reader, the version of a table, and the epoch it shows."""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import EpochExpired, StorageError
from engine.hummock.epoch import Clock, epoch_at, format_epoch
from engine.hummock.manifests.chain import ManifestChain
from engine.hummock.manifests.invariants import unknown_table_error
from engine.hummock.reads.reader import Reader
from engine.hummock.version import Table, TableVersion, Version
from engine.hummock.writes.shared_buffer import SharedBuffer


class Snapshots:
    """The tables of one open store as reads ask for them, committed or with what the shared buffer holds."""

    def __init__(
        self,
        chain: ManifestChain,
        refresh: Callable[[], Version],
        reader: Reader,
        buffer: SharedBuffer,
        clock: Clock,
        retained_from: Callable[[Table], int],
    ) -> None:
        self._chain, self._refresh = chain, refresh
        self._reader, self._buffer, self._clock = reader, buffer, clock
        self._retained_from = retained_from

    def find_table(self, name: str) -> TableVersion:
        """Return a table of the known version; looks for newer manifests if it is not there. Raises UnknownTable."""
        found = self._chain.version.tables.get(name)
        if found is None:
            found = self._refresh().tables.get(name)
        if found is None:
            raise unknown_table_error(name, self._chain.version.tables)
        return found

    def resolve(self, name: str, epoch: int | None) -> tuple[TableVersion, int]:
        """Return a table's version and the epoch to read, by default the newest one; a newer epoch than known is
        looked for. Raises EpochExpired where `check` does.
        """
        if epoch is not None and epoch > self._chain.version.epoch:
            self._refresh()
        version = self.find_table(name)
        if epoch is None:
            return version, self._newest_epoch(version)
        self.check_readable(version, epoch)
        return version, epoch

    def check_readable(self, version: TableVersion, epoch: int) -> None:
        """Raise EpochExpired if rows of a table that lived at an epoch may be deleted: they had a time to live, and nothing
        keeps the epoch. Nothing lived at epoch 0.
        """
        if version.table.options.ttl_seconds is None:
            return
        retained_from = version.clamp_truncation(self._retained_from(version.table))
        if 0 < epoch < retained_from:
            raise EpochExpired(
                f"table {version.name} cannot be read at epoch {format_epoch(epoch)}: rows past their time to live are kept "
                f"for the retention only, which begins at epoch {format_epoch(retained_from)}; name no epoch to read "
                f"what lives now, or pin "
                "epochs in time"
            )

    def find_first_readable(self, version: TableVersion) -> int:
        """Return the oldest epoch at which a table is whole; with a time to live that is the first of its retention."""
        if version.table.options.ttl_seconds is None:
            return version.safe_epoch
        return max(version.safe_epoch, version.clamp_truncation(self._retained_from(version.table)))

    def resolve_source(self, name: str, epoch: int | None, pending: bool) -> tuple[Reader, TableVersion, int]:
        """Return what a read works from: the committed version, or with what the shared buffer holds above it."""
        if not pending:
            return self._reader, *self.resolve(name, epoch)
        if epoch is not None:
            raise StorageError("a read of what is pending names no epoch: it has none before its commit")
        self.find_table(name)
        reader, version = self._buffer.overlay_pending(lambda: self.find_table(name))
        return reader, version, self._newest_epoch(version)

    def _newest_epoch(self, version: TableVersion) -> int:
        """The epoch of a read that names none: the newest; of a table whose rows expire, the present."""
        newest = max(version.committed_epoch, version.safe_epoch)
        expires = version.table.options.ttl_seconds is not None
        return max(newest, epoch_at(self._clock())) if expires else newest
