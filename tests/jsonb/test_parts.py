"""Parts of JSON texts stand as they are written, and what is no JSON has none."""

from __future__ import annotations

from engine.jsonb import parts

WRITTEN = ' { "a" : [1,  {"c":"x"}] , "b": 2, "b":3.0 }'


def test_a_part_keeps_its_spaces() -> None:
    assert parts.find_member(WRITTEN, "a") == '[1,  {"c":"x"}]'
    assert parts.find_element("[1 , [2 ,3] ]", 1) == "[2 ,3]"
    assert parts.find_element("[1, 2]", -2) == "1"
    assert parts.find_at_path(WRITTEN, ["a", "1", "c"]) == '"x"'
    assert parts.find_at_path(WRITTEN, ["a", "-1"]) == '{"c":"x"}'
    assert parts.find_at_path(WRITTEN, []) == WRITTEN


def test_the_last_of_several_values_of_a_key_counts() -> None:
    assert parts.find_member(WRITTEN, "b") == "3.0"
    assert [key for key, _ in parts.list_members(WRITTEN) or ()] == ["a", "b", "b"]


def test_a_key_of_an_array_a_place_in_an_object_and_what_is_beyond_the_end_are_nothing() -> None:
    assert parts.find_member("[1]", "0") is None
    assert parts.find_element('{"0": 1}', 0) is None
    assert parts.find_element("[1]", 1) is None
    assert parts.find_element("[1]", -2) is None
    assert parts.find_at_path("[1]", ["x"]) is None
    assert parts.find_at_path("[1]", [None]) is None


def test_a_string_is_shown_without_quotes_and_null_as_nothing() -> None:
    assert [parts.render_text(text) for text in (r'"a\"b"', "null", " 1.50 ", "[1]")] == [
        'a"b',
        None,
        "1.50",
        "[1]",
    ]


def test_what_is_no_json_has_no_parts() -> None:
    for text in ("", "{", "nope", '{"a"', "[1"):
        assert parts.find_member(text, "a") is None
        assert parts.find_at_path(text, ["a"]) is None
        assert parts.list_elements(text) in (None, [])


def test_a_value_of_another_kind_is_told() -> None:
    assert parts.read_number("1.5") == "1.5"
    assert parts.read_number("null") is None
    assert parts.read_number('"1"') == "!a jsonb string is no number"
    assert parts.read_truth("true") == "true"
    assert parts.read_truth("1") == "!a jsonb number is no boolean"
    assert parts.count_elements("[1, [2]]") == "2"
    assert parts.count_elements("{}") == "!a jsonb object has no length: it is no array"
