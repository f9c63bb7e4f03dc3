"""WITH options of materialized views: which there are, what they may say, and what they mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Literal

from engine.sql.catalog import Relation
from engine.sql.dialect import Dialect
from engine.sql.parsing.refusals import refusal

RefreshPolicy = Literal["auto", "incremental", "full"]
OnRowError = Literal["fail", "null"]
Rules = Literal["fast", "reference"]

_NAME = r'\s*(?:"((?:[^"]|"")+)"|([^,"]*[^,"\s]))\s*'
_NAMES = rf"{_NAME}(?:,{_NAME})*"
_FORMS = {
    "key": (_NAMES, "columns of the view, for example 'id' or 'day, id'"),
    "refresh_policy": (r"auto|incremental|full", "auto, incremental or full"),
    "on_row_error": (r"fail|null", "fail or null"),
    "domain": (r"[A-Za-z_]\w*", "a name"),
    "partition_by": (_NAMES, "columns of the view"),
    "partitions": (r"2|4|8|16|32|64|128|256", "a power of two up to 256, the number of groups of vnodes"),
    "retention": (
        r"\d+(\.\d+)?\s*(second|minute|hour|day|week)s?|\d+",
        "a time, for example '2 days', or seconds",
    ),
    "backfill_rate_limit": (r"\d+|default", "rows a second, 0 to pause, or default"),
    "pandera": (r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", "a schema to import, for example 'assets.checks:Totals'"),
    "background": (r"true|false", "true or false"),
    "rules": (r"fast|reference", "fast, or reference: every operator recomputes the keys that changed"),
    "checkpoint_frequency": (r"[1-9]\d{0,4}|default", "a number of barriers"),
    "parallelism": (r"[1-9]\d*|adaptive|default", "a number of tasks, or adaptive"),
}
CHANGEABLE = ("backfill_rate_limit", "parallelism", "retention", "on_row_error", "checkpoint_frequency")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def check_view_options(options: Mapping[str, str], places: Mapping[str, int], sql: str) -> None:
    """Raise UnsupportedSql, with the place, for an option of a materialized view that is unknown or has a wrong value."""
    for name, value in options.items():
        check_option(name, value, places.get(name, 0), sql)


def check_option(name: str, value: str, start: int, sql: str) -> None:
    """Raise UnsupportedSql for one option, which stands at the character `start`."""
    if name not in _FORMS:
        near = difflib.get_close_matches(name, _FORMS, 1)
        hint = f"did you mean {near[0]}?" if near else f"options are {', '.join(_FORMS)}"
        raise refusal(f"there is no option {name} of a materialized view", sql, start, hint)
    pattern, form = _FORMS[name]
    if re.fullmatch(pattern, value, re.IGNORECASE) is None:
        raise refusal(f"option {name} cannot be '{value}'", sql, start, f"it is {form}")


def refresh_policy(relation: Relation) -> RefreshPolicy:
    """Return how a materialized view is kept up to date."""
    return relation.options.get("refresh_policy", "auto").lower()  # type: ignore[return-value]  # CREATE took no other word


def rules(options: Mapping[str, str]) -> Rules:
    """Return which incremental rules keep a view: the fast ones, or the reference that they are held against."""
    return options.get("rules", "fast").lower()  # type: ignore[return-value]  # CREATE took no other word


def on_row_error(options: Mapping[str, str], dialect: Dialect) -> OnRowError:
    """Return what becomes of an expression that fails on a row: `fail` by default, `null` in the dialect risingwave."""
    given = options.get("on_row_error", "null" if dialect == "risingwave" else "fail")
    return given.lower()  # type: ignore[return-value]  # CREATE took no other word


def column_list(text: str) -> tuple[str, ...]:
    """Return the column names that an option lists: those in quotes are exact, others in lower case."""
    found = re.findall(rf"{_NAME}(?:,|$)", text)
    return tuple(quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in found)


def retention_seconds(text: str) -> float:
    """Return a time such as '2 days' in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*?)s?", text.strip().lower())
    assert found is not None
    return float(found[1]) * _SECONDS.get(found[2], 1)
