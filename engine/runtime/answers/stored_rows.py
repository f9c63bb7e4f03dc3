"""Tables and views that questions about stored rows are asked of, and the epochs at which these are read."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from engine.errors import SqlError
from engine.hummock import Hummock, TableVersion, Version
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.epochs.query_policy import choose_epochs, find_epochs_at
from engine.meta.epochs.ttl_reads import hide_expired_rows
from engine.sql.batch.time_travel import read_moment
from engine.sql.catalog import Relation


@dataclass(frozen=True)
class StoredRows:
    """A table or a materialized view of one version of a store."""

    store: Hummock
    version: Version
    stored: StoredCatalog
    relation: Relation

    @classmethod
    def find(cls, store: Hummock, name: str) -> StoredRows:
        """Return the table or view of a name; raises SqlError if there is none, or one that keeps no rows."""
        version = store.refresh()
        stored = load_catalog(version)
        relation = stored.catalog.get(name)
        if relation.kind not in ("table", "materialized view"):
            raise SqlError(
                f"{relation.name} is a {relation.kind}, and keeps no rows of its own",
                hint="ask a table or a materialized view",
            )
        return cls(store, hide_expired_rows(version, (relation.name,), store.clock()), stored, relation)

    @property
    def table(self) -> TableVersion:
        """The table that holds the rows."""
        return self.version.tables[self.relation.name]

    @property
    def shown(self) -> list[str]:
        """The columns that users see, as they are stored."""
        return self.relation.visible_storage_names

    @property
    def key(self) -> tuple[str, ...]:
        """The key's columns as users name them; none where the key, or a part of it, is hidden."""
        names = {column.storage_name: column.name for column in self.relation.visible_columns}
        key = self.relation.primary_key
        return tuple(names[name] for name in key) if set(key) <= names.keys() else ()

    def find_newest_epoch(self) -> int:
        """Return the newest epoch at which there is content; raises EpochFailed if there is none yet."""
        name = self.relation.name
        return choose_epochs(self.version, self.stored, (name,))[name]

    def find_epoch(self, moment: int | str | None) -> int:
        """Return the epoch of a moment: an epoch, a time, an expression as FOR SYSTEM_TIME AS OF takes, None for the newest.

        Raises SqlError for what is none, lies in the future, or has no content, EpochExpired for what is not kept any more.
        """
        if moment is None:
            return self.find_newest_epoch()
        name, at = self.relation.name, read_moment(str(moment))
        epoch = find_epochs_at({name: at}, self.version, self.stored, self.store.clock())[name]
        self.store.check_readable(self.table, epoch)
        return epoch

    def show(self, rows: pa.Table) -> pa.Table:
        """Return stored rows with the columns that users see, under their names."""
        names = {column.storage_name: column.name for column in self.relation.columns}
        shown = rows.select(self.shown)
        return shown.rename_columns([names[name] for name in self.shown])
