"""The measures of code that is made for it."""

from __future__ import annotations

from tools.shape import Module, count_circles, find_circle, measure_modules


def test_measures_are_those_of_the_modules() -> None:
    modules = {
        "a": Module(10, {"a.f": (3, 7), "a.g": (70, 1)}, imports={"b"}),
        "b": Module(400, {"b.f": (5, 2)}, imports={"a"}),
    }
    found = measure_modules(modules)
    assert found["modules"] == "2"
    assert found["longest module"] == "400 lines, b (at most 450)"
    assert found["longest function"] == "70 lines, a.g"
    assert found["lines of a function, median"] == "5"
    assert found["functions over 60 lines"] == "1"
    assert found["functions with over 6 parameters"] == "1"
    assert found["circles of imports"] == "1"


def test_a_circle_is_found_and_named() -> None:
    modules = {"a": Module(1, imports={"b"}), "b": Module(1, imports={"c"}), "c": Module(1, imports={"a"})}
    found = find_circle(modules)
    assert found[0] == found[-1] and set(found) == {"a", "b", "c"}
    assert count_circles(modules) == 1


def test_modules_below_each_other_are_no_circle() -> None:
    modules = {"a": Module(1, imports={"b", "c"}), "b": Module(1, imports={"c"}), "c": Module(1)}
    assert find_circle(modules) == [] and count_circles(modules) == 0
