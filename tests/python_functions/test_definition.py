"""A function's name in plans is that of its content."""

from __future__ import annotations

import re

import msgspec

from engine.python_functions.definition import PREFIX, PythonFunction, find_known, list_known, remember

ONE = PythonFunction("größe.f", (("a", "int"),), "int", "def f(a): return 1")


def test_the_name_is_a_plain_word_and_another_for_any_other_content() -> None:
    assert re.fullmatch(rf"{PREFIX}[a-z0-9_]+_[0-9a-f]{{16}}", ONE.call_name)
    others = [
        msgspec.structs.replace(ONE, body="def f(a): return 2"),
        msgspec.structs.replace(ONE, returns="bigint"),
        msgspec.structs.replace(ONE, parameters=(("a", "bigint"),)),
        msgspec.structs.replace(ONE, strict=True),
        msgspec.structs.replace(ONE, aggregate=True),
        msgspec.structs.replace(ONE, deterministic=True),
    ]
    assert len({one.call_name for one in (ONE, *others)}) == 1 + len(others)
    again = msgspec.json.decode(msgspec.json.encode(ONE), type=PythonFunction)
    assert again == ONE and again.call_name == ONE.call_name


def test_what_was_seen_is_known_by_its_name() -> None:
    function = PythonFunction("seen_once", (), "int", "def seen_once(): return 1")
    assert find_known(function.call_name) is None
    assert remember(function) is function and find_known(function.call_name) is function
    before = len(list_known())
    assert remember(msgspec.structs.replace(function)) is function and len(list_known()) == before
    assert function.signature == "seen_once()" and ONE.signature == "größe.f(a int)"
