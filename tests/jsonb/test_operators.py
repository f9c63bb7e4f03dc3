"""Comparisons and changes of jsonb values, as PostgreSQL 16 makes them."""

from __future__ import annotations

import pytest

from engine.jsonb import operators


@pytest.mark.parametrize(
    ("whole", "part", "holds"),
    [
        ('{"a": 1, "b": {"c": [1, 2]}}', '{"b": {"c": [2]}}', True),
        ('{"a": 1}', '{"a": 1.0}', True),
        ('["x", "y"]', '"x"', True),
        ('"x"', '["x"]', False),
        ("[1, [1, 3]]", "[3]", False),
        ("[1, [1, 3]]", "[[3]]", True),
        ("[1, 2]", "[2, 2, 1]", True),
        ('{"a": "1"}', '{"a": 1}', False),
        ('{"a": {}}', "{}", True),
        ("[1]", "{}", False),
        ("true", "true", True),
    ],
)
def test_a_value_holds_another_one(whole: str, part: str, holds: bool) -> None:
    assert operators.contains(whole, part) is holds


def test_keys_are_those_of_objects_elements_and_the_string_itself() -> None:
    assert operators.has_key('{"a": null}', "a")
    assert operators.has_key('["a", 1]', "a")
    assert operators.has_key('"a"', "a")
    assert not operators.has_key("[1]", "1")
    assert operators.has_any('{"a": 1}', ["x", "a", None])
    assert not operators.has_all('{"a": 1}', ["x", "a"])


def test_values_are_joined() -> None:
    assert operators.concatenate('{"a": 1, "b": 2}', '{"a": [1]}') == '{"a": [1], "b": 2}'
    assert operators.concatenate("[1]", '{"a": 1}') == '[1, {"a": 1}]'
    assert operators.concatenate("1", "null") == "[1, null]"


def test_parts_are_taken_out() -> None:
    assert operators.delete_key('{"a": 1, "b": 2}', "a") == '{"b": 2}'
    assert operators.delete_key('["a", 1, "a"]', "a") == "[1]"
    assert operators.delete_keys('{"a": 1, "b": 2}', ["a", "b"]) == "{}"
    assert operators.delete_element("[1, 2, 3]", -1) == "[1, 2]"
    assert operators.delete_element("[1]", 5) == "[1]"
    assert operators.delete_path('{"a": [1, {"b": 2}]}', ["a", "1", "b"]) == '{"a": [1, {}]}'
    assert operators.delete_path('{"a": 1}', ["x", "y"]) == '{"a": 1}'
    assert operators.strip_nulls('{"a": null, "b": [null, {"c": null}]}') == '{"b": [null, {}]}'


def test_parts_are_set_and_put_in() -> None:
    assert operators.set_path('{"a": [1, 2]}', ["a", "0"], "9") == '{"a": [9, 2]}'
    assert operators.set_path('{"a": [1]}', ["a", "7"], "9") == '{"a": [1, 9]}'
    assert operators.set_path('{"a": [1]}', ["a", "-7"], "9") == '{"a": [9, 1]}'
    assert operators.set_path('{"a": 1}', ["b"], "9", False) == '{"a": 1}'
    assert operators.set_path('{"a": 1}', ["b", "c"], "9") == '{"a": 1}'
    assert operators.insert_at_path("[1, 2]", ["1"], "9") == "[1, 9, 2]"
    assert operators.insert_at_path("[1, 2]", ["1"], "9", True) == "[1, 2, 9]"
    assert operators.insert_at_path("[1, 2]", ["-1"], "9") == "[1, 9, 2]"


def test_what_cannot_be_changed_so_is_told() -> None:
    assert operators.delete_key("1", "a").startswith("!")
    assert operators.delete_element("{}", 0).startswith("!")
    assert operators.set_path("1", ["a"], "2").startswith("!")
    assert operators.set_path("[1]", ["a"], "2").startswith("!")
    assert operators.insert_at_path('{"a": 1}', ["a"], "2").startswith("!")
