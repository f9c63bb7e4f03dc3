"""What a rule is: a function of one signature, in a file of its own, beside an example that is run as its test.

The module of a rule holds its `EXAMPLE`; the rules themselves are listed in `rules.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

import sqlglot.expressions as exp

from engine.sql.catalog import Catalog
from engine.sql.dialect import Dialect
from engine.sql.plan import Node


@dataclass(frozen=True)
class QueryText:
    """What a parsed query is read with: the relations that it may name, its dialect, and the text that errors show."""

    catalog: Catalog
    dialect: Dialect
    sql: str


ParsedRule = Callable[[exp.Expr, QueryText], exp.Expr]
"""Parsed query -> parsed query; it may change the tree that it is given, and raises SqlError with the place."""

PlanRule = Callable[[Node, Set[str]], Node]
"""Plan -> plan with the same rows in the columns that are needed, which are the second argument."""


@dataclass(frozen=True)
class ParsedExample:
    """A query in a dialect, and what a rule of parsed queries makes of it, written for Spark."""

    before: str
    after: str
    dialect: Dialect = "spark"


@dataclass(frozen=True)
class PlanExample:
    """A query, its plan as the rules before have left it, and what a rule of plans makes of that."""

    sql: str
    before: str
    after: str
    dialect: Dialect = "spark"


@dataclass(frozen=True)
class BindingExample:
    """A query, and its plan, in which what was bound by a rule stands."""

    sql: str
    plan: str
    dialect: Dialect = "spark"
