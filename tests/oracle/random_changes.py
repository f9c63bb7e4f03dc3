"""Random changes of tables, as a user writes them: SQL of each dialect, or Arrow rows; and what each is in DuckDB's words."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from tests.oracle.kinds import KINDS, POISON, values_of
from tests.oracle.model import FRESH, Model
from tests.oracle.random_conditions import condition
from tests.oracle.random_rows import RandomTable, Row, random_row, random_rows

Verb = Literal["insert", "upsert", "delete"]


@dataclass(frozen=True)
class Change:
    """One change: of `table`, as marked SQL (`sql`) or as rows to write (`rows`, `verb`); `model` is the same in DuckDB's words.

    `altered` is the table as it is afterwards. `told` is False for what the engine must refuse, and leave all as it was.
    """

    table: RandomTable
    model: tuple[str, ...] = ()
    sql: str = ""
    rows: pa.Table | None = None
    verb: Verb = "upsert"
    fresh: pa.Table | None = None
    altered: RandomTable | None = None
    dialects: tuple[str, ...] = field(default=("spark", "postgres", "risingwave"))

    def __str__(self) -> str:
        if self.sql:
            return self.sql
        assert self.rows is not None
        rows = (
            [*zip(*map(values_of, self.rows.columns), strict=True)]
            if self.rows.num_rows < 30
            else self.rows.num_rows
        )
        return f"write({self.table.name}, {self.verb}, {rows})"


class ChangeMaker:
    """Draws changes that fit the rows that a model holds."""

    def __init__(self, chance: random.Random, tables: list[RandomTable], model: Model) -> None:
        self.chance, self.tables, self.model = chance, tables, model
        self._altered = 0

    def change(self) -> Change:
        """Return a change of some table."""
        verbs: list[tuple[int, Callable[[RandomTable], Change | None]]] = [
            (25, self.upsert),
            (12, self.insert_values),
            (12, self.insert_on_conflict),
            (10, self.delete_keys),
            (8, self.delete_where),
            (30, self.update),
            (6, self.update_from),
            (4, self.delete_using),
            (5, self.same_again),
            (8, self.poison),
            (4, self.alter),
        ]
        while True:
            table = self.chance.choice(self.tables)
            (_, verb) = self.chance.choices(verbs, [weight for weight, _ in verbs])[0]
            if not table.key and verb not in (self.insert_values, self.upsert, self.alter):
                continue
            made = verb(table)
            if made is not None:
                return made

    def first(self, table: RandomTable) -> Change:
        """Return the first rows of a table."""
        return self._written(table, random_rows(self.chance, table, self.chance.randrange(4, 16)), "insert")

    def mended(self) -> Change | None:
        """Return the change that makes all values of `raw` numbers again; None if they are."""
        table = self.tables[0]
        at = self._raw
        if all(row[at] not in POISON for row in self.model.rows(table)):
            return None
        return self._updated(table, at, "'1'", f"{table.column(at)} IN ({self._listed(POISON)})")

    @property
    def _raw(self) -> int:
        return next(at for at, (_, kind) in enumerate(self.tables[0].columns) if kind == "raw")

    def upsert(self, table: RandomTable) -> Change | None:
        if not table.key:
            return self._written(
                table, random_rows(self.chance, table, self.chance.randrange(1, 6)), "insert"
            )
        rows = random_rows(self.chance, table, self.chance.randrange(1, 14))
        known = {table.key_of(row): row for row in self.model.rows(table)}
        if self.chance.random() < 0.5:  # rows that are there get other values
            for old in self.chance.sample(
                sorted(known.values(), key=repr), min(len(known), self.chance.randrange(1, 6))
            ):
                rows.append(
                    (*(old[at] for at in table.key), *random_row(self.chance, table)[len(table.key) :])
                )
            rows = list({table.key_of(row): row for row in rows}.values())
        return self._written(table, rows, "upsert")

    def insert_values(self, table: RandomTable) -> Change | None:
        """INSERT … VALUES of rows whose keys are new."""
        rows = self._new_rows(table, self.chance.randrange(1, 6))
        values = self._values(table, rows)
        if values is None:
            return self._written(table, rows, "insert") if rows else None
        fresh = table.arrow(rows, judged=True)
        model = (f"INSERT INTO {table.judged} SELECT * FROM {FRESH}",)
        listed = ", ".join(table.column(at) for at in range(len(table.columns)))
        columns = f" ({listed})" if self.chance.random() < 0.5 else ""
        return Change(table, model, f"INSERT INTO {table.mark}{columns} VALUES {values}", fresh=fresh)

    def insert_on_conflict(self, table: RandomTable) -> Change | None:
        """INSERT … ON CONFLICT DO NOTHING, or DO UPDATE of one column."""
        rows = random_rows(self.chance, table, self.chance.randrange(1, 8))
        values, at = self._values(table, rows), self._no_key(table)
        if values is None or at is None:
            return None
        match = " AND ".join(f"{table.judged}.c{k} = {FRESH}.c{k}" for k in table.key)
        new = f"INSERT INTO {table.judged} SELECT * FROM {FRESH} WHERE NOT EXISTS (SELECT 1 FROM {table.judged} WHERE {match})"
        model: tuple[str, ...] = (new,)
        action = "NOTHING"
        if self.chance.random() < 0.6:
            update = f"UPDATE {table.judged} SET c{at} = {FRESH}.c{at} FROM {FRESH} WHERE {match}"
            model, action = (update, new), f"UPDATE SET {table.column(at)} = excluded.{table.column(at)}"
        keys = ", ".join(table.column(k) for k in table.key)
        text = f"INSERT INTO {table.mark} VALUES {values} ON CONFLICT ({keys}) DO {action}"
        return Change(table, model, text, fresh=table.arrow(rows, judged=True))

    def delete_keys(self, table: RandomTable) -> Change | None:
        """Delete rows by their keys, and a key that is not there."""
        known = sorted(self.model.rows(table), key=repr)
        rows = self.chance.sample(known, min(len(known), self.chance.randrange(1, 6)))
        if self.chance.random() < 0.1:
            rows = known  # everything goes
        rows = list({table.key_of(row): row for row in [*rows, random_row(self.chance, table)]}.values())
        match = " AND ".join(f"{table.judged}.c{at} = {FRESH}.c{at}" for at in table.key)
        keys = [tuple(row[at] for at in table.key) for row in rows]
        fresh = table.arrow(keys, judged=True, only=table.key)
        model = (f"DELETE FROM {table.judged} USING {FRESH} WHERE {match}",)
        return Change(table, model, rows=table.arrow(keys, only=table.key), verb="delete", fresh=fresh)

    def delete_where(self, table: RandomTable) -> Change | None:
        test = condition(self.chance, table.marked)
        return test and self._both(table, f"DELETE FROM {table.mark} WHERE {test}")

    def update(self, table: RandomTable) -> Change | None:
        """UPDATE … SET one column: to a literal, another column, or a subquery's value; so rows move between groups."""
        at, test = self._no_key(table), condition(self.chance, table.marked)
        if at is None or test is None:
            return None
        kind = table.columns[at][1]
        values = [text for value in (*KINDS[kind].values, None) if (text := KINDS[kind].literal(value))]
        values += [column for column, other in table.marked if other == kind]
        for other in self.tables:
            values += [
                f"(SELECT max({name}) FROM {other.mark})"
                for name, same in other.marked
                if same == kind and KINDS[kind].compared and kind != "boolean" and other is not table
            ]
        return self._updated(table, at, self.chance.choice(values), test)

    def update_from(self, table: RandomTable) -> Change | None:
        """UPDATE … FROM a table that is joined by its whole key, so that no row has two partners."""
        pairs = self._partners(table)
        at = self._no_key(table)
        if not pairs or at is None:
            return None
        other, match = self.chance.choice(pairs)
        kind = table.columns[at][1]
        sources = [f"o.{name}" for name, same in other.marked if same == kind]
        if not sources:
            return None
        text = f"UPDATE {table.mark} SET {table.column(at)} = {self.chance.choice(sources)} FROM {other.mark} AS o WHERE {match}"
        return replace(self._both(table, text), dialects=("postgres", "risingwave"))

    def delete_using(self, table: RandomTable) -> Change | None:
        pairs = self._partners(table)
        if not pairs:
            return None
        other, match = self.chance.choice(pairs)
        text = f"DELETE FROM {table.mark} USING {other.mark} AS o WHERE {match}"
        return replace(self._both(table, text), dialects=("postgres", "risingwave"))

    def same_again(self, table: RandomTable) -> Change | None:
        """Write rows that are there."""
        return self._written(table, self.model.rows(table), "upsert")

    def poison(self, table: RandomTable) -> Change | None:
        """Make some `raw` no number; or all of them numbers again."""
        table = self.tables[0]
        mended = self.mended()
        if mended is not None:
            return mended
        keys = sorted(self.model.rows(table), key=repr)
        if not keys:
            return None
        row, first = self.chance.choice(keys), table.key[0]
        value = KINDS[table.columns[first][1]].literal(row[first])
        if value is None or row[first] != row[first]:
            return None
        bad = KINDS["raw"].literal(self.chance.choice(POISON))
        assert bad is not None
        return self._updated(table, self._raw, bad, f"{table.column(first)} = {value}")

    def alter(self, table: RandomTable) -> Change | None:
        """Add, rename or drop a column that no query sees."""
        self._altered += 1
        hidden, at = table.columns[table.shown :], len(table.columns) - 1
        verb = self.chance.choice(("add", "rename", "drop")) if hidden else "add"
        if verb == "add" and len(hidden) < 3:
            kind = self.chance.choice(("int", "varchar", "decimal(38,18)", "double", "timestamp"))
            words = KINDS[kind].words
            columns = (*table.columns, (f"spare_{self._altered}", kind))
            altered = replace(table, columns=columns)
            word = f"⟦{words[0]}‖{words[1]}‖{words[0] if kind != 'varchar' else 'varchar'}⟧"
            word = word.replace("‖timestamp_ntz⟧", "‖timestamp⟧")
            text = f"ALTER TABLE {table.mark} ADD COLUMN ⟪=spare_{self._altered}⟫ {word}"
            return Change(
                table,
                (f"ALTER TABLE {table.judged} ADD COLUMN c{at + 1} {_last(word)}",),
                text,
                altered=altered,
            )
        if verb == "rename":
            columns = (*table.columns[:-1], (f"spare{self._altered}", table.columns[-1][1]))
            text = f"ALTER TABLE {table.mark} RENAME COLUMN {table.column(at)} TO ⟪=spare{self._altered}⟫"
            return Change(table, (), text, altered=replace(table, columns=columns))
        if verb == "drop" and hidden:
            text = f"ALTER TABLE {table.mark} DROP COLUMN {table.column(at)}"
            model = (f"ALTER TABLE {table.judged} DROP COLUMN c{at}",)
            return Change(table, model, text, altered=replace(table, columns=table.columns[:-1]))
        return None

    def _both(self, table: RandomTable, text: str) -> Change:
        return Change(table, (text,), text)

    def _updated(self, table: RandomTable, at: int, value: str, test: str) -> Change:
        return self._both(table, f"UPDATE {table.mark} SET {table.column(at)} = {value} WHERE {test}")

    def _written(self, table: RandomTable, rows: list[Row], verb: Verb) -> Change:
        match = " AND ".join(f"{table.judged}.c{at} = {FRESH}.c{at}" for at in table.key)
        gone = f"DELETE FROM {table.judged} USING {FRESH} WHERE {match}"
        model = (*([gone] if match else []), f"INSERT INTO {table.judged} SELECT * FROM {FRESH}")
        return Change(table, model, rows=table.arrow(rows), verb=verb, fresh=table.arrow(rows, judged=True))

    def _new_rows(self, table: RandomTable, count: int) -> list[Row]:
        rows = random_rows(self.chance, table, count)
        if not table.key:
            return rows
        known = {table.key_of(row) for row in self.model.rows(table)}
        return [row for row in rows if table.key_of(row) not in known]

    def _values(self, table: RandomTable, rows: list[Row]) -> str | None:
        """Return rows as they stand after VALUES; None if there are none, or a value that cannot be written."""
        texts = [
            [KINDS[kind].literal(value) for value, (_, kind) in zip(row, table.columns, strict=True)]
            for row in rows
        ]
        if not rows or any(text is None for row in texts for text in row):
            return None
        return ", ".join(f"({', '.join(row)})" for row in texts)  # type: ignore[arg-type]

    def _no_key(self, table: RandomTable) -> int | None:
        found = [
            at for at in range(len(table.columns)) if at not in table.key and table.columns[at][1] != "raw"
        ]
        return self.chance.choice(found) if found else None

    def _partners(self, table: RandomTable) -> list[tuple[RandomTable, str]]:
        """Return the other tables by whose single key column rows of `table` can be joined, with the condition."""
        return [
            (other, f"{table.mark}.{mine} = o.{other.column(other.key[0])}")
            for other in self.tables
            if other is not table and len(other.key) == 1
            for mine, kind in table.marked
            if kind == other.columns[other.key[0]][1]
        ]

    @staticmethod
    def _listed(values: tuple[str, ...]) -> str:
        return ", ".join(f"'{value}'" for value in values)


def _last(word: str) -> str:
    return word.strip("⟦⟧").split("‖")[2]
