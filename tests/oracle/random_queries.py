"""Random queries of up to four operators, in SQL that PostgreSQL, DuckDB and the session's `postgres` dialect share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.oracle.random_rows import RandomTable

NUMBERS = ("bigint", "int", "decimal(10,2)", "double")
LITERALS = {
    "bigint": ("1", "2", "4"),
    "int": ("0", "1", "3"),
    "decimal(10,2)": ("0.50", "1.00", "2.50"),
    "double": ("0.5", "1.0"),
    "varchar": ("'a'", "'ab'", "''"),
    "boolean": ("true", "false"),
    "date": ("date '2000-01-01'", "date '2024-02-29'"),
}
Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Query:
    """A query's text and its columns with their kinds; a kind outside of the tables' is named `other`, or `array`."""

    text: str
    columns: Columns

    def of(self, *kinds: str) -> list[str]:
        """Return the columns of these kinds; of all if none are given."""
        return [name for name, kind in self.columns if not kinds or kind in kinds]

    @property
    def told_apart(self) -> Columns:
        """The columns by which rows may be grouped: a view whose rows are told apart by an array is refused."""
        return tuple((name, kind) for name, kind in self.columns if kind != "array")


class QueryMaker:
    """Draws queries over some tables."""

    def __init__(self, chance: random.Random, tables: list[RandomTable]) -> None:
        self.chance, self.tables = chance, tables
        self._names = 0
        self._rows_may_multiply = True

    def query(self) -> Query:
        """Return a query of one to four operators over a table."""
        self._rows_may_multiply = True
        made = self.source()
        operators: list[Callable[[Query], Query | None]] = [
            self.filtered,
            self.projected,
            self.joined,
            self.joined,
            self.grouped,
            self.grouped,
            self.distinct,
            self.combined,
            self.with_exists,
            self.with_in,
            self.with_scalar,
            self.unnested,
        ]
        left = self.chance.choice((1, 2, 2, 3, 3, 4))
        for _ in range(40):
            if not left:
                break
            longer = self.chance.choice(operators)(made)
            if longer is not None:
                made, left = longer, left - 1
        return made

    def source(self) -> Query:
        """Return a whole table under fresh column names."""
        table = self.chance.choice(self.tables)
        columns = tuple((self.fresh(), name, kind) for name, kind in table.all_columns)
        listed = ", ".join(f"{name} AS {new}" for new, name, _ in columns)
        return Query(f"SELECT {listed} FROM {table.name}", tuple((new, kind) for new, _, kind in columns))

    def fresh(self) -> str:
        """Return a column or relation name that was not used yet."""
        self._names += 1
        return f"x{self._names}"

    def filtered(self, query: Query) -> Query | None:
        test = self.test(query.columns)
        return test and Query(f"SELECT * FROM ({query.text}) {self.fresh()} WHERE {test}", query.columns)

    def projected(self, query: Query) -> Query | None:
        kept = self.chance.sample(query.columns, self.chance.randrange(1, len(query.columns) + 1))
        items = [(self.fresh(), name, kind) for name, kind in kept]
        items += [(self.fresh(), *self.computed(query.columns)) for _ in range(self.chance.randrange(0, 3))]
        listed = ", ".join(f"{text} AS {name}" for name, text, _ in items)
        columns = tuple((name, kind) for name, _, kind in items)
        return Query(f"SELECT {listed} FROM ({query.text}) {self.fresh()}", columns)

    def joined(self, query: Query) -> Query | None:
        other, left, right = self.source(), self.fresh(), self.fresh()
        if not self._rows_may_multiply:
            return None
        kind = self.chance.choice(
            ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
        )
        condition = ""
        if kind == "CROSS JOIN":
            self._rows_may_multiply = False
        else:
            pairs = self.pairs(query.columns, other.columns)
            if not pairs:
                return None
            chosen = self.chance.sample(pairs, min(len(pairs), self.chance.choice((1, 1, 1, 2))))
            same = "IS NOT DISTINCT FROM" if self.chance.random() < 0.15 else "="
            parts = [f"{left}.{one} {same} {right}.{two}" for one, two in chosen]
            if self.chance.random() < 0.3 and kind != "FULL JOIN":
                parts.append(self.test(query.columns + other.columns) or "true")
            condition = " ON " + " AND ".join(parts)
        text = f"SELECT * FROM ({query.text}) {left} {kind} ({other.text}) {right}{condition}"
        return Query(text, query.columns + other.columns)

    def grouped(self, query: Query) -> Query | None:
        apart = query.told_apart
        keys = [
            (self.fresh(), name, kind)
            for name, kind in self.chance.sample(apart, min(len(apart), self.chance.randrange(0, 3)))
        ]
        if self.chance.random() < 0.15:
            value, kind = self.computed(query.columns)
            if not value.isdigit():  # which would be the number of an item
                keys.append((self.fresh(), value, kind))
        calls = [(self.fresh(), *self.aggregate(query)) for _ in range(self.chance.randrange(1, 4))]
        listed = ", ".join(f"{text} AS {name}" for name, text, _ in (*keys, *calls))
        text = f"SELECT {listed} FROM ({query.text}) {self.fresh()}"
        if keys:
            text += " GROUP BY " + ", ".join(key for _, key, _ in keys)
        if self.chance.random() < 0.25:
            text += f" HAVING count(*) {self.chance.choice(('>', '<=', '<>'))} {self.chance.randrange(1, 4)}"
        return Query(text, tuple((name, kind) for name, _, kind in (*keys, *calls)))

    def distinct(self, query: Query) -> Query | None:
        apart = query.told_apart
        if not apart:
            return None
        kept = self.chance.sample(apart, min(len(apart), self.chance.randrange(1, 4)))
        listed = ", ".join(name for name, _ in kept)
        return Query(f"SELECT DISTINCT {listed} FROM ({query.text}) {self.fresh()}", tuple(kept))

    def combined(self, query: Query) -> Query | None:
        other = self.source()
        pairs = [(a, b, kind) for a, kind in query.columns for b, same in other.columns if kind == same]
        if not pairs:
            return None
        chosen = self.chance.sample(pairs, min(len(pairs), self.chance.choice((1, 1, 2))))
        verb = self.chance.choice(
            ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
        )
        names = [self.fresh() for _ in chosen]
        one = ", ".join(f"{a} AS {name}" for name, (a, _, _) in zip(names, chosen, strict=True))
        two = ", ".join(f"{b} AS {name}" for name, (_, b, _) in zip(names, chosen, strict=True))
        text = f"SELECT {one} FROM ({query.text}) {self.fresh()} {verb} SELECT {two} FROM ({other.text}) {self.fresh()}"
        return Query(text, tuple((name, kind) for name, (_, _, kind) in zip(names, chosen, strict=True)))

    def with_exists(self, query: Query) -> Query | None:
        other, outer, inner = self.source(), self.fresh(), self.fresh()
        pairs = self.pairs(query.columns, other.columns)
        if not pairs:
            return None
        one, two = self.chance.choice(pairs)
        test = self.test(other.columns) if self.chance.random() < 0.4 else None
        more = f" AND {test}" if test else ""
        negated = self.chance.choice(("", "NOT "))
        text = (
            f"SELECT * FROM ({query.text}) {outer} WHERE {negated}EXISTS "
            f"(SELECT 1 FROM ({other.text}) {inner} WHERE {inner}.{two} = {outer}.{one}{more})"
        )
        return Query(text, query.columns)

    def with_in(self, query: Query) -> Query | None:
        other = self.source()
        pairs = self.pairs(query.columns, other.columns)
        if not pairs:
            return None
        one, two = self.chance.choice(pairs)
        negated = self.chance.choice(("", "", "NOT "))
        test = self.test(other.columns) if self.chance.random() < 0.4 else None
        where = f" WHERE {test}" if test else ""
        text = (
            f"SELECT * FROM ({query.text}) {self.fresh()} WHERE {one} {negated}IN "
            f"(SELECT {two} FROM ({other.text}) {self.fresh()}{where})"
        )
        return Query(text, query.columns)

    def with_scalar(self, query: Query) -> Query | None:
        """A scalar subquery: of the whole table in WHERE, or of the rows that belong to each row in the SELECT list."""
        other, outer, inner = self.source(), self.fresh(), self.fresh()
        if self.chance.random() < 0.5:
            numbers = query.of(*NUMBERS)
            others = other.of(*NUMBERS)
            if not numbers or not others:
                return None
            call = self.chance.choice(("max", "min", "avg"))
            sign = self.chance.choice((">", "<=", "<>"))
            value = f"(SELECT {call}({self.chance.choice(others)}) FROM ({other.text}) {inner})"
            text = f"SELECT * FROM ({query.text}) {outer} WHERE {self.chance.choice(numbers)} {sign} {value}"
            return Query(text, query.columns)
        pairs = self.pairs(query.columns, other.columns)
        if not pairs:
            return None
        one, two = self.chance.choice(pairs)
        name = self.fresh()
        measured, kind = self.chance.choice(
            [("count(*)", "bigint")]
            + [(f"max({column})", kind) for column, kind in other.columns if kind != "boolean"]
        )
        value = f"(SELECT {measured} FROM ({other.text}) {inner} WHERE {inner}.{two} = {outer}.{one})"
        text = f"SELECT {outer}.*, {value} AS {name} FROM ({query.text}) {outer}"
        return Query(text, (*query.columns, (name, kind)))

    def unnested(self, query: Query) -> Query | None:
        same = [kind for _, kind in query.columns if kind in VALUES_OF_ARRAYS]
        if not same:
            return None
        kind = self.chance.choice(same)
        chosen = [self.chance.choice(query.of(kind)) for _ in range(2)]
        outer, inner, name = self.fresh(), self.fresh(), self.fresh()
        items = ", ".join([*(f"{outer}.{column}" for column in chosen), self.chance.choice(LITERALS[kind])])
        text = f"SELECT {outer}.*, {inner}.{name} FROM ({query.text}) {outer} CROSS JOIN UNNEST(ARRAY[{items}]) AS {inner}({name})"
        return Query(text, (*query.columns, (name, "other" if kind in ("bigint", "int") else kind)))

    def pairs(self, left: Columns, right: Columns) -> list[tuple[str, str]]:
        """Return pairs of columns that can be compared by equality."""
        keys = ("bigint", "int", "varchar", "date", "decimal(10,2)", "boolean")
        return [(a, b) for a, one in left for b, two in right if one == two and one in keys]

    def test(self, columns: Columns) -> str | None:
        """Return a condition over columns."""
        known = [(name, kind) for name, kind in columns if kind in LITERALS]
        if not known:
            return None
        name, kind = self.chance.choice(known)
        value = self.chance.choice(LITERALS[kind])
        return self.chance.choice(
            (
                f"{name} = {value}",
                f"{name} <> {value}",
                f"{name} > {value}",
                f"{name} IS NULL",
                f"{name} IS NOT NULL",
                f"{name} IN ({', '.join(LITERALS[kind])})",
                f"NOT ({name} <= {value})",
                f"({name} < {value} OR {name} IS NULL)",
                f"{name} IS DISTINCT FROM {value}",
            )
        )

    def computed(self, columns: Columns) -> tuple[str, str]:
        """Return an expression over columns and its kind."""
        name, kind = self.chance.choice(columns)
        choices = [(f"CASE WHEN {name} IS NULL THEN 'none' ELSE 'some' END", "varchar"), ("7", "other")]
        if kind in LITERALS:
            choices.append(
                (
                    f"coalesce({name}, {self.chance.choice(LITERALS[kind])})",
                    kind if kind == "varchar" else "other",
                )
            )
        if kind in ("bigint", "int"):
            choices += [(f"{name} + 1", "other"), (f"{name} % 2", "other"), (f"-{name}", kind)]
        if kind == "varchar":
            choices += [
                (f"upper({name})", "varchar"),
                (f"{name} || 'z'", "varchar"),
                (f"length({name})", "other"),
            ]
        return self.chance.choice(choices)

    def aggregate(self, query: Query) -> tuple[str, str]:
        """Return an aggregate call and its kind."""
        name, kind = self.chance.choice(query.columns)
        choices = [("count(*)", "bigint"), (f"count({name})", "bigint")]
        if kind != "array":
            choices.append((f"count(DISTINCT {name})", "bigint"))
        if kind in LITERALS and kind != "boolean":
            choices += [(f"min({name})", kind), (f"max({name})", kind)] * 2
        if kind in NUMBERS:
            choices += [
                (f"sum({name})", "other"),
                (f"avg({name})", "other"),
                (f"sum(DISTINCT {name})", "other"),
            ]
        if kind in ("bigint", "int"):
            choices += [(f"var_pop({name})", "other"), (f"bit_or({name})", "other")]
        if kind == "boolean":
            choices += [(f"bool_and({name})", kind), (f"bool_or({name})", kind)] * 2
        if kind == "varchar":
            choices.append((f"string_agg({name}, ',' ORDER BY {name})", "varchar"))
        if kind in ("bigint", "varchar", "date"):
            choices.append((f"array_agg({name} ORDER BY {name} NULLS FIRST)", "array"))
        text, result = self.chance.choice(choices)
        if self.chance.random() < 0.2:
            test = self.test(query.columns)
            if test is not None:
                text += f" FILTER (WHERE {test})"
        return text, result


VALUES_OF_ARRAYS = ("bigint", "int", "varchar", "date")
