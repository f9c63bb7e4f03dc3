"""jsonb as a type of its own: kept in its normal form, compared by value, nested as JSON, in views as in what is asked once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import TidelineError
from engine.session import Session

DOCUMENT = '{"s":"1", "n":1.50, "a":{"b":[1,{"c":"x"}]}, "t":true, "z":null}'


@pytest.fixture
def papers(tmp_path: Path, spark: SparkSession) -> Iterator[Session]:
    with Session((tmp_path / "s").as_uri(), spark, "postgres") as session:
        session.sql("CREATE TABLE t (id INT PRIMARY KEY, g INT, j JSONB, k JSON, s TEXT, a INT[])")
        yield session


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    found = session.sql(query)
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


def both(session: Session, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, which are the same in a view that was there before the last rows came."""
    asked = sorted(rows(session, query), key=repr)
    session.sql("FLUSH")
    assert sorted(rows(session, "SELECT * FROM v"), key=repr) == asked
    return asked


def test_a_value_is_stored_in_its_normal_form_and_json_as_it_was_written(papers: Session) -> None:
    papers.sql("""INSERT INTO t (id, j, k) VALUES (1, '{"bb":1,"a":[1.50,1e2]}', '{"bb":1,  "a":2}')""")
    papers.sql("INSERT INTO t (id, j) SELECT 2, '[1,2]'")
    papers.write("t", pa.table({"id": pa.array([3], pa.int32()), "j": ['{"b":1,"a":2}']}), mode="upsert")
    papers.sql('UPDATE t SET j = \'{"y":1,"x":2}\' WHERE id = 2')
    assert rows(papers, "SELECT id, j, k FROM t ORDER BY id") == [
        (1, '{"a": [1.50, 100], "bb": 1}', '{"bb":1,  "a":2}'),
        (2, '{"x": 2, "y": 1}', None),
        (3, '{"a": 2, "b": 1}', None),
    ]


def test_what_is_no_json_is_refused_at_each_door(papers: Session) -> None:
    for statement in (
        "INSERT INTO t (id, j) VALUES (1, '{a}')",
        "INSERT INTO t (id, k) VALUES (1, '{')",
        "INSERT INTO t (id, j) SELECT 1, '[1,'",
        "SELECT s::jsonb FROM (VALUES ('{')) v(s)",
        "CREATE TABLE u (id INT PRIMARY KEY, j JSONB DEFAULT 'x')",
    ):
        with pytest.raises(TidelineError, match="is no JSON"):
            papers.sql(statement)
    with pytest.raises(TidelineError, match="is no JSON"):
        papers.write("t", pa.table({"id": pa.array([3], pa.int32()), "j": ["nope"]}), mode="upsert")


def test_the_catalog_tells_the_type_of_tables_and_views(papers: Session) -> None:
    papers.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT id, j, j -> 'a' AS p, jsonb_build_object('x', id) AS o, j ->> 'a' AS x FROM t"
    )
    papers.sql("CREATE MATERIALIZED VIEW w WITH (refresh_policy = 'full') AS SELECT id, j -> 'a' AS p FROM t")
    papers.sql("CREATE TABLE u AS SELECT id, j, j ->> 'a' AS x FROM t")
    query = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{}' AND data_type = 'jsonb'"
    assert [name for name, _ in rows(papers, query.format("t"))] == ["j"]
    assert [name for name, _ in rows(papers, query.format("v"))] == ["j", "p", "o"]
    assert [name for name, _ in rows(papers, query.format("w"))] == ["p"]
    assert [name for name, _ in rows(papers, query.format("u"))] == ["j"]


@pytest.mark.long
def test_operators_give_what_they_give_in_postgres(papers: Session) -> None:
    asked = {
        "j -> 's'": '"1"',
        "j ->> 's'": "1",
        "j -> 'n'": "1.50",
        "j ->> 'n'": "1.50",
        "j -> 'a' -> 'b' -> 1": '{"c": "x"}',
        "j -> 'a' ->> 'b'": '[1, {"c": "x"}]',
        "j -> 'a' -> 'b' ->> -1": '{"c": "x"}',
        "j #> '{a,b,1,c}'": '"x"',
        "j #>> ARRAY['a', 'b', '1', 'c']": "x",
        "j -> 'z'": "null",
        "j ->> 'z'": None,
        "j -> s": "null",
        "j ? 'z'": True,
        "j ?| ARRAY['q', 'z']": True,
        "j ?& ARRAY['q', 'z']": False,
        'j @> \'{"n": 1.5, "a": {"b": [1]}}\'': True,
        '\'{"s": "1"}\' <@ j': True,
        "(j || '{\"s\":[]}') -> 's'": "[]",
        "j - 'a' - 's' - 'n'": '{"t": true, "z": null}',
        "j - ARRAY['a', 's', 'n', 't']": '{"z": null}',
        "(j #- '{a,b,0}') -> 'a'": '{"b": [{"c": "x"}]}',
        "(j -> 'n')::int": 2,
        "(j -> 'n')::numeric(5,1)::text": "1.5",
        "(j -> 't')::boolean": True,
        "j::text = (j::text)::jsonb::text": True,
        "j = (j || '{}')": True,
        'j -> \'a\' = \'{"b":[1,{"c":"x"}]}\'': True,
        "coalesce(j -> 'q', '{\"y\":1,  \"x\":2}')": '{"x": 2, "y": 1}',
        "jsonb_typeof(j -> 'a')": "object",
        "jsonb_array_length(j #> '{a,b}')": 2,
        "jsonb_extract_path_text(j, 'a', 'b', '0')": "1",
        "jsonb_set(j -> 'a', '{b,0}', '\"q\"')": '{"b": ["q", {"c": "x"}]}',
        "jsonb_strip_nulls(j - 'a')": '{"n": 1.50, "s": "1", "t": true}',
        "jsonb_build_object('j', j -> 'n', 's', s, 'a', a, 'k', k, 'n', NULL)": (
            '{"a": [1, null], "j": 1.50, "k": {"p": 1}, "n": null, "s": "z"}'
        ),
        "jsonb_build_array(id, j -> 's', 'x', NULL)": '[1, "1", "x", null]',
        "json_build_object('j', j -> 'n', 's', s)": '{"j" : 1.50, "s" : "z"}',
        "to_jsonb(a)": "[1, null]",
        "to_jsonb(j -> 'n')": "1.50",
        "to_jsonb(s)": '"z"',
        "row_to_json(row(id, s))": '{"f1":1,"f2":"z"}',
        "k -> 'p'": "1",
        "k::jsonb": '{"p": 1}',
    }
    query = "SELECT id, " + ", ".join(f"{text} AS c{n}" for n, text in enumerate(asked)) + " FROM t"
    papers.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    papers.sql("INSERT INTO t VALUES (1, 1, ?, '{\"p\":1}', 'z', ARRAY[1, NULL])", [DOCUMENT])
    ((_, *found),) = both(papers, query)
    assert dict(zip(asked, found, strict=True)) == asked


def test_groups_joins_and_distinct_compare_values(papers: Session) -> None:
    query = "SELECT j, count(*) AS n, count(DISTINCT k -> 'p') AS p FROM t GROUP BY j"
    papers.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    papers.sql(
        """INSERT INTO t (id, j) VALUES (1, '{"b":1,"a":2}'), (2, '{"a":2,"b":1}'), (3, '{"a":2,"a":3}')"""
    )
    papers.sql("""INSERT INTO t (id, j) VALUES (4, '{"a": 3}'), (5, NULL)""")
    assert both(papers, query) == [('{"a": 2, "b": 1}', 2, 0), ('{"a": 3}', 2, 0), (None, 1, 0)]
    pairs = "SELECT x.id, y.id AS other FROM t x JOIN t y ON x.j = y.j AND x.id < y.id"
    assert sorted(rows(papers, pairs)) == [(1, 2), (3, 4)]
    assert rows(papers, 'SELECT id FROM t WHERE j = \'{"b":1, "a":2}\' ORDER BY id') == [(1,), (2,)]


def test_aggregates_nest_documents_and_quote_texts(papers: Session) -> None:
    query = (
        "SELECT g, jsonb_agg(j ORDER BY id) AS j, jsonb_agg(s ORDER BY id DESC) AS s, jsonb_object_agg(s, j) AS o, "
        "json_agg(id ORDER BY id) AS n, json_object_agg(s, k ORDER BY id) AS p, "
        "jsonb_agg(j -> 'x') FILTER (WHERE id > 1) AS f FROM t GROUP BY g"
    )
    papers.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    papers.sql(
        """INSERT INTO t VALUES (1, 1, '{"x":"q"}', '{"y" :1}', 'a'), (2, 1, NULL, '[]', 'b'), (3, 2, '[1]', NULL, 'c')"""
    )
    first = ('[{"x": "q"}, null]', '["b", "a"]', '{"a": {"x": "q"}, "b": null}')
    assert both(papers, query) == [
        (1, *first, "[1, 2]", '{ "a" : {"y" :1}, "b" : [] }', "[null]"),
        (2, "[[1]]", '["c"]', '{"c": [1]}', "[3]", '{ "c" : null }', "[null]"),
    ]
    papers.sql("DELETE FROM t WHERE id = 2")
    papers.sql("UPDATE t SET j = j || '{\"w\":2}' WHERE id = 1")
    assert both(papers, query)[0][1] == '[{"w": 2, "x": "q"}]'


def test_documents_give_rows(papers: Session) -> None:
    queries = {
        "SELECT id, jsonb_array_elements(j -> 'l') AS e FROM t": [(1, '{"p": 1}'), (1, "2")],
        "SELECT id, e -> 'p' AS e FROM t, jsonb_array_elements(j -> 'l') AS e": [(1, "1"), (1, None)],
        "SELECT id, to_jsonb(e) AS e FROM t, jsonb_array_elements(j -> 'l') AS e": [
            (1, '{"p": 1}'),
            (1, "2"),
        ],
        "SELECT id, jsonb_array_elements_text(j -> 'l') AS e FROM t": [(1, '{"p": 1}'), (1, "2")],
        "SELECT id, jsonb_object_keys(j) AS e FROM t": [(1, "l"), (1, "o")],
        "SELECT e.key, e.value FROM t, jsonb_each(j) AS e": [("l", '[{"p": 1}, 2]'), ("o", '"w"')],
        "SELECT x, y FROM t, jsonb_each_text(j) AS e(x, y)": [("l", '[{"p": 1}, 2]'), ("o", "w")],
        "SELECT jsonb_agg(v) AS w FROM t, jsonb_each(j) AS e(x, v) WHERE x = 'o'": [('["w"]',)],
    }
    for n, query in enumerate(queries):
        papers.sql(f"CREATE MATERIALIZED VIEW v{n} AS {query}")
    papers.sql("""INSERT INTO t (id, j) VALUES (1, '{"o":"w", "l":[{"p":1},2]}')""")
    papers.sql("FLUSH")
    for n, (query, expected) in enumerate(queries.items()):
        assert sorted(rows(papers, query), key=repr) == sorted(expected, key=repr), query
        assert sorted(rows(papers, f"SELECT * FROM v{n}"), key=repr) == sorted(expected, key=repr), query


def test_a_row_on_which_a_cast_fails_is_told_or_null_as_the_view_says(papers: Session) -> None:
    papers.sql(
        "CREATE MATERIALIZED VIEW v WITH (on_row_error = 'null') AS SELECT id, s::jsonb AS j, (j -> 'x')::int AS x FROM t"
    )
    papers.sql("""INSERT INTO t (id, s, j) VALUES (1, '[1,2]', '{"x": 7}'), (2, '{', '{"x": "7"}')""")
    papers.sql("FLUSH")
    assert rows(papers, "SELECT id, j, x FROM v ORDER BY id") == [(1, "[1, 2]", 7), (2, None, None)]
    with pytest.raises(TidelineError, match="a jsonb string is no number"):
        papers.sql("SELECT (j -> 'x')::int FROM t")


def test_a_default_and_an_added_column_are_in_normal_form(papers: Session) -> None:
    papers.sql(
        "CREATE TABLE u (id INT PRIMARY KEY, j JSONB DEFAULT '{\"b\":1,\"a\":2}', o JSONB DEFAULT jsonb_build_object('x', 1))"
    )
    papers.sql("INSERT INTO u (id) VALUES (1)")
    papers.sql("ALTER TABLE u ADD COLUMN l JSONB DEFAULT '[1,2]'")
    assert rows(papers, "SELECT * FROM u") == [(1, '{"a": 2, "b": 1}', '{"x": 1}', "[1, 2]")]


def test_a_document_is_a_key_also_of_rows_that_tasks_write(
    papers: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers.sql("CREATE TABLE d (j JSONB PRIMARY KEY, n INT)")
    texts = [f'{{"b":{n},"a":2}}' for n in range(20)]
    papers.write("t", pa.table({"id": pa.array(range(20), pa.int32()), "s": texts}), mode="upsert")
    monkeypatch.setenv("TIDELINE_DRIVER_ROWS_MB", "0")
    monkeypatch.setattr("engine.runtime.writes.key_order.count_partitions", lambda rows, cores: 3)
    papers.sql("INSERT INTO d SELECT s, id FROM t")
    assert rows(papers, 'SELECT n FROM d WHERE j = \'{"a":2,"b":7}\'') == [(7,)]
    with pytest.raises(TidelineError, match=r'\{"a": 2, "b": 3\}'):
        papers.sql('INSERT INTO d SELECT \'{"a":2,   "b":3}\', 1 FROM t WHERE id = 1')
