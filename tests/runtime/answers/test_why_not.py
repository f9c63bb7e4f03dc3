"""Why a row of a view is not there: what was planted to keep it out is what is named, and what cannot be answered is said."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.errors import EpochFailed, SqlError
from engine.runtime.answers.why_not import RowAbsence
from engine.session import Session
from tests.runtime.answers.views import create_tables, create_views, load_rows, make_rows

SEMI, ANTI = "semi join (EXISTS, IN)", "anti join (NOT EXISTS, NOT IN)"


@dataclass(frozen=True)
class Plant:
    """A statement that keeps the row of a view with the values of `asked` out, by the operator that is named for it."""

    view: str
    asked: str
    statement: str
    operator: str
    reason: str = ""


PLANTS = [
    Plant("cheap", "id", "UPDATE bid SET price = 70 WHERE id = {id}", "filter", "bid.price = 70"),
    Plant("cheap", "id", "DELETE FROM bid WHERE id = {id}", "scan", "bid has no row with id = "),
    Plant("pairs", "id", "UPDATE bid SET auction = NULL WHERE id = {id}", "join", "b.auction is null"),
    Plant(
        "pairs",
        "id",
        "UPDATE bid SET auction = 777 WHERE id = {id}",
        "join",
        "auction has no row with id = 777",
    ),
    Plant(
        "pairs",
        "id seller",
        "UPDATE auction SET seller = 'zoe' WHERE seller = {seller}",
        "join",
        "seller is 'zoe'",
    ),
    Plant(
        "padded",
        "id reserve",
        "UPDATE bid SET auction = 777 WHERE id = {id}",
        "left join",
        "no row with id = 777",
    ),
    Plant("strict", "id", "UPDATE bid SET rate = 1000 WHERE id = {id}", "filter", "1000.0"),
    Plant("strict", "id", "UPDATE bid SET price = -5 WHERE id = {id}", "join", "b.price = -5"),
    Plant(
        "strict", "id", "UPDATE auction SET reserve = -1 WHERE reserve >= 0", "filter", "auction.reserve = -1"
    ),
    Plant("sold", "id", "DELETE FROM bid WHERE auction = {id}", SEMI, "bid has no row with auction = "),
    Plant(
        "unsold",
        "id",
        "INSERT INTO bid (id, auction) VALUES (500, {id})",
        ANTI,
        "a row of bid is found with b.auction",
    ),
    Plant(
        "unmatched",
        "id",
        "INSERT INTO auction (id, reserve) SELECT coalesce(auction, 555), 1000 FROM bid WHERE id = {id} "
        "ON CONFLICT (id) DO UPDATE SET reserve = 1000",
        ANTI,
        "of auction",
    ),
    Plant(
        "repeated",
        "auction",
        "DELETE FROM bid WHERE auction <=> {auction} AND id > 0",
        "scan",
        "bid has no row",
    ),
    Plant(
        "repeated",
        "auction",
        "UPDATE bid SET id = id + 1000 WHERE auction <=> {auction}",
        "filter",
        "max(bid.id) < 1000",
    ),
    Plant(
        "best",
        "auction best",
        "UPDATE bid SET price = 999 WHERE auction <=> {auction}",
        "aggregate",
        "max(bid.price) is 999",
    ),
    Plant("first", "id", "UPDATE bid SET price = -1000 WHERE id = {id}", "first rows", "price = -1000"),
    Plant(
        "leaders",
        "id",
        "UPDATE bid SET auction = 3, price = CASE WHEN id = {id} THEN 1 ELSE 5000 END",
        "first rows",
    ),
    Plant(
        "running",
        "id t",
        "UPDATE bid SET price = coalesce(price, 0) + 7 WHERE id = {id}",
        "window",
        "sum(bid.price) is",
    ),
    Plant(
        "windows", "window_start", "UPDATE bid SET at = at + INTERVAL 9 DAYS", "projection", "window_start is"
    ),
    Plant("either", "auction", "INSERT INTO auction (id) VALUES ({auction})", "filter"),
    Plant("shared", "auction", "DELETE FROM bid WHERE auction = {auction}", "filter"),
    Plant("parts", "id part", "UPDATE auction SET seller = 'q' WHERE id = {id}", "unnest", "'q'"),
    Plant(
        "numbers",
        "n what",
        "UPDATE bid SET id = id + 3000 WHERE id = {n}",
        "scan",
        "bid has no row with id = ",
    ),
    Plant(
        "by_seller",
        "seller",
        "DELETE FROM bid WHERE auction IN (SELECT id FROM auction WHERE seller = {seller})",
        "join",
    ),
    Plant("totals", "n", "INSERT INTO bid (id) VALUES (700)", "aggregate", "count(*) is"),
    Plant("wholly", "id", "DELETE FROM bid WHERE id = {id}", "full refresh"),
]
SAMPLE = [0, 3, 7, 9, 10, 13, 15, 17, 24]
"""One for each kind of operator; all of them are planted in the long test."""


def to_literal(value: object) -> str:
    """Return a value as SQL has it."""
    return "NULL" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


def ask_for_planted(session: Session, plant: Plant, draw: random.Random) -> RowAbsence | None:
    """Keep a row of a view out, and return why it is not there; None if the view has no row of which nothing asked is null."""
    rows = session.sql(f"SELECT * FROM {plant.view}")
    assert rows is not None
    wanted = plant.asked.split()
    known = [row for row in rows.to_pylist() if all(row[name] is not None for name in wanted)]
    if plant.view == "numbers":
        known = [row for row in known if row["what"] == "bid"]
    if not known:
        return None
    row = draw.choice(known)
    session.sql(plant.statement.format(**{name: to_literal(value) for name, value in row.items()}))
    session.flush().raise_for_errors()
    return session.why_not(plant.view, {name: row[name] for name in wanted})


def check(plant: Plant, absence: RowAbsence) -> None:
    loss = absence.loss
    assert loss.operator == plant.operator and plant.reason in loss.reason, (
        f"{plant}: {loss.operator}, {loss.reason}"
    )
    assert absence.view == plant.view and absence.steps[0].operator == "view"
    if loss.operator not in ("scan", "full refresh"):
        assert loss.rows.num_rows and loss.text
    assert loss.operator == "scan" or (loss.relation, loss.operator) in {
        (step.relation, step.operator) for step in absence.steps
    }


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session over the tables with some rows, and the views of the sample."""
    with Session((tmp_path_factory.mktemp("shop") / "store").as_uri(), spark) as opened:
        create_tables(opened)
        load_rows(opened, make_rows(1))
        create_views(opened, [PLANTS[at].view for at in SAMPLE])
        yield opened


def test_what_was_planted_to_keep_a_row_out_is_named(shop: Session) -> None:
    draw = random.Random(4)
    for plant in (PLANTS[at] for at in SAMPLE):
        found = ask_for_planted(shop, plant, draw)
        assert found is not None, plant
        check(plant, found)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_so_is_whatever_keeps_rows_out_of_views_of_every_kind(
    tmp_path: object, spark: SparkSession, seed: int
) -> None:
    draw, asked = random.Random(seed), 0
    for number, plant in enumerate(PLANTS):
        with Session(f"file://{tmp_path}/shop-{number}", spark) as session:
            create_tables(session)
            load_rows(session, make_rows(seed))
            create_views(session, [plant.view])
            found = ask_for_planted(session, plant, draw)
            if found is not None:
                check(plant, found)
                asked += 1
    assert asked >= len(PLANTS) - 3


def test_an_older_epoch_is_answered_as_it_was(shop: Session) -> None:
    shop.sql("INSERT INTO bid (id, auction, price) VALUES (900, 1, 60)")
    shop.flush()
    before = shop.why_not("cheap", 900)
    assert "bid.price = 60" in before.loss.reason
    shop.sql("UPDATE bid SET price = 10 WHERE id = 900")
    shop.flush()
    with pytest.raises(SqlError, match=r"(?s)cheap has a row with id = 900 at epoch.*tideline why cheap"):
        shop.why_not("cheap", 900)
    again = shop.why_not("cheap", 900, at=before.epoch)
    assert (again.epoch, again.loss.reason) == (before.epoch, before.loss.reason)
    with pytest.raises(EpochFailed, match="has no content at epoch"):
        shop.why_not("cheap", 901, at=shop.store.version.epoch + 1)


def test_each_way_into_a_view_has_its_loss(spark: SparkSession, tmp_path: object) -> None:
    with Session(f"file://{tmp_path}/store", spark) as session:
        session.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, k BIGINT)")
        session.sql("INSERT INTO a VALUES (1, 10), (2, NULL)")
        session.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k AS n FROM a WHERE k > 10 UNION ALL SELECT id FROM a WHERE id > 1"
        )
        found = session.why_not("v", {"n": 10})
        assert [(loss.operator, loss.text) for loss in found.losses] == [
            ("filter", "a.k > 10"),
            ("scan", "a"),
        ]
        session.sql("CREATE MATERIALIZED VIEW w AS SELECT id, k FROM a WHERE k < 5 OR k > 5")
        nothing = session.why_not("w", 2)
        assert "(null, so neither true nor false): a.k = null" in nothing.loss.reason
        assert nothing.loss.rows.to_pylist() == [{"a.id": 2, "a.k": None}]


def test_what_loses_a_row_is_found_below_the_columns_that_are_computed_of_it(
    spark: SparkSession, tmp_path: object
) -> None:
    with Session(f"file://{tmp_path}/store", spark) as session:
        session.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, k BIGINT, _x STRING)")
        session.sql("INSERT INTO a VALUES (1, 10, 'p'), (2, 25, 'q'), (3, 31, NULL)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT CAST(id AS STRING) AS s, k FROM a WHERE k > 20")
        session.sql(
            "CREATE MATERIALIZED VIEW w AS SELECT k DIV 10 AS step, count(*) AS n FROM a WHERE _x <> 'q' GROUP BY k DIV 10"
        )
        found = session.why_not("v", {"s": "1"}).loss
        assert (found.operator, found.reason) == ("filter", "a.k > 20 is not true of the row: a.k = 10")
        missing = session.why_not("v", {"s": "9"}).loss
        assert missing.operator == "projection" and missing.reason.startswith(
            "s is '1' or '2' or '3', not '9'"
        )
        found = session.why_not("w", 2).loss
        assert found.operator == "filter" and found.reason.endswith("a._x = 'q'")
        assert found.rows.to_pylist() == [{"a.id": 2, "a.k": 25, "a._x": "q"}]
        found = session.why_not("w", {"step": 1, "n": 5}).loss
        assert (found.operator, found.reason) == ("aggregate", "count(*) is 1, not 5")


def test_wanted_values_pass_through_the_equalities_of_joins(spark: SparkSession, tmp_path: object) -> None:
    with Session(f"file://{tmp_path}/store", spark) as session:
        session.sql("CREATE TABLE o (k BIGINT PRIMARY KEY, d BIGINT)")
        session.sql("CREATE TABLE l (n BIGINT PRIMARY KEY, k BIGINT)")
        session.sql("INSERT INTO o VALUES (2, 5), (3, 6)")
        session.sql("INSERT INTO l VALUES (10, 1), (30, 3)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT l.n, l.k, o.d FROM o JOIN l ON l.k = o.k")
        for asked in ({"k": 1, "d": 5}, {"d": 5, "k": 1, "n": 10}):
            loss = session.why_not("v", asked).loss
            assert (loss.operator, loss.text) == (
                "scan",
                "o",
            ) and "o has no row with d = 5, k = 1" in loss.reason
        other = session.why_not("v", {"n": 30, "d": 5}).loss
        assert (other.operator, other.reason) == ("join", "l has no row with k = 2, n = 30: l.k is 3, not 2")
        missing = session.why_not("v", {"d": 5}).loss
        assert (missing.operator, missing.reason) == ("join", "l has no row with k = 2")
        session.sql("CREATE MATERIALIZED VIEW w AS SELECT o.d, l.k, l.n FROM o LEFT JOIN l ON l.k = o.k")
        padded = session.why_not("w", {"d": 6, "k": None}).loss
        assert (padded.operator, padded.reason) == ("left join", "l.k is 3, not null")
        met = session.why_not("w", {"d": 5, "k": 3}).loss
        assert (met.operator, met.reason) == ("scan", "o has no row with d = 5, k = 3: o.d is 6, not 5")


def test_a_sentence_says_no_more_than_is_true(spark: SparkSession, tmp_path: object) -> None:
    with Session(f"file://{tmp_path}/store", spark) as session:
        session.sql("CREATE TABLE a (id BIGINT PRIMARY KEY, x BIGINT, y BIGINT, s STRING)")
        session.sql("CREATE TABLE b (id BIGINT PRIMARY KEY, x BIGINT, y BIGINT)")
        session.sql("INSERT INTO b VALUES (1, 1, 1)")
        long = "s" * 5000
        rows = {"id": [1, 2, 3], "x": [1, None, 2], "y": [None, 2, 2], "s": ["p", f"{long}1", "q"]}
        session.write("a", pa.table(rows))
        views = {
            "met": "SELECT a.id FROM a JOIN b ON a.x = b.x AND a.y = b.y",
            "none": "SELECT id FROM a ORDER BY id LIMIT 0",
            "sets": "SELECT x, y, count(*) AS n FROM a GROUP BY GROUPING SETS ((x), (y))",
            "short": "SELECT id, s FROM a WHERE length(s) < 5",
            "named": "SELECT id, concat(s, '') AS s FROM a",
        }
        for name, query in views.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}", build=False)
        session.flush().raise_for_errors()
        assert session.why_not("met", 1).loss.reason == "a.y is null in the row, and null equals nothing"
        assert session.why_not("met", 2).loss.reason == "a.x is null in the row, and null equals nothing"
        assert session.why_not("none", 1).loss.reason == "LIMIT 0 lets no row through"
        reasons = {loss.reason for loss in session.why_not("sets", {"x": 1, "y": 2}).losses}
        assert reasons == {"a.y is null, not 2", "a.x is null, not 1"}
        reason = session.why_not("short", 2).loss.reason
        assert reason.endswith("… (5,003 characters)") and len(reason) < 400
        reason = session.why_not(
            "named", {"id": 2, "s": f"{long}2"}
        ).loss.reason  # the last character differs
        assert reason.count("5,003 characters") == 2 and len(reason) < 700


def test_a_window_that_is_open_is_told_by_its_time(spark: SparkSession, tmp_path: object) -> None:
    with Session(f"file://{tmp_path}/store", spark) as session:
        session.sql(
            "CREATE TABLE t (id BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '30 minutes') APPEND ONLY"
        )
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT id, at FROM t EMIT ON WINDOW CLOSE")
        session.sql("INSERT INTO t VALUES (1, TIMESTAMP '2026-01-01 01:00:00')")
        session.flush().raise_for_errors()
        loss = session.why_not("v", {"id": 1}).loss
        assert (loss.operator, loss.text) == ("window close", "at < _watermark_t")
        stands = "at = 2026-01-01 01:00:00+00:00, _watermark_t = 2026-01-01 00:30:00+00:00"
        assert loss.reason == f"at < _watermark_t is not true of the row: {stands}"


@pytest.mark.parametrize(
    ("view", "key", "message"),
    [
        ("bid", [1], "bid is a table"),
        ("best", [1, 2], "the key of best is auction: 2 values were given"),
        ("best", {"price": 1}, "best has no column price"),
        ("cheap", {}, "nothing is said of the row that cheap lacks.*name values"),
    ],
)
def test_what_names_no_row_is_refused(shop: Session, view: str, key: object, message: str) -> None:
    if view == "best" and "best" not in shop.catalog.relations:
        create_views(shop, ["best"])
    with pytest.raises(SqlError, match=f"(?s){message}"):
        shop.why_not(view, key)  # type: ignore[arg-type]
