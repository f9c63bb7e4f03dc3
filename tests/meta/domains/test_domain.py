"""Domains: views of one name commit together, the others alone; a ring of domains is refused."""

from __future__ import annotations

import msgspec
import pytest

from engine.errors import SqlError
from engine.meta.catalog.stored_catalog import StoredCatalog
from engine.meta.domains.domain import list_domains
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.expression import nodes
from engine.sql.incremental.fragments import Fragment, IncrementalPlan
from engine.sql.incremental.rules import Linear
from engine.sql.plan import Join, Project, Scan

KEY = ("id",)


def catalog(views: dict[str, tuple[str, str | None]]) -> StoredCatalog:
    """Return a catalog of table `t` and views {name: (what it reads, its domain)}."""
    columns = (RelationColumn("id", "bigint"),)
    relations = {"t": Relation(name="t", kind="table", columns=columns, primary_key=KEY)}
    plans = {}
    for name, (upstream, domain) in views.items():
        options = {"domain": domain} if domain else {}
        relations[name] = Relation(
            name=name, kind="materialized view", columns=columns, options=options, depends_on=(upstream,)
        )
        plan = Project(Scan(upstream, (("id", "id"),), KEY, KEY), (("id", nodes.Column("id")),))
        plans[name] = IncrementalPlan(name, (Fragment(name, Linear(), plan, KEY, KEY, ""),))
    return StoredCatalog(Catalog(relations), plans)


def test_a_view_is_a_domain_of_its_own_by_default() -> None:
    found = list_domains(catalog({"a": ("t", None), "b": ("a", None)}))
    assert {name: domain.members for name, domain in found.items()} == {"a": ("a",), "b": ("b",)}
    assert found["b"].upstreams == ("a",) and found["b"].writer == "b"


def test_views_that_name_a_domain_are_members_in_the_order_in_which_they_run() -> None:
    found = list_domains(catalog({"b": ("a", "daily"), "a": ("t", "daily"), "c": ("b", None)}))
    assert found["daily"].members == ("a", "b")
    assert found["daily"].inputs == ("t",) and found["daily"].writer == "domain/daily"
    assert list(found) == ["daily", "c"]


def test_domains_that_would_wait_for_each_other_are_refused() -> None:
    with pytest.raises(SqlError, match="daily reads between reads daily"):
        list_domains(catalog({"a": ("t", "daily"), "between": ("a", None), "b": ("between", "daily")}))


def test_what_a_view_reads_may_run_between_two_of_its_fragments() -> None:
    """A view may begin before an index of its domain, with a fragment that reads the indexed view alone."""
    found = catalog({"a": ("t", "red"), "v": ("a", "red"), "_index_a": ("a", "red")})
    last = found.plans["v"].fragments[0]
    state = msgspec.structs.replace(last, table="_state_v")
    both = Scan("_index_a", (("id", "id"),), KEY, KEY)
    joined = Join(Scan("_state_v", (("id", "id"),), KEY, KEY), both, "semi", (("id", "id"),))
    plans = {**found.plans, "v": IncrementalPlan("v", (state, msgspec.structs.replace(last, plan=joined)))}
    domain = list_domains(StoredCatalog(found.catalog, plans))["red"]
    assert domain.tables == ("a", "_state_v", "_index_a", "v")
    assert [owner for owner, _ in domain.fragments] == ["a", "v", "_index_a", "v"]
