"""What every store of a version before must do: be written anew in one commit, and go on from the content it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.hummock import Hummock
from engine.meta.catalog.plan_upgrade import PLANS, upgrade_plans
from engine.meta.catalog.stored_catalog import load_catalog
from engine.session import Session


def rows(session: Session, query: str) -> list[str]:
    """Return the rows of a query as sorted texts."""
    found = session.sql(query)
    assert found is not None
    return sorted(repr(row) for row in found.to_pylist())


def stored_plans(store: Hummock) -> dict[str, str]:
    """Return the stored text of each view's plan."""
    return PLANS.list_texts(store.refresh().catalog)


def earlier(store: Hummock, is_earlier: Callable[[str], bool]) -> list[str]:
    """Return the views whose stored plans are of the version before."""
    return [view for view, text in stored_plans(store).items() if is_earlier(text)]


def assert_written_anew_in_one_commit(store: Hummock, is_earlier: Callable[[str], bool]) -> None:
    """Fail unless the first look writes all plans in the form of today, with the same meaning, and the second nothing."""
    before = store.refresh()
    plans = load_catalog(before).plans
    after = upgrade_plans(store)
    assert after.number == before.number + 1
    assert load_catalog(after).plans == plans
    assert earlier(store, is_earlier) == []
    assert upgrade_plans(store).number == after.number


def assert_goes_on(
    session: Session, is_earlier: Callable[[str], bool], changes: Iterable[str], queries: dict[str, str]
) -> None:
    """Fail unless every view takes the changes from where it stands and then equals its query."""
    for change in changes:
        session.sql(change)
    report = session.flush()
    assert [view.error for view in report.views if view.error] == []
    assert {view.view for view in report.views if view.rebuilt} == set()
    for view, query in queries.items():
        assert rows(session, f"SELECT * FROM {view}") == rows(session, query), view
    assert earlier(session.store, is_earlier) == []
