"""Plans as earlier versions stored them: they are read as what they mean now, and written so by the next flush.

Fragments, states and keys stay what they are, so that a view goes on from the content that it has.
"""

from __future__ import annotations

import msgspec

from engine.errors import GroundLost
from engine.hummock import Commit, Hummock, Version
from engine.hummock.manifests.preconditions import require_all
from engine.hummock.transact import commit_once
from engine.meta.catalog.expression_texts import has_texts, parse_expressions
from engine.meta.catalog.records import Prefix, Record, encode_json
from engine.meta.catalog.rule_words import has_rule_words, replace_rule_words
from engine.sql.incremental.fragments import IncrementalPlan


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


PLANS = Record(Prefix.PLAN, decode_plan, encode_json)


def upgrade_plans(store: Hummock) -> Version:
    """Return the newest version; plans of earlier versions are written anew first, all of them in one commit."""
    version = store.refresh()
    old = [name for name, text in PLANS.list_texts(version.catalog).items() if needs_upgrade(text)]
    if not old:
        return version
    plans = PLANS.list(version)
    new = {key: text for name in old for key, text in PLANS.record(name, plans[name]).items()}
    message = "a plan was dropped or written anew by another process meanwhile"
    unchanged = require_all(*(PLANS.require_same(version, name, message) for name in old))
    # where another process was faster the next flush finds what is left
    commit_once(store, lambda: store.commit(Commit(catalog=new, precondition=unchanged)), GroundLost)
    return store.version
