"""How a run's plan is made, from a version alone: no commit, no claim, no Spark.

`plan_next_step` is the one place that decides what a domain does next. A run asks it each time with the newest version; a plan
asks it again and again, each time with the version as it is expected after the step before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.hummock import Version
from engine.hummock.epoch import seconds_of
from engine.meta.catalog.stored_catalog import StoredCatalog, has_same_plans, load_catalog
from engine.meta.catalog.successions import group_successions, list_successions
from engine.meta.domains.creation import CONSUMING_SNAPSHOT, find_computed_table, list_creations
from engine.meta.domains.domain import Domain, find_domain_name, find_rate_limit, list_domains
from engine.meta.domains.failures import Failure, is_failing, list_failures
from engine.meta.domains.mutation import read_control
from engine.meta.domains.quarantine import (
    QUARANTINES,
    describe_quarantine,
    find_due_partitions,
    list_outside_tables,
    list_retry_views,
    read_quarantine,
)
from engine.meta.domains.refresh_policy import list_resting_views
from engine.meta.domains.repeated_failures import find_failed_barrier
from engine.meta.epochs.arrival_stops import list_arrival_stops
from engine.meta.epochs.barrier import Minting, find_open_barrier, find_recompute_epochs, mint_barrier
from engine.meta.epochs.flush_plan import (
    RECOMPUTE,
    DomainPlan,
    FlushPlan,
    FlushRequest,
    FlushStep,
    Recomputation,
    RunTarget,
    Work,
)
from engine.meta.epochs.fragment_work import FragmentWork, plan_fragment_work
from engine.meta.epochs.frontier import compute_frontiers, needs_run
from engine.meta.epochs.target_epoch import (
    choose_label,
    find_newer_reach,
    find_next_stop,
    find_reach,
    find_reader,
    is_aligned,
)
from engine.meta.epochs.time_boundary import find_next_boundary
from engine.meta.status.waits import describe_failure, find_rest_now, is_lagging, list_waits
from engine.runtime.backfill.eligibility import needs_backfill
from engine.runtime.domains.expected_version import ExpectedTable, predict_version

_MOST_STEPS = 20
MOST_SECONDS_BEHIND = 60.0
"""A view does not wait for a successor that is further behind, or longer at its epoch: it may have all changes since its
snapshot to take in."""


@dataclass(frozen=True)
class DomainCourse:
    """How far a run has brought a domain: `straight` if it has failed, and so takes all that it lacks as one range; `arrived` at
    the cut of the run. One that `rests` is not brought on, and says why.
    """

    target: RunTarget
    straight: bool = False
    arrived: bool = False
    rests: str | None = None


def begin_course(
    domain: Domain, version: Version, stored: StoredCatalog, request: FlushRequest, target: RunTarget
) -> DomainCourse:
    """Return the course of a domain at the beginning of its work in a run."""
    return DomainCourse(
        target, is_failing(version, domain.name), rests=_find_rest_reason(domain, version, stored, request)
    )


def _find_rest_reason(
    domain: Domain, version: Version, stored: StoredCatalog, request: FlushRequest
) -> str | None:
    rest = find_rest_now(domain, version, stored, request.now)
    is_requested = (
        rest is not None
        and request.eager
        and not _resolve_views(version, stored, request).isdisjoint(domain.members)
    )
    return None if rest is None or is_requested else rest.text


def list_moving_tables(version: Version, stored: StoredCatalog, request: FlushRequest) -> frozenset[str]:
    """Return the tables of the domains that a run may bring on: of none that rests, is paused, waits to be tried again, is tried
    again over what it failed over, or lags with what it reads.

    For the others nothing is to be committed, not even that the time has come.
    """
    everything = list_domains(stored)
    names = (
        list(everything)
        if request.views is None
        else _collect_upstreams(everything, _resolve_views(version, stored, request))
    )
    known = compute_frontiers(version, stored.order, stored.inputs)
    hold_reasons = _find_hold_reasons(version, stored, request)
    still: set[str] = set()
    for name, domain in everything.items():
        control = read_control(version, name)
        is_still = (
            name not in names
            or name in hold_reasons
            or control.paused
            or _find_rest_reason(domain, version, stored, request) is not None
            or find_failed_barrier(domain, version, request.now) is not None
            or not still.isdisjoint(domain.upstreams)
        )
        if is_still and not control.asked and is_lagging(domain, known):
            still.add(name)
    return frozenset(t for name in names if name not in still for t in everything[name].tables)


def limit_steps(domain: Domain, version: Version, stored: StoredCatalog) -> int:
    """Return how many steps a domain takes in one run at most, those that a race made void included."""
    return _MOST_STEPS + len(list_arrival_stops(domain, version, stored, version.epoch))


def choose_domains(version: Version, request: FlushRequest) -> FlushPlan:
    """Return which domains a run over a version works on, without a forecast of their steps.

    Raises SqlError for a view that there is not.
    """
    stored = load_catalog(version)
    everything = list_domains(stored)
    names = (
        list(everything)
        if request.views is None
        else _collect_upstreams(everything, _resolve_views(version, stored, request))
    )
    known = compute_frontiers(version, stored.order, stored.inputs)
    hold_reasons = _find_hold_reasons(version, stored, request)
    again = {*request.partitions, *list_retry_views(version, stored, request.now, eager=request.eager)}
    found: dict[str, DomainPlan] = {}
    building: set[str] = set()
    for name in names:
        domain = everything[name]
        goes_on = is_lagging(domain, known) or not again.isdisjoint(domain.members)
        is_due = (goes_on and name not in hold_reasons) or bool(read_control(version, name).asked)
        built = needs_backfill(domain, version, stored, request.backfill_rows) if is_due else False
        if is_due and (built or not building.isdisjoint(domain.upstreams)):
            building.add(name)
        found[name] = DomainPlan(domain, is_due, name in building, hold_reasons.get(name))
    return FlushPlan(RunTarget(version.epoch).adopt_newer(version).epoch, tuple(found.values()))


def plan_flush(version: Version, request: FlushRequest) -> FlushPlan:
    """Return what a run over a version does, step by step: it is made where somebody asks to see it, a run does without."""
    plan = choose_domains(version, request)
    due = {one.name for one in plan.due}
    failed, plans = list_failures(version), []
    for one in forecast_steps(plan, version, request).domains:
        after = one if one.name in due else replace(one, waits_for=one.hold_reason)
        plans.append(replace(after, notes=_list_notes(after, version, failed, request)))
    return replace(plan, domains=tuple(plans))


def forecast_steps(plan: FlushPlan, version: Version, request: FlushRequest) -> FlushPlan:
    """Return a plan with the steps of the domains that are due, as a run over a version is expected to take them."""
    done = _Forecast(version, load_catalog(version), request).plan_domains(plan.due)
    return replace(plan, domains=tuple(done.get(one.name, one) for one in plan.domains))


def list_awaiting_successors(
    version: Version, stored: StoredCatalog, busy: Mapping[str, float]
) -> tuple[str, ...]:
    """Return the domains that wait while slow successors do the last epoch before they, or those that they read, take over.

    `busy` are the domains at work, and since how many seconds. A successor takes over at the epoch of its view: one that is
    slower would never come there if the view went on meanwhile. Views that read each other are taken over together, and so wait
    together. Once they are copies, one is done when the successors that read its own have come up to both. One that hangs or
    fails is not waited for.
    """
    successions, found = list_successions(version), dict[str, None]()

    def is_coming(successor: str, epoch: int) -> bool | None:
        """Tell whether a successor is at work on what it lacks up to an epoch; None if it will not come there soon."""
        table, domain = find_computed_table(version, successor), find_domain_name(stored, successor)
        if table is None or is_failing(version, domain) or busy.get(domain, 0.0) >= MOST_SECONDS_BEHIND:
            return None
        if seconds_of(epoch) - seconds_of(table.committed_epoch) > MOST_SECONDS_BEHIND:
            return None
        return table.committed_epoch < epoch and domain in busy

    waiting = [view for view, one in successions.items() if not one.copied]
    for group in group_successions(stored, waiting):
        if any(successions[view].held and not successions[view].unasked for view in group):
            continue
        own = {view: find_computed_table(version, view) for view in group}
        coming = [
            None if table is None else is_coming(successions[view].successor, table.committed_epoch)
            for view, table in own.items()
        ]
        if None not in coming and any(coming):
            found |= dict.fromkeys(find_domain_name(stored, view) for view in group)
    for view, one in successions.items():
        names = (view, one.successor)
        epochs = [table.committed_epoch for name in names if (table := find_computed_table(version, name))]
        if one.copied and one.successor in stored.catalog.relations and len(epochs) == len(names):
            readers = stored.catalog.list_dependents(one.successor)
            following = [other.successor for other in successions.values() if other.successor in readers]
            if any(is_coming(reader, max(epochs)) for reader in following):
                found |= dict.fromkeys(find_domain_name(stored, name) for name in names)
    return tuple(found)


def plan_next_step(
    domain: Domain, version: Version, stored: StoredCatalog, request: FlushRequest, course: DomainCourse
) -> FlushStep:
    """Return what a domain does next on its course over a version, `nothing` if it has arrived or has to wait."""
    if not has_same_plans(version, stored, domain.members):
        return FlushStep("nothing", waits_for="it was dropped or planned again at the same time")
    control = read_control(version, domain.name)
    if control.asked and not course.arrived:  # what is asked for meanwhile is the next run's
        return FlushStep("mutation", mutations=tuple(mutation.text for mutation in control.asked))
    if control.paused or course.rests is not None:
        return FlushStep("nothing", waits_for=control.reason if control.paused else course.rests)
    target = course.target
    stop = find_next_stop(domain, version, stored, target.epoch, target.previous, straight=course.straight)
    if stop is None:
        return _plan_last_step(domain, version, stored, request)
    if needs_backfill(domain, version, stored, request.backfill_rows):
        return _plan_backfill_step(domain, version, stop)
    left = find_failed_barrier(domain, version, request.now) if request.eager else None
    how: Minting = "anew" if course.straight or _is_barrier_obsolete(domain, version, stored) else "rerun"
    if left is not None and left.barrier.curr <= stop:
        barrier, stop, how = left, left.barrier.curr, "again"
    else:
        label = choose_label(domain, version, stored, stop)
        barrier = mint_barrier(version, domain, label, request.now, how)
    fragments = tuple(_plan_fragments(domain, version, barrier.barrier.curr))
    oldest = _find_oldest_change(domain, version, stop)
    return FlushStep(_choose_work(fragments), stop, barrier, how, fragments, oldest_change=oldest)


def _plan_last_step(
    domain: Domain, version: Version, stored: StoredCatalog, request: FlushRequest
) -> FlushStep:
    """Return what is left to do for a domain that stands at the cut: partitions may have to be computed again."""
    found = (plan_recomputation(domain, version, stored, view, request) for view in domain.members)
    again = tuple(one for one in found if one is not None)
    broken_off = domain.tables[0] in find_recompute_epochs(version)
    reach = max((one.reach for one in again), default=0)
    return FlushStep(RECOMPUTE if again or broken_off else "nothing", reach, again=again)


def _plan_backfill_step(domain: Domain, version: Version, stop: int) -> FlushStep:
    """Return the step that begins a snapshot backfill at `stop`, or goes on with one."""
    oldest = _find_oldest_change(domain, version, stop)
    creation = list_creations(version).get(domain.name)
    if creation is not None and creation.state == CONSUMING_SNAPSHOT:
        return FlushStep("backfill step", stop, oldest_change=oldest, snapshot=creation.epoch)
    fragments = tuple(_plan_fragments(domain, version, stop))
    return FlushStep("backfill step", stop, fragments=fragments, oldest_change=oldest, snapshot=stop)


def _is_barrier_obsolete(domain: Domain, version: Version, stored: StoredCatalog) -> bool:
    """Whether a barrier that was left open ends where what the domain reads has no content any more."""
    left = find_open_barrier(version, domain.name)
    return left is not None and not is_aligned(domain, version, stored, left.barrier.curr)


def _choose_work(fragments: Sequence[FragmentWork]) -> Work:
    hows = {fragment.how for fragment in fragments}
    if "computed whole" in hows:
        return "computed whole"
    return "first content" if hows == {"first content"} else "epoch"


def plan_recomputation(
    domain: Domain, version: Version, stored: StoredCatalog, view: str, request: FlushRequest
) -> Recomputation | None:
    """Return which partitions of a view are to be computed again over a version, None if none can be."""
    requested, waiting = request.partitions.get(view, frozenset[str]()), frozenset[str]()
    if QUARANTINES.has(version, view):
        inputs = list_outside_tables(stored, view)
        waiting = find_due_partitions(version, view, inputs, request.now, eager=request.eager)
    if not requested and not waiting:
        return None
    reach = find_newer_reach(domain, version, stored, view)
    if reach is None:
        return None
    if not requested and find_reader(domain, version, reach) is not None:
        return None  # they stay due until its inputs go on
    return Recomputation(view, requested, waiting, reach)


def plan_recompute_step(domain: Domain, version: Version, reach: int, request: FlushRequest) -> FlushStep:
    """Return the step that computes partitions again over a domain's inputs at `reach`."""
    barrier = mint_barrier(version, domain, reach, request.now, "recompute")
    return FlushStep(RECOMPUTE, reach, barrier, "recompute")


def find_wait_reason(domain: Domain, reasons: Mapping[str, str | None]) -> str | None:
    """Return the first of the `reasons`, by domain, for which what a domain reads does not go on."""
    for upstream in domain.upstreams:
        if reason := reasons.get(upstream):
            return f"waits for {upstream}: {reason}"
    return None


class _Forecast:
    """Goes through the domains that are due as a run does, over the versions that it expects to see."""

    def __init__(self, version: Version, stored: StoredCatalog, request: FlushRequest) -> None:
        self._version, self._stored, self._request = version, stored, request
        self._target = RunTarget(version.epoch)

    def plan_domains(self, due: Sequence[DomainPlan]) -> dict[str, DomainPlan]:
        """Return the plans with their steps, by domain."""
        done: dict[str, DomainPlan] = {}
        reasons: dict[str, str | None] = {}
        for plan in due:
            try:
                steps, waits_for = self._plan_steps(plan.domain)
            except (
                Exception
            ) as failure:  # the run fails so, too, when it comes to this domain; the others go on
                steps, waits_for = (), f"it cannot be planned: {failure}"
            if waits_for is None and not steps:
                why = (find_wait_reason(plan.domain, reasons), self._find_misalignment(plan.domain))
                waits_for = "; ".join(reason for reason in why if reason) or None
            reads = (name for name in plan.domain.upstreams if name in done)
            busy = tuple(name for name in reads if done[name].steps or done[name].reads)
            done[plan.name] = replace(plan, steps=steps, waits_for=waits_for, reads=busy)
            reasons[plan.name] = waits_for
        return done

    def _plan_steps(self, domain: Domain) -> tuple[tuple[FlushStep, ...], str | None]:
        steps: list[FlushStep] = []
        course = begin_course(domain, self._version, self._stored, self._request, self._target)
        most = limit_steps(domain, self._version, self._stored)
        while len(steps) < most:
            version, target = self._version, self._target.adopt_newer(self._version)
            course = replace(course, target=target)
            step = plan_next_step(domain, version, self._stored, self._request, course)
            if step.work == "nothing":
                return tuple(steps), step.waits_for
            steps.append(step)
            if step.work == "backfill step" and (halted := self._find_halt_reason(domain)) is not None:
                return tuple(steps), halted
            self._version = predict_version(version, domain, step, self._request.now)
            if step.work == RECOMPUTE:
                self._target = target.mark_minted(version, step.stop).extend_to(step.label or 0)
                break
            if step.work not in ("mutation", "backfill step"):
                self._target = target.mark_minted(version, step.stop)
                course = replace(course, arrived=step.stop >= target.epoch)
        return tuple(steps), None

    def _find_halt_reason(self, domain: Domain) -> str | None:
        """Return why a backfill does not go on, None if it does."""
        if find_rate_limit(domain, self._stored, read_control(self._version, domain.name)) == 0:
            return "paused by backfill_rate_limit = 0"
        return None

    def _find_misalignment(self, domain: Domain) -> str | None:
        """Return that the inputs of a domain have not met, where they have not."""
        if find_reach(domain, self._version, self._stored) is not None:
            return None
        return f"there is no epoch yet at which all that it reads has content ({', '.join(domain.inputs)})"


def _list_notes(
    plan: DomainPlan, version: Version, failed: Mapping[str, Failure], request: FlushRequest
) -> tuple[str, ...]:
    """Return what is the matter with a domain whatever a run does: its failure, its backfill, its quarantine."""
    found = []
    if (failure := failed.get(plan.name)) is not None and plan.due:
        found.append(describe_failure(failure, request.now))
    creation = list_creations(version).get(plan.name)
    if creation is not None and creation.state == CONSUMING_SNAPSHOT:
        found.append(creation.text)
    recomputed = {one.view: one.requested | one.due for step in plan.steps for one in step.again}
    for view in plan.domain.members:
        out = {
            k: one for k, one in read_quarantine(version, view).items() if k not in recomputed.get(view, ())
        }
        found += [text for text in (describe_quarantine(out),) if text is not None]
    return tuple(found)


def _plan_fragments(domain: Domain, version: Version, upto: int) -> Iterator[FragmentWork]:
    """Yield how the fragments of a domain are brought to an epoch that have to be, those that read another of them included."""
    foreseen = {name for name in domain.inputs if isinstance(version.tables.get(name), ExpectedTable)}
    coming: set[str] = set()
    for _, fragment in domain.fragments:
        dependencies = domain.dependencies[fragment.table]
        if coming.isdisjoint(dependencies) and not needs_run(version, fragment.table, dependencies, upto):
            continue
        yield plan_fragment_work(version, fragment, dependencies, upto, coming | foreseen)
        coming.add(fragment.table)


def _find_oldest_change(domain: Domain, version: Version, stop: int) -> int | None:
    """Return the oldest change up to `stop` that a domain lacks."""
    oldest: int | None = None
    for _, fragment in domain.fragments:
        own = find_computed_table(version, fragment.table)
        at = find_next_boundary(version, fragment.table)
        if own is not None and at is not None and at <= stop:
            oldest = at if oldest is None else min(oldest, at)
        for name in domain.dependencies[fragment.table]:
            if own is not None and name in version.tables:
                change = version.tables[name].find_first_change(own.committed_epoch)
                if change is not None and change <= stop:
                    oldest = change if oldest is None else min(oldest, change)
    return oldest


def _find_hold_reasons(version: Version, stored: StoredCatalog, request: FlushRequest) -> dict[str, str]:
    """Return why each domain that is not due waits; what somebody asks for by hand waits for the end of a rest only, and not
    even for that where it is asked for by its name.
    """
    if request.eager and not list_resting_views(stored):
        return {}
    waiting = list_waits(version, stored, request.now)
    if not request.eager:
        return {w.domain: w.reason for w in waiting if not w.goes_on}
    named = _resolve_views(version, stored, request)
    of = {name: set(domain.members) for name, domain in list_domains(stored).items()}
    return {w.domain: w.reason for w in waiting if w.kind == "refresh" and named.isdisjoint(of[w.domain])}


def _resolve_views(version: Version, stored: StoredCatalog, request: FlushRequest) -> frozenset[str]:
    """Return the views that a run was asked for by name, with the successors that they have in the version that it runs over."""
    asked = {stored.catalog.get(view).name for view in request.views or ()}
    successions = list_successions(version) if asked else {}
    return frozenset(asked.union(one.successor for view, one in successions.items() if view in asked))


def _collect_upstreams(everything: Mapping[str, Domain], views: Collection[str]) -> list[str]:
    """Return the domains of `views` and all that they read, inputs first."""
    of = {owner: name for name, domain in everything.items() for owner in domain.members}
    needed: set[str] = set()
    queue = [of[name] for name in views if name in of]
    while queue:
        name = queue.pop()
        if name not in needed:
            needed.add(name)
            queue += everything[name].upstreams
    return [name for name in everything if name in needed]
