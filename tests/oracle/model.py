"""What a world's tables must hold: the same changes applied to tables of DuckDB, and every state that there ever was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from tests.oracle.batch import duckdb_over
from tests.oracle.kinds import values_of
from tests.oracle.random_rows import RandomTable, Row

State = Mapping[str, pa.Table]
FRESH = "fresh"
"""The name by which statements of the model know the rows of a change."""


class Model:
    """Tables under the judges' names; `states` are their contents after each change, the newest last."""

    def __init__(self, tables: Sequence[RandomTable]) -> None:
        self._connection = duckdb_over({})
        for table in tables:
            self._connection.register(FRESH, table.arrow([], judged=True))
            self._connection.execute(f"CREATE TABLE {table.judged} AS SELECT * FROM {FRESH}")
        self.states: list[State] = [{table.judged: self._content(table.judged) for table in tables}]

    def close(self) -> None:
        """Let go of DuckDB."""
        self._connection.close()

    def change(self, table: RandomTable, statements: Sequence[str], fresh: pa.Table | None = None) -> bool:
        """Apply one change of a table, in DuckDB's words; return False, and leave all as it was, if keys would stand twice."""
        if fresh is not None:
            self._connection.register(FRESH, fresh)
        self._connection.execute("BEGIN")
        for statement in statements:
            self._connection.execute(statement)
        if self._has_twins(table):
            self._connection.execute("ROLLBACK")
            return False
        self._connection.execute("COMMIT")
        self.states.append({**self.states[-1], table.judged: self._content(table.judged)})
        return True

    def rows(self, table: RandomTable) -> list[Row]:
        """Return the present rows of a table."""
        return list(zip(*map(values_of, self.states[-1][table.judged].columns), strict=True))

    def seen_now(self, table: RandomTable, at: int) -> pa.Table:
        """Return what a table held in a state under its columns of now: those that it had not yet are null."""
        held, now = self.states[at][table.judged], self.states[-1][table.judged].schema
        return pa.table(
            [
                held.column(field.name)
                if field.name in held.column_names
                else pa.nulls(held.num_rows, field.type)
                for field in now
            ],
            schema=now,
        )

    def _content(self, name: str) -> pa.Table:
        return self._connection.sql(f"SELECT * FROM {name}").to_arrow_table()

    def _has_twins(self, table: RandomTable) -> bool:
        if not table.key:
            return False
        keys = ", ".join(f"c{at}" for at in table.key)
        found = self._connection.sql(
            f"SELECT 1 FROM {table.judged} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
        )
        return bool(found.fetchall())


@contextmanager
def over(state: State, views: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield DuckDB over one state of the tables and given contents of views."""
    with duckdb_over({**state, **views}) as connection:
        yield connection
