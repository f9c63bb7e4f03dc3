"""Positions in the log, and the transactions that a snapshot sees."""

from __future__ import annotations

import pytest

from engine.connectors.postgres.positions import (
    SeenTransactions,
    SlotPosition,
    TableOffset,
    decode_offset,
    encode_offset,
    format_lsn,
    parse_lsn,
)
from engine.errors import SourceError


def test_places_compare_as_numbers() -> None:
    places = ["0/9", "0/10", "0/FFFFFFFF", "1/0", "A/0", "10/0"]
    assert sorted(places, key=parse_lsn) == places
    assert [format_lsn(parse_lsn(place)) for place in places] == places


@pytest.mark.parametrize(
    "offset",
    [
        TableOffset(SlotPosition(0x16B3748)),
        TableOffset(SlotPosition(0x16B3748, SeenTransactions("745:750:746,748", 0x16B3800))),
        TableOffset(SlotPosition(1), 16_384),
        TableOffset(SlotPosition(1, SeenTransactions("7:7:", 2)), 16_384, ("a b", "größe", '"')),
    ],
)
def test_an_offset_is_read_as_it_was_written(offset: TableOffset) -> None:
    assert decode_offset(encode_offset(offset)) == offset


@pytest.mark.parametrize("text", ["", "17", "0/1 seen", "snapshot"])
def test_another_text_is_no_offset(text: str) -> None:
    with pytest.raises(SourceError, match="no position"):
        decode_offset(text)


def test_a_snapshot_sees_what_ended_before_it() -> None:
    seen = SeenTransactions("745:750:746,748", 1_000)
    assert [xid for xid in range(743, 753) if seen.sees(xid)] == [743, 744, 745, 747, 749]


def test_numbers_of_transactions_go_round() -> None:
    seen = SeenTransactions(f"{(3 << 32) + 5}:{(3 << 32) + 10}:{(3 << 32) + 7}", 1_000)
    assert seen.sees(6) and not seen.sees(7) and not seen.sees(11)
    assert seen.sees((1 << 32) - 3)  # of the round before
    last = SeenTransactions(f"{(3 << 32) - 5}:{(3 << 32) - 2}:", 1_000)
    assert last.sees((1 << 32) - 3) and not last.sees((1 << 32) - 1) and not last.sees(4)


def test_a_position_has_taken_what_is_before_it_and_what_its_snapshot_sees() -> None:
    position = SlotPosition(100, SeenTransactions("745:750:746", 200))
    assert position.has_taken(746, 99)
    assert position.has_taken(747, 150)
    assert not position.has_taken(746, 150)
    assert not position.has_taken(747, 200)  # of the same number, a round later
    assert position.move_to(150).has_taken(747, 180)
    assert position.move_to(200) == SlotPosition(200)
