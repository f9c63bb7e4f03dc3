"""One life of a random program on Spark, to be killed or stopped at any moment by `tests.crash.processes`.

`python -m tests.crash.worker FOLDER SEED LIFE STEPS SPARK`; prints a line as each step begins and ends. Each life writes rows of its own ids, and notes each
write in a journal before it is done and after, so that whoever reads the store later knows what may be there.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

from engine.errors import Conflict, Fenced, SqlError, TidelineError
from engine.meta.catalog.successions import find_succeeded_view
from engine.meta.status.sinks import list_sinks
from engine.session import Session
from tests.crash.program.view_verbs import AT_THE_ENDS, ON_TOP, OTHERS, SEVERAL_ORDERS, SHAPES
from tests.crash.tables import TABLES

IDS = 40
"""Each life has so many ids of each table."""
GRACE_SECONDS = 120.0
LIFTED = "SET (backfill_rate_limit = 1000000)"
BACKFILL_ROWS = 60
RACES = (
    "at the same time",
    "another process",
    "already",
    "is unknown",
    "does not exist",
    "there is no",
    "wait for each other",
)
LOST = (
    *RACES,
    "was replaced by",
    "meanwhile",
    "while rows were written",
    "was dropped",
    "may be gone",
    "exists already",
)
"""What a view or a sink says that has lost a race to another life; whatever else it says is a fault."""


class Worker:
    """The verbs of one life."""

    def __init__(self, session: Session, folder: Path, seed: int, life: int) -> None:
        self.session, self.folder, self.life = session, folder, life
        self.random = random.Random(f"{seed}/{life}")
        self.journal = (folder / f"journal-{life}").open("a")
        self.rows: dict[str, dict[int, tuple[int, int]]] = {name: {} for name in TABLES}
        self.made = 0

    def note(self, **entry: object) -> None:
        """Add a line to the journal; it outlives the process."""
        self.journal.write(json.dumps(entry) + "\n")
        self.journal.flush()

    def list_views(self) -> list[str]:
        """Return the views that somebody has created; a successor that is built beside one of them has no name for users."""
        relations = self.session.catalog.relations.items()
        return [n for n, r in relations if r.kind == "materialized view" and find_succeeded_view(n) is None]

    def run(self, steps: int) -> None:
        """Do random steps; what loses a race to another life is left."""
        verbs: list[tuple[int, Callable[[], None]]] = [
            (28, self.write),
            (10, self.create_view),
            (3, self.drop_view),
            (5, self.change_model),
            (24, self.flush),
            (6, self.compact),
            (4, self.collect),
            (5, self.create_sink),
            (2, self.drop_sink),
            (2, self.reset_sink),
            (5, self.steer),
        ]
        for _ in range(steps):
            (_, verb) = self.random.choices(verbs, [weight for weight, _ in verbs])[0]
            print(f"step {verb.__name__}", flush=True)
            try:
                verb()
                print(f"did {verb.__name__}", flush=True)
            except (Conflict, Fenced, SqlError) as error:
                if isinstance(error, SqlError) and not any(words in str(error) for words in RACES):
                    raise
                print(f"lost {verb.__name__}", flush=True)

    def write(self) -> None:
        """Change some rows of this life, by rows or by SQL."""
        name = self.random.choice(sorted(TABLES))
        first = self.life * 1000
        ids = [first + i for i in self.random.sample(range(IDS), self.random.choice((1, 5, 25)))]
        known = self.rows[name]
        if known and self.random.random() < 0.25:
            gone = self.random.sample(sorted(known), min(len(known), self.random.choice((1, 8))))
            self.note(table=name, gone=gone)
            if self.random.random() < 0.5:
                self.session.sql(f"DELETE FROM {name} WHERE {TABLES[name].is_one_of(gone)}")
            else:
                self.session.write(name, TABLES[name].keys(gone), mode="delete")
            for i in gone:
                del known[i]
        else:
            puts = {i: (self.random.randrange(6), self.random.randrange(50)) for i in ids}
            self.note(table=name, puts=[[i, *pair] for i, pair in puts.items()])
            self.session.write(name, TABLES[name].rows(puts))
            known.update(puts)
        self.note(done=True)

    def create_view(self) -> None:
        """Create a view over tables or over another view, at once or by later flushes."""
        catalog = self.session.catalog
        views = self.list_views()
        if len(views) >= 5:
            return
        self.made += 1
        name = f"v{self.life}_{self.made}"
        if views and self.random.random() < 0.35:
            view = self.random.choice(sorted(views))
            column = catalog.get(view).columns[0].name
            text = self.random.choice(ON_TOP).format(view=view, column=column)
        else:
            text = self.random.choice((*SHAPES, *AT_THE_ENDS, *SEVERAL_ORDERS))
        options = [f"domain = '{self.random.choice(('red', 'blue'))}'"] if self.random.random() < 0.25 else []
        options += ["background = 'true'"] if self.random.random() < 0.3 else []
        given = f" WITH ({', '.join(options)})" if options else ""
        self.note(view=name, text=text)
        self.session.sql(f"CREATE MATERIALIZED VIEW {name}{given} AS {text}", build=False)

    def drop_view(self) -> None:
        """Drop a view and what reads it."""
        views = self.list_views()
        if views:
            name = self.random.choice(sorted(views))
            self.session.sql(f"DROP MATERIALIZED VIEW IF EXISTS {name} CASCADE")

    def change_model(self) -> None:
        """Give a view another query as a changed model does: its rows stay, or it is made anew with all that reads it."""
        from dagster_tideline.models.loader import Model
        from dagster_tideline.models.replacement import ReplacementRefused, replace_relations

        catalog = self.session.catalog
        views = self.list_views()
        if not views:
            return
        name = self.random.choice(sorted(views))
        head, _, before = catalog.get(name).sql.partition(" AS ")
        other = OTHERS.get(before)
        keeps = other is not None and self.random.random() < 0.7
        text = other if keeps and other else self.random.choice((*SHAPES, *AT_THE_ENDS, *SEVERAL_ORDERS))
        if text == before:
            return
        self.note(view=name, text=text)
        try:
            replace_relations(
                self.session, [name], {name: Model(name, "materialized view", f"{head} AS {text}", "a model")}
            )
        except ReplacementRefused as refused:  # what reads it cannot follow, or another life was faster
            print(f"refused {refused.name}: {str(refused.error).splitlines()[0]}", flush=True)

    def flush(self) -> None:
        """Run what is pending; a view may fail by nothing but losing its race."""
        if self.random.random() < 0.3:
            self.session._runner.backfill.get_pace("any").rows = 20
        seconds = self.random.choice((0.0, 0.2, 2.0))
        report = self.session.flush(
            eager=self.random.random() < 0.8, background_seconds=seconds, sink_seconds=1.0
        )
        failed = [(view.view, str(view.error)) for view in report.failed]
        failed += [(f"sink {sink.sink}", sink.error) for sink in report.sinks if sink.error is not None]
        for name, error in failed:
            print(f"failed {name}: {error.splitlines()[0]}", flush=True)
            if not any(words in error for words in LOST):
                self.note(failed=name, error=error)

    def compact(self) -> None:
        """Compact a table."""
        name = self.random.choice(sorted(self.session.store.refresh().tables))
        (self.session.store.compact if self.random.random() < 0.5 else self.session.store.compact_l0)(name)

    def collect(self) -> None:
        """Collect garbage."""
        self.session.store.gc(grace_seconds=GRACE_SECONDS)

    def create_sink(self) -> None:
        """Send a table or a view whose key is shown to files."""
        catalog = self.session.catalog
        if len(list(list_sinks(self.session.stored))) >= 3:
            return
        shown = []
        for name, relation in catalog.relations.items():
            columns = {column.name for column in relation.visible_columns}
            named = relation.kind == "table" or (
                relation.kind == "materialized view" and not find_succeeded_view(name)
            )
            if named and set(relation.primary_key) <= columns:
                shown.append(name)
        self.made += 1
        source, name = self.random.choice(sorted(shown)), f"s{self.life}_{self.made}"
        url = (self.folder / "sinks" / name).as_uri()
        self.session.sql(
            f"CREATE SINK {name} FROM {source} WITH (connector = 'file', url = '{url}', format = 'jsonl', type = 'upsert')",
            build=False,
        )

    def drop_sink(self) -> None:
        """Drop a sink."""
        known = sorted(relation.name for relation in list_sinks(self.session.stored))
        if known:
            self.session.sql(f"DROP SINK IF EXISTS {self.random.choice(known)}")

    def reset_sink(self) -> None:
        """Make a sink begin anew, whoever delivers it at this moment."""
        known = sorted(relation.name for relation in list_sinks(self.session.stored))
        if known:
            self.session.sql(f"ALTER SINK {self.random.choice(known)} RESET")

    def steer(self) -> None:
        """Ask for a mutation: pause, resume, throttle, or update of the parallelism."""
        views = self.list_views()
        if views:
            words = (
                "PAUSE",
                "RESUME",
                "RESUME",
                "SET (backfill_rate_limit = 0)",
                LIFTED,
                "SET (parallelism = 2)",
            )
            name = self.random.choice(sorted(views))
            self.session.sql(f"ALTER MATERIALIZED VIEW {name} {self.random.choice(words)}")

    def settle(self) -> None:
        """Let everything go on and catch up; raises where something cannot."""
        for name in self.list_views():
            self.session.sql(f"ALTER MATERIALIZED VIEW {name} RESUME")
            self.session.sql(f"ALTER MATERIALIZED VIEW {name} {LIFTED}")
        for _ in range(30):
            report = self.session.flush(background_seconds=5.0, sink_seconds=20.0)
            behind = [sink.sink for sink in report.sinks if sink.lag_rows or sink.error]
            if not self.session.waits() and not behind:
                return
        stuck = [(wait.domain, wait.kind, wait.reason) for wait in self.session.waits()]
        raise TidelineError(
            f"stuck: {stuck}, sinks {behind}, errors {[view.error for view in report.failed]}"
        )


def main() -> None:
    """Live one life; a life that is to end by itself settles at last."""
    folder, seed, life, steps, spark = Path(sys.argv[1]), *map(int, sys.argv[2:5]), sys.argv[5]
    with Session((folder / "store").as_uri(), spark, backfill_rows=BACKFILL_ROWS) as session:
        for name, table in TABLES.items():
            session.sql(f"CREATE TABLE IF NOT EXISTS {name} {table.ddl}")
        assert session.spark is not None
        print("ready", flush=True)
        worker = Worker(session, folder, seed, life)
        worker.run(steps)
        if "settle" in sys.argv[6:]:
            sys.stdin.readline()  # until no other life writes any more
            worker.settle()
    print("ended", flush=True)


if __name__ == "__main__":
    main()
