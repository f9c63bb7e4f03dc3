"""Literals of INSERT … VALUES are read here only where Spark reads them in the same way."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import sqlglot.expressions as exp

from engine.sql.dialect import Dialect
from engine.sql.statements.dml.literal_rows import NotLiteral, read_literal


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
@pytest.mark.parametrize("offset", ["+18:01", "-19:00", "+23:59"])
def test_a_zone_that_is_too_far_from_utc_is_left_to_spark(dialect: Dialect, offset: str) -> None:
    with pytest.raises(NotLiteral):
        read_literal(exp.Literal.string(f"2024-02-03 10:00:00{offset}"), "timestamp", dialect)


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_the_furthest_zone_is_one(dialect: Dialect) -> None:
    found = read_literal(exp.Literal.string("2024-02-03 10:00:00+18:00"), "timestamp", dialect)
    assert found == dt.datetime(2024, 2, 2, 16, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("\u0661", "int"), ("\u0661", "decimal(5,2)"), ("\u0661.5", "double"), ("\u0662024-01-02", "date")],
)
def test_digits_of_other_scripts_are_left_to_spark(text: str, kind: Any) -> None:
    with pytest.raises(NotLiteral):
        read_literal(exp.Literal.string(text), kind, "postgres")
