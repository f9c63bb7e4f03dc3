"""Parts of a commit made one: no field of a part is lost, whatever fields there are."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from engine.errors import Conflict
from engine.hummock import Commit, Version
from engine.hummock.manifests.commit_merge import merge_commits


def _refuse(_: Version) -> None:
    raise Conflict("it has changed")


def _some(field: dataclasses.Field[Any]) -> Any:
    """Return a value for a field that is not its default."""
    if field.name == "precondition":
        return _refuse
    if field.default_factory is not dataclasses.MISSING:
        return {field.name: {"a": 1}}
    return (field.name,) if field.default == () else field.name


@pytest.mark.parametrize("field", dataclasses.fields(Commit), ids=lambda field: field.name)
def test_each_field_of_each_part_is_in_the_whole(field: dataclasses.Field[Any]) -> None:
    given = _some(field)
    part = Commit(**{field.name: given})
    for parts in ([part], [part, Commit()], [Commit(), part], [Commit(), part, Commit()]):
        assert getattr(merge_commits(*parts), field.name) == given
    assert merge_commits(part, part) == part or field.default == () or field.name == "precondition"


def test_what_two_parts_say_of_a_table_is_put_together() -> None:
    one, other = Commit(pins={"t": {"a": 1}, "u": {"b": 2}}), Commit(pins={"t": {"c": None}})
    assert merge_commits(one, other).pins == {"t": {"a": 1, "c": None}, "u": {"b": 2}}
    assert merge_commits(Commit(drop=("a",)), Commit(drop=("b",))).drop == ("a", "b")
    assert merge_commits() == Commit()


def test_parts_that_contradict_each_other_are_refused() -> None:
    for one, other in (({"epochs": {"t": 1}}, {"epochs": {"t": 2}}), ({"writer": "a"}, {"writer": "b"})):
        with pytest.raises(ValueError, match="said twice"):
            merge_commits(Commit(**one), Commit(**other))


def test_all_preconditions_are_asked() -> None:
    asked = []
    first = Commit(precondition=lambda version: asked.append(version))
    check = merge_commits(first, Commit(), Commit(precondition=_refuse)).precondition
    assert check is not None
    with pytest.raises(Conflict):
        check("the version")  # type: ignore[arg-type]
    assert asked == ["the version"]
