"""EXCLUDE in frames of ROWS, RANGE and GROUPS: views that follow inserts, updates and deletes, held against DuckDB."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.session import Session
from tests.oracle.batch import assert_equal, content, duckdb_over
from tests.runtime.windows.test_every_function import Comparison, calls, compare_epochs

TOTAL, PEERS = "PARTITION BY g ORDER BY o, id", "PARTITION BY g ORDER BY o"
EXCLUDED = ("NO OTHERS", "CURRENT ROW", "GROUP", "TIES")
ROWS = (
    f"{TOTAL} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    f"{TOTAL} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "PARTITION BY g ORDER BY o DESC NULLS LAST, id ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    f"{TOTAL} ROWS BETWEEN CURRENT ROW AND CURRENT ROW",
)
PEERLESS = (  # what equal rows share, and what they do not but for themselves
    f"{PEERS} RANGE UNBOUNDED PRECEDING",
    f"{PEERS} RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    f"{PEERS} GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "PARTITION BY g ORDER BY o DESC GROUPS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "PARTITION BY g ORDER BY o NULLS FIRST RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING",
    "PARTITION BY g ORDER BY o DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
    f"{PEERS} RANGE BETWEEN 3 PRECEDING AND 1 PRECEDING",
    f"{PEERS} RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING",
    f"{PEERS} RANGE BETWEEN 0 PRECEDING AND 0 FOLLOWING",
    "ORDER BY b NULLS FIRST, g ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "PARTITION BY g ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)
UNIQUE = (
    "PARTITION BY g ORDER BY id RANGE BETWEEN 2 PRECEDING AND 3 FOLLOWING",
    "PARTITION BY g ORDER BY id DESC GROUPS BETWEEN 2 PRECEDING AND CURRENT ROW",
    f"{TOTAL} RANGE UNBOUNDED PRECEDING",
)
SUMS = ("count(*)", "sum(x)", "max(s)", "avg(x)", "count(*) FILTER (WHERE b)")
MORE = (
    *("count(x)", "min(x)", "sum(c)", "sum(x) FILTER (WHERE x > 3)", "bool_and(b)", "bool_or(b)"),
    *("bit_or(x)", "bit_xor(o)", "min(s) FILTER (WHERE x IS NULL)", "avg(o)", "avg(f)"),
    *("max_by(id, x)", "min_by(id, x)"),
)
ORDERED = (
    *("first_value(x)", "last_value(s)", "nth_value(x, 2)", "string_agg(s, ',')", "array_agg(x)"),
    *("first_value(x IGNORE NULLS)", "last_value(x IGNORE NULLS)", "nth_value(x, 2 IGNORE NULLS)"),
)


def views(functions: tuple[str, ...], windows: tuple[str, ...], excluded: str) -> str:
    """Return a query with every function over every window, of whose frames something is left out."""
    return calls(functions, {f"w{n}": f"{window} EXCLUDE {excluded}" for n, window in enumerate(windows)})


def every() -> Iterator[tuple[str, str]]:
    for excluded in EXCLUDED:
        yield f"sums over rows, {excluded}", views(SUMS, ROWS, excluded)
        yield f"sums over peers, {excluded}", views(SUMS, PEERLESS, excluded)
        yield f"values of rows, {excluded}", views(ORDERED, (*ROWS, *UNIQUE), excluded)


def every_other() -> Iterator[tuple[str, str]]:
    for excluded in EXCLUDED:
        yield f"more over peers, {excluded}", views(MORE, PEERLESS, excluded)
        yield f"more over rows, {excluded}", views(MORE, (*ROWS, *UNIQUE), excluded)
    yield (
        "offsets of other types",
        """SELECT id,
        count(*) OVER (PARTITION BY g ORDER BY d RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW EXCLUDE GROUP) AS a,
        sum(x) OVER (ORDER BY m RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND INTERVAL '30 minutes' FOLLOWING EXCLUDE TIES) AS c,
        sum(x) OVER (ORDER BY m DESC RANGE BETWEEN INTERVAL '2 days' PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) AS d,
        count(*) OVER (ORDER BY c RANGE BETWEEN 1.5 PRECEDING AND 0.25 FOLLOWING EXCLUDE GROUP) AS f,
        count(*) OVER (ORDER BY m RANGE BETWEEN INTERVAL '0 days' PRECEDING AND INTERVAL '40 days' FOLLOWING EXCLUDE GROUP) AS h,
        count(*) OVER (ORDER BY CAST(x AS DECIMAL(18, 1)) RANGE BETWEEN 0.5 PRECEDING AND 1.5 FOLLOWING EXCLUDE TIES) AS g FROM t""",
    )
    averages = (
        f"CAST(CAST(avg(c) OVER ({window} EXCLUDE {excluded}) AS DECIMAL(38, 5)) AS DOUBLE PRECISION) AS a{n}{k}"
        for n, window in enumerate((*ROWS, *PEERLESS))
        for k, excluded in enumerate(EXCLUDED)
    )
    yield "averages of decimals", f"SELECT id, {', '.join(averages)} FROM t"
    yield (
        "above groups, and of windows",
        """SELECT g, n, max(n) OVER (ORDER BY g NULLS FIRST ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS a FROM
        (SELECT g, sum(count(*)) OVER (ORDER BY sum(x) RANGE UNBOUNDED PRECEDING EXCLUDE CURRENT ROW) AS n FROM t GROUP BY g) q""",
    )
    yield (
        "qualified, and by a name",
        """SELECT id, max(x) OVER w AS m, row_number() OVER (PARTITION BY g ORDER BY id) AS n FROM t
        WINDOW w AS (PARTITION BY g ORDER BY o RANGE UNBOUNDED PRECEDING EXCLUDE CURRENT ROW)
        QUALIFY count(*) OVER (PARTITION BY g ORDER BY o GROUPS 1 PRECEDING EXCLUDE GROUP) > 0""",
    )


VIEWS, MORE_VIEWS = dict(every()), dict(every_other())


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """(epoch, content, what DuckDB says) of each view."""
    return compare_epochs(VIEWS, spark, tmp_path_factory.mktemp("windows"))


@pytest.fixture(scope="module")
def more_found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The same of views that take longer."""
    return compare_epochs(MORE_VIEWS, spark, tmp_path_factory.mktemp("windows"))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.long
def test_a_view_whose_frames_leave_rows_out_equals_its_query_after_each_epoch(
    found: Comparison, view: str
) -> None:
    for epoch, got, expected in found[view]:
        assert got == expected, f"after {epoch}"


@pytest.mark.oracle
@pytest.mark.parametrize("view", MORE_VIEWS)
def test_a_view_with_more_of_such_frames_equals_its_query_after_each_epoch(
    more_found: Comparison, view: str
) -> None:
    for epoch, got, expected in more_found[view]:
        assert got == expected, f"after {epoch}"


# ---- ROWS that cut peers in two, which follow the key ---------------------------------------------------------
CUT = {  # a frame, and which rows `b` it has for a row `a`
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING": "b.n BETWEEN a.n - 2 AND a.n + 1",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 FOLLOWING": "b.n <= a.n + 2",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING": "b.n <= a.n - 2",
    "ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING": "b.n >= a.n + 2",
    "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING": "b.n BETWEEN a.n + 1 AND a.n + 3",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING": "b.n >= a.n",
    "RANGE UNBOUNDED PRECEDING": "(b.n <= a.n OR b.o IS NOT DISTINCT FROM a.o)",
}
STAYS = {
    "CURRENT ROW": "b.id <> a.id",
    "GROUP": "b.o IS DISTINCT FROM a.o",
    "TIES": "(b.o IS DISTINCT FROM a.o OR b.id = a.id)",
}
IN_ORDER = {
    "count(*)": "count(*)",
    "sum(x)": "sum(b.x)",
    "max(x)": "max(b.x)",
    "first_value(x)": "first(b.x ORDER BY b.n)",
    "last_value(x)": "last(b.x ORDER BY b.n)",
    "string_agg(s, '-')": "string_agg(b.s, '-' ORDER BY b.n)",
}
LONG = [pytest.param(seed, 12, marks=pytest.mark.oracle) for seed in range(2, 5)]


def some_rows(chance: random.Random, ids: list[int]) -> pa.Table:
    def some(below: int) -> int | None:
        return None if chance.random() < 0.15 else chance.randrange(below)

    made = [(n, some(2), some(4), some(9), chance.choice((None, "", "a", "b"))) for n in ids]
    kinds = (pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.string())
    arrays = [
        pa.array(list(column), kind) for column, kind in zip(zip(*made, strict=True), kinds, strict=True)
    ]
    return pa.table(arrays, names=["id", "g", "o", "x", "s"])


def judged(tables: dict[str, pa.Table], excluded: str) -> pa.Table:
    """Return what the calls are, counted out by joining each row with those of its frame."""
    shown = ", ".join(
        f"(SELECT {call} FROM n b WHERE b.g IS NOT DISTINCT FROM a.g AND {frame} AND {STAYS[excluded]}) AS c{n}"
        for n, (frame, call) in enumerate(
            (frame, call) for frame in CUT.values() for call in IN_ORDER.values()
        )
    )
    places = "row_number() OVER (PARTITION BY g ORDER BY o NULLS LAST, id) AS n"
    with duckdb_over(tables) as connection:
        return connection.sql(
            f"WITH n AS (SELECT *, {places} FROM t) SELECT a.id, {shown} FROM n a"
        ).to_arrow_table()


@pytest.mark.long
@pytest.mark.parametrize("excluded", STAYS)
@pytest.mark.parametrize(("seed", "steps"), [(1, 2), *LONG])
def test_rows_that_cut_peers_in_two_follow_the_key(
    session: Session, excluded: str, seed: int, steps: int
) -> None:
    session.dialect, chance = "postgres", random.Random(seed)
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, o INT, x BIGINT, s VARCHAR)")
    window = "PARTITION BY g ORDER BY o"
    items = ", ".join(
        f"{call} OVER ({window} {frame} EXCLUDE {excluded}) AS c{n}"
        for n, (frame, call) in enumerate((frame, call) for frame in CUT for call in IN_ORDER)
    )
    session.write("t", some_rows(chance, chance.sample(range(40), 20)))
    session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {items} FROM t", build=False)
    for step in range(steps):
        session.flush().raise_for_errors()
        expected = judged({"t": content(session, "t")}, excluded)
        assert_equal(content(session, "v"), expected, f"seed {seed}, step {step}")
        session.write("t", some_rows(chance, chance.sample(range(40), chance.choice((1, 3)))))
        gone = pa.array(chance.sample(range(40), 2), pa.int32())
        session.write("t", pa.table({"id": gone}), mode="delete")


# ---- what it costs, and what no type of Spark's holds -----------------------------------------------------------
def test_rows_around_a_row_without_itself_cost_what_changes(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, x BIGINT)")
    around = "PARTITION BY g ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW"
    answer = session.sql(
        f"EXPLAIN INCREMENTAL SELECT id, g, sum(x) OVER ({around}) AS c, max(x) OVER ({around}) AS m FROM t"
    )
    assert answer is not None
    assert "rows up to 2 from a change are computed again" in " ".join(answer.column(0).to_pylist())


@pytest.mark.long
def test_sums_of_the_widest_decimals_lose_no_digit(session: Session) -> None:
    session.sql("CREATE TABLE t (id INT PRIMARY KEY, c DECIMAL(38, 10))")
    session.sql("INSERT INTO t VALUES (1, 12345678901234567890.0123456789), (2, 0.0000000001), (3, 5)")
    frame = "OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW)"
    session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, sum(c) {frame} AS s, avg(c) {frame} AS a FROM t")
    session.flush().raise_for_errors()
    rows = content(session, "v").sort_by("id")
    assert [str(s) for s in rows.column("s").to_pylist()] == [
        "5.0000000001",
        "12345678901234567895.0123456789",
        "12345678901234567890.0123456790",
    ]
    query = "SELECT avg(c) AS a FROM t WHERE id <> {}"
    for n, average in enumerate(rows.column("a").to_pylist(), 1):
        whole = session.sql(query.format(n))
        assert whole is not None and whole.column("a").to_pylist() == [average]
