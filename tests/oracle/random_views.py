"""The views of a random world: plain ones, twins, views on views, views that are cut into partitions and may be poisoned."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.oracle.kinds import CUTS
from tests.oracle.random_conditions import Columns, condition
from tests.oracle.random_queries import Query, QueryMaker, Source
from tests.oracle.random_rows import RandomTable
from tests.oracle.words import Engine, either, spelled

NAMES = ("View", "Table", "join", "Vm", "count", "key", "Where")
DIALECTS: tuple[Engine, ...] = ("spark", "postgres", "risingwave")
WHOLE = either("CAST({0} AS int)", "CAST({0} AS int)", "TRY_CAST({0} AS integer)", "try_cast({0} AS int)")
"""`raw` as a number: a row on which it fails is poison to a view; judges see a null there."""


@dataclass(frozen=True)
class RandomView:
    """View `number` of a world: its query, the dialect it is created in, its options, and the round before which it is created.

    `cut` is the column by which it is cut into partitions, `poisoned` whether a row of table 0 can make it fail.
    """

    number: int
    name: str
    query: Query
    dialect: Engine
    options: Mapping[str, str] = field(default_factory=dict)
    born: int = 0
    cut: str | None = None
    poisoned: bool = False

    @property
    def mark(self) -> str:
        """The mark of the view in texts."""
        return f"⟪V{self.number}⟫"

    @property
    def marked(self) -> Columns:
        """The columns that other views may read; what follows the order of sums is no exact number to them."""
        return tuple((name, kind) for name, kind in self.query.columns if kind != "measure")

    @property
    def judged(self) -> str:
        """The name that judges know it by."""
        return f"v{self.number}"

    @property
    def reads(self) -> tuple[int, ...]:
        """The views that it reads."""
        return tuple(sorted({int(found) for found in re.findall(r"⟪V(\d+)⟫", self.query.text)}))

    @property
    def sums(self) -> tuple[int, ...]:
        """The columns that follow the order of sums."""
        return tuple(at for at, (_, kind) in enumerate(self.query.columns) if kind == "measure")

    def ddl(self, names: Mapping[str, str], name: str | None = None, **options: str) -> str:
        """Return the CREATE statement in the words of its dialect, under another name and with more options if they are given."""
        given = ", ".join(f"{key} = '{value}'" for key, value in {**self.options, **options}.items())
        text = (
            f"CREATE MATERIALIZED VIEW {self.mark}{f' WITH ({given})' if given else ''} AS {self.query.text}"
        )
        return spelled(text, self.dialect, names if name is None else {**names, f"V{self.number}": name})


class ViewMaker:
    """Draws the views of a world one after the other; each may read those before it."""

    def __init__(
        self, chance: random.Random, tables: Sequence[RandomTable], dialect: Engine, large: bool
    ) -> None:
        self.chance, self.tables, self.dialect, self.large = chance, tables, dialect, large
        self.views: list[RandomView] = []

    def roster(self) -> tuple[RandomView, ...]:
        """Return the views of a world."""
        first = self.random(self.tables)
        self.twin(first)
        self.random((first, self.views[1]), least=2)
        cut = self.cut()
        self.random((cut,))
        self.random((cut, *self.tables) if self.chance.random() < 0.5 else (cut, self.views[4]))
        if self.chance.random() < 0.5:
            self.poisonous()
        else:
            self.random(self.tables)
        self.random((*self.tables, self.chance.choice((first, self.views[2]))))
        if not self.large:
            self.random(self.tables)
            self.random(self.tables)
        return tuple(self.views)

    def random(self, sources: Sequence[Source], least: int = 1) -> RandomView:
        """Add a random query over some sources."""
        readable = [source for source in sources if source.marked] or self.tables
        dialect = self._dialect()
        maker = QueryMaker(self.chance, readable, self._letter, self.large, odd=dialect != "spark")
        domain = {"domain": self.chance.choice(("red", "blue"))} if self.chance.random() < 0.15 else {}
        return self._add(maker.query(least), domain, dialect)

    def twin(self, view: RandomView) -> RandomView:
        """Add a view of the same query."""
        return self._add(Query(view.query.text, view.query.columns), {}, view.dialect)

    def cut(self) -> RandomView:
        """Add a view of table 0 that is cut by a column, and computes a number of `raw`."""
        table, letter = self.tables[0], self._letter
        cuts = [
            (name, kind)
            for at, (name, kind) in enumerate(table.marked)
            if kind in CUTS and at not in table.key
        ]
        cut, kind = self.chance.choice(cuts)
        raw = next(name for name, kind in table.marked if kind == "raw")
        number = WHOLE.replace("{0}", raw)
        test = condition(self.chance, table.marked) if self.chance.random() < 0.3 else None
        where = f" WHERE {test}" if test else ""
        columns: Columns
        drawn = self.chance.random()
        if drawn < 0.2:
            others = [name for name, kind in table.marked if kind in CUTS]
            order = ", ".join(f"{name} DESC NULLS FIRST" for name in others)
            text = (
                f"SELECT {cut} AS {letter}1, {number} AS {letter}2, max({number}) OVER (PARTITION BY {cut}) AS {letter}3, "
                f"rank() OVER (PARTITION BY {cut} ORDER BY {order}) AS {letter}4 FROM {table.mark}{where}"
            )
            columns = (
                (f"{letter}1", kind),
                (f"{letter}2", "int"),
                (f"{letter}3", "int"),
                (f"{letter}4", "other"),
            )
        elif drawn < 0.6:
            kept = [
                (f"{letter}{at + 3}", column)
                for at, column in enumerate(table.marked)
                if column[0] not in (cut, raw)
            ]
            listed = "".join(f", {name} AS {new}" for new, (name, _) in kept)
            text = f"SELECT {cut} AS {letter}1, {number} AS {letter}2{listed} FROM {table.mark}{where}"
            columns = (
                (f"{letter}1", kind),
                (f"{letter}2", "int"),
                *((new, kept_kind) for new, (_, kept_kind) in kept),
            )
        else:
            others = [column for column in table.marked if column[0] not in (cut, raw) and column[1] in CUTS]
            more = self.chance.sample(others, min(len(others), self.chance.choice((0, 1))))
            by = "".join(f", {name}" for name, _ in more)
            keys = "".join(f", {name} AS {letter}{at + 5}" for at, (name, _) in enumerate(more))
            call = self.chance.choice(("sum", "max", "min"))
            text = (
                f"SELECT {cut} AS {letter}1, count(*) AS {letter}2, {call}({number}) AS {letter}3{keys} "
                f"FROM {table.mark}{where} GROUP BY {cut}{by}"
            )
            result = "other" if call == "sum" else "int"
            columns = ((f"{letter}1", kind), (f"{letter}2", "bigint"), (f"{letter}3", result))
            columns += tuple((f"{letter}{at + 5}", kept_kind) for at, (_, kept_kind) in enumerate(more))
        return self._add(
            Query(text, columns), {"partition_by": f"{letter}1"}, cut=f"{letter}1", poisoned=True
        )

    def poisonous(self) -> RandomView:
        """Add a view of table 0 that fails as a whole on a row whose `raw` is no number."""
        table, letter = self.tables[0], self._letter
        raw = next(name for name, kind in table.marked if kind == "raw")
        by, kind = self.chance.choice([column for column in table.marked if column[1] in CUTS])
        text = f"SELECT {by} AS {letter}1, sum({WHOLE.replace('{0}', raw)}) AS {letter}2 FROM {table.mark} GROUP BY {by}"
        return self._add(Query(text, ((f"{letter}1", kind), (f"{letter}2", "other"))), {}, poisoned=True)

    def _dialect(self) -> Engine:
        return self.dialect if self.chance.random() < 0.7 else self.chance.choice(DIALECTS)

    @property
    def _letter(self) -> str:
        return "defghijklmnopq"[len(self.views)]

    def _add(
        self,
        query: Query,
        options: Mapping[str, str],
        dialect: Engine | None = None,
        cut: str | None = None,
        poisoned: bool = False,
    ) -> RandomView:
        number = len(self.views)
        dialect = dialect or self._dialect()
        name = self.chance.choice(NAMES) + str(number) if self.chance.random() < 0.2 else f"v_{number}"
        name = name.lower() if dialect == "spark" else name
        born = max(
            [
                self.chance.choice((0, 1, 1, 2)),
                *(self.views[n].born for n in RandomView(0, "", query, dialect).reads),
            ]
        )
        view = RandomView(
            number, name, query, dialect, options, born, cut, poisoned and dialect != "risingwave"
        )
        self.views.append(view)
        return view
