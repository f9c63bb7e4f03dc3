"""Finding the newest manifest with few requests: manifests are contiguous, so whether a number exists is a sorted
question.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from engine.errors import BranchDropped, CorruptObject
from engine.hummock.clock import Clock
from engine.hummock.manifests.delta import Delta, apply_delta
from engine.hummock.manifests.manifest import (
    CHECKPOINT_EVERY,
    Manifest,
    decode_manifest,
    manifest_path,
    parse_manifest_number,
    restore_version,
)
from engine.hummock.object_store import ObjectStore
from engine.hummock.version import Version

BOUNDARY_PATH, HINT_PATH = "manifest/boundary", "manifest/hint"
HINT_EVERY = 4 * CHECKPOINT_EVERY
PAGE = 1000
"""How many names a LIST gives at once."""
FEW = 4
"""A process that misses more manifests than this reads the last checkpoint instead of each of them."""
OPEN_ATTEMPTS = 5
OPEN_SECONDS = 5.0
"""What was the newest this short a time ago cannot have been collected."""


class ManifestBase(Protocol):
    """What a branch begins with."""

    def load(self) -> Version:
        """Return the version before the branch's first manifest."""

    def check_kept(self) -> None:
        """Raise BranchDropped if the parent does not know the branch any more."""


class ManifestReader:
    """The manifests of a store as objects: reading one, the newest, and the version that it leads to.

    `base` is of a branch's: where it begins.
    """

    def __init__(self, store: ObjectStore, clock: Clock, base: ManifestBase | None = None) -> None:
        self._store, self._clock, self._base = store, clock, base

    def check_kept(self) -> None:
        """Raise BranchDropped if these are the manifests of a branch that its parent does not know any more."""
        if self._base is not None:
            self._base.check_kept()

    def _load_base(self) -> Version:
        return Version() if self._base is None else self._base.load()

    def get(self, number: int) -> Manifest | None:
        """Return a manifest, or None if there is none of that number."""
        path = manifest_path(number)
        data = self._store.get(path)
        manifest = None if data is None else decode_manifest(data, path)
        if manifest is not None and manifest.number != number:
            raise CorruptObject(
                f"{path} is manifest {manifest.number}: files were swapped; restore it from a copy of the store"
            )
        return manifest

    def read_boundary(self) -> int:
        """Return the highest number that was ever collected; raises CorruptObject if it cannot be read."""
        data = self._store.get(BOUNDARY_PATH)
        if data is None:
            return 0
        if not data.isdigit():
            raise CorruptObject(
                f"{BOUNDARY_PATH} holds no number: write the number of a manifest before the oldest into it"
            )
        return int(data)

    def read_hint(self) -> int:
        """Return a checkpoint's number near the newest, or 0; it may be old, and is never needed."""
        data = self._store.get(HINT_PATH)
        return int(data) if data and data.isdigit() else 0

    def follow(self, version: Version) -> tuple[Version, list[Manifest]]:
        """Return the newest version from a known one on, and the manifests that were read; one GET if it is the newest.

        Numbers are probed at growing distance, and between the last that is there and the first that is not.
        """
        read: list[Manifest] = []
        low, high = version.number, 0
        steps = itertools.chain((1, 1), (1 << n for n in itertools.count()))
        while not high or high - low > 1:
            at = (low + high) // 2 if high else low + next(steps)
            manifest = self.get(at)
            if manifest is None:
                high = at
            else:
                low = at
                read.append(manifest)
        if not read:
            return version, read
        far = read[-1].reaches_back_to - version.number > FEW
        return (self._build_version(read[-1]) if far else None) or self._advance(version, read[-1]), read

    def open(self) -> tuple[Version, Manifest | None, float]:
        """Return the newest version, its manifest, and the monotonic second at which it was the newest.

        Two small GETs, one LIST of what follows the hint, the newest manifest, its checkpoint, and one GET that misses.
        """
        for _ in range(OPEN_ATTEMPTS):
            requested_at = self._clock.monotonic()
            boundary = self.read_boundary()
            low = self._find_newest_listed(boundary)
            manifest = self.get(low) if low else None
            if low and manifest is None:
                continue  # collected meanwhile
            version = self._load_base() if manifest is None else self._build_version(manifest)
            if version is None:
                continue
            version, read = self.follow(version)
            if self._clock.monotonic() - requested_at < OPEN_SECONDS or self.read_boundary() <= boundary:
                return version, read[-1] if read else manifest, requested_at
        raise CorruptObject(
            f"the manifests after {manifest_path(self.read_boundary())} are incomplete: run `tideline restore` again if it "
            "was interrupted here, else restore them from a copy of the store"
        )

    def list_numbers(self, after: int) -> list[int]:
        """Return the numbers of the stored manifests above `after`, ascending; a LIST."""
        found = (
            parse_manifest_number(info.path) for info in self._store.list("manifest/", manifest_path(after))
        )
        return sorted(number for number in found if number is not None)

    def _find_newest_listed(self, boundary: int) -> int:
        """A number that exists, the newest if the LIST from the hint on is one page; 0 if nothing was committed."""
        start = max(boundary, self.read_hint() - 1)
        numbers, full = self._list_page(start)
        if not numbers and start > boundary:
            numbers, full = self._list_page(boundary)
        if (
            not numbers
        ):  # nothing was committed, or the listing is behind: what follows a boundary is a checkpoint
            return boundary + 1 if boundary else 0
        return self._search_checkpoint(numbers[-1]) if full else numbers[-1]

    def _list_page(self, after: int) -> tuple[list[int], bool]:
        listed = list(itertools.islice(self._store.list("manifest/", manifest_path(after)), PAGE))
        found = (parse_manifest_number(info.path) for info in listed)
        return sorted(number for number in found if number is not None), len(listed) == PAGE

    def _search_checkpoint(self, low: int) -> int:
        """The newest checkpoint above `low`, which exists, or `low`: by HEAD at growing distance."""
        first, high = low // CHECKPOINT_EVERY, 0
        at, step = first, 1
        while not high or high - at > 1:
            probe = (at + high) // 2 if high else at + step
            if self._store.head(manifest_path(probe * CHECKPOINT_EVERY)) is None:
                high = probe
            else:
                at, step = probe, step * 2
        return max(low, at * CHECKPOINT_EVERY)

    def read_version(self, number: int) -> Version:
        """Return the version after a manifest that is stored, with what leads to it; raises CorruptObject if it is not."""
        version = self.find_version(number)
        if version is None:
            raise CorruptObject(
                f"{manifest_path(number)}, after which a branch begins, or what leads to it is missing; restore it from a copy"
            )
        return version

    def find_version(self, number: int) -> Version | None:
        """Return the version after a manifest, that of none being 0; None if it, or what leads to it, is not stored any more."""
        if number == 0:
            return self._load_base()
        manifest = self.get(number)
        return None if manifest is None else self._build_version(manifest)

    def _build_version(self, manifest: Manifest) -> Version | None:
        """The version that a manifest leads to; None if its checkpoint was collected meanwhile."""
        if manifest.deltas[-1].closed:
            raise BranchDropped("the branch was dropped: open its parent, or another branch")
        if manifest.checkpoint is not None:
            return restore_version(manifest.checkpoint, manifest.deltas[-1])
        number = manifest.number - manifest.number % CHECKPOINT_EVERY
        if number == 0:
            return self._advance(self._load_base(), manifest)
        checkpoint = self.get(number)
        if checkpoint is None:
            if number <= self.read_boundary():
                return None
            raise CorruptObject(f"{manifest_path(number)}, a checkpoint, is missing; restore it from a copy")
        if checkpoint.checkpoint is None:
            raise CorruptObject(f"{manifest_path(number)} holds no version; restore it from a copy")
        return self._advance(restore_version(checkpoint.checkpoint, checkpoint.deltas[-1]), manifest)

    def _advance(self, version: Version, manifest: Manifest) -> Version:
        """Return the version that `manifest` leads to, from an older one; what its tail lacks is fetched."""
        if manifest.checkpoint is not None and manifest.reaches_back_to > version.number:
            return restore_version(manifest.checkpoint, manifest.deltas[-1])
        missing = range(version.number + 1, manifest.reaches_back_to + 1)
        for each in self._get_all(missing):
            version = apply_all(version, each.deltas)
        return apply_all(version, manifest.list_deltas_since(version.number))

    def _get_all(self, numbers: Sequence[int]) -> list[Manifest]:
        if not numbers:
            return []
        with ThreadPoolExecutor(min(8, len(numbers))) as pool:
            manifests = list(pool.map(self.get, numbers))
        for number, manifest in zip(numbers, manifests, strict=True):
            if manifest is None:
                raise CorruptObject(
                    f"{manifest_path(number)} is missing from the chain; restore it from a copy"
                )
        return [manifest for manifest in manifests if manifest is not None]


def apply_all(
    version: Version, deltas: Sequence[Delta], add: Callable[[Version, Delta], Version] = apply_delta
) -> Version:
    """Return the version after `deltas`; raises CorruptObject for one that cannot follow."""
    for delta in deltas:
        if delta.number not in (version.number, version.number + 1) or delta.epoch <= version.epoch:
            raise CorruptObject(
                f"{manifest_path(delta.number)} (epoch {delta.epoch}) does not follow manifest {version.number} "
                f"(epoch {version.epoch}): the folder holds manifests of two stores, or one was replaced; restore it"
            )
        version = add(version, delta)
    return version
