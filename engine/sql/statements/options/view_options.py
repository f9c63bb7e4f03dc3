"""WITH options of materialized views: which there are, what they may say, and what they mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from engine.sql.dialect import Dialect
from engine.sql.parsing.statement_errors import unsupported_error_at
from engine.sql.statements.options import refresh_schedule
from engine.sql.statements.options.check_list import FORM, parse_checks
from engine.sql.statements.options.gate_bounds import FORM as FORM_OF_GATE
from engine.sql.statements.options.gate_bounds import GATE, parse_gate

RefreshPolicy = Literal["auto", "incremental", "full"]
OnRowError = Literal["fail", "null"]
Rules = Literal["fast", "reference"]

_NAME = r'\s*(?:"((?:[^"]|"")+)"|([^,"]*[^,"\s]))\s*'
_NAMES = rf"{_NAME}(?:,{_NAME})*"


class ViewOption(NamedTuple):
    """One option: what its values are, as a pattern and in words; what it means; what holds without it."""

    pattern: str
    form: str
    meaning: str
    default: str = ""


VIEW_OPTIONS: Mapping[str, ViewOption] = {
    "key": ViewOption(
        _NAMES,
        "columns of the view, for example 'id' or 'day, id'",
        "with refresh_policy = 'full': the columns that identify its rows",
        "all columns that are not nested, and a hidden number among equal rows",
    ),
    "refresh_policy": ViewOption(
        r"auto|incremental|full",
        "auto, incremental or full",
        "how an epoch computes the view: from the changes (auto and incremental), or by its query as a whole (full)",
        "auto",
    ),
    "on_row_error": ViewOption(
        r"fail|null",
        "fail or null",
        "what becomes of a row on which an expression fails: the view stops, or the expression is null",
        "fail; in the dialect risingwave null",
    ),
    "domain": ViewOption(
        r"[A-Za-z_]\w*", "a name", "views of one domain commit together, and fail together", "one of its own"
    ),
    "partition_by": ViewOption(
        _NAMES, "columns of the view", "each value of these columns is a partition that fails by itself"
    ),
    "partitions": ViewOption(
        r"2|4|8|16|32|64|128|256",
        "a power of two up to 256, the number of groups of vnodes",
        "how many groups the view is divided into: of vnodes, or with partition_by of its values",
    ),
    "retention": ViewOption(
        r"\d+(\.\d+)?\s*(second|minute|hour|day|week)s?|\d+",
        "a time, for example '2 days', or seconds",
        "how long the view's history and its change log are kept",
        "the store's: 10 minutes of history, changes that a reader lacks for 7 days",
    ),
    "backfill_rate_limit": ViewOption(
        r"\d+|default",
        "rows a second, 0 to pause, or default",
        "the most rows a second that its backfill reads; asked again before each step",
        "none: the backfill finds its pace",
    ),
    "backfill_order": ViewOption(
        r"(fixed\s*\([\s\S]*\)|auto|none)",
        "FIXED(a -> b, …), AUTO or NONE",
        "allowed if the view reads what it names; all inputs are read at one epoch",
    ),
    "pandera": ViewOption(
        r"[A-Za-z_][\w.]*:[A-Za-z_]\w*",
        "a schema to import, for example 'assets.checks:Totals'",
        "a pandera schema that new and changed rows must satisfy before they are committed",
    ),
    "checks": ViewOption(
        r"[\s\S]+",
        f"checks between semicolons, each {FORM}",
        "what must hold of the view at each epoch, checked before the epoch is committed: an error stops it, `warn` does not",
    ),
    GATE: ViewOption(
        r"[\s\S]+",
        FORM_OF_GATE,
        "how much its rows may change when it gets another query: beyond that the present one stays until somebody approves",
        "no bound",
    ),
    "background": ViewOption(
        r"true|false", "true or false", "CREATE returns at once, later runs build the view in steps", "false"
    ),
    "rules": ViewOption(
        r"fast|reference",
        "fast, or reference: every operator recomputes the keys that changed",
        "by which incremental rules the view is kept",
        "fast",
    ),
    "checkpoint_frequency": ViewOption(
        r"[1-9]\d{0,4}|default",
        "a number of barriers",
        "runs that nobody starts by hand commit at every n-th barrier, or n seconds after the first",
        "1",
    ),
    "refresh": ViewOption(
        refresh_schedule.PATTERN,
        refresh_schedule.FORM,
        "when runs update the view that did not name it; other runs leave it alone",
        "always: every run does",
    ),
    "parallelism": ViewOption(
        r"[1-9]\d*|adaptive|default",
        "a number of tasks, or adaptive",
        "how many tasks write a larger epoch, each a range of vnodes",
        "adaptive: follows the cores",
    ),
}
"""The options by name; `docs/reference.md` is made of this table."""
CHANGEABLE = (
    "backfill_rate_limit", "parallelism", "retention", "checkpoint_frequency", "refresh", "checks", GATE,
)  # fmt: skip
_INTERVAL = "refresh.interval.sec"
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def check_view_options(options: Mapping[str, str], places: Mapping[str, int], sql: str) -> None:
    """Raise UnsupportedSql, with the place, for an option of a materialized view that is unknown or has a wrong value."""
    for name, value in options.items():
        check_option(name, value, places.get(name, 0), sql)
    check_alone(options, places.get("refresh", 0), sql)


def normalize_names(options: Mapping[str, str], places: dict[str, int], sql: str) -> dict[str, str]:
    """Return a view's options with `refresh.interval.sec = 3` as refresh = 'every 3 seconds'; `places` follow."""
    found = dict(options)
    if (seconds := found.pop(_INTERVAL, None)) is not None:
        start = places.get(_INTERVAL, 0)
        if re.fullmatch(r"[1-9]\d{0,8}", seconds) is None:
            raise unsupported_error_at(
                f"option {_INTERVAL} cannot be '{seconds}'", sql, start, "it is a number of seconds"
            )
        if "refresh" in found:
            raise unsupported_error_at(
                f"{_INTERVAL} and refresh say the same", sql, start, "leave one of the two out"
            )
        found["refresh"], places["refresh"] = f"every {seconds} seconds", start
    return found


def check_option(name: str, value: str, start: int, sql: str) -> None:
    """Raise UnsupportedSql for one option, which stands at the character `start`."""
    if name not in VIEW_OPTIONS:
        near = difflib.get_close_matches(name, VIEW_OPTIONS, 1)
        hint = f"did you mean {near[0]}?" if near else f"options are {', '.join(VIEW_OPTIONS)}"
        raise unsupported_error_at(f"there is no option {name} of a materialized view", sql, start, hint)
    option = VIEW_OPTIONS[name]
    if name == "refresh" and re.fullmatch(VIEW_OPTIONS["refresh_policy"].pattern, value, re.IGNORECASE):
        hint = f"how it is computed says refresh_policy = '{value}'; when it is says refresh, which is {option.form}"
        raise unsupported_error_at(f"option {name} cannot be '{value}'", sql, start, hint)
    if re.fullmatch(option.pattern, value, re.IGNORECASE) is None:
        raise unsupported_error_at(f"option {name} cannot be '{value}'", sql, start, f"it is {option.form}")
    if name == "checks":
        parse_checks(value, sql)
    if name == GATE and value.lower() != "default":
        parse_gate(value, sql)
    if name == "refresh" and (wrong := refresh_schedule.validate_schedule(value)) is not None:
        raise unsupported_error_at(
            f"option refresh cannot be '{value}': {wrong}", sql, start, f"it is {option.form}"
        )


def check_alone(options: Mapping[str, str], start: int, sql: str) -> None:
    """Raise UnsupportedSql for a view that commits with others, but is to be refreshed at times of its own."""
    if "refresh" in options and "domain" in options:
        hint = "leave one of the two out"
        message = f"the views of domain {options['domain']} commit together: none can have its own refresh"
        raise unsupported_error_at(message, sql, start, hint)


def merge_options(before: Mapping[str, str], changes: Mapping[str, str], sql: str) -> dict[str, str]:
    """Return a view's options with some of them changed, without those that are to be the default; raises as `check_alone`."""
    merged = {name: value for name, value in {**before, **changes}.items() if value.lower() != "default"}
    check_alone(merged, max(sql.lower().find("refresh"), 0), sql)
    return merged


def resolve_rules(options: Mapping[str, str]) -> Rules:
    """Return which incremental rules keep a view: the fast ones, or the reference that they are held against."""
    return options.get("rules", "fast").lower()  # type: ignore[return-value]  # CREATE took no other word


def resolve_on_row_error(options: Mapping[str, str], dialect: Dialect) -> OnRowError:
    """Return what becomes of an expression that fails on a row: `fail` by default, `null` in the dialect risingwave."""
    text = options.get("on_row_error", "null" if dialect == "risingwave" else "fail")
    return text.lower()  # type: ignore[return-value]  # CREATE took no other word


def parse_column_list(text: str) -> tuple[str, ...]:
    """Return the column names that an option lists: those in quotes are exact, others in lower case."""
    found = re.findall(rf"{_NAME}(?:,|$)", text)
    return tuple(quoted.replace('""', '"') if quoted else plain.lower() for quoted, plain in found)


def parse_retention(text: str) -> float:
    """Return a time such as '2 days' in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*?)s?", text.strip().lower())
    assert found is not None
    return float(found[1]) * _SECONDS.get(found[2], 1)
