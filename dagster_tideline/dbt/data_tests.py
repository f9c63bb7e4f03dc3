"""Tests of a dbt project as checks: of the model that they are of, or of a view of the rows that fail."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dagster_tideline.dbt.compiled_text import AdapterDialect
from dagster_tideline.dbt.manifest import DbtNode
from engine.errors import SqlError
from engine.sql.statements.options.check_list import parse_checks
from engine.sql.statements.options.option_text import render_literal

_COLUMN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CLOCK = (exp.CurrentDate, exp.CurrentDatetime, exp.CurrentTime, exp.CurrentTimestamp, exp.Localtimestamp)
"""What a query of rows may hold, and a condition on each row may not."""
_ANY_ROW = re.compile(r"(?:!=|<>|>)\s*0")


@dataclass(frozen=True)
class TestCheck:
    """A test as a check: its text without a name, empty where the rows that fail have to be queried; and what it warns of."""

    __test__ = False  # pytest looks for classes of this name

    name: str
    condition: str
    is_warning: bool

    def build_text(self, condition: str) -> str:
        """Return the check as the option of a view says it."""
        return f"{self.name}: {condition}{' warn' if self.is_warning else ''}"


def read_test(node: DbtNode, dialect: AdapterDialect) -> TestCheck | str:
    """Return a test as a check, or why it is none."""
    for option in ("error_if", "warn_if"):
        said = str(node.config.get(option) or "!= 0").strip()
        if _ANY_ROW.fullmatch(said) is None:
            return f"a check has no {option}: {said}"
    calc = str(node.config.get("fail_calc") or "count(*)").strip()
    if re.sub(r"\s", "", calc).lower() != "count(*)":
        return "a check counts rows and has no fail_calc"
    warns = str(node.config.get("severity") or "error").lower() == "warn"
    name = re.sub(r"\W", "_", node.name, flags=re.ASCII)
    name = name if _COLUMN.match(name) else f"_{name}"
    condition = "" if node.config.get("where") else _find_condition(node, dialect)
    check = TestCheck(name, condition, warns)
    if condition and not _is_read(check.build_text(condition)):
        return TestCheck(name, "", warns)
    return check


def name_checks(checks: Sequence[TestCheck]) -> list[TestCheck]:
    """Return checks of one view under names that differ in more than their case."""
    taken: set[str] = set()
    found = []
    for check in checks:
        name, number = check.name, 2
        while name.lower() in taken:
            name, number = f"{check.name}_{number}", number + 1
        taken.add(name.lower())
        found.append(TestCheck(name, check.condition, check.is_warning))
    return found


def _find_condition(node: DbtNode, dialect: AdapterDialect) -> str:
    """Return the words that checks have for a test, none for another."""
    test = node.test
    if test is None:
        return ""
    column = node.column or str(test.arguments.get("column_name") or "")
    if test.namespace == "dbt_utils" and test.name == "expression_is_true":
        return _render_condition(f"{column} {test.arguments.get('expression') or ''}", dialect)
    if test.namespace not in ("", "dbt") or _COLUMN.fullmatch(column.strip('"`')) is None:
        return ""
    label = _render_column(column, dialect)
    if test.name in ("not_null", "unique"):
        return f"{test.name}({label})"
    values = test.arguments.get("values")
    if test.name == "accepted_values" and isinstance(values, list) and values and None not in values:
        return f"accepted({label}, {', '.join(_render_value(value, test.arguments, dialect) for value in values)})"
    return ""


def _render_column(column: str, dialect: AdapterDialect) -> str:
    mark = "`" if dialect.target == "spark" else '"'
    bare = column.strip('"`')
    return f"{mark}{bare}{mark}" if bare != column else bare


def _render_value(value: object, arguments: Mapping[str, object], dialect: AdapterDialect) -> str:
    text = str(value)
    return text if arguments.get("quote") is False else render_literal(text, dialect.target)


def _render_condition(text: str, dialect: AdapterDialect) -> str:
    """Return a condition on the columns of one row in the dialect of the target, nothing for what looks at other rows."""
    try:
        tree = sqlglot.parse_one(text, read=dialect.read)
    except SqlglotError:
        return ""
    if tree.find(exp.Query, exp.AggFunc, exp.Window, exp.Command) is not None or tree.comments:
        return ""
    found = tree.sql(dialect=dialect.target, comments=False)
    read = sqlglot.parse_one(found, read=dialect.target)  # `now()` is a word of the clock in the target alone
    return "" if read.find(*_CLOCK) is not None else f"({found})"


def _is_read(text: str) -> bool:
    try:
        return len(parse_checks(text, "")) == 1
    except SqlError:
        return False
