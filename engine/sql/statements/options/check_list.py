"""The option `checks` of a materialized view, read: `not_null(a); unique(a, b); big: n < 1000 warn; SELECT … FROM v`.

Checks stand between semicolons. Each may begin with a name and a colon, and end with its severity, `error` or `warn`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.errors import SqlError
from engine.sql.checks import PANDERA, Severity
from engine.sql.parsing.statement_errors import unsupported_error_at

FORM = (
    "not_null(a, b), unique(a, b), accepted(status, 'x', 'y'), falls_at_most(0.5), a condition such as n >= 0, or a SELECT that "
    "returns the rows that must not be; with a name before it (big: n < 1000) and warn behind it"
)
MOST_CHECKS = 60
_WORDS = ("not_null", "unique", "accepted", "falls_at_most")
_PART = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|[();]|[^'\"`();]+|.", re.DOTALL)
_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*:(?!:)")
_SEVERITY = re.compile(r"(?<![\w.])(warn|error)\s*$", re.IGNORECASE)
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(([\s\S]*)\)", re.DOTALL)
_COLUMN = r'\s*(?:"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([A-Za-z_]\w*))\s*'
_SHARE = re.compile(r"\s*(0?\.\d+|0|1(?:\.0+)?|0\.0*)\s*")


@dataclass(frozen=True)
class CheckClause:
    """A check as it was written, at the character `start` of the option; `word` is what it calls, "" or `select` otherwise.

    `columns` are those that it names; the first of `accepted` with its values in `condition`. Others hold their text there, which
    begins at `place`.
    """

    name: str
    word: str
    text: str
    severity: Severity
    start: int
    columns: tuple[str, ...] = ()
    condition: str = ""
    place: int = 0
    share: float = 0.0


def parse_checks(text: str, sql: str) -> tuple[CheckClause, ...]:
    """Return the checks that an option says; raises SqlError with the place in the statement `sql`."""
    found: list[CheckClause] = []
    starts: dict[str, int] = {}
    for number, (part, start) in enumerate(_split_parts(text, sql), 1):
        check = _parse_check(part, start, number, text, sql)
        if check.name.lower() in starts:
            hint = "give one of them a name of its own: name: check"
            raise build_check_error(f"two checks are named {check.name}", check.start, text, sql, hint)
        if check.name.lower() == PANDERA:
            hint = "choose another: so is the check called that the option pandera makes"
            raise build_check_error("a check cannot be named pandera", check.start, text, sql, hint)
        starts[check.name.lower()] = start
        found.append(check)
    if not found:
        raise build_check_error("the option checks says no check", 0, text, sql, f"a check is {FORM}")
    if len(found) > MOST_CHECKS:
        hint = "say several conditions in one: a IS NOT NULL AND n >= 0"
        start = found[MOST_CHECKS].start
        raise build_check_error(
            f"a view has {MOST_CHECKS} checks at most, not {len(found)}", start, text, sql, hint
        )
    return tuple(found)


def build_check_error(message: str, at: int, text: str, sql: str, hint: str) -> SqlError:
    """Return the error for what stands at a character of the option's text, shown where it stands in the statement."""
    return unsupported_error_at(message, sql, locate_in_statement(at, text, sql), hint)


def locate_in_statement(at: int, text: str, sql: str) -> int:
    """Return where a character of the option's text stands in a statement; the word `checks` if that is not known."""
    said = re.search(r"\bchecks\b\s*=\s*'", sql, re.IGNORECASE)
    if said is None:
        return 0
    place = said.end()
    if not sql[place:].startswith(text.replace("'", "''")):
        return said.start()
    return place + at + text[:at].count("'")


def _split_parts(text: str, sql: str) -> Iterator[tuple[str, int]]:
    """Yield what stands between semicolons, with where it begins, without blanks around."""
    depth, begin = 0, 0
    opened: list[int] = []
    for found in [*_PART.finditer(text), None]:
        mark = found[0] if found is not None else ";"
        at = found.start() if found is not None else len(text)
        if mark in ("'", '"', "`"):
            raise build_check_error(
                "a check has a quote without its end", at, text, sql, f"close it with {mark}"
            )
        if mark == "(":
            opened.append(at)
        if mark == ")" and not opened:
            raise build_check_error(
                "a check closes a parenthesis that is not open", at, text, sql, "take it out"
            )
        if mark == ")":
            opened.pop()
        depth = len(opened)
        if mark == ";" and (depth == 0 or found is None):
            if depth:
                raise build_check_error(
                    "a check has a parenthesis without its end", opened[-1], text, sql, "close it with )"
                )
            part = text[begin:at]
            if part.strip():
                yield part.strip(), begin + len(part) - len(part.lstrip())
            begin = at + 1


def _parse_check(part: str, start: int, number: int, text: str, sql: str) -> CheckClause:
    name, severity, place = "", "error", start
    body = part
    if named := _NAMED.match(body):
        name, body, place = named[1], body[named.end() :], start + named.end()
    if (said := _SEVERITY.search(body)) and body[: said.start()].strip():
        severity, body = said[1].lower(), body[: said.start()]
    place += len(body) - len(body.lstrip())
    body = body.strip()
    if not body:
        raise build_check_error(f"check {name} says nothing", start, text, sql, f"a check is {FORM}")
    level: Severity = "warn" if severity == "warn" else "error"
    if re.match(r"(SELECT|WITH)\b", body, re.IGNORECASE):
        return CheckClause(
            name or f"check_{number}", "select", body, level, start, condition=body, place=place
        )
    call = _CALL.fullmatch(body)
    word = call[1].lower() if call is not None and _is_one_call(call[2]) else ""
    if word not in _WORDS:
        near = difflib.get_close_matches(word, _WORDS, 1) if word and word != "not" else []
        if near:
            raise build_check_error(f"there is no check {word}", place, text, sql, f"did you mean {near[0]}?")
        return CheckClause(name or f"check_{number}", "", body, level, start, condition=body, place=place)
    assert call is not None
    arguments, within = call[2], place + call.start(2)
    if word == "falls_at_most":
        made = CheckClause(name or word, word, body, level, start, place=within)
        return _parse_fall(made, arguments, text, sql)
    if word == "accepted":
        first = re.match(rf"{_COLUMN}(,|$)", arguments)
        if first is None or not first[4] or not arguments[first.end() :].strip():
            hint = "name a column, then the values: accepted(status, 'open', 'done')"
            raise build_check_error("accepted needs a column and its values", place, text, sql, hint)
        columns, rest = (_read_name(first),), arguments[first.end() :]
        check_name = name or _make_default_name(word, columns)
        return CheckClause(check_name, word, body, level, start, columns, rest.strip(), within + first.end())
    several = _parse_columns(word, arguments, place, text, sql)
    return CheckClause(
        name or _make_default_name(word, several), word, body, level, start, several, place=within
    )


def _is_one_call(inside: str) -> bool:
    """Tell whether what stands between the first and the last parenthesis closes none before the end: `f(a) OR g(b)` does."""
    depth = 0
    for found in _PART.finditer(inside):
        depth += (found[0] == "(") - (found[0] == ")")
        if depth < 0:
            return False
    return True


def _parse_fall(check: CheckClause, argument: str, text: str, sql: str) -> CheckClause:
    """Return the check with the share that it names."""
    if _SHARE.fullmatch(argument) is None:
        hint = "say which share of the rows may go in one epoch, from 0 to 1: falls_at_most(0.5)"
        raise build_check_error(
            f"falls_at_most({argument.strip()}) names no share", check.place, text, sql, hint
        )
    return replace(check, share=float(argument))


def _parse_columns(word: str, arguments: str, place: int, text: str, sql: str) -> tuple[str, ...]:
    columns: list[str] = []
    at = 0
    while at <= len(arguments):
        found = re.compile(rf"{_COLUMN}(,|$)").match(arguments, at)
        if found is None:
            hint = f"name columns of the view: {word}(a, b)"
            raise build_check_error(f"{word} takes names of columns", place, text, sql, hint)
        columns.append(_read_name(found))
        if not found[4]:
            break
        at = found.end()
    return tuple(dict.fromkeys(columns))


def _read_name(found: re.Match[str]) -> str:
    """Return the name that a pattern has found: those in quotes are exact, others in lower case."""
    if found[1]:
        return found[1].replace('""', '"')
    return found[2].replace("``", "`") if found[2] else found[3].lower()


def _make_default_name(word: str, columns: tuple[str, ...]) -> str:
    return re.sub(r"\W", "_", "_".join((word, *columns)), flags=re.ASCII)[:100]
