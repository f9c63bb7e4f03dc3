"""An extension of Griffe: the examples of docstrings are code on the site's API pages."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import griffe


class DoctestFences(griffe.Extension):
    """Puts each example of a docstring between fences."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Rewrite an object's docstring before it is rendered."""
        if obj.docstring is not None:
            obj.docstring.value = fence_doctests(obj.docstring.value)


def fence_doctests(text: str) -> str:
    """Return a docstring with fences around each paragraph that begins with a prompt."""
    done: list[str] = []
    for _, lines in groupby(text.splitlines(), key=lambda line: bool(line.strip())):
        block = list(lines)
        start = next((number for number, line in enumerate(block) if line.startswith(">>> ")), len(block))
        example = block[start:]
        done += block[:start] + (["", "```pycon", *example, "```"] if example else [])
    return "\n".join(done)
