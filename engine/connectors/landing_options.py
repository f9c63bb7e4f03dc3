"""The options of a landing table, checked: which one is wrong, why, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

from engine.connectors.confinement import is_address
from engine.connectors.contract import Unfit
from engine.connectors.file_formats import FORMATS
from engine.connectors.landing_bucket import LandingBucket, landing_bucket
from engine.connectors.landing_folder import LandingFolder, landing_path
from engine.errors import PathNotAllowed

CONNECTOR = "landing"
OF_CSV = ("delimiter", "null")
OPTIONS: Mapping[str, str] = {
    "connector": "'landing': rows come from files of a folder",
    "path": "the folder, folders in it too; a relative one starts at TIDELINE_HOME; or s3://bucket/prefix",
    "format": "csv, json or parquet: take these files only; without it each by its name",
    "null": "a text that means null in CSV, besides the empty field",
    "delimiter": "of CSV, one ASCII character; without it a comma",
}
"""The options of a landing table and what they mean; `docs/reference.md` is made of this table."""


def wrong_option(options: Mapping[str, str]) -> Unfit | None:
    """Return the first option of a landing table that can't be used, or None; names are in lower case."""
    for name in options:
        if name not in OPTIONS:
            return Unfit(name, f"option {name} is unknown", f"use {', '.join(OPTIONS)}")
    path = options.get("path")
    if not path:
        return Unfit("path", "the landing source needs a folder", "write path = 'folder'")
    try:
        landing_place(path)
    except (PathNotAllowed, ValueError, RuntimeError) as error:
        hint = "write path = 'folder' or 's3://bucket/prefix'"
        return Unfit("path", f"the path can't be used: {error}", hint)
    form = options.get("format")
    wrong = wrong_format(form, options.get("null"), options.get("delimiter", ","))
    if wrong is None and form not in (None, "csv"):
        for name in OF_CSV:
            if name in options:
                return Unfit(
                    name,
                    f"{name} is of CSV, and format = '{form}' takes no such files",
                    f"leave {name} or format out",
                )
    return wrong


def landing_place(path: str) -> LandingFolder | LandingBucket:
    """Return the place that an option names; raises PathNotAllowed for one that a project may not read, or that is none."""
    if is_address(path):
        return landing_bucket(path)
    if found := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path):
        raise PathNotAllowed(f"files are not read from {found[0]}")
    return LandingFolder(landing_path(path))


def wrong_format(format: str | None, null: str | None, delimiter: str) -> Unfit | None:
    """Return what is wrong with how files are to be read, or None."""
    if format is not None and format not in FORMATS:
        return Unfit("format", f'format "{format}" is unknown', f"use {', '.join(FORMATS)}")
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        told = f"the delimiter {delimiter!r} is not one character"
        return Unfit("delimiter", told, "use an ASCII character other than a quote or a line break")
    if null is not None and not null.isprintable():
        return Unfit("null", f"null = {null!r} is not a text on one line", "write null = 'NA'")
    return None
