"""Nexmark's persons, auctions and bids by NumPy, after the field rules of the published generator.

Every value is a function of (seed, field, event number), so any range of events can be made, in any order and in any
batches, and is always the same. Of 50 events one is a person, three are auctions, 46 are bids.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import choose_values, join_texts

PROPORTION = 50
AUCTIONS = 3
FIRST_ID = 1_000
FIRST_CATEGORY = 10
CATEGORIES = 5
ACTIVE_PEOPLE = 1_000
IN_FLIGHT_AUCTIONS = 100
HOT_EVERY = 100
HOT_AUCTION_RATIO = 2
HOT_BIDDER_RATIO = 4
HOT_SELLER_RATIO = 4
CHANNELS = 10_000
START = datetime(2015, 7, 15)
EventKind = Literal["person", "auction", "bid"]
SIZES: dict[EventKind, int] = {"person": 200, "auction": 500, "bid": 100}
TIMESTAMP = pa.timestamp("us")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_TEXTS = 2_048
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)


def list_event_numbers(kind: EventKind, start: int, stop: int) -> np.ndarray:
    """Return the event numbers of one kind in [start, stop); raises KeyError for an unknown kind."""
    low, high = {"person": (0, 1), "auction": (1, 1 + AUCTIONS), "bid": (1 + AUCTIONS, PROPORTION)}[kind]
    first, last = start // PROPORTION, -(-stop // PROPORTION)
    found = (np.arange(first, last)[:, None] * PROPORTION + np.arange(low, high)).ravel()
    return found[(found >= start) & (found < stop)]


class NexmarkEvents:
    """The endless sequence of events of one seed; event n happens n / `rate` seconds after `start`."""

    def __init__(self, seed: int = 1, rate: int = 10_000, start: datetime = START) -> None:
        self.seed = seed
        self.rate = rate
        self._start_us = int(np.datetime64(start, "us").astype(np.int64))
        self._texts = _build_text_pool(seed)

    def generate_rows(self, kind: EventKind, start: int, stop: int) -> pa.Table:
        """Return all columns of the persons, auctions or bids among the events [start, stop)."""
        make: Callable[[np.ndarray], dict[str, pa.Array[Any]]] = {
            "person": self._generate_persons,
            "auction": self._generate_auctions,
            "bid": self._generate_bids,
        }[kind]
        return pa.table(make(list_event_numbers(kind, start, stop)))

    def _generate_persons(self, event: np.ndarray) -> dict[str, pa.Array[Any]]:
        first = _choose(FIRST_NAMES, self._draw(1, event))
        last = _choose(LAST_NAMES, self._draw(2, event))
        cards = (pc.utf8_lpad(_to_text(self._draw(n, event) % 10_000), 4, "0") for n in (3, 4, 5, 6))
        mail = join_texts(self._choose_words(7, event), self._choose_words(8, event), by="@")
        return {
            "id": pa.array(_find_last_person(event) + FIRST_ID),
            "name": join_texts(first, last, by=" "),
            "email_address": join_texts(mail, pa.scalar(".com"), by=""),
            "credit_card": join_texts(*cards, by=" "),
            "city": _choose(CITIES, self._draw(9, event)),
            "state": _choose(STATES, self._draw(10, event)),
            "date_time": self._to_timestamps(event),
            "extra": self._generate_padding(11, event, SIZES["person"] - 120),
        }

    def _generate_auctions(self, event: np.ndarray) -> dict[str, pa.Array[Any]]:
        price = self._generate_prices(21, event)
        hot_seller = _find_last_person(event) // HOT_EVERY * HOT_EVERY
        seller = np.where(
            self._draw(22, event) % HOT_SELLER_RATIO > 0, hot_seller, self._choose_persons(23, event)
        )
        # An auction is open for about as long as it takes to make the auctions that are in flight at a time.
        horizon = max(IN_FLIGHT_AUCTIONS * PROPORTION // AUCTIONS * 1_000_000 // self.rate, 1)
        length = 1 + self._draw(24, event) % (2 * horizon)
        return {
            "id": pa.array(_find_last_auction(event) + FIRST_ID),
            "item_name": self._generate_texts(25, event, 20),
            "description": self._generate_texts(26, event, 100),
            "initial_bid": pa.array(price),
            "reserve": pa.array(price + self._generate_prices(27, event)),
            "date_time": self._to_timestamps(event),
            "expires": pa.array(self._compute_micros(event) + length).cast(TIMESTAMP),
            "seller": pa.array(seller + FIRST_ID),
            "category": pa.array(FIRST_CATEGORY + self._draw(28, event) % CATEGORIES),
            "extra": self._generate_padding(29, event, SIZES["auction"] - 200),
        }

    def _generate_bids(self, event: np.ndarray) -> dict[str, pa.Array[Any]]:
        hot_auction = _find_last_auction(event) // HOT_EVERY * HOT_EVERY
        auction = np.where(
            self._draw(41, event) % HOT_AUCTION_RATIO > 0, hot_auction, self._choose_auctions(42, event)
        )
        hot_bidder = _find_last_person(event) // HOT_EVERY * HOT_EVERY + 1
        bidder = np.where(
            self._draw(43, event) % HOT_BIDDER_RATIO > 0, hot_bidder, self._choose_persons(44, event)
        )
        channel, url = self._generate_channels(event)
        return {
            "id": pa.array(event),
            "auction": pa.array(auction + FIRST_ID),
            "bidder": pa.array(bidder + FIRST_ID),
            "price": pa.array(self._generate_prices(45, event)),
            "channel": channel,
            "url": url,
            "date_time": self._to_timestamps(event),
            "extra": self._generate_padding(46, event, SIZES["bid"] - 32),
        }

    def _generate_channels(self, event: np.ndarray) -> tuple[pa.Array[Any], pa.Array[Any]]:
        """Half of the bids come by one of four channels with one address each, the others by one of ten thousand."""
        which = self._draw(50, event)
        hot = which % 2 == 0
        number = np.where(hot, (which >> 1) % len(HOT_CHANNELS), (which >> 1) % CHANNELS)
        one_per_channel = number + np.where(hot, CHANNELS, 0)
        base = join_texts(
            pa.scalar("https://www.nexmark.com"),
            *(self._generate_texts(n, one_per_channel, 5) for n in (51, 52, 53)),
            pa.scalar("item.htm?query=1"),
            by="/",
        )
        # The published generator leaves the id away from one in ten of its cold addresses.
        has_id = ~hot & (number % 10 != 0)
        reversed_id = _to_text(np.abs(np.int64(0x3FFFFFFF) & (number * 2_654_435_761)))
        with_id = join_texts(base, reversed_id, by="&channel_id=")
        named = join_texts(pa.scalar("channel-"), _to_text(number), by="")
        hot_name = _choose(HOT_CHANNELS, number)
        return (
            choose_values(pa.array(hot, pa.bool_()), hot_name, named),
            choose_values(pa.array(has_id, pa.bool_()), with_id, base),
        )

    def _choose_persons(self, field: int, event: np.ndarray) -> np.ndarray:
        """One of the people who came last, or one who is about to."""
        people = _find_last_person(event) + 1
        active = np.minimum(people, ACTIVE_PEOPLE)
        chosen: np.ndarray = np.maximum(people - active + self._draw(field, event) % (active + 10) - 10, 0)
        return chosen

    def _choose_auctions(self, field: int, event: np.ndarray) -> np.ndarray:
        """One of the auctions that are in flight."""
        last = _find_last_auction(event)
        first = np.maximum(last - IN_FLIGHT_AUCTIONS, 0)
        chosen: np.ndarray = first + self._draw(field, event) % (last - first + 1)
        return chosen

    def _generate_prices(self, field: int, event: np.ndarray) -> np.ndarray:
        share = self._draw(field, event).astype(np.float64) / 2.0**62
        return np.round(10.0 ** (share * 6.0) * 100.0).astype(np.int64)

    def _compute_micros(self, event: np.ndarray) -> np.ndarray:
        return self._start_us + event * 1_000_000 // self.rate

    def _to_timestamps(self, event: np.ndarray) -> pa.Array[Any]:
        return pa.array(self._compute_micros(event), pa.int64()).cast(TIMESTAMP)

    def _draw(self, field: int, event: np.ndarray) -> np.ndarray:
        """Return 62 random bits per event: SplitMix64 over seed, field and event number."""
        with np.errstate(over="ignore"):
            x = event.astype(np.uint64) + np.uint64(self.seed % 2**32 * 1_000 + field) * np.uint64(
                0x9E3779B97F4A7C15
            )
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            x = x ^ (x >> np.uint64(31))
        return (x >> np.uint64(2)).astype(np.int64)

    def _choose_words(self, field: int, event: np.ndarray) -> pa.Array[Any]:
        return self._generate_texts(field, event, 7)

    def _generate_texts(self, field: int, event: np.ndarray, length: int) -> pa.Array[Any]:
        """Return random texts of `length` letters."""
        pool = pc.utf8_slice_codeunits(self._texts, 0, length)
        return pool.take(pa.array(self._draw(field, event) % _TEXTS))

    def _generate_padding(self, field: int, event: np.ndarray, length: int) -> pa.Array[Any]:
        """Return the padding that brings an event to its published size, a fifth more or less."""
        long = self._generate_texts(field, event, length + length // 5)
        short = self._generate_texts(field, event, length - length // 5)
        return choose_values(pa.array(self._draw(field + 100, event) % 2 == 0, pa.bool_()), long, short)


def _find_last_person(event: np.ndarray) -> np.ndarray:
    return event // PROPORTION


def _find_last_auction(event: np.ndarray) -> np.ndarray:
    """Return the number of the newest auction at an event; before the first auction that is number 0."""
    group, offset = event // PROPORTION, event % PROPORTION
    newest: np.ndarray = np.maximum(group * AUCTIONS + np.minimum(offset, AUCTIONS) - 1, 0)
    return newest


def _choose(values: tuple[str, ...], draws: np.ndarray) -> pa.Array[Any]:
    return pa.array(values).take(pa.array(draws % len(values)))


def _to_text(values: np.ndarray) -> pa.Array[Any]:
    return pa.array(values, pa.int64()).cast(pa.string())


def _build_text_pool(seed: int) -> pa.Array[Any]:
    letters = _LETTERS[np.random.default_rng(seed).integers(0, 26, (_TEXTS, 400))]
    return pa.array([row.tobytes().decode() for row in letters], pa.string())
