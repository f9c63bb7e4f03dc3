"""Patterns of Postgres as Java's regular expressions, which Spark uses."""

from __future__ import annotations

import re

from engine.errors import UnsupportedSql


class Untranslatable(UnsupportedSql):
    """Spark has no like for a form; `hint` says what to write instead."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what} is not offered", hint=hint)
        self.what = what


def convert_similar_pattern(pattern: str) -> str:
    """Return the regular expression of a SIMILAR TO pattern: `a_%` -> `(?s)^(?:a..*)$`."""
    found, place = [], 0
    while place < len(pattern):
        char = pattern[place]
        if char == "\\" and place + 1 < len(pattern):
            found.append(re.escape(pattern[place + 1]))
            place += 2
            continue
        if char == "[":
            end = pattern.find("]", place + 1)
            if end < 0:
                raise Untranslatable("SIMILAR TO with an open bracket", "close the bracket")
            found.append(pattern[place : end + 1])
            place = end + 1
            continue
        found.append({"%": ".*", "_": "."}.get(char) or (f"[{char}]" if char in ".$^" else char))
        place += 1
    body = "".join(found).replace("[^]", "\\^")
    return f"(?s)^(?:{body})$"


def convert_replacement(text: str, moved: int = 0) -> str:
    """Return a replacement of regexp_replace in Java's form, references moved by some groups: `\\1` -> `$1`."""
    found, place = "", 0
    while place < len(text):
        char = text[place]
        following = text[place + 1 : place + 2]
        if char == "\\" and following.isdigit():
            found += f"${int(following) + moved}"
            place += 2
        elif char == "\\" and following == "&":
            if moved:
                raise Untranslatable(
                    "\\\\& in a replacement of the first match", "put the pattern into a group"
                )
            found += "$0"
            place += 2
        elif char == "\\":
            found += "\\\\"
            place += 2 if following == "\\" else 1
        else:
            found += "\\$" if char == "$" else char
            place += 1
    return found
