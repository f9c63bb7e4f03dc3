"""Files that tasks read give what a poll by itself gives: rows, records of files and dead letters."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.classic.dataframe import DataFrame

from engine.connectors.contract.connector import SourceReport, no_spark
from engine.connectors.formats.file_format import FileOptions
from engine.connectors.formats.read_limits import ReadLimits
from engine.connectors.landing import tasks
from engine.connectors.landing.folder import LandingFolder
from engine.connectors.landing.pending import PendingFile
from engine.connectors.landing.source import LandingSource
from engine.hummock import Hummock
from engine.runtime.writes import key_order
from engine.session import Session
from tests.long_rest import mark_rest_long


@pytest.fixture(autouse=True)
def by_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks read whatever is pending, in small shares."""
    monkeypatch.setenv(tasks.SETTING, "0")
    monkeypatch.setattr(tasks, "SHARE_BYTES", 6_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "landing"
    found.mkdir()
    return found


def follow(session: Session, folder: Path, name: str, columns: str, more: str = "") -> None:
    session.sql(f"CREATE TABLE {name} ({columns}) {more} WITH (connector = 'landing', path = '{folder}')")


def poll(session: Session, name: str, *, tasks: bool) -> SourceReport:
    source = LandingSource.of_relation(session.store, session.catalog.get(name))
    return source.poll((lambda: session.computing) if tasks else no_spark)


def rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    found = session.sql(text)
    assert found is not None
    return [tuple(row.values()) for row in found.to_pylist()]


def known(session: Session, name: str, content: str = "*") -> list[list[tuple[Any, ...]]]:
    """Return a table's rows, its files and its dead letters."""
    of = f"WHERE source = '{name}'"
    return [
        sorted(rows(session, f"SELECT {content} FROM {name}"), key=repr),
        rows(session, f"SELECT path, size, rows, dead_rows, position FROM _landing_files {of} ORDER BY path"),
        rows(session, f"SELECT file, line, reason, raw FROM _dead_letter {of} ORDER BY file, line, reason"),
    ]


def passing_driver(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return where rows and bytes of each answer of Spark are noted from now on."""
    seen, whole = list[tuple[int, int]](), DataFrame.toArrow

    def counted(frame: DataFrame) -> pa.Table:
        found = whole(frame)
        seen.append((found.num_rows, found.nbytes))
        return found

    monkeypatch.setattr(DataFrame, "toArrow", counted)
    return seen


def write_files(folder: Path, seed: int) -> None:
    """Write files of all kinds whose keys meet, with rows that do not fit, deletions, and columns that no table has."""
    chance = random.Random(seed)
    for number in range(12):
        given = [
            {
                "id": chance.choice([None, "x", *range(60)]) if chance.random() < 0.1 else chance.randrange(60),
                "v": chance.choice([None, "a", "ü" * 30, f"v{number}"]),
                "n": chance.choice([None, 1.5, "wrong", "1e3"]) if chance.random() < 0.2 else round(chance.random(), 3),
                "_op": chance.choice(["delete", "unknown"]) if chance.random() < 0.1 else "upsert",
            }
            for _ in range(chance.choice([0, 1, 40, 250]))
        ]  # fmt: skip
        if chance.random() < 0.3:
            given = [{**row, "extra": 1} for row in given]
        name, kind = f"{number:02}", chance.choice(["csv", "csv.gz", "jsonl", "parquet", "broken"])
        if (
            number % 3 == 1
        ):  # folders that give a value, some another one than the file, and one that no column is for
            name = f"v={chance.choice(['a', 'a%61', '__HIVE_DEFAULT_PARTITION__'])}/other=1/{name}"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if kind == "jsonl":
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in given))
        elif kind == "parquet":
            texts = pa.Table.from_pylist(
                [{key: None if value is None else str(value) for key, value in row.items()} for row in given],
                pa.schema([(key, pa.string()) for key in ("id", "v", "n", "_op")]),
            )
            pq.write_table(texts, folder / f"{name}.parquet", row_group_size=37)
        elif kind == "broken":
            (folder / f"{name}.parquet").write_bytes(b"PAR1 of another kind")
        else:
            keys = list(given[0]) if given else ["id", "v", "n", "_op"]
            lines = [",".join("" if row[key] is None else str(row[key]) for key in keys) for row in given]
            data = "\n".join(
                [",".join(keys), *lines, "one,field,too,many,by,far" if number % 3 == 0 else ""]
            ).encode()
            (folder / f"{name}.{kind}").write_bytes(gzip.compress(data) if kind == "csv.gz" else data)


@pytest.mark.parametrize(("seed", "packed"), mark_rest_long([(0, True), (1, True), (2, False)]))
def test_tasks_give_what_a_poll_by_itself_gives(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int, packed: bool
) -> None:
    monkeypatch.setattr(key_order, "PACKED_FROM", 0 if packed else 1 << 60)
    columns = "id BIGINT PRIMARY KEY, v VARCHAR(20), n DOUBLE NOT NULL"
    follow(session, folder, "one", columns)
    follow(session, folder, "two", columns)
    for step in range(2):
        write_files(folder, 10 * seed)
        if step:
            for path in sorted(folder.iterdir())[:6]:
                path.rename(path.with_name(f"later-{path.name}"))
        reports = poll(session, "one", tasks=False)
        by_tasks = poll(session, "two", tasks=True)
        assert known(session, "two") == known(session, "one")
        assert (by_tasks.files, by_tasks.rows, by_tasks.dead_rows) == (
            reports.files,
            reports.rows,
            reports.dead_rows,
        )
        assert sorted(by_tasks.warnings) == sorted(reports.warnings)
        assert reports.files > 3
    assert poll(session, "two", tasks=True).epoch is None


@pytest.mark.parametrize("more", ["", "APPEND ONLY"])
def test_rows_without_a_key_get_ids_of_their_own(session: Session, folder: Path, more: str) -> None:
    follow(session, folder, "one", "id BIGINT, v STRING", more)
    for number in range(3):
        pq.write_table(
            pa.table({"id": pa.array(range(3_000), pa.int64()), "v": ["a"] * 3_000}),
            folder / f"{number}.parquet",
            row_group_size=500,
        )
    report = poll(session, "one", tasks=True)
    assert (report.rows, report.files, report.dead_rows) == (9_000, 3, 0)
    assert rows(session, "SELECT count(*), count(DISTINCT id), sum(id) FROM one") == [
        (9_000, 3_000, 3 * 2_999 * 1_500)
    ]
    (folder / "3.csv").write_text("id,v\n7,b\n")
    assert poll(session, "one", tasks=True).rows == 1
    assert rows(session, "SELECT count(*) FROM one") == [(9_001,)]


@pytest.mark.long
def test_a_large_parquet_file_is_read_by_several_tasks_and_its_rows_pass_no_driver(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = passing_driver(monkeypatch)
    monkeypatch.setattr(tasks, "SHARE_BYTES", 200_000)
    count = 60_000  # too many for an answer
    texts = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(count)]
    given = pa.table({"id": pa.array(range(count), pa.int64()), "v": texts})
    pq.write_table(given, folder / "a.parquet", row_group_size=1_000)
    follow(session, folder, "one", "id BIGINT PRIMARY KEY, v STRING")
    assert poll(session, "one", tasks=True).rows == count
    assert seen[0][0] >= 10  # tasks that read
    assert max(size for _, size in seen) < 60_000
    found = rows(session, "SELECT count(*), sum(id), max(v), min(v) FROM one")
    assert found == [(count, count * (count - 1) // 2, max(texts), min(texts))]


def test_a_file_with_too_much_to_set_aside_is_read_here_and_those_behind_it_after_it(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MOST_BAD_BYTES", 100_000)
    follow(session, folder, "one", "id BIGINT PRIMARY KEY, v STRING")
    (folder / "a.csv").write_text("id,v\n1,first\n2,first\n")
    (folder / "b.csv").write_text("id,v\n" + "x,y\n" * 400 + "2,second\n")
    (folder / "c.csv").write_text("id,v\n2,third\n")
    report = poll(session, "one", tasks=True)
    assert (report.files, report.rows, report.dead_rows) == (3, 4, 400)
    assert rows(session, "SELECT * FROM one ORDER BY id") == [(1, "first"), (2, "third")]


@pytest.mark.long
def test_what_is_set_aside_of_many_files_takes_no_more_than_a_poll_holds(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_LANDING_MEMORY", "0.25")
    answers = passing_driver(monkeypatch)
    for number in range(40):  # 100 kB of letters a file, 4 MB in all
        (folder / f"{number:02}.csv").write_text("id,v\n" + f"{number},a\n" + "x,y\n" * 300)
    for name in ("one", "two"):
        follow(session, folder, name, "id BIGINT PRIMARY KEY, v STRING")
        poll(session, name, tasks=name == "two")
    assert known(session, "two") == known(session, "one")
    assert len(rows(session, "SELECT * FROM _dead_letter WHERE source = 'two'")) == 40 * 300
    assert answers and sum(size for _, size in answers) < 1 << 18


def test_a_fault_of_a_whole_file_that_is_cut_is_told_once(session: Session, folder: Path) -> None:
    given = pa.table({"other": pa.array(range(8_000), pa.int64()), "v": ["a"] * 8_000})
    pq.write_table(given, folder / "a.parquet", row_group_size=1_000, use_dictionary=False)
    (folder / "b.csv").write_text("id,v\n1,b\n")
    for name in ("one", "two"):
        follow(session, folder, name, "id BIGINT PRIMARY KEY, v STRING")
        report = poll(session, name, tasks=name == "two")
        assert (report.files, report.rows, report.dead_rows, len(report.warnings)) == (2, 1, 1, 1)
    here, by_tasks = (repr(known(session, name)).replace(f"of {name};", "of it;") for name in ("one", "two"))
    assert by_tasks == here


def test_what_a_task_may_not_open_is_left_to_the_poll(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(session, folder, "one", "id BIGINT PRIMARY KEY, v STRING")
    (folder / "a.csv").write_text("id,v\n1,a\n")
    source = LandingSource.of_relation(session.store, session.catalog.get("one"))
    place = LandingFolder(folder)
    reading = tasks.FileReadPlan(place, FileOptions(), ReadLimits(), source._build_target())
    files = source.list_files()
    shares = tasks.plan_shares(reading, files)
    body = tasks.ReadShares(session.store.url, dict(session.store.options), reading, files, shares)

    def refused(*_: object, **__: object) -> BinaryIO:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(LandingFolder, "open", refused)
    numbers = pa.record_batch([pa.array([0], pa.int64())], names=["id"])
    (answer,) = body(iter([numbers]))
    (part,) = msgspec.msgpack.decode(answer.column(0)[0].as_py(), type=tasks.ShareResult).parts
    assert (part.late, part.bad, part.rows) == ("", [], 0)


def found(*sizes: int | str) -> list[PendingFile]:
    """Return pending files of these sizes; a word is the fault of one that can't be read."""
    return [
        PendingFile(f"{at}", size, 0) if isinstance(size, int) else PendingFile(f"{at}", 1, 0, fault=size)
        for at, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "runs"),
    [
        ((), []),
        ((1, 2), [("01", False)]),
        ((9, 1), [("01", True)]),
        (("gone", 9, 2), [("0", False), ("12", True)]),
        ((9, 2, "gone", 1), [("01", True), ("2", False), ("3", False)]),
        ((50, 60, 5), [("0", True), ("12", True)]),
        ((200, 3), [("0", True), ("1", False)]),
        ((4, 4, 4, 4, 4, 1), [("0123", True), ("45", False)]),
    ],
)
def test_what_follows_each_other_is_one_run_and_nothing_holds_the_rest_up(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int | str, ...], runs: list[tuple[str, bool]]
) -> None:
    monkeypatch.setenv(tasks.SETTING, str(10 / (1 << 20)))
    monkeypatch.setattr(tasks, "COMMIT_BYTES", 100)
    monkeypatch.setattr(tasks, "COMMIT_FILES", 4)
    cut = tasks.plan_runs(found(*sizes))
    assert [("".join(file.path for file in run.files), run.by_tasks) for run in cut] == runs


def test_few_bytes_are_read_here_and_many_by_tasks(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()

    def spark() -> Any:
        asked.append(1)
        return session.computing

    follow(session, folder, "one", "id BIGINT PRIMARY KEY, v STRING")
    source = LandingSource.of_relation(session.store, session.catalog.get("one"))
    monkeypatch.setenv(tasks.SETTING, "0.01")
    (folder / "a.csv").write_text("id,v\n1,a\n")
    assert (source.poll(spark).rows, asked) == (1, [])
    (folder / "b.csv").write_text("id,v\n" + "".join(f"{n},a\n" for n in range(2_000)))
    assert (source.poll(spark).rows, asked) == (2_000, [1])


def late_in_tasks(*given: Any) -> tasks.TaskLoad:
    load = tasks.read_by_tasks(*given)
    load.late[1] = ""
    return load


def test_files_that_only_this_machine_has_are_read_here(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.connectors.landing.source.read_by_tasks", late_in_tasks)
    follow(session, folder, "one", "id BIGINT PRIMARY KEY, v STRING")
    for number, name in enumerate("abc"):
        (folder / f"{name}.csv").write_text(f"id,v\n1,{name}\n{number + 5},x\n")
    assert (poll(session, "one", tasks=True).files, poll(session, "one", tasks=True).files) == (3, 0)
    assert rows(session, "SELECT v FROM one WHERE id = 1") == [("c",)]


def test_a_file_that_changes_while_it_is_read_waits_for_the_next_poll(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(*given: Any) -> tasks.TaskLoad:
        load = tasks.read_by_tasks(*given)
        (folder / "b.csv").write_text("id,v\n1,changed\n9,z\n")
        return load

    follow(session, folder, "one", "id BIGINT PRIMARY KEY, v STRING")
    for name in "abc":
        (folder / f"{name}.csv").write_text(f"id,v\n1,{name}\n")
    with monkeypatch.context() as patch:
        patch.setattr("engine.connectors.landing.source.read_by_tasks", changed)
        assert poll(session, "one", tasks=True).files == 2
    assert rows(session, "SELECT * FROM one ORDER BY id") == [(1, "c")]
    assert poll(session, "one", tasks=True).files == 1
    assert rows(session, "SELECT * FROM one ORDER BY id") == [(1, "changed"), (9, "z")]


def by_another(session: Session) -> None:
    poll(session, "one", tasks=False)


def by_a_write(session: Session) -> None:
    session.sql("INSERT INTO one VALUES (1, 'by hand'), (50, 'by hand')")


@pytest.mark.parametrize("other", [by_another, by_a_write])
def test_other_writers_may_be_faster(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch, other: Callable[[Session], None]
) -> None:
    follow(session, folder, "one", "id BIGINT PRIMARY KEY, v STRING")
    for name in "abc":
        (folder / f"{name}.csv").write_text(f"id,v\n1,{name}\n{ord(name)},x\n")
    commit, before = Hummock.commit, [other]

    def second(store: Hummock, asked: Any) -> Any:
        if before and "_landing_files" in asked.writes:
            before.pop()(session)
        return commit(store, asked)

    monkeypatch.setattr(Hummock, "commit", second)
    poll(session, "one", tasks=True)
    held = rows(session, "SELECT * FROM one ORDER BY id")
    assert not before and held[0] == (1, "c")
    assert len(held) == (4 if other is by_another else 5)
    assert rows(session, "SELECT count(*), sum(rows) FROM _landing_files") == [(3, 6)]


def test_a_poll_that_ends_before_its_commit_has_taken_nothing(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(session, folder, "one", "id BIGINT PRIMARY KEY, v STRING")
    (folder / "a.csv").write_text("id,v\n1,a\n2,b\n")
    commit = Hummock.commit

    def dies(store: Hummock, asked: Any) -> Any:
        if "one" in asked.writes:
            raise KeyboardInterrupt
        return commit(store, asked)

    with monkeypatch.context() as patch:
        patch.setattr(Hummock, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            poll(session, "one", tasks=True)
    assert rows(session, "SELECT * FROM one") == []
    assert poll(session, "one", tasks=True).rows == 2
    assert rows(session, "SELECT * FROM one ORDER BY id") == [(1, "a"), (2, "b")]


def test_files_of_a_bucket_are_read_by_tasks(session: Session, s3_url: str) -> None:
    from engine.hummock.object_store import open_object_store

    objects = open_object_store(s3_url)
    sink = pa.BufferOutputStream()
    given = pa.table({"id": pa.array(range(5_000), pa.int64()), "v": [f"value {n}" for n in range(5_000)]})
    pq.write_table(given, sink, row_group_size=500)
    objects.put("a.parquet", sink.getvalue().to_pybytes())
    objects.put("b.csv", b"id,v\n1,b\nx,wrong\n")
    session.sql(
        f"CREATE TABLE one (id BIGINT PRIMARY KEY, v STRING) WITH (connector = 'landing', path = '{s3_url}')"
    )
    report = poll(session, "one", tasks=True)
    assert (report.files, report.rows, report.dead_rows, report.warnings) == (2, 5_001, 1, ())
    assert rows(session, "SELECT count(*), max(v) FROM one WHERE id <> 1") == [(4_999, "value 999")]
    assert rows(session, "SELECT v FROM one WHERE id = 1") == [("b",)]


@pytest.mark.parametrize("broken", [0, 1, 3])
def test_a_file_counts_up_to_where_it_can_be_read(session: Session, folder: Path, broken: int) -> None:
    path, count = folder / "0.parquet", 8_000
    texts = [f"value {number * 7_919 % 100_003}" for number in range(count)]
    given = pa.table({"id": pa.array(range(count), pa.int64()), "v": texts})
    pq.write_table(given, path, row_group_size=count // 4, compression="zstd", use_dictionary=False)
    (folder / "1.csv").write_text(f"id,v\n0,last\n{count - 1},last\n")
    chunk, data = pq.read_metadata(path).row_group(broken).column(1), bytearray(path.read_bytes())
    for at in range(chunk.data_page_offset + 60, chunk.data_page_offset + chunk.total_compressed_size - 5):
        data[at] ^= 0x5A
    path.write_bytes(bytes(data))
    for name in ("one", "two"):
        follow(session, folder, name, "id BIGINT PRIMARY KEY, v STRING")
    reports, by_tasks = poll(session, "one", tasks=False), poll(session, "two", tasks=True)
    assert (reports.rows, reports.dead_rows) == (broken * count // 4 + 2, 1)
    assert (by_tasks.rows, by_tasks.dead_rows, by_tasks.warnings) == (reports.rows, 1, reports.warnings)
    assert known(session, "two") == known(session, "one")


def test_columns_whose_names_spark_would_take_for_expressions_are_written_by_tasks(
    session: Session, folder: Path
) -> None:
    names = ["a", "a.b", "x`y", "z z"]
    for number in range(2):
        given = pa.table({"id": [number, 9], **{name: [f"{name} {number}"] * 2 for name in names}})
        pq.write_table(given, folder / f"{number}.parquet")
    columns = ", ".join(f"`{name.replace('`', '``')}` STRING" for name in names)
    follow(session, folder, "one", f"id BIGINT PRIMARY KEY, {columns}")
    report = poll(session, "one", tasks=True)
    assert (report.rows, report.warnings) == (4, ())
    found = rows(session, "SELECT * FROM one ORDER BY id")
    assert found == [(at, *(f"{name} {number}" for name in names)) for at, number in ((0, 0), (1, 1), (9, 1))]


def test_tasks_read_by_the_same_options(session: Session, folder: Path) -> None:
    columns, more = "id INT PRIMARY KEY, v STRING, d DATE", "format = 'csv', delimiter = '||', quote = 'none'"
    more += (
        ", header = 'false', columns = 'Op, id, v, d', operation = 'Op', encoding = 'latin-1', null = 'NA, -'"
    )
    more += ", date_format = '%d/%m/%Y'"
    for n in range(6):
        lines = [f"I||{i}||é{i}||0{i % 9 + 1}/02/2024" for i in range(n, 40 * n)]
        lines += [f"D||{n}||||", f"X||{n}||||", f"U||{n + 1}||NA||-", "I||1"]
        (folder / f"{n}.{('txt', 'tsv', 'csv')[n % 3]}").write_text("\n".join(lines), "latin-1")
    for name in ("a", "b"):
        session.sql(
            f"CREATE TABLE {name} ({columns}) WITH (connector = 'landing', path = '{folder}', {more})"
        )
    report = poll(session, "a", tasks=True)
    assert not report.warnings and poll(session, "b", tasks=False).rows == report.rows > 200
    assert known(session, "a") == known(session, "b")
