"""Operator fixtures: tables, rows and epochs of changes in SQL, then views, each with the changes that every epoch must bring.

Statements are of Spark's dialect unless the file names another. A line of an epoch's changes is `+` or `-`, then the row's
values as JSON; `initial` are the rows of the first build.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

Rows = Counter[str]


@dataclass
class View:
    """A view of a fixture: its query, and per epoch (0 is the first build) the net change of its rows."""

    name: str
    query: str = ""
    changes: list[Rows] = field(default_factory=list)


@dataclass
class Fixture:
    """What one file holds."""

    tables: list[str]
    rows: list[str]
    epochs: list[list[str]]
    views: list[View]
    dialect: str = "spark"


def read(path: Path) -> Fixture:
    """Return the content of a fixture file."""
    fixture = Fixture([], [], [], [])
    for title, body in re.findall(r"^-- (.*)\n((?:(?!-- ).*\n?)*)", path.read_text(), re.MULTILINE):
        kind, _, name = title.partition(": ")
        if kind == "view":
            fixture.views.append(_view(name, body))
            continue
        if kind == "dialect":
            fixture.dialect = name
            continue
        statements = [text.strip() for text in body.split(";\n") if text.strip()]
        if kind == "epoch":
            fixture.epochs.append(statements)
        else:
            {"tables": fixture.tables, "rows": fixture.rows}[kind].extend(statements)
    return fixture


def _view(name: str, body: str) -> View:
    view = View(name)
    for line in body.splitlines():
        if line in ("initial", "change"):
            view.changes.append(Counter())
        elif line[:2] in ("+ ", "- "):
            view.changes[-1][line[2:]] += 1 if line[0] == "+" else -1
        else:
            view.query = f"{view.query} {line}".strip()
    return view


def as_text(row: dict[str, Any]) -> str:
    """Return a row's values in the form of a fixture."""
    return json.dumps([_plain(value) for value in row.values()])


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    return float(f"{value:.9g}") if isinstance(value, float) else value
