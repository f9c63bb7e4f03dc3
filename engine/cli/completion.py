"""Completion at the prompt: backslash commands, keywords, relations, and the columns of those that the statement names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from engine.sql.catalog import Catalog

COMMANDS = ("\\d", "\\timing", "\\?", "\\q")
_KEYWORDS = """
ALTER AND AS ASC BETWEEN BY CASE CAST COMMENT COUNT CREATE CROSS DELETE DESC DESCRIBE DISTINCT DROP ELSE END EXISTS EXPLAIN FALSE
FLUSH FROM FULL FUNCTION GROUP HAVING IN INCREMENTAL INDEX INNER INSERT INTERVAL INTO IS JOIN KEY LEFT LIKE LIMIT MATERIALIZED
NOT NULL OFFSET ON OR ORDER OUTER OVER PARTITION PRIMARY RIGHT SELECT SET SHOW SINK SINKS SOURCE SUBSCRIPTION SUM
SYSTEM_TIME TABLE TABLES THEN TIMESTAMP TRUE UNION UPDATE USING VALUES VIEW VIEWS WAIT WHEN WHERE WITH
"""
KEYWORDS = tuple(_KEYWORDS.split())
_WORD = re.compile(r"[\w`.]+$")
_RELATION_FOLLOWS = re.compile(
    r"\b(FROM|JOIN|INTO|UPDATE|TABLE|VIEW|SINK|SUBSCRIPTION|DESCRIBE|EXISTS)\s+[\w`]*$|^\s*\\d\s+\w*$", re.I
)


class NameCompleter(Completer):
    """Completes by what the catalog holds now; keywords in the case in which they are begun."""

    def __init__(self, catalog: Callable[[], Catalog]) -> None:
        self._catalog = catalog

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield what the word before the cursor may become."""
        before = document.text_before_cursor
        if before.lstrip().startswith("\\") and " " not in before.lstrip():
            yield from _find_matches(COMMANDS, before.strip())
            return
        found = _WORD.search(before)
        word = found[0].rpartition(".")[2] if found else ""
        relations = {n: r for n, r in self._catalog().relations.items() if not n.startswith("_")}
        if _RELATION_FOLLOWS.search(before):
            yield from _find_matches(sorted(relations), word)
            return
        named = {text.lower() for text in re.findall(r"\w+", document.text)}
        columns = {
            column.name
            for name, relation in relations.items()
            if name.lower() in named
            for column in relation.visible_columns
        }
        yield from _find_matches(sorted(columns), word)
        if found is None or "." not in found[0]:
            yield from _find_matches(sorted(relations), word)
            if word:
                yield from _find_matches(KEYWORDS if word.isupper() else [k.lower() for k in KEYWORDS], word)


def _find_matches(candidates: Iterable[str], word: str) -> Iterable[Completion]:
    for candidate in candidates:
        if candidate.lower().startswith(word.lower()):
            yield Completion(candidate, start_position=-len(word))
