"""`python -m tools.wrap` wraps the paragraphs of pages that have a line too long; `--check` only names them.

A paragraph whose lines are short stays as it was written. Code, tables, headings, comments and pictures are never wrapped.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST_LINE = 110
_ITEM = re.compile(r"(\s*)([-*+]|\d+[.)]) +")
_FIXED = re.compile(r"\s*(?:\||#|>|<!--|!\[)")


def list_pages() -> list[Path]:
    """Return the pages of the repository: what git tracks of Markdown."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines()]


def wrap_page(text: str) -> str:
    """Return a page's text with its long paragraphs wrapped."""
    done: list[str] = []
    for block, is_prose in _split_blocks(text.splitlines()):
        too_long = is_prose and any(len(line) > LONGEST_LINE for line in block)
        done += _wrap_block(block) if too_long else block
    return "\n".join(done) + ("\n" if text.endswith("\n") else "")


def _split_blocks(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    """Yield paragraphs and items of lists, each as its lines, and every other line by itself; and which it is."""
    block: list[str] = []
    in_code = False
    for line in lines:
        fence = line.lstrip().startswith("```")
        fixed = fence or in_code or not line.strip() or _FIXED.match(line) is not None
        if block and (fixed or _ITEM.match(line)):
            yield block, True
            block = []
        if fixed:
            yield [line], False
        else:
            block.append(line)
        in_code = in_code != fence
    if block:
        yield block, True


def _wrap_block(block: list[str]) -> list[str]:
    first = block[0]
    item = _ITEM.match(first)
    indent = " " * (len(item[0]) if item else len(first) - len(first.lstrip()))
    start = item[0] if item else indent
    words = " ".join([first[len(start) :].strip(), *(line.strip() for line in block[1:])])
    return textwrap.wrap(
        words,
        LONGEST_LINE,
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def main() -> int:
    """Wrap all pages, or name those that need it."""
    options = argparse.ArgumentParser(prog="python -m tools.wrap", description=__doc__)
    options.add_argument(
        "--check", action="store_true", help="write nothing; 1 where a page has a line too long"
    )
    check = options.parse_args().check
    found = [
        (page, text, new) for page in list_pages() if (new := wrap_page(text := page.read_text())) != text
    ]
    for page, _, new in found:
        print(f"{page.relative_to(ROOT)}: {'a line is too long' if check else 'wrapped'}")
        if not check:
            page.write_text(new)
    return 1 if check and found else 0


if __name__ == "__main__":
    sys.exit(main())
