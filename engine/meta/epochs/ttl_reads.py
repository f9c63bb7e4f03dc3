"""Reads of tables whose rows hide by their age: a store at rest has no epoch of the present, at which it is told which have."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from engine.hummock import Version
from engine.hummock.epoch import epoch_at


def hide_expired_rows(version: Version, tables: Collection[str], now: float) -> Version:
    """Return a version as one whose newest epoch is the present, if rows of one of some tables hide by their age."""
    known = (version.tables.get(name) for name in tables)
    epoch = epoch_at(now)
    if epoch <= version.epoch or not any(t is not None and t.table.options.ttl_seconds for t in known):
        return version
    return replace(version, epoch=epoch)
