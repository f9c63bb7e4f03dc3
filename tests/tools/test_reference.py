"""docs/reference.md is what the code's tables say, and they say something of everything that is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.connectors.registry import OWN
from engine.connectors.sinks import options as sinks
from engine.connectors.sinks.registry import OWN as SINKS
from engine.runtime.reads.datasource import SOURCE_OPTIONS
from engine.sql.statements.options.view_options import CHANGEABLE, VIEW_OPTIONS
from engine.sql.statements.session.settings import SETTINGS
from tools import variables
from tools.reference import PAGE, render_page

NAMES = [
    *VIEW_OPTIONS,
    *(name for kind in OWN for name in kind.options),
    *sinks.COMMON_OPTIONS,
    *(name for kind in SINKS for name in kind.options),
    *SOURCE_OPTIONS,
    *SETTINGS,
    *(name for group in variables.GROUPS.values() for name in group),
]


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == render_page(), "stale: run make pages"


def test_the_page_names_everything() -> None:
    text = render_page()
    assert not [name for name in NAMES if name not in text]


def test_every_option_has_a_sentence() -> None:
    assert all(option.meaning and option.form for option in VIEW_OPTIONS.values())
    assert set(CHANGEABLE) <= set(VIEW_OPTIONS)
    assert all(setting.meaning or setting.notice or setting.read_only for setting in SETTINGS.values())


def test_every_environment_variable_that_is_read_is_explained() -> None:
    known = {name for group in variables.GROUPS.values() for name in group}
    read = variables.read_variables()
    assert {name: where for name, where in read.items() if name not in known} == {}, (
        "say so in tools/variables.py"
    )
    assert known - set(read) == variables.READ_BY_SPARK, "nobody reads it: take it out of tools/variables.py"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('os.environ["ASKED"]', "ASKED"),
        ('os.environ.get("ASKED")', "ASKED"),
        ('NAME = "ASKED"\nos.environ.setdefault(NAME, "1")', "ASKED"),
        ('NAMES = ("ASKED",)\nany(name in os.environ for name in NAMES)', "ASKED"),
        ("from engine.verification import VARIABLE\nos.environ.get(VARIABLE)", "TIDELINE_VERIFY"),
    ],
)
def test_reads_of_the_environment_are_found(text: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "reads.py"
    path.write_text(f"import os\n{text}\n")
    assert list(variables.find_reads(path)) == [name]


def test_a_variable_that_is_set_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "sets.py"
    path.write_text('import os\nos.environ["ASKED"] = "1"\n')
    assert list(variables.find_reads(path)) == []


def test_a_read_by_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "reads.py"
    path.write_text("import os\nos.environ.get(chosen())\n")
    with pytest.raises(ValueError, match="Name it by a constant"):
        list(variables.find_reads(path))
