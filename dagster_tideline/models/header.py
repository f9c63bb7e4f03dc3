"""What the comment lines above a model say of its asset, and the arguments of `@materialized_view`: the same words, read once."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from dagster_tideline.dagster_internals import is_valid_cron_string
from engine.errors import SqlError
from engine.sql.parsing.names import NAME, parse_name
from engine.sql.statements.options.gate_bounds import GATE

DELTA = "delta"
RENAMED_FROM = "renamed from"
KEYS = (
    "group",
    "owners",
    "description",
    "dialect",
    "tags",
    "freshness",
    "automation",
    DELTA,
    GATE,
    RENAMED_FROM,
)
"""What a line `-- key: value` may say; `-- check name (warn): …` says a check."""
HEADER_ARGUMENTS = {
    "group": "group",
    "freshness": "freshness",
    "automation": "automation",
    "renamed_from": RENAMED_FROM,
}
"""The arguments of `@materialized_view` that say what a line of a header says, and the key of that line."""
SHORTEST_SECONDS = 60
_UNITS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
_TIME = r"(\d+)\s*(s|min|h|d)"
_FRESHNESS = re.compile(rf"{_TIME}(?:\s+warn\s+{_TIME})?", re.IGNORECASE)
_TAG = re.compile(r"((?:[\w.-]{1,63}/)?[\w.-]{1,63})(?:\s*=\s*([\w.-]{0,63}))?", re.ASCII)
_CRON = re.compile(r"on_cron\(\s*(['\"])(.*)\1\s*\)")
_CHECK = re.compile(r"check(?:\s+([A-Za-z_]\w*))?\s*(?:\(\s*(\w+)\s*\))?\s*$", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z_]+|renamed?[ -]fr?(?:om|mo)|renamed?[ -]form")


@dataclass(frozen=True)
class HeaderLine:
    """A value of a header, and the character of the text at which it begins."""

    value: str
    start: int = 0


@dataclass
class Header:
    """What a header says: `lines` by key, and the texts of `checks`, as the option of the view has them."""

    lines: dict[str, HeaderLine] = field(default_factory=dict)
    checks: list[HeaderLine] = field(default_factory=list)

    def get(self, key: str, default: str = "") -> str:
        """Return what a key says, else what holds without it."""
        return self.lines[key].value if key in self.lines else default


def parse_header(text: str, whole: str = "", begin: int = 0, *, strict: bool = True) -> Header:
    """Read the comment lines at the top: `-- key: value`; others are the description. Raises SqlError with line and caret.

    Places are those of the text `whole`, in which this one begins at a character. Unless `strict`, no line is wrong, and
    checks are left out.
    """
    found, prose = Header(), []
    whole, at = whole or text, begin
    for line in text.splitlines(keepends=True):
        stripped, place = line.strip(), at + len(line) - len(line.lstrip())
        at += len(line)
        if not stripped.startswith("--"):
            if stripped:
                break
            continue
        content = stripped.lstrip("-").strip()
        place += stripped.index(content) if content else 0
        key, colon, value = content.partition(":")
        start = place + len(key) + 1 + len(value) - len(value.lstrip())
        name = " ".join(key.lower().split())
        if colon and name in KEYS:
            found.lines[name] = HeaderLine(value.strip(), start)
        elif colon and (said := _CHECK.fullmatch(key.strip())):
            if strict:
                found.checks.append(_parse_check(said, value.strip(), HeaderLine(whole, place), start))
        else:
            near = (
                difflib.get_close_matches(name, (*KEYS, "check"), 1, 0.75)
                if colon and _KEY.fullmatch(name)
                else []
            )
            if near and value.strip() and strict:
                raise build_error(f"there is no {name} of a model", place, whole, f"write -- {near[0]}: …")
            if content:
                prose.append(content)
    if prose and "description" not in found.lines:
        found.lines["description"] = HeaderLine(" ".join(prose))
    return found


def _parse_check(said: re.Match[str], value: str, whole: HeaderLine, start: int) -> HeaderLine:
    """Return a check as the option says it: `-- check big (warn): n < 9` is `big: n < 9 warn`."""
    name, severity = said[1], (said[2] or "").lower()
    if severity not in ("", "warn", "error"):
        hint = "write -- check (warn): … or -- check (error): …"
        raise build_error(f"a check cannot be {severity}", whole.start, whole.value, hint)
    if not value:
        hint = "write -- check: not_null(a, b), a condition, or a SELECT that returns no row"
        raise build_error("this check says nothing", whole.start, whole.value, hint)
    if ";" in re.sub(r"'[^']*'", "", value):
        hint = "write each check on its own line"
        raise build_error("a line says one check", start, whole.value, hint)
    return HeaderLine(f"{name}: {value} {severity}".strip() if name else f"{value} {severity}".strip(), start)


def parse_former_name(line: HeaderLine, name: str, text: str) -> str:
    """Return the name that a model had before, as the catalog knows it; raises SqlError for none, and for its own."""
    hint = "write -- renamed from: the name that it had before"
    if re.fullmatch(NAME, line.value) is None:
        raise build_error(f'"{line.value}" is no name of a relation', line.start, text, hint)
    found = parse_name(line.value, "spark")
    if found == name:
        raise build_error(f"{name} is its name now", line.start, text, hint)
    return found


def parse_tags(line: HeaderLine, text: str) -> dict[str, str]:
    """Return tags such as `a=b, c`; raises SqlError for one that Dagster does not take."""
    found: dict[str, str] = {}
    at = line.start
    for part in line.value.split(","):
        match = _TAG.fullmatch(part.strip())
        if match is None or match[1].split("/")[0] in ("dagster", "tideline"):
            hint = "write tags: name=value, other; with letters, digits, _, - and ., not below dagster/ or tideline/"
            raise build_error(f'"{part.strip()}" is no tag', at + len(part) - len(part.lstrip()), text, hint)
        found[match[1]] = match[2] or ""
        at += len(part) + 1
    return found


def parse_freshness(line: HeaderLine, text: str) -> dg.FreshnessPolicy:
    """Return the policy that `60 s warn 30 s` says; raises SqlError where Dagster takes none such."""
    match = _FRESHNESS.fullmatch(line.value.strip())
    form = "write freshness: 10 min warn 5 min, with s, min, h or d"
    if match is None:
        raise build_error(f'"{line.value}" is no time to be fresh within', line.start, text, form)
    fail = int(match[1]) * _UNITS[match[2].lower()]
    warn = int(match[3]) * _UNITS[match[4].lower()] if match[3] is not None else None
    if fail < SHORTEST_SECONDS:
        hint = f"{form}: Dagster looks at ages of {SHORTEST_SECONDS} s and more"
        raise build_error(f"{line.value} is too short a time to be fresh within", line.start, text, hint)
    if warn is not None and not 0 < warn < fail:
        raise build_error(
            "the warning comes no sooner than the failure", line.start + match.start(3), text, form
        )
    return dg.FreshnessPolicy.time_window(
        fail_window=datetime.timedelta(seconds=fail),
        warn_window=None if warn is None else datetime.timedelta(seconds=warn),
    )


def parse_automation(line: HeaderLine, text: str) -> dg.AutomationCondition[Any] | None:
    """Return the condition that `eager` or `on_cron('0 6 * * *')` says, None for `none`; raises SqlError for another."""
    value = line.value.strip()
    if value.lower() in ("eager", "none"):
        return dg.AutomationCondition.eager() if value.lower() == "eager" else None
    cron = _CRON.fullmatch(value)
    if cron is None:
        hint = (
            "write automation: eager, on_cron('0 6 * * *') or none; without it the sensor brings the model on"
        )
        raise build_error(f'"{value}" is no automation', line.start, text, hint)
    if not is_valid_cron_string(cron[2]):
        hint = "write minute, hour, day, month and weekday: '0 6 * * *'"
        raise build_error(f"'{cron[2]}' is no schedule", line.start + value.index(cron[2]), text, hint)
    return dg.AutomationCondition.on_cron(cron[2])


def build_header_lines(
    owners: Sequence[str], tags: Mapping[str, str], texts: Mapping[str, str | None]
) -> dict[str, str]:
    """Return what a decorator or a component says as the lines of a header say it."""
    lines = {key: text for key, text in texts.items() if text is not None}
    if owners:
        lines["owners"] = ", ".join(owners)
    if tags:
        lines["tags"] = ", ".join(f"{name}={value}" if value else name for name, value in tags.items())
    return lines


def build_error(message: str, at: int, text: str, hint: str) -> SqlError:
    """Return the error for what stands at a character of a model's text."""
    before = text[:at]
    line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
    return SqlError(message, sql=text, line=line if text else 0, column=column, hint=hint)
