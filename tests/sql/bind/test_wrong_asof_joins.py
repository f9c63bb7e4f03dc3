"""An as-of join that has no meaning, or none that can be kept, is refused with its place and with what to write instead."""

from __future__ import annotations

import pytest

from tests.sql.bind.test_wrong_windows import check

JOIN = "b.id FROM bid b ASOF JOIN auction a ON a.id = b.auction"
ORDER = "AND b.price >= a.category"
# (what stands after SELECT, what the message says, the text that the caret stands under, a word of the remedy)
WRONG = (
    (JOIN, "no comparison by order", "auction a", "a.time >= b.time"),
    ("b.id FROM bid b ASOF JOIN auction a USING (id)", "no comparison by order", "auction a", "a.time >="),
    ("b.id FROM bid b ASOF CROSS JOIN auction a", "no comparison by order", "auction a", "a.time >= b.time"),
    (f"{JOIN} {ORDER} AND b.price <= a.id", "more than one comparison", "b.price <= a.id", "a.time >="),
    (f"{JOIN} AND b.price <> a.category", "this condition in ON", "b.price <>", "WHERE"),
    (f"{JOIN} {ORDER} AND b.note = 'x'", "this condition in ON", "b.note", "subquery in FROM"),
    (f"{JOIN} {ORDER} OR b.id = 1", "this condition in ON", "a.id = b.auction AND", "WHERE"),
    (f"{JOIN} AND timestamp_seconds(b.price) >= now()", "this condition in ON", "timestamp_sec", "WHERE"),
    (f"{JOIN} {ORDER} AND a.id IS NOT DISTINCT FROM b.id", "this condition in ON", "a.id IS NOT", "WHERE"),
    (f"{JOIN} AND b.price >= (SELECT max(id) FROM event)", "subquery in ON of an as-of", "b.price", "FROM"),
    (f"{JOIN} AND b.price >= a.kategory", "no column a.kategory", "a.kategory", "category"),
    (f"{JOIN} AND b.note >= a.id", "string with bigint", "b.note >= a.id", "CAST"),
    (f"{JOIN} AND b.auction >= a.id", "by these sides", "b.auction >= a.id", "not compared by = already"),
    (
        f"{JOIN} AND CAST(b.price AS DOUBLE) >= CAST(a.category AS DOUBLE)",
        "in the order of double",
        "b.price AS",
        "DECIMAL",
    ),
    (f"b.id FROM bid b ASOF RIGHT JOIN auction a ON a.id = b.id {ORDER}", "RIGHT JOIN", "auction a", "LEFT"),
    (f"b.id FROM bid b ASOF FULL JOIN auction a ON a.id = b.id {ORDER}", "FULL JOIN", "auction a", "LEFT"),
    (f"b.id FROM bid b ASOF SEMI JOIN auction a ON a.id = b.id {ORDER}", "SEMI JOIN", "auction a", "LEFT"),
    (
        f"b.id FROM bid b ASOF JOIN auction FOR SYSTEM_TIME AS OF PROCTIME() a ON a.id = b.auction {ORDER}",
        "ASOF JOIN with FOR SYSTEM_TIME",
        "auction FOR",
        "one of the two",
    ),
    (
        f"id FROM event WHERE id IN (SELECT {JOIN} {ORDER})",
        "in a subquery of an expression",
        "auction a",
        "materialized view",
    ),
)


@pytest.mark.parametrize(("text", "says", "under", "remedy"), WRONG)
def test_a_wrong_asof_join_is_refused_with_its_place_and_a_remedy(
    text: str, says: str, under: str, remedy: str
) -> None:
    check(f"SELECT {text}", says, under, remedy)
