"""A small catalog for tests of the SQL front end."""

from __future__ import annotations

from engine.sql.catalog import Catalog, Relation, RelationColumn


def table(name: str, columns: dict[str, str], key: str, append_only: bool = False) -> Relation:
    """Return a table relation."""
    listed = tuple(RelationColumn(column, kind) for column, kind in columns.items())
    return Relation(
        name=name,
        kind="table",
        columns=listed,
        primary_key=(key,),
        distribution_key=(key,),
        append_only=append_only,
    )


def small_catalog() -> Catalog:
    """Return bids, auctions and a plain view over them."""
    tables = [
        table("bid", {"id": "bigint", "auction": "bigint", "price": "bigint", "note": "string"}, "id"),
        table("auction", {"id": "bigint", "item": "string", "category": "int"}, "id"),
        table("event", {"id": "bigint", "kind": "string", "amount": "decimal(10,2)"}, "id", append_only=True),
    ]
    view = Relation(
        name="dear",
        kind="view",
        columns=(RelationColumn("id", ""), RelationColumn("price", "")),
        sql="CREATE VIEW dear AS SELECT id, price FROM bid WHERE price > 50",
        depends_on=("bid",),
    )
    return Catalog({relation.name: relation for relation in [*tables, view]})
