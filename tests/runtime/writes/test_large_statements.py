"""Statements over many rows: Spark's tasks write them, and they do what they do with few."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from engine.errors import InvalidRow, TidelineError
from engine.hummock import Hummock, Put
from engine.runtime.writes import dml_run, key_order
from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.runtime.writes.test_dml import rows

SETTING = "TIDELINE_DRIVER_ROWS_MB"
ROWS = 3_000


class Passed:
    """The rows that came from Spark into this process, by the call that brought them."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.bytes: list[int] = []


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> Passed:
    """Count the rows that pass from Spark through this process."""
    seen, whole = Passed(), DataFrame.toArrow

    def counted(frame: DataFrame) -> pa.Table:
        found = whole(frame)
        seen.rows.append(found.num_rows)
        seen.bytes.append(found.nbytes)
        return found

    monkeypatch.setattr(DataFrame, "toArrow", counted)
    return seen


@pytest.fixture
def several_tasks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Tables are read, and rows written, by several tasks, however few rows there are; packed, unless a test says otherwise."""
    way = getattr(request, "param", "packed")
    monkeypatch.setattr(key_order, "PACKED_FROM", 0 if way == "packed" else 1 << 60)
    monkeypatch.setattr(key_order, "RANGE_ROWS", 500)
    monkeypatch.setattr("engine.runtime.reads.spark_read.count_partitions", lambda rows, cores: 2)
    monkeypatch.setattr("engine.runtime.writes.spill.count_partitions", lambda rows, cores: 2)
    monkeypatch.setattr("engine.runtime.writes.key_order.count_partitions", lambda rows, cores: 3)


@pytest.fixture
def all_by_tasks(monkeypatch: pytest.MonkeyPatch, several_tasks: None) -> None:
    """No row of a statement may be held by the driver."""
    monkeypatch.setenv(SETTING, "0")


@pytest.fixture
def sale(session: Session) -> Session:
    session.sql("CREATE TABLE sale (id BIGINT PRIMARY KEY, shop BIGINT, price BIGINT, name STRING)")
    ids = pa.array(range(ROWS))
    names = pa.array([f"n{n}" for n in range(ROWS)])
    session.write("sale", pa.table({"id": ids, "shop": ids, "price": ids, "name": names}))
    return session


STATEMENTS = {
    "UPDATE": ("UPDATE sale SET price = price + 1", "SELECT sum(price) - sum(id) FROM sale", ROWS),
    "UPDATE of some": ("UPDATE sale SET price = -1 WHERE id % 2 = 0", "SELECT count(*) FROM sale WHERE price = -1", ROWS // 2),
    "UPDATE FROM": (
        "UPDATE sale SET name = o.name || '!' FROM sale o WHERE o.id = sale.id",
        "SELECT count(*) FROM sale WHERE name = 'n' || id || '!'",
        ROWS,
    ),
    "UPDATE with a subquery": (
        "UPDATE sale SET price = (SELECT max(id) FROM sale) WHERE id IN (SELECT shop FROM sale)",
        f"SELECT count(*) FROM sale WHERE price = {ROWS - 1}",
        ROWS,
    ),
    "DELETE": ("DELETE FROM sale WHERE id >= 10", "SELECT count(*) FROM sale", 10),
    "DELETE USING": ("DELETE FROM sale USING sale o WHERE o.shop = sale.id", "SELECT count(*) FROM sale", 0),
    "INSERT … SELECT": (
        f"INSERT INTO sale SELECT id + {ROWS}, shop, price, name FROM sale",
        "SELECT count(DISTINCT id) FROM sale",
        2 * ROWS,
    ),
    "CREATE TABLE AS": (
        "CREATE TABLE made (PRIMARY KEY (id)) AS SELECT id, name FROM sale",
        "SELECT count(DISTINCT id) FROM made",
        ROWS,
    ),
    "CREATE TABLE AS without a key": ("CREATE TABLE made AS SELECT name FROM sale", "SELECT count(*) FROM made", ROWS),
}  # fmt: skip


@pytest.mark.parametrize("verb", mark_rest_long(STATEMENTS, keep=5))
def test_a_large_statement_passes_no_rows_through_the_driver(
    sale: Session, passed: Passed, all_by_tasks: None, verb: str
) -> None:
    statement, check, expected = STATEMENTS[verb]
    sale.sql(statement)
    assert passed.rows and max(passed.rows) <= 4 and max(passed.bytes) < 20_000  # answers of tasks, not rows
    assert rows(sale, check) == [(expected,)]


def test_a_small_answer_of_a_large_table_is_held_within_the_setting(
    sale: Session, passed: Passed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "0.02")
    sale.sql("UPDATE sale SET price = 7 WHERE id = 3")
    sale.sql(f"INSERT INTO sale SELECT id + {ROWS}, shop, price, name FROM sale WHERE id < 5")
    assert max(passed.bytes) < 20_000
    assert rows(sale, "SELECT count(*), max(price) FILTER (WHERE id = 3) FROM sale") == [(ROWS + 5, 7)]
    changed = sale.store.version.tables["sale"].log[-2:]
    assert [entry.rows for entry in changed] == [1, 5] and [len(entry.ssts) for entry in changed] == [1, 1]


SETUP = (
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT NOT NULL, s STRING DEFAULT upper('x'), twice BIGINT GENERATED ALWAYS AS (n * 2))",
    "INSERT INTO t (id, n) VALUES (1, 10), (2, 20), (3, 30)",
    "CREATE TABLE news (id BIGINT PRIMARY KEY, n INT, s STRING)",
    "INSERT INTO news VALUES (2, 21, 'b'), (3, 31, NULL), (4, 41, 'd'), (5, 51, 'e')",
    "CREATE TABLE bag AS SELECT id, n FROM news WHERE id > 99",
    "CREATE TABLE code (c VARCHAR(2) PRIMARY KEY, f CHAR(3))",
    "CREATE TABLE lax (id BIGINT PRIMARY KEY, n INT, s STRING) ON CONFLICT DO UPDATE IF NOT NULL",
    "INSERT INTO lax VALUES (2, 1, 'old'), (3, 1, 'old')",
    "CREATE TABLE newest (id BIGINT PRIMARY KEY, n INT, s STRING) ON CONFLICT OVERWRITE",
    "CREATE TABLE log (id BIGINT PRIMARY KEY, n INT, s STRING) APPEND ONLY",
)
PROGRAMS = {
    "known keys": ["INSERT INTO t (id, n) SELECT id, n FROM news"],
    "a key twice": ["INSERT INTO t (id, n) SELECT 9, n FROM news"],
    "no key": ["INSERT INTO t (id, n) SELECT nullif(id, 4), n FROM news WHERE id > 3"],
    "no value": ["INSERT INTO t (id, n) SELECT id + 10, nullif(n, 41) FROM news"],
    "left out": ["INSERT INTO t (id) SELECT id + 10 FROM news"],
    "a generated column": ["INSERT INTO t (id, n, twice) SELECT id + 10, n, 1 FROM news"],
    "defaults": ["INSERT INTO t (id, n) SELECT id + 10, n FROM news", "UPDATE t SET s = DEFAULT, n = n + 1"],
    "do nothing": ["INSERT INTO t (id, n) SELECT id, n FROM news ON CONFLICT DO NOTHING"],
    "do nothing twice": ["INSERT INTO t (id, n, s) SELECT id, n, 'k' FROM news UNION ALL SELECT id, n, 'k' FROM news ON CONFLICT DO NOTHING"],
    "do update": ["INSERT INTO t (id, n, s) SELECT id, n, s FROM news ON CONFLICT (id) DO UPDATE SET n = n + excluded.n, s = DEFAULT WHERE excluded.s IS NULL"],
    "do update twice": ["INSERT INTO t (id, n) SELECT 9, n FROM news ON CONFLICT (id) DO UPDATE SET n = 1"],
    "do update that fails": ["INSERT INTO t (id, n) SELECT id, n FROM news ON CONFLICT (id) DO UPDATE SET n = 1 DIV (excluded.n - 31)"],
    "overwrite": ["INSERT INTO newest SELECT 1, n, s FROM news ORDER BY n", "INSERT INTO newest SELECT 1, n, s FROM news ORDER BY n DESC"],
    "not null": ["INSERT INTO lax SELECT id, nullif(n, 21), s FROM news"],
    "append only": ["INSERT INTO log SELECT * FROM news", "UPDATE log SET n = 1", "INSERT INTO log SELECT * FROM news"],
    "a bag": ["INSERT INTO bag SELECT id, n FROM news", "INSERT INTO bag SELECT id, n FROM bag", "UPDATE bag SET n = n + 1 WHERE id > 3", "DELETE FROM bag WHERE id = 2"],
    "update from": ["UPDATE t SET n = news.n, s = news.s FROM news WHERE news.id = t.id"],
    "update from twice": ["UPDATE t SET n = news.n FROM news WHERE t.id = 1"],
    "update to nothing": ["UPDATE t SET n = NULL WHERE id > 1"],
    "update that fails": ["UPDATE t SET n = 1 DIV (id - 2)"],
    "update of an order": ["UPDATE t SET n = r.r FROM (SELECT id, row_number() OVER (ORDER BY n DESC) AS r FROM t) r WHERE r.id = t.id"],
    "delete using": ["DELETE FROM t USING news a, news b WHERE a.id = t.id"],
    "returning": ["UPDATE t SET n = n + 1 WHERE id > 1 RETURNING id, n", "DELETE FROM t RETURNING *", "INSERT INTO t (id, n) SELECT id, n FROM news RETURNING twice"],
    "texts": ["INSERT INTO code SELECT concat('x', id, '  '), concat(s, '  ') FROM news", "INSERT INTO code SELECT concat('xyz', id), s FROM news"],
    "texts that become one": ["INSERT INTO code SELECT concat('x ', repeat(' ', CAST(id AS INT))), 'a' FROM news"],
    "a code that is too long": ["INSERT INTO code SELECT concat('x', id), 'abcde' FROM news"],
    "nothing": ["UPDATE t SET n = 1 WHERE id > 99", "DELETE FROM t WHERE id > 99", "INSERT INTO t (id, n) SELECT id, n FROM news WHERE id > 99"],
    "as": ["CREATE TABLE made (PRIMARY KEY (id)) AS SELECT id, n, s FROM news"],
    "as nothing": ["CREATE TABLE made AS SELECT * FROM news WHERE id > 99"],
    "as with a key twice": ["CREATE TABLE made (PRIMARY KEY (k)) AS SELECT 1 AS k, n FROM news"],
    "as without a key's value": ["CREATE TABLE made (PRIMARY KEY (s)) AS SELECT s, n FROM news"],
}  # fmt: skip


def outcome(session: Session, programs: dict[str, list[str]]) -> dict[str, Any]:
    """Return what each program leaves behind and what its statements said, each over tables that are made anew."""
    found: dict[str, Any] = {}
    for name, program in programs.items():
        for text in SETUP:
            session.sql(text)
        said: list[object] = []
        for statement in program:
            try:
                answer = session.sql(statement)
                said.append(None if answer is None else sorted(map(repr, answer.to_pylist())))
            except TidelineError as error:
                said.append((type(error).__name__, str(error)))
        tables = sorted(r.name for r in session.catalog.relations.values() if r.kind == "table")
        content = {table: sorted(map(repr, rows(session, f"SELECT * FROM {table}"))) for table in tables}
        found[name] = said, content
        for table in tables:
            session.sql(f"DROP TABLE {table}")
    return found


@pytest.mark.parametrize("part", range(4))
@pytest.mark.long
def test_a_statement_does_the_same_whoever_writes_its_rows(
    session: Session, several_tasks: None, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    programs = dict(list(PROGRAMS.items())[part::4])
    by_driver = outcome(session, programs)
    monkeypatch.setenv(SETTING, "0")
    by_tasks = outcome(session, programs)
    for name in programs:
        assert by_tasks[name] == by_driver[name], name


KINDS = (
    "CAST(id AS TINYINT)", "CAST(id AS DECIMAL(30, 4))", "CAST(id AS DOUBLE) / 3", "CAST(id AS STRING)", "id % 2 = 0",
    "DATE '2026-01-01' + CAST(id AS INT)", "TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id)",
    "CAST(TIMESTAMP '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id) AS TIMESTAMP_NTZ)", "make_dt_interval(id)",
    "make_time(CAST(id AS INT) % 24, 0, 0)", "CAST(CAST(id AS STRING) AS BINARY)",
)  # fmt: skip


@pytest.mark.long
def test_keys_and_values_of_every_type_are_written_by_tasks(session: Session, all_by_tasks: None) -> None:
    session.sql("CREATE TABLE n (id BIGINT PRIMARY KEY)")
    session.sql("INSERT INTO n VALUES (0), (1), (2), (3), (4), (5), (6), (7)")
    items = ", ".join(f"{kind} AS c{n}" for n, kind in enumerate(KINDS))
    nested = "array(id) AS a, named_struct('x', id, 'y', array(id)) AS s, map('k', id) AS m"
    key = ", ".join(f"c{n}" for n in range(len(KINDS)))
    query = f"SELECT {items}, {nested}, id FROM n"
    session.sql(f"CREATE TABLE made (PRIMARY KEY ({key})) AS {query}")
    session.sql("CREATE TABLE bag AS " + query)
    session.sql("UPDATE made SET a = array_append(a, 7), id = id + 1")
    shown = session.sql(f"SELECT {key}, s, m, a, id - 1 AS id FROM made ORDER BY id")
    bag = session.sql(f"SELECT {key}, s, m, array_append(a, 7) AS a, id FROM bag ORDER BY id")
    assert shown is not None and bag is not None and shown.num_rows == 8
    assert shown.to_pylist() == bag.to_pylist()
    session.sql("DELETE FROM made USING n WHERE n.id + 1 = made.id")
    assert rows(session, "SELECT count(*) FROM made") == [(0,)]


def model(seed: int, session: Session, steps: int) -> None:
    """Run random statements and compare the table with a dictionary after each."""
    chance = random.Random(seed)
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
    session.sql("CREATE TABLE given (place BIGINT PRIMARY KEY, id BIGINT, n BIGINT)")
    known: dict[int, int] = {}
    for step in range(steps):
        given = [(p, chance.randrange(60), chance.randrange(1_000)) for p in range(chance.choice([0, 5, 40]))]
        distinct = chance.random() < 0.7
        if distinct:
            given = list({key: (place, key, n) for place, key, n in given}.values())
        session.sql("DELETE FROM given")
        columns = list(zip(*given, strict=True)) or [(), (), ()]
        session.write(
            "given",
            pa.table(
                dict(zip(("place", "id", "n"), (pa.array(c, pa.int64()) for c in columns), strict=True))
            ),
        )
        new = {key: n for _, key, n in reversed(given)}
        twice = len(new) != len(given)
        verb = chance.choice(["insert", "nothing", "merge", "update", "from", "delete", "using"])
        low = chance.randrange(60)
        source = "SELECT id, n FROM given ORDER BY place"
        statement, after, fails = {
            "insert": (f"INSERT INTO t {source}", {**known, **new}, twice or bool(new.keys() & known.keys())),
            "nothing": (f"INSERT INTO t {source} ON CONFLICT DO NOTHING", {**new, **known}, False),
            "merge": (
                f"INSERT INTO t {source} ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n",
                {**known, **{k: n + known.get(k, 0) for k, n in new.items()}},
                twice,
            ),
            "update": (f"UPDATE t SET n = n + id WHERE id >= {low}", {k: n + k if k >= low else n for k, n in known.items()}, False),
            "from": (
                "UPDATE t SET n = given.n FROM given WHERE given.id = t.id",
                {k: new.get(k, n) for k, n in known.items()},
                any(k in known and [key for _, key, _ in given].count(k) > 1 for k in new),
            ),
            "delete": (f"DELETE FROM t WHERE id % 60 < {low // 4}", {k: n for k, n in known.items() if k >= low // 4}, False),
            "using": ("DELETE FROM t USING given WHERE given.id = t.id AND t.n > 500", {k: n for k, n in known.items() if k not in new or n <= 500}, False),
        }[verb]  # fmt: skip
        if fails:
            with pytest.raises(TidelineError):
                session.sql(statement)
        else:
            session.sql(statement)
            known = after
        assert dict(rows(session, "SELECT id, n FROM t")) == known, (seed, step, statement)


@pytest.mark.parametrize(
    ("seed", "setting", "several_tasks"),
    mark_rest_long([(2, "0.001", "packed"), (3, "0", "one by one"), (1, "0", "packed")]),
    indirect=["several_tasks"],
)
def test_random_statements_agree_with_a_dictionary(
    session: Session, several_tasks: None, monkeypatch: pytest.MonkeyPatch, seed: int, setting: str
) -> None:
    monkeypatch.setenv(SETTING, setting)
    model(seed, session, 12)


@pytest.mark.oracle
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("several_tasks", ["packed", "one by one"], indirect=True)
def test_many_random_statements_agree_with_a_dictionary(
    session: Session, several_tasks: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setenv(SETTING, ("0", "0.0003", "0.001", "64")[seed % 4])
    model(seed, session, 40)


@pytest.mark.parametrize("verb", ["UPDATE", "DELETE", "INSERT … SELECT", "CREATE TABLE AS"])
def test_a_large_statement_that_ends_before_its_commit_leaves_nothing_visible(
    sale: Session, all_by_tasks: None, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    statement, check, expected = STATEMENTS[verb]
    before, version = rows(sale, "SELECT count(*), sum(price) FROM sale"), sale.store.version.number

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Hummock, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            sale.sql(statement)
    assert sale.store.refresh().number == version and "made" not in sale.catalog.relations
    assert rows(sale, "SELECT count(*), sum(price) FROM sale") == before
    sale.sql(statement)
    assert rows(sale, check) == [(expected,)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE sale SET price = price + 1", 100 + 1),
        (f"INSERT INTO sale SELECT id + {ROWS}, shop, price, name FROM sale", 100),
        (f"INSERT INTO sale SELECT id + {ROWS - 1}, shop, 1, name FROM sale ON CONFLICT (id) DO UPDATE SET price = sale.price + excluded.price", 101),
    ],
)  # fmt: skip
def test_a_large_statement_is_tried_again_if_its_table_changes_meanwhile(
    sale: Session, all_by_tasks: None, monkeypatch: pytest.MonkeyPatch, statement: str, expected: int
) -> None:
    last, tried, write = ROWS - 1, list[int](), dml_run.write_frame

    def beside(*given: Any) -> Any:
        found = write(*given)
        tried.append(len(tried))
        if len(tried) == 1:
            row = {"id": [last], "shop": [0], "price": [100], "name": ["other"]}
            sale.store.ingest_batch({"sale": [_put(row)]})
        return found

    monkeypatch.setattr(dml_run, "write_frame", beside)
    sale.sql(statement)
    assert len(tried) >= 2
    assert rows(sale, f"SELECT name, price FROM sale WHERE id = {last}") == [("other", expected)]


def _put(row: dict[str, list[Any]]) -> Any:
    return Put(pa.table(row))


def test_an_expression_that_fails_in_a_task_is_told_as_a_row_that_is_wrong(
    sale: Session, all_by_tasks: None
) -> None:
    with pytest.raises(InvalidRow, match="by zero"):
        sale.sql("UPDATE sale SET price = 1 DIV (id - 5)")
    with pytest.raises(InvalidRow, match="by zero"):
        sale.sql(f"INSERT INTO sale SELECT id + {ROWS}, 1 DIV (id - 5), 1, name FROM sale")


def test_rows_with_a_time_to_live_are_written_by_tasks(
    tmp_path: Path, spark: SparkSession, all_by_tasks: None
) -> None:
    with Session((tmp_path / "s").as_uri(), spark) as session:
        session.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, n BIGINT)")
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)")
        session.store.alter_table("t", ttl_seconds=3600.0)
        session.sql("INSERT INTO a VALUES (1, 1), (2, 2)")
        session.sql("INSERT INTO t SELECT * FROM a")
        session.sql("INSERT INTO t SELECT id + 1, n FROM a ON CONFLICT DO NOTHING")
        session.sql("UPDATE t SET n = n + 1")
        assert rows(session, "SELECT * FROM t ORDER BY id") == [(1, 2), (2, 3), (3, 3)]


@pytest.mark.parametrize("several_tasks", ["packed", "one by one"], indirect=True)
def test_columns_whose_names_spark_would_take_for_expressions_are_written(
    sale: Session, all_by_tasks: None
) -> None:
    columns = "`a` STRING, `a.b` STRING, `x``y` STRING"
    sale.sql(f"CREATE TABLE odd (id BIGINT PRIMARY KEY, {columns})")
    sale.sql("INSERT INTO odd SELECT id, name, name || '.', name || '`' FROM sale")
    sale.sql("UPDATE odd SET `a.b` = `x``y` || `a` WHERE id < 2")
    assert rows(sale, "SELECT * FROM odd WHERE id IN (1, 2) ORDER BY id") == [
        (1, "n1", "n1`n1", "n1`"),
        (2, "n2", "n2.", "n2`"),
    ]
    assert rows(sale, "SELECT count(*), count(DISTINCT `a.b`) FROM odd") == [(ROWS, ROWS)]
