"""One table is put back to a backup: by the difference, in one commit, and what reads it follows."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from engine.errors import InvalidRow, StorageError, TidelineError
from engine.hummock import Hummock
from engine.hummock.backups.back_up import back_up
from engine.hummock.backups.backup_place import BackupPlace, open_place
from engine.runtime.writes import table_restore
from engine.runtime.writes.table_restore import restore_table
from engine.session import Session
from engine.sql.dialect import Dialect
from tests.long_rest import mark_rest_long


@pytest.fixture
def place(tmp_path: Path) -> BackupPlace:
    """Where backups go."""
    return open_place((tmp_path / "backups").as_uri(), create=True)


def show(session: Session, name: str) -> list[str]:
    """Return the rows as texts, in order: NaN equals itself there, and the sign of a zero counts."""
    return sorted(repr(tuple(row.values())) for row in session.sql(f"SELECT * FROM {name}").to_pylist())


def test_views_get_the_difference_alone(session: Session, place: BackupPlace) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, g STRING, n DOUBLE)")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT g, count(*) AS c, sum(n) AS n FROM t GROUP BY g")
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'a', -0.0), (3, 'b', double('NaN')), (4, NULL, NULL)")
    session.flush()
    rows, view = show(session, "t"), show(session, "v")
    back_up(session.store, place)
    session.sql("UPDATE t SET n = 7 WHERE id = 1")
    session.sql("DELETE FROM t WHERE id >= 3")
    session.sql("INSERT INTO t VALUES (5, 'c', 5)")
    session.flush()
    assert show(session, "v") != view
    done = restore_table(session.store, place, "T")
    assert (done.written, done.deleted, done.summary.number) == (3, 1, 1)
    session.flush()
    assert show(session, "t") == rows and show(session, "v") == view
    number = session.store.refresh().number
    again = restore_table(session.store, place, "t")
    assert (again.written, again.deleted) == (0, 0) and session.store.refresh().number == number
    session.sql("UPDATE t SET n = 2 WHERE id = 1")
    restore_table(session.store, place, "t")
    session.flush()
    assert show(session, "v") == view


@pytest.mark.parametrize("key", ["PRIMARY KEY (id)", "PRIMARY KEY (id, s)", ""])
@pytest.mark.parametrize("seed", mark_rest_long(range(3)))
def test_any_changes_are_taken_back(session: Session, place: BackupPlace, key: str, seed: int) -> None:
    rng = random.Random(seed)
    clause = f", {key}" if key else ""
    session.sql(f"CREATE TABLE t (id BIGINT, s STRING, x DOUBLE{clause})")

    def change() -> None:
        ids = rng.sample(range(40), rng.randint(1, 12))
        values = [rng.choice([None, 0.0, -0.0, float("nan"), 1.5]) for _ in ids]
        texts = [rng.choice(["", "a", "ä"]) for _ in ids]
        session.write("t", pa.table({"id": ids, "s": texts, "x": pa.array(values, pa.float64())}))
        session.sql(f"DELETE FROM t WHERE id % 7 = {rng.randrange(7)}")
        session.sql(f"UPDATE t SET x = {rng.randrange(3)} WHERE id % 5 = {rng.randrange(5)}")

    change()
    kept = []
    for _ in range(3):
        kept.append(show(session, "t"))
        back_up(session.store, place)
        change()
        session.store.compact("t")
    for number in rng.sample([1, 2, 3], 3):
        restore_table(session.store, place, "t", number)
        assert show(session, "t") == kept[number - 1]


def test_a_write_at_the_same_time_is_taken_back_too(
    session: Session, place: BackupPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    session.sql("INSERT INTO t VALUES (1)")
    back_up(session.store, place)
    session.sql("INSERT INTO t VALUES (2)")
    plain, raced = table_restore._compare, []

    def race(store: Hummock, *rest: object) -> object:
        found = plain(store, *rest)  # type: ignore[arg-type]
        if not raced:
            raced.append(session.sql("INSERT INTO t VALUES (3)"))
        return found

    monkeypatch.setattr(table_restore, "_compare", race)
    assert restore_table(session.store, place, "t").deleted == 2
    assert show(session, "t") == ["(1,)"]


@pytest.mark.parametrize(
    ("made", "then", "why"),
    [
        ("TABLE t (id BIGINT PRIMARY KEY)", "ALTER TABLE t ADD COLUMN b BIGINT", "had other columns"),
        ("TABLE t (id BIGINT) APPEND ONLY", "INSERT INTO t VALUES (9)", "has 1 rows that the backup has not"),
        ("TABLE t (id BIGINT)", "DROP TABLE t; CREATE TABLE t (id BIGINT)", "was made anew since"),
        (
            "TABLE t (id BIGINT PRIMARY KEY, v STRING)",
            "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(3))",
            "had other columns or another key at the backup (id bigint NOT NULL, v string)",
        ),
        (
            "TABLE t (id BIGINT PRIMARY KEY, v STRING)",
            "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING NOT NULL)",
            "had other columns",
        ),
        (
            "TABLE t (id BIGINT PRIMARY KEY, v BIGINT)",
            "DROP TABLE t; CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT GENERATED ALWAYS AS (id + 1))",
            "had other columns",
        ),
        (
            "VIEW u AS SELECT 1 AS id; CREATE MATERIALIZED VIEW t AS SELECT id FROM u",
            "DROP MATERIALIZED VIEW t; CREATE TABLE t (id BIGINT PRIMARY KEY)",
            "has no table t",
        ),
        ("TABLE t (id TIMESTAMP, WATERMARK FOR id AS id) APPEND ONLY", "", "has a WATERMARK"),
        (
            "TABLE t (id BIGINT) APPEND ONLY WITH (retention_seconds = '60')",
            "",
            "rows that expire",
        ),
        (
            "SOURCE t (auction BIGINT) WITH (connector = 'nexmark', type = 'bid', max_events = '10')",
            "",
            "cannot restore",
        ),
        (
            "TABLE t (auction BIGINT) WITH (connector = 'nexmark', type = 'bid', max_events = '10')",
            "",
            "follows a source",
        ),
        ("VIEW t AS SELECT 1 AS id", "", "it is a view"),
        ("TABLE u (id BIGINT)", "CREATE TABLE t (id BIGINT)", "has no table t: its tables are u"),
    ],
)
def test_what_cannot_be_put_back_alone_is_told_and_left(
    session: Session, place: BackupPlace, made: str, then: str, why: str
) -> None:
    for statement in f"CREATE {made}".split("; "):
        session.sql(statement, build=False)
    back_up(session.store, place)
    for statement in filter(None, then.split("; ")):
        session.sql(statement)
    number = session.store.refresh().number
    with pytest.raises(InvalidRow) as told:
        restore_table(session.store, place, "t")
    assert why in str(told.value) and session.store.refresh().number == number


@pytest.mark.parametrize("dialect", ["postgres", "risingwave"])
def test_texts_do_not_become_documents(tmp_path: Path, place: BackupPlace, dialect: Dialect) -> None:
    with Session((tmp_path / "store").as_uri(), dialect=dialect) as session:
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR)")
        back_up(session.store, place)
        session.sql("DROP TABLE t")
        session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v JSONB)")
        with pytest.raises(InvalidRow, match="had other columns"):
            restore_table(session.store, place, "t")


def test_rows_of_an_append_only_table_are_not_replaced(session: Session, place: BackupPlace) -> None:
    made = "CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING) APPEND ONLY"
    session.sql(made)
    session.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    back_up(session.store, place)
    for statement in ("DROP TABLE t", made, "INSERT INTO t VALUES (1, 'other')"):
        session.sql(statement)
    with pytest.raises(InvalidRow, match="has 1 rows that are others in the backup"):
        restore_table(session.store, place, "t")
    for statement in ("DROP TABLE t", made, "INSERT INTO t VALUES (1, 'a')"):
        session.sql(statement)
    assert restore_table(session.store, place, "t").written == 1
    assert show(session, "t") == ["(1, 'a')", "(2, 'b')"]


def test_a_table_that_is_made_anew_meanwhile_is_asked_again(
    session: Session, place: BackupPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    session.sql("INSERT INTO t VALUES (1)")
    back_up(session.store, place)
    session.sql("DELETE FROM t")
    plain, raced = table_restore._compare, []

    def race(store: Hummock, *rest: object) -> object:
        found = plain(store, *rest)  # type: ignore[arg-type]
        if not raced:
            raced.append(session.sql("DROP TABLE t"))
            session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY) APPEND ONLY")
            session.sql("INSERT INTO t VALUES (2)")
        return found

    monkeypatch.setattr(table_restore, "_compare", race)
    with pytest.raises(InvalidRow, match="is APPEND ONLY"):
        restore_table(session.store, place, "t")
    assert show(session, "t") == ["(2,)"]


@pytest.mark.parametrize("made", ["CREATE TABLE t (v STRING)", "CREATE TABLE t (v STRING) APPEND ONLY"])
def test_a_store_that_was_made_anew_at_the_same_place_takes_no_rows_without_a_key(
    tmp_path: Path, place: BackupPlace, made: str
) -> None:
    url = (tmp_path / "store").as_uri()
    with Session(url) as session:
        session.sql(made)
        session.sql("INSERT INTO t VALUES ('a'), ('b')")
        back_up(session.store, place)
    shutil.rmtree(tmp_path / "store")
    with Session(url) as session:
        session.sql(made)
        with pytest.raises(InvalidRow, match="was made anew"):  # its next rows would have the ids of these
            restore_table(session.store, place, "t")


@pytest.mark.parametrize("name", ["_landing_files", "_dead_letter", "_source_offsets"])
def test_tables_of_the_system_are_left_alone(
    session: Session, place: BackupPlace, tmp_path: Path, name: str
) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("id\n1\nx\n")
    session.sql(f"CREATE TABLE t (id BIGINT) WITH (connector = 'landing', path = '{tmp_path / 'landing'}')")
    session.poll()
    back_up(session.store, place)
    number = session.store.refresh().number
    with pytest.raises(TidelineError, match=f"{name}"):
        restore_table(session.store, place, name)
    assert session.store.refresh().number == number


def test_what_is_not_there_is_told(session: Session, place: BackupPlace, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT)")
    with pytest.raises(StorageError, match="no backup"):
        restore_table(session.store, place, "t")
    back_up(session.store, place)
    with pytest.raises(TidelineError, match="nowhere"):
        restore_table(session.store, place, "nowhere")
    with Session((tmp_path / "other").as_uri()) as other:
        other.sql("CREATE TABLE t (id BIGINT)")
        with pytest.raises(InvalidRow, match="of another store"):
            restore_table(other.store, place, "t")


def test_a_damaged_copy_writes_nothing(session: Session, place: BackupPlace, tmp_path: Path) -> None:
    session.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    session.sql("INSERT INTO t VALUES (1)")
    back_up(session.store, place)
    session.sql("INSERT INTO t VALUES (2)")
    for file in (tmp_path / "backups" / "files").iterdir():
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(bytes(data))
    with pytest.raises(StorageError):
        restore_table(session.store, place, "t")
    assert show(session, "t") == ["(1,)", "(2,)"]
