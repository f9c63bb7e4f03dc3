"""`python -m tools.conversions` writes docs/conversions.md: the table of conversions, and where it is another than Spark's.

`--check` writes nothing and ends with 1 where the page is not what would be written.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.sql.typing.conversions import FAMILIES, REMEDIES, TABLE, ConversionVerdict, find_family
from engine.sql.typing.types import to_arrow
from tools.wrap import wrap_page

PAGE = Path(__file__).resolve().parent.parent / "docs" / "conversions.md"
NAMES = {
    "whole": "whole numbers",
    "nested": "arrays, maps and structs",
    "time": "TIME",
    "interval": "INTERVAL",
    **{name: name.upper() for name in FAMILIES if name not in ("whole", "time", "interval")},
}

HEAD = """\
<!-- written by `make pages` (python -m tools.conversions); edit engine/sql/typing/conversions.py instead -->
# Conversions

What becomes of a value of one type in a column of another, whatever door it comes by: `write`, files of
landing folders, sources, sinks INTO a table (which take what is *taken* alone). It is one table
(`sql/typing/conversions.py`, done by `column_conversion.py`), and it recurses: elements of arrays, keys and values of maps and
fields of structs follow it as whole columns do. A column of the same type is taken as it is.

- **taken**: always.
- **nearest**: as the nearest value of the column's type; a number beyond its last one is refused.
- **exact**: where the column's type has that very value (1.0 is an INT, 1.5 is none); a text where it reads as
  one. A pair whose every value is exact, as INT into BIGINT, is taken.
- What does not stand here is refused, whatever the values.

A row that does not fit is set aside in `_dead_letter` where a door has it (landing folders, sources), and stops the
whole write where it has not. The error names the place in the column (`addr.lines[].qty`), the value and the type.

Whole numbers are TINYINT, SMALLINT, INT and BIGINT, and Arrow's unsigned ones. Arrow's other forms (large and
fixed lists, dictionaries, times of other units, decimals of other widths) are taken as what they hold. A time
without a zone is one in UTC, and a date is its midnight. Texts of values are those that Spark writes. Fields of
structs are matched by name, exactly or else but for case; one that is left out is null, and one that the column
lacks is told: by `write` as an error, by a landing folder as a warning.

In JSON a map is an object, or a list of pairs. A map that has a key twice is none, nor is an object of JSON a struct that
names a field twice.

| from | taken | nearest | exact |
|---|---|---|---|
"""

STATEMENTS = """
## Statements

INSERT, UPDATE and DEFAULT refuse the same pairs of types, of UPDATE … FROM and of subqueries in SET as well. Values are
converted by Spark: a fraction is cut off in `spark`, as its store
assignment does it, and rounded in `postgres` and `risingwave`, as PostgreSQL does it. A number that is too large is an
error, but for what an UPDATE computes for a FLOAT, which becomes infinite. Instants become times without a zone there,
in UTC, and fields of structs are matched by place.
"""

_ID = "a number that is stored as another one is a wrong number: Spark rounds it without a word"
_FRACTION = "a fraction is not cut off without a word"
_TOO_LARGE = "Spark makes it infinite without a word"
_JAVA_17 = "Java 17 does not always write the fewest digits that give a number back, Java 19 and later do"
DIFFERENCES: Mapping[tuple[str, str, str], str] = {
    **{
        ("string", family, "taken"): "files have only texts for values, and PostgreSQL reads quoted ones"
        for family in FAMILIES
        if family != "string"
    },
    ("whole", "float", "exact"): _ID,
    ("whole", "double", "exact"): _ID,
    ("float", "whole", "exact"): _FRACTION,
    ("double", "whole", "exact"): _FRACTION,
    ("decimal", "whole", "exact"): _FRACTION,
    ("float", "decimal", "exact"): _FRACTION,
    ("double", "decimal", "exact"): _FRACTION,
    ("decimal", "decimal", "exact"): _FRACTION,
    ("double", "float", "exact"): _TOO_LARGE,
    ("decimal", "float", "exact"): _TOO_LARGE,
    ("timestamp", "date", "exact"): "the time of day is not cut off without a word",
    ("timestamp_ntz", "date", "exact"): "the time of day is not cut off without a word",
    ("timestamp", "timestamp_ntz", "refused"): "which zone's clock was meant is for the writer to say",
    ("binary", "string", "exact"): "bytes that are no UTF-8 are no text",
    ("string", "nested", "taken"): "JSON is how files hold them",
    ("float", "string", "value"): _JAVA_17,
    ("double", "string", "value"): _JAVA_17,
    ("double", "decimal", "value"): _JAVA_17,
    ("struct", "struct", "taken"): "fields are matched by name, and those that are left out are null",
}
"""By the families of a pair and what differs, the reason. What is: `taken` or `refused` where Spark does not, `exact` where Spark
changes the value, `value` where both take it as different ones.
"""


def find_reason(given: str, wanted: str, what: str) -> str:
    """Return why a pair of SQL types is not converted as Spark does it, "" where no reason stands here; parts count as wholes."""
    if given == "string" and "<" in wanted:
        return DIFFERENCES.get(("string", "nested", what), "")
    pairs = [(one, other) for one in _list_families(given) for other in _list_families(wanted)]
    return next((DIFFERENCES[*pair, what] for pair in pairs if (*pair, what) in DIFFERENCES), "")


def _list_families(kind: str) -> list[str]:
    words = re.findall(r"[a-z_]+(?:\([\d, ]+\))?(?: day to second)?", kind)
    known = [word for word in words if word not in ("array", "map") and not re.fullmatch("[a-z]", word)]
    return ["struct" if word == "struct" else find_family(to_arrow(word)) for word in known]


def render_page() -> str:
    """Return the page's text."""
    return wrap_page(
        "\n".join(
            [HEAD.rstrip("\n"), *_render_table(), *_render_remedies(), STATEMENTS, *_render_differences()]
        )
        + "\n"
    )


def _render_table() -> Iterator[str]:
    for given in FAMILIES:
        cells = [
            _render_cell(given, found)
            for found in (ConversionVerdict.TAKEN, ConversionVerdict.NEAREST, ConversionVerdict.EXACT)
        ]
        yield f"| {NAMES[given]} | {' | '.join(cells)} |"
    yield ""


def _render_cell(given: str, found: ConversionVerdict) -> str:
    names = [NAMES[wanted] for wanted in FAMILIES if TABLE[given].get(wanted) is found]
    return "any other type" if len(names) == len(FAMILIES) - 1 else ", ".join(names)


def _render_remedies() -> Iterator[str]:
    yield "Of the pairs that are refused these have a remedy that the error names:\n"
    for remedy in dict.fromkeys(REMEDIES.values()):
        pairs = [
            f"{NAMES[one]} into {NAMES[other]}" for (one, other), its in REMEDIES.items() if its == remedy
        ]
        yield f"- {', '.join(pairs)}: {remedy}."


def _render_differences() -> Iterator[str]:
    yield "## Where Spark's store assignment differs\n"
    yield (
        "All pairs of types are held against Spark's ANSI store assignment with the values at their edges "
        "(`python -m tests.sql.typing.spark_conversions`). Nothing differs but this:"
    )
    yield ""
    said: dict[str, list[str]] = {}
    for (given, wanted, what), reason in DIFFERENCES.items():
        pair = f"{NAMES.get(given, given.upper())} into {NAMES.get(wanted, wanted.upper())}"
        said.setdefault(f"{_WHAT[what]}: {reason}", []).append(pair)
    for told, pairs in said.items():
        text = "STRING into any other type" if len(pairs) > 6 else ", ".join(pairs)
        yield f"- {text}, {told}."


_WHAT = {
    "taken": "taken here alone",
    "refused": "refused here alone",
    "exact": "exact here",
    "value": "with other digits",
}


def main() -> None:
    """Write the page, or with `--check` tell whether it is as the code has it."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument(
        "--check", action="store_true", help="write nothing; end with 1 where the page is stale"
    )
    text = render_page()
    if asked.parse_args().check:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == text else f"{PAGE} is stale: run make pages")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
