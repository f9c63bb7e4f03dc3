"""What an aggregate of a view cannot say is refused, not read over."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.session import Session


def test_arguments_that_an_aggregate_does_not_take_are_told(tmp_path: Path) -> None:
    with Session(tmp_path.as_uri()) as s:
        s.sql("CREATE TABLE t (id INT PRIMARY KEY, x INT)")
        for call in (
            "count(* EXCEPT (id))",
            "percentile(x, 0.5, id)",
            "percentile(DISTINCT x, 0.5)",
            "mode(DISTINCT x)",
        ):
            with pytest.raises(SqlError) as caught:
                s.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {call} AS r FROM t", build=False)
            assert caught.value.line == 1
        for call in ("count(*)", "percentile(x, 0.5)", "mode(x)"):
            s.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT {call} AS r FROM t")
