"""Every operator brings the changes that its fixture names, by its fast rule and by the reference rule."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from engine.session import Session
from tests.long_rest import mark_rest_long
from tests.operators.fixture_format import Fixture, Rows, View, as_text, read

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.sql"))
SLICE = 7


@pytest.mark.parametrize("path", mark_rest_long(FIXTURES), ids=lambda path: path.stem)
def test_some_views_of_a_fixture_change_as_written(session: Session, path: Path) -> None:
    fixture = read(path)
    fixture.views = fixture.views[::SLICE]
    check(session, fixture, "fast")


@pytest.mark.oracle
@pytest.mark.parametrize("rules", ["fast", "reference"])
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_every_view_of_a_fixture_changes_as_written(session: Session, path: Path, rules: str) -> None:
    check(session, read(path), rules)


def check(session: Session, fixture: Fixture, rules: str) -> None:
    """Build the fixture's views, run its epochs, and hold every change against what is written."""
    session.dialect = fixture.dialect
    for statement in fixture.tables + fixture.rows:
        session.sql(statement)
    for view in fixture.views:
        options = f"WITH (rules = '{rules}')" if rules != "fast" else ""
        session.sql(f"CREATE MATERIALIZED VIEW {view.name} {options} AS {view.query}", build=False)
    session.flush().raise_for_errors()
    wrong = [_difference(session, view, 0, content(session, view)) for view in fixture.views]
    for number, statements in enumerate(fixture.epochs, 1):
        before = {
            view.name: session.store.version.tables[view.name].committed_epoch for view in fixture.views
        }
        for statement in statements:
            session.sql(statement)
        session.flush().raise_for_errors()
        wrong += [_difference(session, v, number, logged(session, v, before[v.name])) for v in fixture.views]
    assert not any(wrong), "\n".join(line for line in wrong if line)


def content(session: Session, view: View) -> Rows:
    """Return all rows of a view."""
    rows = session.sql(f"SELECT * FROM {view.name}")
    assert rows is not None
    return Counter(as_text(row) for row in rows.to_pylist())


def logged(session: Session, view: View, after: int) -> Rows:
    """Return the net change of a view since `after` as its change log tells it, of its visible columns."""
    shown = session.catalog.get(view.name).visible_storage_names
    version = session.store.refresh().tables[view.name]
    change: Rows = Counter()
    for batch in session.store.reader.read_changes(version, after, version.committed_epoch):
        for row in batch.to_pylist():
            change[as_text({name: row[name] for name in shown})] += row["_w"]
    return Counter({row: weight for row, weight in change.items() if weight})


def _difference(session: Session, view: View, epoch: int, found: Rows) -> str:
    wanted = view.changes[epoch]
    if wanted == found:
        return ""
    rows = sorted(wanted.keys() | found.keys())
    lines = [
        f"{row}: wanted {wanted[row]:+d}, found {found[row]:+d}" for row in rows if wanted[row] != found[row]
    ]
    return f"view {view.name}, epoch {epoch}:\n  " + "\n  ".join(lines)
