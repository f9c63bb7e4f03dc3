"""Cuts: the epochs to which runs bring domains, chosen so that all of them meet and a query finds one epoch for its tables.

A run mints one cut, the store's newest epoch when it begins, and brings every domain to it. The newest cut of the store is an
entry of its catalog, written with the barriers of the domains that go there, so that runs of other processes stop at it as well
before they go on to their own.
"""

from __future__ import annotations

from engine.errors import EpochFailed
from engine.hummock import Version
from engine.hummock.epoch import format_epoch
from engine.hummock.manifests.preconditions import Precondition, require, require_none
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.domains.domain import Domain, list_domains
from engine.meta.epochs.arrival_stops import find_arrival_stops, list_arrival_stops
from engine.meta.epochs.barrier import find_open_barrier
from engine.meta.epochs.content import Content
from engine.meta.epochs.frontier import find_expiry_epoch, needs_run
from engine.meta.epochs.time_boundary import find_next_boundary
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import JoinedOnArrival

KEY = "cut"


def read_target_epoch(version: Version) -> int:
    """Return the newest cut that any run has minted, 0 before the first."""
    return int(version.catalog.get(KEY, "0"))


def record_target_epoch(version: Version, target_epoch: int) -> dict[str, str | None]:
    """Return the catalog entry that tells other runs of a cut, if it is the newest."""
    return {KEY: str(target_epoch)} if target_epoch > read_target_epoch(version) else {}


def require_same_target(base: Version, target_epoch: int) -> Precondition:
    """Return the precondition that no run has minted a cut since `seen` at which a domain on its way to `cut` should stop."""
    known = (read_target_epoch(base), target_epoch)
    return require(
        lambda version: read_target_epoch(version) in known,
        "another run has recorded a target epoch at the same time",
    )


def is_aligned(domain: Domain, version: Version, stored: StoredCatalog, epoch: int) -> bool:
    """Tell whether all that a domain reads has content at an epoch."""
    return Content(version, stored.inputs).find_common(domain.inputs, epoch) == epoch


def require_aligned_inputs(domain: Domain, stored: StoredCatalog, base: Version, epoch: int) -> Precondition:
    """Return the precondition that all that a domain reads has content at `epoch` yet, as in `seen`: partitions of it may be
    computed again from an epoch below it on.
    """
    return require(
        lambda version: version is base or _may_align(domain, Content(version, stored.inputs), epoch),
        f"what domain {domain.name} reads is being computed again",
    )


def find_reader(domain: Domain, version: Version, label: int) -> str | None:
    """Return who follows a domain and has read it, or is about to, at `label` or beyond; None if nobody has.

    What changes without a change of its inputs must not do so below what others have taken in: they would never see it.
    """
    own = set(domain.tables)
    for table in own & version.tables.keys():
        table_version = version.tables[table]
        for reader, epoch in (*table_version.acks.items(), *table_version.pins.items()):
            if reader not in own and epoch >= label:
                return reader
    for follower in list_domains(load_catalog(version)).values():
        left = find_open_barrier(version, follower.name)
        reads = follower.name != domain.name and not own.isdisjoint(follower.inputs)
        if reads and left is not None and left.barrier.curr >= label:
            return follower.name
    return None


def require_unread(domain: Domain, label: int) -> Precondition:
    """Return the precondition that nobody has read a domain at `label` or beyond."""
    return require_none(lambda version: _describe_reader(domain, version, label))


def _describe_reader(domain: Domain, version: Version, label: int) -> str | None:
    reader = find_reader(domain, version, label)
    if reader is None:
        return None
    return f"{reader} has read domain {domain.name} at the epoch that is to be computed again"


def find_reach(domain: Domain, version: Version, stored: StoredCatalog) -> int | None:
    """Return the newest epoch at which everything that a domain reads from outside has content.

    None while there is none: a table was never computed, or they have met at no epoch yet.
    """
    return Content(version, stored.inputs).find_common(domain.inputs, version.epoch)


def find_newer_reach(domain: Domain, version: Version, stored: StoredCatalog, view: str) -> int | None:
    """Return how far a domain could be brought, None if a view of it stands there already."""
    reach = find_reach(domain, version, stored)
    return reach if reach is not None and reach > version.tables[view].committed_epoch else None


def find_next_stop(
    domain: Domain,
    version: Version,
    stored: StoredCatalog,
    target_epoch: int,
    before: int = 0,
    *,
    straight: bool = False,
) -> int | None:
    """Return the epoch to which a domain is to be brought next on its way to `cut` or beyond; None if there is nothing to do.

    Where its inputs have content there that is the newest cut of the store, if it lies before `cut`, then `cut`; else a newer cut
    of another run, or the newest epoch at which they have content. Once the run has minted `cut` that is the newest itself, and
    `before` the one that it followed: another run may be on its way there yet.
    `straight` leaves the stop before `cut` out: a domain that has failed takes all that it lacks as one range, since what it
    fails on may be mended by then. Stops of temporal joins stay, since they decide which rows meet.
    """
    stop = _choose_stop(domain, version, stored, target_epoch, before, straight=straight)
    if stop is None:
        return stop
    content = Content(version, stored.inputs)
    for earlier in list_arrival_stops(domain, version, stored, stop):
        aligned = _is_readable(domain, version, earlier) and _may_align(domain, content, earlier)
        if aligned and is_pending(domain, version, earlier):
            return earlier
    return stop


def check_stops(
    fragment: Fragment, version: Version, stored: StoredCatalog, old: int | None, new: int
) -> None:
    """Raise EpochFailed for an epoch of a temporal join that would pass over a change of its left side, which others met."""
    if old is None or not isinstance(fragment.rule, JoinedOnArrival):
        return
    content = Content(version, stored.inputs)
    for stop in find_arrival_stops(fragment, version, stored.inputs, (old, new)):
        for name in fragment.inputs:
            if not content.may_have_content(name, stop):
                raise EpochFailed(
                    f"{fragment.table} must read what arrived up to epoch {format_epoch(stop)} before what came later, but "
                    f"{name} was brought past that epoch in one step: its state at that epoch is not known any more. The view "
                    "keeps its content: read it as it is, or DROP the view and create it anew, with the rows of today"
                )


def _choose_stop(
    domain: Domain, version: Version, stored: StoredCatalog, target_epoch: int, before: int, *, straight: bool
) -> int | None:
    content, newest = Content(version, stored.inputs), read_target_epoch(version)
    follows = not _needs_full_compute(domain, version)
    earlier = newest if newest < target_epoch else before
    if follows and not straight and earlier < target_epoch and _has_work(domain, content, earlier):
        return earlier
    if _has_work(domain, content, target_epoch):
        return target_epoch
    if all(_has_reached(table, target_epoch, content) for table in domain.tables):
        return None
    if newest > target_epoch and _has_work(domain, content, newest):
        return newest
    reach = content.find_common(domain.inputs, version.epoch)
    return reach if reach is not None and _has_work(domain, content, reach) else None


def _has_work(domain: Domain, content: Content, stop: int) -> bool:
    """Tell whether a domain has work up to a stop at which all that it reads has content that can be read."""
    aligned = _is_readable(domain, content.version, stop) and content.find_common(domain.inputs, stop) == stop
    return aligned and is_pending(domain, content.version, stop)


def _is_readable(domain: Domain, version: Version, stop: int) -> bool:
    tables = version.tables
    return stop >= max((tables[name].safe_epoch for name in domain.inputs if name in tables), default=0)


def _may_align(domain: Domain, content: Content, stop: int) -> bool:
    return all(content.may_have_content(name, stop) for name in domain.inputs)


def is_pending(domain: Domain, version: Version, reach: int) -> bool:
    """Tell whether bringing a domain to `reach` needs a run."""
    return any(needs_run(version, f.table, domain.dependencies[f.table], reach) for _, f in domain.fragments)


def choose_label(domain: Domain, version: Version, stored: StoredCatalog, stop: int) -> int:
    """Return the label of a domain's epoch up to `stop`: the last change that it brings, so that it has content from there on.

    Where something is computed as a whole, or rows cross a bound of now(), it is `stop`. Where an input has no content at that
    change, since it was brought past it in one step, it is the next label at which all inputs have.
    """
    if _needs_full_compute(domain, version):
        return stop
    crossings = (find_next_boundary(version, table) for table in domain.tables)
    if any(at is not None and at <= stop for at in crossings):
        return stop
    changes = [version.tables[name].find_last_change_upto(stop) for name in domain.inputs]
    label = max((change for change in changes if change is not None), default=0)
    committed = (version.tables[table].committed_epoch for table in domain.tables)
    if label <= max(committed, default=0):
        return stop
    content = Content(version, stored.inputs)
    while (
        behind := next((name for name in domain.inputs if not content.has_content(name, label)), None)
    ) is not None:
        after = content.find_next(behind, label)
        if after is None or after >= stop:
            return stop
        label = after
    return label


def _needs_full_compute(domain: Domain, version: Version) -> bool:
    """Whether the next epoch of a domain computes a table from all that it reads: it is new, or changes were let go."""
    for table, dependencies in domain.dependencies.items():
        own = find_computed_table(version, table)
        known = [name for name in dependencies if name in version.tables]
        if own is None or find_expiry_epoch(version, table, own.committed_epoch, known) is not None:
            return True
    return False


def _has_reached(table: str, target_epoch: int, content: Content) -> bool:
    """Whether a table has content at a cut or beyond."""
    newest = content.find_newest(table, content.version.epoch)
    return newest is not None and newest >= target_epoch
