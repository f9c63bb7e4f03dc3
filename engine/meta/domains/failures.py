"""What is remembered of a failing domain, in the store itself: the error, how often, and when it is tried again."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.hummock import Version
from engine.hummock.back_off import Attempts, BackOff
from engine.meta.catalog.records import Prefix, Record

RETRIES = BackOff(1.0, 120.0)
"""When a failing domain is tried again, and a partition in quarantine."""
_ERROR_CHARACTERS = 4000


class FailedRow(msgspec.Struct, frozen=True):
    """A row on which an epoch fails: its table, its key in words, and the hash under which it is found again.

    `epoch` is the newest one of the inputs at which it was seen to fail, and `reason` why it did.
    """

    table: str
    key: str
    hash: int
    epoch: int = 0
    reason: str = ""

    @property
    def text(self) -> str:
        """Which row it is, in words."""
        return f"the row of {self.table} with key {self.key}"


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """The failures of a domain in a row; times are seconds since 1970. `row` is the one that was found to fail."""

    error: str
    attempts: int
    since: float
    last: float
    row: FailedRow | None = None

    def says(self, error: str) -> bool:
        """Tell whether an error is the one that is remembered."""
        return self.error == error[:_ERROR_CHARACTERS]

    @property
    def tries(self) -> Attempts:
        """How often the domain was tried in vain: the wait doubles with each failure, up to two minutes."""
        return Attempts(RETRIES, self.attempts, self.last)


FAILURES = Record.of_json(Prefix.FAILURE, Failure)


def list_failures(version: Version) -> Mapping[str, Failure]:
    """Return the failing domains by name."""
    return FAILURES.list(version)


def is_failing(version: Version, domain: str) -> bool:
    """Tell whether a domain has failed since it committed last."""
    return FAILURES.has(version, domain)


def record_failure(version: Version, domain: str, error: str, now: float) -> dict[str, str | None]:
    """Return the catalog entry that tells of one more failure of a domain."""
    before = FAILURES.read(version, domain)
    attempts, since = (before.attempts + 1, before.since) if before is not None else (1, now)
    failure = Failure(error[:_ERROR_CHARACTERS], attempts, since, now)
    if before is not None:
        failure = msgspec.structs.replace(failure, row=before.row)
    return FAILURES.record(domain, failure)


def record_failed_row(
    failure: Failure, domain: str, error: str, row: FailedRow | None
) -> dict[str, str | None]:
    """Return the catalog entry that adds to a domain's last failure which row it was."""
    found = msgspec.structs.replace(failure, error=error[:_ERROR_CHARACTERS], row=row)
    return FAILURES.record(domain, found)


def forget_failure(version: Version, domain: str) -> dict[str, str | None]:
    """Return the catalog entry that removes what is remembered of a domain's failures, if anything is."""
    return FAILURES.remove_existing(version, [domain])
