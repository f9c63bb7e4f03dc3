"""Functions in Python: called in views as in what is asked once, whatever comes, changes and goes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import SqlError, TidelineError, UnsupportedSql
from engine.meta.catalog.stored_catalog import load_catalog
from engine.session import Session

SCORE = """
CREATE FUNCTION score(p BIGINT, n STRING) RETURNS BIGINT LANGUAGE python DETERMINISTIC AS $$
def score(p, n):
    if p == 99:
        raise ValueError("no 99; please")  # it's a semicolon
    return None if p is None else p % 7 + len(n or "")
$$"""
MIDDLE = """
CREATE AGGREGATE middle(v BIGINT, w BIGINT) RETURNS DECIMAL(20, 2) LANGUAGE python DETERMINISTIC AS $$
from decimal import Decimal

def create_state():
    return []

def accumulate(state, v, w):
    return state + [v or 0] * (w or 0)

def finish(state):
    return Decimal(sorted(state)[len(state) // 2]) / 4 if state else None
$$"""
TOTAL = """
CREATE AGGREGATE total(v BIGINT) RETURNS BIGINT LANGUAGE python DETERMINISTIC AS $$
def create_state():
    return 0

def accumulate(state, v):
    return state + (v or 0)
$$"""
QUERIES = {
    "chosen": "SELECT id, score(price, name) AS s FROM bid WHERE score(price, name) > 3",
    "grouped": "SELECT score(auction, name) AS g, sum(score(price, name)) AS s, max(score(price, name)) AS m, count(*) AS n "
    "FROM bid GROUP BY score(auction, name)",
    "over_groups": "SELECT auction, score(sum(price), max(name)) AS s FROM bid GROUP BY auction",
    "joined": "SELECT b.id, i.id AS item, score(b.price * 100 + i.id, i.label) AS s FROM bid b JOIN item i "
    "ON b.auction = i.id AND score(b.price, i.label) > 2",
    "keyed": "SELECT b.id, i.id AS item FROM bid b JOIN item i ON score(b.price, NULL) = i.id",
    "one_side": "SELECT b.id, i.label FROM bid b LEFT JOIN item i ON b.auction = i.id AND score(i.id, i.label) > 2 "
    "AND score(b.price, NULL) > 1",
    "existing": "SELECT id FROM bid b WHERE EXISTS (SELECT 1 FROM item i WHERE score(i.id, i.label) = b.auction)",
    "outer_joined": "SELECT b.id, score(i.id, b.name) AS s FROM bid b LEFT JOIN item i ON score(b.auction, NULL) = i.id",
    "ranked": "SELECT id, rank() OVER (PARTITION BY auction ORDER BY score(price, name), id) AS r FROM bid",
    "summed": "SELECT id, sum(score(price, name)) OVER (PARTITION BY auction ORDER BY id) AS r FROM bid",
    "nested": "SELECT id, score(score(price, name), concat(name, 'x')) AS s FROM bid",
    "chosen_branch": "SELECT id, CASE WHEN price = 99 THEN -1 ELSE score(price, name) END AS s FROM bid",
    "distinct_values": "SELECT DISTINCT score(price, name) AS s FROM bid",
    "middles": "SELECT auction, middle(price, id % 3) AS m, middle(price, 1) FILTER (WHERE id > 5) AS f, count(*) AS n "
    "FROM bid GROUP BY auction",
    "middle_of_all": "SELECT middle(price, 1) AS m FROM bid",
}


@pytest.fixture
def bids(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "s").as_uri(), spark) as session:
        session.sql("CREATE TABLE bid (id BIGINT PRIMARY KEY, auction BIGINT, price BIGINT, name STRING)")
        session.sql("CREATE TABLE item (id BIGINT PRIMARY KEY, label STRING)")
        session.sql(SCORE)
        yield session


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


def compare(session: Session, view: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, which are those of the view over it."""
    asked = sorted(rows(session, query), key=repr)
    assert sorted(rows(session, f"SELECT * FROM {view}"), key=repr) == asked, view
    return asked


@pytest.mark.long
@pytest.mark.parametrize("rounds", [2, 8])
def test_views_that_call_functions_follow_random_changes(bids: Session, rounds: int) -> None:
    bids.sql(MIDDLE)
    rng = random.Random(7)
    for view, query in QUERIES.items():
        bids.sql(f"CREATE MATERIALIZED VIEW {view} AS {query}", build=False)
    bids.sql("INSERT INTO item VALUES (0, 'zero'), (1, NULL), (2, 'two'), (3, 'three'), (4, ''), (5, 'five')")
    known: set[int] = set()
    for _ in range(rounds):
        for number in rng.sample(range(30), 9):
            known.add(number)
            price = rng.choice(["NULL", *map(str, range(98))])
            name = rng.choice(["NULL", "''", "'a'", "'abc'"])
            row = f"({number}, {rng.randrange(6)}, {price}, {name})"
            bids.sql(f"DELETE FROM bid WHERE id = {number}")
            bids.sql(f"INSERT INTO bid VALUES {row}")
        gone = rng.sample(sorted(known), 3)
        bids.sql(f"DELETE FROM bid WHERE id IN ({', '.join(map(str, gone))})")
        bids.sql(f"UPDATE bid SET price = price + 1 WHERE auction = {rng.randrange(6)} AND price < 90")
        bids.flush().raise_for_errors()
        for view, query in QUERIES.items():
            compare(bids, view, query)
    bids.sql("DELETE FROM bid")
    bids.flush().raise_for_errors()
    for view, query in QUERIES.items():
        compare(bids, view, query)
    assert rows(bids, "SELECT * FROM middle_of_all") == [(None,)]


def test_a_full_refresh_calls_functions_too(bids: Session) -> None:
    query = QUERIES["grouped"]
    bids.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'full') AS {query}")
    bids.sql("INSERT INTO bid VALUES (1, 2, 3, 'a'), (2, 2, 5, NULL)")
    bids.flush().raise_for_errors()
    assert len(compare(bids, "v", query)) == 2


def test_a_row_that_a_function_fails_on_is_named_and_stops_the_view_alone(bids: Session) -> None:
    bids.sql("CREATE MATERIALIZED VIEW v AS SELECT id, score(price, name) AS s FROM bid")
    bids.sql("CREATE MATERIALIZED VIEW other AS SELECT id FROM bid")
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a'), (2, 1, 99, 'why')")
    report = bids.flush()
    assert report["other"].error is None
    message = report["v"].error or ""
    for part in (
        "function score failed on (p => 99, n => 'why')",
        "ValueError: no 99; please (line 3 of its body)",
        "on_row_error = 'null'",
        "{'id': 2}",
    ):
        assert part in message
    bids.sql("UPDATE bid SET price = 9 WHERE id = 2")
    bids.flush().raise_for_errors()
    assert rows(bids, "SELECT * FROM v ORDER BY id") == [(1, 2), (2, 5)]


@pytest.mark.parametrize("policy", ["auto", "full"])
def test_a_row_that_a_function_fails_on_is_null_where_the_view_says_so(bids: Session, policy: str) -> None:
    options = f"on_row_error = 'null', refresh_policy = '{policy}'"
    bids.sql(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT id, score(price, name) AS s FROM bid")
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a'), (2, 1, 99, 'why')")
    bids.flush().raise_for_errors()
    assert rows(bids, "SELECT * FROM v ORDER BY id") == [(1, 2), (2, None)]


def test_small_epochs_call_functions_in_the_task_that_has_the_rows(bids: Session) -> None:
    for query in ("SELECT id, score(price, name) AS s FROM bid", QUERIES["grouped"]):
        assert "it computes" not in str(rows(bids, f"EXPLAIN INCREMENTAL {query}"))


def test_a_branch_that_is_not_taken_does_not_fail(bids: Session) -> None:
    query = QUERIES["chosen_branch"]
    bids.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a'), (2, 1, 99, 'why')")
    bids.flush().raise_for_errors()
    assert compare(bids, "v", query) == [(1, 2), (2, -1)]


@pytest.mark.long
def test_a_result_of_another_type_is_an_error(bids: Session) -> None:
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a')")
    for number, (kind, value, said) in enumerate(
        [
            ("INT", "'7'", "it gave '7', a str, where an int is meant"),
            ("INT", "True", "a bool, where an int is meant"),
            ("INT", "2 ** 31", "more than 32 bits"),
            ("STRING", "7", "where a str is meant"),
            ("DECIMAL(4, 1)", "__import__('decimal').Decimal('1.25')", "more digits"),
            ("TIMESTAMP", "__import__('datetime').datetime(2026, 1, 1)", "no time zone"),
            ("STRUCT<a: INT>", "{'b': 1}", "the fields are a"),
        ]
    ):
        name = f"wrong{number}"
        bids.sql(
            f"CREATE FUNCTION {name}(a BIGINT) RETURNS {kind} LANGUAGE python AS $$def {name}(a): return {value}$$"
        )
        with pytest.raises(TidelineError, match=f"function {name} failed on \\(a => 1\\)") as caught:
            bids.sql(f"SELECT {name}(id) FROM bid")
        assert said in str(caught.value)


def test_a_strict_function_is_not_called_with_null(bids: Session) -> None:
    body = "AS $$def {0}(a, b): return a is None or b is None$$"
    for name, said in (
        ("called", "CALLED ON NULL INPUT"), ("plain", ""), ("strict1", "STRICT"), ("strict2", "RETURNS NULL ON NULL INPUT")
    ):  # fmt: skip
        bids.sql(
            f"CREATE FUNCTION {name}(a BIGINT, b STRING) RETURNS BOOLEAN LANGUAGE python {said} DETERMINISTIC {body.format(name)}"
        )
    query = "SELECT id, called(price, name) AS c, plain(price, name) AS p, strict1(price, name) AS s, strict2(price, name) AS t FROM bid"
    bids.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    bids.sql("INSERT INTO bid VALUES (1, 1, NULL, 'a'), (2, 1, 2, 'b'), (3, 1, NULL, NULL)")
    bids.flush().raise_for_errors()
    assert compare(bids, "v", query) == [
        (1, True, True, None, None),
        (2, False, False, False, False),
        (3, True, True, None, None),
    ]


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "BOOLEAN": (pa.bool_(), [True, False]),
    "TINYINT": (pa.int8(), [-128, 127]),
    "SMALLINT": (pa.int16(), [-(2**15), 2**15 - 1]),
    "INT": (pa.int32(), [-(2**31), 2**31 - 1]),
    "BIGINT": (pa.int64(), [-(2**63), 2**63 - 1]),
    "FLOAT": (pa.float32(), [1.5, float("inf")]),
    "DOUBLE": (pa.float64(), [-0.0, 1e300]),
    "DECIMAL(38, 4)": (pa.decimal128(38, 4), [Decimal("12345678901234567890.1234"), Decimal("-0.0001")]),
    "STRING": (pa.string(), ["", "ä\U0001f600'\\"]),
    "BINARY": (pa.binary(), [b"", b"\x00\xff"]),
    "DATE": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "TIME": (pa.time64("ns"), [time(0), time(23, 59, 59, 999_999)]),
    "TIMESTAMP": (pa.timestamp("us", "UTC"), [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 1, 2, 3, 4, tzinfo=UTC)]),
    "TIMESTAMP_NTZ": (pa.timestamp("us"), [datetime(1969, 12, 31, 23), datetime(2026, 3, 29, 2, 30)]),
    "INTERVAL DAY TO SECOND": (pa.duration("us"), [timedelta(days=-2, microseconds=1), timedelta(0)]),
    "ARRAY<BIGINT>": (pa.list_(pa.int64()), [[], [1, None, 3]]),
    "ARRAY<TIMESTAMP>": (pa.list_(pa.timestamp("us", "UTC")), [[datetime(2026, 1, 1, tzinfo=UTC), None]]),
    "STRUCT<a: INT, b: ARRAY<STRING>>": (
        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]), [{"a": 1, "b": ["x", None]}, {"a": None, "b": None}]
    ),
    "MAP<STRING, INT>": (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], []]),
}  # fmt: skip


def test_values_of_all_types_come_and_go_whole(bids: Session) -> None:
    """Identity by Python: what a function gets and gives is what is stored, also nulls, in views and where it is asked once."""
    for number, (kind, (arrow, values)) in enumerate(VALUES.items()):
        bids.sql(f"CREATE TABLE t{number} (id BIGINT PRIMARY KEY, x {kind})")
        bids.sql(
            f"CREATE FUNCTION same{number}(a {kind}) RETURNS {kind} LANGUAGE python DETERMINISTIC AS $$def same{number}(a): return a$$"
        )
        bids.sql(
            f"CREATE MATERIALIZED VIEW v{number} AS SELECT id, same{number}(x) AS y FROM t{number}",
            build=False,
        )
        given = [*values, None]
        bids.write(f"t{number}", pa.table({"id": range(len(given)), "x": pa.array(given, arrow)}))
    bids.flush().raise_for_errors()
    for number, kind in enumerate(VALUES):
        stored = bids.sql(f"SELECT id, x AS y FROM t{number} ORDER BY id")
        for asked in (
            f"SELECT id, y FROM v{number} ORDER BY id",
            f"SELECT id, same{number}(x) AS y FROM t{number} ORDER BY id",
        ):
            assert bids.sql(asked) == stored, kind


def test_a_time_that_python_has_not_is_an_error_that_says_so(bids: Session) -> None:
    bids.sql(
        "CREATE FUNCTION same(a DATE) RETURNS DATE LANGUAGE python DETERMINISTIC AS $$def same(a): return a$$"
    )
    with pytest.raises(TidelineError, match=r"\+10000-01-01 is beyond the years 1 to 9999"):
        bids.sql("SELECT same(DATE '+10000-01-01' + CAST(id AS INT)) FROM (SELECT 0 AS id)")


def test_a_function_that_is_not_declared_deterministic_is_in_no_view(bids: Session) -> None:
    bids.sql("CREATE FUNCTION dice(a BIGINT) RETURNS BIGINT LANGUAGE python AS $$def dice(a): return 4$$")
    bids.sql(
        "CREATE FUNCTION no_dice(a BIGINT) RETURNS BIGINT LANGUAGE python NOT DETERMINISTIC AS $$def no_dice(a): return 4$$"
    )
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a')")
    assert rows(bids, "SELECT dice(id) + no_dice(id) FROM bid") == [(8,)]
    bids.sql(
        "CREATE FUNCTION count_up() RETURNS INT LANGUAGE python AS $$n = 0\ndef count_up():\n    global n; n += 1; return n$$"
    )
    drawn = "SELECT d, d AS e FROM (SELECT id, count_up() AS d FROM bid) WHERE d > 0"
    assert all(one == other for one, other in rows(bids, drawn))
    bids.sql("CREATE FUNCTION twice(a BIGINT) RETURNS BIGINT RETURN dice(a) * 2")
    for call in ("dice(id)", "no_dice(id)", "twice(id)"):
        for options in ("", "WITH (refresh_policy = 'full') "):
            with pytest.raises(UnsupportedSql, match="not declared DETERMINISTIC") as caught:
                bids.sql(f"CREATE MATERIALIZED VIEW v {options}AS SELECT id, {call} AS d FROM bid")
            assert "must be the one that came" in caught.value.hint
            assert "refresh_policy" not in caught.value.hint + caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python AS $$def f(a) return 1$$", "it is no Python"),
        (
            "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python AS $$def g(a): return 1$$",
            "does not define f",
        ),
        (
            "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python AS $$def f(a, b): return 1$$",
            "take 1 values",
        ),
        (
            "CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python AS $$async def f(a): return 1$$",
            "asynchronous",
        ),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python AS $$def f(a): yield 1$$", "yields rows"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE python RETURN a", "no body in quotes"),
        ("CREATE FUNCTION f(a INT) RETURNS INT LANGUAGE java AS 'x'", "JAVA are not offered"),
        ("CREATE FUNCTION f(a INT) LANGUAGE python AS 'x'", "needs RETURNS"),
        (
            "CREATE FUNCTION Tag(a INT) RETURNS INT LANGUAGE python AS 'def Tag(a): return 1'",
            "defines Tag, and not tag",
        ),
        (
            "CREATE FUNCTION array_sum(a ARRAY<INT>) RETURNS INT LANGUAGE python AS 'def array_sum(a): return 1'",
            "means something else in dialect spark",
        ),
        (
            "CREATE FUNCTION f(a MAP<ARRAY<INT>, INT>) RETURNS INT LANGUAGE python AS 'def f(a): return 1'",
            "a map whose keys are lists",
        ),
        (
            "CREATE TABLE g (id BIGINT PRIMARY KEY, y BIGINT GENERATED ALWAYS AS (score(id, 'a')))",
            "no built-in function score",
        ),
        (
            "CREATE FUNCTION f(a VARIANT) RETURNS INT LANGUAGE python AS 'def f(a): return 1'",
            "VARIANT|variant",
        ),
        (
            "CREATE AGGREGATE f(a INT) RETURNS INT LANGUAGE python AS $$def f(a): return 1$$",
            "define create_state",
        ),
        ("CREATE AGGREGATE f(a INT) RETURNS INT LANGUAGE SQL AS 'SELECT 1'", "in SQL is not offered"),
        (
            "CREATE FUNCTION score(a INT) RETURNS INT LANGUAGE python AS $$def score(a): return 1$$",
            "exists already",
        ),
        ("SELECT score(1) FROM bid", "takes 2 values"),
        ("SELECT score(DISTINCT id, name) FROM bid", "not offered"),
        ("SELECT score(id, name) OVER (PARTITION BY id) FROM bid", "OVER of function score"),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT b.id, i.label FROM bid b LEFT JOIN item i "
            "ON b.auction = i.id AND score(b.price, i.label) > 2",
            "both sides in the condition of an outer join",
        ),
        (
            "CREATE MATERIALIZED VIEW v AS SELECT id FROM bid b WHERE NOT EXISTS "
            "(SELECT 1 FROM item i WHERE b.auction = i.id AND score(b.price, i.label) > 2)",
            "both sides in the condition of NOT EXISTS",
        ),
        ("SELECT transform(array(1), x -> score(x, 'a')) FROM bid", "lambda|LAMBDA"),
    ],
)
def test_what_is_refused_says_why(bids: Session, text: str, said: str) -> None:
    with pytest.raises(TidelineError, match=said):
        bids.sql(text)


def test_a_function_without_a_parameter_and_one_with_its_body_in_quotes(bids: Session) -> None:
    bids.sql("CREATE FUNCTION seven() RETURNS INT LANGUAGE python DETERMINISTIC AS 'def seven(): return 7'")
    bids.sql("CREATE MATERIALIZED VIEW v AS SELECT id, seven() AS s FROM bid")
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a')")
    bids.flush().raise_for_errors()
    assert compare(bids, "v", "SELECT id, seven() FROM bid") == [(1, 7)]


def test_a_function_that_is_called_stays_and_its_text_too(bids: Session) -> None:
    bids.sql("CREATE FUNCTION twice(a BIGINT) RETURNS BIGINT RETURN score(a, 'xy') * 2")
    bids.sql("CREATE MATERIALIZED VIEW v AS SELECT id, twice(price) AS s FROM bid")
    with pytest.raises(SqlError, match="score is read by"):
        bids.sql("DROP FUNCTION score")
    with pytest.raises(SqlError, match="defines it by this name"):
        bids.sql("ALTER FUNCTION score RENAME TO points")
    with pytest.raises(SqlError, match="called by") as caught:
        bids.sql(SCORE.replace("CREATE", "CREATE OR REPLACE").replace("% 7", "% 5"))
    assert "tideline apply" in str(caught.value)
    bids.sql("DROP FUNCTION score CASCADE")
    assert not rows(bids, "SHOW FUNCTIONS") and not rows(bids, "SHOW MATERIALIZED VIEWS")


def test_a_function_that_nothing_calls_gets_another_text(bids: Session) -> None:
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a')")
    assert rows(bids, "SELECT score(price, name) FROM bid") == [(2,)]
    bids.sql(SCORE.replace("CREATE", "CREATE OR REPLACE").replace("% 7", "% 5"))
    assert rows(bids, "SELECT score(price, name) FROM bid") == [(4,)]
    created = rows(bids, "SHOW CREATE FUNCTION score")[0][1]
    assert created.startswith("CREATE FUNCTION score") and "% 5" in created
    assert rows(bids, "DESCRIBE score") == [("p", "bigint"), ("n", "string"), ("returns", "bigint")]
    bids.sql(
        "CREATE OR REPLACE FUNCTION made(a INT) RETURNS INT LANGUAGE python AS $$def made(a): return 1$$"
    )
    bids.sql("DROP FUNCTION made")


def test_rows_are_written_by_functions(bids: Session) -> None:
    bids.sql("INSERT INTO item SELECT score(8, 'a'), concat('l', score(9, NULL))")
    assert rows(bids, "SELECT * FROM item") == [(2, "l2")]
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a'), (2, 1, score(6, 'xx'), 'b')")
    bids.sql("UPDATE bid SET price = score(price, name) + 100 WHERE score(price, name) = 2")
    bids.sql("DELETE FROM bid WHERE score(price, name) = 0 - 1")
    assert rows(bids, "SELECT id, price FROM bid ORDER BY id") == [(1, 102), (2, 102)]


def test_a_function_outlives_its_session(bids: Session) -> None:
    bids.sql("CREATE MATERIALIZED VIEW v AS SELECT id, score(price, name) AS s FROM bid")
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a')")
    with Session(bids.url, bids.spark) as other:
        other.flush().raise_for_errors()
        assert compare(other, "v", "SELECT id, score(price, name) FROM bid") == [(1, 2)]
    branch = bids.store.create_branch("trial")
    with Session(branch.url, bids.spark) as other:
        other.sql("INSERT INTO bid VALUES (2, 1, 9, NULL)")
        other.flush().raise_for_errors()
        assert compare(other, "v", "SELECT id, score(price, name) FROM bid") == [(1, 2), (2, 2)]
    function = load_catalog(bids.store.refresh()).catalog.get("score")
    assert function.kind == "function" and "python" in function.options


def test_a_partition_whose_row_a_function_fails_on_is_set_aside(bids: Session) -> None:
    bids.sql(
        "CREATE MATERIALIZED VIEW v WITH (partition_by = 'auction') AS "
        "SELECT auction, sum(score(price, name)) AS s FROM bid GROUP BY auction"
    )
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a'), (2, 2, 99, 'why')")
    assert "function score failed on (p => 99, n => 'why')" in bids.flush()["v"].quarantined["2"]
    bids.sql("INSERT INTO bid VALUES (3, 1, 9, NULL)")
    bids.flush()
    assert rows(bids, "SELECT * FROM v") == [(1, 4)]
    bids.sql("UPDATE bid SET price = 9 WHERE id = 2")
    bids.materialize("v", "2")
    assert rows(bids, "SELECT * FROM v ORDER BY auction") == [(1, 4), (2, 5)]


def test_why_tells_the_rows_behind_a_function(bids: Session) -> None:
    bids.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT score(price, name) AS s, count(*) AS n FROM bid GROUP BY score(price, name)"
    )
    bids.sql("INSERT INTO bid VALUES (1, 1, 8, 'a'), (2, 2, 9, NULL), (3, 2, 10, NULL)")
    bids.flush().raise_for_errors()
    assert sorted(row["id"] for row in bids.why("v", 2).sources["bid"].to_pylist()) == [1, 2]


def test_a_schema_before_a_call_says_which_function_is_meant(bids: Session) -> None:
    bids.sql("CREATE SCHEMA util")
    for name, value in (("f", "own"), ("util.f", "util")):
        bids.sql(
            f"CREATE FUNCTION {name}(a BIGINT) RETURNS STRING LANGUAGE python DETERMINISTIC AS $$def f(a): return '{value}'$$"
        )
    bids.sql(TOTAL.replace("total", "util.total"))
    query = "SELECT auction, f(max(id)) AS o, default.f(max(id)) AS d, util.F(max(id)) AS u, util.total(id) FILTER (WHERE id > 1) AS n FROM bid GROUP BY auction"
    bids.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    bids.sql("INSERT INTO bid VALUES (1, 2, 3, 'a'), (2, 2, 5, NULL)")
    bids.flush().raise_for_errors()
    assert compare(bids, "v", query) == [(2, "own", "own", "util", 2)]
    with pytest.raises(SqlError, match=r"util.f is read by v"):
        bids.sql("DROP FUNCTION util.f")
    with pytest.raises(SqlError, match=r"(?i)nowhere.f"):
        bids.sql("CREATE MATERIALIZED VIEW w AS SELECT nowhere.f(id) AS x FROM bid")


def test_a_function_in_quotes_is_called_in_quotes(tmp_path: Path, spark: SparkSession) -> None:
    with Session((tmp_path / "s").as_uri(), spark, "postgres") as session:
        for name in ('"Tag"', "tag"):
            entry = name.strip('"')
            session.sql(
                f"CREATE FUNCTION {name}(a INT) RETURNS TEXT LANGUAGE python IMMUTABLE AS $$def {entry}(a): return '{entry}'$$"
            )
        assert rows(session, 'SELECT "Tag"(1) AS x, tag(1) AS y, Tag(1) AS z') == [("Tag", "tag", "tag")]


def test_an_aggregate_gets_its_rows_in_one_order_where_its_view_is_recomputed(bids: Session) -> None:
    bids.sql(TOTAL.replace("total", "listed").replace("BIGINT LANGUAGE", "STRING LANGUAGE").replace(
        "return 0", "return ''").replace("state + (v or 0)", "state + str(v)"))  # fmt: skip
    query = (
        "SELECT auction, listed(price) AS l, listed(id) FILTER (WHERE id < 3) AS f FROM bid GROUP BY auction"
    )
    bids.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'full') AS {query}")
    bids.sql("INSERT INTO bid VALUES (4, 2, 3, 'a'), (2, 2, 5, NULL), (1, 2, 9, NULL), (3, 2, NULL, 'b')")
    bids.flush().raise_for_errors()
    assert rows(bids, "SELECT * FROM v") == [(2, "None359", "12")]
    bids.sql(
        "CREATE AGGREGATE maps(m MAP<STRING, INT>) RETURNS INT LANGUAGE python DETERMINISTIC AS $$"
        "def create_state(): return 0\ndef accumulate(s, m): return s + 1\n$$"
    )
    with pytest.raises(UnsupportedSql, match="maps, which have no order"):
        bids.sql(
            "CREATE MATERIALIZED VIEW w WITH (refresh_policy = 'full') AS SELECT maps(map(name, 1)) AS n FROM bid"
        )


@pytest.mark.parametrize("dialect", ["postgres", "risingwave"])
def test_functions_of_the_other_dialects(tmp_path: Path, spark: SparkSession, dialect: Any) -> None:
    with Session((tmp_path / "s").as_uri(), spark, dialect) as session:
        session.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, a NUMERIC(10, 2), s TEXT)")
        session.sql(
            "CREATE FUNCTION tag(a NUMERIC(10, 2), s TEXT) RETURNS TEXT LANGUAGE python IMMUTABLE AS $body$\n"
            "def tag(a, s):\n    return f'{s}:{a}'\n$body$".replace("$body$", "$$")
        )
        session.sql(MIDDLE.replace("DECIMAL", "NUMERIC"))
        queries = {
            "v": "SELECT id, tag(a, s) AS x FROM t WHERE length(tag(a, s)) > 4",
            "w": "SELECT g, middle(id, g) AS m FROM t GROUP BY g",
            "u": "SELECT middle(id, 1) AS m FROM t",
        }
        for view, query in queries.items():
            session.sql(f"CREATE MATERIALIZED VIEW {view} AS {query}")
        session.sql("INSERT INTO t VALUES (1, 1, 1.50, 'a'), (2, 1, 12.25, NULL), (3, 2, 3, 'c')")
        session.sql("DELETE FROM t WHERE id = 3")
        session.sql("FLUSH")
        assert compare(session, "v", queries["v"]) == [(1, "a:1.50"), (2, "None:12.25")]
        assert compare(session, "w", queries["w"]) == [(1, Decimal("0.50"))]
        assert compare(session, "u", queries["u"]) == [(Decimal("0.50"),)]
