"""What a command works on: the store that was named, a session over it, and the Spark that is there already."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from engine.errors import EnvironmentNotReady, UnknownStore

if TYPE_CHECKING:
    from engine.hummock import Hummock
    from engine.session import Session
    from engine.sql.dialect import Dialect


def get_state_folder() -> Path:
    """Return `.tideline` of TIDELINE_HOME, else of the working folder."""
    return Path(os.environ.get("TIDELINE_HOME") or ".").expanduser().resolve() / ".tideline"


def get_default_store() -> str:
    """Return TIDELINE_STORE, or the store in the project folder."""
    return os.environ.get("TIDELINE_STORE") or (get_state_folder() / "store").as_uri()


def choose_store(store: str) -> str:
    """Return the address of the store that is named, else of the default; with TIDELINE_BRANCH of that branch of it."""
    from engine.hummock.object_store.branch import add_branch

    return add_branch(store or get_default_store(), os.environ.get("TIDELINE_BRANCH", ""))


def make_store(store: str) -> str:
    """Create the store that is named, else the default, or check that it opens; returns one line about it."""
    from engine.hummock import Commit, Hummock

    make_state_folder(store)
    with Hummock.open(choose_store(store)) as made:
        _require_branch(made)
        if not made.version.number:
            made.commit(Commit())  # so that it is there, and other commands find it
        return f"store {made.url}: {len(made.version.tables)} tables"


def make_state_folder(store: str) -> None:
    """Create `.tideline`, for its user alone, where the store is to be in it."""
    if not store and get_default_store() == (get_state_folder() / "store").as_uri():
        get_state_folder().mkdir(mode=0o700, parents=True, exist_ok=True)


def open_store(store: str) -> Hummock:
    """Open the store that is named, else the default; raises UnknownStore if there is none."""
    from engine.hummock import Hummock
    from engine.hummock.object_store.branch import split_branch_url

    url = choose_store(store)
    try:
        found = Hummock.open(url, create=False)
    except UnknownStore as error:
        if split_branch_url(url)[1]:
            raise
        raise UnknownStore(
            f"there is no store at {url}: `tideline init` makes one, --store or TIDELINE_STORE names another"
        ) from error
    try:
        _require_branch(found)
    except UnknownStore:
        found.close()
        raise
    return found


def _require_branch(store: Hummock) -> None:
    """Raise UnknownStore for a store that is none though TIDELINE_BRANCH is set: its own address ends as that of a branch."""
    name = os.environ.get("TIDELINE_BRANCH", "")
    if name and not store.is_branch:
        raise UnknownStore(
            f"{store.url} is a store of its own, and not branch {name} of one: unset TIDELINE_BRANCH to work on it, or take "
            f"--store {store.url}/branch/{name}"
        )


def report_progress(text: str) -> None:
    """Say what takes time beside the results, where a person looks on."""
    typer.echo(text, err=True)


def open_session(
    store: str,
    spark: str = "",
    dialect: Dialect = "spark",
    say: Callable[[str], None] = report_progress,
    *,
    alone: bool = False,
) -> Session:
    """Return a session over a store that exists; Spark, if it comes to that, is the one that runs beside the project.

    `alone`: with a session of Spark's own that nobody else uses.
    """
    with open_store(store) as found:
        url = found.url
    from engine.cli.quiet_spark import start_spark
    from engine.session import Session

    return Session(url, lambda: start_spark(spark or find_running_spark(url, say, alone=alone)), dialect)


@contextmanager
def open_compaction_session(store: str, spark: str) -> Iterator[tuple[Session, bool]]:
    """Give a session over a store that exists, and whether a Spark was named for it or runs beside the project: none is started
    for want of one.
    """
    with open_store(store) as found:
        url = found.url
    from engine.cli.quiet_spark import start_spark
    from engine.session import Session

    target = spark or find_running_spark(url, lambda text: None)
    with Session(url, lambda: start_spark(target)) as running:
        yield running, target is not None


def find_running_spark(store: str, say: Callable[[str], None], *, alone: bool = False) -> str | None:
    """Return the address of the Spark to run on, None for one to be started here; `say` gets the reason why one is started."""
    if address := os.environ.get("SPARK_REMOTE"):
        return address
    from engine.runtime.spark.connect import find_server

    state = get_state_folder()
    try:
        warm = find_server(state)
    except EnvironmentNotReady as error:
        say(f"note: {error}; starting a Spark here, which takes some seconds")
        return None
    if warm is None:
        say("starting Spark, which takes some seconds; while `make up` runs, its Spark is used")
        return None
    if not warm.serves(store):
        say("note: the Spark of `make up` serves another store; starting one here, which takes some seconds")
        return None
    return (msgspec.structs.replace(warm, session=str(uuid.uuid4())) if alone else warm).address
