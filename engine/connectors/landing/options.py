"""The options of a landing table, checked: which one is wrong, why, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from engine.connectors.confinement import is_bucket_address
from engine.connectors.contract.connector import StatementProblem
from engine.connectors.formats.debezium import CHANGE, ENVELOPES
from engine.connectors.formats.encoding import find_encoding
from engine.connectors.formats.file_format import FORMATS, FileOptions
from engine.connectors.formats.time_formats import AS_SHOWN, FORMAT_OPTIONS, Formats, validate_format
from engine.connectors.landing.bucket import LandingBucket, parse_landing_bucket
from engine.connectors.landing.folder import LandingFolder, resolve_landing_folder
from engine.connectors.landing.rows import DELETE_WORDS, OPERATION, UPSERT_WORDS, RowOptions
from engine.connectors.landing.sequences import validate_name
from engine.errors import PathNotAllowed

CONNECTOR = "landing"
OF_CSV = ("delimiter", "quote", "escape", "header", "columns", "null")
OF_JSON = ("json", "envelope")
OF_TEXT = ("encoding", *FORMAT_OPTIONS)
OPTIONS: Mapping[str, str] = {
    "connector": "'landing': rows come from files of a folder",
    "path": "the folder, folders in it too; a relative one starts at TIDELINE_HOME; or s3://bucket/prefix",
    "format": "csv, json or parquet: take these files only, csv and json those that end in .txt too; without it each by its name",
    "null": "texts that mean null in CSV, besides the empty field, as 'NA, -'",
    "delimiter": "of CSV, some characters, \\t is a tab and \\x01 a control character; without it a comma, in .tsv a tab",
    "quote": "of CSV, one ASCII character, or none; without it a double quote",
    "escape": "of CSV, one ASCII character behind which the next one is text; without it a quote is doubled",
    "header": "of CSV, true or false: whether the first line names the columns; without it true",
    "columns": "of CSV without a header, what its fields are, as 'a, b, _op'; without it the table's columns in their order",
    "encoding": "of CSV and JSON, by the names that Python has, as latin-1, cp1252, utf-16; without it utf-8",
    "json": "lines: an object a line; values: objects behind each other, over any lines; without it as the file shows",
    "envelope": "debezium: each JSON object is a change, with the row before and after it",
    "operation": "the column that tells what a row does; without it _op, if a file has one",
    "upsert_words": "the words of that column for rows that come, as 'I, U'; without it insert, update, upsert, i, u, c",
    "delete_words": "the words of that column for rows that go, as 'D'; without it delete and d",
    "sequence": "the column that orders the changes of a key, whatever file they stand in: the highest one counts, for a "
    "deletion too; of an envelope a path in it, as source.lsn",
    "date_format": "how DATE is written in texts, as '%d/%m/%Y', or epoch_days; without it as ISO 8601 has it",
    "timestamp_format": "how TIMESTAMP is written in texts, as '%d.%m.%Y %H:%M:%S', or epoch, epoch_ms, epoch_us",
    "time_format": "how TIME is written in texts, as '%I:%M %p', or since_midnight, since_midnight_ms, since_midnight_us",
}
"""The options of a landing table and what they mean; `docs/reference.md` is made of this table."""
_TAB = ("\\t", "tab")
_NONE = "none"
_BOOLEANS = {"true": True, "false": False}


def validate_options(options: Mapping[str, str]) -> StatementProblem | None:
    """Return the first option of a landing table that can't be used, or None; names are in lower case."""
    for name in options:
        if name not in OPTIONS:
            return StatementProblem(name, f"option {name} is unknown", f"use {', '.join(OPTIONS)}")
    path = options.get("path")
    if not path:
        return StatementProblem("path", "the landing source needs a folder", "write path = 'folder'")
    try:
        parse_landing_place(path)
    except (PathNotAllowed, ValueError, RuntimeError) as error:
        hint = "write path = 'folder' or 's3://bucket/prefix'"
        return StatementProblem("path", f"the path can't be used: {error}", hint)
    return validate_format_options(options)


def validate_format_options(options: Mapping[str, str]) -> StatementProblem | None:
    """Return what is wrong with how files are to be read, or None."""
    form = options.get("format")
    if form is not None and form not in FORMATS:
        return StatementProblem("format", f'format "{form}" is unknown', f"use {', '.join(FORMATS)}")
    for check in (_validate_csv, _validate_text, _validate_operation):
        if (wrong := check(options)) is not None:
            return wrong
    own: dict[str, tuple[str, ...]] = {**dict.fromkeys(OF_CSV, ("csv",)), **dict.fromkeys(OF_JSON, ("json",))}
    own |= dict.fromkeys(OF_TEXT, ("csv", "json"))
    for name in options:
        kinds = own.get(name, FORMATS)
        if form is not None and form not in kinds:
            told = f"{name} is of {' and '.join(map(str.upper, kinds))}, and format = '{form}' takes no such files"
            return StatementProblem(name, told, f"leave {name} or format out")
    return None


def build_file_options(options: Mapping[str, str], columns: Sequence[str] = ()) -> FileOptions:
    """Return how files are read by options that are right; `columns` are those of the table, in their order."""
    fields = None
    if not _BOOLEANS[options.get("header", "true").lower()]:
        fields = tuple(_split_list(options["columns"])) if "columns" in options else tuple(columns)
    quote = options.get("quote", '"')
    return FileOptions(
        format=options.get("format"),
        nulls=("", *_parse_nulls(options)),
        delimiter=_parse_delimiter(options),
        quote="" if quote.lower() == _NONE else quote,
        escape=_parse_escape(options),
        fields=fields,
        encoding=_parse_encoding(options),
        json=options.get("json"),
        envelope=options.get("envelope"),
        order=options["sequence"].strip() if "envelope" in options and "sequence" in options else None,
    )


def build_row_options(options: Mapping[str, str]) -> RowOptions:
    """Return how rows tell what they are, by options that are right."""
    upserts, deletes = (_parse_words(options.get(f"{kind}_words", "")) for kind in ("upsert", "delete"))
    return RowOptions(
        operation=CHANGE if "envelope" in options else options.get("operation", OPERATION),
        operation_required="operation" in options,
        upserts=upserts or (UPSERT_WORDS - deletes),
        deletes=deletes or (DELETE_WORDS - upserts),
        formats=Formats(*(options.get(name) for name in FORMAT_OPTIONS)),
    )


def _validate_csv(options: Mapping[str, str]) -> StatementProblem | None:
    delimiter, quote, escape = (
        _parse_delimiter(options) or ",",
        options.get("quote", '"'),
        _parse_escape(options),
    )
    if "delimiter" in options and (
        not options["delimiter"] or any(mark in _NO_DELIMITER for mark in delimiter)
    ):
        hint = "use one or several characters other than a line break"
        return StatementProblem("delimiter", f"the delimiter {options['delimiter']!r} can't be used", hint)
    if quote.lower() != _NONE and not _is_mark(quote):
        hint = "use an ASCII character, or none"
        return StatementProblem("quote", f"the quote {quote!r} is not one character", hint)
    if "escape" in options and not (_is_mark(options["escape"]) or options["escape"] == quote):
        return StatementProblem(
            "escape", f"the escape {options['escape']!r} is not one character", "use an ASCII character"
        )
    for name, mark in (("quote", "" if quote.lower() == _NONE else quote), ("escape", escape)):
        if mark and mark in delimiter:
            hint = "use another one, or another delimiter" + (
                ", or quote = 'none'" if name == "quote" else ""
            )
            return StatementProblem(
                name if name in options else "delimiter",
                f"the delimiter {delimiter!r} holds the {name} {mark}",
                hint,
            )
    nulls = _parse_nulls(options)
    if "null" in options and not (nulls and all(text.isprintable() for text in nulls)):
        return StatementProblem(
            "null", f"null = {options['null']!r} is not a text on one line", "write null = 'NA'"
        )
    escaped = next((text for text in nulls if escape and escape in text), None)
    if escaped is not None and (
        quote.lower() != _NONE or not escaped.startswith(escape) or len(escaped) != 2
    ):
        hint = f"write quote = 'none' where {escape} and one character mean null, else another null"
        return StatementProblem("null", f"the null {escaped} holds the escape {escape}", hint)
    return _validate_header(options)


def _validate_header(options: Mapping[str, str]) -> StatementProblem | None:
    header = _BOOLEANS.get(options.get("header", "true").lower())
    if header is None:
        return StatementProblem(
            "header", f"header = {options['header']!r} is no answer", "write true or false"
        )
    names = _split_list(options.get("columns", ""))
    if "columns" in options and header:
        return StatementProblem(
            "columns", "columns are of files without a header", "write header = 'false', or leave it out"
        )
    if "columns" in options and (not names or len({name.lower() for name in names}) < len(names)):
        hint = "write the names of the fields, as 'a, b, _op'"
        return StatementProblem(
            "columns", f"columns = {options['columns']!r} does not name each field once", hint
        )
    return None


def _validate_text(options: Mapping[str, str]) -> StatementProblem | None:
    encoding = options.get("encoding")
    if encoding is not None and find_encoding(encoding) is None:
        return StatementProblem(
            "encoding", f"the encoding {encoding} is unknown", "use one of Python's, as latin-1 or utf-16"
        )
    for name, known in (("json", ("lines", "values")), ("envelope", ENVELOPES)):
        if options.get(name, known[0]) not in known:
            return StatementProblem(name, f'{name} "{options[name]}" is unknown', f"use {' or '.join(known)}")
    for name, of in FORMAT_OPTIONS.items():
        told = validate_format(options[name], of) if name in options else None
        if told is not None:
            hint = f"use the words of strptime, as '{AS_SHOWN[of]}'"
            return StatementProblem(name, f"{name} = {options[name]!r} can't be used: {told}", hint)
    return None


def _validate_operation(options: Mapping[str, str]) -> StatementProblem | None:
    if "envelope" in options:
        name = next((name for name in _OF_OPERATION if name in options), None)
        if name is not None:
            return StatementProblem(
                name, f"the envelope {options['envelope']} tells the operation", f"leave {name} out"
            )
        if "format" not in options:
            return StatementProblem(
                "envelope",
                "an envelope is of JSON, and files of other formats have none",
                "add format = 'json'",
            )
    if "operation" in options and not options["operation"].strip():
        return StatementProblem(
            "operation", "the column of the operation has no name", "write operation = 'op'"
        )
    if (wrong := validate_name(options, options.get("operation", OPERATION))) is not None:
        return wrong
    words = {name: _parse_words(options[name]) for name in _OF_OPERATION[1:] if name in options}
    for name, some in words.items():
        if not some:
            return StatementProblem(name, f"{name} names no word", f"write {name} = 'D' or leave it out")
    both = frozenset.intersection(*words.values()) if len(words) == 2 else frozenset[str]()
    if both:
        told = f"{', '.join(sorted(both))} cannot be of rows that come and of rows that go"
        return StatementProblem("delete_words", told, "write each word once, case does not count")
    return None


_OF_OPERATION = ("operation", "upsert_words", "delete_words")
_NO_DELIMITER = "\r\n\0"


def _parse_delimiter(options: Mapping[str, str]) -> str:
    given = options.get("delimiter", "")
    if given.lower() in _TAB:
        return "\t"
    return re.sub(r"\\x([0-9a-fA-F]{2})", lambda code: chr(int(code[1], 16)), given)


def _parse_nulls(options: Mapping[str, str]) -> list[str]:
    given = options.get("null", "")
    return _split_list(given) or [given][: len(given)]


def _parse_escape(options: Mapping[str, str]) -> str:
    given = options.get("escape", "")
    return "" if given == options.get("quote", '"') else given  # then it is what doubling is


def _parse_encoding(options: Mapping[str, str]) -> str | None:
    found = find_encoding(options.get("encoding", "utf-8"))
    return None if found == "utf-8" else found


def _is_mark(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text.isprintable() and not text.isalnum() and text != " "


def _split_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _parse_words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _split_list(text))


def parse_landing_place(path: str) -> LandingFolder | LandingBucket:
    """Return the place that an option names; raises PathNotAllowed for one that a project may not read, or that is none."""
    if is_bucket_address(path):
        return parse_landing_bucket(path)
    if found := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path):
        raise PathNotAllowed(f"files are not read from {found[0]}")
    return LandingFolder(resolve_landing_folder(path))
