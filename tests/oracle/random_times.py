"""Random windows of time, as-of joins and frames, in marked text: what random queries have to do with time and order.

DuckDB is asked with its own words for them. Spark as a judge has windows of time as arithmetic; what it has no words for is marked
by UNSPOKEN, and then DuckDB judges alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.oracle.words import either

TIMES = ("timestamp", "timestamptz")
NEAREST = ("bigint", "int", "date", "timestamp", "timestamptz", "decimal(10,2)", "varchar")
"""Kinds that as-of joins compare."""
UNSPOKEN = "not_to_be_said_by_spark()"
_SPANS = (("1 second", 1_000_000), ("1 hour", 3_600_000_000), ("1 day", 86_400_000_000))
_ORIGINS = {"timestamp": "TIMESTAMP '1970-01-01'", "timestamptz": "TIMESTAMPTZ '1970-01-01 00:00:00+00'"}
_SPARK_TYPES = {"timestamp": "timestamp_ntz", "timestamptz": "timestamp"}


@dataclass(frozen=True)
class TimedRows:
    """A query's text with the two columns that it adds, which are times of the kind of the column that they come from."""

    text: str
    start: str
    end: str


class TimeWindows:
    """Draws windows of time over the rows of a query; `fresh` gives names."""

    def __init__(self, chance: random.Random, fresh: Callable[[], str]) -> None:
        self.chance, self.fresh = chance, fresh

    def over(self, text: str, columns: tuple[str, ...], time: tuple[str, str], keys: list[str]) -> TimedRows:
        """Return rows with their windows by the column `time` (name, kind); sessions may be by one of `keys`."""
        names = self.fresh(), self.fresh()
        listed = ", ".join(columns)
        span, length = self.chance.choice(_SPANS)
        match self.chance.choice(("tumble", "hop", "cumulate", "session")):
            case "tumble":
                made = self._tumble(text, listed, time, (span, length), names)
            case "hop":
                made = self._hop(text, listed, time, (span, length), names)
            case "cumulate":
                made = self._cumulate(text, listed, time, (span, length), names)
            case _:
                by = self.chance.choice(keys) if keys and self.chance.random() < 0.7 else None
                made = self._session(text, listed, (time[0], by), span, names)
        return TimedRows(made, *names)

    def _tumble(
        self, text: str, listed: str, time: tuple[str, str], span: tuple[str, int], names: tuple[str, str]
    ) -> str:
        column, _ = time
        duck, judge = _bucket(time, span)
        size = f"INTERVAL '{span[0]}'"
        start = either("window_start", "window_start", duck, judge)
        end = either("window_end", "window_end", f"{duck} + {size}", f"{judge} + {size}")
        source = _source(text, f"TUMBLE(({{}}), {column}, {size})")
        return f"SELECT {listed}, {start} AS {names[0]}, {end} AS {names[1]} FROM {source} {self.fresh()}"

    def _hop(
        self, text: str, listed: str, time: tuple[str, str], slide: tuple[str, int], names: tuple[str, str]
    ) -> str:
        """A hop of two or two and a half slides, so that windows overlap, some of them by half."""
        column, _ = time
        half = self.chance.random() < 0.5 and slide[1] > 1_000_000
        size = slide[1] * 5 // 2 if half else slide[1] * 2
        length = f"INTERVAL '{size // 1_000_000} seconds'"
        duck, judge = _bucket(time, slide)
        back = "{} - INTERVAL '{}' * n"
        starts = back.format(duck, slide[0]), back.format(judge, slide[0])
        start = either("window_start", "window_start", *starts)
        end = either("window_end", "window_end", *(f"{one} + {length}" for one in starts))
        source = _source(text, f"HOP(({{}}), {column}, INTERVAL '{slide[0]}', {length})")
        numbers = either(
            "", "", ", (VALUES (0), (1), (2)) AS _n(n)", " CROSS JOIN (VALUES (0), (1), (2)) AS _n(n)"
        )
        inside = [f"{one} + {length} > {column}" for one in starts]
        where = either("", "", *(f" WHERE {one}" for one in inside))
        outer = self.fresh()
        return f"SELECT {listed}, {start} AS {names[0]}, {end} AS {names[1]} FROM {source} {outer}{numbers}{where}"

    def _cumulate(
        self, text: str, listed: str, time: tuple[str, str], step: tuple[str, int], names: tuple[str, str]
    ) -> str:
        column, _ = time
        size = step[1] * 3
        length = f"{size // 1_000_000} seconds"
        duck, judge = _bucket(time, (length, size))
        start = either("window_start", "window_start", duck, judge)
        ends = f"{duck} + INTERVAL '{step[0]}' * n", f"{judge} + INTERVAL '{step[0]}' * n"
        end = either("window_end", "window_end", *ends)
        source = _source(text, f"CUMULATE(({{}}), {column}, INTERVAL '{step[0]}', INTERVAL '{length}')")
        numbers = either(
            "", "", ", (VALUES (1), (2), (3)) AS _n(n)", " CROSS JOIN (VALUES (1), (2), (3)) AS _n(n)"
        )
        where = either("", "", *(f" WHERE {one} > {column}" for one in ends))
        outer = self.fresh()
        return f"SELECT {listed}, {start} AS {names[0]}, {end} AS {names[1]} FROM {source} {outer}{numbers}{where}"

    def _session(
        self, text: str, listed: str, columns: tuple[str, str | None], gap: str, names: tuple[str, str]
    ) -> str:
        column, by = columns
        partition = f" PARTITION BY {by}" if by else ""
        among = f"PARTITION BY {by}" if by else ""
        behind = f"lag({column}) OVER ({among} ORDER BY {column}) + INTERVAL '{gap}'"
        begins = f"(SELECT *, CASE WHEN {column} <= {behind} THEN 0 ELSE 1 END AS _begins FROM ("
        counted = f"sum(_begins) OVER ({among} ORDER BY {column} RANGE UNBOUNDED PRECEDING) AS _session"
        before = f"(SELECT *, {counted} FROM {begins}"
        after = f") _one WHERE {column} IS NOT NULL) _two) "
        whole = f"PARTITION BY {f'{by}, ' if by else ''}_session"
        first, last = f"min({column}) OVER ({whole})", f"max({column}) OVER ({whole}) + INTERVAL '{gap}'"
        start, end = (
            either("window_start", "window_start", first, first),
            either("window_end", "window_end", last, last),
        )
        opening = either("SESSION((", "SESSION((", before, before)
        of_keys = f"){partition}, {column}, INTERVAL '{gap}') "
        closing = either(of_keys, of_keys, after, after)
        outer = self.fresh()
        return f"SELECT {listed}, {start} AS {names[0]}, {end} AS {names[1]} FROM {opening}{text}{closing}{outer}"


def _source(text: str, form: str) -> str:
    """Return a query as a relation of FROM: within a call of the session's, alone elsewhere."""
    before, after = form.split("({})")
    return either(f"{before}(", f"{before}(", "(", "(") + text + either(f"){after}", f"){after}", ")", ")")


def _bucket(time: tuple[str, str], span: tuple[str, int]) -> tuple[str, str]:
    """Return the start of the window of a time in DuckDB's words and in Spark's."""
    column, kind = time
    micros = f"unix_micros(CAST({column} AS timestamp))"
    judge = f"CAST(timestamp_micros({micros} - pmod({micros}, {span[1]}L)) AS {_SPARK_TYPES[kind]})"
    return f"time_bucket(INTERVAL '{span[0]}', {column}, {_ORIGINS[kind]})", judge


def asof(sides: tuple[str, str], names: tuple[str, str], condition: str, left: bool) -> str:
    """Return an as-of join of two marked texts under two names.

    Spark is not asked: as LATERAL with ORDER BY and LIMIT it has been seen to take another row than the first.
    """
    word = either(*(f"ASOF {'LEFT ' if left else ''}JOIN",) * 3, UNSPOKEN)
    return f"SELECT * FROM ({sides[0]}) {names[0]} {word} ({sides[1]}) {names[1]} ON {condition}"


def frame_of_groups(chance: random.Random) -> str:
    """Return a frame that counts groups of peers, which Spark has no word for."""
    ends = chance.choice(
        ("1 PRECEDING AND 1 FOLLOWING", "UNBOUNDED PRECEDING AND 1 PRECEDING", "CURRENT ROW AND 2 FOLLOWING")
    )
    frame = f" GROUPS BETWEEN {ends}"
    return either(frame, frame, frame, f" {UNSPOKEN}")


def ignoring(call: str, name: str, more: str = "") -> str:
    """Return a call that passes over nulls, up to its window."""
    inside, behind = f"{call}({name}{more} IGNORE NULLS) ", f"{call}({name}{more}) IGNORE NULLS "
    return either(behind, behind, inside, behind)
