"""Verbs of views: created, dropped, made to fail, steered, and left alone for long."""

from __future__ import annotations

from engine.errors import SqlError
from engine.hummock import Commit, Hummock
from engine.meta.catalog.stored_catalog import StoredCatalog, encode_entries, load_catalog
from engine.meta.domains.creation import find_computed_table
from engine.meta.epochs.retention import READERS_SECONDS
from engine.runtime.epoch.mutation_run import request_mutation
from engine.runtime.statements.alter.alter import run_alter
from engine.runtime.statements.create import relations as create_relations
from engine.runtime.statements.create.window_close import restrict_to_closed
from engine.runtime.statements.drop import drop_relation
from engine.sql.batch.point_read import query_tables
from engine.sql.bind.binder import bind
from engine.sql.catalog import Relation, RelationColumn
from engine.sql.incremental.access_paths import index_name
from engine.sql.incremental.fragments import IncrementalPlan
from engine.sql.incremental.incremental_plan import build_incremental_plan
from engine.sql.incremental.watermarks.state_expiry import add_expiry
from engine.sql.statements import reader as st
from tests.contexts import build_context
from tests.crash.program.event_verbs import CLOSED
from tests.crash.program.table_verbs import POISONOUS, TableVerbs
from tests.crash.program.world import RETENTION, START
from tests.crash.reference import POISON, DuckAnalyzer

SHAPES = (
    "SELECT id, x * 2 AS x2 FROM a WHERE x % 3 <> 0",
    "SELECT g, count(*) AS n, sum(x) AS s FROM a GROUP BY g",
    "SELECT count(*) AS n, sum(x) AS s FROM a",
    "SELECT g, max(x) AS m, count(*) AS n FROM a GROUP BY g",
    "SELECT a.id, a.x, b.y FROM a LEFT JOIN b ON a.g = b.id",
    "SELECT b.g, count(*) AS n, sum(a.x) AS s FROM a JOIN b ON a.g = b.id GROUP BY b.g",
    "SELECT DISTINCT g FROM a",
    "SELECT n, count(*) AS c FROM (SELECT g, count(*) AS n FROM a GROUP BY g) q GROUP BY n",
    "SELECT id, x AS v FROM a UNION ALL SELECT id, y AS v FROM b",
    "SELECT g, count(*) AS n, sum(m) AS s FROM c GROUP BY g",
    "SELECT g, d, k, m FROM c WHERE m IS NOT NULL",
    "SELECT count(g) AS n, d, max(m) AS m FROM c GROUP BY d",
    "SELECT DISTINCT g, d FROM c",
    "SELECT a.id, c.d, c.m FROM a LEFT JOIN c ON a.g = c.g",
)
"""The first column of each is a whole number, by which views on top of two of them meet."""
AT_THE_ENDS = (
    "SELECT n, f, x, s, r, v, m, t, o, y, w, z, b FROM d WHERE g < 5",
    "SELECT n, count(*) AS c, min(f) AS lo, max(v) AS hi, max(w) AS latest, min(y) AS earliest, max(t) AS word FROM d GROUP BY n",
    "SELECT g, f, count(*) AS c, max(x) AS top, min(r) AS low FROM d GROUP BY g, f",
    "SELECT n, y, count(*) AS c, min(m) AS low, max(z) AS latest FROM d GROUP BY n, y",
    "SELECT DISTINCT n, v FROM d",
    "SELECT DISTINCT g, w FROM d",
    "SELECT n, r, count(*) AS c FROM d WHERE r >= 0 GROUP BY n, r",
    "SELECT l.n, l.f, r.n AS other, r.t FROM d AS l JOIN d AS r ON l.f = r.f AND l.n < r.n",
    "SELECT n, s, m, x AS v FROM d UNION ALL SELECT g AS n, NULL AS s, m, g AS v FROM c",
)
"""Views of rows with values at the ends of their types, which are keys of some of them; sums of such have no end."""
SEVERAL_ORDERS = (
    "SELECT n, f, row_number() OVER (PARTITION BY n ORDER BY v, f) AS p, row_number() OVER (PARTITION BY n ORDER BY v DESC, f) AS q, "
    "lead(w) OVER (PARTITION BY n ORDER BY y, f) AS l FROM d",
    "SELECT id, row_number() OVER (PARTITION BY g ORDER BY x, id) AS p, row_number() OVER (PARTITION BY g ORDER BY x DESC, id) AS q, "
    "lead(x) OVER (PARTITION BY g ORDER BY id) AS l FROM a",
    "SELECT g, x, lead(x) OVER (PARTITION BY g ORDER BY x) AS p FROM a",
)
"""Views of windows with several orders, and of one in which rows tie."""
IN_ORDER = (
    "SELECT id, g, lag(x) OVER (PARTITION BY g ORDER BY x, id) AS p FROM a",
    "SELECT id, sum(x) OVER (PARTITION BY g ORDER BY x DESC, id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s FROM a",
    "SELECT id, lead(y) OVER (ORDER BY y, id) AS p, row_number() OVER (ORDER BY y, id) AS n FROM b",
    "SELECT a.id, q.n FROM a ASOF LEFT JOIN (SELECT g, y, count(*) AS n FROM b GROUP BY g, y) AS q ON a.g = q.g AND a.x >= q.y",
    "SELECT a.id, q.y FROM a ASOF JOIN (SELECT g, y, max(id) AS m FROM b GROUP BY g, y) AS q ON a.g = q.g AND a.x < q.y",
)
"""Views of windows of rows and nearest rows."""
AT = f"timestamp_seconds({START:.0f} + x * 90)"
"""A time that a row of `a` stands for, around those to which the clock of a program comes."""
TIMED = (
    f"SELECT id, g, x FROM a WHERE {AT} > now() - INTERVAL '10' MINUTE",
    f"SELECT id, x FROM a WHERE {AT} BETWEEN now() - INTERVAL '5' MINUTE AND now() + INTERVAL '5' MINUTE AND g < 4",
    f"SELECT g, count(*) AS n, sum(x) AS s FROM a WHERE {AT} <= now() GROUP BY g",
    f"SELECT b.g, count(*) AS n FROM b JOIN (SELECT g, id FROM a WHERE {AT} < now()) AS q ON b.g = q.g GROUP BY b.g",
)
"""Views whose rows come and go as time passes."""
CUT = (
    "SELECT g, count(*) AS n, sum({x}) AS s FROM a GROUP BY g",
    "SELECT g, max({x}) AS m FROM a WHERE x % 3 <> 0 GROUP BY g",
    "SELECT g, id, {x} AS x FROM a",
    "SELECT a.g, a.id, {x} AS x, b.y FROM a LEFT JOIN b ON a.g = b.g AND b.id < 40",
)
"""Views that are cut by their first column, which need not be of the key: rows move between partitions. `x` cannot be computed of
poisonous rows."""
CHECKED = f"IF(x >= {POISONOUS}, raise_error('{POISON}'), x)"
ON_TOP = (
    "SELECT count(*) AS n FROM {view}",
    "SELECT {column} AS k, count(*) AS n FROM {view} GROUP BY {column}",
    "SELECT * FROM {view} WHERE {column} IS NOT NULL",
    "SELECT l.{column} AS k, count(*) AS n FROM {view} AS l JOIN {view} AS r ON l.{column} = r.{column} GROUP BY l.{column}",
)
ON_TWO = (
    "SELECT count(*) AS n, sum(k) AS s FROM (SELECT {column} AS k FROM {view} UNION ALL SELECT {other_column} AS k FROM {other}) u",
    "SELECT count(*) AS n FROM {view} JOIN {other} ON {view}.{column} = {other}.{other_column}",
)


_OTHERS = (
    (SHAPES[0], "SELECT id, x * 3 AS x2 FROM a WHERE x % 2 <> 0"),
    (SHAPES[1], "SELECT g, count(*) AS n, sum(x) AS s FROM a WHERE x % 2 = 0 GROUP BY g"),
    (SHAPES[2], "SELECT count(*) AS n, sum(x) AS s FROM a WHERE g > 2"),
    (SHAPES[3], "SELECT g, max(id) AS m, count(*) AS n FROM a GROUP BY g"),
    (SHAPES[4], "SELECT a.id, a.x, b.y FROM a LEFT JOIN b ON a.x = b.id"),
    (SHAPES[5], "SELECT b.g, count(*) AS n, sum(a.x) AS s FROM a JOIN b ON a.x = b.id GROUP BY b.g"),
    (SHAPES[6], "SELECT DISTINCT g FROM b"),
    (SHAPES[8], "SELECT id, x AS v FROM a UNION ALL SELECT id, y AS v FROM b WHERE y > 2"),
    (IN_ORDER[0], "SELECT id, g, lag(id) OVER (PARTITION BY g ORDER BY x DESC, id) AS p FROM a"),
    (TIMED[2], f"SELECT g, count(*) AS n, sum(x) AS s FROM a WHERE {AT} > now() GROUP BY g"),
)
OTHERS = dict(_OTHERS) | {other: text for text, other in _OTHERS}
"""Queries with the same columns and keys as others."""


class ViewVerbs(TableVerbs):
    """Whatever a program does to its views."""

    def _create_view(self, given: str = "") -> None:
        """Create a view by a query, by one that is given, or by any over what is there."""
        stored = load_catalog(self.store.refresh())
        if len(self.texts) >= 6:
            return
        self.created += 1
        name = f"v{self.created}"
        upstream = [v for v in self.texts if v in stored.plans]
        if given:
            text = given
        elif upstream and self.random.random() < 0.35:
            unbuilt = [v for v in upstream if find_computed_table(self.store.version, v) is None]
            view = self.random.choice(unbuilt if unbuilt and self.random.random() < 0.5 else upstream)
            column = stored.catalog.get(view).columns[0].name
            others = [other for other in upstream if other != view]
            if others and self.random.random() < 0.5:
                other = self.random.choice(others)
                named = {"other": other, "other_column": stored.catalog.get(other).columns[0].name}
                text = self.random.choice(ON_TWO).format(view=view, column=column, **named)
            else:
                text = self.random.choice(ON_TOP).format(view=view, column=column)
        else:
            text = self._any_text()
        options = {"partition_by": "g"} if text in CUT else {}
        if self.random.random() < 0.3:
            options["domain"] = self.random.choice(("red", "blue"))
        if self.random.random() < (0.6 if text in CUT else 0.3):
            options["background"] = "true"
        poisoned = text in CUT and self.random.random() < 0.5
        if poisoned:
            self.trace[-1] += " over a poisonous row"
            self.random.choice((self._poison, self._poison_among_many))()
        self.trace[-1] += f" {name} {options} {text}"
        self.texts[name] = CLOSED.get(text, text).format(x="x")
        try:
            emits = " EMIT ON WINDOW CLOSE" if text in CLOSED else ""
            self._commit_view(name, text.format(x=CHECKED) + emits, options)
        except SqlError as error:
            if "wait for each other" not in str(error):
                raise
            del self.texts[name]
            return
        if poisoned and self.random.random() < 0.7:
            self.trace[-1] += ", built before the row is mended"
            self._bring_on([name], eager=True, seconds=self.random.choice((0.1, 5.0)))

    def _any_text(self) -> str:
        kinds = (SHAPES, CUT, IN_ORDER, TIMED, tuple(CLOSED), AT_THE_ENDS, SEVERAL_ORDERS)
        return self.random.choice(self.random.choices(kinds, (5, 3, 2, 2, 3, 4, 2))[0])

    def _commit_view(self, name: str, text: str, options: dict[str, str]) -> None:
        commit_view(self.store, name, text, options)

    def _drop(self) -> None:
        if self.texts:
            failing = sorted(self.failing & set(self.texts)) if self.random.random() < 0.5 else []
            name = self.random.choice(failing or sorted(self.texts))
            self.trace[-1] += f" {name}"
            drop_relation(self.store, st.Drop("materialized view", name, True, True, ""))
            stored = load_catalog(self.store.refresh())
            self.texts = {view: text for view, text in self.texts.items() if view in stored.plans}

    def _fail_or_mend(self) -> None:
        if self.failing:
            self.failing.clear()
        elif self.texts:
            self.failing = {self.random.choice(sorted(self.texts))}
            self.trace[-1] += f" {self.failing}"

    def _steer(self) -> None:
        """Ask for a mutation: pause, resume, throttle, or update of the parallelism."""
        stored = load_catalog(self.store.refresh())
        names = sorted(name for name in self.texts if name in stored.plans)
        if names:
            name = self.random.choice(names)
            word = self.random.choice(
                (
                    "PAUSE",
                    "RESUME",
                    "RESUME",
                    "SET (backfill_rate_limit = 0)",
                    "SET (backfill_rate_limit = 1000000)",
                    "SET (parallelism = 3)",
                )
            )
            self.trace[-1] += f" {name} {word}"
            self._alter(name, word)

    def _alter(self, name: str, word: str) -> None:
        try:
            run_alter(
                st.parse_statement(f"ALTER MATERIALIZED VIEW {name} {word}", "spark"),
                build_context(self.store),
            )  # type: ignore[arg-type]
        except SqlError as error:
            if "the next query of" not in str(error):
                raise

    def _neglect(self) -> None:
        """Let a view rest for longer than changes wait for it, while its inputs change and are housekept."""
        stored = load_catalog(self.store.refresh())
        names = sorted(
            name for name in self.texts if find_computed_table(self.store.version, name) is not None
        )
        if names:
            name = self.random.choice(names)
            self.trace[-1] += f" {name}"
            request_mutation(self.store, name, "pause", None, self.clock())
            self.check()
            self._write()
            self._flush()
            self.clock.sleep(READERS_SECONDS * 1.1)
            self._flush()
            for table in _with_upstreams(stored, name):
                if table in self.store.version.tables:
                    self.store.compact(table)
            self.clock.sleep(RETENTION * 2)
            self._collect()
            self.check()
            self._write()
            request_mutation(self.store, name, "resume", None, self.clock())


def commit_view(store: Hummock, name: str, text: str, options: dict[str, str]) -> None:
    """Create a view; raises SqlError if it cannot be."""
    stored = load_catalog(store.refresh())
    relations, plans = planned(stored, name, text, options)
    create_relations.check_domains(stored, relations, plans)
    store.commit(Commit(catalog=encode_entries(relations, plans)))


def planned(
    stored: StoredCatalog, name: str, text: str, options: dict[str, str]
) -> tuple[dict[str, Relation], dict[str, IncrementalPlan]]:
    """Return the relations and plans of a view, and of the indexes that it needs."""
    statement = st.parse_statement(f"CREATE MATERIALIZED VIEW {name} AS {text}", "spark")
    bound = bind(statement.query, stored.catalog, dialect="spark", sql=statement.sql)
    query = restrict_to_closed(bound.plan, statement, stored.catalog)
    analyzer = DuckAnalyzer(stored.catalog)
    plan = add_expiry(build_incremental_plan(name, query, bound.columns, analyzer), stored.catalog)
    last = plan.fragments[-1]
    shown = {column for column, _ in bound.columns}
    relation = Relation(
        name=name,
        kind="materialized view",
        columns=tuple(RelationColumn(c, kind, hidden=c not in shown) for c, kind in last.columns),
        primary_key=last.key,
        distribution_key=last.distribution_key,
        append_only=last.plan.append_only,
        sql=statement.sql,
        options=options,
        depends_on=query_tables(statement.query, stored.catalog),
    )
    relations, plans = {name: relation}, {name: plan}
    for table, columns in plan.indexes:
        index = index_name(table, columns)
        if index not in stored.catalog.relations:
            base = stored.catalog.get(table)
            relations[index], plans[index] = create_relations.build_shared_index(
                stored.catalog, base, columns, "spark"
            )
    return relations, plans


def _with_upstreams(stored: StoredCatalog, table: str) -> tuple[str, ...]:
    upstreams = (found for name in stored.inputs[table] for found in _with_upstreams(stored, name))
    return tuple(dict.fromkeys((*upstreams, table)))
