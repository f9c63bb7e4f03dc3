"""The documentation: short lines and paragraphs, and nothing named that is not there."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from engine.hummock.manifests.delta import Delta, NewGeneration, TableSpec
from engine.hummock.manifests.manifest import LoggedRun, Manifest, TableCheckpoint, VersionCheckpoint
from engine.hummock.version import SstInfo, TableOptions
from tests.docs_pages import ROOT, Page, pages
from tools.wrap import LONGEST_LINE

LONGEST_LINE_OF_OUTPUT = 160  # what commands print is printed for 80 and for 160 columns; JSON has no columns
LONGEST_PARAGRAPH = 6
ONE_PAGE = 100
MADE_BY_READERS = {"assets/coffee/sales.sql"}  # of the README's first view
METADATA = {
    "pipelines/dataset",
    "pipelines/kind",
    "pipelines/place",
}  # of assets, with slashes as Dagster has them
FOLDERS = (
    "assets",
    "benchmarks",
    "dagster_project",
    "dagster_tideline",
    "demo",
    "docs",
    "engine",
    "resources",
    "tests",
    "tideline",
    "tools",
)

PAGES = pages()
DECISIONS = [page for page in PAGES if "decisions" in page.path.parts and page.path.name != "README.md"]
PRESENT = [page for page in PAGES if page not in DECISIONS]  # decisions tell of the code as it was then


def each(chosen: list[Page]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", chosen, ids=str)


@each(PAGES)
def test_lines_are_short(page: Page) -> None:
    long = [
        f"{page}:{number}: {len(line)} characters"
        for number, line, kind in page.lines
        if len(line) > (LONGEST_LINE_OF_OUTPUT if kind == "output" else LONGEST_LINE)
        and not (kind == "output" and line.startswith("[{"))
    ]
    assert not long, f"more than {LONGEST_LINE} characters: break the line, or split the row of the table"


@each(PRESENT)
def test_paragraphs_are_short(page: Page) -> None:
    long = [
        f"{page}:{start}: {length} lines" for start, length in page.paragraphs() if length > LONGEST_PARAGRAPH
    ]
    assert not long, f"more than {LONGEST_PARAGRAPH} lines: say less, or make two of it"


@each(PAGES)
def test_links_lead_somewhere(page: Page) -> None:
    assert not [target for target in page.links() if not leads_somewhere(page, target)]


@each(PRESENT)
def test_paths_in_backticks_exist(page: Page) -> None:
    missing = {text for text in named_paths(page) if not exists(text)} - MADE_BY_READERS - METADATA
    assert not missing, f"{page} names what is not in the repository: {missing}"


@each(PRESENT)
def test_commands_of_the_repository_exist(page: Page) -> None:
    asked = re.findall(r"python -m ([\w.]+)", page.text)
    wrong = {name for name in asked if name.split(".")[0] in FOLDERS and find_spec(name) is None}
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = re.findall(r"(?:^|`)make ([a-z0-9-]+)", page.text, re.MULTILINE)
    assert not wrong | (set(made) - targets)


def test_every_page_is_reached_from_the_readme() -> None:
    by_path = {page.path: page for page in PAGES}
    reached, waiting = set(), [Path("README.md")]
    while waiting:
        page = by_path[waiting.pop()]
        reached.add(page.path)
        for target in page.links():
            path = linked(page, target)
            waiting += [path] if path in by_path and path not in reached and path not in waiting else []
    assert {page.path for page in PRESENT} <= reached


def test_the_list_of_decisions_is_complete() -> None:
    listed = " ".join((ROOT / "docs" / "decisions" / "README.md").read_text().split())
    found = re.findall(r"- \[(\d{4})\]\((\S+)\) .+?\. \*([^*]+)\.\*", listed)
    numbers = [page.path.name[:4] for page in DECISIONS]
    assert [(number, name) for number, name, _ in found] == [
        (number, page.path.name) for number, page in zip(numbers, DECISIONS, strict=True)
    ]
    status = re.compile(r"Accepted|(?:Accepted; in part s|S)uperseded by (?:\d{4})(?: and \d{4})*")
    assert [number for number, _, text in found if not status.fullmatch(text)] == []
    later = {other for _, _, text in found for other in re.findall(r"\d{4}", text)}
    assert later <= set(numbers)


def test_the_page_to_start_on_is_one_page() -> None:
    assert len((ROOT / "docs" / "architecture.md").read_text().splitlines()) <= ONE_PAGE


def test_the_page_of_the_format_names_every_key_of_a_manifest() -> None:
    structures = (
        Manifest,
        Delta,
        TableSpec,
        TableOptions,
        SstInfo,
        VersionCheckpoint,
        TableCheckpoint,
        LoggedRun,
        NewGeneration,
    )
    keys = {field.name for structure in structures for field in msgspec.structs.fields(structure)}
    words = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "format.md").read_text()))
    assert not keys - words


def linked(page: Page, target: str) -> Path:
    """Return the path below the root that a relative link leads to; without a path it is the page's own."""
    path = target.partition("#")[0]
    whole = (ROOT / page.path.parent / path).resolve() if path else ROOT / page.path
    return whole.relative_to(ROOT) if whole.is_relative_to(ROOT) else whole


def leads_somewhere(page: Page, target: str) -> bool:
    if re.match(r"https?://|mailto:", target):
        return True
    anchor = target.partition("#")[2]
    to = ROOT / linked(page, target)
    if not to.exists():
        return False
    return not anchor or anchor in Page(to.relative_to(ROOT), to.read_text()).anchors()


def named_paths(page: Page) -> list[str]:
    """Return the paths of the repository in a page's backticks, and the modules that its drawings name."""
    drawn = "\n".join(line for _, line, kind in page.lines if kind == "code")
    return [text for text in page.code() if names_a_path(text)] + re.findall(r"[\w/]+\.py\b", drawn)


def names_a_path(text: str) -> bool:
    """Tell whether what stands in backticks is a file or a folder of the repository: `engine/meta/epochs/target_epoch.py`, `sql/bind/`, `cut.py`."""
    if not re.fullmatch(r"[\w.*-]+(/[\w.*-]+)*/?", text):
        return False
    first = text.split("/")[0]
    return text.endswith(".py") or ("/" in text and (first in FOLDERS or (ROOT / "engine" / first).is_dir()))


def exists(text: str) -> bool:
    """Tell whether a path is there: from the root, in `engine`, or as the end of some file's path."""
    if any(next(base.glob(text.rstrip("/")), None) for base in (ROOT, ROOT / "engine")):
        return True
    return any(f"/{path}".endswith(f"/{text}") for path in files())


@cache
def files() -> tuple[str, ...]:
    return tuple(
        path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")
    )


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\ntwo\n\nthree\n", [(1, 2), (4, 1)]),
        ("- one\n  two\n- three\n", [(1, 2), (3, 1)]),
        ("| a |\n|---|\n\n# head\ntext\n", [(5, 1)]),
        ("```\na\nb\n```\nend\n", [(5, 1)]),
    ],
)
def test_paragraphs_are_counted_by_their_lines(text: str, lines: list[tuple[int, int]]) -> None:
    assert list(Page(Path("x.md"), text).paragraphs()) == lines


def test_links_and_anchors_are_read_as_github_makes_them() -> None:
    page = Page(
        Path("x.md"),
        "# A [b](c.md), `d`\n## A\n## A\n[to\nit](y.md#z) `[not](this)`\n```\n# no heading\n[no](link)\n```\n",
    )
    assert page.anchors() == {"a-b-d", "a", "a-1"}
    assert page.links() == ["c.md", "y.md#z"]


@pytest.mark.parametrize(
    ("text", "is_path"),
    [("engine/nowhere.py", True), ("sql/bind/", True), ("nowhere.py", True), ("a/b", False), ("x.y", False)],
)
def test_paths_are_told_from_other_code(text: str, is_path: bool) -> None:
    assert names_a_path(text) is is_path


def test_a_path_that_is_not_there_is_missed() -> None:
    assert exists("engine/session.py") and exists("meta/epochs/target_epoch.py") and exists("sinks/files.py")
    assert not exists("engine/nowhere.py") and not exists("meta/files_that_are_not.py")
