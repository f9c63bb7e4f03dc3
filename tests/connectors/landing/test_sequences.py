"""A sequence orders the changes of a key, whatever files they come in; deletions are remembered."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.connectors.landing import commits
from engine.connectors.landing.sequences import select_newest
from engine.connectors.landing.source import LandingSource
from engine.errors import SqlError
from engine.session import Session
from engine.sql.catalog import sequences_name
from tests.connectors.landing.test_options import held, list_dead_letters

Source = Callable[..., LandingSource]
DEBEZIUM = {"format": "json", "envelope": "debezium"}


def test_the_highest_sequence_of_a_key_counts(lake: Session, folder: Path, orders: Source) -> None:
    source = orders("id INT PRIMARY KEY, v STRING, seq BIGINT", sequence="SEQ")
    (folder / "1.csv").write_text("id,v,seq\n1,new,9\n1,old,3\n2,a,5\n3,x,1\n")
    source.poll()
    assert held(lake) == [(1, "new", 9), (2, "a", 5), (3, "x", 1)]
    (folder / "2.csv").write_text("id,v,Seq,_op\n1,older,8,\n2,b,5,\n3,y,0,delete\n")
    source.poll()
    assert held(lake) == [(1, "new", 9), (2, "b", 5), (3, "x", 1)]  # of equal ones the last
    (folder / "3.csv").write_text("id,_op,seq\n1,delete,20\n3,delete,7\n4,delete,7\n")
    (folder / "4.jsonl").write_text('{"id": 1, "v": "back", "seq": 19}\n{"id": 4, "v": "late", "seq": 6}\n')
    source.poll()
    assert held(lake) == [(2, "b", 5)]
    (folder / "5.csv").write_text("id,v,seq\n3,again,7\n4,again,8\n")
    source.poll()
    assert held(lake) == [(2, "b", 5), (3, "again", 7), (4, "again", 8)]
    assert held(lake, sequences_name("orders")) == [(1, 20), (2, 5), (3, 7), (4, 8)]
    assert not list_dead_letters(lake)


def test_a_row_without_a_sequence_is_set_aside(lake: Session, folder: Path, orders: Source) -> None:
    source = orders("id INT PRIMARY KEY, v STRING, seq INT", sequence="seq")
    (folder / "1.csv").write_text("id,v,seq,_op\n1,a,,\n2,b,x,\n3,c,x,delete\n4,d,1,\n")
    (folder / "2.csv").write_text("id,v\n5,e\n")
    (folder / "3.jsonl").write_text(
        '{"id": 6}\n{"id": 7, "seq": null, "_op": "delete"}\n{"id": 8, "seq": 1}\n'
    )
    (folder / "seq=4").mkdir()
    (folder / "seq=4" / "a.csv").write_text("id,v\n9,f\n")
    source.poll()
    assert held(lake) == [(4, "d", 1), (8, None, 1), (9, "f", 4)]
    none = "column seq, which sequence names, has no value"
    assert list_dead_letters(lake) == [
        ("1.csv", 2, none),
        ("1.csv", 3, 'column seq: "x" is no INT'),
        ("1.csv", 4, 'column seq: "x" is no INT'),
        ("2.csv", 0, "the file has no column seq, which sequence names; it has id, v"),
        ("3.jsonl", 1, none),
        ("3.jsonl", 2, none),
    ]


def test_a_folder_may_name_a_sequence_that_the_table_lacks(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("id INT PRIMARY KEY, v STRING", sequence="batch")
    for at, rows in (("9", "1,new\n2,a\n"), ("10", "1,newest\n"), ("x", "3,a\n")):
        (folder / f"Batch={at}").mkdir()
        (folder / f"Batch={at}" / "a.csv").write_text(f"id,v\n{rows}")
    (folder / "Batch=9" / "b.jsonl").write_text(
        '{"id": 1, "v": "old"}\n{"id": 2, "v": "b", "batch": 9}\n{"id": 4, "batch": 8}\n'
    )
    assert source.poll().warnings == (
        "Batch=x/a.csv: the folder Batch=x names no value that column batch can have",
    )
    assert held(lake) == [(1, "newest"), (2, "b")]
    assert [letter[:2] for letter in list_dead_letters(lake)] == [
        ("Batch=9/b.jsonl", 3),
        ("Batch=x/a.csv", 0),
    ]


def test_changes_of_dms_go_by_a_column_that_the_table_lacks(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("id DOUBLE PRIMARY KEY, v STRING", operation="Op", sequence="AR_H_CHANGE_SEQ")
    at = 20240102030405060000000000000000000
    (folder / "2.csv").write_text(f"Op,id,v,AR_H_CHANGE_SEQ\nU,0.0,b,{at + 2}\nU,1,x,soon\n")
    (folder / "3.csv").write_text(f"Op,id,v,ar_h_change_seq\nD,-0.0,,{at + 3}\nI,NaN,n,{at + 9}\n")
    pq.write_table(
        pa.table(
            {"Op": ["I", "I", "U"], "id": [0.0, 2.0, float("nan")], "v": ["a", "c", "m"]}
            | {"AR_H_CHANGE_SEQ": [f"{at + 1}", f"{at + 4}", f"{at + 8}"]}
        ),
        folder / "4.parquet",
    )
    report = source.poll()
    assert [(str(key), v) for key, v in held(lake)] == [("2.0", "c"), ("nan", "n")]
    (letter,) = list_dead_letters(lake)
    assert letter[:2] == ("2.csv", 3) and letter[2].startswith('column AR_H_CHANGE_SEQ: "soon" is no DECIMAL')
    assert not any("AR_H" in warning for warning in report.warnings)


def test_changes_of_debezium_go_by_a_place_in_their_envelope(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("id INT PRIMARY KEY, v STRING, ts_ms BIGINT", sequence="source.lsn", **DEBEZIUM)
    changes = [
        {"op": "d", "before": {"id": 1}, "source": {"lsn": 30}},
        {"payload": {"op": "c", "after": {"id": 1, "v": "a", "ts_ms": 99}, "source": {"lsn": 29}}},
        {"op": "u", "after": {"id": 2, "v": "b", "ts_ms": 1}, "source": {"lsn": "9007199254740993"}},
        {"op": "u", "after": {"id": 2, "v": "c", "ts_ms": 2}, "source": {"lsn": 9007199254740992}},
        {"op": "c", "after": {"id": 3}, "source": {"lsn": None}},
        {"op": "c", "after": {"id": 4}, "source": [7]},
        {"op": "c", "after": {"id": 5}, "source": {"lsn": {"a": 1}}},
    ]
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, changes)) + "\n")
    report = source.poll()
    assert held(lake) == [(2, "b", 1)]
    none = "column source.lsn, which sequence names, has no value"
    assert [(line, reason) for _, line, reason in list_dead_letters(lake)][:2] == [(5, none), (6, none)]
    assert len(list_dead_letters(lake)) == 3 and not report.warnings


@pytest.mark.parametrize("seed", range(4))
def test_changes_in_any_order_give_what_they_give_in_theirs(
    lake: Session, folder: Path, orders: Source, seed: int
) -> None:
    random_ = random.Random(seed)
    source = orders("id INT, part STRING, v INT, PRIMARY KEY (id, part)", sequence="lsn")
    rows = dict[tuple[int, str], int]()
    changes = []
    for lsn in range(200):
        key, gone = (random_.randrange(12), random_.choice("ab")), random_.random() < 0.3
        changes.append({"id": key[0], "part": key[1], "lsn": lsn * 1_000_003, "v": lsn})
        if gone:
            changes[-1]["_op"] = "delete"
            rows.pop(key, None)
        else:
            rows[key] = lsn
    random_.shuffle(changes)
    while changes:
        count = random_.randrange(1, 40)
        name = f"{random_.randrange(10**9)}-{len(changes)}.jsonl"
        (folder / name).write_text("".join(json.dumps(change) + "\n" for change in changes[:count]))
        del changes[:count]
        if random_.random() < 0.6:
            source.poll()
    source.poll()
    assert held(lake) == sorted(((*key, v) for key, v in rows.items()), key=repr)


def test_what_another_poller_has_taken_meanwhile_counts(
    lake: Session, folder: Path, orders: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, others = orders("id INT PRIMARY KEY, v STRING", sequence="n"), list[int]()

    def interrupted(*given: Any) -> Any:
        found = select_newest(*given)
        if not others:
            others.append(1)
            (folder / "0.csv").write_text("id,n,_op,v\n1,5,delete,\n")
            orders().poll(limit=1)
        return found

    monkeypatch.setattr(commits, "select_newest", interrupted)
    (folder / "1.csv").write_text("id,n,v\n1,4,a\n2,4,b\n")
    source.poll()
    assert held(lake) == [(2, "b")]
    assert held(lake, sequences_name("orders")) == [(1, 5), (2, 4)]


def test_a_table_that_is_made_anew_knows_no_sequences(lake: Session, folder: Path, orders: Source) -> None:
    (folder / "1.csv").write_text("id,n,v\n1,5,a\n")
    orders("id INT PRIMARY KEY, v STRING", sequence="n").poll()
    lake.sql("DROP TABLE orders")
    assert sequences_name("orders") not in lake.store.refresh().tables
    (folder / "1.csv").write_text("id,n,v\n1,4,b\n")
    orders("id INT PRIMARY KEY, v STRING, n DATE", sequence="n", date_format="epoch_days").poll()
    assert [row[:2] for row in held(lake)] == [(1, "b")]


def test_columns_may_come_and_go(lake: Session, folder: Path, orders: Source) -> None:
    source = orders("id INT PRIMARY KEY, v STRING, n INT", sequence="n")
    (folder / "1.csv").write_text("id,n,v\n1,5,a\n")
    source.poll()
    lake.sql("ALTER TABLE orders DROP COLUMN n")
    (folder / "2.csv").write_text("id,n,v\n1,4,b\n2,4,b\n")
    orders().poll()
    assert held(lake) == [(1, "a"), (2, "b")]


def test_a_sequence_that_becomes_a_column_goes_on_as_it_was(
    lake: Session, folder: Path, orders: Source
) -> None:
    source = orders("id INT PRIMARY KEY, v STRING", sequence="n")
    (folder / "1.csv").write_text("id,n,v\n1,5,a\n2,4,b\n")
    source.poll()
    lake.sql("ALTER TABLE orders ADD COLUMN N STRING")
    (folder / "2.csv").write_text("id,n,v\n1,06,c\n2,x,c\n")
    orders().poll()
    assert held(lake) == [(1, "c", "06"), (2, "b", None)]
    assert [line for _, line, _ in list_dead_letters(lake)] == [3]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("id INT, v INT", {"sequence": "v"}, "t has no PRIMARY KEY"),
        ("id INT PRIMARY KEY, v INT", {"sequence": " "}, "has no name"),
        ("id INT PRIMARY KEY, v INT", {"sequence": "_OP"}, "defines the operation"),
        ("id INT PRIMARY KEY, v INT", {"sequence": "Id"}, "is of the key"),
        ("id INT PRIMARY KEY, v ARRAY<INT>", {"sequence": "v"}, "gives changes no order"),
        ("id INT PRIMARY KEY, v BOOLEAN", {"sequence": "v"}, "gives changes no order"),
        ("id INT PRIMARY KEY, v INT DEFAULT 1", {"sequence": "v"}, "has a DEFAULT"),
        ("id INT PRIMARY KEY, v INT", {"sequence": "v", **DEBEZIUM}, "of an envelope is not what orders"),
        (
            "id INT PRIMARY KEY, v INT",
            {"sequence": "source.", **DEBEZIUM},
            "of an envelope is not what orders",
        ),
    ],
)
def test_what_cannot_order_changes_is_refused(
    lake: Session, folder: Path, columns: str, options: dict[str, str], message: str
) -> None:
    texts = ", ".join(f"{name} = '{value}'" for name, value in options.items())
    with pytest.raises(SqlError, match=message):
        lake.sql(f"CREATE TABLE t ({columns}) WITH (connector = 'landing', path = 'landing', {texts})")


def test_keys_that_come_once_have_no_sequence(lake: Session, folder: Path) -> None:
    with pytest.raises(SqlError, match="is APPEND ONLY: a key of it comes once"):
        lake.sql(
            "CREATE TABLE t (id INT PRIMARY KEY, v INT) APPEND ONLY "
            "WITH (connector = 'landing', path = 'landing', sequence = 'v')"
        )
