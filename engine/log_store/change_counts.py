"""How many rows changes bring, take and change, and in how many each column changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.hummock.rows.ordering import identical_values, one_chunk
from engine.log_store.changes import DELETE, INSERT, UPDATE, Changes


@dataclass
class ChangeCounts:
    """What has been counted so far; `columns` are the updated rows in which each column changed, by stored name."""

    inserted: int = 0
    deleted: int = 0
    updated: int = 0
    columns: dict[str, int] = field(default_factory=dict)

    @property
    def changed(self) -> int:
        """How many rows came, went or changed."""
        return self.inserted + self.deleted + self.updated

    def add(self, changes: Changes) -> None:
        """Count changes."""
        self.inserted += int((changes.operations == INSERT).sum())
        self.deleted += int((changes.operations == DELETE).sum())
        updates = changes.filter(changes.operations == UPDATE)
        self.updated += len(updates)
        for name in changes.rows.column_names:
            pair = one_chunk(updates.rows.column(name)), one_chunk(updates.old.column(name))
            differ = int((~identical_values(*pair)).sum())
            self.columns[name] = self.columns.get(name, 0) + differ
