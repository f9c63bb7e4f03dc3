"""The options of EXPLAIN, in the forms of all three dialects: which plan is asked for, and what cannot be shown of it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import Token

from engine.sql.dialect import Dialect
from engine.sql.parsing.statement_errors import unsupported_error_at
from engine.sql.parsing.tokens import tokenize

_FORM = "EXPLAIN [INCREMENTAL] SELECT …, or EXPLAIN (VERBOSE, FORMAT TEXT) SELECT …"
_INCREMENTAL = ("INCREMENTAL", "PHYSICAL", "DISTSQL")
_WHOLE = (
    "VERBOSE",
    "TRACE",
    "LOGICAL",
    "EXTENDED",
    "FORMATTED",
    "COST",
    "COSTS",
    "SETTINGS",
    "SUMMARY",
    "TYPE",
)
"""They ask for more of the plan, or less: it is shown as a whole."""
_REFUSED = {
    "ANALYZE": "run it: the report of FLUSH shows rows and seconds of views",
    "ANALYSE": "run it: the report of FLUSH shows rows and seconds of views",
    "BUFFERS": "`tideline status` shows what is read and written",
    "WAL": "`tideline status` shows what is read and written",
    "TIMING": "run it: the report of FLUSH shows rows and seconds of views",
    "CODEGEN": "spark.sql(…).explain('codegen') shows the code of a query over tables read from Spark",
}
_OFF = ("FALSE", "OFF", "0")


@dataclass(frozen=True)
class ExplainOptions:
    """Which plan is asked for, and where the explained statement starts."""

    incremental: bool
    end: int


def read_explain_options(readable: str, sql: str, dialect: Dialect) -> ExplainOptions:
    """Return the options of a text that starts with EXPLAIN; raises UnsupportedSql with the place for one that is not offered."""
    first = next(n for n in range(len(readable)) if not readable[n].isspace()) + len("EXPLAIN")
    tokens = [token for token in tokenize(" " * first + readable[first:], dialect)]
    n, incremental, end = 0, False, first
    while n < len(tokens) and _is_word(tokens[n].text.upper()):
        incremental |= _is_incremental(tokens[n], "", sql)
        end, n = tokens[n].end + 1, n + 1
    listed = n + 1 < len(tokens) and tokens[n].text == "(" and _is_word(tokens[n + 1].text.upper())
    while listed and n < len(tokens) and tokens[n].text != ")":
        n += 1
        option, value = tokens[min(n, len(tokens) - 1)], ""
        while n + 1 < len(tokens) and tokens[n + 1].text not in (",", ")"):
            n += 1
            value = tokens[n].text.upper()
        incremental |= _is_incremental(option, value, sql)
        n += 1
        if n >= len(tokens):
            raise unsupported_error_at("the parenthesis of EXPLAIN is not closed", sql, end, _FORM)
        end = tokens[n].end + 1
    return ExplainOptions(incremental, end)


def _is_word(word: str) -> bool:
    return word in (*_INCREMENTAL, *_WHOLE, *_REFUSED, "FORMAT")


def _is_incremental(option: Token, value: str, sql: str) -> bool:
    """Tell whether an option asks for the incremental plan; raises UnsupportedSql for one that is not offered."""
    word = option.text.upper()
    if word == "FORMAT" and value not in ("TEXT", ""):
        raise unsupported_error_at(
            f"EXPLAIN (FORMAT {value}) is not offered", sql, option.start, "plans are text: FORMAT TEXT"
        )
    if value in _OFF or word in _WHOLE or word == "FORMAT":
        return False
    if word in _REFUSED:
        raise unsupported_error_at(f"EXPLAIN {word} is not offered", sql, option.start, _REFUSED[word])
    if word not in _INCREMENTAL:
        raise unsupported_error_at(f"EXPLAIN has no option {word}", sql, option.start, _FORM)
    return True
