"""Markdown pages as the tests of the documentation read them: lines, paragraphs, links, anchors, what stands in backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*([^)\s]+)\s*\)")
_CODE = re.compile(r"`([^`]+)`")
_HEADING = re.compile(r"#{1,6} +(.+?) *$")
_NEW_BLOCK = re.compile(r"\s*(?:[-*+] |\d+[.)] |\||#|>|<!--|!\[)")


@dataclass(frozen=True)
class Page:
    """One page: where it is, below the root, and its text."""

    path: Path
    text: str

    def __str__(self) -> str:
        return self.path.as_posix()

    @cached_property
    def lines(self) -> list[tuple[int, str, str]]:
        """Number, text and kind of each line: prose, code (between fences), output (a block that a command wrote)."""
        found, kind = [], "prose"
        before = ""
        for number, line in enumerate(self.text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                if kind == "prose":
                    kind = "output" if before.startswith("<!-- runs") else "code"
                    found.append((number, line, kind))
                else:
                    found.append((number, line, kind))
                    kind = "prose"
            else:
                found.append((number, line, kind))
            before = line
        return found

    @cached_property
    def prose(self) -> str:
        """The text without what stands between fences."""
        return "\n".join(line for _, line, kind in self.lines if kind == "prose")

    def paragraphs(self) -> Iterator[tuple[int, int]]:
        """Yield the first line's number and the number of lines of each paragraph and item of a list."""
        start = length = 0
        for number, line, kind in [*self.lines, (0, "", "prose")]:
            ends = kind != "prose" or not line.strip()
            if length and (ends or _NEW_BLOCK.match(line)):
                yield start, length
                length = 0
            if not ends and not line.lstrip().startswith(("|", "#", "<!--", "![")):
                start, length = (start if length else number), length + 1

    def links(self) -> list[str]:
        """Return the targets of all links and pictures, code left out."""
        return _LINK.findall(_CODE.sub("", self.prose))

    def code(self) -> list[str]:
        """Return what stands in backticks, a line's end in it as a blank."""
        return [" ".join(text.split()) for text in _CODE.findall(self.prose)]

    def anchors(self) -> set[str]:
        """Return the names by which headings can be linked to, as GitHub makes them."""
        found: dict[str, int] = {}
        names = set()
        for _, line, kind in self.lines:
            if kind == "prose" and (heading := _HEADING.match(line)):
                plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
                name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
                names.add(f"{name}-{found[name]}" if name in found else name)
                found[name] = found.get(name, 0) + 1
        return names


def pages() -> list[Page]:
    """Return the pages beside README.md and all of docs, decisions included."""
    paths = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return [Page(path.relative_to(ROOT), path.read_text()) for path in paths]
