"""Who reads texts: statements are parsed by few modules, and no expression of a plan is taken apart as a text."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import engine

ROOT = Path(engine.__file__).parent
WATCHED = ("sql", "operators", "runtime", "backfill")
PARSERS = (
    "parse_one",
    "tokenize",
    "parse_statement",
    "parse_exactly",
    "parse_tree",
    "parse_json",
    "Tokenizer",
)

STATEMENTS = "reads a statement as a user wrote it, or the place of a word in it"
TRANSLATES = "translates what sqlglot has parsed, before it is bound: patterns, numbers and texts of a dialect's literals"
VALUES = "reads a value, not SQL: the text of a literal, a type, a name or an option"
PLACES = "finds a name in a message or in a statement, to show the place of an error"

EXPECTED = {
    "sql/expression/tokens.py": "the reader of expressions",
    "sql/parsing/tree_parser.py": "the parser of statements",
    "sql/parsing/exact_calls.py": "the parser of statements",
    "sql/parsing/dialect_readers.py": "the parser of statements",
    "sql/parsing/lost_arguments.py": "looks into what sqlglot has printed",
    "sql/statements/reader.py": STATEMENTS,
    "sql/statements/session/prepared.py": STATEMENTS,
    "sql/statements/token_reader.py": STATEMENTS,
    "sql/statements/ddl/sink_statements.py": STATEMENTS,
    "sql/statements/ddl/subscription_statements.py": STATEMENTS,
    "sql/statements/ddl/create_clauses.py": STATEMENTS,
    "sql/parsing/tokens.py": STATEMENTS,
    "sql/parsing/table_names.py": "finds names of tables in a text of another tool, and puts others in their places",
    "sql/statements/session/set_statements.py": STATEMENTS,
    "sql/statements/session/ignored_statements.py": STATEMENTS,
    "sql/statements/ddl/macros.py": STATEMENTS,
    "sql/statements/ddl/create_function.py": "asks how each dialect reads a call by a function's name",
    "sql/statements/ddl/python_calls.py": "reads the form of a call of a function in Python, which it fills with trees",
    "sql/parsing/statement_errors.py": STATEMENTS,
    "sql/parsing/location.py": STATEMENTS,
    "sql/parsing/names.py": STATEMENTS,
    "sql/expression/parser.py": "the parser of expressions",
    "sql/statements/ddl/create.py": STATEMENTS,
    "sql/statements/options/explain_options.py": STATEMENTS,
    "sql/statements/risingwave_text.py": STATEMENTS,
    "runtime/statements/session/prepared_statements.py": STATEMENTS,
    "runtime/statements/alter/rename.py": "writes another name of a relation into a statement",
    "sql/batch/time_travel.py": "reads a moment alone, as the statement that it would stand in",
    "sql/batch/ad_hoc.py": "makes names of temporary views from those of relations",
    "sql/statements/view_query.py": "parses the statement of a plain view",
    "runtime/reads/datasource.py": "parses the query that a reader asks for",
    "sql/parsing/output_names.py": "asks sqlglot for the name under which it prints a parsed function",
    "sql/statements/relation_renaming.py": "writes other names of relations into a statement that is parsed",
    "sql/functions.py": "asks sqlglot for the name under which it prints a parsed function",
    "sql/statements/ddl/defaults.py": "reads a column's default as the catalog has it: a value where it is a literal",
    "sql/batch/full_refresh.py": "parses a whole query that is computed by itself, which has no tree",
    "sql/batch/row_errors.py": "rewrites a parsed whole query, which has no tree",
    "sql/expression/parsed_parts.py": TRANSLATES,
    "sql/dialects/postgres/untyped_literals.py": TRANSLATES,
    "sql/dialects/postgres/row_sources.py": TRANSLATES,
    "sql/dialects/postgres/strings/patterns.py": TRANSLATES,
    "sql/dialects/postgres/templates.py": TRANSLATES,
    "sql/dialects/postgres/numbers/number_formats.py": TRANSLATES,
    "sql/dialects/postgres/translate.py": TRANSLATES,
    "sql/dialects/postgres/strings/concat_and_format.py": TRANSLATES,
    "sql/dialects/postgres/functions.py": TRANSLATES,
    "sql/dialects/postgres/datetimes/calendar_spans.py": TRANSLATES,
    "sql/dialects/postgres/datetimes/timestamps.py": TRANSLATES,
    "sql/dialects/postgres/strings/bytea.py": TRANSLATES,
    "sql/dialects/postgres/strings/regexp_matches.py": TRANSLATES,
    "sql/dialects/postgres/template_calls.py": TRANSLATES,
    "sql/dialects/postgres/nested/json_operators.py": TRANSLATES,
    "sql/typing/intervals.py": TRANSLATES,
    "sql/statements/dml/literal_rows.py": VALUES,
    "sql/statements/ddl/watermark_clause.py": VALUES,
    "sql/typing/json_documents.py": VALUES,
    "sql/typing/delta_columns.py": VALUES,
    "sql/typing/types.py": VALUES,
    "sql/statements/session/settings.py": VALUES,
    "sql/statements/options/refresh_schedule.py": VALUES,
    "sql/statements/options/option_text.py": VALUES,
    "sql/statements/session/show_statements.py": STATEMENTS,
    "sql/statements/options/view_options.py": VALUES,
    "sql/incremental/states/table_columns.py": VALUES,
    "sql/incremental/key_types.py": PLACES,
    "sql/incremental/same_plan.py": "finds names of columns in other names that were made of them",
    "operators/arrow/texts.py": VALUES,
    "operators/arrow/times.py": VALUES,
    "operators/arrow/time_texts.py": VALUES,
    "runtime/statements/alter/alter.py": PLACES,
    "runtime/statements/create/check_views.py": "writes the query of a check from its parts, and tells a wrong one at its place",
    "sql/statements/options/check_list.py": "reads the list of checks in an option's text",
    "sql/statements/options/gate_bounds.py": "reads the bounds of a gate in an option's text",
    "runtime/statements/alter/column_users.py": "asks whether a plain view's statement may name a column: too often rather than too seldom",
    "runtime/statements/create/window_close.py": PLACES,
    "runtime/statements/create/full_view.py": VALUES,
    "runtime/statements/create/restrictions.py": VALUES,
    "runtime/writes/dml_run.py": "asks whether a printed query may leave the order of its table: too often rather than too seldom",
    "runtime/answers/view_definitions.py": STATEMENTS,
    "runtime/answers/operator_texts.py": "shows columns of a printed expression as people name them",
    "runtime/relations.py": PLACES,
    "runtime/reads/time_travel.py": PLACES,
    "runtime/partitions/checks.py": PLACES,
    "runtime/spark/errors.py": PLACES,
    "runtime/spark/masters.py": "reads the address of a master",
    "runtime/spark/packing.py": "reads the names of installed distributions",
    "runtime/spark/probe.py": "knows errors of Spark by their texts",
    "runtime/statements/statement_errors.py": PLACES,
    "runtime/writes/driver_rows.py": "knows an error of Spark by its text",
    "runtime/statements/session/statement_parser.py": STATEMENTS,
}


@cache
def readers_of_texts() -> set[str]:
    """Return the modules that import `re`, or parse or tokenize SQL."""
    found = set()
    for folder in WATCHED:
        for path in (ROOT / folder).rglob("*.py"):
            nodes = list(ast.walk(ast.parse(path.read_text())))
            imports = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
            calls = {_name(node.func) for node in nodes if isinstance(node, ast.Call)}
            if "re" in imports or calls & set(PARSERS):
                found.add(path.relative_to(ROOT).as_posix())
    return found


def _name(called: ast.expr) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


def test_no_other_module_reads_texts_than_those_that_are_named_here_with_the_reason() -> None:
    assert readers_of_texts() == set(EXPECTED)


@pytest.mark.parametrize("folder", ["sql/rewrites", "operators", "backfill"])
def test_no_rule_and_no_operator_reads_texts(folder: str) -> None:
    assert not [
        module
        for module in readers_of_texts()
        if module.startswith(folder) and EXPECTED.get(module) is not VALUES
    ]


def test_trees_are_read_where_they_are_bound_and_in_rules_that_are_written_as_templates() -> None:
    """`read` takes a text apart: only the binder, templates, and plans that were stored as texts may ask it to."""
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if "from engine.sql.expression.parser import" in path.read_text()
    }
    assert found == {
        "sql/bind/expressions.py",
        "sql/expression/template.py",
        "meta/catalog/expression_texts.py",
    }
