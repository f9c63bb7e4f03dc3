"""What a delivery does to the table there, and to the line of its sink: once, whatever fails, is repeated or comes late."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from engine.connectors.postgres.sink.server import CommitUnknown, TargetServer
from engine.hummock import Commit, Hummock
from engine.session import Session
from tests.connectors.postgres.server import PASSWORD, Database
from tests.connectors.postgres.sink.targets import AUDIT, place, write
from tests.connectors.sinks.deliveries import deliver, find_error, put

pytestmark = pytest.mark.postgres
ROWS = "SELECT id, v FROM t ORDER BY id"


def make(session: Session, database: Database, **options: str) -> None:
    """Make the sink s, and deliver its first rows."""
    session.sql(write(**place(database, **options)), build=False)
    deliver(session)


def test_a_table_is_made_with_its_key_and_follows(source: Session, database: Database) -> None:
    make(source, database)
    assert database.ask(ROWS) == [(1, "a"), (2, "b"), (3, "c")]
    assert database.ask("SELECT indisprimary FROM pg_index WHERE indrelid = 't'::regclass") == [(True,)]
    put(source, {1: "x", 2: None, 4: "d"})
    put(source, {1: "y", 5: "gone"})
    put(source, {5: None})
    deliver(source)
    assert database.ask(ROWS) == [(1, "y"), (3, "c"), (4, "d")]
    ((target, start, epoch),) = database.ask("SELECT target, start, epoch FROM tideline_sinks")
    assert target == "public.t" and 0 < start < epoch
    (row,) = source.sql("SHOW SINKS").to_pylist()
    assert row["to"].endswith(f"/{database.name}/public.t") and PASSWORD not in str(row)
    source.sql("DROP SINK s")
    assert database.ask("SELECT count(*) FROM tideline_sinks") == [(0,)]
    assert len(database.ask(ROWS)) == 3


def test_each_change_is_applied_once_beside_rows_of_others(source: Session, database: Database) -> None:
    database.run(*AUDIT, "INSERT INTO t VALUES (1, 'theirs'), (9, 'theirs')", "TRUNCATE audit")
    make(source, database)
    assert database.ask(ROWS) == [(1, "a"), (2, "b"), (3, "c"), (9, "theirs")]
    put(source, {2: "z", 3: None, 4: "d"})
    deliver(source)
    deliver(source)
    assert database.ask("SELECT what, id, v FROM audit ORDER BY number") == [
        *(("UPDATE", 1, "a"), ("INSERT", 2, "b"), ("INSERT", 3, "c")),
        *(("DELETE", 3, None), ("UPDATE", 2, "z"), ("INSERT", 4, "d")),
    ]


def test_reset_takes_what_has_left_from_a_table_that_the_sink_made(
    source: Session, database: Database
) -> None:
    make(source, database)
    database.run("INSERT INTO t VALUES (50, 'astray')", "DELETE FROM t WHERE id = 1")
    source.sql("ALTER SINK s RESET")
    put(source, {2: None})
    deliver(source)
    assert database.ask(ROWS) == [(1, "a"), (3, "c")]
    source.sql("DROP SINK s")
    put(source, {3: None})
    make(source, database)
    assert database.ask(ROWS) == [(1, "a")]


def test_a_commit_whose_answer_is_lost_counts_once(
    source: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run(*AUDIT)
    make(source, database)
    commit, lost = TargetServer.commit, [True, False]

    def lose(server: TargetServer) -> None:
        if lost.pop():
            commit(server)
        server.connection.close()
        raise CommitUnknown("the answer was lost")

    for number in range(2):  # once it was committed, and once it was not
        put(source, {1: f"n{number}"})
        with monkeypatch.context() as patch:
            patch.setattr(TargetServer, "commit", lose)
            assert "the answer was lost" in find_error(source)
        put(source, {2: f"n{number}"})
        deliver(source)
    assert database.ask(ROWS) == [(1, "n1"), (2, "n1"), (3, "c")]
    assert database.ask("SELECT id, v FROM audit WHERE number > 3 ORDER BY number") == [
        *((1, "n0"), (2, "n0")),
        *((1, "n1"), (2, "n1")),
    ]


def test_an_acknowledgement_that_fails_leaves_only_what_is_new(
    source: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run(*AUDIT)
    make(source, database)
    put(source, {1: "once", 8: "came"})
    commit = Hummock.commit

    def fail(store: Hummock, asked: Commit) -> Any:
        if asked.acks:
            raise OSError("the store is away")
        return commit(store, asked)

    with monkeypatch.context() as patch:
        patch.setattr(Hummock, "commit", fail)
        assert "the store is away" in find_error(source)
    put(source, {2: "more", 8: None})  # what came with the range that was delivered goes with the next one
    deliver(source)
    noted = database.ask("SELECT what, id FROM audit WHERE number > 3 ORDER BY number")
    assert sorted(noted[:2]) == [("INSERT", 8), ("UPDATE", 1)]
    assert noted[2:] == [("DELETE", 8), ("UPDATE", 2)]


def test_two_processes_that_deliver_at_once_bring_each_change_once(
    source: Session, database: Database
) -> None:
    database.run(*AUDIT)
    make(source, database)
    with Session(source.url) as other:
        for number in range(10):
            put(source, {1: f"n{number}", 100 + number: "new"})
            threads = [threading.Thread(target=deliver, args=(one,)) for one in (source, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            deliver(source)
            assert database.ask(f"SELECT count(*) FROM audit WHERE v = 'n{number}'") == [(1,)]
    assert database.ask("SELECT count(*), count(DISTINCT v) FROM audit WHERE id = 1") == [(11, 11)]


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_are_there_after_each_delivery(seed: int, source: Session, database: Database) -> None:
    chance = random.Random(seed)
    rows: dict[int, str] = {1: "a", 2: "b", 3: "c"}
    make(source, database)
    for number in range(12):
        for _ in range(chance.randrange(1, 4)):
            keys = chance.sample(range(30), chance.randrange(1, 9))
            changes = {key: None if chance.random() < 0.4 else f"v{number}" for key in keys}
            put(source, changes)
            rows = {key: value for key, value in {**rows, **changes}.items() if value is not None}
        if chance.random() < 0.2:
            source.sql("ALTER SINK s RESET")
        deliver(source)
        assert dict(database.ask(ROWS)) == rows


def test_nulls_of_a_key_are_one_value(lake: Session, database: Database) -> None:
    lake.sql("CREATE TABLE t (a BIGINT, b STRING, n BIGINT PRIMARY KEY)")
    lake.sql("INSERT INTO t VALUES (NULL, NULL, 1), (NULL, 'x', 2), (1, NULL, 3), (1, 'x', 4)")
    view = "CREATE MATERIALIZED VIEW g AS SELECT a, b, count(*) AS c FROM t GROUP BY a, b"
    lake.sql(view)
    lake.sql(write(source="g", **place(database, "g")))
    ask = "SELECT a, b, c FROM g ORDER BY a NULLS FIRST, b NULLS FIRST"
    assert database.ask(ask) == [(None, None, 1), (None, "x", 1), (1, None, 1), (1, "x", 1)]
    lake.sql("INSERT INTO t VALUES (NULL, NULL, 5), (1, NULL, 6)")
    lake.sql("FLUSH")
    assert database.ask(ask) == [(None, None, 2), (None, "x", 1), (1, None, 2), (1, "x", 1)]
    lake.sql("DELETE FROM t WHERE n <> 4")
    lake.sql("FLUSH")
    assert database.ask(ask) == [(1, "x", 1)]


def test_a_null_in_a_key_that_takes_none_is_told_with_what_mends_it(
    lake: Session, database: Database
) -> None:
    lake.sql("CREATE TABLE t (a STRING, n BIGINT PRIMARY KEY)")
    lake.sql("INSERT INTO t VALUES ('x', 1)")
    lake.sql("CREATE MATERIALIZED VIEW g AS SELECT a, count(*) AS c FROM t GROUP BY a")
    lake.sql(write(source="g", **place(database, "g")))
    lake.sql("INSERT INTO t VALUES (NULL, 2)")
    lake.sql("FLUSH")
    said = find_error(lake)
    assert "column a of the row (a = None) is null: COALESCE it in the view" in said
    assert "NULLS NOT DISTINCT" in said
    database.run(
        "ALTER TABLE g DROP CONSTRAINT g_pkey",
        'ALTER TABLE "public"."g" ALTER COLUMN "a" DROP NOT NULL, ADD UNIQUE NULLS NOT DISTINCT ("a")',
    )
    deliver(lake)
    assert database.ask("SELECT a, c FROM g ORDER BY a") == [("x", 1), (None, 1)]


def test_one_row_without_a_key_is_replaced(source: Session, database: Database) -> None:
    source.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n, max(v) AS m FROM t")
    source.sql(write(source="n", **place(database, "n")))
    put(source, {1: "z", 9: "new"})
    source.sql("FLUSH")
    assert database.ask("SELECT n, m FROM n") == [(4, "z")]


def test_rows_are_only_added_by_an_append_only_sink(source: Session, database: Database) -> None:
    options = {"type": "append-only", "force_append_only": "true"}
    make(source, database, **options)
    put(source, {1: "x", 2: None})
    deliver(source)
    assert sorted(database.ask("SELECT id, v FROM t")) == [(1, "a"), (1, "x"), (2, "b"), (3, "c")]


@pytest.mark.parametrize(
    ("table", "row", "words"),
    [
        ("id bigint PRIMARY KEY, v text CHECK (v <> 'bad')", "bad", "check constraint"),
        ("id bigint PRIMARY KEY, v text REFERENCES known", "bad", "foreign key"),
        ("id bigint PRIMARY KEY, v text UNIQUE", "a", "unique constraint"),
        ("id bigint PRIMARY KEY, v varchar(3)", "longer", "has more than 3 characters"),
        ("id bigint PRIMARY KEY, v uuid", "bad", "invalid input syntax for type uuid"),
        ("id bigint PRIMARY KEY, v jsonb", "{bad", "invalid input syntax for type json"),
        ("id bigint PRIMARY KEY, v mood", "bad", "invalid input value for enum"),
        ("id bigint PRIMARY KEY, v short", "bad", "check constraint"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_a_row_that_is_refused_is_told_by_its_key(
    table: str, row: str, words: str, first: bool, lake: Session, database: Database
) -> None:
    uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    good = uuid if "uuid" in table else '{"a": 1}' if "json" in table else "a"
    database.run(
        "CREATE TABLE known (v text PRIMARY KEY)",
        "INSERT INTO known SELECT chr(n) FROM generate_series(97, 122) AS n",
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        "CREATE DOMAIN short AS text CHECK (length(VALUE) < 3)",
        f"CREATE TABLE t ({table})",
    )
    lake.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
    put(lake, {0: good})
    if not first:
        make(lake, database)
    others = {n: None if "UNIQUE" in table else good for n in range(1, 100)}
    put(lake, {**others, 41: row})
    if first:
        lake.sql(write(**place(database)), build=False)
    said = find_error(lake)
    assert words in said and ("(id = '41')" in said or "(id = 41)" in said), said
    assert len(database.ask("SELECT id FROM t")) == (0 if first else 1)
    put(lake, {41: None})  # the row in the view is mended, and nothing else has to be done
    if first:
        lake.sql("ALTER SINK s RESET")
    deliver(lake)
    assert len(database.ask("SELECT id FROM t")) == (1 if "UNIQUE" in table else 99)


@pytest.mark.parametrize(
    ("statement", "mend", "words"),
    [
        ("ALTER TABLE t DROP COLUMN v", "ALTER TABLE t ADD COLUMN v text", ("has no column v", "ADD COLUMN")),
        (
            "ALTER TABLE t ALTER COLUMN v TYPE bytea USING NULL",
            "ALTER TABLE t ALTER COLUMN v TYPE text USING ''",
            ("column v is string here and bytea", 'ALTER COLUMN "v" TYPE text'),
        ),
        (
            "ALTER TABLE t DROP CONSTRAINT t_pkey",
            "ALTER TABLE t ADD PRIMARY KEY (id)",
            ("no unique index", "ADD UNIQUE"),
        ),
        (
            "ALTER TABLE t ADD COLUMN w int NOT NULL DEFAULT 0; ALTER TABLE t ALTER COLUMN w DROP DEFAULT",
            "ALTER TABLE t ALTER COLUMN w DROP NOT NULL",
            ("column w of public.t is NOT NULL", "DROP NOT NULL"),
        ),
        ("ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t", ("no table public.t any more", "RESET")),
        ("DELETE FROM tideline_sinks", "", ("has no line", "RESET")),
        ("UPDATE tideline_sinks SET epoch = epoch - 1", "", ("was the database put back?", "RESET")),
        ("UPDATE tideline_sinks SET epoch = epoch + 1", "", ("was the store put back?", "RESET")),
    ],
)
def test_a_target_that_was_changed_is_told_with_what_mends_it(
    statement: str, mend: str, words: tuple[str, ...], source: Session, database: Database
) -> None:
    make(source, database)
    database.run(*statement.split("; "))
    put(source, {1: "new"})
    said = find_error(source)
    assert all(word in said for word in words), said
    database.run(mend or "SELECT 1")
    if "RESET" in words and not mend:
        source.sql("ALTER SINK s RESET")
    deliver(source)
    assert database.ask("SELECT v FROM t WHERE id = 1") == [("new",)]


def test_a_server_that_is_away_delays_nobody_else(source: Session, database: Database, tmp_path: Any) -> None:
    make(source, database)
    source.sql(f"CREATE SINK files FROM t WITH (connector = 'file', path = '{tmp_path}/out')")
    database.run("SELECT 1")
    Database(database.port, "postgres").run(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS false")
    put(source, {1: "new"})
    assert "not currently accepting connections" in find_error(source)
    assert [report.lag_rows for report in source.sinks.run(eager=False) if report.sink == "files"] == [0]
    Database(database.port, "postgres").run(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS true")
    deliver(source)
    assert (1, "new") in database.ask(ROWS)


def test_a_connection_that_is_ended_while_rows_are_written_leaves_nothing(
    source: Session, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.run(*AUDIT)
    make(source, database)
    put(source, {1: "new"})
    execute, cut = TargetServer.execute, ['INSERT INTO "public"."t"', "SET CONSTRAINTS", "UPDATE "]

    def end(server: TargetServer, text: str, *values: object) -> int:
        if cut and text.startswith(cut[0]):
            cut.pop(0)
            database.run(f"SELECT pg_terminate_backend({server.connection.info.backend_pid}, 10000)")
        return execute(server, text, *values)

    monkeypatch.setattr(TargetServer, "execute", end)
    for _ in range(3):
        assert "connection" in find_error(source)
    deliver(source)
    assert database.ask("SELECT count(*) FROM audit WHERE v = 'new'") == [(1,)]


def test_a_deadlock_is_tried_again(source: Session, database: Database) -> None:
    make(source, database)
    database.run("SELECT 1", f"ALTER DATABASE {database.name} SET deadlock_timeout TO '10ms'")
    put(source, {1: "x", 2: "y", 3: None})
    with database.connect() as other:
        other.execute("BEGIN")
        other.execute("UPDATE t SET v = 'theirs' WHERE id = 1")
        delivering = threading.Thread(target=deliver, args=(source,))
        delivering.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) OR NOT granted AND locktype = 'transactionid'"
        for _ in range(2_000):
            if database.ask(waiting) != [(0,)]:
                break
        try:
            other.execute("UPDATE t SET v = 'theirs' WHERE id = 3")
            other.execute("COMMIT")
        except Exception as error:  # which of the two is ended is PostgreSQL's to choose
            assert getattr(error, "sqlstate", "") == "40P01"
            other.execute("ROLLBACK")
        delivering.join()
    assert database.ask(ROWS) == [(1, "x"), (2, "y")]


def test_columns_that_a_sink_has_more_are_added_to_the_table_that_it_made(
    source: Session, database: Database
) -> None:
    make(source, database)
    source.sql("DROP SINK s")
    source.sql("ALTER TABLE t ADD COLUMN more BIGINT")
    source.sql("UPDATE t SET more = 7 WHERE id = 1")
    make(source, database)
    assert database.ask("SELECT id, v, more FROM t ORDER BY id") == [
        (1, "a", 7),
        (2, "b", None),
        (3, "c", None),
    ]


def test_no_secret_is_kept(source: Session, database: Database, tmp_path: Any) -> None:
    make(source, database)
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes()


def test_a_drop_stands_where_the_server_is_away(source: Session, database: Database) -> None:
    make(source, database)
    Database(database.port, "postgres").run(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS false")
    source.sql("DROP SINK s")
    assert "DELETE FROM public.tideline_sinks WHERE sink = 'tideline/" in " ".join(source.notices)
    Database(database.port, "postgres").run(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS true")
    make(source, database)
    assert len(database.ask(ROWS)) == 3
