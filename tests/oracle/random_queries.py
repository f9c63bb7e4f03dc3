"""Random queries of up to four operators over tables and views, in marked text that every engine can read in its own words."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.oracle.kinds import EXACT, FLOATS, KINDS, NUMBERS, WHOLE
from tests.oracle.random_conditions import Columns, condition
from tests.oracle.random_times import NEAREST, TIMES, TimeWindows, asof, frame_of_groups, ignoring
from tests.oracle.words import either

ALIKE = (
    ("bigint", "int", "smallint", "far", "farint"),
    ("decimal(10,2)", "decimal(5,2)"),
    ("varchar", "text", "raw", "when"),
)
"""Kinds of which columns can be compared though they are not the same."""
EXTREMES = tuple(name for name, kind in KINDS.items() if kind.plain and name != "boolean")
LISTED = ("bigint", "varchar", "date", "timestamp", "decimal(38,18)")
UNNESTED = ("bigint", "int", "varchar", "date")


class Source(Protocol):
    """What a query reads: a table, or a view."""

    @property
    def mark(self) -> str: ...

    @property
    def marked(self) -> Columns: ...


@dataclass(frozen=True)
class Query:
    """A query's text and its columns with their kinds.

    Kinds outside of the tables' are `other` (a number), `list`, and `measure`: a floating number whose last digits follow the order of sums.
    """

    text: str
    columns: Columns

    def of(self, *kinds: str) -> list[str]:
        """Return the columns of these kinds; of all if none are given."""
        return [name for name, kind in self.columns if not kinds or kind in kinds]

    @property
    def told_apart(self) -> Columns:
        """The columns by which rows may be grouped: a view whose rows are told apart by nested values is refused."""
        return tuple((name, kind) for name, kind in self.columns if kind == "other" or _is_plain(kind))


def _is_plain(kind: str) -> bool:
    return kind in KINDS and KINDS[kind].plain


class QueryMaker:
    """Draws queries over some tables and views; the names of its columns begin with `letter`."""

    def __init__(
        self,
        chance: random.Random,
        sources: Sequence[Source],
        letter: str = "x",
        large: bool = False,
        odd: bool = True,
    ) -> None:
        self.chance, self.sources, self.letter, self.large = chance, sources, letter, large
        self._odd = 0.03 if odd else 0.0
        self._names = 0
        self._rows_may_multiply = not large

    def query(self, least: int = 1) -> Query:
        """Return a query of `least` to four operators over a source."""
        self._rows_may_multiply = not self.large
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
            self.first_rows,
            self.windowed,
            self.windowed,
            self.timed,
            self.timed,
            self.nearest,
        ]
        left = max(least, self.chance.choice((1, 2, 2, 3, 3, 4)))
        for _ in range(40):
            if not left:
                break
            longer = self.chance.choice(operators)(made)
            if longer is not None:
                made, left = longer, left - 1
        return made

    def source(self) -> Query:
        """Return a whole table or view under fresh column names."""
        source = self.chance.choice(self.sources)
        columns = tuple((self.fresh(), name, kind) for name, kind in source.marked)
        listed = ", ".join(f"{name} AS {new}" for new, name, _ in columns)
        return Query(f"SELECT {listed} FROM {source.mark}", tuple((new, kind) for new, _, kind in columns))

    def fresh(self) -> str:
        """Return a column or relation name that was not used yet."""
        self._names += 1
        if self.chance.random() < self._odd:
            return f"⟪={self.letter.upper()}{self._names}⟫"
        return f"{self.letter}{self._names}"

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
        pairs = [
            (a, b, kind)
            for a, kind in query.columns
            for b, same in other.columns
            if kind == same and _is_plain(kind)
        ]
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
            pairs = [
                (a, b)
                for a, one in query.columns
                for b, two in other.columns
                if one == two and one in NUMBERS
            ]
            if not pairs:
                return None
            one, two = self.chance.choice(pairs)
            call = self.chance.choice(("max", "min"))
            sign = self.chance.choice((">", "<=", "<>"))
            value = f"(SELECT {call}({two}) FROM ({other.text}) {inner})"
            text = f"SELECT * FROM ({query.text}) {outer} WHERE {one} {sign} {value}"
            return Query(text, query.columns)
        pairs = self.pairs(query.columns, other.columns)
        if not pairs:
            return None
        one, two = self.chance.choice(pairs)
        name = self.fresh()
        measured, kind = self.chance.choice(
            [("count(*)", "bigint")]
            + [(f"max({column})", kind) for column, kind in other.columns if kind in EXTREMES]
        )
        value = f"(SELECT {measured} FROM ({other.text}) {inner} WHERE {inner}.{two} = {outer}.{one})"
        text = f"SELECT {outer}.*, {value} AS {name} FROM ({query.text}) {outer}"
        return Query(text, (*query.columns, (name, kind)))

    def unnested(self, query: Query) -> Query | None:
        same = [kind for _, kind in query.columns if kind in UNNESTED]
        if not same:
            return None
        kind = self.chance.choice(same)
        chosen = [self.chance.choice(query.of(kind)) for _ in range(2)]
        outer, inner, name = self.fresh(), self.fresh(), self.fresh()
        items = ", ".join(
            [*(f"{outer}.{column}" for column in chosen), self.chance.choice(KINDS[kind].literals)]
        )
        exploded = f"LATERAL VIEW explode(array({items})) {inner} AS {name}"
        unnested = f"CROSS JOIN UNNEST(ARRAY[{items}]) AS {inner}({name})"
        text = f"SELECT {outer}.*, {inner}.{name} FROM ({query.text}) {outer} {either(exploded, unnested)}"
        return Query(text, (*query.columns, (name, "other" if kind in ("bigint", "int") else kind)))

    def timed(self, query: Query) -> Query | None:
        """The windows of time that each row is in; what they give is made of times that are there."""
        times = [(name, kind) for name, kind in query.columns if kind in TIMES]
        if not times or self.large:
            return None
        time = self.chance.choice(times)
        keys = [name for name, _ in query.told_apart if name != time[0]]
        names = tuple(name for name, _ in query.columns)
        made = TimeWindows(self.chance, self.fresh).over(query.text, names, time, keys)
        return Query(made.text, (*query.columns, (made.start, time[1]), (made.end, time[1])))

    def nearest(self, query: Query) -> Query | None:
        """An as-of join with a side that has one row for each place in the order, so that no two are level."""
        other, left, right = self.source(), self.fresh(), self.fresh()
        places = [
            (a, b) for a, one in query.columns for b, two in other.columns if one == two and one in NEAREST
        ]
        if not places:
            return None
        at, by = self.chance.choice(places)
        equal = [(a, b) for a, b in self.pairs(query.columns, other.columns) if b != by]
        chosen = self.chance.sample(equal, min(len(equal), self.chance.choice((0, 1, 1, 2))))
        kinds = dict(other.columns)
        keys = {b: self.fresh() for _, b in chosen} | {by: self.fresh()}
        counted = self.fresh()
        listed = ", ".join(f"{b} AS {name}" for b, name in keys.items())
        side = f"SELECT {listed}, count(*) AS {counted} FROM ({other.text}) {self.fresh()} GROUP BY {', '.join(keys)}"
        sign = self.chance.choice((">=", ">", "<=", "<"))
        same = [f"{left}.{a} = {right}.{keys[b]}" for a, b in chosen]
        condition = " AND ".join([*same, f"{left}.{at} {sign} {right}.{keys[by]}"])
        text = asof((query.text, side), (left, right), condition, self.chance.random() < 0.5)
        added = (*((name, kinds[b]) for b, name in keys.items()), (counted, "bigint"))
        return Query(text, query.columns + added)

    def pairs(self, left: Columns, right: Columns) -> list[tuple[str, str]]:
        """Return pairs of columns that can be compared by equality."""

        def comparable(one: str, two: str) -> bool:
            return _is_plain(one) and (one == two or any(one in kinds and two in kinds for kinds in ALIKE))

        return [(a, b) for a, one in left for b, two in right if comparable(one, two)]

    def test(self, columns: Columns) -> str | None:
        return condition(self.chance, columns)

    def first_rows(self, query: Query) -> Query | None:
        """The first rows in an order of all columns, so that rows that tie are equal."""
        if query.told_apart != query.columns:
            return None
        order = ", ".join(
            f"{name} {self.chance.choice(('ASC', 'DESC'))} NULLS FIRST" for name, _ in query.columns
        )
        return Query(
            f"SELECT * FROM ({query.text}) {self.fresh()} ORDER BY {order} LIMIT {self.chance.choice((1, 3, 10))}",
            query.columns,
        )

    def windowed(self, query: Query) -> Query | None:
        """Calls over windows, and often the first rows by one of them; orders are of all columns, so that rows that tie are equal."""
        apart = query.told_apart
        if not apart or (self.large and len(apart) < 2):
            return None
        total = apart == query.columns
        items: list[tuple[str, str, str]] = []
        numbered = False
        for _ in range(self.chance.randrange(1, 4)):
            least = 1 if self.large else 0
            by = self.chance.sample(apart, min(len(apart), max(least, self.chance.choice((0, 1, 1, 1, 2)))))
            listed = ", ".join(name for name, _ in by)
            call, kind, ties = self.over(query)
            chosen = self.chance.sample(apart, self.chance.randrange(1, len(apart) + 1)) if ties else apart
            order = ", ".join(
                f"{name} {self.chance.choice(('ASC', 'DESC'))} NULLS FIRST" for name, _ in chosen
            )
            partition = f"PARTITION BY {listed} " if by else ""
            # two calls that tell equal rows apart may number these in either order, each as it likes
            if ties or (total and not numbered):
                numbered |= not ties
                window = f"OVER ({partition}ORDER BY {order}"
                items.append((self.fresh(), f"{call.replace('⟪OVER⟫', window)})", kind))
        if not items:
            return None
        shown = "".join(f", {text} AS {name}" for name, text, _ in items)
        outer = self.fresh()
        text = f"SELECT {outer}.*{shown} FROM ({query.text}) {outer}"
        columns = query.columns + tuple((name, kind) for name, _, kind in items)
        numbers = [name for name, _, kind in items if kind == "number"]
        columns = tuple((name, "other" if kind == "number" else kind) for name, kind in columns)
        if numbers and self.chance.random() < 0.5:
            test = self.chance.choice(("{} <= 2", "{} = 1", "3 > {}", "{} BETWEEN 2 AND 3"))
            test = test.format(self.chance.choice(numbers))
            kept = [pair for pair in columns if pair[0] not in numbers] or list(columns)
            kept = kept if self.chance.random() < 0.5 else list(columns)
            listed = ", ".join(name for name, _ in kept)
            return Query(f"SELECT {listed} FROM ({text}) {self.fresh()} WHERE {test}", tuple(kept))
        return Query(text, columns)

    def over(self, query: Query) -> tuple[str, str, bool]:
        """Return a call with a hole for its window up to the order, its kind, and whether it gives rows that tie the same."""
        name, kind = self.chance.choice(query.columns)
        ties = self.chance.random() < 0.5
        frames = ["", " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"]
        if not ties:
            frames = [
                " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
                " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
                " ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
                " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            ]
        elif not self.large:
            frames.insert(0, frame_of_groups(self.chance))
        # Spark reads all rows behind each row of a frame that is open to them
        frame = self.chance.choice(frames[:-1] if self.large else frames)
        choices = [(f"{call}() ⟪OVER⟫", "number", True) for call in ("rank", "dense_rank")]
        choices += [("row_number() ⟪OVER⟫", "number", False)] * 2
        choices += [("ntile(3) ⟪OVER⟫", "other", False), ("percent_rank() ⟪OVER⟫", "measure", True)]
        choices += [(f"{call} ⟪OVER⟫{frame}", "bigint", ties) for call in ("count(*)", f"count({name})")]
        if kind == "other" or _is_plain(kind):
            choices += [(f"{call}({name}) ⟪OVER⟫", kind, False) for call in ("lag", "lead")]
            values = ("first_value({})", "last_value({})", "nth_value({}, 2)")
            choices += [(f"{call.format(name)} ⟪OVER⟫{frame}", kind, False) for call in values if not ties]
            choices += [(f"{ignoring(call, name)}⟪OVER⟫", kind, False) for call in ("lag", "lead")]
            values = ("first_value", "last_value")
            choices += [(f"{ignoring(call, name)}⟪OVER⟫{frame}", kind, False) for call in values if not ties]
        if kind in EXTREMES:
            choices += [(f"{call}({name}) ⟪OVER⟫{frame}", kind, ties) for call in ("min", "max")]
        if kind in EXACT:
            choices += [(f"sum({name}) ⟪OVER⟫{frame}", "other", ties)] * 2
            choices += [(f"avg({name}) ⟪OVER⟫{frame}", "measure", ties)]
            choices += [(f"{self.sum_of_some(query.columns, name)} ⟪OVER⟫{frame}", "other", ties)]
        return self.chance.choice(choices)

    def sum_of_some(self, columns: Columns, name: str) -> str:
        """Return a sum of the rows that pass a test, which Spark as a judge has no FILTER for over windows."""
        test = self.test(columns)
        if test is None or "⟦" in test:
            return f"sum({name})"
        kept = f"sum({name}) FILTER (WHERE {test})"
        return either(kept, kept, kept, f"sum(CASE WHEN {test} THEN {name} END)")

    def computed(self, columns: Columns) -> tuple[str, str]:
        """Return an expression over columns and its kind."""
        name, kind = self.chance.choice(columns)
        choices = [(f"CASE WHEN {name} IS NULL THEN 'none' ELSE 'some' END", "varchar"), ("7", "other")]
        if kind in KINDS and KINDS[kind].literals:
            value = self.chance.choice(KINDS[kind].literals)
            choices.append((f"coalesce({name}, {value})", kind if kind not in WHOLE else "other"))
        if kind in WHOLE:
            choices += [(f"{name} + 1", "other"), (f"{name} % 2", "other"), (f"-{name}", kind)]
            choices.append((f"CAST({name} AS {either('string', 'varchar')})", "varchar"))
        if kind == "decimal(10,2)":
            choices += [(f"{name} + {name}", "other"), (f"{name} * 2", "other")]
        if kind == "varchar":
            choices += [
                (f"upper({name})", "varchar"),
                (f"{name} || 'z'", "varchar"),
                (f"length({name})", "other"),
            ]
        if kind == "text":
            choices += [(f"length({name})", "other"), (f"substr({name}, 2, 3)", "varchar")]
        if kind == "when":
            choices.append((f"TRY_CAST({name} AS {either('timestamp_ntz', 'timestamp')})", "timestamp"))
        if kind in ("date", "timestamp", "fardate", "fartime"):
            choices += [(f"extract(year FROM {name})", "other"), (f"CAST({name} AS date)", "date")]
        return self.chance.choice(choices)

    def aggregate(self, query: Query) -> tuple[str, str]:
        """Return an aggregate call and its kind."""
        name, kind = self.chance.choice(query.columns)
        choices = [("count(*)", "bigint"), (f"count({name})", "bigint")]
        if kind == "other" or _is_plain(kind):
            choices.append((f"count(DISTINCT {name})", "bigint"))
        if kind in EXTREMES:
            choices += [(f"min({name})", kind), (f"max({name})", kind)] * 2
        if kind in EXACT:
            choices += [
                (f"sum({name})", "other"),
                (f"avg({name})", "measure"),
                (f"sum(DISTINCT {name})", "other"),
            ] * 2
        if kind in FLOATS:
            choices += [(f"sum({name})", "measure"), (f"avg({name})", "measure")] * 2
        if kind == "int":
            choices += [(f"var_pop({name})", "measure"), (f"bit_or({name})", "other")]
        if kind == "boolean":
            choices += [(f"bool_and({name})", kind), (f"bool_or({name})", kind)] * 2
        if kind in ("varchar", "raw"):
            text = f"{name}, ','"
            choices.append(
                (
                    either(
                        f"listagg({text}) WITHIN GROUP (ORDER BY {name})",
                        f"string_agg({text} ORDER BY {name})",
                    ),
                    "varchar",
                )
            )
        if kind in LISTED:
            items = (
                f"transform(sort_array(collect_list(struct({name} IS NOT NULL AS n, {name} AS v))), s -> s.v)"
            )
            items = f"nullif({items}, array())"  # of no rows it is null elsewhere
            choices.append((either(items, f"array_agg({name} ORDER BY {name} NULLS FIRST)"), "list"))
        text, result = self.chance.choice(choices)
        if self.chance.random() < 0.2 and not text.startswith("⟦"):
            test = self.test(query.columns)
            if test is not None:
                text += f" FILTER (WHERE {test})"
        return text, result
