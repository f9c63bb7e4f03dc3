"""The checks of a new materialized view as hidden views of its domain: one of the rows that break them, one that counts these.

All checks of rows share one: the keys of the rows that break any, and which. A check that is unique holds the values that stand
more than once, a SELECT its rows. They are kept by the rules of all views, so they cost what changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import sqlglot.expressions as exp
from pyspark.sql import SparkSession

from engine.errors import SqlError
from engine.meta.domains.domain import OPTION as DOMAIN
from engine.runtime.spark.analyze import SparkAnalyzer
from engine.runtime.statement_context import StatementContext
from engine.runtime.statements.create.shared_index import build_shared_index
from engine.sql.batch.ad_hoc import query_tables, query_views
from engine.sql.batch.row_errors import guard_plan
from engine.sql.bind.binder import BoundQuery, bind
from engine.sql.catalog import Catalog, Relation, RelationColumn
from engine.sql.checks import FAILED, OPTION, ROWS, Check, counts_view, violations_view
from engine.sql.column_names import to_storage_name
from engine.sql.incremental.access_paths import index_name
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.incremental_plan import build_incremental_plan
from engine.sql.incremental.key_types import check_key_types, check_plain
from engine.sql.incremental.partitions import derive_partitioning
from engine.sql.parsing.statement_errors import find_offset
from engine.sql.schemas import strip_schema
from engine.sql.statements.options.check_list import CheckClause, build_check_error, parse_checks
from engine.sql.statements.options.view_options import resolve_on_row_error, resolve_rules
from engine.sql.statements.reader import Select, parse_statement

MOST_BITS = 30
MOST_COLUMNS = 6
"""So many columns of a row are kept where its key is hidden."""
_CHECKED = "checked_rows"
_BEFORE, _AFTER = "SELECT (\n", f"\n) AS is_right FROM {_CHECKED}"
_NOT_OF_A_ROW = (exp.AggFunc, exp.Window, exp.Query, exp.Subquery)


@dataclass
class CheckViews:
    """The checks of a view, and the relations and plans of the hidden views for them, inputs first."""

    checks: tuple[Check, ...] = ()
    relations: dict[str, Relation] = field(default_factory=dict)
    plans: dict[str, IncrementalPlan] = field(default_factory=dict)


def plan_checks(
    relation: Relation, plan: IncrementalPlan, catalog: Catalog, context: StatementContext
) -> CheckViews:
    """Return how the checks of a view with a plan are kept; raises SqlError with the place of a check that cannot be."""
    text = relation.options.get(OPTION)
    if text is None:
        return CheckViews()
    partitioning = derive_partitioning(plan, relation.options)
    by = partitioning.columns if partitioning is not None else ()
    return _CheckPlanner(catalog, context.spark(), relation, text, by).plan_views(
        parse_checks(text, relation.sql)
    )


@dataclass
class _CheckPlanner:
    catalog: Catalog
    spark: SparkSession
    relation: Relation
    text: str
    by: tuple[str, ...]
    found: CheckViews = field(default_factory=CheckViews)

    def plan_views(self, clauses: Sequence[CheckClause]) -> CheckViews:
        """Return the hidden views of checks, and the checks in the order in which they were written."""
        made: dict[str, Check] = {}
        of_rows = [
            (one, self._build_condition(one)) for one in clauses if one.word in ("", "not_null", "accepted")
        ]
        number = 0
        for begin in range(0, len(of_rows), MOST_BITS):
            group, number = of_rows[begin : begin + MOST_BITS], number + 1
            breaks, counts = self._add_row_view(number, [condition for _, condition in group])
            made |= {
                one.name: Check(one.name, "rows", one.text, one.severity, breaks, counts, bit)
                for bit, (one, _) in enumerate(group)
            }
        for one in clauses:
            if one.name not in made:
                number += 1
                made[one.name] = self._plan_whole_check(one, number)
        self.found.checks = tuple(made[one.name] for one in clauses)
        return self.found

    # ---- checks of rows --------------------------------------------------------------------------------------
    def _build_condition(self, check: CheckClause) -> str:
        """Return the condition that a check of rows is, as text of the view's dialect."""
        if check.word == "not_null":
            names = [self._quote(self._resolve_column(check, name)) for name in check.columns]
            return " AND ".join(f"{name} IS NOT NULL" for name in names)
        if check.word == "accepted":
            column = self._resolve_column(check, check.columns[0])
            condition = f"{self._quote(column)} IN ({check.condition})"
            where, skipped = check.place, condition.index("IN (") + 4
            values = self._parse(check, f"{_BEFORE}{condition}{_AFTER}", where - skipped).find(exp.In)
            assert values is not None
            for value in values.expressions or [values]:
                if not isinstance(value, exp.Literal | exp.Neg | exp.Boolean):
                    hint = "list values as SQL writes them: accepted(status, 'open', 'done')"
                    raise self._build_error(f"accepted({column}) takes values only", check, hint)
            self._check_type(check, condition, where - skipped)
            return condition
        query = self._parse(check, f"{_BEFORE}{check.condition}{_AFTER}", check.place)
        outside = query.selects[0].find(*_NOT_OF_A_ROW) if len(query.selects) == 1 else query
        if outside is not None:
            hint = "a condition is of one row and its columns; more says SELECT … FROM the view, which is to return no row"
            raise self._build_error("this is no condition on a row", check, hint)
        self._check_type(check, check.condition, check.place)
        return check.condition

    def _check_type(self, check: CheckClause, condition: str, place: int) -> None:
        """Raise SqlError unless a condition can be computed from the view's columns, and is true or false."""
        text = f"{_BEFORE}{condition}{_AFTER}"
        bound = self._bind(check, text, place, {_CHECKED: self.relation})
        try:
            kind = self._build_analyzer(text).infer_types(bound.plan)[bound.columns[0][1]]
        except SqlError as error:
            raise self._locate_error(error, check, text, place) from error
        if kind not in ("boolean", "void"):
            hint = "compare it with something: n > 0"
            raise self._build_error(f"the condition is of type {kind}, not true or false", check, hint)

    def _add_row_view(self, number: int, conditions: Sequence[str]) -> tuple[str, str]:
        """Make the view of the rows that break some of the conditions, and which; a condition that is null holds."""
        visible_names = {column.storage_name: column.name for column in self.relation.visible_columns}
        keys = [visible_names[name] for name in self.relation.primary_key if name in visible_names]
        if len(keys) < len(self.relation.primary_key):  # rows that are identified by what nobody sees
            keys = list(visible_names.values())[:MOST_COLUMNS]
        keys += [
            visible_names[name]
            for name in self.by
            if name in visible_names and visible_names[name] not in keys
        ]
        parts = [
            f"CASE WHEN NOT (\n{one}\n) THEN {1 << bit} ELSE 0 END" for bit, one in enumerate(conditions)
        ]
        broken = " OR ".join(f"NOT (\n{one}\n)" for one in conditions)
        items = [*(self._quote(name) for name in keys), f"{' + '.join(parts)} AS failed_checks_of_a_row"]
        text = f"SELECT {', '.join(items)} FROM {_CHECKED} WHERE {broken}"
        names = (*keys, FAILED)
        breaks = self._add_view(
            violations_view(self.relation.name, number), text, {_CHECKED: self.relation}, names
        )
        text = (
            f"SELECT {self._quote(FAILED)} AS f, count(*) AS n FROM {_CHECKED} GROUP BY {self._quote(FAILED)}"
        )
        return breaks, self._add_counting_view(number, breaks, text, (FAILED, ROWS))

    # ---- checks of the whole view ----------------------------------------------------------------------------
    def _plan_whole_check(self, check: CheckClause, number: int) -> Check:
        made = Check(check.name, "query", check.text, check.severity)
        if check.word == "falls_at_most":
            counts = self._add_counting_view(number, self.relation.name, None, (ROWS,))
            return msgspec.structs.replace(made, kind="fall", counts=counts, limit=check.share)
        if check.word == "unique":
            breaks = self._add_duplicates_view(check, number)
            made = msgspec.structs.replace(made, kind="groups", breaks=breaks)
        else:
            made = msgspec.structs.replace(made, breaks=self._add_query_view(check, number))
        if not made.breaks:
            return made
        return msgspec.structs.replace(
            made, counts=self._add_counting_view(number, made.breaks, None, (ROWS,))
        )

    def _add_duplicates_view(self, check: CheckClause, number: int) -> str:
        """Make the view of values that stand more than once, nulls left out as in SQL; "" where the key is among the columns."""
        columns = [self._resolve_column(check, name) for name in check.columns]
        named = [column for column in self.relation.columns if column.name in columns]
        hint = "take plain parts of it into columns of the view, and name those"
        try:
            check_plain(named, "unique", hint, self.relation.sql)
        except SqlError as error:
            raise self._build_error(error.message, check, hint) from error
        if {column.storage_name for column in named}.issuperset(self.relation.unique_key):
            return ""
        listed = ", ".join(self._quote(name) for name in columns)
        there = " AND ".join(f"{self._quote(name)} IS NOT NULL" for name in columns)
        text = f"SELECT {listed}, count(*) AS n_of_them FROM {_CHECKED} WHERE {there} GROUP BY {listed} HAVING count(*) > 1"
        name = violations_view(self.relation.name, number)
        return self._add_view(name, text, {_CHECKED: self.relation}, (*columns, ROWS))

    def _add_query_view(self, check: CheckClause, number: int) -> str:
        """Make the view of the rows that a SELECT gives; it reads the view alone."""
        own = self.relation.name
        query = self._parse(check, check.condition, check.place)
        everything = Catalog({strip_schema(own): self.relation, **self.catalog.relations, own: self.relation})
        try:
            read = {*query_tables(query, everything, check.condition), *query_views(query, everything)}
        except SqlError as error:
            raise self._locate_error(error, check, check.condition, check.place) from error
        others = sorted(read - {own})
        if others or not read:
            what = f"reads {', '.join(others)}" if others else f"does not read {own}"
            hint = f"a check reads {own} alone: for others make a materialized view that joins them, and check that"
            raise self._build_error(f"check {check.name} {what}", check, hint)
        names = {strip_schema(own): self.relation, own: self.relation}
        bound = self._bind(check, check.condition, check.place, names)
        visible = [name for name, _ in bound.columns]
        twice = next((name for name in visible if [n.lower() for n in visible].count(name.lower()) > 1), None)
        if twice is not None:
            hint = "give one of them another name with AS"
            raise self._build_error(f"check {check.name} returns two columns named {twice}", check, hint)
        try:
            return self._record_view(
                violations_view(own, number), bound, tuple(visible), check.condition, own, query
            )
        except SqlError as error:
            raise self._locate_error(error, check, check.condition, check.place) from error

    # ---- hidden views ----------------------------------------------------------------------------------------
    def _add_counting_view(self, number: int, counted: str, text: str | None, names: tuple[str, ...]) -> str:
        """Make the view that counts the rows of another."""
        relation = self.relation if counted == self.relation.name else self.found.relations[counted]
        read = msgspec.structs.replace(relation, kind="materialized view")
        text = text or f"SELECT count(*) AS n FROM {_CHECKED}"
        return self._add_view(counts_view(self.relation.name, number), text, {_CHECKED: read}, names)

    def _add_view(
        self, name: str, text: str, relations: Mapping[str, Relation], outputs: tuple[str, ...]
    ) -> str:
        query = _parse_select(text, self.relation)
        bound = bind(query, Catalog(dict(relations)), dialect=self.relation.dialect, sql=text)
        return self._record_view(name, bound, outputs, text, relations[_CHECKED].name, query)

    def _record_view(
        self, name: str, bound: BoundQuery, outputs: tuple[str, ...], text: str, reads: str, query: exp.Query
    ) -> str:
        """Note a hidden view that a bound query is, and the indexes by which its rules look rows up."""
        view = self.relation
        if resolve_on_row_error(view.options, view.dialect) == "null":
            bound = replace(bound, plan=guard_plan(bound.plan))
        stored = {
            visible: visible if visible in (FAILED, ROWS) else to_storage_name(visible) for visible in outputs
        }
        columns = tuple(
            (stored[visible], internal) for visible, (_, internal) in zip(outputs, bound.columns, strict=True)
        )
        plan = build_incremental_plan(
            name, bound.plan, columns, self._build_analyzer(text), resolve_rules(view.options)
        )
        check_key_types(plan, query, self._build_catalog(), text)
        last, names = plan.fragments[-1], {column: visible for visible, column in stored.items()}
        domain = view.options.get(DOMAIN, view.name)
        self.found.relations[name] = Relation(
            name=name,
            kind="check",
            columns=tuple(
                RelationColumn(names.get(column, column), kind, hidden=column not in names, stored=column)
                for column, kind in last.columns
            ),
            primary_key=last.key,
            distribution_key=last.distribution_key,
            append_only=last.plan.append_only,
            dialect=view.dialect,
            options={DOMAIN: domain},
            depends_on=(reads,),
        )
        self.found.plans[name] = plan
        for table, by in plan.indexes:
            if index_name(table, by) not in self.found.relations:
                base = self._build_catalog().get(table)
                base = msgspec.structs.replace(base, options={**base.options, DOMAIN: domain})
                index, index_plan = build_shared_index(self._build_catalog(), base, by, view.dialect)
                self.found.relations[index.name], self.found.plans[index.name] = index, index_plan
        return name

    def _build_catalog(self) -> Catalog:
        return Catalog({self.relation.name: self.relation, **self.found.relations})

    def _build_analyzer(self, text: str) -> SparkAnalyzer:
        return SparkAnalyzer(self.spark, self._build_catalog(), text)

    # ---- texts and places ------------------------------------------------------------------------------------
    def _resolve_column(self, check: CheckClause, name: str) -> str:
        """Return the name of a column that a check means; raises SqlError if the view has none such."""
        visible = [column.name for column in self.relation.visible_columns]
        found = [column for column in visible if column == name] or [c for c in visible if c.lower() == name]
        if not found:
            hint = f"its columns are {', '.join(visible)}"
            raise self._build_error(f"{self.relation.name} has no column {name}", check, hint)
        return found[0]

    def _quote(self, name: str) -> str:
        return exp.to_identifier(name, quoted=True).sql(dialect=self.relation.dialect)

    def _parse(self, check: CheckClause, text: str, place: int) -> exp.Query:
        try:
            return _parse_select(text, self.relation)
        except SqlError as error:
            raise self._locate_error(error, check, text, place) from error

    def _bind(
        self, check: CheckClause, text: str, place: int, relations: Mapping[str, Relation]
    ) -> BoundQuery:
        try:
            return bind(
                self._parse(check, text, place),
                Catalog(dict(relations)),
                dialect=self.relation.dialect,
                sql=text,
            )
        except SqlError as error:
            raise self._locate_error(error, check, text, place) from error

    def _build_error(self, message: str, check: CheckClause, hint: str) -> SqlError:
        return build_check_error(message, check.start, self.text, self.relation.sql, hint)

    def _locate_error(self, error: SqlError, check: CheckClause, text: str, place: int) -> SqlError:
        """Return an error of a check's own text at its place in the statement; `place` is where that text begins there."""
        at = find_offset(text, error.line, error.column) - (len(_BEFORE) if text.startswith(_BEFORE) else 0)
        end = check.place + max(len(check.condition), 1)
        where = place + at if error.line and check.start <= place + at < end else check.start
        message = error.message.replace(_CHECKED, self.relation.name)
        hint = error.hint.replace(_CHECKED, self.relation.name) or "correct the check, or leave it out"
        return build_check_error(f"check {check.name}: {message}", where, self.text, self.relation.sql, hint)


def _parse_select(text: str, relation: Relation) -> exp.Query:
    statement = parse_statement(text, relation.dialect)
    if not isinstance(statement, Select):
        raise SqlError("a check is a condition, or a SELECT", sql=text, line=1, column=1, hint="write one")
    return statement.query
