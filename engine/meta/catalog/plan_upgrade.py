"""Plans as earlier versions stored them: they are read as what they mean now, and written so by the next flush.

Fragments, states and keys stay what they are, so that a view goes on from the content that it has.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from engine.errors import Conflict
from engine.hummock import Commit, Hummock, Version
from engine.meta.catalog.expression_texts import has_texts, parse_expressions
from engine.meta.catalog.rule_words import has_rule_words, replace_rule_words
from engine.sql.incremental.fragments import IncrementalPlan

PLAN = "plan/"


def needs_upgrade(plan: str) -> bool:
    """Tell whether a stored plan is one that an earlier version has written."""
    return has_rule_words(plan) or has_texts(plan)


def decode_plan(text: str) -> IncrementalPlan:
    """Return the plan that a catalog entry holds, whatever version has written it."""
    if not needs_upgrade(text):
        return msgspec.json.decode(text, type=IncrementalPlan)
    plan = msgspec.json.decode(text)
    if has_texts(text):  # newer than texts are trees in whose parts the same names mean something else
        plan = parse_expressions(plan)
    return msgspec.convert(replace_rule_words(plan), IncrementalPlan)


def upgrade_plans(store: Hummock) -> Version:
    """Return the newest version; plans of earlier versions are written anew first, all of them in one commit."""
    version = store.refresh()
    old = {key: text for key, text in version.catalog.items() if key.startswith(PLAN) and needs_upgrade(text)}
    if not old:
        return version
    new = {key: msgspec.json.encode(decode_plan(text)).decode() for key, text in old.items()}

    def check_unchanged(now: Version) -> None:
        if any(now.catalog.get(key) != text for key, text in old.items()):
            raise Conflict("a plan was dropped or rewritten by another process at the same time")

    with suppress(Conflict):  # the next flush finds what is left
        return store.commit(Commit(catalog=new, precondition=check_unchanged))
    return store.refresh()
