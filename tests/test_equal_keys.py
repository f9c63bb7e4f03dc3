"""Nothing tells keys apart but the store: whoever groups, dedupes or looks values up in another way is found, and says why.

`engine.hummock.rows.number_keys` numbers rows by their keys. Arrow's groups and Python's sets and dicts have another equality (-0.0, NaN), so
that a use of them on columns stands in the list below, with the reason why the values cannot be told apart wrongly there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import engine

ROOT = Path(engine.__file__).parent.parent
ARROWS = {
    *("group_by", "is_in", "index_in", "dictionary_encode", "unique", "value_counts", "count_distinct"),
    *("drop_duplicates", "isin", "in1d", "intersect1d", "setdiff1d"),
}
"""Functions of Arrow and NumPy that compare values with each other."""
PYTHONS = {"set", "frozenset", "Counter", "fromkeys"}
"""What of Python tells values apart by their hash."""
VALUES = {"to_pylist", "as_values", "as_rows"}
"""What makes Python's values of columns."""
REASONS = {
    "engine/hummock/rows/key_numbers.py:_encode_chunks": "the numbers themselves, of values that have one form",
    "engine/hummock/rows/row_hash.py:_encode_if_it_pays": "texts and bytes, each hashed once",
    "engine/hummock/sorted_files/sst.py:_has_repeats": "counts values to choose an encoding",
    "engine/hummock/reads/lookup.py:_list_search_values": "texts",
    "engine/hummock/sorted_files/assumption_checks.py:check_row_groups": "hashes, whole numbers and texts",
    "engine/hummock/compaction/ranges.py:_choose_cuts": "places",
    "engine/operators/arrow/folds.py:_fold_groups": "keys of types that Arrow compares as Spark does, no DOUBLE",
    "engine/operators/arrow/expressions.py:find_members": "values of types that Arrow compares as Spark does, no DOUBLE",
    "engine/connectors/delta/feed_files.py:_find_coming": "words that say what a change is",
    "engine/operators/lookups/lines.py:_choose_first": "numbers of lines",
    "engine/operators/skew.py:measure_load": "hashes",
    "engine/runtime/epoch/failing_row.py:_search": "hashes",
    "engine/runtime/answers/row_texts.py:describe_mismatch": "values as texts, for a message",
    "engine/connectors/delta/file_rows.py:_decode_changes": "numbers of rows",
    "engine/connectors/landing/rows.py:_find_deletes": "words",
    "engine/connectors/landing/pending.py:_find_changed": "paths",
    "engine/connectors/landing/tables.py:find_file_records": "paths",
    "engine/connectors/landing/tasks.py:write_load": "numbers of files",
    "engine/connectors/postgres/sink/target.py:add": "numbers that say which columns are null",
    "engine/connectors/kafka/decoding.py:_decode_upserts": "numbers of rows",
    "engine/connectors/kafka/decoding.py:_leave_out": "offsets",
    "engine/connectors/contract/offsets.py:find_offsets": "names of tables",
    "engine/connectors/formats/csv_dialect.py": "bytes of a text",
    "engine/connectors/formats/time_formats.py:_convert_month": "names of months",
    "engine/connectors/formats/csv_reader.py": "lines and names of files",
    "engine/connectors/formats/parquet_reader.py": "rows by number, and names",
}


def _calls(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield what tells values apart, each with the function that it stands in."""
    for node in ast.iter_child_nodes(tree):
        name = node.name if isinstance(node, ast.FunctionDef) else inside
        if (
            (isinstance(node, ast.Call) and _name(node.func) in ARROWS)
            or (isinstance(node, ast.Call) and _name(node.func) in PYTHONS and _makes_values(node))
            or (isinstance(node, ast.SetComp | ast.DictComp) and _makes_values(node.generators[0].iter))
        ):
            yield name, node
        yield from _calls(node, name)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _makes_values(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) and _name(part.func) in VALUES for part in ast.walk(node))


def test_whoever_tells_values_apart_says_why_they_are_no_keys() -> None:
    found: dict[str, str] = {}
    for folder in ("engine", "dagster_tideline"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            shown = str(path.relative_to(ROOT))
            if "engine/sql/" not in shown:  # names and plans, no rows
                for name, node in _calls(ast.parse(path.read_text())):
                    found[f"{shown}:{name}"] = ast.unparse(node)
    said = {place: {place, place.partition(":")[0]} & REASONS.keys() for place in found}
    unknown = {place: found[place] for place, reasons in said.items() if not reasons}
    assert not unknown, "tell keys apart by engine.hummock.rows.key_numbers, or say why these are none"
    assert not REASONS.keys() - set().union(*said.values()), "what is not there any more needs no reason"


def test_a_group_of_arrow_and_a_dict_of_values_are_found() -> None:
    text = """
def one(rows):
    rows.group_by("k")
    return {value: 1 for value in rows.column("k").to_pylist()}, len(rows), set(names)
"""
    assert [ast.unparse(node).split("(")[0] for _, node in _calls(ast.parse(text))] == [
        "rows.group_by",
        "{value: 1 for value in rows.column",
    ]
