"""Mutations: what users ask of a running domain; queued in the manifest, taken in order by its next barriers, never dropped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from engine.hummock import Version
from engine.hummock.manifests.preconditions import Precondition
from engine.meta.catalog.records import Prefix, Record
from engine.meta.epochs.barrier import Barrier, Mutation, close_barrier
from engine.sql.catalog import Relation

RATE_LIMIT, PARALLELISM = "backfill_rate_limit", "parallelism"


class QueuedMutation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One mutation that waits: `number` counts those of the domain, `value` is a rate or a parallelism (None: the default).

    One without a `view` changes nothing: its view was dropped while it waited.
    """

    number: int
    mutation: Mutation
    view: str
    at: float
    value: int | None = None

    @property
    def text(self) -> str:
        """The mutation in words."""
        if not self.view:
            return f"{self.mutation} of a view that was dropped"
        if self.mutation in ("throttle", "update"):
            what = "rows/s" if self.mutation == "throttle" else "tasks"
            return f"{self.mutation} {self.view} to {'the default' if self.value is None else f'{self.value} {what}'}"
        return f"{self.mutation} {self.view}"


class Control(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is in force in a domain, and the queue of what is asked for.

    `paused` names the view for which somebody paused it, `since` when. `rate_limits` and `parallelism` hold, by view, what
    replaces the view's own options (None: the default). `barrier` is the last one that carried a mutation, `taken` its number.
    """

    asked: tuple[QueuedMutation, ...] = ()
    paused: str = ""
    since: float = 0.0
    rate_limits: dict[str, int | None] = {}
    parallelism: dict[str, int | None] = {}
    barrier: Barrier | None = None
    taken: int = 0

    @property
    def reason(self) -> str:
        """Why the domain does not run, in words; empty if it may."""
        return f"paused; ALTER MATERIALIZED VIEW {self.paused} RESUME continues it" if self.paused else ""


CONTROLS = Record.of_json(Prefix.CONTROL, Control)


def read_control(version: Version, domain: str) -> Control:
    """Return what is in force in a domain and what waits to be."""
    return CONTROLS.read(version, domain) or Control()


def encode_control(domain: str, control: Control) -> dict[str, str | None]:
    """Return the catalog entry that keeps a domain's control; there is none while everything is as it was made."""
    return CONTROLS.remove(domain) if control == Control() else CONTROLS.record(domain, control)


def enqueue_mutation(
    control: Control, mutation: Mutation, view: Relation, value: int | None, now: float
) -> Control:
    """Return a control whose queue has one more mutation at its end.

    What is in force until it is taken is recorded, because the view's options say at once what was asked for.
    """
    number = 1 + (control.asked[-1].number if control.asked else control.taken)
    queue = (*control.asked, QueuedMutation(number, mutation, view.name, now, value))
    limits, tasks = control.rate_limits, control.parallelism
    if mutation == "throttle":
        limits = {view.name: read_number_option(view, RATE_LIMIT), **limits}
    if mutation == "update":
        tasks = {view.name: read_number_option(view, PARALLELISM), **tasks}
    return msgspec.structs.replace(control, asked=queue, rate_limits=limits, parallelism=tasks)


def read_number_option(view: Relation, name: str) -> int | None:
    """Return the number that an option of a view gives, or None for its default."""
    text = view.options.get(name, "")
    return int(text) if text.isdigit() else None


def apply_mutation(control: Control, epoch: int, now: float) -> Control:
    """Return a control in which the oldest mutation that waits is in force; its barrier stands at `epoch`."""
    first = control.asked[0]
    barrier = Barrier(epoch, epoch, "checkpoint", first.mutation)
    after = msgspec.structs.replace(control, asked=control.asked[1:], taken=first.number, barrier=barrier)
    if not first.view:
        return after
    match first.mutation:
        case "pause":
            return msgspec.structs.replace(after, paused=first.view, since=now)
        case "resume":
            return msgspec.structs.replace(after, paused="", since=0.0)
        case "throttle":
            return msgspec.structs.replace(
                after, rate_limits={**control.rate_limits, first.view: first.value}
            )
        case "update":
            return msgspec.structs.replace(
                after, parallelism={**control.parallelism, first.view: first.value}
            )
        case _:
            raise AssertionError(f"mutation {first.mutation} is not one that is queued")


def require_same_queue(base: Version, domain: str) -> Precondition:
    """Return the precondition that nobody has asked for, or taken, a mutation of a domain since `seen`."""
    message = f"mutations of domain {domain} were requested or applied at the same time; try again"
    return CONTROLS.require_same(base, domain, message)


def drop_members(
    version: Version, domain: str, gone: Collection[str], left: Sequence[str]
) -> dict[str, str | None]:
    """Return what dropping views does to their domain's control: the mutation `stop`, in force with the drop itself.

    With no view `left` nothing stays of it; else what was asked of the other views, and a pause, stay as they are.
    """
    control = read_control(version, domain)
    if not left:
        return CONTROLS.remove_existing(version, [domain]) | close_barrier(version, domain)
    last_epoch = control.barrier.curr if control.barrier is not None else 0
    after = msgspec.structs.replace(
        control,
        asked=tuple(_transfer_mutation(a, left[0]) if a.view in gone else a for a in control.asked),
        paused=left[0] if control.paused in gone else control.paused,
        rate_limits={v: limit for v, limit in control.rate_limits.items() if v not in gone},
        parallelism={v: tasks for v, tasks in control.parallelism.items() if v not in gone},
        barrier=Barrier(last_epoch, last_epoch, "checkpoint", "stop"),
    )
    return encode_control(domain, after) | close_barrier(version, domain)


def _transfer_mutation(queued: QueuedMutation, member: str) -> QueuedMutation:
    """Return a mutation of a dropped view as one of another member: a pause holds for all, the rest has lost its object.

    Its place in the queue stays: each number is taken once.
    """
    holds_for_all = queued.mutation in ("pause", "resume")
    return msgspec.structs.replace(queued, view=member if holds_for_all else "", value=None)


def rename_control(
    version: Version, domain: str, new_domain: str, names: Mapping[str, str]
) -> dict[str, str | None]:
    """Return what other names of views, by their old ones, do to their domain's control; an open barrier is minted again."""
    control = read_control(version, domain)
    after = msgspec.structs.replace(
        control,
        asked=tuple(msgspec.structs.replace(a, view=names.get(a.view, a.view)) for a in control.asked),
        paused=names.get(control.paused, control.paused),
        rate_limits={names.get(v, v): limit for v, limit in control.rate_limits.items()},
        parallelism={names.get(v, v): tasks for v, tasks in control.parallelism.items()},
    )
    gone = CONTROLS.remove_existing(version, [domain])
    moved = encode_control(new_domain, after) if after != Control() else {}
    return gone | moved | close_barrier(version, domain)
