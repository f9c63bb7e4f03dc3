"""Every statement has a handler, in the one table that says so."""

from __future__ import annotations

from typing import get_args

from engine.handlers import HANDLERS
from engine.sql.statements.statement_types import Statement


def test_every_statement_has_a_handler_of_its_own_name() -> None:
    assert set(HANDLERS) == set(get_args(Statement))
    names = [handler.__name__ for handler in HANDLERS.values()]
    assert len(set(names)) == len(names) and all(name.startswith("execute_") for name in names)
