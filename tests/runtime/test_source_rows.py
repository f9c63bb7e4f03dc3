"""Sources whose rows only come: the generator's bids are read where they are, views keep what their rules need."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from engine.connectors.nexmark.events import NexmarkEvents
from engine.errors import SqlError
from engine.hummock import Commit
from engine.meta.domains.domain import format_holder
from engine.session import Session
from tests.connectors.passing import check_views, create_views, kept, poll

BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, date_time TIMESTAMP"
VIEWS = {
    "dear": "SELECT auction, price FROM bid WHERE price > 5000000",
    "by_channel": "SELECT channel, count(*) AS n, max(price) AS best, count(DISTINCT bidder) AS bidders FROM bid GROUP BY channel",
    "named": "SELECT b.auction, b.price, p.name FROM bid b JOIN person p ON b.bidder = p.id",
    "best": "SELECT auction, bidder, price FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, bidder, "
    "date_time) AS n FROM bid) r WHERE n <= 1",
    "again": "SELECT best AS price, count(*) AS n FROM by_channel GROUP BY best",
}


def create(session: Session, most: int, *, kind: str = "SOURCE") -> None:
    said = f"connector = 'nexmark', max_events = '{most}'"
    session.sql(f"CREATE {kind} bid ({BID}) {'' if kind == 'SOURCE' else 'APPEND ONLY'} WITH ({said})")
    session.sql(f"CREATE SOURCE person (id BIGINT, name STRING) WITH ({said})")


def there(most: int) -> dict[str, pa.Table]:
    events = NexmarkEvents()
    return {"bid": events.generate_rows("bid", 0, most), "person": events.generate_rows("person", 0, most)}


@pytest.mark.parametrize("early", [True, False])
def test_views_hold_the_same_made_before_and_after_the_rows_came(session: Session, early: bool) -> None:
    create(session, 2_000)
    if not early:
        poll(session)
        assert kept(session, "bid") == (0, 0)  # nobody follows it, so nothing was written
    create_views(session, VIEWS)
    if early:
        check_views(session, {name: rows.slice(0, 0) for name, rows in there(2_000).items()}, VIEWS)
        poll(session)
        assert kept(session, "bid")[1] == len(there(2_000)["bid"])
    check_views(session, there(2_000), VIEWS)
    session.store.gc(grace_seconds=0)
    assert [kept(session, name) for name in ("bid", "person")] == [(0, 0), (0, 0)]


def test_a_source_and_a_table_of_the_same_connector_are_joined(session: Session) -> None:
    create(session, 1_000, kind="TABLE")
    poll(session, "bid")
    create_views(session, {"named": VIEWS["named"]})
    poll(session, "person")
    check_views(session, there(1_000), {"named": VIEWS["named"]})


def test_a_source_is_read_where_it_is_as_far_as_it_was_taken(session: Session) -> None:
    create(session, 500)
    assert session.sql("SELECT count(*) AS n FROM bid").to_pylist() == [{"n": 0}]
    poll(session)
    rows = there(500)["bid"]
    found = session.sql("SELECT count(*) AS n, sum(price) AS total FROM bid WHERE channel = 'Apple'")
    prices = [
        p for p, c in zip(rows["price"].to_pylist(), rows["channel"].to_pylist(), strict=True) if c == "Apple"
    ]
    assert found.to_pylist() == [{"n": len(prices), "total": sum(prices) if prices else None}]
    assert sorted(session.sql("SELECT price FROM bid")["price"].to_pylist()) == sorted(
        rows["price"].to_pylist()
    )
    session.sql("CREATE TABLE copied AS SELECT auction, price FROM bid")
    assert len(session.sql("SELECT * FROM copied")) == len(rows)


def test_one_run_after_another_process_ended_goes_on_where_it_stood(session: Session) -> None:
    create(session, 1_000)
    create_views(session, VIEWS)
    with Session(session.url, session.spark) as other:
        poll(other)
        other.flush(["dear"]).raise_for_errors()
    with Session(session.url, session.spark) as third:
        check_views(third, there(1_000), VIEWS)
    check_views(session, there(1_000), VIEWS)


@pytest.mark.long
def test_views_that_are_built_step_by_step_load_the_rows_and_let_them_go(session: Session) -> None:
    create(session, 3_000)
    poll(session)
    with Session(session.url, session.spark, backfill_rows=100) as small:
        create_views(small, VIEWS)
        check_views(small, there(3_000), VIEWS)
    assert [kept(session, name)[0] for name in ("bid", "person")] == [0, 0]
    assert all(not session.store.refresh().tables[name].pins for name in ("bid", "person"))


@pytest.mark.long
def test_a_source_is_dropped_with_its_views_and_made_anew(session: Session) -> None:
    create(session, 200)
    poll(session)
    create_views(session, {"dear": VIEWS["dear"]})
    with pytest.raises(SqlError, match="bid is read by dear"):
        session.sql("DROP SOURCE bid")
    with pytest.raises(SqlError, match="bid is a source, not a table"):
        session.sql("DROP TABLE bid")
    session.sql("DROP SOURCE bid CASCADE")
    assert session.sql("SHOW SOURCES").to_pylist() == [{"name": "person", "kind": "source"}]
    assert session.sql("SHOW TABLES").num_rows == 0
    session.sql("DROP SOURCE person")
    create(session, 300)
    poll(session)
    create_views(session, VIEWS)
    check_views(session, there(300), VIEWS)


@pytest.mark.long
def test_a_view_that_is_dropped_while_it_is_built_lets_go_of_what_was_loaded(session: Session) -> None:
    create(session, 300)
    poll(session)
    with pytest.raises(Exception, match=r"(?i)divi"):
        session.sql(
            "CREATE MATERIALIZED VIEW broken AS SELECT auction, price / (price - price) AS q FROM bid"
        )
    assert not session.store.refresh().tables["bid"].pins
    session.store.gc(grace_seconds=0)
    assert kept(session, "bid") == (0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE SOURCE x (auction BIGINT PRIMARY KEY) WITH (connector = 'nexmark', type = 'bid', max_events = '9')", "PRIMARY KEY"),
        (
            "CREATE SOURCE x (auction BIGINT DEFAULT 1) WITH (connector = 'nexmark', type = 'bid', max_events = '9')",
            "has a DEFAULT",
        ),
        (
            "CREATE SOURCE x (date_time TIMESTAMP, WATERMARK FOR date_time AS date_time) WITH (connector = 'nexmark', "
            "type = 'bid', max_events = '9')",
            "WATERMARK FOR is no clause of a source",
        ),
        ("CREATE SOURCE x (auction BIGINT) APPEND ONLY WITH (connector = 'nexmark', max_events = '9')", "APPEND ONLY is no clause"),
        ("CREATE SOURCE x (id BIGINT) WITH (connector = 'landing', path = 'x')", "does not keep"),
        ("CREATE SOURCE x (auction BIGINT) WITH (connector = 'nexmark', type = 'bid', max_events = '9', retention_seconds = '9')", "no option of a source"),
        ("INSERT INTO bid VALUES (1, 1, 1, 'a', NULL)", "it is a source"),
        ("DELETE FROM bid", "it is a source"),
        ("CREATE INDEX i ON bid (auction)", "is a source"),
        ("CREATE SINK k FROM bid WITH (connector = 'file', path = 'x')", "is a source"),
        ("ALTER SOURCE bid RENAME TO b", "ALTER SOURCE … RENAME is not offered"),
        ("ALTER SOURCE bid RESYNC", "ALTER SOURCE … RESYNC is not offered"),
        ("ALTER TABLE bid RESYNC", "bid is a source, not a table"),
        ("CREATE MATERIALIZED VIEW v AS WITH c AS CHANGELOG FROM bid SELECT * FROM c", "CHANGELOG FROM a source"),
        ("CREATE MATERIALIZED VIEW v WITH (refresh_policy = 'full') AS SELECT auction FROM bid", "rows of source bid are not kept"),
        ("CREATE MATERIALIZED VIEW v WITH (partition_by = 'channel') AS SELECT channel, count(*) AS n FROM bid GROUP BY channel", "rows of a source are not kept"),
    ],
)  # fmt: skip
def test_what_needs_the_rows_is_refused_and_says_why(session: Session, text: str, message: str) -> None:
    create(session, 100)
    with pytest.raises(SqlError) as refused:
        session.sql(text)
    assert message in str(refused.value)
    assert "x" not in session.catalog.relations and "v" not in session.catalog.relations


def test_what_was_loaded_for_a_view_of_another_name_is_let_go_of(session: Session) -> None:
    create(session, 300)
    poll(session)
    create_views(session, {"dear": VIEWS["dear"]})
    table = session.store.refresh().tables["bid"]
    session.store.commit(
        Commit(pins={"bid": {format_holder("earlier"): table.committed_epoch, "mine": table.committed_epoch}})
    )
    session.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM bid")
    assert set(session.store.refresh().tables["bid"].pins) == {"mine"}


@pytest.mark.long
def test_a_session_alone_has_who_reads_sources() -> None:
    text = (
        "import engine.session; from engine.runtime.source_rows import get_source_reader; get_source_reader()"
    )
    subprocess.run([sys.executable, "-c", text], check=True)
