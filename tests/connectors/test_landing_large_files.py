"""Large files: several commits, each of which says how far the file is taken; a crash between two of them costs and doubles nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.formats.read_limits import SETTING, ReadLimits
from engine.connectors.landing.commits import LandingCommits
from engine.connectors.landing.source import LandingOptions, LandingSource
from engine.connectors.landing.tables import FILES, FILES_SCHEMA, ensure_landing_tables
from engine.errors import EnvironmentNotReady
from engine.hummock import Hummock, Put
from engine.meta.status.dead_letters import DEAD_LETTER
from engine.session import Session
from tests.long_rest import mark_rest_long

Source = Callable[..., LandingSource]
SMALL = ReadLimits(1 << 16)
ROWS = 20_000
FORMATS = ("csv", "jsonl", "json", "parquet")


class Crash(BaseException):
    """The process ends here."""


def rows(lake: Session, table: str = "orders") -> list[dict[str, object]]:
    lake.store.refresh()
    return [row for batch in lake.store.iter(table) for row in batch.to_pylist()]


def write(path: Path, items: list[dict[str, object]]) -> None:
    """Write rows in the format that the name asks for; a row without an id is malformed."""
    match path.suffix:
        case ".csv":
            lines = [f"{row.get('id', 'x')},{row['name']}" for row in items]
            path.write_text("id,name\n" + "\n".join(lines) + "\n")
        case ".jsonl":
            path.write_text("\n".join(map(json.dumps, items)) + "\n")
        case ".json":
            path.write_text(json.dumps(items))
        case _:
            pq.write_table(
                pa.Table.from_pylist([{"id": None, **row} for row in items]), path, row_group_size=7_000
            )


def sample() -> list[dict[str, object]]:
    items: list[dict[str, object]] = [{"id": at % 15_000, "name": f"row {at}"} for at in range(ROWS)]
    for at in (3, 9_000, ROWS - 2):
        del items[at]["id"]
    return items


def expected() -> dict[object, object]:
    return {row["id"]: row["name"] for row in sample() if "id" in row}


def found(lake: Session) -> dict[object, object]:
    return {row["id"]: row["name"] for row in rows(lake)}


def bag(lake: Session, folder: Path) -> LandingSource:
    lake.sql("CREATE TABLE orders (n INT) APPEND ONLY")
    return LandingSource(lake.store, "orders", folder, LandingOptions(append_only=True, limits=SMALL))


def crash_after(commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LandingCommits.commit
    left = [commits]

    def commit(self: LandingCommits, parts: list) -> set[str]:  # type: ignore[type-arg]
        if not left[0]:
            raise Crash
        left[0] -= 1
        return real(self, parts)

    monkeypatch.setattr(LandingCommits, "commit", commit)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("commits", mark_rest_long([3, 1]))
def test_a_crash_between_two_commits_of_a_file_loses_and_doubles_nothing(
    lake: Session, folder: Path, orders: Source, monkeypatch: pytest.MonkeyPatch, format: str, commits: int
) -> None:
    write(folder / f"a.{format}", sample())
    source = orders("id INT PRIMARY KEY, name STRING")
    source.limits = SMALL
    with monkeypatch.context() as patched:
        crash_after(commits, patched)
        with pytest.raises(Crash):
            source.poll()
    (record,) = rows(lake, FILES)
    assert 0 < record["position"] < ROWS  # type: ignore[operator]
    assert record["position"] == record["rows"] + record["dead_rows"]  # type: ignore[operator]
    with Hummock.open(lake.store.url) as other_store:
        again = LandingSource(
            other_store, "orders", folder, LandingOptions(limits=replace(SMALL, memory=1 << 17))
        )
        assert again.poll().files == 1
        assert again.poll().epoch is None
    (record,) = rows(lake, FILES)
    assert (record["position"], record["rows"], record["dead_rows"]) == (None, ROWS - 3, 3)
    assert found(lake) == expected()
    shift = {"csv": 2, "jsonl": 1, "json": 1, "parquet": 1}[format]
    assert sorted(row["line"] for row in rows(lake, DEAD_LETTER)) == [  # type: ignore[type-var]
        at + shift for at in (3, 9_000, ROWS - 2)
    ]


def test_a_table_without_a_key_gets_every_row_of_a_large_file_once(
    lake: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.csv").write_text("n\n" + "\n".join(map(str, range(ROWS))) + "\n")
    source = bag(lake, folder)
    with monkeypatch.context() as patched:
        crash_after(2, patched)
        with pytest.raises(Crash):
            source.poll()
    source.poll()
    assert sorted(row["n"] for row in rows(lake)) == list(range(ROWS))  # type: ignore[type-var]


def test_a_file_that_changes_while_it_is_half_taken_is_told_and_not_gone_on_with(
    lake: Session, folder: Path, orders: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder / "a.csv", sample())
    source = orders("id INT PRIMARY KEY, name STRING")
    source.limits = SMALL
    with monkeypatch.context() as patched:
        crash_after(1, patched)
        with pytest.raises(Crash):
            source.poll()
    before = found(lake)
    (folder / "a.csv").write_text("id,name\n-1,other\n")
    report = source.poll()
    assert "changed while it was taken" in report.warnings[0]
    assert (found(lake), source.poll().epoch) == (before, None)


def test_of_a_file_that_another_poller_takes_over_nothing_is_taken_twice(
    lake: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.csv").write_text("n\n" + "\n".join(map(str, range(ROWS))) + "\n")
    first = bag(lake, folder)
    real = LandingCommits.commit
    done = []

    def commit(self: LandingCommits, parts: list) -> set[str]:  # type: ignore[type-arg]
        if self.store is lake.store and not done:
            done.append(1)
            with Hummock.open(lake.store.url) as other_store:
                assert (
                    LandingSource(other_store, "orders", folder, LandingOptions(append_only=True))
                    .poll()
                    .files
                    == 1
                )
        return real(self, parts)

    monkeypatch.setattr(LandingCommits, "commit", commit)
    assert first.poll().rows == 0
    assert sorted(row["n"] for row in rows(lake)) == list(range(ROWS))  # type: ignore[type-var]


def test_an_append_only_table_keeps_the_first_row_of_a_key_over_the_commits_of_a_file(
    lake: Session, folder: Path
) -> None:
    lake.sql("CREATE TABLE orders (id INT PRIMARY KEY, name STRING) APPEND ONLY")
    items = [{"id": at % 15_000, "name": f"row {at}"} for at in range(ROWS)]
    write(folder / "a.csv", items)
    source = LandingSource(lake.store, "orders", folder, LandingOptions(append_only=True, limits=SMALL))
    report = source.poll()
    assert (report.rows, report.dead_rows) == (15_000, 5_000)
    assert found(lake) == {at: f"row {at}" for at in range(15_000)}


@pytest.mark.parametrize("lacking", [("position", "seen_etag"), ("seen_etag",)])
def test_records_of_an_older_store_are_read_and_gone_on_with(
    lake: Session, folder: Path, orders: Source, lacking: tuple[str, ...]
) -> None:
    source = orders()
    (folder / "a.csv").write_text("id,name\n1,a\n")
    file = (folder / "a.csv").stat()
    old = pa.schema([field for field in FILES_SCHEMA if field.name not in lacking])
    lake.store.create_table(FILES, old, ["source", "path"])
    size, time, table = file.st_size, file.st_mtime_ns, lake.store.version.tables["orders"].table_id
    record = ["orders", "a.csv", table, size, time, size, time, 1, 0, None][: len(old)]
    lake.store.ingest_batch({FILES: Put(pa.table([[value] for value in record], schema=old))})
    assert source.list_files() == ()
    (folder / "b.csv").write_text("id,name\n2,b\n")
    assert source.poll().files == 1
    assert [(row["path"], row["position"]) for row in rows(lake, FILES)] == [("a.csv", None), ("b.csv", None)]


@pytest.mark.parametrize("text", ["much", "-1", "0", "nan"])
def test_a_wrong_bound_of_memory_is_refused_by_its_name(
    folder: Path, orders: Source, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    orders()
    monkeypatch.setenv(SETTING, text)
    with pytest.raises(EnvironmentNotReady, match=SETTING):
        orders()


def test_the_tables_of_records_are_made_once(lake: Session) -> None:
    ensure_landing_tables(lake.store)
    epoch = lake.store.refresh().epoch
    ensure_landing_tables(lake.store)
    assert lake.store.refresh().epoch == epoch
