"""A temporal join that has no meaning, or none that can be kept, is refused with its place and with what to write instead."""

from __future__ import annotations

import pytest

from engine.sql.bind.binder import bind
from engine.sql.dialect import Dialect
from engine.sql.statements.reader import CreateMaterializedView, parse_statement
from tests.sql.bind.test_wrong_windows import check
from tests.sql.catalog import small_catalog

AS_OF = "FOR SYSTEM_TIME AS OF PROCTIME()"
ON = "ON a.id = b.auction"
CLOCK = "now() < timestamp_seconds"
# (what stands after SELECT, what the message says, the text that the caret stands under, a word of the remedy)
WRONG = (
    (f"b.id FROM bid b RIGHT JOIN auction {AS_OF} AS a {ON}", "RIGHT JOIN with FOR", "auction", "LEFT JOIN"),
    (f"b.id FROM bid b FULL JOIN auction {AS_OF} AS a {ON}", "FULL JOIN with FOR", "auction", "LEFT JOIN"),
    (f"b.id FROM bid b LEFT SEMI JOIN auction {AS_OF} AS a {ON}", "SEMI JOIN with", "auction", "LEFT JOIN"),
    (f"b.id FROM bid b LEFT ANTI JOIN auction {AS_OF} AS a {ON}", "ANTI JOIN with", "auction", "LEFT JOIN"),
    (f"id FROM auction {AS_OF}", "FOR SYSTEM_TIME AS OF is not", "PROCTIME", "JOIN t FOR SYSTEM_TIME"),
    (f"b.id FROM auction {AS_OF} AS a JOIN bid b {ON}", "FOR SYSTEM_TIME AS OF is not", "PROC", "JOIN t FOR"),
    (
        f"b.id FROM bid b JOIN auction FOR SYSTEM_TIME AS OF now() AS a {ON}",
        "FOR SYSTEM_TIME AS OF is not",
        "now()",
        "AS OF PROCTIME()",
    ),
    (
        f"b.id FROM bid b JOIN auction FOR SYSTEM_TIME AS OF '2026-01-01' AS a {ON}",
        "FOR SYSTEM_TIME AS OF is not",
        "'2026-01-01'",
        "AS OF PROCTIME()",
    ),
    (
        f"b.id FROM bid b JOIN auction FOR SYSTEM_TIME AS OF b.price AS a {ON}",
        "FOR SYSTEM_TIME AS OF is not",
        "b.price",
        "ASOF JOIN t ON",
    ),
    (
        f"b.id FROM bid b JOIN auction FOR SYSTEM_TIME AS OF PROCTIME(1) AS a {ON}",
        "FOR SYSTEM_TIME AS OF is not",
        "PROCTIME(1)",
        "AS OF PROCTIME()",
    ),
    (f"b.id FROM bid b JOIN nothing {AS_OF} AS a {ON}", "no table or view nothing", "nothing", "SHOW TABLES"),
    (f"b.id FROM bid b JOIN auction {AS_OF} AS a ON a.idd = b.id", "no column a.idd", "a.idd", "id?"),
    (f"b.id FROM bid b JOIN auction {AS_OF} AS a ON a.item = b.id", "bigint", "", "CAST"),
    (f"b.id FROM bid b JOIN auction {AS_OF} AS b ON b.id = 1", "b occurs twice", "auction", "alias"),
    (
        f"id FROM event WHERE id IN (SELECT b.id FROM bid b JOIN auction {AS_OF} AS a {ON})",
        "in a subquery of an expression",
        "auction FOR",
        "materialized view",
    ),
    (
        f"id, (SELECT max(a.id) FROM bid b JOIN auction {AS_OF} AS a {ON}) AS m FROM event",
        "in a subquery of an expression",
        "auction FOR",
        "materialized view",
    ),
    (
        f"b.id FROM (SELECT id, auction FROM bid WHERE {CLOCK}(price)) AS b JOIN auction {AS_OF} AS a {ON}",
        "now() in or below a temporal join",
        "auction FOR",
        "above the join",
    ),
    (
        f"b.id FROM bid b LEFT JOIN auction {AS_OF} AS a {ON} AND {CLOCK}(a.category)",
        "now() in or below a temporal join",
        "auction FOR",
        "WHERE",
    ),
    (
        f"b.id FROM bid b LEFT JOIN auction {AS_OF} AS a {ON} AND a.id IN (SELECT id FROM event)",
        "a subquery in ON of an outer join",
        "a.id IN",
        "FROM first",
    ),
    ("id, PROCTIME() AS p FROM bid", "another value each time", "PROCTIME", "column"),
    (
        f"b.id FROM bid b JOIN auction {AS_OF} AS a {ON} AND rand() < 0.5",
        "another value each time",
        "rand",
        "column",
    ),
)


@pytest.mark.parametrize(("text", "says", "under", "remedy"), WRONG)
def test_a_wrong_temporal_join_is_refused_with_its_place_and_a_remedy(
    text: str, says: str, under: str, remedy: str
) -> None:
    check(f"SELECT {text}", says, under, remedy)


def _plan(query: str, dialect: Dialect) -> object:
    statement = parse_statement(f"CREATE MATERIALIZED VIEW v AS SELECT {query}", dialect)
    assert isinstance(statement, CreateMaterializedView)
    bound = bind(statement.query, small_catalog(), dialect=dialect, sql="")
    return bound.plan


@pytest.mark.parametrize("dialect", ["spark", "postgres", "risingwave"])
@pytest.mark.parametrize("side", ["", "LEFT ", "INNER ", "LEFT OUTER "])
def test_the_hint_broadcast_changes_nothing_in_a_temporal_join(dialect: Dialect, side: str) -> None:
    text = "b.id FROM bid AS b {}" + f"{side}JOIN auction {AS_OF} AS a {ON}"
    assert _plan(text.format("BROADCAST "), dialect) == _plan(text.format(""), dialect)


def test_a_table_may_still_be_called_broadcast() -> None:
    text = "broadcast.id FROM bid {}broadcast JOIN auction a ON a.id = broadcast.auction"
    assert _plan(text.format(""), "postgres") == _plan(text.format("AS "), "postgres")
