"""Spark's own errors, said with the place in the text that the user wrote."""

from __future__ import annotations

import contextlib
import re

from pyspark.errors import AnalysisException, PySparkException

from engine.errors import SqlError, TidelineError, WrongRow

_RAISED = re.compile(r"^[\w.]+: (?!Traceback).+$", re.MULTILINE)
"""How a traceback of Python ends: the error that was raised."""
_STOPPED = ("[SPARK_JOB_CANCELLED]", "[OPERATION_CANCELED]")
_REMEDIES = {
    "UNRESOLVED_COLUMN": "",
    "UNRESOLVED_ROUTINE": "SHOW FUNCTIONS lists those of the store; all others are Spark's",
    "DIVIDE_BY_ZERO": "write try_divide, or nullif around the divisor",
    "CAST_INVALID_INPUT": "write try_cast, or correct the value",
    "ARITHMETIC_OVERFLOW": "cast to a wider type, or write try_add, try_multiply and the like",
}


def build_analysis_error(error: AnalysisException, sql: str) -> SqlError:
    """Return the error for a text that Spark does not accept, with line, column and what to write instead."""
    message = simplify_message(error.getMessage() or str(error))
    suggestion = re.search(r"Did you mean one of the following\? \[(.*?)\]", message)
    hint = f"did you mean {suggestion[1].replace('`', '')}?" if suggestion else _suggest_remedy(error)
    if suggestion:
        message = message[: suggestion.start()].strip()
    line, column = _locate_error(error, sql)
    return SqlError(
        message, sql=sql, line=line, column=column, hint=hint or "change this part of the statement"
    )


def build_row_error(error: PySparkException, sql: str) -> TidelineError:
    """Return the error for a statement that failed on a row."""
    message = simplify_message(error.getMessage() or str(error))
    line, column = _locate_error(error, sql)
    return WrongRow(message, sql=sql, line=line, column=column, hint=_suggest_remedy(error))


def simplify_message(message: str) -> str:
    """Return the first line of a message of Spark's that a person reads, with the names that the user knows."""
    text = re.sub(r"\s+SQLSTATE: \w+", "", message).strip()
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and not line.startswith(("==", "'", "+-", ":-", "SELECT", "JVM")) and "^^" not in line
    ]
    first = re.sub(r"^\[[A-Z_.]+\] ", "", lines[0] if lines else text)
    return re.sub(r"_q\d+_(\w+)", r"\1", first)


def find_task_error(error: Exception) -> str:
    """Return what a task of Python raised, by the last line of its traceback; the plain message where there is none."""
    text = (error.getMessage() if isinstance(error, PySparkException) else None) or str(error)
    raised = _RAISED.findall(text)
    return raised[-1] if raised else simplify_message(text)


def is_job_cancelled(error: Exception) -> bool:
    """Tell whether somebody has ended the job that an error comes from, so that nothing is wrong with what it computed."""
    ours = type(error).__module__.startswith(("pyspark", "py4j"))
    return ours and any(mark in str(error) for mark in _STOPPED)


def _suggest_remedy(error: PySparkException) -> str:
    name = _get_condition(error)
    return next((hint for key, hint in _REMEDIES.items() if name.startswith(key)), "")


def _get_condition(error: PySparkException) -> str:
    return error.getCondition() or ""


def _locate_error(error: PySparkException, sql: str) -> tuple[int, int]:
    parameters = error.getMessageParameters() or {}
    candidates = [
        parameters.get(key) for key in ("objectName", "routineName", "functionName", "relationName", "name")
    ]
    with contextlib.suppress(Exception):  # a client without the call: the names above have to do
        candidates += [context.fragment() for context in error.getQueryContext() or ()]
    candidates.append(parameters.get("sqlExpr"))
    for text in candidates:
        start = _find_piece(text, sql) if text else None
        if start is not None:
            before = sql[:start]
            return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    return 1, 1


def _find_piece(text: str, sql: str) -> int | None:
    """Return where a piece of the generated text stands in the user's, by its whole or by its first word that is there."""
    plain = re.sub(
        r"\b\w+:(\w)", r"\1", text.replace("`", "").strip('"')
    )  # a plan's columns are alias:column
    inner = plain[1:-1] if plain.startswith("(") and plain.endswith(")") else plain
    for candidate in (plain, inner, plain.split(".")[-1]):
        pattern = r"\s*".join(re.escape(word) for word in re.findall(r"\w+|[^\w\s]", candidate))
        found = re.search(
            rf"(?<!\w){pattern}(?!\w)" if pattern[-1:].isalnum() else pattern, sql, re.IGNORECASE
        )
        if found and pattern:
            return found.start()
    words = [word for word in re.findall(r"[A-Za-z_]\w*", plain) if word.lower() not in ("cast", "as")]
    for word in words:
        found = re.search(rf"\b{re.escape(word)}\b", sql, re.IGNORECASE)
        if found:
            return found.start()
    return None
