"""A window of time that has no meaning is refused with its place and with what to write instead, in views and in queries."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.sql.batch.ad_hoc import build_spark_query
from engine.sql.bind.binder import bind
from engine.sql.catalog import Catalog, Relation
from engine.sql.dialect import Dialect
from engine.sql.statements.reader import CreateMaterializedView, Select, parse_statement
from tests.sql.catalog import table

COLUMNS = {"id": "bigint", "g": "bigint", "ts": "timestamp_ntz", "d": "date", "x": "bigint", "note": "string"}

# (what stands in FROM, what the message says, the text that the caret stands under, a word of the remedy)
WRONG = (
    ("TUMBLE()", "needs a relation", "TUMBLE", "TUMBLE(relation, time column"),
    ("TUMBLE(t)", "TUMBLE has 1 arguments", "TUMBLE", "TUMBLE(relation, time column"),
    ("TUMBLE(t, ts)", "TUMBLE has 2 arguments", "TUMBLE", "INTERVAL 'size'"),
    (
        "TUMBLE(t, ts, INTERVAL '1' DAY, INTERVAL '1' DAY, 3)",
        "has 5 arguments",
        "TUMBLE",
        "INTERVAL 'offset'",
    ),
    ("HOP(t, ts, INTERVAL '1' DAY)", "HOP has 3 arguments", "HOP", "INTERVAL 'slide'"),
    ("CUMULATE(t, ts, INTERVAL '1' DAY)", "CUMULATE has 3 arguments", "CUMULATE", "INTERVAL 'step'"),
    ("SESSION(t, ts)", "SESSION has 2 arguments", "SESSION", "INTERVAL 'gap'"),
    ("SESSION(t, g, ts, INTERVAL '1' DAY)", "SESSION has 4 arguments", "SESSION", "PARTITION BY"),
    ("SESSION(t PARTITION BY g + 1, ts, INTERVAL '1' DAY)", "no column", "g + 1", "subquery"),
    ("TUMBLE(3, ts, INTERVAL '1' DAY)", "needs a relation", "3", "TUMBLE(relation"),
    ("TUMBLE(none, ts, INTERVAL '1' DAY)", "there is no table or view none", "none", ""),
    ("TUMBLE(t, since, INTERVAL '1' DAY)", "t has no column since", "since", "ts, d"),
    ("TUMBLE(t, x, INTERVAL '1' DAY)", "x is bigint", "x, INTERVAL", "ts, d"),
    ("TUMBLE(t, note, INTERVAL '1' DAY)", "note is string", "note", "ts, d"),
    ("TUMBLE(t, ts + INTERVAL '1' DAY, INTERVAL '1' DAY)", "is no column", "ts + INTERVAL", "subquery"),
    ("TUMBLE(t, u.ts, INTERVAL '1' DAY)", "is no column of the relation", "u.ts", "column of t"),
    ("TUMBLE(u, ts, INTERVAL '1' DAY)", "u has no column ts", "ts", "no column of time"),
    (
        "TUMBLE(t, ts, INTERVAL '0' SECOND)",
        "the size of TUMBLE is not positive",
        "'0'",
        "10 minutes",
    ),
    ("TUMBLE(t, ts, INTERVAL '-1' DAY)", "the size of TUMBLE is not positive", "'-1'", "10 minutes"),
    ("TUMBLE(t, ts, INTERVAL '1' MONTH)", "months, which have no fixed length", "'1'", "date_trunc"),
    ("TUMBLE(t, ts, INTERVAL '1 year')", "months, which have no fixed length", "TUMBLE", "date_trunc"),
    ("TUMBLE(t, ts, 10)", "the size of TUMBLE is no interval: 10", "10", "INTERVAL '10 minutes'"),
    ("TUMBLE(t, ts, 'ten minutes')", "is no interval", "'ten minutes'", "INTERVAL '10 minutes'"),
    ("TUMBLE(t, ts, x)", "the size of TUMBLE is no interval: x", "x)", "INTERVAL '10 minutes'"),
    ("TUMBLE(t, ts, INTERVAL '1' DAY, 5)", "the offset of TUMBLE is no interval", "5", "INTERVAL"),
    (
        "HOP(t, ts, INTERVAL '0' DAY, INTERVAL '1' DAY)",
        "the slide of HOP is not positive",
        "'0'",
        "",
    ),
    (
        "HOP(t, ts, INTERVAL '1' DAY, INTERVAL '-1' DAY)",
        "the size of HOP is not positive",
        "'-1'",
        "",
    ),
    (
        "HOP(t, ts, INTERVAL '2' DAY, INTERVAL '1' DAY)",
        "slide of HOP is longer",
        "'2'",
        "slide first",
    ),
    (
        "CUMULATE(t, ts, INTERVAL '2' DAY, INTERVAL '1' DAY)",
        "step of CUMULATE is longer",
        "'2'",
        "step",
    ),
    (
        "CUMULATE(t, ts, INTERVAL '2' DAY, INTERVAL '3' DAY)",
        "no multiple of its step",
        "'3'",
        "divides",
    ),
    (
        "HOP(t, ts, INTERVAL '1' SECOND, INTERVAL '1' DAY)",
        "in 86,400 windows of HOP",
        "'1' SECOND",
        "longer slide",
    ),
    (
        "CUMULATE(t, ts, INTERVAL '1' SECOND, INTERVAL '1' DAY)",
        "in 86,400 windows",
        "'1' SECOND",
        "longer step",
    ),
    ("TUMBLE(w, ts, INTERVAL '1' DAY)", "w has a column window_end already", "w, ts", "subquery"),
    (
        "TUMBLE(t, ts, INTERVAL '1' DAY) WITH ORDINALITY",
        "WITH ORDINALITY of TUMBLE",
        "TUMBLE",
        "leave it out",
    ),
    (
        "t AS a, LATERAL HOP(t, ts, INTERVAL '1' DAY, INTERVAL '1' DAY)",
        "LATERAL before HOP",
        "",
        "leave LATERAL",
    ),
    ("SESSION(t, ts, INTERVAL '0' DAY)", "the gap of SESSION is not positive", "'0'", "10 minutes"),
    ("SESSION(t, ts, INTERVAL '1' MONTH)", "months", "'1'", "days"),
)

# (what stands after SELECT in Spark's dialect, and the same)
WRONG_CALLS = (
    (
        "id FROM t WHERE window(ts, '1 hour').start > ts",
        "window in this place",
        "window",
        "SELECT or GROUP BY",
    ),
    ("session_window(ts, '5 minutes') AS w FROM t", "outside a plain GROUP BY", "session_window", "SESSION"),
    (
        "count(*) AS n FROM t GROUP BY ROLLUP (g, session_window(ts, '5 minutes'))",
        "outside a plain GROUP BY",
        "session_window",
        "SESSION",
    ),
    ("window(ts) AS w FROM t", "window has 1 arguments", "window", "window(time"),
    (
        "window(ts, '1 hour', '1 hour', '1 hour', '1 hour') AS w FROM t",
        "has 5 arguments",
        "window",
        "window(time",
    ),
    (
        "count(*) AS n FROM t GROUP BY session_window(ts)",
        "has 1 arguments",
        "session_window",
        "session_window(",
    ),
    (
        "window(ts, '0 minutes') AS w FROM t",
        "length of a window is not positive",
        "'0 minutes'",
        "10 minutes",
    ),
    ("window(ts, '1 month') AS w FROM t", "months", "'1 month'", "date_trunc"),
    ("window(ts, 'an hour') AS w FROM t", "no interval", "'an hour'", "10 minutes"),
    ("window(ts, INTERVAL '1' HOUR) AS w FROM t", "no interval", "'1' HOUR", "10 minutes"),
    ("window(ts, x) AS w FROM t", "no interval", "x)", "10 minutes"),
    (
        "window(ts, '1 hour', '2 hours') AS w FROM t",
        "slide of a window is longer",
        "'2 hours'",
        "length first",
    ),
    ("window(ts, '1 day', '1 second') AS w FROM t", "in 86,400 windows", "'1 second'", "longer slide"),
    ("window(ts, '1 hour', '1 hour', '1 hour') AS w FROM t", "not within its slide", "'1 hour')", "shorter"),
    ("window(x, '1 hour') AS w FROM t", "a window of bigint", "x, '1", "CAST"),
    ("window(ts, '1 hour') AS w, window(d, '1 hour') AS v FROM t", "second window", "window(d", "subquery"),
    ("window AS w FROM t", "there is no column window", "window", "columns are"),
)


def catalog() -> Catalog:
    tables: list[Relation] = [table("t", COLUMNS, "id"), table("u", {"id": "bigint"}, "id")]
    tables.append(table("w", {"id": "bigint", "ts": "timestamp", "window_end": "timestamp"}, "id"))
    return Catalog({relation.name: relation for relation in tables})


def refused(sql: str, dialect: Dialect, *, once: bool = False) -> SqlError:
    """Return the error for a view's query, or for one that is answered once."""
    with pytest.raises(SqlError) as caught:
        if once:
            asked = parse_statement(sql, dialect)
            assert isinstance(asked, Select)
            build_spark_query(asked.query, catalog(), dialect, "v_", asked.sql)
        else:
            created = parse_statement(f"CREATE MATERIALIZED VIEW v AS\n{sql}", dialect)
            assert isinstance(created, CreateMaterializedView)
            bind(created.query, catalog(), dialect=dialect, sql=created.sql)
    return caught.value


def assert_told(error: SqlError, sql: str, message: str, under: str, remedy: str) -> None:
    assert message in error.message
    assert remedy in error.hint
    shown = sql[error.column - 1 :]
    assert shown.upper().startswith(under.upper()), (error.line, shown)


@pytest.mark.parametrize("dialect", ["spark", "risingwave"])
@pytest.mark.parametrize(("from_", "message", "under", "remedy"), WRONG)
def test_a_wrong_table_function_of_windows_is_refused(
    from_: str, message: str, under: str, remedy: str, dialect: Dialect
) -> None:
    sql = f"SELECT * FROM {from_}"
    assert_told(refused(sql, dialect), sql, message, under, remedy)


@pytest.mark.parametrize(("from_", "message", "under", "remedy"), WRONG)
def test_a_query_that_is_answered_once_is_refused_alike(
    from_: str, message: str, under: str, remedy: str
) -> None:
    if message.startswith("there is no table"):
        pytest.skip("names are looked for before the query is written for Spark")
    sql = f"SELECT * FROM {from_}"
    assert_told(refused(sql, "postgres", once=True), sql, message, under, remedy)


@pytest.mark.parametrize(("query", "message", "under", "remedy"), WRONG_CALLS)
def test_a_wrong_window_of_sparks_functions_is_refused(
    query: str, message: str, under: str, remedy: str
) -> None:
    sql = f"SELECT {query}"
    assert_told(refused(sql, "spark"), sql, message, under, remedy)


def test_windows_stand_inside_each_other() -> None:
    inner = "SELECT id, window_start AS first, ts FROM HOP(t, ts, INTERVAL '1' HOUR, INTERVAL '2' HOUR)"
    query = f"SELECT id, first, window_start FROM TUMBLE(({inner}), first, INTERVAL '1' DAY)"
    created = parse_statement(f"CREATE MATERIALIZED VIEW v AS {query}", "risingwave")
    assert isinstance(created, CreateMaterializedView)
    bound = bind(created.query, catalog(), dialect="risingwave", sql=created.sql)
    assert [name for name, _ in bound.columns] == ["id", "first", "window_start"]
