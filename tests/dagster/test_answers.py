"""Questions about rows as a job: the answers stand in the metadata of its event, and what can't be asked fails with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from dagster_tideline.answers import ANSWERS, build_answers_job
from dagster_tideline.naming import Naming
from tests.dagster.conftest import Project, failure


@pytest.fixture
def current(project: Project) -> Project:
    """A project whose views have all that was written."""
    project.land("1.csv", "id,shop,price\n1,a,10\n2,b,30\n3,a,5\n")
    assert project.run().success
    return project


def ask(project: Project, **config: object) -> dict[str, Any]:
    """Ask a question, and return the answer's metadata."""
    result = project.maintain(ANSWERS, dict(config), of=build_answers_job(Naming()))
    assert result.success, failure(result)
    return project.read_metadata("tideline_answers")


def test_questions_are_answered_in_the_metadata(current: Project) -> None:
    why = ask(current, ask="why", view="totals", key=["a"])
    assert (why["view"], why["question"], why["key"], why["orders_rows"]) == ("totals", "why", "a", 2)
    assert "| 3 | a | 5" in why["orders"] and "| totals | aggregate | 1 |" in why["steps"]
    before = current.session.common_epoch("totals")
    why_not = ask(current, ask="why_not", view="totals", key=["c"])
    assert why_not["reason"] == "scan in totals: orders has no row with shop = 'c'"
    assert "| totals | scan |" in why_not["losses"] and "rows" not in why_not
    current.session.sql("DELETE FROM orders WHERE id = 3")
    current.session.flush()
    diff = ask(current, ask="diff", view="totals", at=str(before))
    assert (diff["updated"], diff["inserted"], diff["unchanged"]) == (1, 0, 1) and "| update | a |" in diff[
        "rows"
    ]
    blame = ask(current, ask="blame", view="totals", key=["shop=a"])
    assert blame["number_of_changes"] == 2 and blame["known"] == "from its creation on"
    assert "15 -> 10" in blame["changes"]


def test_what_cannot_be_asked_fails_with_the_reason(current: Project) -> None:
    job = build_answers_job(Naming())
    for config, reason in (
        ({"view": "nothing", "key": ["a"]}, "there is no table or view nothing"),
        ({"view": "totals", "key": ["z"]}, "totals has no row with shop = z"),
        ({"view": "totals", "key": ["a"], "ask": "why_not"}, "totals has a row with shop = a"),
        ({"view": "totals", "ask": "diff", "at": "soon"}, "soon"),
    ):
        result = current.maintain(ANSWERS, config, of=job)
        assert not result.success and reason in failure(result)
