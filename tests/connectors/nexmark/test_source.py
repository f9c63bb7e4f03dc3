"""The Nexmark source: each event once, at its rate, over restarts and races; wrong options are named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from engine.connectors.contract.signed_rows import SignedRows
from engine.connectors.nexmark.events import NexmarkEvents
from engine.connectors.nexmark.source import NexmarkSource
from engine.connectors.sources import compute_pending_digest, poll_all
from engine.errors import SqlError
from engine.session import Session

BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, date_time TIMESTAMP"


class Clock:
    """Wall-clock seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def create(lake: Session, name: str = "bid", columns: str = BID, **options: str) -> None:
    texts = {"connector": "nexmark", **options}
    with_ = ", ".join(f"{option} = '{value}'" for option, value in texts.items())
    lake.sql(f"CREATE TABLE {name} ({columns}) APPEND ONLY WITH ({with_})")


def source(lake: Session, clock: Clock | None = None, name: str = "bid") -> NexmarkSource:
    return NexmarkSource(lake.store, lake.catalog.get(name), clock or Clock())


def rows(lake: Session, name: str = "bid") -> pa.Table:
    found = lake.sql(f"SELECT * FROM {name}")
    assert found is not None
    return found


def test_a_source_holds_the_bids_among_its_events_and_then_is_at_rest(lake: Session) -> None:
    create(lake, max_events="1000")
    assert compute_pending_digest(lake.catalog, lake.store)[0] == 1
    (report,) = poll_all(lake.catalog, lake.store)
    assert (report.error, report.rows) == (None, 920)
    expected = NexmarkEvents().generate_rows("bid", 0, 1_000)
    assert sorted(rows(lake)["price"].to_pylist()) == sorted(expected["price"].to_pylist())
    assert compute_pending_digest(lake.catalog, lake.store) == (0, "")
    assert poll_all(lake.catalog, lake.store)[0].rows == 0


def test_events_come_at_their_rate_until_the_last_one(lake: Session) -> None:
    create(lake, event_rate="100", max_events="500", type="bid")
    clock = Clock()
    bids = source(lake, clock)
    assert bids.poll().rows == 0
    counts = []
    for passed in (1, 1, 10):
        clock.now += passed
        counts.append(bids.poll().rows)
    assert counts == [92, 92, 276]
    assert not bids.list_pending()


def test_another_session_goes_on_where_the_last_one_stopped(lake: Session) -> None:
    create(lake, event_rate="100")
    clock = Clock()
    source(lake, clock).poll()
    clock.now += 1
    source(lake, clock).poll()
    with Session(lake.url) as other:
        clock.now += 1
        assert source(other, clock).poll().rows == 92
    keys = rows(lake).num_rows
    assert keys == NexmarkEvents().generate_rows("bid", 0, 200).num_rows


def test_two_pollers_of_one_source_write_each_event_once(
    lake: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(lake, max_events="400")
    slow, quick = source(lake), source(lake)
    make = slow.read

    def raced(split: str, after: str | None, upto: str) -> SignedRows:
        monkeypatch.setattr(slow, "read", make)
        assert quick.poll().rows == 368
        return make(split, after, upto)

    monkeypatch.setattr(slow, "read", raced)
    assert slow.poll().rows == 0
    assert rows(lake).num_rows == 368


def test_a_source_that_is_dropped_and_made_again_begins_anew(lake: Session) -> None:
    create(lake, max_events="100")
    source(lake).poll()
    lake.sql("DROP TABLE bid")
    create(lake, max_events="100")
    assert source(lake).poll().rows == 92


def test_a_table_with_a_key_can_be_fed_too(lake: Session) -> None:
    lake.sql(
        "CREATE TABLE people (id BIGINT PRIMARY KEY, name STRING) WITH (connector = 'nexmark', type = 'person', max_events = '500')"
    )
    assert poll_all(lake.catalog, lake.store)[0].rows == 10
    assert sorted(rows(lake, "people")["id"].to_pylist()) == list(range(1_000, 1_010))


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({}, BID, "never end"),
        ({"max_events": "many"}, BID, "max_events = 'many'"),
        ({"max_events": "5", "type": "bidder"}, BID, "person, auction, bid"),
        ({"max_events": "5"}, "auction BIGINT, colour STRING", "no column colour"),
    ],
)
def test_a_source_that_cannot_run_is_refused_where_it_is_made(
    lake: Session, options: dict[str, str], columns: str, message: str
) -> None:
    with pytest.raises(SqlError) as refused:
        create(lake, columns=columns, **options)
    assert message in f"{refused.value} {refused.value.hint}"
    assert not lake.catalog.relations


def test_a_source_without_a_connector_is_refused(tmp_path: Path) -> None:
    with (
        Session((tmp_path / "store").as_uri()) as session,
        pytest.raises(SqlError, match="needs a connector"),
    ):
        session.sql("CREATE SOURCE bid (auction BIGINT)")
