"""Holds of backups: a branch with a name of its own keeps the files of one version, and an entry of the catalog tells until when.

A backup renews its entry while it copies. The hold of one that has died is dropped by the next backup or collection.
"""

from __future__ import annotations

import re
import uuid

import msgspec

from engine.hummock.manifests.preconditions import require
from engine.hummock.store_clock import AGREE_SECONDS
from engine.hummock.version import Commit, Version

HOLD_PREFIX = "tideline-backup-"
"""What the names of branches that backups hold begin with; nobody else may create one."""
LEASE_PREFIX = "backup/"
HOLD_SECONDS = 600.0
_HOLD = re.compile(rf"{HOLD_PREFIX}[0-9a-f]{{32}}")


class HoldLease(msgspec.Struct, frozen=True):
    """Until when a backup is at work if nothing more is heard of it, in seconds since 1970."""

    expires: float


def is_hold(branch: str) -> bool:
    """Tell whether a branch is the hold of a backup, by its name."""
    return _HOLD.fullmatch(branch) is not None


def generate_hold_name() -> str:
    """Return a name that no hold has had."""
    return f"{HOLD_PREFIX}{uuid.uuid4().hex}"


def begin_hold(name: str, now: float) -> Commit:
    """Return the commit that holds the version which it makes."""
    return Commit(branches={name: True}, catalog={LEASE_PREFIX + name: _encode_lease(now)})


def renew_hold(name: str, now: float) -> Commit:
    """Return the commit that lets a hold go on; it raises Conflict where the hold is gone."""
    message = f"the hold of this backup, branch {name}, was dropped while it was at work: start it again"
    still_there = require(lambda version: name in version.branches, message)
    return Commit(catalog={LEASE_PREFIX + name: _encode_lease(now)}, precondition=still_there)


def remove_leases(names: list[str]) -> Commit:
    """Return the commit that takes away what is known of holds that are dropped."""
    return Commit(catalog={LEASE_PREFIX + name: None for name in names})


def list_expired_holds(version: Version, now: float) -> list[str]:
    """Return the holds whose backups have died, and those that were dropped and of which an entry is left.

    One that ends later than any hold does was made by a wrong clock, and is over too.
    """
    names = {name for name in version.branches if is_hold(name)}
    names |= {key.removeprefix(LEASE_PREFIX) for key in version.catalog if key.startswith(LEASE_PREFIX)}
    return sorted(name for name in names if name not in version.branches or _is_expired(version, name, now))


def _is_expired(version: Version, name: str, now: float) -> bool:
    text = version.catalog.get(LEASE_PREFIX + name)
    if text is None:
        return True
    left = msgspec.json.decode(text, type=HoldLease).expires - now
    return not 0 < left <= HOLD_SECONDS + AGREE_SECONDS


def _encode_lease(now: float) -> str:
    return msgspec.json.encode(HoldLease(now + HOLD_SECONDS)).decode()
