"""Logs of Delta tables read without Spark: what each version did, which schema there is, and which versions a commit takes."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.delta.log import DeltaLog, Metadata, parse_delta_place
from engine.connectors.delta.steps import (
    DeltaPosition,
    DeltaStep,
    HistoryGone,
    has_next,
    plan_next_step,
    plan_snapshot,
)
from engine.connectors.delta.types import parse_schema
from engine.errors import PathNotAllowed, SourceError
from engine.hummock.object_store import open_object_store

LONG = {"name": "id", "type": "long", "nullable": False, "metadata": {}}
CHECKPOINT = pa.struct(
    [("id", pa.string()), ("schemaString", pa.string()), ("configuration", pa.map_(pa.string(), pa.string()))]
)
FEED = {"delta.enableChangeDataFeed": "true"}


def schema(*more: Any) -> str:
    return json.dumps({"type": "struct", "fields": [LONG, *more]})


def metadata(id: str = "A", configuration: dict[str, str] | None = None, *more: Any) -> dict[str, Any]:
    said = {
        "id": id,
        "schemaString": schema(*more),
        "configuration": FEED if configuration is None else configuration,
    }
    return {"metaData": {**said, "partitionColumns": [], "format": {"provider": "parquet", "options": {}}}}


def added(size: int = 10, *, data_change: bool = True) -> dict[str, Any]:
    return {"add": {"path": "x", "size": size, "dataChange": data_change, "stats": "{}"}}


class Written:
    """A log that a test writes, version by version."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.next = folder / "_delta_log", 0
        self.folder.mkdir(parents=True)
        self.log = DeltaLog(parse_delta_place(str(folder)))

    def commit(self, *actions: dict[str, Any], operation: str = "WRITE") -> None:
        lines = [{"commitInfo": {"operation": operation, "n": self.next}}, *actions]
        self.entry(self.next).write_text("\n".join(json.dumps(line) for line in lines) + "\n")
        self.next += 1

    def entry(self, version: int) -> Path:
        return self.folder / f"{version:020d}.json"

    def steps(self, at: DeltaPosition, most: int = 100) -> list[tuple[str, int, int, int]]:
        found = []
        while (step := plan_next_step(self.log, "t", at, most)) is not None:
            found.append((step.kind, step.first, step.last, step.then.version))
            at = step.then
        return found

    def start(self) -> DeltaStep:
        return plan_snapshot(self.log, "snapshot")


@pytest.fixture
def written(tmp_path: Path) -> Written:
    made = Written(tmp_path / "delta")
    made.commit(metadata())
    return made


def test_versions_of_a_feed_are_taken_together_up_to_a_size(written: Written) -> None:
    at = written.start().then
    for _ in range(4):
        written.commit(added(40))
    written.commit(added(500))
    written.commit({"cdc": {"path": "c", "size": 30, "dataChange": False}}, added(900))
    assert written.steps(at) == [("feed", 1, 2, 2), ("feed", 3, 4, 4), ("feed", 5, 5, 5), ("feed", 6, 6, 6)]


def test_versions_without_a_change_join_any_other(written: Written) -> None:
    at = written.start().then
    written.commit(added(data_change=False), operation="OPTIMIZE")
    written.commit({"txn": {"appId": "a", "version": 1}})
    assert written.steps(at) == [("nothing", 1, 2, 2)]
    written.commit(added())
    written.commit(added(data_change=False), operation="OPTIMIZE")
    assert written.steps(at) == [("feed", 3, 3, 4)]


def test_a_step_of_a_feed_has_one_schema_and_one_of_files_ends_at_its_newest_version(
    written: Written,
) -> None:
    at = written.start().then
    extra = {"name": "v", "type": "string", "nullable": True, "metadata": {}}
    written.commit(added())
    written.commit(metadata("A", None, extra))
    written.commit(added())
    written.commit(metadata("A", {}, extra))
    written.commit(added())
    written.commit(metadata("A", {}))
    written.commit(added())
    written.commit(metadata("A", FEED))
    written.commit(added())
    assert written.steps(at) == [
        ("feed", 1, 1, 1),
        ("feed", 3, 3, 4),
        ("files", 5, 8, 8),
        ("feed", 9, 9, 9),
    ]


def test_what_does_not_follow_is_said_once_what_came_before_is_taken(written: Written) -> None:
    at = written.start().then
    written.commit(added())
    written.commit(added(), operation="RESTORE")
    step = plan_next_step(written.log, "t", at)
    assert step is not None and step.then.version == 1
    with pytest.raises(
        HistoryGone, match="version 2 of its Delta table restored an earlier one: ALTER TABLE t RESYNC"
    ):
        plan_next_step(written.log, "t", step.then)
    written.commit(metadata("B"), added())
    with pytest.raises(HistoryGone, match="created the table again"):
        plan_next_step(written.log, "t", snapshot_at(written, 2))


def snapshot_at(written: Written, version: int) -> DeltaPosition:
    digest = written.log.compute_digest(version)
    assert digest is not None
    return DeltaPosition(version, digest, written.log.read_metadata(version))


def test_entries_that_are_gone_or_others(written: Written) -> None:
    for _ in range(3):
        written.commit(added())
    at = snapshot_at(written, 1)
    assert has_next(written.log, at)
    written.entry(2).unlink()
    with pytest.raises(HistoryGone, match=r"version 2 of the Delta table at .* is no longer in its log"):
        plan_next_step(written.log, "t", at)
    newest = snapshot_at(written, 0)
    written.entry(0).write_text(written.entry(0).read_text() + "\n")
    with pytest.raises(HistoryGone, match="was dropped and created again: version 0 is another one"):
        plan_next_step(written.log, "t", newest)
    written.entry(1).unlink()
    assert has_next(written.log, at)
    with pytest.raises(HistoryGone, match=r"version 1 of .* is gone"):
        plan_next_step(written.log, "t", at)


def test_metadata_is_found_in_checkpoints_of_all_forms(written: Written) -> None:
    for _ in range(3):
        written.commit(added())
    assert written.log.read_metadata(3) == Metadata("A", schema(), FEED)
    for version in range(3):
        written.entry(version).unlink()
    with pytest.raises(SourceError, match="does not tell its schema at version 3"):
        written.log.read_metadata(3)
    kind = pa.struct(
        [
            ("id", pa.string()),
            ("schemaString", pa.string()),
            ("configuration", pa.map_(pa.string(), pa.string())),
        ]
    )
    said = {"id": "A", "schemaString": schema(), "configuration": list(FEED.items())}
    parts = (None, said)
    for n, part in enumerate(parts, 1):
        rows = pa.table(
            {"metaData": pa.array([None, part], kind), "add": pa.array([None, None], pa.string())}
        )
        pq.write_table(rows, written.folder / f"{2:020d}.checkpoint.{n:010d}.{2:010d}.parquet")
    assert written.log.read_metadata(3) == Metadata("A", schema(), FEED)
    for file in written.folder.glob("*.parquet"):
        file.unlink()
    lines = [{"checkpointMetadata": {"version": 2}}, metadata("C")]
    name = f"{2:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (written.folder / name).write_text("\n".join(map(json.dumps, lines)))
    assert written.log.read_metadata(3).id == "C"


def test_a_log_on_s3_is_read_by_the_same_words(s3_url: str) -> None:
    lines = "\n".join(json.dumps(line) for line in (metadata(), added()))
    open_object_store(s3_url).put(f"delta/_delta_log/{0:020d}.json", lines.encode())
    log = DeltaLog(parse_delta_place(f"{s3_url}/delta/"))
    assert log.place.spark == f"s3a://{s3_url.removeprefix('s3://')}/delta"
    at = plan_snapshot(log, "snapshot").then
    assert (at.version, at.metadata.id, has_next(log, at)) == (0, "A", False)
    open_object_store(s3_url).put(f"delta/_delta_log/{1:020d}.json", json.dumps(added()).encode())
    assert has_next(log, at)
    step = plan_next_step(log, "t", at)
    assert step is not None and (step.kind, step.then.version) == ("feed", 1)


def test_what_can_not_be_read_is_said(tmp_path: Path, written: Written) -> None:
    with pytest.raises(SourceError, match="there is no Delta table at"):
        DeltaLog(parse_delta_place(str(tmp_path / "nowhere"))).find_newest_version()
    with pytest.raises(SourceError, match="holds no version"):
        DeltaLog(parse_delta_place(str(tmp_path))).find_newest_version()


def test_a_broken_log_is_told_with_the_name_of_the_file(written: Written) -> None:
    name, said = f"_delta_log/{1:020d}.json", metadata()["metaData"]
    at = written.start().then
    lines = [
        *(b"", b"\n\n", b"{", b"null", b"[]", b"\xff\xfe", b'{"add": 1}', b'{"add": {"path": "\xe9"}}'),
        *(
            b'{"add": {"path": "a", "size": "b"}}',
            b'{"add": {"path": "a"}}\n{"ad',
            b'{"metaData": {"id": null}}',
        ),
        *(
            json.dumps({"metaData": {**said, "configuration": what}}).encode()
            for what in (None, 1, {"a": None})
        ),
        *(
            json.dumps({"metaData": {**said, "schemaString": text}}).encode()
            for text in ("", "{}", None, "[1]")
        ),
    ]
    for line in lines:
        written.entry(1).write_bytes(line)
        for read in (
            lambda: written.log.read_commit(1),
            lambda: plan_next_step(written.log, "t", at),
        ):
            with pytest.raises(
                SourceError, match=f"{name} of the Delta table at .* can't be read .* restore it"
            ):
                read()


def test_what_came_before_a_broken_entry_is_taken(written: Written) -> None:
    at = written.start().then
    written.commit(added())
    written.entry(2).write_text("{")
    step = plan_next_step(written.log, "t", at)
    assert step is not None and (step.kind, step.then.version) == ("feed", 1)
    with pytest.raises(SourceError, match=f"{2:020d}.json of the Delta table"):
        plan_next_step(written.log, "t", step.then)


def test_a_log_damaged_at_random_is_read_or_told(written: Written) -> None:
    written.commit(added(), added(2))
    written.commit(metadata("A", {}, {"name": "v", "type": "string", "nullable": True, "metadata": {}}))
    log, random = written.log, Random(7)
    said = {"id": "A", "schemaString": schema(), "configuration": [("a", "b")]}
    checkpoint = written.folder / f"{1:020d}.checkpoint.parquet"
    pq.write_table(pa.table({"metaData": pa.array([None, said], CHECKPOINT)}), checkpoint)
    whole = {path: path.read_bytes() for path in written.folder.iterdir()}
    for _ in range(400):
        for path, text in whole.items():
            path.write_bytes(text)
        path = random.choice(list(whole))
        data = bytearray(whole[path])
        if random.random() < 0.4:
            del data[random.randrange(len(data)) :]
        for _ in range(random.randrange(3)):
            if data:
                data[random.randrange(len(data))] = random.randrange(256)
        path.write_bytes(data)
        if random.random() < 0.5:
            written.entry(0).unlink()
        try:
            at = DeltaPosition(1, log.compute_digest(1) or "", log.read_metadata(1))
            while (step := plan_next_step(log, "t", at)) is not None:
                at = step.then
            plan_snapshot(log, "snapshot")
        except SourceError:
            continue


def test_types_as_create_table_has_them() -> None:
    nested = {
        "type": "struct",
        "fields": [
            {"name": "a", "type": {"type": "array", "elementType": "integer", "containsNull": True}},
            {"name": "m", "type": {"type": "map", "keyType": "string", "valueType": "decimal(38,18)"}},
        ],
    }
    fields = [
        *(
            "string",
            "long",
            "integer",
            "short",
            "byte",
            "float",
            "double",
            "boolean",
            "binary",
            "date",
            "timestamp",
        ),
        *("timestamp_ntz", "decimal(10,2)", "varchar(4)", "variant", "void", nested),
        {"type": "array", "elementType": "variant", "containsNull": True},
    ]
    given = [{"name": f"c{n}", "type": kind, "nullable": n % 2 == 0} for n, kind in enumerate(fields)]
    found = parse_schema(json.dumps({"type": "struct", "fields": given}))
    assert [column.type for column in found] == [
        *(
            "string",
            "bigint",
            "int",
            "smallint",
            "tinyint",
            "float",
            "double",
            "boolean",
            "binary",
            "date",
            "timestamp",
        ),
        *("timestamp_ntz", "decimal(10,2)", "string", None, None),
        "struct<a:array<int>,m:map<string,decimal(38,18)>>",
        None,
    ]
    assert [column.nullable for column in found[:2]] == [True, False]
    for text in ("", "{}", '{"fields": [1]}', '{"fields": [{"name": "a"}]}'):
        with pytest.raises(SourceError, match="schema in the Delta log can't be read"):
            parse_schema(text)


def test_keys_in_an_address_are_refused_and_not_shown() -> None:
    with pytest.raises(SourceError, match="keys have no place in an address") as refused:
        parse_delta_place("s3://AKIA:hidden@bucket/table")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("place", "file", "refused"),
    [
        ("home/t", "file:///home/t/a%20b.parquet", ""),
        ("home/t", "file:/home/t/../u/a", ""),
        ("home/t", "file:///home/t/%2e%2E/../x/a", "lies outside of"),
        ("home/t", "/x/a", "lies outside of"),
        ("home/t", "s3://other/a", "no place of this project"),
        ("home/t", "s3://lake/in/a", ""),
        ("home/t", "hdfs://x/home/t/a", "a place that is not read"),
        ("home/t", "HTTP://x/a", "a place that is not read"),
        ("s3://lake/in", "s3://lake/in/a%20b", ""),
        ("s3://lake/in", "s3a://lake/in/b", ""),
        ("s3://lake/in", "s3n://lake/inner/b", "no place of this project"),
        ("s3://lake/in", "s3a://lake/in/../out", "no address of a bucket"),
        ("s3://lake/in", "file:///home/t/a", ""),
        ("s3://lake/in", "file:///etc/a", "lies outside of"),
    ],
)
def test_files_that_a_log_names_lie_where_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, file: str, refused: str
) -> None:
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TIDELINE_ALLOWED_PATHS", "s3://lake/in")
    at = parse_delta_place(place.removeprefix("home/"))
    named = file.replace("/home/", f"{tmp_path}/home/")
    with pytest.raises(PathNotAllowed, match=refused) if refused else nullcontext():
        at.check_files([named])


@pytest.mark.parametrize(
    "name",
    ["../../secret/x", "a/%2e%2e/../../x", "..%2F..%2Fsecret", "%2Ftmp/x", "file:///etc/x", "hdfs://x/y"],
)
def test_a_log_can_not_name_files_that_lie_elsewhere(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    at = written.start().then
    monkeypatch.setenv("TIDELINE_HOME", str(tmp_path / "delta"))
    written.commit({"add": {"path": name, "size": 1, "dataChange": True}})
    with pytest.raises(PathNotAllowed):
        plan_next_step(written.log, "t", at)


def test_a_step_tells_whether_rows_were_tracked_all_the_while(tmp_path: Path) -> None:
    names = {
        "delta.rowTracking.materializedRowIdColumnName": "a",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "b",
    }
    on, off = {"delta.enableRowTracking": "true", **names}, {"delta.enableRowTracking": "false", **names}
    other = {**on, "delta.rowTracking.materializedRowIdColumnName": "c"}
    for number, (first, *then, kept) in enumerate(
        ((on, on, True), (on, off, on, False), (off, on, False), (on, other, False))
    ):
        written = Written(tmp_path / str(number))
        written.commit(metadata("A", first))
        at = written.start().then
        for said in then:
            written.commit(metadata("A", said), added(data_change=False))
        step = plan_next_step(written.log, "t", at)
        assert step is not None and (step.kind, step.keeps_ids) == ("nothing", kept)
