"""One text in the words of each engine: the session's dialects, DuckDB as a judge, Spark as a judge.

A text may hold marks. `⟦spark‖postgres‖duckdb⟧` is what each of them says, with a fourth part for Spark as a judge where that differs from
the dialect `spark`. `⟪T0⟫` is table 0, `⟪T0.1⟫` its column 1, `⟪V3⟫` view 3, `⟪=Name⟫` a name that must be quoted. Judges know tables as
`t0` with columns `c0`, `c1`, … and views as `v3`, so that a name that an engine confuses with another one cannot confuse them, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

Engine = Literal["spark", "postgres", "risingwave", "duckdb", "judge"]
_ALTERNATIVES = re.compile(r"⟦([^⟧]*)⟧")
_NAME = re.compile(r"⟪([^⟫]*)⟫")
_PLAIN = re.compile(r"[a-z]+_?[0-9]+")
_PART = {"spark": 0, "postgres": 1, "risingwave": 1, "duckdb": 2, "judge": 3}


def either(spark: str, postgres: str, duckdb: str | None = None, judge: str | None = None) -> str:
    """Return the mark of a text that engines spell differently; DuckDB as PostgreSQL, Spark as a judge as the dialect, if not given."""
    parts = (spark, postgres, postgres if duckdb is None else duckdb, spark if judge is None else judge)
    return f"⟦{'‖'.join(parts)}⟧"


def quoted(name: str, engine: Engine) -> str:
    """Return a name as an engine writes it, quoted unless it is plain."""
    if _PLAIN.fullmatch(name):
        return name
    return f"`{name}`" if engine in ("spark", "judge") else f'"{name}"'


def spelled(text: str, engine: Engine, names: Mapping[str, str]) -> str:
    """Return a text in the words of `engine`; `names` are those of tables, columns and views by mark, as the session knows them."""

    def named(match: re.Match[str]) -> str:
        mark = match[1]
        if mark.startswith("="):
            return quoted(mark[1:], engine)
        if engine in ("duckdb", "judge"):
            return f"c{mark.partition('.')[2]}" if "." in mark else mark.lower()
        return quoted(names[mark], engine)

    chosen = _ALTERNATIVES.sub(lambda match: match[1].split("‖")[_PART[engine]], text)
    return _NAME.sub(named, chosen)
