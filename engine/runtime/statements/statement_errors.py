"""Errors of statements: each names its place in the text, and what no layer below has a word for becomes one of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from sqlglot.errors import SqlglotError

from engine.errors import DuplicateKey, InvalidRow, KeyTaken, SqlError, UnsupportedSql, WrongRow
from engine.runtime.spark.errors import build_analysis_error, build_row_error, simplify_message
from engine.sql.parsing.location import locate
from engine.sql.parsing.statement_errors import find_first_word, locate_character, mask_literals
from engine.sql.statements.statement_types import Insert, Statement

_TOO_DEEP = "take it apart: WITH items, views, or IN (…) instead of many ORs"
_NAMES = ("table", "name", "source", "into")


@contextmanager
def locate_errors(text: str, statement: Statement | None = None) -> Iterator[None]:
    """Run a statement of the user's `text`; raises SqlError (of a row: WrongRow, KeyTaken) with the place in it."""
    try:
        yield
    except SqlError as error:
        if error.line or isinstance(error, WrongRow | KeyTaken):
            raise
        line, column = _locate_error(error.message, text, statement)
        kind = UnsupportedSql if isinstance(error, UnsupportedSql) else SqlError
        raise kind(error.message, sql=text, line=line, column=column, hint=error.hint) from error
    except (InvalidRow, DuplicateKey) as error:
        kind = KeyTaken if isinstance(error, DuplicateKey) else WrongRow
        line, column = _locate_error(str(error), text, statement)
        raise kind(str(error), sql=text, line=line, column=column) from error
    except RecursionError as error:
        raise _build_error("the statement is nested too deeply", text, _TOO_DEEP) from error
    except SqlglotError as error:
        said = str(error).splitlines()[0][:200]
        raise _build_error(
            f"the statement cannot be read: {said}", text, "write it in another form"
        ) from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        if not _is_parser_error(error):
            raise
        raise _build_error("the statement cannot be read", text, "write it in another form") from error
    except AnalysisException as error:
        raise build_analysis_error(error, text) from error
    except PySparkException as error:
        raise build_row_error(error, text) from error
    except Py4JJavaError as error:  # of a job that collects rows: nothing between Spark and us has read it
        if "StackOverflowError" in str(error):
            raise _build_error("the statement is nested too deeply", text, _TOO_DEEP) from error
        said = simplify_message(_find_root_cause(error))
        raise _build_error(said, text, "change this part of the statement, or the rows") from error


def _find_root_cause(error: Py4JJavaError) -> str:
    """Return what the first cause of a Java exception says."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getMessage() or cause.toString())


def _is_parser_error(error: BaseException) -> bool:
    """Tell whether an error was raised in sqlglot, which prints some trees of odd statements by attributes that they lack."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and "/sqlglot/" in trace.tb_frame.f_code.co_filename.replace("\\", "/")


def _build_error(message: str, text: str, hint: str) -> SqlError:
    line, column = locate_character(text, min(find_first_word(text), max(len(text) - 1, 0)))
    return SqlError(message, sql=text, line=line, column=column, hint=hint)


def _locate_error(message: str, text: str, statement: Statement | None) -> tuple[int, int]:
    """Return where an error stands that says no place: at the first name of the statement that it mentions, else at the rows."""
    named = [getattr(statement, field, None) for field in _NAMES]
    named += getattr(statement, "views", ())
    plain = mask_literals(text)
    if isinstance(statement, Insert) and not message.startswith(("table", "cannot", "INSERT")):
        rows = locate(statement.rows, text)
        if rows != (1, 1):
            return rows
    column = re.match(r"column (\w+) ", message)
    if column is not None:
        named.insert(0, column[1])
    for name in named:
        if isinstance(name, str) and name and re.search(rf"\b{re.escape(name)}\b", message, re.IGNORECASE):
            found = re.search(rf"\b{re.escape(name)}\b", plain, re.IGNORECASE)
            if found is not None:
                return locate_character(text, found.start())
    return locate_character(text, find_first_word(text))
