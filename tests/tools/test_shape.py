"""The measures of code that is made for it."""

from __future__ import annotations

from pathlib import Path

from tools.shape import (
    Module,
    count_circles,
    find_circle,
    is_participle,
    is_verb,
    measure_modules,
    read_modules,
)

CODE = """
class Reader:
    def read_rows(self) -> None:
        try:
            pass
        except (OSError, Conflict):
            pass

def narrowed(seen: Version):
    def check(version: Version) -> None:
        if f"relation/{seen}" in version.catalog:
            raise Conflict("made")
    return check

def embed(text: str) -> str:
    return text
"""


def test_measures_are_those_of_the_modules(tmp_path: Path) -> None:
    for folder in ("one", "one/inner"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "code.py").write_text(CODE)
    found = measure_modules(read_modules(["one"], tmp_path))
    assert found["modules"] == "2" and found["functions"] == "8"
    assert found["functions named by a participle"] == "25.0% (2 of 8)"
    assert found["functions that begin with a verb"] == "75.0% (6 of 8)"
    assert found["class names defined twice"] == "1 Reader"
    assert found["except Conflict"] == "2" and found["hand-written preconditions"] == "2"
    assert found["catalog prefixes spelled outside their records"] == "2"
    assert found["most files in a folder"].startswith("1 one")
    assert found["longest module"].startswith("16 lines, one.")


def test_a_word_that_is_a_verb_by_itself_is_no_participle() -> None:
    assert is_participle("_narrowed_rows") and is_participle("taken") and is_participle("telling")
    assert is_verb("embed") and not is_participle("embed") and not is_participle("rows_taken")


def test_a_circle_is_found_and_named() -> None:
    modules = {"a": Module(1, imports={"b"}), "b": Module(1, imports={"c"}), "c": Module(1, imports={"a"})}
    found = find_circle(modules)
    assert found[0] == found[-1] and set(found) == {"a", "b", "c"}
    assert count_circles(modules) == 1


def test_modules_below_each_other_are_no_circle() -> None:
    modules = {"a": Module(1, imports={"b", "c"}), "b": Module(1, imports={"c"}), "c": Module(1)}
    assert find_circle(modules) == [] and count_circles(modules) == 0
