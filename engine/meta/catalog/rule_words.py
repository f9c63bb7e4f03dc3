"""The rule of a fragment as plans held it when it was a word beside the fragment's partials: it is read into its kind."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.sql.incremental.group_keys import is_global
from engine.sql.incremental.rules import FirstRows, KeyedRecompute, Rule
from engine.sql.plan import Aggregate, Node, Project, TopN


def has_rule_words(plan: str) -> bool:
    """Tell whether a stored plan names rules by words; inside of a value the mark would have its quotes escaped."""
    return '"rule":"' in plan


def replace_rule_words(plan: Any) -> Any:
    """Return a stored plan, decoded from JSON, with a kind in the place of each word; expressions are trees already."""
    return {**plan, "fragments": [_convert_fragment(fragment) for fragment in plan["fragments"]]}


def _convert_fragment(fragment: Any) -> Any:
    if not isinstance(fragment["rule"], str):
        return fragment
    others = {name: value for name, value in fragment.items() if name != "partials"}
    return {**others, "rule": msgspec.to_builtins(_build_rule(fragment))}


def _build_rule(fragment: Any) -> Rule:
    """Return the kind of rule that a word means; what it carries stood beside the word, or stands in the plan."""
    top: Node = msgspec.convert(fragment["plan"], Node)
    match fragment["rule"], top:
        case "keyed recompute", Project(input=Aggregate() as node):
            return KeyedRecompute(() if is_global(node) else tuple(expr.columns[0] for _, expr in node.keys))
        case "top-n", Project(input=TopN() as node):
            return FirstRows(node.partition)
    carried: dict[str, Any] = {"type": fragment["rule"]}
    if fragment["rule"] == "aggregate":
        carried["partials"] = fragment.get("partials", ())
    rule: Rule = msgspec.convert(carried, Rule)
    return rule
