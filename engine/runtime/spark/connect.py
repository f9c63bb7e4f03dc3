"""A Spark Connect server on this machine: how it is found, and the token without which it refuses."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import stat
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from engine.errors import EnvironmentNotReady
from engine.hummock.object_store.branch import split_branch_url
from engine.spark_internals import has_own_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = "spark.json"
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # Spark's own name: server and client read it
LOOPBACK = "127.0.0.1"
LOOPBACK_NAMES = ("localhost", LOOPBACK)
PROXY_VARIABLES = ("grpc_proxy", "https_proxy", "http_proxy")  # as gRPC reads them
ANSWER_SECONDS = 5.0


class WarmSpark(msgspec.Struct, frozen=True):
    """A server that runs for a project: its process and port, the token it wants, the session of prompts, the store it serves."""

    process: int
    port: int
    token: str
    session: str
    store: str

    @property
    def address(self) -> str:
        """Where `connect` reaches it; holds the token: never print it, nor hand it to a command line."""
        return f"sc://localhost:{self.port}/;session_id={self.session};token={self.token}"

    def __repr__(self) -> str:
        return f"WarmSpark(process={self.process}, port={self.port}, store={self.store!r})"

    def serves(self, store: str) -> bool:
        """Tell whether a store can be computed on there: a folder can, a bucket's credentials are those of its own store, which
        are those of its branches.
        """
        own, asked = (split_branch_url(url.rstrip("/"))[0] for url in (self.store, store))
        return own == asked or store.startswith("file:")


def announce_server(state: Path, warm: WarmSpark) -> Path:
    """Write where the server is, for this user alone, and return the file."""
    path = state / FILE
    partial = state / f".{FILE}.{os.getpid()}"
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(warm))
    partial.replace(path)
    return path


def find_server(state: Path) -> WarmSpark | None:
    """Return the server of a project, None if none was announced.

    Raises EnvironmentNotReady if the file is not this user's alone, cannot be read, or tells of a server that is gone.
    """
    path = state / FILE
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EnvironmentNotReady(f"{path} cannot be read ({error.strerror}): remove it") from None
    with os.fdopen(descriptor, "rb") as file:
        file_stat = os.fstat(file.fileno())
        # Whoever can write it could send our statements to a server of their own.
        if file_stat.st_uid != os.getuid() or file_stat.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise EnvironmentNotReady(f"{path} is open to other users of this machine: remove it")
        try:
            warm = msgspec.json.decode(file.read(), type=WarmSpark)
        except msgspec.MsgspecError:
            raise EnvironmentNotReady(f"{path} names no Spark: remove it") from None
    if not (_is_alive(warm.process) and _is_listening(warm.port)):
        raise EnvironmentNotReady(f"the Spark that {path} names is gone: `make up` starts another one")
    return warm


class ServerSessions:
    """The sessions of servers that one process has: one for each address, and those that were cloned of them."""

    def __init__(self) -> None:
        self._sessions: dict[str, SparkSession] = {}
        """Those that this process has made itself: one that somebody else has made keeps its settings."""
        self._open: weakref.WeakSet[SparkSession] = weakref.WeakSet()

    def connect(self, address: str) -> SparkSession:
        """Return the session of the server at `sc://host:port/…`; on loopback its token goes without TLS, to loopback only.

        Raises EnvironmentNotReady if nobody answers, if the server refuses the token or its absence, or if this process has a
        Spark of its own.
        """
        known = self._sessions.get(address)
        if known is not None and not known.is_stopped:  # type: ignore[attr-defined]  # it is one of Connect, which has that
            return known
        session = self._sessions[address] = _create_session(address)
        self.close_at_exit(session)
        return session

    def close_at_exit(self, session: SparkSession) -> None:
        """Close a session's channel to its server when this process ends.

        Left to the interpreter's very end it would wait for ever where an answer was under way: by then its thread is gone.
        """
        if not self._open:
            atexit.register(self._close_all)
        self._open.add(session)

    def _close_all(self) -> None:
        for session in tuple(self._open):
            with contextlib.suppress(Exception):  # it was closed, or its server is gone
                session.client.close()


SERVERS = ServerSessions()


def _create_session(address: str) -> SparkSession:
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    class LoopbackChannel(DefaultChannelBuilder):
        """Spark's own builder sends a token without TLS to the name localhost, which may be another's port at ::1."""

        def toChannel(self) -> grpc.Channel:
            if self.token is None or self.use_ssl or self.host not in LOOPBACK_NAMES:
                return super().toChannel()
            token = grpc.access_token_call_credentials(self.token)
            credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), token)
            return self._secure_channel(f"{LOOPBACK}:{self.endpoint.rpartition(':')[2]}", credentials)

    try:
        channel = LoopbackChannel(address)
    except (PySparkException, ValueError) as error:  # of a port that is no number
        raise EnvironmentNotReady(
            f'"{hide_token(address)}" is no address of a Spark Connect server: write sc://host:port'
        ) from error
    if has_own_spark():
        raise EnvironmentNotReady(
            f"this process runs a Spark of its own, so it cannot use that at {hide_token(address)}: stop it first"
        )
    proxy = channel.host not in LOOPBACK_NAMES and any(name in os.environ for name in PROXY_VARIABLES)
    if not proxy and not _is_responding(channel.endpoint):  # pyspark would ask it again for minutes
        raise EnvironmentNotReady(f"no Spark answers at {hide_token(address)}: start it, or name another")
    # as Spark's own builder does: functions are those of Connect
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    running = RemoteSession.builder.channelBuilder(channel).create()
    try:
        running.version  # noqa: B018 - the first request, with which a server refuses
    except PySparkException as error:
        if not _is_refused(error):
            raise
        raise EnvironmentNotReady(
            f"Spark at {hide_token(address)} refuses: it wants another token. Set {TOKEN_VARIABLE} to that of the server"
        ) from None
    return cast("SparkSession", running)


def hide_token(address: str) -> str:
    """Return an address as it may be shown."""
    host, _, parameters = address.partition(";")
    public = [one for one in parameters.split(";") if one and not one.startswith("token=")]
    return ";".join([host, *public])


def _is_refused(error: Exception) -> bool:
    text = str(error)
    return "UNAUTHENTICATED" in text or "authentication token" in text.lower()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def _is_listening(port: int) -> bool:
    return _is_responding(f"{LOOPBACK}:{port}")


def _is_responding(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS):
            return True
    except OSError:
        return False
