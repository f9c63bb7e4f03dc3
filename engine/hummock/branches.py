"""Branches: stores that begin as another store is after one of its manifests, and share its files.

The parent's version names its branches; a branch is there from the manifest on that names it, and until one takes it out. While
it is named, its parent keeps the files and the manifests that lead to where it begins. Its own manifests and files lie at a place
that no other branch ever has, so that what a stalled process writes to a dropped branch meets no other.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from functools import partial

from engine.errors import BranchDropped, StorageError, UnknownStore
from engine.hummock.clock import Clock
from engine.hummock.epoch import seconds_of
from engine.hummock.manifests.chain import ManifestChain
from engine.hummock.manifests.invariants import describe_unknown_branch
from engine.hummock.manifests.manifest_reader import ManifestReader
from engine.hummock.object_store import ObjectInfo, ObjectStore, open_object_store
from engine.hummock.object_store.branch import (
    BranchObjectStore,
    BranchStep,
    build_path,
    cut_place,
    is_branch_name,
    split_branch_url,
)
from engine.hummock.sorted_files.sst import FILES
from engine.hummock.version import BranchPoint, Commit, Version, build_place


@dataclass(frozen=True)
class Branch:
    """A branch of a store: its name, its address, and where it begins."""

    name: str
    url: str
    point: BranchPoint

    @property
    def since(self) -> float:
        """When it was created, in seconds since 1970."""
        return seconds_of(self.point.epoch)


@dataclass(frozen=True)
class StorePlace:
    """Where an open store's objects are: `place` is that of a branch below the root of its store, empty for the root itself."""

    url: str
    place: str
    objects: ObjectStore
    manifests: ManifestReader


@dataclass(frozen=True)
class Address:
    """What an address says: the root store's own address and objects, and the branches that lead from it, if any."""

    url: str
    root: ObjectStore
    steps: tuple[BranchStep, ...] = ()


def open_address(url: str, *, create: bool, objects: ObjectStore | None = None) -> Address:
    """Return what an address says, by `objects` if they are given; the nearest store there or above is the root.

    No store is made at what looks like the address of a branch: who names a branch of a store that is missing means no new
    store, which would follow sources and deliver to sinks. Raises UnknownStore for that, and without `create`.
    """
    root_url, steps = split_branch_url(url)
    if not steps or objects is not None:
        return Address(root_url, objects or open_object_store(root_url, create=create), steps)
    missing = UnknownStore(
        f"{url}: there is no store at {root_url} that has a branch {steps[0].name}: `tideline init` makes one without "
        f"TIDELINE_BRANCH; none is made at an address that ends in /branch/{steps[-1].name}"
    )
    try:
        root = open_object_store(root_url, create=False)
    except UnknownStore:
        raise missing from None
    for count in range(len(steps), 0, -1):
        inside = build_path(steps[:count])
        if steps[count - 1].number is None and _has_objects(root, f"{inside}/manifest/"):
            own = f"{root_url}/{inside}"
            return Address(own, open_object_store(own, create=False), steps[count:])
    if not _has_objects(root, "manifest/"):
        raise missing
    return Address(root_url, root, steps)


def _has_objects(store: ObjectStore, prefix: str) -> bool:
    return next(iter(store.list(prefix)), None) is not None


def find_store(address: Address, root: ObjectStore, clock: Clock) -> StorePlace:
    """Return where the store of an address is, its root's objects being `root`; raises UnknownStore for no branch."""
    found = StorePlace(address.url, "", root, ManifestReader(root, clock))
    for step in address.steps:
        found = _find_branch(found, step, found.manifests.open()[0], clock)
    return found


def build_branch_url(url: str, name: str, number: int) -> str:
    """Return the address of an open branch of the store at `url`."""
    return f"{url.rstrip('/')}/{build_place(name, number)}".rstrip("/")


def list_branches(url: str, version: Version) -> tuple[Branch, ...]:
    """Return the branches of a version of the store at `url`, the oldest first."""
    points = sorted(version.branches.items(), key=lambda item: item[1].number)
    return tuple(Branch(name, build_branch_url(url, name, point.number), point) for name, point in points)


def create_branch(chain: ManifestChain, url: str, name: str) -> Branch:
    """Begin a branch after the next manifest, which is all that is written; raises BranchExists, or StorageError for the name."""
    if not is_branch_name(name):
        raise StorageError(
            f'"{name}" cannot name a branch: take letters, digits, - and _, at most 63, the first a letter or a digit'
        )
    point = chain.commit(Commit(branches={name: True})).branches[name]
    return Branch(name, build_branch_url(url, name, point.number), point)


def drop_branch(place: StorePlace, chain: ManifestChain, name: str, clock: Clock) -> int:
    """End a branch and delete its files; return how many. A drop that was cut short is finished by the next.

    Its chain is ended first, so that nobody writes to it any more; then its parent lets it go. Its manifests stay until
    collections after the grace time: whoever still has the branch open meets them. Raises UnknownStore where there is none, and
    Conflict where it has branches of its own.
    """
    point = chain.refresh().branches.get(name)
    if point is None:
        raise UnknownStore(describe_unknown_branch(name, chain.version))
    branch = _find_branch(place, BranchStep(name, point.number), chain.version, clock)
    _close(branch, clock)
    chain.commit(Commit(branches={name: False}, precondition=partial(_require_branch, name, point)))
    files = [info.path for info in place.objects.list(f"{branch.place}{FILES}")]
    place.objects.delete(files)
    return len(files)


def _close(branch: StorePlace, clock: Clock) -> None:
    """Add the manifest that ends a branch, if no other drop has done that."""
    with contextlib.suppress(BranchDropped):
        ManifestChain(branch.objects, clock, manifests=branch.manifests).commit(Commit(close=True))


def list_left_objects(
    objects: ObjectStore, chain: ManifestChain, place: str, before: float
) -> list[ObjectInfo]:
    """Return the objects of dropped branches that are older than `before`, in seconds since 1970.

    A manifest that is older was there before the last look of anyone who looked since, so that nobody creates it again unawares.
    What was listed before the version was read, at a place that it does not know, is of a branch that was dropped.
    """
    listed = _list_beside(objects, f"{place}branch/", _list_places(chain.version, place))
    known = _list_places(chain.refresh(), place) if listed else set()
    return [info for info, at in listed if info.modified < before and at not in known]


def _list_places(version: Version, place: str) -> set[str]:
    return {f"{place}{build_place(name, point.number)}" for name, point in version.branches.items()}


def _list_beside(objects: ObjectStore, prefix: str, known: set[str]) -> list[tuple[ObjectInfo, str]]:
    """Return the objects at places of branches that are not `known`, with their places; those of known ones are passed over."""
    found: list[tuple[ObjectInfo, str]] = []
    after: str | None = ""
    while after is not None:
        start, after = after, None
        for info in objects.list(prefix, start):
            place = cut_place(info.path, prefix)
            if place in known:
                after = f"{place}~"  # which comes after all that is there
                break
            if place:
                found.append((info, place))
    return found


def list_shared_objects(chain: ManifestChain, version: Version) -> set[str]:
    """Return the objects that the branches of a version began with: a few GETs a branch."""
    found: set[str] = set()
    for number in {point.number for point in version.branches.values()}:
        for table in chain.read_version(number).tables.values():
            found |= table.list_objects()
    return found


def list_shared_manifests(version: Version, every: int) -> set[int]:
    """Return the numbers of the manifests that lead to where the branches of a version begin, from the checkpoints on."""
    points = {point.number for point in version.branches.values()}
    return {number for last in points for number in range(max(1, last - last % every), last + 1)}


def _find_branch(parent: StorePlace, step: BranchStep, version: Version, clock: Clock) -> StorePlace:
    """Return where a branch of a store with this version is."""
    point = version.branches.get(step.name)
    if point is None or step.number not in (None, point.number):
        raise UnknownStore(f"{parent.url}: {describe_unknown_branch(step.name, version)}")
    place = f"{parent.place}{build_place(step.name, point.number)}"
    objects = BranchObjectStore(parent.objects, place)
    manifests = ManifestReader(objects, clock, _ParentBase(parent.manifests, step.name, point.number))
    return StorePlace(build_branch_url(parent.url, step.name, point.number), place, objects, manifests)


@dataclass(frozen=True)
class _ParentBase:
    """Where a branch begins: after manifest `number` of its parent, which knows it by its name."""

    parent: ManifestReader
    name: str
    number: int

    def load(self) -> Version:
        """Return the parent's version, as that of a branch before its first manifest."""
        version = self.parent.read_version(self.number)
        return dataclasses.replace(version, number=0, garbage=(), branches={}, origin=self.number)

    def check_kept(self) -> None:
        """Raise BranchDropped if the parent, or its own, does not know the branch any more."""
        self.parent.check_kept()
        point = self.parent.open()[0].branches.get(self.name)
        if point is None or point.number != self.number:
            raise BranchDropped(f"branch {self.name} was dropped: open its parent, or another branch")


def _require_branch(name: str, point: BranchPoint, version: Version) -> None:
    if version.branches.get(name) != point:
        raise UnknownStore(describe_unknown_branch(name, version))
