"""Commits that become visible together: who makes them sees each at once, everybody else all of them in one manifest, or none."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial

from engine.errors import StorageError
from engine.hummock.epoch import Clock
from engine.hummock.manifests.delta import apply_delta, rebase
from engine.hummock.manifests.preconditions import Precondition
from engine.hummock.store import Hummock
from engine.hummock.version import Commit, Table, Version

Holds = dict[str, dict[str, int | None]]


class StagedStore(Hummock):
    """A store as it will be once what was committed to it has landed; `base` is the same store as everybody sees it.

    It takes definitions: tables that are created, altered and dropped, catalog entries, and who holds what; no rows. What others
    commit meanwhile it does not see: where that is in the way, nothing lands. Use it in one thread, and `land` once.
    """

    def __init__(self, base: Hummock) -> None:
        self._base, self.url, self.counters = base, base.url, base.counters
        self._chain, self._clock, self._row_ids = base._chain, base._clock, base._row_ids
        self._place = base._place
        self._background, self.maintenance, self.buffer = base._background, base.maintenance, base.buffer
        self._objects, self.reader, self.options = base._objects, base.reader, base.options
        self._staged: list[Commit] = []
        self._version = base.refresh()
        self._snapshots = self._open_snapshots()

    @property
    def version(self) -> Version:
        """The version that the store will have."""
        return self._version

    def refresh(self) -> Version:
        """Return the version that the store will have."""
        return self._version

    def commit(self, commit: Commit) -> Version:
        """Add a commit to those that are to land; raises what refuses it, and it is none of them then."""
        _check_definitions(commit)
        self._version = _apply_commit(self._version, commit, self._clock())
        self._staged.append(commit)
        return self._version

    def hand_over(self, commit: Commit) -> Version:
        """Add a commit to those that are to land."""
        return self.commit(commit)

    def claim(self, writer: str) -> int:
        """Refuse: a writer takes over where it writes."""
        raise StorageError(f"{writer} cannot take over among commits that land together")

    def close(self) -> None:
        """Let go of nothing: all is the base's."""

    def land(self) -> Version:
        """Make all of it visible in one manifest; raises Conflict, and nothing is, where one of the commits fits no more."""
        staged = tuple(self._staged)
        if not staged:
            return self._base.version
        return self._base.commit(_combine_commits(staged, partial(_check_commits, staged, self._clock)))


def _check_commits(commits: Sequence[Commit], clock: Clock, version: Version) -> None:
    """Raise what refuses one of several commits that are made one after the other over a version."""
    for commit in commits:
        version = _apply_commit(version, commit, clock())


def _apply_commit(version: Version, commit: Commit, seconds: float) -> Version:
    return apply_delta(version, rebase(commit, version, uuid.uuid4().hex, seconds))


def _check_definitions(commit: Commit) -> None:
    others = {
        "rows": commit.writes,
        "labels": commit.epochs,
        "compactions": commit.compactions,
        "truncated history": commit.truncate,
        "watermarks": commit.watermarks,
        "a claim": commit.claim,
        "a writer": commit.writer,
        "a horizon": commit.horizon_ms,
        "branches": commit.branches,
        "an end": commit.close,
    }
    found = [what for what, value in others.items() if value]
    if found:
        raise StorageError(f"{', '.join(found)} cannot land together with other commits")


def _combine_commits(commits: Sequence[Commit], precondition: Precondition) -> Commit:
    """Return one commit that does what several do one after the other."""
    combined = _CombinedCommits()
    for commit in commits:
        combined.add(commit)
    return combined.build(precondition)


class _CombinedCommits:
    """What several commits do one after the other. A table that they alter has its first name as the key, and its newest form."""

    def __init__(self) -> None:
        self.created: dict[str, Table] = {}
        self.dropped: dict[str, None] = {}
        self.altered: dict[str, Table] = {}
        self.catalog: dict[str, str | None] = {}
        self.acks: Holds = {}
        self.pins: Holds = {}
        self._left: dict[str, str] = {}
        """The first names of dropped tables that had other names by then: as holders they are known by the first."""

    def add(self, commit: Commit) -> None:
        """Add what one more commit does; its names are those that tables have by then."""
        for name in commit.drop:
            self._drop(name)
        self._create(commit.create)
        self._alter(commit.alter)
        self.catalog |= commit.catalog
        gone = self.dropped.keys() - self.created.keys() - {table.name for table in self.altered.values()}
        for merged, holds in ((self.acks, commit.acks), (self.pins, commit.pins)):
            left = {table: self._name_holders(names) for table, names in holds.items() if table not in gone}
            _merge_holds(merged, left)

    def build(self, precondition: Precondition) -> Commit:
        """Return the one commit."""
        return Commit(
            create=tuple(self.created.values()),
            drop=tuple(self.dropped),
            alter=self.altered,
            catalog=self.catalog,
            acks=self.acks,
            pins=self.pins,
            precondition=precondition,
        )

    def _drop(self, name: str) -> None:
        if self.created.pop(name, None) is None:
            first = self._find_first_name(name)
            self.altered.pop(first, None)
            self.dropped[first] = None
            if first != name:
                self._left[name] = first
        for merged in (self.acks, self.pins):
            merged.pop(name, None)
            for table, holders in merged.items():
                merged[table] = self._name_holders(holders)

    def _name_holders(self, holders: Mapping[str, int | None]) -> dict[str, int | None]:
        """Return who lets go of what by the names that the holds have."""
        return {
            self._left.get(name, name) if epoch is None else name: epoch for name, epoch in holders.items()
        }

    def _create(self, tables: Sequence[Table]) -> None:
        taken = {first for first, table in self.altered.items() if table.name != first}
        for table in tables:
            if table.name in taken:
                message = f"{table.name} cannot be created in the commit that gives another table's name {table.name} up"
                raise StorageError(message)
            self.created[table.name] = table

    def _alter(self, alter: Mapping[str, Table]) -> None:
        made = {name: table for name, table in alter.items() if name in self.created}
        there = {self._find_first_name(name): table for name, table in alter.items() if name not in made}
        for name in made:
            del self.created[name]
        self.created |= {table.name: table for table in made.values()}
        self.altered |= there
        renames = {name: table.name for name, table in alter.items() if name != table.name}
        self.acks, self.pins = _rename_holds(self.acks, renames), _rename_holds(self.pins, renames)

    def _find_first_name(self, name: str) -> str:
        """Return the name that a table has where all of this begins."""
        return next((first for first, table in self.altered.items() if table.name == name), name)


def _rename_holds(holds: Holds, names: Mapping[str, str]) -> Holds:
    return {
        names.get(table, table): {names.get(holder, holder): epoch for holder, epoch in holders.items()}
        for table, holders in holds.items()
    }


def _merge_holds(merged: Holds, holds: Mapping[str, Mapping[str, int | None]]) -> None:
    for table, names in holds.items():
        merged.setdefault(table, {}).update(names)
