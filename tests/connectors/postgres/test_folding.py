"""Messages that bring whole rows are folded without being taken apart, with the rows that all others give."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from engine.connectors.postgres import changes
from engine.connectors.postgres.changes import FoldedChanges
from engine.connectors.postgres.columns import PostgresType
from engine.connectors.postgres.pgoutput import PublishedColumn, PublishedRelation
from engine.connectors.postgres.whole_rows import read_columns
from engine.errors import SourceError
from engine.sql.catalog import Relation, RelationColumn
from tests.connectors.postgres.test_pgoutput import OID, row

TYPES = {20: PostgresType("int8", "", "bigint"), 25: PostgresType("text", "", "text")}
COLUMNS = {"words": 25, "id": 20, "more": 25, "n": 20, "line": 20}


class KnownTypes:
    """The types of the columns."""

    def find_types(self, oids: Sequence[int]) -> Mapping[int, PostgresType]:
        return TYPES

    def is_partitioned(self, oid: int) -> bool:
        return False


def begin(names: Sequence[str]) -> FoldedChanges:
    """Return the changes of a table whose columns stand in another order than in PostgreSQL, which has one more."""
    kinds = {"id": "bigint", "line": "bigint", "n": "bigint", "words": "string"}
    columns = tuple(RelationColumn(name, kind) for name, kind in kinds.items())
    relation = Relation(
        name="v", kind="table", columns=columns, primary_key=("id", "line"), distribution_key=("id", "line")
    )
    folded = FoldedChanges(relation, "public.v")
    folded.describe(describe(names), KnownTypes())
    return folded


def describe(names: Sequence[str]) -> PublishedRelation:
    told = tuple(PublishedColumn(name, COLUMNS[name], name in ("id", "line")) for name in names)
    return PublishedRelation(16_384, "public", "v", "d", told)


def make_message(chance: random.Random, names: Sequence[str]) -> bytes:
    """Return a random change."""

    def tell(only: Sequence[str] = names, *, no_old: bool = False) -> bytes:
        values = {
            "id": str(chance.randrange(4)),
            "line": str(chance.randrange(2)),
            "n": chance.choice((None, "7", str(chance.randrange(10**9)))),
            "words": chance.choice((None, "", "u", "äu", "x" * 117, "" if no_old else "?")),
            "more": "more",
        }
        return row(*(values[name] if name in only else None for name in names))

    what = chance.random()
    if what < 0.2:
        return b"I" + OID + b"N" + tell(no_old=True)
    if what < 0.75:
        return b"U" + OID + b"N" + tell()
    if what < 0.9:
        return b"U" + OID + b"K" + tell(("id", "line")) + b"N" + tell()
    return b"D" + OID + b"K" + tell(("id", "line"))


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_those_of_messages_that_are_taken_apart(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    names = list(COLUMNS)
    chance.shuffle(names)
    again = [name for name in names if name != "more"]
    quick, plain = begin(names), begin(names)
    for number in range(chance.choice((1, 5, 60))):
        if number == 30:
            names = again
            for one in (quick, plain):
                one.describe(describe(names), KnownTypes())
        message = make_message(chance, names)
        if chance.random() < 0.02:
            quick.empty()
            plain.empty()
        quick.add(message)
        with monkeypatch.context() as patched:
            patched.setattr(changes, "read_whole_row_key", lambda *_: None)
            plain.add(message)
    mine, theirs = quick.build_rows(), plain.build_rows()
    assert mine.rows.to_pylist() == theirs.rows.to_pylist()
    assert (mine.gone is None) == (theirs.gone is None)
    if mine.gone is not None and theirs.gone is not None:
        assert mine.gone.tolist() == theirs.gone.tolist()
    for one, other in zip(quick.list_unchanged()[:2], plain.list_unchanged()[:2], strict=True):
        assert one.tolist() == other.tolist()
    assert quick.list_unchanged()[2] == plain.list_unchanged()[2]
    assert quick.messages == plain.messages and quick.is_emptied == plain.is_emptied


WHOLE = b"U" + OID + b"N" + row("1", "a")


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (WHOLE[:-1], "too early"),
        (WHOLE + b"x", "1 bytes more"),
        (WHOLE[:14] + b"b" + WHOLE[15:], "no form 'b'"),
        (b"U" + OID + b"N" + row("1"), "more or fewer values"),
    ],
)
def test_a_message_that_is_broken_is_told(message: bytes, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        read_columns([WHOLE, message, WHOLE], (0, 1))
