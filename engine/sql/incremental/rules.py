"""The rules by which a fragment's table follows its inputs: one kind a rule, which carries what only that rule needs.

A rule is chosen once, when a view is planned, and stored with its fragment; whoever runs, shows or measures a fragment matches on
the kind.
"""

from __future__ import annotations

import msgspec

from engine.sql.incremental.states.partials import Partials
from engine.sql.plan import Scan


class _Kind(msgspec.Struct, frozen=True):
    @property
    def word(self) -> str:
        """What EXPLAIN, plans of a run and reports call the rule, which is also its tag where plans are stored."""
        return str(self.__struct_config__.tag)


class Linear(_Kind, frozen=True, tag="linear"):
    """Each changed row makes its own changes; nothing is looked up."""


class Lookups(_Kind, frozen=True, tag="join"):
    """The change of each side of each join is looked up in the other sides."""


class StoredPartials(_Kind, frozen=True, tag="aggregate"):
    """The change of a group is added to its stored `partials`, those of each call of the plan's aggregate in their order.

    A state that counts the values of groups has no calls, and so no partials but the number of its rows.
    """

    partials: tuple[Partials, ...] = ()


class KeyedRecompute(_Kind, frozen=True, tag="keyed recompute"):
    """Groups that the change touches are aggregated again from their rows, which are found by the input's columns `by`.

    Without columns all rows are one group: the aggregate is computed as a whole, and the difference is the change.
    """

    by: tuple[str, ...]


class FirstRows(_Kind, frozen=True, tag="top-n"):
    """The change is held against the stored first rows of the groups that it touches, found by the input's columns `by`.

    A group of which too few of these are left is ordered again from its rows. Without columns all rows are one group.
    """

    by: tuple[str, ...]


class WindowReach(msgspec.Struct, frozen=True):
    """Calls over windows read up to so many `rows` before and after each row, in the order of a state that `order` leads.

    `nulls_below` says whether rows without a value there come before those with the least one, or after the greatest.
    """

    order: str
    rows: int
    nulls_below: bool

    def of_state(self, state: Scan) -> WindowReach:
        """Return the same with the name that the order has in a state, of which it is a column."""
        return msgspec.structs.replace(self, order=dict(state.items)[self.order])


class WindowRecompute(_Kind, frozen=True, tag="window"):
    """Partitions that the change touches are computed again from their rows, which are found by the input's columns `by`.

    Without columns all rows are one partition: it is computed as a whole, and the difference is the change. With a `reach` only
    the rows around those that have changed are computed again.
    """

    by: tuple[str, ...]
    reach: WindowReach | None = None


class TimedRows(_Kind, frozen=True, tag="temporal"):
    """Rows whose bound the moment passes are found by it, and leave or enter; each changed row is held against the moment."""


class JoinedOnArrival(_Kind, frozen=True, tag="temporal join"):
    """Left rows that come are joined with the right side as it is; those that go take what they brought along with them.

    What a left row has brought is found by the columns `by` of the fragment's own table, which hold the left side's key.
    """

    by: tuple[str, ...]


class ChangelogRows(_Kind, frozen=True, tag="changelog"):
    """Each change of the input, commit by commit, is a row that stays; the rows are numbered in their order."""


class ReferenceRecompute(_Kind, frozen=True, tag="reference"):
    """The touched keys of one operator are computed before and after; the rule that the faster ones are held against."""


class IndexCopy(_Kind, frozen=True, tag="index"):
    """The rows of another table, distributed by other columns."""


class FullRefresh(_Kind, frozen=True, tag="full"):
    """The query is computed as a whole, and the difference to the table's old content is the change."""


Rule = (
    Linear
    | Lookups
    | StoredPartials
    | KeyedRecompute
    | FirstRows
    | WindowRecompute
    | TimedRows
    | JoinedOnArrival
    | ChangelogRows
    | ReferenceRecompute
    | IndexCopy
    | FullRefresh
)
