"""Query policies: at which epoch a batch query reads each of its tables."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from engine.errors import EpochExpired, EpochFailed, SqlError
from engine.hummock import Version
from engine.hummock.epoch import format_epoch, format_epoch_time, last_epoch_at
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.domains.refresh_policy import list_resting_views, suggest_refresh
from engine.meta.epochs.content import Content
from engine.sql.batch.time_travel import Moment

POLICIES = ("consistent", "latest", "global")


def check_policy(policy: str) -> str:
    """Return a policy as it is stored: consistent, latest, global, an epoch, or a timestamp; raises SqlError for others."""
    text = policy.strip()
    if text.lower() in POLICIES:
        return text.lower()
    if re.fullmatch(r"\d+", text) or _parse_instant(text) is not None:
        return text
    raise SqlError(
        f'query policy "{policy}" is unknown',
        hint=f"use {', '.join(POLICIES)}, an epoch (a number), or a timestamp such as 2026-01-31 12:00:00 (UTC)",
    )


def choose_epochs(
    version: Version, stored: StoredCatalog, tables: Sequence[str], policy: str = "consistent"
) -> dict[str, int]:
    """Return the epoch at which each table is read.

    `consistent`: the newest at which all of these tables have content; `latest`: each table's own newest; `global`: the newest at
    which all views that have been computed have it as well; a timestamp: the newest at or before it; an epoch: just that one.
    Raises EpochFailed where tables have no content there, EpochExpired where it has been let go.
    """
    content, policy = Content(version, stored.inputs), check_policy(policy)
    for name in tables:
        _check_computed(name, content)
    if policy == "latest":
        return {name: content.find_newest(name, version.epoch) or 0 for name in tables}
    if policy == "consistent":
        return _align_epochs(content, tables, version.epoch, stored)
    if policy == "global":
        found = _align_epochs(
            content, (*tables, *_list_computed_views(version, stored)), version.epoch, stored
        )
        return {name: found[name] for name in tables}
    instant = _parse_instant(policy)
    if instant is None:
        for name in tables:
            check_has_content(content, name, int(policy))
        return _check_readable(content, tables, int(policy), stored)
    if instant > time.time():
        raise EpochFailed(f"{policy} (UTC) is not past yet: ask for an earlier time")
    return _align_epochs(content, tables, min(last_epoch_at(instant), version.epoch), stored)


def find_epochs_at(
    moments: Mapping[str, Moment], version: Version, stored: StoredCatalog, now: float
) -> dict[str, int]:
    """Return the epochs of tables that are read at moments of their own (FOR SYSTEM_TIME AS OF).

    An epoch is exact. A time is the newest epoch at or before it at which all tables of that time have content: a view shows what
    it had committed then. Raises SqlError for a future and for an epoch at which a table has no content, EpochExpired for one
    that was let go.
    """
    content, found = Content(version, stored.inputs), dict[str, int]()
    for moment in dict.fromkeys(moments.values()):
        tables = [name for name, at in moments.items() if at == moment]
        if moment.epoch is not None:
            if moment.epoch > version.epoch:
                raise SqlError(
                    f"epoch {format_epoch(moment.epoch)} of table {tables[0]} lies in the future: the newest is "
                    f"{format_epoch(version.epoch)}",
                    hint="name no moment to read the newest",
                )
            try:
                for name in tables:
                    _check_existed(stored, name, moment.epoch)
                    check_has_content(content, name, moment.epoch)
            except EpochFailed as failure:
                raise SqlError(str(failure)) from failure
            found |= _check_readable(content, tables, moment.epoch, stored)
            continue
        seconds = moment.seconds if moment.ago is None else now - moment.ago
        assert seconds is not None
        if seconds > now + 1:
            raise SqlError(
                f"the moment at which table {tables[0]} is to be read lies in the future",
                hint="name no moment to read the newest",
            )
        for name in tables:
            _check_existed(stored, name, last_epoch_at(seconds))
        found |= _align_epochs(content, tables, min(version.epoch, last_epoch_at(seconds)), stored)
    return found


def _check_existed(stored: StoredCatalog, name: str, epoch: int) -> None:
    """Raise SqlError for a table that had not been created at an epoch: it had no rows, but nor was it empty."""
    relation = stored.catalog.relations.get(name)
    if relation is not None and epoch < relation.since:
        message = f"table {name} was not there yet at {format_epoch_time(epoch)} UTC"
        raise SqlError(message, hint=f"it was created after {format_epoch_time(relation.since)} UTC")


def check_has_content(content: Content, name: str, epoch: int) -> None:
    """Raise EpochFailed, naming the epochs next to it, if a table has no content at an epoch: none is taken in its place."""
    _check_computed(name, content)
    if content.has_content(name, epoch):
        return
    before, after = content.find_newest(name, epoch), content.find_next(name, epoch)
    near = [f"up to epoch {format_epoch(before)}"] if before is not None else []
    near += [f"from epoch {format_epoch(after)} on"] if after is not None else []
    hint = "run FLUSH, or ask for one of these" if after is None else "ask for one of these"
    raise EpochFailed(
        f"{name} has no content at epoch {format_epoch(epoch)}; it has {' and '.join(near)}: {hint}"
    )


def find_global_epoch(version: Version, stored: StoredCatalog) -> int | None:
    """Return the newest epoch at which all computed views have content; those that are being created do not count.

    None if they have not met at any epoch yet.
    """
    return Content(version, stored.inputs).find_common(_list_computed_views(version, stored), version.epoch)


def _list_computed_views(version: Version, stored: StoredCatalog) -> tuple[str, ...]:
    resting = list_resting_views(stored)
    return tuple(
        name
        for name in stored.plans
        if find_computed_table(version, name) is not None and name not in resting
    )


def _align_epochs(
    content: Content, tables: Sequence[str], upto: int, stored: StoredCatalog
) -> dict[str, int]:
    """Return the newest epoch at or below `upto` at which all tables have content, for each of them."""
    epoch = content.find_common(tables, upto)
    if epoch is not None:
        return _check_readable(content, tables, epoch, stored)
    for name in tables:
        _check_computed(name, content)
        first = content.find_next(name, 0)
        if content.find_newest(name, upto) is None:
            raise EpochExpired(
                f"view {name} has content from epoch {format_epoch(first or 0)} on, epoch {format_epoch(upto)} was asked for: "
                f"ask for a newer one, or use the policy latest"
            )
    named = ", ".join(dict.fromkeys(tables))
    raise EpochFailed(
        f"{named} have no epoch in common at which each has content: run {suggest_refresh(stored, tables)}, or read each at "
        f"its own newest epoch with "
        f"SET query_policy = latest"
    )


def _check_readable(
    content: Content, tables: Sequence[str], epoch: int, stored: StoredCatalog
) -> dict[str, int]:
    for name in tables:
        safe = content.version.tables[name].safe_epoch
        if epoch < safe:
            raise EpochExpired(
                f"table {name} can be read from epoch {format_epoch(safe)} on, and epoch {format_epoch(epoch)} is the newest at "
                f"which all that is read has content: run {suggest_refresh(stored, tables)}, or read each at its "
                f"own newest with SET query_policy = latest"
            )
    return dict.fromkeys(tables, epoch)


def _check_computed(name: str, content: Content) -> None:
    if content.find_newest(name, content.version.epoch) is None:
        raise EpochFailed(
            f"view {name} has not been computed yet: run FLUSH, or WAIT FOR {name} if it is built in steps; `tideline status "
            "--waits` says what hinders it"
        )


def _parse_instant(text: str) -> float | None:
    """Seconds since 1970 of an ISO timestamp, UTC unless it says otherwise; None if it is none."""
    if not re.match(r"\d{4}-\d{2}-\d{2}", text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
