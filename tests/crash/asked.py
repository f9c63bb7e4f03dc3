"""What was asked of the domains, noted from the store, against what is in force: no mutation is dropped, doubled or out of turn."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from engine.hummock import Version
from engine.meta.catalog.stored_catalog import StoredCatalog, load_catalog
from engine.meta.domains.domain import list_domains
from engine.meta.domains.mutation import (
    CONTROLS,
    PARALLELISM,
    RATE_LIMIT,
    Control,
    QueuedMutation,
    read_control,
    read_number_option,
)
from tests.crash.broken import Broken


@dataclass
class MutationHistory:
    """What is known of one domain: the mutations seen in its queue by number, and what was in force when it was first seen."""

    members: tuple[str, ...]
    first: Control
    asked: dict[int, QueuedMutation] = field(default_factory=dict)
    last: int = 0


def _is_transferred(known: QueuedMutation, now: QueuedMutation) -> bool:
    """Tell whether a mutation is that of a view that has left: a pause is another member's then, the rest has lost its view."""
    holds_for_all = known.mutation in ("pause", "resume")
    return (holds_for_all or not now.view) and now == msgspec.structs.replace(
        known, view=now.view, value=None
    )


class AskedMutations:
    """Looks at every version and remembers the queues."""

    def __init__(self) -> None:
        self._histories: dict[str, MutationHistory] = {}

    def check(self, version: Version) -> None:
        """Raise Broken if a domain's mutations in force are not those that were asked for, in order."""
        stored = load_catalog(version)
        known = list_domains(stored)
        for key in version.catalog:
            if key.startswith((CONTROLS.prefix, "barrier/")) and key.partition("/")[2] not in known:
                raise Broken(f"{key} outlives its domain")
        for name in self._histories.keys() - known.keys():  # one that comes again is another one
            self.forget(name)
        for name, domain in known.items():
            control = read_control(version, name)
            history = self._histories.get(name)
            if history is None or history.members != domain.members:
                history = self._histories[name] = MutationHistory(domain.members, control, {}, control.taken)
            if control.taken < history.last:
                raise Broken(
                    f"domain {name} has forgotten mutations: {history.last} were taken, now {control.taken}"
                )
            history.last = control.taken
            numbers = [asked.number for asked in control.asked]
            if numbers != list(range(control.taken + 1, control.taken + 1 + len(numbers))):
                raise Broken(f"the queue of domain {name} has gaps: {control.taken} taken, {numbers} wait")
            for asked in control.asked:
                known = history.asked.setdefault(asked.number, asked)
                if known != asked and _is_transferred(known, asked):
                    history.asked[asked.number] = asked  # its view was dropped, or made anew
                elif known != asked:
                    raise Broken(f"mutation {asked.number} of domain {name} was replaced: {known} by {asked}")
            self._in_force(name, history, control, stored)

    def forget(self, domain: str) -> None:
        """Forget a domain that has left; another may have its name by now."""
        self._histories.pop(domain, None)

    def _in_force(self, name: str, history: MutationHistory, control: Control, stored: StoredCatalog) -> None:
        paused = bool(history.first.paused)
        limits: dict[str, int | None] = {}
        tasks: dict[str, int | None] = {}
        for number in range(history.first.taken + 1, control.taken + 1):
            asked = history.asked.get(number)
            if asked is None:  # asked for and taken between two looks
                history.first, history.asked = control, {a.number: a for a in control.asked}
                return
            if not asked.view:  # its view was dropped
                continue
            match asked.mutation:
                case "pause" | "resume":
                    paused = asked.mutation == "pause"
                case "throttle":
                    limits[asked.view] = asked.value
                case _:
                    tasks[asked.view] = asked.value
        if paused != bool(control.paused):
            raise Broken(f"domain {name} is {'not ' if paused else ''}paused against what was asked for last")
        for option, wanted, given in (
            (RATE_LIMIT, limits, control.rate_limits),
            (PARALLELISM, tasks, control.parallelism),
        ):
            # a view that was made anew has as an option of its own what was asked for
            own = {view: read_number_option(stored.catalog.get(view), option) for view in wanted}
            found = {view: given.get(view, own[view]) for view in wanted}
            if found != wanted:
                raise Broken(f"domain {name} has {found} in force, asked for was {wanted}")
