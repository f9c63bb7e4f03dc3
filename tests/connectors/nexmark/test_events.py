"""Nexmark's events: any range is the same however it is cut, proportions and references hold."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.connectors.nexmark.events import NexmarkEvents

KINDS = ("person", "auction", "bid")


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KINDS), st.lists(st.integers(0, 3_000), min_size=1, max_size=5))
def test_events_are_the_same_however_their_range_is_cut(kind: str, cuts: list[int]) -> None:
    source = NexmarkEvents(seed=3)
    bounds = [0, *sorted(cuts), 3_000]
    pieces = [source.generate_rows(kind, one, two) for one, two in pairwise(bounds)]
    assert (
        pa.concat_tables(pieces)
        .combine_chunks()
        .equals(source.generate_rows(kind, 0, 3_000).combine_chunks())
    )


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids() -> None:
    source = NexmarkEvents()
    assert [source.generate_rows(kind, 0, 5_000).num_rows for kind in KINDS] == [100, 300, 4_600]


def test_another_seed_gives_other_events() -> None:
    assert (
        not NexmarkEvents(1)
        .generate_rows("bid", 0, 500)
        .equals(NexmarkEvents(2).generate_rows("bid", 0, 500))
    )


def test_bids_name_auctions_that_came_before_them() -> None:
    source = NexmarkEvents()
    bids, auctions = source.generate_rows("bid", 0, 50_000), source.generate_rows("auction", 0, 50_000)
    opened = dict(zip(auctions["id"].to_pylist(), auctions["date_time"].to_pylist(), strict=True))
    assert all(opened[row["auction"]] <= row["date_time"] for row in bids.to_pylist())


@pytest.mark.parametrize(("column", "share"), [("auction", 0.5), ("bidder", 0.75)])
def test_half_of_the_bids_go_to_hot_auctions_and_three_quarters_come_from_hot_bidders(
    column: str, share: float
) -> None:
    bids = NexmarkEvents().generate_rows("bid", 0, 100_000)
    rest = pc.subtract(bids[column], pc.multiply(pc.divide(bids[column], 100), 100))
    hot = pc.sum(pc.equal(rest, 1 if column == "bidder" else 0)).as_py() / bids.num_rows
    assert abs(hot - share) < 0.02


def test_channels_other_than_the_four_hot_ones_carry_their_id_in_the_address() -> None:
    bids = NexmarkEvents().generate_rows("bid", 0, 100_000)
    cold = pc.starts_with(bids["channel"], "channel-")
    assert abs(pc.sum(cold).as_py() / bids.num_rows - 0.5) < 0.02
    named = pc.match_substring(bids["url"], "&channel_id=")
    assert pc.all(pc.or_(cold, pc.invert(named))).as_py()
    assert abs(pc.sum(named).as_py() / pc.sum(cold).as_py() - 0.9) < 0.02


def test_an_auction_ends_after_it_began_and_its_reserve_is_above_the_first_bid() -> None:
    auctions = NexmarkEvents().generate_rows("auction", 0, 50_000)
    assert pc.all(pc.greater(auctions["expires"], auctions["date_time"])).as_py()
    assert pc.all(pc.greater(auctions["reserve"], auctions["initial_bid"])).as_py()
