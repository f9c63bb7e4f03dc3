"""Views that are read together show one state of the source tables, and a view that reads views mixes no two."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping

import pyarrow as pa

from engine.hummock import Version
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.epochs.content import Content
from tests.crash.broken import Broken
from tests.crash.program.event_verbs import EVENTS
from tests.crash.reference import at_moment, run
from tests.crash.tables import TABLES

Read = Callable[[Version, str, int], pa.Table]


def check_meeting(
    version: Version,
    texts: Mapping[str, str],
    read: Read,
    bag: Callable[[pa.Table], Counter],
    since: Mapping[str, int],
) -> None:
    """Compare some views, at an epoch at which all have content, with their queries over the source tables alone.

    `texts` are the views' queries by name, without those of which a partition was ever left behind, `read` gives a stored table at an epoch, `bag` its rows; `since` says of views that got
    another query from which epoch on they have its content.
    """
    stored, chance = load_catalog(version), random.Random(version.number)
    whole = [name for name in texts if name in stored.plans and _is_whole(version, stored, name, texts)]
    if not whole:
        return
    names = chance.sample(whole, min(len(whole), chance.choice((1, 2, 3))))
    content = Content(version, stored.inputs)
    newest = content.find_common(names, version.epoch)
    below = _with_upstreams(stored, names)
    oldest = max(max(version.tables[name].safe_epoch, since.get(name, 0)) for name in below)
    if newest is None or newest < oldest:
        return
    earlier = content.find_common(names, chance.randint(oldest, newest))
    for epoch in {newest, earlier if earlier is not None and earlier >= oldest else newest}:
        known: dict[str, pa.Table] = {}
        then = {name: at_moment(text, epoch) for name, text in texts.items()}
        for name in names:
            wanted = _result(name, then, known, lambda table, at=epoch: read(version, table, at))
            if bag(read(version, name, epoch)) != bag(wanted):
                raise Broken(
                    f"{name} at epoch {epoch}, where {names} have content, is not its query over the sources"
                )


def _result(
    name: str, texts: Mapping[str, str], known: dict[str, pa.Table], read: Callable[[str], pa.Table]
) -> pa.Table:
    if name not in known:
        if name in texts:
            reads = {table for table in (*texts, *TABLES, EVENTS) if _names(texts[name], table)}
            known[name] = run(texts[name], {table: _result(table, texts, known, read) for table in reads})
        else:
            known[name] = read(name)
    return known[name]


def _names(text: str, table: str) -> bool:
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    return any(word == table and words[at - 1].upper() in ("FROM", "JOIN") for at, word in enumerate(words))


def _with_upstreams(stored: StoredCatalog, names: list[str]) -> set[str]:
    found, queue = set(names), list(names)
    while queue:
        for upstream in stored.inputs[queue.pop()]:
            if upstream not in found:
                found.add(upstream)
                queue.append(upstream)
    return found


def _is_whole(version: Version, stored: StoredCatalog, name: str, texts: Mapping[str, str]) -> bool:
    """Whether a view and all that it reads are computed, and all views that it reads are among those to be looked at."""
    tables = _with_upstreams(stored, [name])
    views = {stored.owners[table] for table in tables if table in stored.owners and _is_view(stored, table)}
    return views <= set(texts) and all(find_computed_table(version, table) is not None for table in tables)


def _is_view(stored: StoredCatalog, table: str) -> bool:
    return stored.catalog.relations[stored.owners[table]].kind == "materialized view"
