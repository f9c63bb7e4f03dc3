"""Tables with watermarks that get random rows, some late, and DuckDB as the judge over the rows that were in time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pyarrow as pa

from engine.session import Session
from tests.oracle.batch import assert_equal, by_duckdb, content

START = datetime(2024, 3, 1, 12)
DELAY = timedelta(minutes=30)
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("k", pa.int32()), ("n", pa.int64())])
_HOUR = "TUMBLE({0}, ts, INTERVAL '1 hour')"
_HOP = "HOP(t, ts, INTERVAL '20 minutes', INTERVAL '1 hour')"
_HOPS = "(SELECT *, unnest([time_bucket(INTERVAL '20 minutes', ts) - INTERVAL '20 minutes' * i FOR i IN [0, 1, 2]]) AS ws FROM t)"
_BUCKET = "time_bucket(INTERVAL '1 hour', {0})"
_CLOSED = f"{_BUCKET.format('ts')} < {_BUCKET.format('{t}')}"
_ROWS = "(SELECT * FROM t WHERE ts < {t})"
_BOTH = "CASE WHEN {t} < {u} THEN {t} WHEN {u} <= {t} THEN {u} END"  # not least(), which leaves NULL out
_BEGINS = (
    "(SELECT *, CASE WHEN ts < lag(ts) OVER (PARTITION BY k ORDER BY ts) + INTERVAL '20 minutes' THEN NULL ELSE ts END AS b "
    "FROM t WHERE ts IS NOT NULL)"
)
_SESSIONS = f"(SELECT *, max(b) OVER (PARTITION BY k ORDER BY ts) AS s FROM {_BEGINS})"

VIEWS: dict[str, tuple[str, str]] = {
    "rows_": ("SELECT id, ts, k FROM t WHERE n <> 3", "SELECT id, ts, k FROM t WHERE n <> 3 AND ts < {t}"),
    "moved": (
        "SELECT id, ts - INTERVAL '1 hour' AS a, CAST(ts AS DATE) AS d FROM t",
        "SELECT id, ts - INTERVAL '1 hour', CAST(ts AS DATE) FROM t WHERE ts < {t}",
    ),
    "hourly": (
        "SELECT window_start, k, count(*) AS c, max(n) AS m, sum(n) AS s, count(DISTINCT n) AS d "
        f"FROM {_HOUR.format('t')} GROUP BY window_start, k",
        f"SELECT {_BUCKET.format('ts')}, k, count(*), max(n), sum(n), count(DISTINCT n) FROM t WHERE {_CLOSED} GROUP BY 1, 2",
    ),
    "hops": (
        f"SELECT window_start, min(n) AS m, count(*) AS c FROM {_HOP} GROUP BY window_start",
        f"SELECT ws, min(n), count(*) FROM {_HOPS} WHERE ws < time_bucket(INTERVAL '20 minutes', {{t}}) - INTERVAL '40 minutes' "
        "GROUP BY 1",
    ),
    "daily": (
        "SELECT CAST(ts AS DATE) AS day, string_agg(CAST(id AS TEXT), ',' ORDER BY id) AS ids FROM t GROUP BY CAST(ts AS DATE)",
        "SELECT CAST(ts AS DATE), string_agg(CAST(id AS TEXT), ',' ORDER BY id) FROM t WHERE CAST(ts AS DATE) < CAST({t} AS DATE) "
        "GROUP BY 1",
    ),
    "busy": (
        f"SELECT window_end, count(*) AS c FROM {_HOUR.format('t')} GROUP BY window_end HAVING count(*) > 1",
        f"SELECT {_BUCKET.format('ts')} + INTERVAL '1 hour', count(*) FROM t WHERE {_CLOSED} GROUP BY 1 HAVING count(*) > 1",
    ),
    "first_": (
        "SELECT window_start, id, n FROM (SELECT *, row_number() OVER (PARTITION BY window_start, k ORDER BY n, id) AS r "
        f"FROM {_HOUR.format('t')}) AS x WHERE r <= 2",
        "SELECT w, id, n FROM (SELECT *, row_number() OVER (PARTITION BY w, k ORDER BY n NULLS LAST, id) AS r FROM "
        f"(SELECT *, {_BUCKET.format('ts')} AS w FROM t WHERE {_CLOSED})) WHERE r <= 2",
    ),
    "ranked": (
        f"SELECT window_start, id, rank() OVER (PARTITION BY window_start ORDER BY n) AS r FROM {_HOUR.format('t')}",
        "SELECT w, id, rank() OVER (PARTITION BY w ORDER BY n NULLS LAST) FROM "
        f"(SELECT *, {_BUCKET.format('ts')} AS w FROM t WHERE {_CLOSED})",
    ),
    "along": (
        "SELECT id, ts, row_number() OVER (PARTITION BY k ORDER BY ts, id) AS r, "
        "lag(n) OVER (PARTITION BY k ORDER BY ts, id) AS p FROM t",
        "SELECT id, ts, row_number() OVER (PARTITION BY k ORDER BY ts, id), lag(n) OVER (PARTITION BY k ORDER BY ts, id) "
        f"FROM {_ROWS}",
    ),
    "ahead": (
        "SELECT id, lead(n, 2) OVER (PARTITION BY k ORDER BY ts, id) AS p FROM t",
        "SELECT id, p FROM (SELECT id, lead(n, 2) OVER w AS p, lead(id, 2) OVER w AS q "
        f"FROM {_ROWS} WINDOW w AS (PARTITION BY k ORDER BY ts, id)) WHERE q IS NOT NULL",
    ),
    "joined": (
        f"SELECT a.window_start, a.id, b.id AS other FROM {_HOUR.format('t')} AS a "
        f"JOIN {_HOUR.format('u')} AS b ON a.window_start = b.window_start AND a.k = b.k",
        f"SELECT {_BUCKET.format('t.ts')}, t.id, u.id FROM t JOIN u ON t.k = u.k AND {_BUCKET.format('t.ts')} = "
        f"{_BUCKET.format('u.ts')} WHERE {_BUCKET.format('t.ts')} < {_BUCKET.format(_BOTH)}",
    ),
    "alone": (
        f"SELECT a.window_start, a.id FROM {_HOUR.format('t')} AS a LEFT JOIN {_HOUR.format('u')} AS b "
        "ON a.window_start = b.window_start WHERE b.id IS NULL",
        f"SELECT {_BUCKET.format('ts')}, id FROM t WHERE {_BUCKET.format('ts')} < {_BUCKET.format(_BOTH)} "
        f"AND {_BUCKET.format('ts')} NOT IN (SELECT {_BUCKET.format('ts')} FROM u WHERE ts IS NOT NULL)",
    ),
    "either": (
        "SELECT ts, id, 1 AS b FROM t UNION ALL SELECT ts, id, 2 FROM u",
        f"SELECT ts, id, 1 FROM t WHERE ts < {_BOTH} UNION ALL SELECT ts, id, 2 FROM u WHERE ts < {_BOTH}",
    ),
    "earliest": (
        "SELECT ts, id, n FROM (SELECT * FROM t ORDER BY ts, id LIMIT 7 OFFSET 2) AS x",
        "SELECT ts, id, n FROM (SELECT * FROM t ORDER BY ts NULLS LAST, id LIMIT 7 OFFSET 2) WHERE ts < {t}",
    ),
    "earliest_each": (
        "SELECT k, ts, id FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts, id) AS r FROM t) AS x WHERE r <= 3",
        "SELECT k, ts, id FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY ts NULLS LAST, id) AS r FROM t) "
        "WHERE r <= 3 AND ts < {t}",
    ),
    "after": (
        "SELECT t.id, u.id AS o, t.ts AS a, u.ts AS b FROM t, u WHERE t.k = u.k AND t.ts >= u.ts AND t.n = u.n",
        f"SELECT t.id, u.id, t.ts, u.ts FROM t, u WHERE t.k = u.k AND t.ts >= u.ts AND t.n = u.n AND t.ts < {_BOTH}",
    ),
    "shortly_after": (
        "SELECT t.id, u.id AS o, t.ts AS a FROM t JOIN u ON t.k = u.k AND t.ts BETWEEN u.ts AND u.ts + INTERVAL '20' MINUTE",
        "SELECT t.id, u.id, t.ts FROM t JOIN u ON t.k = u.k AND t.ts BETWEEN u.ts AND u.ts + INTERVAL '20' MINUTE "
        f"WHERE t.ts < {_BOTH}",
    ),
    "shortly_before": (
        "SELECT t.id, u.id AS o, t.ts AS a FROM t JOIN u ON t.k = u.k AND t.ts + INTERVAL '20' MINUTE > u.ts AND t.n = 1",
        "SELECT t.id, u.id, t.ts FROM t JOIN u ON t.k = u.k AND t.ts + INTERVAL '20' MINUTE > u.ts AND t.n = 1 "
        "WHERE t.ts < {t} AND t.ts < {u} - INTERVAL '20' MINUTE",
    ),
    "between_others": (
        "SELECT id, ts, sum(n) OVER (ORDER BY ts, id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS c FROM t",
        "SELECT id, ts, c FROM (SELECT id, ts, sum(n) OVER w AS c, lead(id) OVER (ORDER BY ts, id) AS o FROM t WHERE ts < {t} "
        "WINDOW w AS (ORDER BY ts, id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)) WHERE o IS NOT NULL",
    ),
    "with_before": (
        "SELECT t.id, u.id AS o, t.ts AS a FROM t LEFT JOIN u ON t.k = u.k AND u.ts <= t.ts AND t.n = u.n",
        f"SELECT t.id, u.id, t.ts FROM t LEFT JOIN u ON t.k = u.k AND u.ts <= t.ts AND t.n = u.n WHERE t.ts < {_BOTH}",
    ),
    "with_last": (
        "SELECT t.id, u.ts AS b, t.ts AS a FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.ts >= u.ts",
        f"SELECT t.id, (SELECT max(ts) FROM u WHERE u.k = t.k AND u.ts <= t.ts), t.ts FROM t WHERE t.ts < {_BOTH}",
    ),
    "sessions": (
        "SELECT id, ts, count(*) OVER w AS c, max(n) OVER w AS m, first_value(ts) OVER w AS f FROM t "
        "WINDOW w AS (PARTITION BY k ORDER BY ts SESSION WITH GAP '20 minutes')",
        "SELECT id, ts, c, m, s FROM (SELECT *, count(*) OVER w AS c, max(n) OVER w AS m, max(ts) OVER w AS l "
        f"FROM {_SESSIONS} WINDOW w AS (PARTITION BY k, s)) WHERE l + INTERVAL '20 minutes' <= {{t}}",
    ),
    "sessions_and_rows": (
        "SELECT id, count(*) OVER (PARTITION BY k ORDER BY ts SESSION WITH GAP INTERVAL '20 minutes') AS c, "
        "count(*) OVER (PARTITION BY k ORDER BY ts, id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS r FROM t",
        "SELECT id, c, r FROM (SELECT *, count(*) OVER (PARTITION BY k, s) AS c, max(ts) OVER (PARTITION BY k, s) AS l, "
        f"row_number() OVER (PARTITION BY k ORDER BY ts, id) AS r FROM {_SESSIONS}) WHERE l + INTERVAL '20 minutes' <= {{t}}",
    ),
    "unnested": (
        "SELECT t.ts, t.id, unnest(ARRAY[1, 2]) AS x FROM t",
        "SELECT ts, id, unnest([1, 2]) FROM t WHERE ts < {t}",
    ),
}
"""By name: the query in PostgreSQL's words, which is to emit on window close, and the judge's, with the watermarks as literals."""


@dataclass
class World:
    """What was written: the rows in time and the watermark by table, and how many were late."""

    session: Session
    chance: random.Random
    rows: dict[str, list[pa.Table]] = field(default_factory=lambda: {"t": [], "u": []})
    watermarks: dict[str, datetime | None] = field(default_factory=lambda: {"t": None, "u": None})
    late: dict[str, int] = field(default_factory=lambda: {"t": 0, "u": 0})
    now: datetime = START
    made: int = 0

    def create(self) -> None:
        """Create the tables."""
        for name in ("t", "u"):
            self.session.sql(
                f"CREATE TABLE {name} (id BIGINT, ts TIMESTAMP, k INT, n BIGINT, "
                "WATERMARK FOR ts AS ts - INTERVAL '30 minutes') APPEND ONLY"
            )

    def step(self) -> None:
        """Let time pass and write some rows: out of order, together, late, without a time."""
        self.now += timedelta(minutes=self.chance.choice([0, 5, 20, 45, 60, 90, 300]))
        for name in ("t", "u"):
            if self.chance.random() < 0.7:
                self.write(name, [self._row() for _ in range(self.chance.randrange(1, 7))])

    def write(self, name: str, given: list[dict[str, object]]) -> None:
        """Write rows, and hold them against the watermark as it was."""
        self.session.write(name, pa.Table.from_pylist(given, SCHEMA), mode="insert")
        before = self.watermarks[name]
        taken = [row for row in given if before is None or row["ts"] is None or row["ts"] >= before]  # type: ignore[operator]
        self.late[name] += len(given) - len(taken)
        self.rows[name].append(pa.Table.from_pylist(taken, SCHEMA))
        times = [row["ts"] - DELAY for row in taken if row["ts"] is not None]  # type: ignore[operator]
        known = [*times, *([] if before is None else [before])]
        self.watermarks[name] = max(known) if known else None  # type: ignore[type-var, assignment]

    def _row(self) -> dict[str, object]:
        self.made += 1
        back = timedelta(minutes=self.chance.choice([0, 0, 5, 10, 29, 30, 31, 60, 240]))
        ts = None if self.chance.random() < 0.08 else self.now - back
        n = None if self.chance.random() < 0.1 else self.chance.randrange(5)
        return {"id": self.made, "ts": ts, "k": self.chance.randrange(2), "n": n}

    def tables(self) -> dict[str, pa.Table]:
        """Return the rows that are in time."""
        return {name: pa.concat_tables([SCHEMA.empty_table(), *parts]) for name, parts in self.rows.items()}

    def expected(self, judge: str) -> pa.Table:
        """Return the judge's rows at the present watermarks."""
        given = {
            name: "CAST(NULL AS TIMESTAMP)" if at is None else f"TIMESTAMP '{at}'"
            for name, at in self.watermarks.items()
        }
        return by_duckdb(self.tables(), judge.format(**given))

    def check(self, names: tuple[str, ...], label: str) -> None:
        """Compare tables, counts of late rows and views with what is expected."""
        for name in ("t", "u"):
            assert_equal(content(self.session, name), self.tables()[name], f"{label}, table {name}")
            rows = content(self.session, f"_watermark_{name}").to_pylist()
            at = self.watermarks[name]
            assert [row["watermark"] for row in rows] == ([] if not rows else [at]), label
            assert sum(row["late_rows"] for row in rows) == self.late[name], label
        for name in names:
            assert_equal(content(self.session, name), self.expected(VIEWS[name][1]), f"{label}, view {name}")
