"""Parts of JSON texts stand as they are written, and what is no JSON has none."""

from __future__ import annotations

from engine.jsonb import parts

WRITTEN = ' { "a" : [1,  {"c":"x"}] , "b": 2, "b":3.0 }'


def test_a_part_keeps_its_spaces() -> None:
    assert parts.member(WRITTEN, "a") == '[1,  {"c":"x"}]'
    assert parts.element("[1 , [2 ,3] ]", 1) == "[2 ,3]"
    assert parts.element("[1, 2]", -2) == "1"
    assert parts.at(WRITTEN, ["a", "1", "c"]) == '"x"'
    assert parts.at(WRITTEN, ["a", "-1"]) == '{"c":"x"}'
    assert parts.at(WRITTEN, []) == WRITTEN


def test_the_last_of_several_values_of_a_key_counts() -> None:
    assert parts.member(WRITTEN, "b") == "3.0"
    assert [key for key, _ in parts.members(WRITTEN) or ()] == ["a", "b", "b"]


def test_a_key_of_an_array_a_place_in_an_object_and_what_is_beyond_the_end_are_nothing() -> None:
    assert parts.member("[1]", "0") is None
    assert parts.element('{"0": 1}', 0) is None
    assert parts.element("[1]", 1) is None
    assert parts.element("[1]", -2) is None
    assert parts.at("[1]", ["x"]) is None
    assert parts.at("[1]", [None]) is None


def test_a_string_is_shown_without_quotes_and_null_as_nothing() -> None:
    assert [parts.shown(text) for text in (r'"a\"b"', "null", " 1.50 ", "[1]")] == [
        'a"b',
        None,
        "1.50",
        "[1]",
    ]


def test_what_is_no_json_has_no_parts() -> None:
    for text in ("", "{", "nope", '{"a"', "[1"):
        assert parts.member(text, "a") is None
        assert parts.at(text, ["a"]) is None
        assert parts.elements(text) in (None, [])


def test_a_value_of_another_kind_is_told() -> None:
    assert parts.number_of("1.5") == "1.5"
    assert parts.number_of("null") is None
    assert parts.number_of('"1"') == "!a jsonb string is no number"
    assert parts.truth_of("true") == "true"
    assert parts.truth_of("1") == "!a jsonb number is no boolean"
    assert parts.length("[1, [2]]") == "2"
    assert parts.length("{}") == "!a jsonb object has no length: it is no array"
