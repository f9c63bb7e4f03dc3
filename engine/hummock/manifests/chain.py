"""The chain of manifests as one process follows it and adds to it by creating the next number if absent."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import OrderedDict, deque
from collections.abc import Container, Iterable, Iterator, Sequence

import msgspec

from engine.errors import (
    BranchDropped,
    CommitTimeout,
    CommitUncertain,
    Conflict,
    CorruptObject,
    StorageError,
    StorageFull,
)
from engine.hummock.epoch import Clock
from engine.hummock.manifests.commit_lock import acquire_commit_lock
from engine.hummock.manifests.delta import Delta, apply_delta, rebase
from engine.hummock.manifests.manifest import (
    CHECKPOINT_EVERY,
    Manifest,
    check_checkpoint,
    decode_manifest,
    encode_deltas,
    encode_manifest,
    manifest_path,
)
from engine.hummock.manifests.manifest_reader import (
    BOUNDARY_PATH,
    HINT_EVERY,
    HINT_PATH,
    ManifestReader,
    apply_all,
)
from engine.hummock.metrics import Counters, pack_requests
from engine.hummock.object_store import ObjectStore
from engine.hummock.version import Commit, Version
from engine.verification import should_verify

COMMIT_SECONDS = 60.0
TRUSTED_SECONDS = 5.0
"""A base that was the newest this short a time ago cannot have been collected: manifests live
RETAINED_SECONDS at least.
"""
RETAINED_SECONDS = 600.0
UNWATCHED_SECONDS = 300.0
TOGETHER = 64
"""How many commits of threads share a manifest at most."""
MOST_MADE = 4096
TAIL_BYTES = 1 << 16
PAUSE_SECONDS = 0.5
MOST_RIVALS = 16


class Ticket:
    """A commit that waits for its manifest: the version that begins with it, or the error that refused it."""

    def __init__(self, commit: Commit, deadline: float) -> None:
        self.commit, self.deadline = commit, deadline
        self.commit_id = uuid.uuid4().hex
        self.lost = 0
        self.follows: Ticket | None = None
        """The one that it was made over: where that is refused, so is this."""
        self.unanswered: int | None = None
        """The manifest that was sent with it and is neither there nor another's: it may still arrive."""
        self._version: Version | None = None
        self._error: BaseException | None = None

    @property
    def is_settled(self) -> bool:
        """Whether there is an outcome."""
        return self._version is not None or self._error is not None

    @property
    def is_rejected(self) -> bool:
        """Whether it is not committed, and will not be."""
        return self._error is not None

    def mark_committed(self, version: Version) -> None:
        """It is committed."""
        self._version, self.follows = version, None  # else the newest would keep all that were ever before it

    def reject(self, error: BaseException) -> None:
        """It is not committed; or nobody can tell, where an answer is missing."""
        if self.unanswered is not None and isinstance(error, Exception):
            uncertain = CommitUncertain(
                f"the store did not answer whether {manifest_path(self.unanswered)} was created: {error}; the commit is there "
                f"as a whole or not at all: read what it wrote before writing it again"
            )
            uncertain.__cause__ = error
            error = uncertain
        self._error, self.follows = error, None

    def result(self) -> Version:
        """Return the version, or raise the error."""
        if self._error is not None:
            raise self._error
        assert self._version is not None
        return self._version


class ManifestChain:
    """The newest version as far as this process knows, and the loop that adds to it; safe for threads."""

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        counters: Counters | None = None,
        manifests: ManifestReader | None = None,
    ) -> None:
        self._store, self._clock = store, clock
        self._counters = counters or Counters()
        self._lock = threading.RLock()
        self._waiting: deque[Ticket] = deque()
        self._manifests = manifests or ManifestReader(store, clock)
        self._tail: list[bytes] = []
        self.made: OrderedDict[str, int] = OrderedDict()
        """The manifests of the newest commits of this process, by commit id; written before the version that holds them."""
        self._answered = True
        self._contention, self._try_seconds = 0.0, 0.01
        self._version = Version()
        self.known_at = self._clock.monotonic()
        """The second of the timer at which `version` was the newest for certain."""
        self._open()

    @property
    def version(self) -> Version:
        """The newest version known, without I/O."""
        return self._version

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever committed."""
        return self._version.number == 0

    def refresh(self, seconds: float = 0.0) -> Version:
        """Follow the chain to its end: one GET where nothing is new, never a LIST; none where one did `seconds` ago or less.

        A commit that another thread makes meanwhile brings the news as well.
        """
        with self._lock:
            requested_at = self._clock.monotonic()
            if seconds and requested_at - self.known_at < seconds:
                return self._version
            unwatched = requested_at - self.known_at > UNWATCHED_SECONDS
            try:
                version, read = self._manifests.follow(self._version)
            except CorruptObject:  # some of what follows is kept for branches, the rest was collected
                if self._manifests.read_boundary() <= self._version.number:
                    raise
                self._open()
                return self._version
            if unwatched and self._manifests.read_boundary() > version.number:
                self._open()  # what followed was collected while nobody looked
                return self._version
            if unwatched:
                self._manifests.check_kept()
            if read:
                self._remember(read[-1], map(bytes, read[-1].tail))
            self._version, self.known_at = version, requested_at
            return self._version

    def commit(self, commit: Commit) -> Version:
        """Add `commit` to the chain and return the version that begins with it.

        Commits that threads ask for while another is under way share the next manifest, each with its own epoch and
        outcome. On a race lost to another process all are rebased on the winner and tried again. Raises what the
        invariants raise, CommitTimeout after 60 s of lost races, Unavailable if the store does not answer, and
        CommitUncertain if it stopped answering when the manifest had been sent.
        """
        ticket = Ticket(commit, self._clock.monotonic() + COMMIT_SECONDS)
        self._waiting.append(ticket)
        try:
            with self._lock:
                while not ticket.is_settled:
                    self._commit_waiting()
        finally:
            with contextlib.suppress(ValueError):  # who got an error must not be committed by the next thread
                self._waiting.remove(ticket)
        return ticket.result()

    def commit_all(self, tickets: Sequence[Ticket]) -> None:
        """Add commits to the chain in their order, in as few manifests as hold them; each ticket then has its outcome."""
        deadline = self._clock.monotonic() + COMMIT_SECONDS
        for ticket in tickets:
            ticket.deadline = deadline
        self._waiting.extend(tickets)
        with self._lock:
            while not all(ticket.is_settled for ticket in tickets):
                self._commit_waiting()

    def _commit_waiting(self) -> None:
        """Commit what waits, oldest first, in one manifest."""
        folder = self._store.local_path("manifest")
        with acquire_commit_lock(folder, self._clock, 2 * self._try_seconds) as waited:
            tickets = [self._waiting.popleft() for _ in range(min(TOGETHER, len(self._waiting)))]
            try:
                if waited:
                    self.refresh()
                self._retry_until_settled(tickets)
            except BaseException as error:
                for ticket in tickets:
                    if not ticket.is_settled:
                        ticket.reject(error)
                if not isinstance(error, Exception):
                    raise

    def _retry_until_settled(self, tickets: list[Ticket]) -> None:
        """Attempt until each ticket is won, refused, or late."""
        lost = 0
        if self._contention > 1:  # let those go first that have lost races already
            self._clock.sleep(self._choose_pause(0))
            self.refresh()
        while tickets and not self._try_commit(tickets):
            lost += 1
            self._counters.add("rebases")
            self._give_up_late(tickets)
            tickets = [ticket for ticket in tickets if not ticket.is_settled]
            self._clock.sleep(self._choose_pause(lost))
        self._contention += (min(lost, MOST_RIVALS) - self._contention) / 4

    def _try_commit(self, tickets: Sequence[Ticket]) -> bool:
        """Try to create the next manifest; whether every ticket has its outcome then."""
        base, version = self._version, self._version
        placed: dict[str, Ticket] = {}
        deltas: list[Delta] = []
        for ticket in tickets:
            if ticket.is_settled:
                continue
            if ticket.follows is not None and ticket.follows.is_rejected:
                ticket.reject(Conflict("the commit that it builds on was refused"))
                continue
            try:
                delta = rebase(ticket.commit, version, ticket.commit_id, self._clock(), base.number + 1)
                version = apply_delta(version, delta)
            except Exception as error:
                ticket.reject(error)
            else:
                placed[delta.commit_id] = ticket
                deltas.append(delta)
        if not placed:
            return True
        spent, passed = self._counters.count_unreported(), self._counters.count_unreported_bytes()
        deltas[0] = msgspec.structs.replace(deltas[0], requests=pack_requests(spent), passed=passed)
        data = self._encode(deltas, version)
        visible = base
        unanswered = {ticket: ticket.unanswered for ticket in placed.values()}
        for ticket in placed.values():
            ticket.unanswered = version.number
        try:
            created = self._create_manifest(deltas, version, data)
        except (StorageFull, BranchDropped):  # that is an answer: it was not created, or withdrawn
            for ticket, before in unanswered.items():
                ticket.unanswered = before
            raise
        if created:
            self._counters.mark_reported(spent)
            self._counters.mark_bytes_reported(passed)
        for delta in created:
            visible = apply_delta(visible, delta)
            won = placed.pop(delta.commit_id, None)
            if won is not None:  # else it got an error when an answer was missing
                won.mark_committed(visible)
                self._counters.count_commit(won.commit)
        if self._answered or self._version.number >= version.number:  # taken: nothing can arrive late
            for ticket in placed.values():
                ticket.unanswered = None
        return not placed

    def _create_manifest(self, deltas: Sequence[Delta], version: Version, data: bytes) -> Sequence[Delta]:
        """Create the manifest `data` of `deltas`, which lead to `version`; return those of them that are committed."""
        known_at, path = self.known_at, manifest_path(version.number)
        started = self._clock.monotonic()
        won = self._store.put_if_absent(path, data)
        self._answered = won is not None
        if won:
            self._try_seconds += (self._clock.monotonic() - started - self._try_seconds) / 4
        else:
            if won is None:
                self._counters.add("ambiguous")
            winner = self._manifests.get(version.number)
            if winner is None:
                if won is False:  # it was there and is not now: collected, so this process is far behind
                    self._open()
                return ()
            if not {delta.commit_id for delta in winner.deltas} & {delta.commit_id for delta in deltas}:
                if self._is_collected(version.number, known_at):
                    self._open()  # kept for a branch, while what follows it was collected
                    return ()
                self._version = apply_all(self._version, winner.deltas)
                self._remember(winner, map(bytes, winner.tail))
                self.known_at = self._clock.monotonic()
                self.refresh()
                return ()
            # ours, of this try or of an earlier one whose answer was lost
            deltas, version = winner.deltas, apply_all(self._version, winner.deltas)
        if self._is_collected(version.number, known_at):
            self._store.delete([path])
            self._open()
            return ()
        if self._clock.monotonic() - known_at > UNWATCHED_SECONDS:
            self._check_kept(path, deltas[-1])
        for delta in deltas:
            self.made[delta.commit_id] = version.number
        while len(self.made) > MOST_MADE:
            self.made.popitem(last=False)
        self._version = version
        self._remember(Manifest(deltas[0], more=tuple(deltas[1:])), self._tail)
        self.known_at = self._clock.monotonic()
        if version.number % HINT_EVERY == 0:
            with contextlib.suppress(StorageError):  # it saves requests and is never needed
                self._store.put(HINT_PATH, str(version.number).encode())
        return deltas

    def _is_collected(self, number: int, known_at: float) -> bool:
        """Whether a manifest is below the boundary, of which its base may not know; it may be there yet, kept for a branch."""
        trusted = self._clock.monotonic() - known_at <= TRUSTED_SECONDS
        return not trusted and number <= self._manifests.read_boundary()

    def _check_kept(self, path: str, delta: Delta) -> None:
        """Raise BranchDropped for a branch that is no more; a manifest that was created where its end has been is withdrawn."""
        try:
            self._manifests.check_kept()
        except BranchDropped:
            if not delta.closed and self._manifests.get(delta.number + 1) is None:
                self._store.delete([path])
            raise

    def _encode(self, deltas: Sequence[Delta], version: Version) -> bytes:
        data = encode_manifest(deltas, version, self._tail)
        if version.number % CHECKPOINT_EVERY == 0 and should_verify():
            check_checkpoint(version, decode_manifest(data, manifest_path(version.number)))
        return data

    def _give_up_late(self, tickets: Sequence[Ticket]) -> None:
        now = self._clock.monotonic()
        for ticket in tickets:
            ticket.lost += 1
            if now > ticket.deadline:
                ticket.reject(
                    CommitTimeout(
                        f"the commit lost {ticket.lost} races in {COMMIT_SECONDS:.0f} s; the store is at manifest "
                        f"{self._version.number}: commit fewer, larger batches, or from fewer processes"
                    )
                )

    def _choose_pause(self, lost: int) -> float:
        """A random wait before a try: as long as the rivals' tries may take, shorter the more races are lost, so that
        the oldest commit goes first and every process gets its turn.
        """
        most = 4 * self._try_seconds * max(self._contention, lost) / (1 + lost)
        return self._clock.jitter(min(most, PAUSE_SECONDS))

    def _remember(self, manifest: Manifest, before: Iterable[bytes]) -> None:
        """Keep the deltas since the last checkpoint, `before` and the manifest's own, for the tails of those to come."""
        if manifest.number % CHECKPOINT_EVERY == 0:
            self._tail = []
            return
        tail = [*before, encode_deltas(manifest.deltas)]
        while sum(map(len, tail)) > TAIL_BYTES:
            tail.pop(0)
        self._tail = tail

    def list_recent_deltas(self) -> list[Delta]:
        """Return the newest deltas, oldest first: of a few commits to some hundred, in two GETs."""
        number = self._version.number
        newest = self._manifests.get(number)
        if newest is None:
            return []
        found, start = newest.list_deltas_since(newest.reaches_back_to), newest.reaches_back_to
        before = self._manifests.get(start) if start else None
        return found if before is None else before.list_deltas_since(before.reaches_back_to) + found

    def iterate_deltas(self) -> Iterator[Delta]:
        """Yield the deltas of all commits that are stored, newest first; a GET for each manifest's tail of some dozens."""
        number = self._version.number
        while number and (manifest := self._manifests.get(number)) is not None:
            yield from reversed(manifest.list_deltas_since(manifest.reaches_back_to))
            number = manifest.reaches_back_to

    def read_version(self, number: int) -> Version:
        """Return the version after an older manifest that is kept for a branch; a few GETs."""
        return self._manifests.read_version(number)

    def find_version(self, number: int) -> Version | None:
        """Return the version after a manifest, None if it is not stored any more; a few GETs."""
        return self._manifests.find_version(number)

    def list_numbers(self) -> list[int]:
        """Return the numbers of the manifests that are stored, ascending; a LIST."""
        return self._manifests.list_numbers(0)

    def collect(self, upto: int, kept: Container[int] = ()) -> int:
        """Delete the manifests up to `upto`, but those `kept`, after advancing the durable boundary; return how many."""
        doomed = [number for number in self.list_numbers() if number <= upto and number not in kept]
        if doomed:
            self._advance_boundary(upto)
            self._store.delete([manifest_path(number) for number in doomed])
            self._advance_boundary(
                upto
            )  # another collector may have put a lower one over it at the same moment
        return len(doomed)

    def _advance_boundary(self, upto: int) -> None:
        while self._manifests.read_boundary() < upto:
            self._store.put(BOUNDARY_PATH, str(upto).encode())

    def _open(self) -> None:
        version, manifest, requested_at = self._manifests.open()
        self._tail = []
        if manifest is not None:
            self._remember(manifest, map(bytes, manifest.tail))
        self._version, self.known_at = version, requested_at
