"""What the store answers alone is the whole of what was asked: no argument of count and no word after LIMIT is read over."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.session import Session
from engine.sql.batch.point_read import point_read
from engine.sql.statements.reader import Select, parse_statement


@pytest.mark.parametrize("dialect", ["spark", "postgres"])
def test_what_a_simple_read_does_not_say_is_left_to_spark(tmp_path: Path, dialect: str) -> None:
    with Session(tmp_path.as_uri(), dialect=dialect) as s:  # type: ignore[arg-type]
        s.sql("CREATE TABLE t (id int PRIMARY KEY, a int)")

        def is_simple(text: str) -> bool:
            statement = parse_statement(text, dialect)
            assert isinstance(statement, Select)
            return point_read(statement.query, s.catalog, dialect, text) is not None

        for text in ("SELECT count(*) FROM t", "SELECT id FROM t ORDER BY a LIMIT 2 OFFSET 1"):
            assert is_simple(text)
        for text in (
            "SELECT count(*, a) FROM t",
            "SELECT count(* EXCEPT (id)) FROM t",
            "SELECT id FROM t ORDER BY a LIMIT 50 PERCENT",
            "SELECT id FROM t LIMIT 1 BY a",
        ):
            assert not is_simple(text), text
