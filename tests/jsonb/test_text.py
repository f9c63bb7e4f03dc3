"""The normal form of jsonb, as PostgreSQL 16 shows it."""

from __future__ import annotations

import pytest

from engine.jsonb.text import NotJson, normalize_json, parse_json, render_pretty


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"bb":1,"a":2,"c":3}', '{"a": 2, "c": 3, "bb": 1}'),
        ('{"é":1,"zz":2,"y":3}', '{"y": 3, "zz": 2, "é": 1}'),
        ('{"a":1,"a":{"x":1,"x":[ ]}}', '{"a": {"x": []}}'),
        ("[1.50,1e3,-0,-0.0,1E-3,1.5e1]", "[1.50, 1000, 0, 0.0, 0.001, 15]"),
        (r'"\u00e9\/\u001F\n\"\\"', '"é/\\u001f\\n\\"\\\\"'),
        (" true ", "true"),
        ("[null , false]", "[null, false]"),
        ("123456789012345678901234567890.10", "123456789012345678901234567890.10"),
    ],
)
def test_a_text_is_brought_into_the_form_in_which_equal_values_have_equal_bytes(
    text: str, shown: str
) -> None:
    assert normalize_json(text) == shown
    assert normalize_json(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        "1 2",
        "'a'",
        "NaN",
        "01",
        r'"\u0000"',
        r'"\ud800"',
        "[" * 100_000,
        "1e999999",
        "1e99999999999999999999",
        "[-0e-99999999999999999999]",
    ],
)
def test_what_jsonb_cannot_hold_is_told(text: str) -> None:
    with pytest.raises(NotJson):
        normalize_json(text)


def test_a_value_over_several_lines_is_indented_by_four() -> None:
    shown = '[\n    {\n        "a": 1,\n        "bb": null\n    },\n    [\n    ]\n]'
    assert render_pretty(parse_json('[{"bb":null,"a":1},[]]')) == shown
