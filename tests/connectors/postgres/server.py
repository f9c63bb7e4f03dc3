"""A PostgreSQL of the tests' own, with logical decoding, started when a test first asks for it."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PASSWORD_VARIABLE = "TIDELINE_TESTS_PG_PASSWORD"
PASSWORD = "no-secret-of-anybody"
SETTINGS = "-c wal_level=logical -c fsync=off -c max_replication_slots=400 -c max_connections=60 -c unix_socket_directories="


@dataclass(frozen=True)
class Database:
    """An empty database, and the options of a table that follows one of its tables."""

    port: int
    name: str

    def connect(self, **options: Any) -> Any:
        """Return a connection, in which each statement is a transaction."""
        psycopg = importlib.import_module("psycopg")
        given = {"user": "tideline", "password": PASSWORD, "autocommit": True, **options}
        return psycopg.connect(host="127.0.0.1", port=self.port, dbname=self.name, **given)

    def run(self, *texts: str) -> None:
        """Run statements, each as a transaction."""
        with self.connect() as connection:
            for text in texts:
                connection.execute(text)

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        """Return the answer to a query."""
        with self.connect() as connection:
            return list(connection.execute(text).fetchall())

    def options(self, table: str, **more: str) -> str:
        """Return the WITH clause of a table; the slot and the publication have the database's name."""
        texts = {
            "connector": "postgres-cdc",
            "hostname": "127.0.0.1",
            "port": str(self.port),
            "database": self.name,
            "username": "tideline",
            "password_variable": PASSWORD_VARIABLE,
            "table": table,
            "slot": self.name,
            "publication": "tideline",
            **more,
        }
        return ", ".join(f"{name} = '{value}'" for name, value in texts.items())


@dataclass(frozen=True)
class PostgresProgram:
    """A server that runs."""

    port: int
    programs: Path
    folder: Path
    user: int | None
    group: int | None

    def control(self, *arguments: str) -> None:
        """Call pg_ctl."""
        data = str(self.folder / "data")
        _run(self, "pg_ctl", "-D", data, "-l", str(self.folder / "log"), "-w", *arguments)

    def create_database(self) -> Database:
        """Return an empty database."""
        name = f"t_{uuid.uuid4().hex[:16]}"
        Database(self.port, "postgres").run(f"CREATE DATABASE {name}")
        return Database(self.port, name)


@functools.cache
def _start() -> PostgresProgram | str:
    """Return the server of this process, or why there is none."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed: `make postgres` does it"
    found = [Path(path).parent for path in [shutil.which("initdb")] if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        return "there is no PostgreSQL on this machine: install the system's package `postgresql`"
    user = None
    if os.geteuid() == 0:  # which PostgreSQL refuses to run as
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            return "PostgreSQL does not run as root, and this machine has no user `postgres`"
    folder = Path(tempfile.mkdtemp(prefix="tideline-postgres-"))
    secret = folder / "password"
    secret.write_text(PASSWORD)
    if user is not None:
        for path in (folder, secret):
            os.chown(path, user.pw_uid, user.pw_gid)
    ids = (None, None) if user is None else (user.pw_uid, user.pw_gid)
    program = PostgresProgram(_find_free_port(), found[-1], folder, *ids)
    data = str(folder / "data")
    first = ("-U", "tideline", "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync", "-E", "UTF8")
    _run(program, "initdb", "-D", data, *first)
    program.control("-o", f"-p {program.port} -c listen_addresses=127.0.0.1 {SETTINGS}", "start")
    os.environ[PASSWORD_VARIABLE] = PASSWORD
    return program


def _find_free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _run(program: PostgresProgram, name: str, *arguments: str) -> None:
    subprocess.run(
        [program.programs / name, *arguments],
        user=program.user,
        group=program.group,
        cwd=program.folder,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=120,
    )


def stop_server() -> None:
    """Stop the server of this process, if one was started."""
    program = _start() if _start.cache_info().currsize else ""
    if isinstance(program, PostgresProgram):
        program.control("-m", "immediate", "stop")
        shutil.rmtree(program.folder, ignore_errors=True)


def get_server() -> PostgresProgram:
    """Return the server of this process; skips the test that asks where there can be none."""
    found = _start()
    if isinstance(found, str):
        pytest.skip(found)
    return found
